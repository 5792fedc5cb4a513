/* Vertebra: sums of the update kernels, in double and in a fixed order. */
/* The sum of x over the block; every thread gets it. lanes: a double a thread. */
template <int THREADS, class P> VTB_FN double vtb_block_sum(P lanes, double x) {
  vtb_sync();
  lanes[vtb_tid()] = x;
  VTB_UNROLL for (int half = THREADS / 2; half > 0; half /= 2) {
    vtb_sync();
    if (vtb_tid() < half) lanes[vtb_tid()] += lanes[vtb_tid() + half];
  }
  vtb_sync();
  return lanes[0];
}
/* The sum of parts that pieces [from, from + n) have left: number `at` of `each` a piece. */
template <int THREADS, class P, class Q>
VTB_FN double vtb_sum_parts(P lanes, Q parts, int from, int n, int each, int at) {
  double sum = 0.0;
  for (int i = vtb_tid(); i < n; i += THREADS) sum += parts[(vtb_i64)(from + i) * each + at];
  return vtb_block_sum<THREADS>(lanes, sum);
}

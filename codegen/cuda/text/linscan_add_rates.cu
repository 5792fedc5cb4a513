/* dA [h, K, V] of a direction: the batch entries' parts [B, h, direction, K, V] in order. */
hole int K, V, BATCH, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole expr da_at;                 /* offset for h, key and x */
constexpr int COUNT = K * V, BLOCKS = (COUNT + THREADS - 1) / THREADS;
cost issue = THREADS / 32 * (30 + 4 * BATCH);
cost registers = 32;
const int scan = vtb_block() / BLOCKS, dir = scan % DIRS, h = scan / DIRS % HEADS;
${directions}
const int i = vtb_block() % BLOCKS * THREADS + vtb_tid();
if (i < COUNT) {
  const int x = i % V, key = i / V;
  da[${da_at}] =
      vtb_sum_apart(rates, (vtb_i64)scan * COUNT + i, (vtb_i64)DIRS * HEADS * COUNT, BATCH);
}

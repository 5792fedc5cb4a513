/* y_t = x_1 + ... + x_t in double. LANES lanes share a sequence, PIECE tokens each: a scan over the
 * lanes' sums tells each what enters it. Between lanes a sum travels as two floats, its head and
 * what the head leaves over. */
hole int N, REST;        /* tokens; elements behind the tokens' axis */
hole int SEQUENCES;      /* elements before the tokens' axis times REST */
hole int LANES, PIECE;   /* of a sequence; tokens a lane */
hole int THREADS;
hole int REVERSE, EXCLUSIVE;
hole expr place;         /* of step t */
hole expr x_at, y_at;    /* offsets for b, pos and r */
hole expr wrap;          /* of a double s */
cost issue = THREADS / 32 * (40 * PIECE + 100);
cost chain = 100 * PIECE + 300;
const int sequence = (vtb_block() * THREADS + vtb_tid()) / LANES, lane = vtb_tid() % LANES;
const bool real = sequence < SEQUENCES;
const int b = real ? sequence / REST : 0, r = real ? sequence % REST : 0;
const int t0 = lane * PIECE, t1 = real ? vtb_min_int(t0 + PIECE, N) : t0;
auto place = [&](int step) -> int {
  const int t = REVERSE ? N - 1 - step : step;
  return ${place};
};
auto given = [&](vtb_i64 pos) -> double { return x[${x_at}]; };
auto wrapped = [&](double s) -> double { return ${wrap}; };
auto from_below = [&](double s, int by) -> double {
  const float head = (float)s, rest = (float)(s - head);
  return (double)vtb_shfl_up(head, by) + (double)vtb_shfl_up(rest, by);
};

double sum = 0.0;
if (LANES > 1) {
  double own = 0.0;
  for (int t = t0; t < t1; t++) own = wrapped(own + given(place(t)));
  VTB_UNROLL for (int by = 1; by < 32; by *= 2) {
    const double below = from_below(own, by);
    if (lane >= by) own = wrapped(own + below);
  }
  sum = from_below(own, 1);
  if (lane == 0) sum = 0.0;
}
for (int t = t0; t < t1; t++) {
  const vtb_i64 pos = place(t);
  const double before = sum;
  sum = wrapped(sum + given(pos));
  y[${y_at}] = (float)(EXCLUSIVE ? before : sum);
}

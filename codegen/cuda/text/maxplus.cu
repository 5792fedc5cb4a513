/* m_t = max(m_{t-1} + g_t, i_t). LANES lanes share a sequence, PIECE tokens each. A piece maps what enters it, m, to
 * max(m + sum, top); pieces compose, so a scan over the lanes tells each what enters. */
hole int N, REST;        /* tokens; elements behind the tokens' axis */
hole int SEQUENCES;      /* batch entries times REST */
hole int LANES, PIECE;   /* of a sequence; tokens a lane */
hole int THREADS;
hole expr place;         /* of step t */
hole code gate, gain;    /* return g and i for b, pos and r */
hole code first;         /* returns m before the first token */
hole code put;           /* stores what there is of m, gate_t, gain_t; of `before`, m of step t - 1 */
cost issue = THREADS / 32 * (40 * PIECE + 100);
cost chain = 100 * PIECE + 300;
const int sequence = (vtb_block() * THREADS + vtb_tid()) / LANES, lane = vtb_tid() % LANES;
const bool real = sequence < SEQUENCES;
const int b = real ? sequence / REST : 0, r = real ? sequence % REST : 0;
const int t0 = lane * PIECE, t1 = real ? vtb_min_int(t0 + PIECE, N) : t0;
auto place = [&](int t) -> int { return ${place}; };
auto gate = [&](int pos) -> float {${gate}};
auto gain = [&](int pos) -> float {${gain}};
auto first = [&]() -> float {${first}};

float m = first();
if (LANES > 1) {
  float sum = 0.0f, top = -VTB_INF;
  for (int t = t0; t < t1; t++) {
    const int pos = place(t);
    const float x = gate(pos);
    sum += x;
    top = vtb_max(top + x, gain(pos));
  }
  VTB_UNROLL for (int by = 1; by < 32; by *= 2) {
    const float sum_below = vtb_shfl_up(sum, by), top_below = vtb_shfl_up(top, by);
    if (lane >= by) {
      top = vtb_max(top_below + sum, top);
      sum += sum_below;
    }
  }
  const float sum_before = vtb_shfl_up(sum, 1), top_before = vtb_shfl_up(top, 1);
  if (lane > 0) m = vtb_max(m + sum_before, top_before);
}
for (int t = t0; t < t1; t++) {
  const int pos = place(t);
  const float before = m, gate_t = gate(pos), gain_t = gain(pos);
  m = vtb_max(before + gate_t, gain_t);
  ${put}
}

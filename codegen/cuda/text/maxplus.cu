/* m_t = max(m_{t-1} + g_t, i_t). LANES lanes share a sequence, PIECE tokens each. A piece maps what
 * enters it, m, to max(m + sum, top); pieces compose, so a scan over the lanes tells each what
 * enters. */
hole int N, REST;        /* tokens; elements behind the tokens' axis */
hole int SEQUENCES;      /* batch entries times REST */
hole int LANES, PIECE;   /* of a sequence; tokens a lane */
hole int THREADS;
hole bool STAGED;        /* a block's sequences go through shared memory, whose copies run along
                          * memory */
hole int NEAR;           /* of a block's sequences, so many lie side by side */
hole expr place;         /* of step t */
hole code gate, gain;    /* return g and i for b, pos and r */
hole code first;         /* returns m before the first token */
hole code put;           /* stores what there is of m, gate_t, gain_t; of `before`, m of step t -
                          * 1 */
cost issue = THREADS / 32 * (40 * PIECE + 100);
cost chain = 100 * PIECE + 300;
constexpr int SEQS = THREADS / LANES, KEPT = STAGED ? SEQS * N : 1;
shared float gates[KEPT], gains[KEPT], results[KEPT];
const int tid = vtb_tid(), own = tid / LANES * N, sequence = vtb_block() * SEQS + tid / LANES,
          lane = tid % LANES;
const bool real = sequence < SEQUENCES;
int b = real ? sequence / REST : 0, r = real ? sequence % REST : 0;
const int t0 = lane * PIECE, t1 = real ? vtb_min_int(t0 + PIECE, N) : t0;
auto place = [&](int t) -> int { return ${place}; };
auto far_gate = [&](int pos) -> float {${gate}};
auto far_gain = [&](int pos) -> float {${gain}};
auto first = [&]() -> float {${first}};
/* f(place in the block's arrays, token) for all tokens of its sequences, with b and r theirs. */
auto all = [&](auto f) {
  VTB_NO_UNROLL for (int e = tid; e < SEQS * N; e += THREADS) {
    const int own = e / (NEAR * N) * NEAR + e % NEAR, token = e / NEAR % N,
              one = vtb_block() * SEQS + own;
    if (one >= SEQUENCES) continue;
    b = one / REST, r = one % REST;
    f(own * N, token);
  }
};
if constexpr (STAGED) {
  all([&](int at, int pos) { gates[at + pos] = far_gate(pos), gains[at + pos] = far_gain(pos); });
  vtb_sync();
  b = real ? sequence / REST : 0, r = real ? sequence % REST : 0;
}
auto gate = [&](int pos) -> float {
  if constexpr (STAGED)
    return gates[own + pos];
  else
    return far_gate(pos);
};
auto gain = [&](int pos) -> float {
  if constexpr (STAGED)
    return gains[own + pos];
  else
    return far_gain(pos);
};
auto put = [&](int t, int pos, float m, float before, float gate_t, float gain_t) {
  (void)t, (void)before, (void)gate_t, (void)gain_t;
  ${put}
};

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
  if constexpr (STAGED)
    results[own + pos] = m;
  else
    put(t, pos, m, before, gate_t, gain_t);
}
if constexpr (STAGED) {
  vtb_sync();
  all([&](int at, int t) {
    const int pos = place(t);
    put(t, pos, results[at + pos], t > 0 ? results[at + place(t - 1)] : first(), gates[at + pos],
        gains[at + pos]);
  });
}

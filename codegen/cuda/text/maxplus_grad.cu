/* The adjoint of maxplus: r_t = dm_t + (what m_t hands on to later tokens) goes to g_t and on to m_{t-1} where
 * m_{t-1} + g_t > i_t, else to i_t. A piece maps what enters it from behind, r, to sum + (all its tokens kept ? r : 0). */
hole int N, REST;        /* tokens; elements behind the tokens' axis */
hole int SEQUENCES;      /* batch entries times REST */
hole int LANES, PIECE;   /* of a sequence; tokens a lane */
hole int THREADS;
hole expr place;         /* of step t */
hole code gate, gain;    /* return g and i for b, pos and r */
hole code scale, adjoint; /* likewise m and dm */
hole code first;         /* returns m before the first token */
hole code put;           /* stores what there is of to_gate, to_gain, adjoint_t */
hole code put_first; /* stores carry, its adjoint */
cost issue = THREADS / 32 * (40 * PIECE + 100);
cost chain = 100 * PIECE + 300;
const int sequence = (vtb_block() * THREADS + vtb_tid()) / LANES, lane = vtb_tid() % LANES;
const bool real = sequence < SEQUENCES;
const int b = real ? sequence / REST : 0, r = real ? sequence % REST : 0;
const int t0 = lane * PIECE, t1 = real ? vtb_min_int(t0 + PIECE, N) : t0;
auto place = [&](int t) -> int { return ${place}; };
auto gate = [&](int pos) -> float {${gate}};
auto gain = [&](int pos) -> float {${gain}};
auto scale = [&](int pos) -> float {${scale}};
auto first = [&]() -> float {${first}};
auto adjoint = [&](int pos) -> float {${adjoint}};
auto keeps = [&](int t, int pos) -> bool {
  const float before = t > 0 ? scale(place(t - 1)) : first();
  return before + gate(pos) > gain(pos);
};

float carry = 0.0f;
if (LANES > 1) {
  float sum = 0.0f, through = 1.0f;
  for (int t = t1 - 1; t >= t0; t--) {
    const int pos = place(t);
    sum += adjoint(pos);
    if (!keeps(t, pos)) sum = through = 0.0f;
  }
  VTB_UNROLL for (int by = 1; by < 32; by *= 2) {
    const float sum_above = vtb_shfl_down(sum, by), through_above = vtb_shfl_down(through, by);
    if (lane + by < 32) {
      if (through != 0.0f) sum += sum_above;
      through *= through_above;
    }
  }
  carry = vtb_shfl_down(sum, 1);
  if (lane == 31) carry = 0.0f;
}
for (int t = t1 - 1; t >= t0; t--) {
  const int pos = place(t);
  const bool kept = keeps(t, pos);
  const float adjoint_t = adjoint(pos);
  carry += adjoint_t;
  const float to_gate = kept ? carry : 0.0f, to_gain = kept ? 0.0f : carry;
  ${put}
  if (!kept) carry = 0.0f;
}
if (real && lane == 0) {
  ${put_first}
}

/* The adjoint of maxplus: r_t = dm_t + (what m_t hands on to later tokens) goes to g_t and on to m_{t-1} where
 * m_{t-1} + g_t > i_t, else to i_t. A piece maps what enters it from behind, r, to sum + (all its tokens kept ? r : 0). */
constexpr int N = ${N}, REST = ${REST}, SEQUENCES = ${SEQUENCES}, LANES = ${LANES}, PIECE = ${PIECE};
const int sequence = (vtb_block() * 128 + vtb_tid()) / LANES, lane = vtb_tid() % LANES;
const bool real = sequence < SEQUENCES;
const int b = real ? sequence / REST : 0, r = real ? sequence % REST : 0;
const int t0 = lane * PIECE, t1 = real ? vtb_min_int(t0 + PIECE, N) : t0;
auto place = [&](int t) -> int { return ${place}; };
auto m_at = [&](vtb_i64 pos) -> float { return ${m}; };
auto keeps = [&](int t, vtb_i64 pos) -> bool {
  const float before = t > 0 ? m_at(place(t - 1)) : ${first};
  return before + ${g} > ${i};
};
auto adjoint = [&](vtb_i64 pos) -> float { return ${dm}; };

float carry = 0.0f;
if (LANES > 1) {
  float sum = 0.0f, through = 1.0f;
  for (int t = t1 - 1; t >= t0; t--) {
    const vtb_i64 pos = place(t);
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
  const vtb_i64 pos = place(t);
  const bool kept = keeps(t, pos);
  carry += adjoint(pos);
  ${dg} = kept ? carry : 0.0f;
  ${di} = kept ? 0.0f : carry;
  if (!kept) carry = 0.0f;
}
if (real && lane == 0) {
  ${put_first}
}

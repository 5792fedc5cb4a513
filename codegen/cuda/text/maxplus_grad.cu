/* The adjoint of maxplus: r_t = dm_t + (what m_t hands on to later tokens) goes to g_t and on to
 * m_{t-1} where m_{t-1} + g_t > i_t, else to i_t. A piece maps what enters it from behind, r, to
 * sum + (all its tokens kept ? r : 0). */
hole int N, REST;        /* tokens; elements behind the tokens' axis */
hole int SEQUENCES;      /* batch entries times REST */
hole int LANES, PIECE;   /* of a sequence; tokens a lane */
hole int THREADS;
hole bool STAGED;        /* a block's sequences go through shared memory, whose copies run along
                          * memory */
hole int NEAR;           /* of a block's sequences, so many lie side by side */
hole expr place;         /* of step t */
hole code gate, gain;    /* return g and i for b, pos and r */
hole code scale, adjoint; /* likewise m and dm */
hole code first;         /* returns m before the first token */
hole code put;           /* stores what there is of to_gate, to_gain, adjoint_t */
hole code put_first; /* stores carry, its adjoint */
cost issue = THREADS / 32 * (40 * PIECE + 100);
cost chain = 100 * PIECE + 300;
constexpr int SEQS = THREADS / LANES, KEPT = STAGED ? SEQS * N : 1;
shared float gates[KEPT], gains[KEPT], scales[KEPT], adjoints[KEPT];
const int tid = vtb_tid(), own = tid / LANES * N, sequence = vtb_block() * SEQS + tid / LANES,
          lane = tid % LANES;
const bool real = sequence < SEQUENCES;
int b = real ? sequence / REST : 0, r = real ? sequence % REST : 0;
const int t0 = lane * PIECE, t1 = real ? vtb_min_int(t0 + PIECE, N) : t0;
auto place = [&](int t) -> int { return ${place}; };
auto far_gate = [&](int pos) -> float {${gate}};
auto far_gain = [&](int pos) -> float {${gain}};
auto far_scale = [&](int pos) -> float {${scale}};
auto first = [&]() -> float {${first}};
auto far_adjoint = [&](int pos) -> float {${adjoint}};
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
  all([&](int at, int pos) {
    gates[at + pos] = far_gate(pos), gains[at + pos] = far_gain(pos);
    scales[at + pos] = far_scale(pos), adjoints[at + pos] = far_adjoint(pos);
  });
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
auto scale = [&](int pos) -> float {
  if constexpr (STAGED)
    return scales[own + pos];
  else
    return far_scale(pos);
};
auto adjoint = [&](int pos) -> float {
  if constexpr (STAGED)
    return adjoints[own + pos];
  else
    return far_adjoint(pos);
};
auto keeps = [&](int t, int pos) -> bool {
  const float before = t > 0 ? scale(place(t - 1)) : first();
  return before + gate(pos) > gain(pos);
};
auto put = [&](int pos, float to_gate, float to_gain, float adjoint_t) {
  (void)adjoint_t;
  ${put}
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
  if constexpr (STAGED) /* nobody needs this token's again */
    gates[own + pos] = to_gate, gains[own + pos] = to_gain;
  else
    put(pos, to_gate, to_gain, adjoint_t);
  if (!kept) carry = 0.0f;
}
if (real && lane == 0) {
  ${put_first}
}
if constexpr (STAGED) {
  vtb_sync();
  all([&](int at, int pos) { put(pos, gates[at + pos], gains[at + pos], adjoints[at + pos]); });
}

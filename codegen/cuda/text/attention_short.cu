/* softmax(scale q k^T + bias) v for few keys: K and V of a head lie in shared memory whole, a warp owns strips of 16
 * queries, whose scores with all keys are in its registers: one maximum, one sum, nothing is rescaled and nothing waits
 * between the two products. Scores are the second product's factor where they are: its depth takes keys in the order in
 * which a lane holds them. */
constexpr int N = ${N}, M = ${M}, HEADS = ${HEADS}, SHARED = ${SHARED}, K = ${K}, V = ${V}, WIDTH = ${TILE};
constexpr int DEPTH = ${SLAB}, KEYS = (M + 15) / 16 * 16, ROWS = ${ROWS}, WARPS = ${WARPS}, EXACT = ${EXACT};
constexpr int ROW_BLOCKS = (N + ROWS - 1) / ROWS, STEP = EXACT >= 2 ? 16 : 8;
constexpr bool CAUSAL = ${CAUSAL}, BIAS = ${BIAS}, FOUR = ${FOUR};
constexpr int PK = ${pitch_along}(DEPTH), PV = vtb_pitch_across(WIDTH);
constexpr float SCALE = ${scale}, LOG2E = 1.4426950408889634f;
const int bh = vtb_block() / ROW_BLOCKS, b = bh / HEADS, head = bh % HEADS, kv = head / SHARED;
const int first = vtb_block() % ROW_BLOCKS * ROWS, end = vtb_min_int(first + ROWS, N);
auto q_from = [&](int i) { return ${q_from}; };
auto k_from = [&](int j) { return ${k_from}; };
auto v_from = [&](int j) { return ${v_from}; };
auto nothing = [&](int) -> float { return 0.0f; };
auto bias_at = [&](int i, int j) -> float { return ${bias}; };
${turns}vtb_copy_rows<FOUR, KEYS, DEPTH, PK, 32 * WARPS>(keys, M, K, -1, k_from, nothing);
vtb_copy_rows<FOUR, KEYS, WIDTH, PV, 32 * WARPS>(values, M, V, -1, v_from, nothing);
${turn}vtb_arrived();

VTB_NO_UNROLL for (int i0 = first + 16 * vtb_warp(); i0 < end; i0 += 16 * WARPS) {
  float s[KEYS / 8][4], out[WIDTH / 8][4], top[2] = {-VTB_INF, -VTB_INF}, sum[2] = {0.0f, 0.0f};
  vtb_clear(s);
  vtb_clear(out);
  vtb_product<EXACT, DEPTH>(
      s, [&](int r, int x) -> float { return i0 + r < end && x < K ? ${q_at} : 0.0f; },
      ${keys});
  vtb_each(s, [&](int r, int j, float &v) {
    const int i = i0 + r;
    v *= SCALE;
    if (j >= M || i >= end || (CAUSAL && j > i + M - N))
      v = -VTB_INF;
    else if (BIAS)
      v += bias_at(i, j);
    top[r / 8] = vtb_max(top[r / 8], v);
  });
  VTB_UNROLL for (int e = 0; e < 2; e++) {
    top[e] = vtb_quad_max(top[e]);
    if (top[e] == -VTB_INF) top[e] = 0.0f; /* no key: exponents of -infinity, not NaN */
  }
  vtb_each(s, [&](int r, int, float &v) {
    v = vtb_exp2_fast((v - top[r / 8]) * LOG2E);
    sum[r / 8] += v;
  });
  VTB_UNROLL for (int e = 0; e < 2; e++) sum[e] = vtb_quad_sum(sum[e]);
  VTB_UNROLL for (int k0 = 0; k0 < KEYS; k0 += STEP) {
    vtb_product<EXACT, STEP>(
        out,
        [&](int r, int k) -> float { return s[k0 / 8 + k / 8][2 * (r / 8) + (STEP == 16 ? k % 2 : k % 8 / 4)]; },
        ${values});
  }
  vtb_each(out, [&](int r, int o, float &value) {
    const int i = i0 + r, x = o;
    if (i < end && x < V) ${y} = sum[r / 8] == 0.0f ? 0.0f : value / sum[r / 8];
  });
  if (vtb_lane() % 4 == 0) {
    VTB_UNROLL for (int e = 0; e < 2; e++) {
      const int i = i0 + vtb_lane() / 4 + 8 * e;
      if (i < end) ${lse} = sum[e] == 0.0f ? VTB_INF : top[e] + vtb_log(sum[e]);
    }
  }
}

/* softmax(scale q k^T + bias) v: a block owns 64 queries of a head and TILE columns of y, and meets 64 keys after the
 * other. Scores stay in registers, where a query's are spread over four lanes; its maximum m, sum l and outputs are rescaled
 * from tile to tile. */
constexpr int N = ${N}, M = ${M}, HEADS = ${HEADS}, SHARED = ${SHARED}, K = ${K}, V = ${V}, TILE = ${TILE}, SLAB = ${SLAB};
constexpr int OUT_TILES = (V + TILE - 1) / TILE, ROW_TILES = (N + 63) / 64, EXACT = ${EXACT};
constexpr bool CAUSAL = ${CAUSAL}, BIAS = ${BIAS}, FOUR = ${FOUR};
constexpr int PA = ${pitch_along}(SLAB), PC = vtb_pitch_across(TILE), PP = vtb_pitch_along(64);
constexpr float SCALE = ${scale}, LOG2E = 1.4426950408889634f;
const int o0 = vtb_block() % OUT_TILES * TILE, i0 = vtb_block() / OUT_TILES % ROW_TILES * 64;
const int bh = vtb_block() / (OUT_TILES * ROW_TILES), b = bh / HEADS, head = bh % HEADS, kv = head / SHARED;
const int n_rows = vtb_min_int(N - i0, 64), row = 16 * vtb_warp(), quad = vtb_lane() / 4;
const int seen = CAUSAL ? vtb_max_int(vtb_min_int(M, i0 + n_rows + M - N), 0) : M; /* keys that some query sees */
VTB_PTR(${tile}) a_tile = ${a_tile};
VTB_PTR(${tile}) b_tile = ${b_tile};
VTB_PTR(${tile}) c_tile = tiles; /* after a and b */
auto q_from = [&](int i) { return ${q_from}; };
auto k_from = [&](int j) { return ${k_from}; };
auto v_from = [&](int j) { return ${v_from}; };
auto nothing = [&](int) -> float { return 0.0f; };
auto bias_at = [&](int i, int j) -> float { return ${bias}; };

${turns}float out[TILE / 8][4], m[2] = {-VTB_INF, -VTB_INF}, l[2] = {0.0f, 0.0f};
vtb_clear(out);
for (int j0 = 0; j0 < seen; j0 += 64) {
  const int n_keys = vtb_min_int(seen - j0, 64);
  float s[8][4];
  vtb_clear(s);
  for (int x0 = 0; x0 < K; x0 += SLAB) {
    const int depth = vtb_min_int(K - x0, SLAB);
    vtb_sync();
    ${once}vtb_copy_rows<FOUR, 64, SLAB, PA, 128>(${a}, n_rows, depth, -1, [&](int r) { return q_from(i0 + r) + x0; }, nothing);
    vtb_copy_rows<FOUR, 64, SLAB, PA, 128>(b_tile, n_keys, depth, -1, [&](int r) { return k_from(j0 + r) + x0; }, nothing);
    ${turn}vtb_arrived();
    vtb_product<EXACT, SLAB>(
        s, [&](int r, int x) -> float { return ${a}[(row + r) * PA + x]; },
        ${keys}, row < n_rows ? SLAB : 0);
  }
  float top[2] = {m[0], m[1]}, shrink[2], low[2], sum[2] = {0.0f, 0.0f};
  vtb_each(s, [&](int r, int j, float &v) {
    const int i = i0 + row + r, key = j0 + j;
    v *= SCALE;
    if (j >= n_keys || row + r >= n_rows || (CAUSAL && key > i + M - N))
      v = -VTB_INF;
    else if (BIAS)
      v += bias_at(i, key);
    top[r / 8] = vtb_max(top[r / 8], v);
  });
  VTB_UNROLL for (int e = 0; e < 2; e++) {
    top[e] = vtb_quad_max(top[e]);
    low[e] = top[e] == -VTB_INF ? 0.0f : top[e]; /* no key so far: exponents of -infinity, not NaN */
    shrink[e] = vtb_exp2_fast((m[e] - low[e]) * LOG2E);
    m[e] = top[e];
  }
  vtb_each(s, [&](int r, int j, float &v) {
    v = vtb_exp2_fast((v - low[r / 8]) * LOG2E);
    sum[r / 8] += v;
    scores[(row + r) * PP + j] = v;
  });
  VTB_UNROLL for (int e = 0; e < 2; e++) l[e] = l[e] * shrink[e] + vtb_quad_sum(sum[e]);
  vtb_each(out, [&](int r, int, float &v) { v *= shrink[r / 8]; });
  vtb_sync();
  vtb_copy_rows<FOUR, 64, TILE, PC, 128>(c_tile, n_keys, vtb_min_int(V - o0, TILE), -1,
                                         [&](int r) { return v_from(j0 + r) + o0; }, nothing);
  vtb_arrived();
  vtb_product<EXACT, 64>(
      out, [&](int r, int j) -> float { return scores[(row + r) * PP + j]; },
      ${values}, row < n_rows ? (n_keys + 15) / 16 * 16 : 0);
}
vtb_each(out, [&](int r, int o, float &value) {
  const int i = i0 + row + r, x = o0 + o;
  if (row + r < n_rows && x < V) ${y} = l[r / 8] == 0.0f ? 0.0f : value / l[r / 8];
});
if (o0 == 0 && vtb_lane() % 4 == 0) {
  VTB_UNROLL for (int e = 0; e < 2; e++) {
    const int i = i0 + row + quad + 8 * e;
    if (i < N) ${lse} = l[e] == 0.0f ? VTB_INF : m[e] + vtb_log(l[e]);
  }
}

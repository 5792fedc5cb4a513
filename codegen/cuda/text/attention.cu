/* softmax(scale q k^T + bias) v: a block owns 64 queries of a head and TILE columns of y, and meets
 * 64 keys after the other. Scores stay in registers, where a query's are spread over four lanes,
 * and are the second product's factor there; its maximum m, sum l and outputs are rescaled from
 * tile to tile. Turned queries and keys: turns.cuh. */
#include "products.cuh"
#include "turns.cuh"
hole int N, M;                     /* queries, keys */
hole int HEADS, SHARED;            /* heads of queries; that share one of keys */
hole int K, V;                     /* widths */
hole bool CAUSAL, BIAS;
hole bool FOUR;                    /* rows can be copied 16 bytes at a time */
hole int FACTORS, THREADS;
hole float SCALE;
hole expr q_from, k_from, v_from;  /* addresses of rows i, j and j, of b and head or kv */
hole expr bias;                    /* of i, j */
hole type T;                       /* of tiles */
hole int Q_TURNED, K_TURNED;       /* channels of queries and keys that turn */
hole bool KEPT;                    /* queries are turned once and lie beside the tiles */
hole expr q_cosines, q_sines;      /* addresses of rows of tables, of i and head */
hole expr k_cosines, k_sines;      /* of j and kv */
hole expr y_at, lse_at;            /* offsets for i and x, of b and head */
constexpr int TILE = vtb_part_width(V), SLAB = vtb_slab(K);
constexpr int OUT_TILES = (V + TILE - 1) / TILE, ROW_TILES = (N + 63) / 64;
constexpr int PA = vtb_pitch_along(SLAB, sizeof(T)), PC = vtb_pitch_across(TILE),
              STEP = vtb_depth(FACTORS);
require THREADS == 128;
cost tensor = 8192 * (M + 63) / 64 * (K + TILE) / (CAUSAL ? 2 : 1);
cost issue = 4 * ((M + 63) / 64) * (sizeof(T) == 2 ? 4 * (K + TILE) + 400 : 8 * (K + TILE) + 450) /
             (CAUSAL ? 2 : 1);
cost registers = 110;
cost special = 4096 * ((M + 63) / 64) / (CAUSAL ? 2 : 1);
shared T a_tile[(KEPT ? (K + SLAB - 1) / SLAB : 1) * 64 * PA];
shared T b_tile[64 * PA];
shared T c_tile[64 * PC] over KEPT ? b_tile : a_tile; /* after both */
constexpr float LOG2E = 1.4426950408889634f;
const int o0 = vtb_block() % OUT_TILES * TILE, i0 = vtb_block() / OUT_TILES % ROW_TILES * 64;
const int bh = vtb_block() / (OUT_TILES * ROW_TILES), b = bh / HEADS, head = bh % HEADS,
          kv = head / SHARED;
const int n_rows = vtb_min_int(N - i0, 64), row = 16 * vtb_warp(), quad = vtb_lane() / 4;
/* keys that some query sees */
const int seen = CAUSAL ? vtb_max_int(vtb_min_int(M, i0 + n_rows + M - N), 0) : M;
auto q_row = [&](int i) { return ${q_from}; };
auto k_row = [&](int j) { return ${k_from}; };
auto v_row = [&](int j) { return ${v_from}; };
auto nothing = [&](int) -> float { return 0.0f; };
auto bias_at = [&](int i, int j) -> float { return ${bias}; };
auto q_cosines_of = [&](int i) { return ${q_cosines}; };
auto q_sines_of = [&](int i) { return ${q_sines}; };
auto k_cosines_of = [&](int j) { return ${k_cosines}; };
auto k_sines_of = [&](int j) { return ${k_sines}; };

float out[TILE / 8][4], m[2] = {-VTB_INF, -VTB_INF}, l[2] = {0.0f, 0.0f};
vtb_clear(out);
for (int j0 = 0; j0 < seen; j0 += 64) {
  const int n_keys = vtb_min_int(seen - j0, 64);
  float s[8][4];
  vtb_clear(s);
  for (int x0 = 0; x0 < K; x0 += SLAB) {
    const int depth = vtb_min_int(K - x0, SLAB);
    const auto queries = a_tile + (KEPT ? x0 * PA : 0);
    const bool fetched = KEPT && j0 > 0;
    vtb_sync();
    if (!fetched)
      vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(
          queries, n_rows, depth, -1, [&](int r) { return q_row(i0 + r) + x0; }, nothing);
    vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(
        b_tile, n_keys, depth, -1, [&](int r) { return k_row(j0 + r) + x0; }, nothing);
    if constexpr (Q_TURNED > 0 || K_TURNED > 0) vtb_landed<FOUR>();
    if constexpr (Q_TURNED > 0) {
      if (!fetched)
        vtb_turn_rows<FOUR, 64, SLAB, PA, THREADS>(
            queries, n_rows, Q_TURNED - x0, [&](int r) { return q_cosines_of(i0 + r) + x0 / 2; },
            [&](int r) { return q_sines_of(i0 + r) + x0 / 2; });
    }
    if constexpr (K_TURNED > 0)
      vtb_turn_rows<FOUR, 64, SLAB, PA, THREADS>(
          b_tile, n_keys, K_TURNED - x0, [&](int r) { return k_cosines_of(j0 + r) + x0 / 2; },
          [&](int r) { return k_sines_of(j0 + r) + x0 / 2; });
    vtb_arrived();
    vtb_product<FACTORS, SLAB>(s, vtb_rows<true, PA>(queries, row), vtb_columns<true, PA>(b_tile),
                               row < n_rows ? SLAB : 0);
  }
  float top[2] = {m[0], m[1]}, shrink[2], low[2], sum[2] = {0.0f, 0.0f};
  vtb_each(s, [&](int r, int j, float &v) {
    const int i = i0 + row + r, key = j0 + j;
    const bool none = j >= n_keys || (CAUSAL && key > i + M - N);
    v = none ? -VTB_INF : v * SCALE;
    if constexpr (BIAS) {
      if (!none && row + r < n_rows) v += bias_at(i, key);
    }
    top[r / 8] = vtb_max(top[r / 8], v);
  });
  VTB_UNROLL for (int e = 0; e < 2; e++) {
    top[e] = vtb_quad_max(top[e]);
    /* no key so far: exponents of -infinity, not NaN */
    low[e] = top[e] == -VTB_INF ? 0.0f : top[e];
    shrink[e] = vtb_exp2_fast((m[e] - low[e]) * LOG2E);
    m[e] = top[e];
  }
  vtb_each(s, [&](int r, int, float &v) {
    v = vtb_exp2_fast((v - low[r / 8]) * LOG2E);
    sum[r / 8] += v;
  });
  VTB_UNROLL for (int e = 0; e < 2; e++) l[e] = l[e] * shrink[e] + vtb_quad_sum(sum[e]);
  vtb_each(out, [&](int r, int, float &v) { v *= shrink[r / 8]; });
  vtb_sync();
  vtb_copy_rows<FOUR, 64, TILE, PC, THREADS>(c_tile, n_keys, vtb_min_int(V - o0, TILE), -1,
                                         [&](int r) { return v_row(j0 + r) + o0; }, nothing);
  vtb_arrived();
  VTB_UNROLL for (int k0 = 0; k0 < 64; k0 += STEP) {
    if (k0 >= n_keys || row >= n_rows) continue;
    auto score = [&](int r, int k) -> float {
      return s[k0 / 8 + k / 8][2 * (r / 8) + (STEP == 16 ? k % 2 : k % 8 / 4)];
    };
    if constexpr (STEP == 16)
      vtb_product<FACTORS, STEP>(out, score, vtb_columns<false, PC>(c_tile, 0, k0 * PC));
    else /* in the order in which a lane holds them */
      vtb_product<FACTORS, 8>(out, score, [&](int k, int o) -> float {
        return c_tile[(k0 + 2 * (k % 4) + k / 4) * PC + o];
      });
  }
}
const float share[2] = {l[0] == 0.0f ? 0.0f : 1.0f / l[0], l[1] == 0.0f ? 0.0f : 1.0f / l[1]};
vtb_each(out, [&](int r, int o, float &value) {
  const int i = i0 + row + r, x = o0 + o;
  if (row + r < n_rows && x < V) y[${y_at}] = value * share[r / 8];
});
if (o0 == 0 && vtb_lane() % 4 == 0) {
  VTB_UNROLL for (int e = 0; e < 2; e++) {
    const int i = i0 + row + quad + 8 * e;
    if (i < N) lse[${lse_at}] = l[e] == 0.0f ? VTB_INF : m[e] + vtb_log(l[e]);
  }
}

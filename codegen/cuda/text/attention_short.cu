/* softmax(scale q k^T + bias) v for few keys: K and V of a head lie in shared memory whole, a warp owns strips of 16
 * queries, whose scores with all keys are in its registers: one maximum, one sum, nothing is rescaled and nothing waits
 * between the two products. Scores are the second product's factor where they are: its depth takes keys in the order in
 * which a lane holds them. */
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
hole int ROWS;                     /* queries of a block */
hole type T;                       /* of tiles */
hole int Q_TURNED, K_TURNED;       /* channels of queries and keys that turn: turns.cuh */
hole expr q_cosines, q_sines;      /* addresses of rows of tables, of i and head */
hole expr k_cosines, k_sines;      /* of j and kv */
hole expr y_at, lse_at;            /* offsets for i and x, of b and head */
constexpr int WIDTH = (V + 7) / 8 * 8, DEPTH = (K + 15) / 16 * 16, KEYS = (M + 15) / 16 * 16;
constexpr int ROW_BLOCKS = (N + ROWS - 1) / ROWS, STEP = vtb_depth(FACTORS);
constexpr int PK = vtb_pitch_along(DEPTH, sizeof(T)), PV = vtb_pitch_across(WIDTH);
require ROWS % 16 == 0;
cost tensor = 2 * ROWS * KEYS * (DEPTH + WIDTH);
cost issue = ROWS / 16 * KEYS * (DEPTH + WIDTH) / 12 + KEYS * (DEPTH + WIDTH) / 20;
cost special = ROWS * KEYS;
cost registers = 160;
shared T keys[KEYS * PK];
shared T values[KEYS * PV];
constexpr float LOG2E = 1.4426950408889634f;
const int bh = vtb_block() / ROW_BLOCKS, b = bh / HEADS, head = bh % HEADS, kv = head / SHARED;
const int first = vtb_block() % ROW_BLOCKS * ROWS, end = vtb_min_int(first + ROWS, N);
auto q_row = [&](int i) { return ${q_from}; };
auto k_row = [&](int j) { return ${k_from}; };
auto v_row = [&](int j) { return ${v_from}; };
auto nothing = [&](int) -> float { return 0.0f; };
auto bias_at = [&](int i, int j) -> float { return ${bias}; };
auto q_cosines_of = [&](int i) { return ${q_cosines}; };
auto q_sines_of = [&](int i) { return ${q_sines}; };
auto k_cosines_of = [&](int j) { return ${k_cosines}; };
auto k_sines_of = [&](int j) { return ${k_sines}; };
auto q_at = [&](int i, int x) -> float {
  if constexpr (Q_TURNED > 0)
    return vtb_turned(q_row(i), x, Q_TURNED, q_cosines_of(i), q_sines_of(i));
  else
    return q_row(i)[x];
};
vtb_copy_rows<FOUR, KEYS, DEPTH, PK, THREADS>(keys, M, K, -1, k_row, nothing);
vtb_copy_rows<FOUR, KEYS, WIDTH, PV, THREADS>(values, M, V, -1, v_row, nothing);
if constexpr (K_TURNED > 0) { /* the values may still be on their way */
  vtb_landed<FOUR, 1>();
  vtb_turn_rows<FOUR, KEYS, DEPTH, PK, THREADS>(keys, M, K_TURNED, k_cosines_of, k_sines_of);
}
vtb_arrived();

VTB_NO_UNROLL for (int i0 = first + 16 * vtb_warp(); i0 < end; i0 += THREADS / 2) {
  float s[KEYS / 8][4], out[WIDTH / 8][4], top[2] = {-VTB_INF, -VTB_INF}, sum[2] = {0.0f, 0.0f};
  vtb_clear(s);
  vtb_clear(out);
  vtb_product<FACTORS, DEPTH>(
      s, [&](int r, int x) -> float { return i0 + r < end && x < K ? q_at(i0 + r, x) : 0.0f; },
      vtb_columns<true, PK>(keys));
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
    auto score = [&](int r, int k) -> float {
      return s[k0 / 8 + k / 8][2 * (r / 8) + (STEP == 16 ? k % 2 : k % 8 / 4)];
    };
    if constexpr (STEP == 16)
      vtb_product<FACTORS, STEP>(out, score, vtb_columns<false, PV>(values, 0, k0 * PV));
    else
      vtb_product<FACTORS, 8>(out, score,
                              [&](int k, int o) -> float { return values[(k0 + 2 * (k % 4) + k / 4) * PV + o]; });
  }
  vtb_each(out, [&](int r, int o, float &value) {
    const int i = i0 + r, x = o;
    if (i < end && x < V) y[${y_at}] = sum[r / 8] == 0.0f ? 0.0f : value / sum[r / 8];
  });
  if (vtb_lane() % 4 == 0) {
    VTB_UNROLL for (int e = 0; e < 2; e++) {
      const int i = i0 + vtb_lane() / 4 + 8 * e;
      if (i < end) lse[${lse_at}] = sum[e] == 0.0f ? VTB_INF : top[e] + vtb_log(sum[e]);
    }
  }
}

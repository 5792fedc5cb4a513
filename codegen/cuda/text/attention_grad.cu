/* One of the adjoints of attention to many keys, from P = exp(s - lse) and dS = P o (dY V^T -
 * delta), made again tile by tile:
 *   DQ = scale dS K     DK = scale dS^T Q     DV = P^T dY     DBIAS = sum of dS over heads and
 *                       batch entries that share it
 * A block owns 64 rows (queries; keys for DK and DV) and TILE columns of the result; for DBIAS, 64
 * keys as columns. */
#include "products.cuh"
#include "turns.cuh"
hole int N, M;                     /* queries, keys */
hole int HEADS, SHARED;            /* heads of queries; that share one of keys */
hole int K, V;                     /* widths */
hole bool CAUSAL, BIAS;
hole bool FOUR;                    /* rows can be copied 16 bytes at a time */
hole int FACTORS, THREADS;
hole type T;                       /* of tiles */
hole float SCALE;
hole expr q_from, k_from, v_from;  /* addresses of rows i, j and j, of b and head or kv */
hole expr bias;                    /* of i, j */
hole int RESULT;                   /* which */
hole int BIAS_HEADS, BATCH;
hole bool BY_BATCH;                /* each batch entry has a bias of its own */
hole int TURNED;                   /* channels of the result that are turned back: turns.cuh */
hole expr dy_from;                 /* address of row i */
hole expr lse_at, to_at;           /* offsets for i; for i or j, and x, of the result */
hole expr cosines, sines;          /* addresses of rows of tables, of i and head or j and kv */
constexpr int DQ = 0, DK = 1, DV = 2, DBIAS = 3;
constexpr bool KEYS = RESULT == DK || RESULT == DV;
constexpr int WIDTH = RESULT == DBIAS ? M
                      : RESULT == DV  ? V
                                      : K,
              SLAB = vtb_slab(vtb_max_int(K, V));
constexpr int TILE = RESULT == DBIAS ? 64 : vtb_part_width(WIDTH),
              OUT_TILES = (WIDTH + TILE - 1) / TILE;
constexpr int ROWS = KEYS ? M : N, COLUMNS = KEYS ? N : M;
constexpr int ROW_TILES = (ROWS + 63) / 64, COLUMN_TILES = (COLUMNS + 63) / 64;
constexpr int PA = vtb_pitch_along(SLAB, sizeof(T)), PC = vtb_pitch_across(TILE), PP = 68;
constexpr int STEP = vtb_depth(FACTORS);
require THREADS == 128;
cost tensor = 8192 * (RESULT == DQ ? COLUMN_TILES
                      : KEYS       ? SHARED * COLUMN_TILES
                                   : (BY_BATCH ? 1 : BATCH) * (HEADS / BIAS_HEADS)) *
              (K + V + TILE);
cost issue = 4 * (RESULT == DQ ? COLUMN_TILES
                  : KEYS       ? SHARED * COLUMN_TILES
                               : (BY_BATCH ? 1 : BATCH) * (HEADS / BIAS_HEADS)) *
             (sizeof(T) == 2 ? 5 * (K + V + TILE) + 450 : 11 * (K + V + TILE) + 400);
cost registers = RESULT == DQ ? 128 : 150;
cost special = 4096 * (RESULT == DQ ? COLUMN_TILES
                       : KEYS       ? SHARED * COLUMN_TILES
                                    : (BY_BATCH ? 1 : BATCH) * (HEADS / BIAS_HEADS));
shared T a_tile[64 * PA];
shared T b_tile[64 * PA];
shared T c_tile[64 * PC] over a_tile; /* after both */
shared float biases[BIAS && RESULT == DBIAS ? 64 * PP : 1];
shared float sums[64], deltas[64];
constexpr float LOG2E = 1.4426950408889634f;
const int o0 = vtb_block() % OUT_TILES * TILE, i0 = vtb_block() / OUT_TILES % ROW_TILES * 64;
const int outer = vtb_block() / (OUT_TILES * ROW_TILES), tid = vtb_tid(), row = 16 * vtb_warp();
const int n_rows = vtb_min_int(ROWS - i0, 64);
const bool live = row < n_rows; /* a strip of 16 rows beyond the last costs nothing */

/* The work of a step. */
constexpr int STEPS = RESULT == DQ ? COLUMN_TILES
                      : KEYS       ? SHARED * COLUMN_TILES
                                   : (BY_BATCH ? 1 : BATCH) * (HEADS / BIAS_HEADS);
int b = 0, head = 0, kv = 0, j0 = 0;
auto choose = [&](int step) {
  if (RESULT == DQ) {
    b = outer / HEADS, head = outer % HEADS, j0 = step * 64;
  } else if (KEYS) {
    b = outer / (HEADS / SHARED);
    head = outer % (HEADS / SHARED) * SHARED + step / COLUMN_TILES, j0 = step % COLUMN_TILES * 64;
  } else {
    constexpr int EACH = HEADS / BIAS_HEADS;
    b = BY_BATCH ? outer / BIAS_HEADS : step / EACH;
    head = outer % BIAS_HEADS + step % EACH * BIAS_HEADS, j0 = o0;
  }
  kv = head / SHARED;
};
auto q_row = [&](int i) { return ${q_from}; };
auto k_row = [&](int j) { return ${k_from}; };
auto v_row = [&](int j) { return ${v_from}; };
auto dy_row = [&](int i) { return ${dy_from}; };
auto nothing = [&](int) -> float { return 0.0f; };
auto bias_at = [&](int i, int j) -> float { return ${bias}; };
auto lse_of = [&](int i) -> float { return lse[${lse_at}]; };
const auto a_of = vtb_rows<true, PA>(a_tile, row);
const auto b_of = vtb_columns<true, PA>(b_tile);

float out[TILE / 8][4];
vtb_clear(out);
for (int step = 0; step < STEPS; step++) {
  choose(step);
  const int n_columns = vtb_min_int(COLUMNS - j0, 64);
  /* causal: no query of the tile sees a key of the tile */
  if (CAUSAL && (KEYS ? i0 > j0 + n_columns - 1 + M - N : j0 > i0 + n_rows - 1 + M - N)) continue;
  float s[8][4], g[8][4];
  vtb_clear(s);
  vtb_clear(g);
  for (int x0 = 0; x0 < K; x0 += SLAB) {
    const int depth = vtb_min_int(K - x0, SLAB);
    vtb_sync();
    auto q_part = [&](int r) { return q_row((KEYS ? j0 : i0) + r) + x0; };
    auto k_part = [&](int r) { return k_row((KEYS ? i0 : j0) + r) + x0; };
    vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(KEYS ? b_tile : a_tile, KEYS ? n_columns : n_rows,
                                               depth, -1, q_part, nothing);
    vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(KEYS ? a_tile : b_tile, KEYS ? n_rows : n_columns,
                                               depth, -1, k_part, nothing);
    vtb_arrived();
    vtb_product<FACTORS, SLAB>(s, a_of, b_of, live ? SLAB : 0);
  }
  if constexpr (RESULT != DV) {
    for (int x0 = 0; x0 < V; x0 += SLAB) {
      const int depth = vtb_min_int(V - x0, SLAB);
      vtb_sync();
      auto dy_part = [&](int r) { return dy_row((KEYS ? j0 : i0) + r) + x0; };
      auto v_part = [&](int r) { return v_row((KEYS ? i0 : j0) + r) + x0; };
      vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(KEYS ? b_tile : a_tile, KEYS ? n_columns : n_rows,
                                                 depth, -1, dy_part, nothing);
      vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(KEYS ? a_tile : b_tile, KEYS ? n_rows : n_columns,
                                                 depth, -1, v_part, nothing);
      vtb_arrived();
      vtb_product<FACTORS, SLAB>(g, a_of, b_of, live ? SLAB : 0);
    }
  }
  if (tid < 64) {
    const int i = (KEYS ? j0 : i0) + tid;
    sums[tid] = i < N ? lse_of(i) : VTB_INF;
    deltas[tid] = RESULT != DV && i < N ? delta[((vtb_i64)b * N + i) * HEADS + head] : 0.0f;
  }
  if constexpr (BIAS && RESULT == DBIAS) { /* read along its rows */
    VTB_NO_UNROLL for (int e = tid; e < 64 * 64; e += THREADS) {
      const int i = i0 + e / 64, j = j0 + e % 64;
      biases[e / 64 * PP + e % 64] = i < N && j < M ? bias_at(i, j) : 0.0f;
    }
  }
  vtb_sync();
  vtb_each(s, [&](int r, int c, float &v) {
    const int query = KEYS ? c : row + r, i = KEYS ? j0 + c : i0 + row + r,
              j = KEYS ? i0 + row + r : j0 + c;
    const bool none = i >= N || j >= M || (CAUSAL && j > i + M - N);
    v *= SCALE;
    if constexpr (BIAS && RESULT == DBIAS)
      v += biases[(row + r) * PP + c];
    else if constexpr (BIAS)
      v += none ? 0.0f : bias_at(i, j);
    v = vtb_exp2_fast((v - sums[query]) * LOG2E);
    v = none ? 0.0f : v;
  });
  if constexpr (RESULT == DBIAS) {
    VTB_UNROLL for (int t = 0; t < 8; t++) VTB_UNROLL for (int e = 0; e < 4; e++)
        out[t][e] += s[t][e] * (g[t][e] - deltas[row + vtb_lane() / 4 + 8 * (e / 2)]);
    vtb_sync();
  } else {
    if constexpr (RESULT != DV) {
      VTB_UNROLL for (int t = 0; t < 8; t++) VTB_UNROLL for (int e = 0; e < 4; e++)
          s[t][e] *= g[t][e] - deltas[KEYS ? 8 * t + 2 * (vtb_lane() % 4) + e % 2
                                           : row + vtb_lane() / 4 + 8 * (e / 2)];
    }
    vtb_copy_rows<FOUR, 64, TILE, PC, THREADS>(
        c_tile, n_columns, vtb_min_int(WIDTH - o0, TILE), -1,
        [&](int r) {
          return vtb_choose<RESULT == DQ ? 0 : RESULT == DK ? 1 : 2>(k_row(j0 + r), q_row(j0 + r),
                                                                     dy_row(j0 + r)) + o0;
        },
        nothing);
    vtb_arrived();
    VTB_UNROLL for (int k0 = 0; k0 < 64; k0 += STEP) {
      if (k0 >= n_columns || !live) continue;
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
    vtb_sync();
  }
}
choose(0);
if constexpr (TURNED > 0)
  vtb_turn_back(
      out, n_rows - row, o0, TURNED,
      [&](int r) {
        const int i = i0 + row + r, j = i;
        return ${cosines};
      },
      [&](int r) {
        const int i = i0 + row + r, j = i;
        return ${sines};
      });
vtb_each(out, [&](int r, int o, float &value) {
  const int x = o0 + o, i = i0 + row + r, j = RESULT == DBIAS ? x : i;
  if (row + r < n_rows && x < WIDTH) {
    if (RESULT == DQ || RESULT == DK) value *= SCALE;
    to[${to_at}] = value;
  }
});

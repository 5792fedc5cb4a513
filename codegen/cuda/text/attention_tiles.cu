/* softmax(scale q k^T + bias) v of factors that round to 16 bits, of any number of keys: a block
 * owns 64 queries of a head, which lie in shared memory whole; TILE keys and values come after each
 * other, the next while a tile is met. A warp owns 16 queries, whose scores are the second
 * product's factor where they are; a query's maximum, sum and outputs are rescaled from tile to
 * tile. PARTS: as many groups of warps as wide values need have a part of y's columns each. Two
 * make the scores for themselves; of four each makes sums over half the depth of half of the tile's
 * keys, which all add up from shared memory (SPLIT). Turned queries and keys: turns.cuh. */
#include "products.cuh"
#include "tiles.cuh"
#include "turns.cuh"
hole int N, M;                     /* queries, keys */
hole int HEADS, SHARED;            /* heads of queries; that share one of keys */
hole int K, V;                     /* widths */
hole bool CAUSAL, BIAS;
hole int PARTS;
hole bool Q_EIGHT, K_EIGHT, V_EIGHT; /* rows can be copied eight elements at a time */
hole bool Y_FOUR;                  /* four can be stored */
hole int FACTORS, THREADS;
hole float SCALE;
hole expr q_from, k_from, v_from;  /* addresses of the first rows, of b and head or kv */
hole int q_stride, k_stride, v_stride; /* from row to row */
hole expr bias;                    /* of i, j */
hole type T;                       /* of tiles */
hole int Q_TURNED, K_TURNED;       /* channels of queries and keys that turn */
hole expr q_cosines, q_sines;      /* addresses of rows of tables, of i and head */
hole expr k_cosines, k_sines;      /* of j and kv */
hole expr y_at, lse_at;            /* offsets for i and x, of b and head */
constexpr bool SPLIT = PARTS > 2;
constexpr int DEPTH = SPLIT ? (K + 31) / 32 * 32 : (K + 15) / 16 * 16,
              WIDTH = (V + 16 * PARTS - 1) / (16 * PARTS) * 16 * PARTS,
              OWN = WIDTH / PARTS;
constexpr int TILE = DEPTH + WIDTH > 160 ? 32 : 64, TILES = (M + TILE - 1) / TILE,
              ROW_TILES = (N + 63) / 64, STRIPS = (N + 15) / 16;
constexpr int PK = vtb_pitch_along(DEPTH, 2), PV = vtb_pitch_along(WIDTH, 2),
              STAGE = TILE * (PK + PV);
require THREADS == 128 * PARTS && FACTORS >= 2 && FACTORS <= 3 && DEPTH <= (SPLIT ? 512 : 256) &&
        OWN <= 128 && PARTS <= 4 && PARTS != 3;
cost tensor = TILES * STRIPS * 32 * TILE * ((SPLIT ? 1 : PARTS) * DEPTH + WIDTH) / ROW_TILES /
              (CAUSAL ? 2 : 1);
cost issue = TILES * ((SPLIT ? STRIPS * (DEPTH / 2 + 3 * WIDTH / 8 + 1040) / ROW_TILES + 1120
                             : STRIPS * (TILE * (PARTS * DEPTH + WIDTH) / 48 +
                                         PARTS * (3 * TILE + 80) + WIDTH / 2) / ROW_TILES +
                                   TILE * (DEPTH + WIDTH) / 64 + 80 * PARTS) +
                      TILE * K_TURNED * 3 / 8) / (CAUSAL ? 2 : 1) + 1000 * PARTS;
cost wavefronts = TILES * (STRIPS * (SPLIT ? DEPTH + WIDTH / 2 + 160
                                           : PARTS * DEPTH * (16 + TILE) / 64 + WIDTH * TILE / 64) /
                               ROW_TILES + TILE * (DEPTH + WIDTH) / 64) / (CAUSAL ? 2 : 1);
cost special = TILES * STRIPS * 16 * TILE * PARTS / ROW_TILES / (CAUSAL ? 2 : 1);
cost flight = STAGE * sizeof(T);
cost registers = SPLIT ? 124 : 69 + 5 * TILE / 6 + OWN / 4;
shared T queries[64 * PK];
shared T ring[2 * STAGE];
shared float sums[SPLIT ? 2 * 64 * TILE : 0]; /* as lanes hold them, of either half of the depth */
constexpr float LOG2E = 1.4426950408889634f;
constexpr bool HALF = FACTORS == VTB_FP16;
const int i0 = vtb_block() % ROW_TILES * 64, bh = vtb_block() / ROW_TILES, b = bh / HEADS,
          head = bh % HEADS, kv = head / SHARED;
const int tid = vtb_tid(), lane = vtb_lane(), row = 16 * (vtb_warp() % 4), part = vtb_warp() / 4,
          n_rows = vtb_min_int(N - i0, 64);
/* keys that some query sees */
const int seen = CAUSAL ? vtb_max_int(vtb_min_int(M, i0 + n_rows + M - N), 0) : M;
const int steps = (seen + TILE - 1) / TILE;
auto same = [&](int r) { return r; };
auto bias_at = [&](int i, int j) -> float { return ${bias}; };
auto bring = [&](int step) {
  const auto to = ring + step % 2 * STAGE;
  const int j0 = step * TILE, n = vtb_min_int(M - j0, TILE);
  vtb_bring_rows<K_EIGHT, TILE, DEPTH, PK, THREADS>(to, n, K, ${k_from} + (vtb_i64)j0 * k_stride,
                                                    k_stride, same);
  vtb_bring_rows<V_EIGHT, TILE, WIDTH, PV, THREADS>(
      to + TILE * PK, n, V, ${v_from} + (vtb_i64)j0 * v_stride, v_stride, same);
  vtb_cp_commit();
};
vtb_bring_rows<Q_EIGHT, 64, DEPTH, PK, THREADS>(queries, n_rows, K,
                                                ${q_from} + (vtb_i64)i0 * q_stride, q_stride, same);
if (steps > 0) bring(0);

float out[OWN / 8][4], top[2] = {-VTB_INF, -VTB_INF}, sum[2] = {0.0f, 0.0f};
vtb_clear(out);
VTB_NO_UNROLL for (int step = 0; step < steps; step++) {
  const int at = step % 2 * STAGE, j0 = step * TILE;
  vtb_cp_wait<0>();
  vtb_sync();
  if (step + 1 < steps) bring(step + 1);
  if constexpr (Q_TURNED > 0)
    if (step == 0)
      vtb_turn_rows<true, 64, DEPTH, PK, THREADS>(
          queries, n_rows, Q_TURNED,
          [&](int r) {
            const int i = i0 + r;
            return ${q_cosines};
          },
          [&](int r) {
            const int i = i0 + r;
            return ${q_sines};
          });
  if constexpr (K_TURNED > 0)
    vtb_turn_rows<true, TILE, DEPTH, PK, THREADS>(
        ring + at, vtb_min_int(M - j0, TILE), K_TURNED,
        [&](int r) {
          const int j = j0 + r;
          return ${k_cosines};
        },
        [&](int r) {
          const int j = j0 + r;
          return ${k_sines};
        });
  if constexpr (Q_TURNED > 0 || K_TURNED > 0) vtb_sync();
  if (!SPLIT && row >= n_rows) continue;
  float s[TILE / 8][4], low[2];
  vtb_clear(s);
  if constexpr (SPLIT) {
    constexpr int EIGHTS = TILE / 16, HALF_SUMS = 64 * TILE;
    const int own = row * TILE + 4 * lane, depth = part / 2 * (DEPTH / 2);
    float some[EIGHTS][4];
    vtb_clear(some);
    if (row < n_rows) {
      VTB_UNROLL for (int k = 0; k < DEPTH / 2; k += 16)
        vtb_step_16<HALF, 1>(some, k, vtb_rows<true, PK>(queries, row, depth),
                             vtb_columns<true, PK>(ring, part % 2 * (TILE / 2), at + depth));
      VTB_UNROLL for (int t = 0; t < EIGHTS; t++) {
        const vtb_f4 four = {some[t][0], some[t][1], some[t][2], some[t][3]};
        vtb_store4(sums, part / 2 * HALF_SUMS + own + (part % 2 * EIGHTS + t) * 128, four);
      }
    }
    vtb_sync();
    if (row >= n_rows) continue;
    VTB_UNROLL for (int t = 0; t < TILE / 8; t++) {
      const vtb_f4 x = vtb_load4(sums, own + t * 128),
                   y = vtb_load4(sums, HALF_SUMS + own + t * 128);
      s[t][0] = x.x + y.x, s[t][1] = x.y + y.y, s[t][2] = x.z + y.z, s[t][3] = x.w + y.w;
    }
  } else {
    VTB_UNROLL for (int k = 0; k < DEPTH; k += 16)
      vtb_step_16<HALF, 1>(s, k, vtb_rows<true, PK>(queries, row),
                           vtb_columns<true, PK>(ring, 0, at));
  }
  const float before[2] = {top[0], top[1]};
  vtb_each(s, [&](int r, int c, float &v) {
    const int i = i0 + row + r, j = j0 + c;
    const bool none = (M % TILE != 0 && j >= M) || (CAUSAL && j > i + M - N);
    v = none ? -VTB_INF : v * (SCALE * LOG2E);
    if constexpr (BIAS)
      if (!none && i < N) v += bias_at(i, j) * LOG2E;
    top[r / 8] = vtb_max(top[r / 8], v);
  });
  VTB_UNROLL for (int e = 0; e < 2; e++) {
    top[e] = vtb_quad_max(top[e]);
    /* no key so far: exponents of -infinity, not NaN */
    low[e] = top[e] == -VTB_INF ? 0.0f : top[e];
    const float shrink = vtb_exp2_fast(before[e] - low[e]);
    sum[e] *= shrink;
    VTB_UNROLL for (int t = 0; t < OWN / 8; t++)
      out[t][2 * e] *= shrink, out[t][2 * e + 1] *= shrink;
  }
  vtb_each(s, [&](int r, int, float &v) {
    v = vtb_exp2_fast(v - low[r / 8]);
    sum[r / 8] += v;
  });
  VTB_UNROLL for (int k0 = 0; k0 < TILE; k0 += 16) {
    auto score = [&](int r, int k) -> float { return s[k0 / 8 + k / 8][2 * (r / 8) + k % 2]; };
    vtb_step_16<HALF, 1>(out, 0, score,
                         vtb_columns<false, PV>(ring, part * OWN, at + TILE * PK + k0 * PV));
  }
}
vtb_cp_wait<0>();
if (row >= n_rows) return;
float share[2];
VTB_UNROLL for (int e = 0; e < 2; e++) {
  sum[e] = vtb_quad_sum(sum[e]);
  share[e] = sum[e] == 0.0f ? 0.0f : 1.0f / sum[e];
}
vtb_each(out, [&](int r, int, float &v) { v *= share[r / 8]; });
if constexpr (Y_FOUR) {
  VTB_UNROLL for (int t = 0; t < OWN / 8; t += 2) VTB_UNROLL for (int e = 0; e < 4; e += 2) {
      const vtb_f4 four =
          vtb_four_of_sixteen(out[t][e], out[t][e + 1], out[t + 1][e], out[t + 1][e + 1]);
      const int i = i0 + row + lane / 4 + 4 * e, x = part * OWN + 8 * t + lane % 4 * 4;
      if (i < N && x < V) vtb_store4(y, ${y_at}, four);
  }
} else {
  vtb_each(out, [&](int r, int o, float &value) {
    const int i = i0 + row + r, x = part * OWN + o;
    if (i < N && x < V) y[${y_at}] = value;
  });
}
if (part == 0 && lane % 4 == 0) {
  VTB_UNROLL for (int e = 0; e < 2; e++) {
    const int i = i0 + row + lane / 4 + 8 * e;
    if (i < N) lse[${lse_at}] = sum[e] == 0.0f ? VTB_INF : top[e] / LOG2E + vtb_log(sum[e]);
  }
}

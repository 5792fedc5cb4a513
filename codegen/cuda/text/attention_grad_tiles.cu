/* The adjoints of attention of factors that round to 16 bits, of any number of tokens, from P =
 * exp(s - lse) and dS = P o (dY V^T - delta):
 *   KEYS: DK = scale dS^T Q and DV = P^T dY     else DQ = scale dS K
 * A block owns 64 rows (KEYS: of keys and values, else of queries and dY), which lie in shared
 * memory whole; TILE rows of the others come after each other, the next while a tile is met. A warp
 * owns 16 rows: P and dS are the next product's factor where they are, and sums of the results
 * stay in registers. PARTS: as many groups of warps as wide heads need have a part of the results'
 * columns each; two make the scores for themselves, of four two make the scores of 16 columns each
 * and two what they are multiplied by, and factors go through shared memory (SPLIT). */
#include "products.cuh"
#include "tiles.cuh"
#include "turns.cuh"
hole int N, M;                     /* queries, keys */
hole int HEADS, SHARED;            /* heads of queries; that share one of keys */
hole int K, V;                     /* widths */
hole bool CAUSAL, BIAS;
hole bool KEYS;                    /* which results */
hole int PARTS;
hole bool Q_EIGHT, K_EIGHT, V_EIGHT, DY_EIGHT; /* rows can be copied eight elements at a time */
hole bool FOUR, SECOND_FOUR;       /* four of dq or dk, of dv, can be stored */
hole int FACTORS, THREADS;
hole float SCALE;
hole type T;                       /* of tiles */
hole expr q_from, k_from, v_from, dy_from; /* addresses of the first rows, of b and head or kv */
hole int q_stride, k_stride, v_stride, dy_stride; /* from row to row */
hole expr bias;                    /* of i, j */
hole int TURNED;                   /* channels of dq or dk that are turned back: turns.cuh */
hole expr cosines, sines;          /* addresses of rows of tables, of i and head or j and kv */
hole expr lse_at, to_at, second_at; /* offsets for i of b and head; for i or j, and x, of dq or dk
                                     * and of dv */
hole expr second;                  /* the pointer of dv */
constexpr int DEPTH = (K + 16 * PARTS - 1) / (16 * PARTS) * 16 * PARTS,
              WIDTH = (V + 16 * PARTS - 1) / (16 * PARTS) * 16 * PARTS;
constexpr int TILE = 32, ROWS = KEYS ? M : N, COLUMNS = KEYS ? N : M, ROW_TILES = (ROWS + 63) / 64,
              TILES = (COLUMNS + TILE - 1) / TILE;
constexpr int PK = vtb_pitch_along(DEPTH, 2), PV = vtb_pitch_along(WIDTH, 2),
              STAGE = TILE * (PK + PV);
/* of 16 rows; tiles that a block meets */
constexpr int STRIPS = (ROWS + 15) / 16, MEETINGS = (KEYS ? SHARED : 1) * TILES;
constexpr bool SPLIT = PARTS > 2;
require THREADS == 128 * PARTS && FACTORS >= 2 && FACTORS <= 3 && DEPTH <= 128 * PARTS &&
        WIDTH <= 128 * PARTS && PARTS <= 4 && PARTS != 3;
cost tensor = MEETINGS * STRIPS * 32 * TILE * ((SPLIT ? 1 : PARTS) * (DEPTH + WIDTH) + DEPTH +
                                               KEYS * WIDTH) / ROW_TILES / (CAUSAL ? 2 : 1);
cost issue = SPLIT ? MEETINGS * (STRIPS * ((DEPTH + WIDTH) / 2 + (DEPTH + KEYS * WIDTH) * 3 / 8 +
                                           220 + 390 * KEYS) / ROW_TILES +
                                 2 * (DEPTH + WIDTH) + 400) / (CAUSAL ? 2 : 1) +
                         STRIPS * (2600 + 1100 * KEYS) / ROW_TILES + 3200
                   : (MEETINGS * (STRIPS * (PARTS * ((DEPTH + WIDTH) / 2 + 170) +
                                            (DEPTH + KEYS * WIDTH) * 2 / 5) / ROW_TILES +
                                  (DEPTH + WIDTH) / 2 + 4 * PARTS * 20)) / (CAUSAL ? 2 : 1) +
                         1000 * PARTS;
cost wavefronts = MEETINGS * (STRIPS * ((DEPTH + WIDTH) * (SPLIT ? 4 : 3 * PARTS) / 4 +
                                        (DEPTH + KEYS * WIDTH) / 2 +
                                        (SPLIT ? 100 + 50 * KEYS : (4 + 12 * KEYS) * PARTS)) /
                                   ROW_TILES +
                              (DEPTH + WIDTH) / 2) / (CAUSAL ? 2 : 1);
cost special = MEETINGS * STRIPS * 16 * TILE * (SPLIT ? 1 : PARTS) / ROW_TILES / (CAUSAL ? 2 : 1);
cost flight = STAGE * sizeof(T);
cost registers = SPLIT  ? 128
                 : KEYS ? 94 + 9 * (DEPTH + WIDTH) / (16 * PARTS)
                        : 110 + DEPTH / (5 * PARTS);
shared T first[64 * PK];
shared T other[64 * PV];
shared T ring[2 * STAGE];
shared float factors[SPLIT ? 64 * TILE : 0]; /* as lanes hold them */
shared float sums[KEYS ? 2 * TILE : 64], deltas[KEYS ? 2 * TILE : 64];
constexpr float LOG2E = 1.4426950408889634f;
constexpr bool HALF = FACTORS == VTB_FP16;
constexpr int OWN = DEPTH / PARTS, OWN_SECOND = WIDTH / PARTS,
              GROUPS = KEYS ? HEADS / SHARED : HEADS;
const int r0 = vtb_block() % ROW_TILES * 64, outer = vtb_block() / ROW_TILES, b = outer / GROUPS;
const int tid = vtb_tid(), lane = vtb_lane(), row = 16 * (vtb_warp() % 4), part = vtb_warp() / 4;
const int n_rows = vtb_min_int(ROWS - r0, 64), kv = KEYS ? outer % GROUPS : outer % GROUPS / SHARED;
int head = KEYS ? kv * SHARED : outer % GROUPS;
auto same = [&](int r) { return r; };
auto bias_at = [&](int i, int j) -> float { return ${bias}; };
auto put_numbers = [&](int to, int i) { /* of a query: an exponent's part, and delta */
  sums[to] = i < N ? lse[${lse_at}] * LOG2E : VTB_INF;
  deltas[to] = i < N ? delta[((vtb_i64)b * N + i) * HEADS + head] : 0.0f;
};

/* Causal: tiles in which some query sees some key. */
const int from_tile = CAUSAL && KEYS ? vtb_max_int(r0 + N - M, 0) / TILE : 0;
const int to_tile =
    CAUSAL && !KEYS ? vtb_min_int((vtb_max_int(r0 + n_rows + M - N, 0) + TILE - 1) / TILE, TILES)
                    : TILES;
const int met = vtb_max_int(to_tile - from_tile, 0), steps = (KEYS ? SHARED : 1) * met;
auto bring = [&](int step) {
  const auto to = ring + step % 2 * STAGE;
  const int c0 = (from_tile + step % met) * TILE, n = vtb_min_int(COLUMNS - c0, TILE);
  if constexpr (KEYS) {
    head = kv * SHARED + step / met;
    vtb_bring_rows<Q_EIGHT, TILE, DEPTH, PK, THREADS>(to, n, K, ${q_from} + (vtb_i64)c0 * q_stride,
                                                      q_stride, same);
    vtb_bring_rows<DY_EIGHT, TILE, WIDTH, PV, THREADS>(
        to + TILE * PK, n, V, ${dy_from} + (vtb_i64)c0 * dy_stride, dy_stride, same);
    if (tid < TILE) put_numbers(step % 2 * TILE + tid, c0 + tid);
  } else {
    vtb_bring_rows<K_EIGHT, TILE, DEPTH, PK, THREADS>(to, n, K, ${k_from} + (vtb_i64)c0 * k_stride,
                                                      k_stride, same);
    vtb_bring_rows<V_EIGHT, TILE, WIDTH, PV, THREADS>(
        to + TILE * PK, n, V, ${v_from} + (vtb_i64)c0 * v_stride, v_stride, same);
  }
  vtb_cp_commit();
};
if constexpr (KEYS) {
  vtb_bring_rows<K_EIGHT, 64, DEPTH, PK, THREADS>(
      first, n_rows, K, ${k_from} + (vtb_i64)r0 * k_stride, k_stride, same);
  vtb_bring_rows<V_EIGHT, 64, WIDTH, PV, THREADS>(
      other, n_rows, V, ${v_from} + (vtb_i64)r0 * v_stride, v_stride, same);
} else {
  vtb_bring_rows<Q_EIGHT, 64, DEPTH, PK, THREADS>(
      first, n_rows, K, ${q_from} + (vtb_i64)r0 * q_stride, q_stride, same);
  vtb_bring_rows<DY_EIGHT, 64, WIDTH, PV, THREADS>(
      other, n_rows, V, ${dy_from} + (vtb_i64)r0 * dy_stride, dy_stride, same);
  if (tid < 64) put_numbers(tid, r0 + tid);
}
if (steps > 0) bring(0);

float out[OWN / 8][4], out_second[KEYS ? OWN_SECOND / 8 : 1][4];
vtb_clear(out);
vtb_clear(out_second);
VTB_NO_UNROLL for (int step = 0; step < steps; step++) {
  const int at = step % 2 * STAGE, c0 = (from_tile + step % met) * TILE, near = step % 2 * TILE;
  vtb_cp_wait<0>();
  vtb_sync();
  if (step + 1 < steps) bring(step + 1);
  if (!SPLIT && row >= n_rows) continue;
  if constexpr (KEYS) head = kv * SHARED + step / met;
  /* P of scores from column `from` on; times what dY V^T - delta is */
  auto exponents = [&](auto &s, int from) {
    vtb_each_pair<1>(s, [&](int r, int e, float &v, float &w) {
      const int c = from + e, i = KEYS ? c0 + c : r0 + row + r, j = KEYS ? r0 + row + r : c0 + c;
      const int next_i = KEYS ? i + 1 : i, next_j = KEYS ? j : j + 1;
      const float low = KEYS ? sums[near + c] : sums[row + r],
                  next_low = KEYS ? sums[near + c + 1] : low;
      if constexpr (BIAS) {
        v = (v * SCALE + (i < N && j < M ? bias_at(i, j) : 0.0f)) * LOG2E - low;
        w = (w * SCALE + (next_i < N && next_j < M ? bias_at(next_i, next_j) : 0.0f)) * LOG2E -
            next_low;
      } else {
        v = v * (SCALE * LOG2E) - low;
        w = w * (SCALE * LOG2E) - next_low;
      }
      v = vtb_exp2_fast(v);
      w = vtb_exp2_fast(w);
      if ((!KEYS && M % TILE != 0 && j >= M) || (CAUSAL && j > i + M - N)) v = 0.0f;
      if ((!KEYS && M % TILE != 0 && next_j >= M) || (CAUSAL && next_j > next_i + M - N)) w = 0.0f;
    });
  };
  auto multiply = [&](auto &s, auto &g, int from) {
    vtb_each_pair<1>(s, [&](int r, int c, float &v, float &w) {
      const int t = c / 8, e = r / 8 * 2;
      v *= g[t][e] - deltas[KEYS ? near + from + c : row + r];
      w *= g[t][e + 1] - deltas[KEYS ? near + from + c + 1 : row + r];
    });
  };
  /* products of 16 columns' factors from k0 on with the other rows */
  auto add_second = [&](auto factor, int k0) {
    vtb_step_16<HALF, 1>(out_second, 0, factor,
                         vtb_columns<false, PV>(ring, part * OWN_SECOND, at + TILE * PK + k0 * PV));
  };
  auto add_first = [&](auto factor, int k0) {
    vtb_step_16<HALF, 1>(out, 0, factor, vtb_columns<false, PK>(ring, part * OWN, at + k0 * PK));
  };
  if constexpr (SPLIT) {
    const int from = part % 2 * 16, place = row * TILE + 4 * lane, own = place + from * 16;
    const bool live = row < n_rows;
    float s[2][4], g[2][4];
    vtb_clear(s);
    if (live && part < 2) {
      VTB_UNROLL for (int k = 0; k < DEPTH; k += 16)
        vtb_step_16<HALF, 1>(s, k, vtb_rows<true, PK>(first, row),
                             vtb_columns<true, PK>(ring, from, at));
      exponents(s, from);
    } else if (live) {
      VTB_UNROLL for (int k = 0; k < WIDTH; k += 16)
        vtb_step_16<HALF, 1>(s, k, vtb_rows<true, PV>(other, row),
                             vtb_columns<true, PV>(ring, from, at + TILE * PK));
      VTB_UNROLL for (int t = 0; t < 2; t++) {
        const vtb_f4 four = {s[t][0], s[t][1], s[t][2], s[t][3]};
        vtb_store4(factors, own + 128 * t, four);
      }
    }
    vtb_sync();
    if (live && part < 2) { /* P, and dS in the place of what it was multiplied by */
      VTB_UNROLL for (int t = 0; t < 2; t++) {
        const vtb_f4 four = vtb_load4(factors, own + 128 * t);
        g[t][0] = four.x, g[t][1] = four.y, g[t][2] = four.z, g[t][3] = four.w;
      }
      if constexpr (KEYS) vtb_put_factor<HALF>(factors, own, s);
      multiply(s, g, from);
      vtb_put_factor<HALF>(factors, own + 128, s);
    }
    vtb_sync();
    if (!live) continue;
    VTB_UNROLL for (int k = 0; k < TILE; k += 16) {
      if constexpr (KEYS) add_second(vtb_factor_at(factors, place + k * 16), k);
      add_first(vtb_factor_at(factors, place + k * 16 + 128), k);
    }
  } else {
    float s[TILE / 8][4], g[TILE / 8][4];
    vtb_clear(s);
    vtb_clear(g);
    VTB_UNROLL for (int k = 0; k < DEPTH; k += 16)
      vtb_step_16<HALF, 1>(s, k, vtb_rows<true, PK>(first, row),
                           vtb_columns<true, PK>(ring, 0, at));
    exponents(s, 0);
    auto score = [&](int k0) {
      return [=, &s](int r, int k) -> float { return s[k0 / 8 + k / 8][2 * (r / 8) + k % 2]; };
    };
    if constexpr (KEYS) {
      VTB_UNROLL for (int k = 0; k < TILE; k += 16) add_second(score(k), k);
    }
    VTB_UNROLL for (int k = 0; k < WIDTH; k += 16)
      vtb_step_16<HALF, 1>(g, k, vtb_rows<true, PV>(other, row),
                           vtb_columns<true, PV>(ring, 0, at + TILE * PK));
    multiply(s, g, 0);
    VTB_UNROLL for (int k = 0; k < TILE; k += 16) add_first(score(k), k);
  }
}
vtb_cp_wait<0>();
if (row >= n_rows) return;

if constexpr (TURNED > 0)
  vtb_turn_back(
      out, n_rows - row, part * OWN, TURNED,
      [&](int r) {
        const int i = r0 + row + r, j = i;
        return ${cosines};
      },
      [&](int r) {
        const int i = r0 + row + r, j = i;
        return ${sines};
      });
VTB_UNROLL for (int t = 0; t < OWN / 8; t++)
  VTB_UNROLL for (int e = 0; e < 4; e++) out[t][e] *= SCALE;
if constexpr (FOUR) {
  VTB_UNROLL for (int t = 0; t < OWN / 8; t += 2) VTB_UNROLL for (int e = 0; e < 4; e += 2) {
      const vtb_f4 four =
          vtb_four_of_sixteen(out[t][e], out[t][e + 1], out[t + 1][e], out[t + 1][e + 1]);
      const int i = r0 + row + lane / 4 + 4 * e, j = i, x = part * OWN + 8 * t + lane % 4 * 4;
      if (i < ROWS && x < K) vtb_store4(to, ${to_at}, four);
  }
} else {
  vtb_each(out, [&](int r, int o, float &value) {
    const int i = r0 + row + r, j = i, x = part * OWN + o;
    if (i < ROWS && x < K) to[${to_at}] = value;
  });
}
if constexpr (KEYS && SECOND_FOUR) {
  VTB_UNROLL for (int t = 0; t < OWN_SECOND / 8; t += 2) VTB_UNROLL for (int e = 0; e < 4; e += 2) {
      const vtb_f4 four = vtb_four_of_sixteen(out_second[t][e], out_second[t][e + 1],
                                              out_second[t + 1][e], out_second[t + 1][e + 1]);
      const int j = r0 + row + lane / 4 + 4 * e, x = part * OWN_SECOND + 8 * t + lane % 4 * 4;
      if (j < M && x < V) vtb_store4(${second}, ${second_at}, four);
  }
} else if constexpr (KEYS) {
  vtb_each(out_second, [&](int r, int o, float &value) {
    const int j = r0 + row + r, x = part * OWN_SECOND + o;
    if (j < M && x < V) ${second}[${second_at}] = value;
  });
}

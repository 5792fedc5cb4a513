/* The factors of a decay d_r inside a chunk: W[t, j] = (Q K^T)[t, j] (dY V^T)[t, j] M[t, j] for j <
 * r <= t. A block owns a tile of 64 rows t and meets the tiles of columns up to its own:
 *   inside[r]           sum of W over t >= r > j, both in the rows' tile
 *   row_sums[t]         sum of W over the columns of tiles before
 *   column_sums[I, j]   sum of W over the rows of tile I, tile by tile, for columns j of tiles
 *                       before (CROSSING) */
#include "products.cuh"
#include "scans.cuh"
hole int N, K, V, V1, CHUNK;     /* V1: V and the normalizer's column */
hole int ROW_TILES;              /* tiles of all chunks */
hole int FACTORS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole bool FOUR;                  /* rows can be copied 16 bytes at a time */
hole expr place;                 /* of step t */
hole expr decay;                 /* at pos */
hole expr q_from, k_from, v_from, dy_from; /* addresses of rows at pos */
hole expr v_extra, dy_extra;     /* of the normalizer's column */
hole expr column_sums;           /* their pointer, CROSSING */
constexpr int CHUNK_TILES = (CHUNK + 63) / 64, SLAB = vtb_slab(vtb_max_int(K, V1)),
              BLOCKS = ROW_TILES;
constexpr bool CROSSING = CHUNK_TILES > 1;
constexpr int PA = vtb_pitch_along(SLAB, 4), PP = vtb_pitch_along(64, 4);
require THREADS == 128;
cost tensor = 4096 * (CHUNK_TILES + 1) * (K + V1);
cost issue = 2 * (CHUNK_TILES + 1) * 12 * (K + V1);
cost registers = 128;
shared float a_tile[64 * PA], b_tile[64 * PA];
shared float terms[64 * PP];
shared float decays[64], through[64], after[64], own[64], parts[32];
const int scan = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int row_tile = unit;
const int c0 = row_tile / CHUNK_TILES * CHUNK, c1 = vtb_min_int(c0 + CHUNK, N),
          tile = row_tile % CHUNK_TILES;
const int i0 = c0 + tile * 64, n_rows = vtb_min_int(c1 - i0, 64), tid = vtb_tid(),
          row = 16 * vtb_warp();
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto decay = [&](int t) -> float { return decay_at(place(t)); };
auto q_row = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${q_from};
};
auto k_row = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${k_from};
};
auto v_row = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${v_from};
};
auto dy_row = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${dy_from};
};
auto dy_beyond = [&](int t) -> float {
  const vtb_i64 pos = place(t);
  return ${dy_extra};
};
auto v_beyond = [&](int) -> float { return ${v_extra}; };
auto nothing = [&](int) -> float { return 0.0f; };

float between = 1.0f, row_sum = 0.0f; /* row_sum: of row tid */
for (int step = 0; step <= tile; step++) {
  const int j0 = i0 - 64 * step, n_columns = vtb_min_int(c1 - j0, 64);
  if (tid < 64) decays[tid] = tid < n_columns ? decay(j0 + tid) : 1.0f;
  vtb_sync();
  if (vtb_warp() == 0) {
    const float all = vtb_running_products(decays, through, after);
    if (vtb_lane() == 0) parts[0] = all;
  } else if (step == 0 && tid >= 64) {
    const int j = tid - 64;
    float m = 1.0f;
    for (int t = 0; t < 64; t++) {
      if (t > j) m *= decays[t];
      terms[t * PP + j] = t < j ? 0.0f : m;
    }
  }
  float s[8][4], g[8][4]; /* Q K^T, dY V^T */
  vtb_clear(s);
  vtb_clear(g);
  const auto a_of = vtb_rows<true, PA>(a_tile, row);
  const auto b_of = vtb_columns<true, PA>(b_tile);
  for (int x0 = 0; x0 < K; x0 += SLAB) {
    const int n = vtb_clip(K - x0, SLAB);
    vtb_sync();
    vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(
        a_tile, n_rows, n, -1, [&](int r) { return q_row(i0 + r) + x0; }, nothing);
    vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(
        b_tile, n_columns, n, -1, [&](int r) { return k_row(j0 + r) + x0; }, nothing);
    vtb_arrived();
    vtb_product<FACTORS, SLAB>(s, a_of, b_of);
  }
  for (int x0 = 0; x0 < V1; x0 += SLAB) {
    const int n = vtb_clip(V - x0, SLAB), more = V1 > V ? V - x0 : -1;
    vtb_sync();
    vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(
        a_tile, n_rows, n, more, [&](int r) { return dy_row(i0 + r) + x0; },
        [&](int r) { return dy_beyond(i0 + r); });
    vtb_copy_rows<FOUR, 64, SLAB, PA, THREADS>(
        b_tile, n_columns, n, more, [&](int r) { return v_row(j0 + r) + x0; }, v_beyond);
    vtb_arrived();
    vtb_product<FACTORS, SLAB>(g, a_of, b_of);
  }
  if (step == 0 && tid < 64) own[tid] = through[tid];
  vtb_sync();
  vtb_each(s, [&](int r, int j, float &v) {
    const int at = (row + r) * PP + j;
    terms[at] = v * (step == 0 ? terms[at] : own[row + r] * (between * after[j]));
  });
  vtb_each(g, [&](int r, int j, float &v) { terms[(row + r) * PP + j] *= v; });
  vtb_sync();
  if (step > 0) {
    between *= parts[0];
    if (tid < 64) {
      for (int j = 0; j < 64; j++) row_sum += terms[tid * PP + j];
    } else {
      float sum = 0.0f;
      for (int t = 0; t < 64; t++) sum += terms[t * PP + tid - 64];
      if (CROSSING)
        ${column_sums}[(((vtb_i64)scan * ROW_TILES + row_tile) * CHUNK_TILES + tile - step) * 64 +
                       tid - 64] = sum;
    }
  } else {
    if (tid < 64) { /* terms[t, j] becomes the sum of column j over rows from t on */
      float sum = 0.0f;
      for (int t = 63; t >= 0; t--) terms[t * PP + tid] = sum += terms[t * PP + tid];
    }
    vtb_sync();
    if (tid < n_rows) {
      float sum = 0.0f;
      for (int j = 0; j < tid; j++) sum += terms[tid * PP + j];
      inside[(vtb_i64)scan * N + i0 + tid] = sum;
    }
  }
}
if (tid < n_rows) row_sums[(vtb_i64)scan * N + i0 + tid] = row_sum;

/* The factors of a decay d_r inside a chunk, as linscan_terms.cu, of factors that round to 16 bits:
 * their tiles come as 16 bits through a ring, slabs of Q with K and of dY with V, and both products
 * stay in registers, where sums over rows and columns begin. A warp has 32 rows and 32 columns of a
 * tile. The normalizer adds a number a row to dY V^T. */
#include "products.cuh"
#include "scans.cuh"
#include "tiles.cuh"
hole int N, K, V, CHUNK;
hole int ROW_TILES;              /* tiles of all chunks */
hole int FACTORS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole type T;                     /* of tiles */
hole bool Q_EIGHT, K_EIGHT, V_EIGHT, DY_EIGHT; /* rows can be copied eight elements at a time */
hole expr place;                 /* of step t */
hole expr decay;                 /* at pos */
hole expr q_from, k_from, v_from, dy_from; /* addresses of rows at pos */
hole int q_stride, k_stride, v_stride, dy_stride; /* from row to row of these */
hole expr dy_extra;              /* the normalizer's adjoint */
hole expr column_sums;           /* their pointer, CROSSING */
hole bool GAIN;                  /* keys are multiplied by a number a token */
hole expr gain;                  /* at pos */
constexpr int CHUNK_TILES = (CHUNK + 63) / 64, BLOCKS = ROW_TILES;
constexpr int SLAB = vtb_slab(vtb_max_int(K, V)), K_SLABS = (K + SLAB - 1) / SLAB,
              SLABS = K_SLABS + (V + SLAB - 1) / SLAB;
constexpr bool CROSSING = CHUNK_TILES > 1;
/* room for three blocks */
constexpr int PA = vtb_pitch_along(SLAB, 2), PP = vtb_pitch_along(64, 4), STAGES = 2,
              STAGE = 2 * 64 * PA;
require THREADS == 128 && FACTORS >= 2 && FACTORS <= 3;
cost tensor = 4096 * (CHUNK_TILES + 1) * (K + V);
cost issue = 6 * (CHUNK_TILES + 1) * (K + V) + 1000 * CHUNK_TILES + 5000;
cost flight = (STAGES - 1) * STAGE * sizeof(T);
cost registers = 168;
shared T ring[STAGES * STAGE];
shared float terms[64 * PP];
shared float near[512], gaps[64], in[64], out_of[64];
shared float decays[64], through[64], after[64], own[64], row_side[64], all_of[1], parts[128],
             gains[GAIN ? 64 : 0];
shared int row_at[64], column_at[128]; /* places of the rows; of two tiles of columns */
const int scan = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int row_tile = unit, tid = vtb_tid(), lane = vtb_lane();
const int c0 = row_tile / CHUNK_TILES * CHUNK, c1 = vtb_min_int(c0 + CHUNK, N),
          tile = row_tile % CHUNK_TILES;
const int i0 = c0 + tile * 64, n_rows = vtb_min_int(c1 - i0, 64);
const int row = 32 * (vtb_warp() / 2), column = 32 * (vtb_warp() % 2);
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto gain_at = [&](vtb_i64 pos) -> float { return ${gain}; };
auto extra_at = [&](vtb_i64 pos) -> float { return ${dy_extra}; };
constexpr int pos = 0; /* the first row's address */
const auto q_of = ${q_from};
const auto k_of = ${k_from};
const auto v_of = ${v_from};
const auto dy_of = ${dy_from};
auto columns_of = [&](int step) { return vtb_min_int(c1 - (i0 - 64 * step), 64); };

int to_slot = 0, slot = 0;
auto follow = [&](int at) { return at == (STAGES - 1) * STAGE ? 0 : at + STAGE; };
/* behind the last tile nothing */
auto bring = [&](int step, int slab) {
  const auto to = ring + to_slot;
  const int at = step % 2 * 64;
  auto row_place = [&](int r) { return row_at[r]; };
  auto column_place = [&](int r) { return column_at[at + r]; };
  if (step <= tile && slab < K_SLABS) {
    const int x0 = slab * SLAB;
    vtb_bring_rows<Q_EIGHT, 64, SLAB, PA, THREADS>(to, n_rows, K - x0, q_of + x0, q_stride,
                                                   row_place);
    vtb_bring_rows<K_EIGHT, 64, SLAB, PA, THREADS>(to + 64 * PA, columns_of(step), K - x0,
                                                   k_of + x0, k_stride, column_place);
  } else if (step <= tile) {
    const int x0 = (slab - K_SLABS) * SLAB;
    vtb_bring_rows<DY_EIGHT, 64, SLAB, PA, THREADS>(to, n_rows, V - x0, dy_of + x0, dy_stride,
                                                    row_place);
    vtb_bring_rows<V_EIGHT, 64, SLAB, PA, THREADS>(to + 64 * PA, columns_of(step), V - x0,
                                                   v_of + x0, v_stride, column_place);
  }
  vtb_cp_commit();
  to_slot = follow(to_slot);
};

if (tid < 64) {
  row_at[tid] = column_at[tid] = place(i0 + vtb_min_int(tid, n_rows - 1));
  row_side[tid] = tid < n_rows ? extra_at(row_at[tid]) : 0.0f;
}
vtb_sync();
VTB_UNROLL for (int i = 0; i < STAGES - 1; i++) bring(0, i); /* there are two slabs at least */

float between = 1.0f, row_sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}; /* of the lane's rows */
VTB_NO_UNROLL for (int step = 0; step <= tile; step++) {
  const int j0 = i0 - 64 * step, n_columns = columns_of(step);
  const bool meets = row < n_rows && column < n_columns && (step > 0 || column <= row);
  if (tid < 64) {
    decays[tid] = tid < n_columns ? decay_at(column_at[step % 2 * 64 + tid]) : 1.0f;
    if constexpr (GAIN)
      gains[tid] = tid < n_columns ? gain_at(column_at[step % 2 * 64 + tid]) : 0.0f;
    if (step < tile) column_at[(step + 1) % 2 * 64 + tid] = place(j0 - 64 + tid);
  }
  float s[8][4], g[8][4]; /* Q K^T, dY V^T */
  vtb_clear(s);
  vtb_clear(g);
  auto meet = [&](int slab, float (&c)[8][4]) {
    vtb_cp_wait<STAGES - 2>();
    vtb_sync();
    const int at = slot, ahead = slab + STAGES - 1;
    slot = follow(slot);
    bring(ahead < SLABS ? step : step + 1, ahead % SLABS);
    if (slab == 0 && vtb_warp() == 2) {
      const float all = vtb_running_products(decays, through, after);
      if (lane == 0) all_of[0] = all;
    }
    if (step == 0 && slab < 2 && tid < 64) {
      if (slab == 0)
        vtb_group_products(decays, near, in, out_of);
      else
        vtb_group_gaps(in, gaps);
    }
    if (!meets) return;
    VTB_UNROLL for (int k = 0; k < SLAB; k += 16)
      vtb_step_16<FACTORS == VTB_FP16, 2>(c, k, vtb_rows<true, PA>(ring, row, at),
                                          vtb_columns<true, PA>(ring, column, at + 64 * PA));
  };
  VTB_NO_UNROLL for (int slab = 0; slab < K_SLABS; slab++) meet(slab, s);
  VTB_NO_UNROLL for (int slab = K_SLABS; slab < SLABS; slab++) meet(slab, g);
  if (step == 0 && tid < 64) own[tid] = through[tid];
  vtb_sync();
  VTB_UNROLL for (int i = 0; i < 8; i++) VTB_UNROLL for (int e = 0; e < 4; e++) {
      const int strip = i / 4, t = row + 16 * strip + lane / 4 + e / 2 * 8,
                c = column + 8 * (i % 4) + 2 * (lane % 4) + e % 2;
      float w = s[i][e] * (g[i][e] + row_side[t]);
      if constexpr (GAIN) w *= gains[c];
      if (step == 0) {
        terms[t * PP + c] = c > t ? 0.0f : w * vtb_product_between(c, t, near, in, out_of, gaps);
    } else {
      s[i][e] = w * (own[t] * (between * after[c]));
      row_sum[2 * strip + e / 2] += s[i][e];
    }
  }
  if (step > 0) {
    between *= all_of[0];
    VTB_UNROLL for (int i = 0; i < 4; i++) VTB_UNROLL for (int e = 0; e < 2; e++) {
      float sum = s[i][e] + s[i][e + 2] + s[i + 4][e] + s[i + 4][e + 2];
      VTB_UNROLL for (int m = 4; m < 32; m *= 2) sum += vtb_shfl_xor(sum, m);
      if (lane < 4) parts[2 * row + column + 8 * i + 2 * lane + e] = sum;
    }
    vtb_sync();
    if (CROSSING && tid < 64)
      ${column_sums}[(((vtb_i64)scan * ROW_TILES + row_tile) * CHUNK_TILES + tile - step) * 64 +
                     tid] = parts[tid] + parts[64 + tid];
  } else {
    vtb_sync();
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
vtb_cp_wait<0>();
vtb_sync();
VTB_UNROLL for (int i = 0; i < 4; i++) {
  const float sum = vtb_quad_sum(row_sum[i]);
  if (lane % 4 == 0) parts[2 * column + row + 16 * (i / 2) + i % 2 * 8 + lane / 4] = sum;
}
vtb_sync();
if (tid < n_rows) row_sums[(vtb_i64)scan * N + i0 + tid] = parts[tid] + parts[64 + tid];

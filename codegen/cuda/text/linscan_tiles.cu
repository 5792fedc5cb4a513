/* One product of a chunkwise linear recurrence, as linscan_product.cu, of factors that round to 16
 * bits:
 *   out = (A B^T o M) C + f o (A S)
 * Rows are tokens of a tile of 64, columns those of the tiles before it in the chunk (EARLIER:
 * M[t, j] = product of the decays after j up to t, f all of the chunk's up to t, S the state before
 * the chunk) or of those behind it (M transposed, f the decays behind the row's token, S the
 * adjoint of the state after the chunk). A block owns a tile of rows and all columns of out, so
 * that A B^T is made once. A lies in shared memory whole; slabs of S, B and C come through a ring.
 * Scores are the next product's factor in the registers where they are, or, where several warps
 * share rows, go through shared memory in 16 bits. The normalizer is no column: z is the scores'
 * sum and A n, and what it adds to adjoints a number a row or column (extra), and a row of the
 * state.
 *
 * SUMMED: where the scores are dS, C has keys, and with the queries of the rows W = (Q C^T) o dS is
 * what decays multiply, whose sums linscan_decay.cu reads: as linscan_terms_tiles.cu leaves them,
 * of products that are made here anyway.
 *
 * WGMMA: both products of a tile are a group's of four warps, on sm_90a; B and C come whole, into
 * panels of 32 columns (wgmma.cuh), and no warp reads them.
 *
 * PAIRED: two directions along a path, forth and back, with the same rows. The way back is the
 * second form in the order of the way forth, its decays moved by one: from t on, token j >= t
 * arrives with those of t ... j - 1. */
#include "products.cuh"
#include "scans.cuh"
#include "tiles.cuh"
hole int N, K, CHUNK;            /* tokens; width of keys; tokens of a chunk */
hole int DEPTH, WIDTH;           /* of A and B; of out */
hole int ROW_TILES;              /* tiles of all chunks */
hole int STATE_PITCH;            /* from row to row of states */
hole int FACTORS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole type T;                     /* of tiles */
hole bool WGMMA;
hole expr products;              /* type: vtb_by_wgmma, else vtb_no_wgmma */
hole bool A_EIGHT, B_EIGHT, C_EIGHT; /* rows can be copied eight elements at a time */
hole bool HALF, FOUR;            /* result is as wide as T; it can be stored four elements at a
                                  * time */
hole bool PAIRED, FORWARD;       /* FORWARD: EARLIER, unless it is PAIRED */
hole bool OUTSIDE, ALWAYS;       /* states enter the chunks; the first one too */
hole bool STATE_ACROSS;          /* S is taken by its columns */
hole bool NORMALIZED, EXTRA;     /* states have a vector n; scores have extra */
hole bool Z;                     /* z is stored */
hole bool TERM;                  /* terms are summed of rows with their mates */
hole bool SUMMED, Q_EIGHT;
hole expr q_from;                /* address of the row of queries at pos */
hole int q_stride;
hole expr inside, row_sums, column_sums; /* pointers of the sums */
hole expr place;                 /* of step t */
hole expr decay;                 /* at pos */
hole expr a_from, b_from, c_from, mate_from; /* addresses of rows at pos */
hole int a_stride, b_stride, c_stride; /* from row to row of these */
hole expr extra;                 /* of the token of queries at pos */
hole expr states, vectors, terms; /* their pointers; vectors: n of the states */
hole expr result, result_at;     /* its pointer; offset for pos and x */
hole bool GAIN;                  /* keys are multiplied by a number a token: scores are */
hole bool ROW_GAIN, DOT;         /* rows of the result are, being of keys or values; DOT: and give
                                  * its adjoint with their mates */
hole expr gain;                  /* at pos */
hole code put_gain;              /* stores value, that adjoint, at pos */
/* Rows are first multiplied by matrices of GROUP x GROUP, a group of columns: A's in its tile; B's
 * turned round, in A's tile too, their bias being extra; C's in the result, their bias times z.
 * LAST_SUMMED: the matrix's last axis is. */
hole int GROUP, BLOCK; /* blocks of BLOCK along the diagonal, zeros elsewhere */
hole bool A_MAP, B_MAP, C_MAP, A_LAST_SUMMED, B_LAST_SUMMED, C_LAST_SUMMED;
/* element i of row c; e of group g */
hole expr a_matrix, b_matrix, c_matrix, a_bias, b_bias, c_bias;
hole bool BODY;                  /* rows of the result go through code instead */
hole int ROW_LANES;              /* of a warp that share a row */
hole int ROW_ACCESSES;           /* to tensors as long as the result, by row_body */
hole code row_body;                  /* what they make of the row at pos: done_row[x], z_row[0] */
hole code put_z;                 /* stores value at pos */
/* twice the warps, with half of the registers each */
constexpr bool WIDE = WIDTH > 128 && !WGMMA, WIDEST = THREADS == 512;
constexpr int STRIPS = WIDE && !WIDEST ? 2 : 1, COLUMN_WARPS = WIDE ? 4 : 1, SIDES = PAIRED ? 2 : 1;
constexpr int TILES_ACROSS = 8 / COLUMN_WARPS; /* of scores, a warp */
constexpr int WARP_WIDTH = WGMMA ? vtb_wgmma_columns(WIDTH)
                                 : (WIDTH + 8 * COLUMN_WARPS - 1) / (8 * COLUMN_WARPS) * 8,
              TILE = WARP_WIDTH * COLUMN_WARPS;
constexpr int SLABS = WGMMA ? 1 : (DEPTH + 127) / 128, STEP = WGMMA ? 32 : 16,
              SLAB = ((DEPTH + SLABS - 1) / SLABS + STEP - 1) / STEP * STEP, DEPTHS = SLABS * SLAB;
constexpr int CHUNK_TILES = (CHUNK + 63) / 64, BLOCKS = ROW_TILES,
              N_CHUNKS = (N + CHUNK - 1) / CHUNK;
constexpr int PA = WGMMA && !(A_MAP || B_MAP) ? DEPTHS : vtb_pitch_along(DEPTHS, 2),
              PB = vtb_pitch_along(SLAB, 2),
              PC = vtb_pitch_across(TILE);
constexpr int PS = vtb_pitch_along(32, 2), PP = vtb_pitch_along(64, 2), PO = vtb_pitch_across(TILE);
constexpr int C_ROWS = WGMMA ? 64 : WIDEST ? 16 : 32; /* of a slab of C */
constexpr int STATE_SLAB = !OUTSIDE ? 0 : STATE_ACROSS ? TILE * PS : 32 * PC;
constexpr int STAGE = WGMMA ? 64 * vtb_max_int(SLAB, TILE)
                            : vtb_max_int(vtb_max_int(64 * PB, C_ROWS * PC), STATE_SLAB);
/* 163 KiB a block is what sm_80 has; two of sm_90a's */
constexpr int STAGES = SUMMED || 64 * PA + 3 * STAGE > (WGMMA ? 52000 : 73000) ? 2 : 3;
constexpr int PQ = WGMMA ? (WIDTH + 31) / 32 * 32 : vtb_pitch_along(WIDTH, 2);
constexpr bool CROSSING = SUMMED && CHUNK_TILES > 1;
constexpr int MAPS = (A_MAP ? DEPTH : 0) + (B_MAP ? DEPTH : 0) + (C_MAP ? WIDTH : 0); /* columns */
require MAPS == 0 || (FORWARD && !PAIRED && !OUTSIDE && HALF && DEPTH % GROUP == 0 &&
                      WIDTH % GROUP == 0);
require GROUP >= 2 && (32 % GROUP == 0 || GROUP == 48) && GROUP % BLOCK == 0;
require !SUMMED || (FORWARD && !PAIRED && !WIDE && WIDTH % 16 == 0 && MAPS == 0 && !Z);
require !GAIN || (FORWARD && !PAIRED && !OUTSIDE);
require !ROW_GAIN || (!FORWARD && !PAIRED && !OUTSIDE);
require (WIDE ? WIDEST || (THREADS == 256 && WIDTH <= 512) : THREADS == 128) && DEPTH <= 768 &&
        WIDTH <= 768 && FACTORS >= 2 && FACTORS <= 3;
require !WIDEST || !OUTSIDE;
require !WGMMA || (THREADS == 128 && DEPTH <= 256 && WIDTH <= 256);
/* Strips of the last tile that have no rows, in each tile that they would meet: they bring rows,
 * and that is all. */
constexpr int IDLE = (63 - (N - 1) % 64) / (16 * STRIPS) * STRIPS *
                     (FORWARD && !PAIRED ? ((N - 1) % CHUNK + 64) / 64 : 1);
constexpr int PRODUCT = 4096 * (CHUNK_TILES + 1) * (SIDES * (DEPTHS + TILE) + SUMMED * TILE) +
                        (OUTSIDE ? 128 * DEPTH * TILE : 0);
cost tensor = (WGMMA ? 0 : PRODUCT - 2048 * SIDES * IDLE * (DEPTHS + TILE) / ROW_TILES) +
              2048 * vtb_map_span(GROUP) * MAPS;
cost wide = WGMMA ? PRODUCT : 0;
/* halves of a tile's steps; blocks a multiprocessor */
constexpr int STEPS = SIDES * (CHUNK_TILES + 1),
              TOGETHER = WGMMA ? (vtb_max_int(DEPTHS, TILE) <= 128 ? 3 : 2)
                               : (WIDE && !WIDEST && TILE <= 224 ? 2 : 1);
/* of the warps, for half of a step; of what is left when tensor cores have ended */
constexpr int SIDE = !EXTRA || FORWARD ? 0 : WGMMA ? 250 : 400,
              HALF_STEP = WGMMA    ? 410 + 7 * (DEPTHS + TILE) / 8 + SIDE + Z * 55
                          : WIDEST ? 3600 + 2 * (DEPTH + TILE)
                          : WIDE   ? 1160 + 2 * (DEPTH + TILE)
                                   : 490 + 9 * (DEPTH + TILE) / 4 + SIDE,
              WEIGHED = !SUMMED ? 0 : WGMMA ? 5 * TILE / 8 + 540 : 4 * TILE + 500;
/* maps: 28 for 16 columns of a strip; rows: ten for four elements, beside row_body's ops */
cost issue = STEPS * (HALF_STEP + WEIGHED) + (SUMMED ? 3500 : 0) -
             SIDES * IDLE * (WGMMA ? 140 : 8 * (DEPTH + TILE) / 5) / ROW_TILES +
             (OUTSIDE ? (WGMMA ? 7 * DEPTHS + 6 * TILE : DEPTH * TILE / 8) : 0) +
             (WIDE ? 2080 : (WGMMA ? 1430 : 1800) + (BODY ? 10 : 14) * TILE) +
             MAPS * vtb_map_set_up(GROUP) + MAPS * 7 * N / (64 * ROW_TILES) +
             (WGMMA && PA > DEPTHS ? 4 * DEPTHS : 0) + ROW_ACCESSES * N * WIDTH / (13 * ROW_TILES) +
             (ROW_GAIN ? TILE * (DOT ? 10 : 3) : 0);
cost after = WGMMA ? STEPS * (HALF_STEP + WEIGHED) : 0;
/* four a fragment of 16 x 16, which two strips have in common if WIDE; wgmma reads each factor
 * once; copies write them */
cost wavefronts = (WGMMA ? STEPS * (3 * DEPTHS + 2 * TILE + SUMMED * 2 * TILE) / 2
                   : WIDE ? STEPS * ((WIDEST ? 9 : 7) * DEPTH + (WIDEST ? 5 : 3) * TILE + 616) / 2
                          : STEPS * (11 * (DEPTH + TILE) / 4 + SUMMED * 4 * TILE)) +
                  (!OUTSIDE ? 0 : WGMMA ? DEPTHS * (TILE / 32 + 1)
                           : WIDE ? 0 : DEPTH * (5 * TILE / 64 + 1)) + DEPTH + 2 * (TILE + MAPS);
cost flight = (STAGES - 1) * STAGE * sizeof(T);
cost registers = WGMMA                       ? (TOGETHER == 3 ? 168 : 255)
                 : WIDEST || TOGETHER == 2 ? 128
                 : !WIDE                   ? 168
                 : TILE <= 320             ? 169
                                           : 240;
shared T a_tile[64 * PA];
shared T q_tile[SUMMED ? 64 * PQ : 0];
shared T ring[vtb_max_int(STAGES * STAGE, WIDEST && HALF ? 64 * (PO - PA) : 0)];
/* when these have been read; a mixer's is always half */
shared T done[HALF ? 64 * PO : 0] over WIDEST ? a_tile : ring;
shared T scores[WIDE ? 64 * PP : 0];
/* W of the rows' own tile; sums of columns, a warp's, of two tiles */
shared float triangle[SUMMED ? 2080 : 0], across[SUMMED ? 512 : 0];
shared float near[512], gaps[64], in[64], out_of[64];
shared float decays[64], through[128], after[128], own[64], row_side[64],
             column_side[FORWARD && !PAIRED ? 0 : 128], all_of[2], parts[32];
shared float sums[WIDE ? 256 : 64], gains[GAIN || ROW_GAIN ? 64 : 0]; /* of the rows' own tile */
shared int row_at[64], column_at[128]; /* places of the rows; of two tiles of columns */
shared float behind[0];
/* of rows and the bias of keys, a warp's columns each */
shared float dots[B_MAP ? 2 * THREADS : 0] over WIDE ? scores : behind;
typedef ${products} PRODUCTS;
const int item = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int b = item / (DIRS / SIDES * HEADS), h = item / (DIRS / SIDES) % HEADS;
const int tid = vtb_tid(), lane = vtb_lane(), row = 16 * STRIPS * (vtb_warp() / COLUMN_WARPS);
const int column = 64 / COLUMN_WARPS * (vtb_warp() % COLUMN_WARPS),
          o0 = WARP_WIDTH * (vtb_warp() % COLUMN_WARPS);
const int row_tile = unit, chunk = row_tile / CHUNK_TILES, c0 = chunk * CHUNK,
          c1 = vtb_min_int(c0 + CHUNK, N);
const int i0 = c0 + row_tile % CHUNK_TILES * 64, n_rows = vtb_min_int(c1 - i0, 64);
const bool live = row < n_rows; /* 196 tokens are 13 strips of 16, not 16 */
bool have_a = false;            /* the rows' tile */
for (int side = 0; side < SIDES; side++) {
const int scan = item * SIDES + side, dir = scan % DIRS;
const bool EARLIER = PAIRED ? side == 0 : FORWARD;
${directions}
const auto states_of = ${states};
const auto vectors_of = ${vectors};
const vtb_i64 state_of = (vtb_i64)scan * N_CHUNKS + chunk;
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto decay = [&](int t) -> float { /* of a step from t - 1 to t, or PAIRED from t to t - 1 */
  if (!PAIRED || EARLIER) return decay_at(place(t));
  return t > 0 ? decay_at(place(t - 1)) : 1.0f;
};
auto decay_of_column = [&](int t, int at) -> float { /* of step t, whose place column_at has */
  return !PAIRED || EARLIER ? decay_at(column_at[at]) : decay(t);
};
auto gain_at = [&](vtb_i64 pos) -> float { return ${gain}; };
auto extra_at = [&](vtb_i64 pos) -> float { return ${extra}; };
constexpr int pos = 0; /* the first row's address */
const auto a = ${a_from};
const auto b_of = ${b_from};
const auto c_of = ${c_from};
const auto q_of = ${q_from};
/* tiles of columns, the rows' own first */
const int n_steps = EARLIER ? row_tile % CHUNK_TILES + 1 : (c1 - i0 + 63) / 64;
auto first_of = [&](int step) { return EARLIER ? i0 - 64 * step : i0 + 64 * step; };
const bool outside = OUTSIDE && (ALWAYS || (EARLIER ? c0 > 0 : c1 < N));

#include "linscan_tiles_ring.cuh"

vtb_sync();
if (tid < 64) {
  row_at[tid] = column_at[tid] = place(i0 + vtb_min_int(tid, n_rows - 1));
  decays[tid] = tid < n_rows ? decay(i0 + tid) : 1.0f;
  if (GAIN || ROW_GAIN) gains[tid] = tid < n_rows ? gain_at(place(i0 + tid)) : 0.0f;
  if (EXTRA)
    (FORWARD ? row_side : column_side)[tid] = tid < n_rows ? extra_at(place(i0 + tid)) : 0.0f;
}
if (AHEAD) find_columns(1);
vtb_sync();
auto own_row = [&](int r) { return row_at[r]; };
if (PAIRED && have_a)
  ;
else if constexpr (WGMMA && !(A_MAP || B_MAP))
  vtb_bring_panels<A_EIGHT, 64, DEPTHS, THREADS>(a_tile, n_rows, DEPTH, a, a_stride, own_row);
else
  vtb_bring_rows<A_EIGHT, 64, DEPTHS, PA, THREADS, true>(a_tile, n_rows, DEPTH, a, a_stride,
                                                         own_row);
have_a = true;
if constexpr (SUMMED && WGMMA)
  vtb_bring_panels<Q_EIGHT, 64, PQ, THREADS>(q_tile, n_rows, WIDTH, q_of, q_stride, own_row);
else if constexpr (SUMMED)
  vtb_bring_rows<Q_EIGHT, 64, WIDTH, PQ, THREADS, true>(q_tile, n_rows, WIDTH, q_of, q_stride,
                                                        own_row);
VTB_UNROLL for (int i = 0; i < STAGES - 1; i++) {
  to_slot = i * STAGE;
  if (outside && i < STATE_SLABS)
    bring_state(32 * i);
  else
    bring(0, outside ? i - STATE_SLABS : i);
}
float factor = 1.0f; /* of what is outside */
if (outside) {
  for (int t = EARLIER ? c0 + tid : i0 + n_rows + tid; t < (EARLIER ? i0 : c1); t += THREADS)
    factor *= decay(t);
  VTB_UNROLL for (int m = 16; m > 0; m >>= 1) factor *= vtb_shfl_xor(factor, m);
  if (lane == 0) parts[vtb_warp()] = factor;
}
if (tid < 64) vtb_group_products(decays, near, in, out_of);
if (GAIN && tid < 64) { /* what leaves a column is multiplied by its gain */
  for (int l = tid / 8 * 8; l <= tid; l++) near[tid * 8 + l % 8] *= gains[l];
  out_of[tid] *= gains[tid];
}
if (vtb_warp() == 2) {
  const float all = vtb_running_products(decays, through, after);
  if (lane == 0) all_of[0] = all;
}
vtb_sync();
if (tid < 64) {
  vtb_group_gaps(in, gaps);
  own[tid] = EARLIER ? through[tid] : after[tid];
}
if (outside) {
  factor = 1.0f;
  for (int w = 0; w < THREADS / 32; w++) factor *= parts[w];
}
float out[STRIPS * WARP_WIDTH / 8][4], zs[2 * STRIPS];
vtb_clear(out);
VTB_UNROLL for (int i = 0; i < 2 * STRIPS; i++) zs[i] = 0.0f;
float row_sum[2] = {0.0f, 0.0f}; /* SUMMED: of the lane's rows */
const auto entry_of = [](int t, int j) -> int { return t * (t + 1) / 2 + j; }; /* of triangle */
/* what the warps have of a tile before the rows' own */
auto leave_columns = [&](int step) {
  if constexpr (CROSSING) {
    if (tid >= 64) return;
    float sum = 0.0f;
    VTB_NO_UNROLL for (int w = 0; 16 * w < n_rows && step < n_steps; w++)
      sum += across[step % 2 * 256 + w * 64 + tid];
    ${column_sums}[(((vtb_i64)scan * ROW_TILES + row_tile) * CHUNK_TILES + row_tile % CHUNK_TILES -
                    step) *
                       64 +
                   tid] = sum;
  }
};

#include "linscan_tiles_maps.cuh"

#include "linscan_tiles_states.cuh"

#include "linscan_tiles_columns.cuh"
meet(0, vtb_flag<true>());
int met = 1;
/* at 0 all that is left has decayed */
VTB_NO_UNROLL for (; met < n_steps && between != 0.0f; met++)
  meet(met, vtb_flag<false>());
vtb_cp_wait<0>();
vtb_sync();
if constexpr (ROW_GAIN) {
  if constexpr (DOT) {
    VTB_UNROLL for (int i = 0; i < 2 * STRIPS; i++) {
      const int r = row + 8 * i + lane / 4;
      const vtb_i64 pos = row_at[r];
      const auto mate = ${mate_from};
      float sum = 0.0f;
      VTB_UNROLL for (int o = 0; o < WARP_WIDTH / 8; o++) VTB_UNROLL for (int e = 0; e < 2; e++) {
        const int x = o0 + 8 * o + 2 * (lane % 4) + e;
        if (x < WIDTH) sum += out[i / 2 * (WARP_WIDTH / 8) + o][i % 2 * 2 + e] * mate[x];
      }
      sum = vtb_quad_sum(sum);
      if (lane % 4 == 0) sums[vtb_warp() % COLUMN_WARPS * 64 + r] = sum;
    }
    vtb_sync();
    if (tid < n_rows) {
      const vtb_i64 pos = row_at[tid];
      float value = sums[tid];
      VTB_UNROLL for (int w = 1; w < COLUMN_WARPS; w++) value += sums[w * 64 + tid];
      ${put_gain}
    }
  }
  vtb_each_pair<STRIPS>(out, [&](int r, int, float &v, float &w) {
    v *= gains[row + r];
    w *= gains[row + r];
  });
}
if constexpr (SUMMED) {
  if (met > 1) leave_columns(met - 1);
  if constexpr (CROSSING) {
    VTB_NO_UNROLL for (; met < n_steps; met++)
      if (tid < 64)
        ${column_sums}[(((vtb_i64)scan * ROW_TILES + row_tile) * CHUNK_TILES +
                        row_tile % CHUNK_TILES - met) *
                           64 +
                       tid] = 0.0f;
  }
  VTB_UNROLL for (int i = 0; i < 2; i++) {
    const float sum = vtb_quad_sum(row_sum[i]);
    const int t = row + 8 * i + lane / 4;
    if (lane % 4 == 0 && t < n_rows) ${row_sums}[(vtb_i64)scan * N + i0 + t] = sum;
  }
  /* an entry becomes the sum of its column from it on, in its half of the rows */
  const int j = tid % 64, first = tid / 64 * 32;
  float sum = 0.0f;
  VTB_NO_UNROLL for (int t = vtb_min_int(first + 31, n_rows - 1); t >= vtb_max_int(first, j); t--)
    triangle[entry_of(t, j)] = sum += triangle[entry_of(t, j)];
  vtb_sync();
  if (tid < n_rows) {
    sum = 0.0f;
    VTB_NO_UNROLL for (int c = 0; c < tid; c++)
      sum +=
          triangle[entry_of(tid, c)] + (tid < 32 && n_rows > 32 ? triangle[entry_of(32, c)] : 0.0f);
    ${inside}[(vtb_i64)scan * N + i0 + tid] = sum;
  }
}

if constexpr (Z) {
  VTB_UNROLL for (int i = 0; i < 2 * STRIPS; i++) {
    const float sum = vtb_quad_sum(zs[i]);
    if (lane % 4 == 0) sums[vtb_warp() % COLUMN_WARPS * 64 + row + 8 * i + lane / 4] = sum;
  }
}
#include "linscan_tiles_store.cuh"
if constexpr (Z && !BODY) {
  if (tid < n_rows) {
    float value = sums[tid];
    if (!HALF) {
      VTB_UNROLL for (int w = 1; w < COLUMN_WARPS; w++) value += sums[w * 64 + tid];
    }
    const vtb_i64 pos = row_at[tid];
    ${put_z}
  }
}
}

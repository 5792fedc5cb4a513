/* The adjoint of the decays of one chunk, from sums that never take anything away
 * (linscan_terms.cu): what d_r multiplies is the sum over t >= r > j of W[t, j], with what enters
 * the chunk as a column before all, ENTERS, and what leaves it as a row after all, LEAVES. A block
 * owns a chunk, a thread tokens r of it. PART: the sum over the chunk goes to part[scan, chunk]. */
#include "products.cuh"
#include "scans.cuh"
hole int N, K, CHUNK;            /* tokens; width of keys; tokens of a chunk */
hole int ROW_TILES, STATE_PITCH; /* tiles of all chunks; from row to row of states */
hole int SCANS, THREADS;         /* SCANS: of all directions */
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole bool ENTERS, LEAVES, PART;
hole bool ALWAYS_ENTERS, ALWAYS_LEAVES; /* the first chunk, the last chunk too */
hole expr place;                 /* of step t */
hole expr decay;                 /* at pos */
hole bool VECTORS;               /* the states' rows of the normalizer are vectors of their own */
hole int PARTS;                  /* of row_terms and column_terms */
/* pointers */
hole expr row_terms, column_terms, column_sums, states, adjoints, vectors, adjoint_vectors;
hole code put;                   /* stores value at pos, without PART */
hole code put_part;              /* stores total, with PART */
constexpr int CHUNK_TILES = (CHUNK + 63) / 64, STATE = K * STATE_PITCH,
              N_CHUNKS = (N + CHUNK - 1) / CHUNK;
constexpr int BLOCKS = N_CHUNKS;
constexpr bool CROSSING = CHUNK_TILES > 1;
require THREADS == 128;
cost issue = (ENTERS && LEAVES ? STATE / 8 : 0) + CHUNK_TILES * 600;
cost registers = 55;
cost chain = CHUNK_TILES * 2000;
shared float parts[32], near[64];
const int scan = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int chunk = unit, tid = vtb_tid();
const int c0 = chunk * CHUNK, c1 = vtb_min_int(c0 + CHUNK, N), n_tiles = (c1 - c0 + 63) / 64;
const bool enters = ENTERS && (ALWAYS_ENTERS || c0 > 0),
           leaves = LEAVES && (ALWAYS_LEAVES || c1 < N);
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto row_term = [&](int t) -> float { /* of what enters, for row t */
  return vtb_sum_apart(${row_terms}, (vtb_i64)scan * N + t, (vtb_i64)SCANS * N, PARTS);
};
auto column_term = [&](int t) -> float { /* of what leaves, for column t */
  return vtb_sum_apart(${column_terms}, (vtb_i64)scan * N + t, (vtb_i64)SCANS * N, PARTS);
};
auto column_sum = [&](int later, int j) -> float {
  return ${column_sums}[((vtb_i64)scan * ROW_TILES + chunk * CHUNK_TILES + later) * CHUNK_TILES *
                            64 +
                        j];
};

float passing = 0.0f; /* what enters and leaves: <S, G> times all decays */
if (enters && leaves) {
  float all = 1.0f;
  for (int t = c0 + tid; t < c1; t += THREADS) all *= decay_at(place(t));
  VTB_UNROLL for (int m = 16; m > 0; m >>= 1) all *= vtb_shfl_xor(all, m);
  if (vtb_lane() == 0) parts[vtb_warp()] = all;
  vtb_sync();
  all = parts[0] * parts[1] * parts[2] * parts[3];
  vtb_sync();
  const vtb_i64 of_chunk = ((vtb_i64)scan * N_CHUNKS + chunk) * STATE;
  float dot = 0.0f;
  for (int i = tid; i < STATE; i += THREADS)
    dot += ${states}[of_chunk + i] * ${adjoints}[of_chunk + i];
  if (VECTORS)
    for (int i = tid; i < K; i += THREADS)
      dot += ${vectors}[((vtb_i64)scan * N_CHUNKS + chunk) * K + i] *
             ${adjoint_vectors}[((vtb_i64)scan * N_CHUNKS + chunk) * K + i];
  passing = all * vtb_block_sum(dot, 4, parts);
}

float total = 0.0f;
for (int tile = 0; tile < n_tiles; tile++) {
  const int i0 = c0 + 64 * tile, i1 = vtb_min_int(i0 + 64, c1), r = i0 + tid;
  /* W of later tiles' rows and earlier tiles' columns; near: of this tile's columns */
  float before = 0.0f;
  if (CROSSING) {
    for (int j = tid; j < 64 * tile; j += THREADS)
      for (int later = tile + 1; later < n_tiles; later++) before += column_sum(later, j);
    before = vtb_block_sum(before, 4, parts);
    if (tid < 64) {
      const int j = 64 * tile + tid;
      float sum = 0.0f;
      for (int later = tile + 1; later < n_tiles; later++) sum += column_sum(later, j);
      near[tid] = sum;
    }
    vtb_sync();
  }
  if (tid >= 64 || r >= i1) continue;
  float sum = inside[(vtb_i64)scan * N + r] + passing + before;
  for (int t = r; t < i1; t++) sum += row_sums[(vtb_i64)scan * N + t];
  if (CROSSING)
    for (int j = 0; j < tid; j++) sum += near[j];
  if (enters)
    for (int t = r; t < c1; t++) sum += row_term(t);
  if (leaves)
    for (int t = c0; t < r; t++) sum += column_term(t);
  const vtb_i64 pos = place(r);
  const float value = sum / decay_at(pos);
  total += value;
  ${put}
}
if (PART) {
  total = vtb_block_sum(total, 4, parts);
  if (tid == 0) {
    ${put_part}
  }
}

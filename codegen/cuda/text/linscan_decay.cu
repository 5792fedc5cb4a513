/* The adjoint of the decays of one chunk, from sums that never take anything away (linscan_terms.cu): what d_r multiplies
 * is the sum over t >= r > j of W[t, j], with what enters the chunk as a column before all, ENTERS, and what leaves it as a row after
 * all, LEAVES. A block owns a chunk, a thread tokens r of it. PART: the sum over the chunk goes to part[scan, chunk]. */
constexpr int N = ${N}, CHUNK = ${CHUNK}, CHUNK_TILES = (CHUNK + 63) / 64, STATE = ${K} * ${STATE_PITCH};
constexpr int N_CHUNKS = (N + CHUNK - 1) / CHUNK, ROW_PARTS = ${ROW_PARTS}, COLUMN_PARTS = ${COLUMN_PARTS};
constexpr bool ENTERS = ${ENTERS}, LEAVES = ${LEAVES}, CROSSING = CHUNK_TILES > 1, PART = ${PART};
const int chunk = unit, tid = vtb_tid();
const int c0 = chunk * CHUNK, c1 = vtb_min_int(c0 + CHUNK, N), n_tiles = (c1 - c0 + 63) / 64;
const bool enters = ENTERS && (${always_enters} || c0 > 0), leaves = LEAVES && (${always_leaves} || c1 < N);
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto row_term = [&](int t) -> float { /* of what enters, for row t */
  float sum = 0.0f;
  for (int i = 0; i < ROW_PARTS; i++) sum += ${row_term};
  return sum;
};
auto column_term = [&](int t) -> float { /* of what leaves, for column t */
  float sum = 0.0f;
  for (int i = 0; i < COLUMN_PARTS; i++) sum += ${column_term};
  return sum;
};

float passing = 0.0f; /* what enters and leaves: <S, G> times all decays */
if (enters && leaves) {
  float all = 1.0f;
  for (int t = c0 + tid; t < c1; t += 128) all *= decay_at(place(t));
  VTB_UNROLL for (int m = 16; m > 0; m >>= 1) all *= vtb_shfl_xor(all, m);
  if (vtb_lane() == 0) parts[vtb_warp()] = all;
  vtb_sync();
  all = parts[0] * parts[1] * parts[2] * parts[3];
  vtb_sync();
  float dot = 0.0f;
  for (int i = tid; i < STATE; i += 128) dot += ${passing};
  passing = all * vtb_block_sum(dot, 4, parts);
}

float total = 0.0f;
for (int tile = 0; tile < n_tiles; tile++) {
  const int i0 = c0 + 64 * tile, i1 = vtb_min_int(i0 + 64, c1), r = i0 + tid;
  float before = 0.0f; /* W of later tiles' rows and earlier tiles' columns; near: of this tile's columns */
  if (CROSSING) {
    for (int j = tid; j < 64 * tile; j += 128)
      for (int later = tile + 1; later < n_tiles; later++) before += ${column_sum};
    before = vtb_block_sum(before, 4, parts);
    if (tid < 64) {
      const int j = 64 * tile + tid;
      float sum = 0.0f;
      for (int later = tile + 1; later < n_tiles; later++) sum += ${column_sum};
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
  if (tid == 0) ${put_part};
}

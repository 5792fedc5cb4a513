/* The adjoint of the decays of one chunk, from sums that never take anything away (linscan_terms.cu): what d_r multiplies
 * is the sum over t >= r > j of W[t, j], with what enters the chunk as a column before all, ENTERS, and what leaves it as a row after
 * all, LEAVES. A block owns a chunk, a thread tokens r of it. PART: the sum over the chunk goes to part[bh, chunk]. */
constexpr int N = ${N}, HEADS = ${HEADS}, CHUNK = ${CHUNK}, CHUNK_TILES = (CHUNK + 63) / 64, STATE = ${K} * ${V1};
constexpr int N_CHUNKS = (N + CHUNK - 1) / CHUNK, ROW_PARTS = ${ROW_PARTS}, COLUMN_PARTS = ${COLUMN_PARTS};
constexpr bool ENTERS = ${ENTERS}, LEAVES = ${LEAVES}, CROSSING = CHUNK_TILES > 1, PART = ${PART};
const int chunk = vtb_block() % N_CHUNKS, bh = vtb_block() / N_CHUNKS, b = bh / HEADS, h = bh % HEADS, tid = vtb_tid();
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
for (int r = c0 + tid; r < c1; r += 128) {
  const int tile = (r - c0) / 64, i0 = c0 + 64 * tile, i1 = vtb_min_int(i0 + 64, c1);
  float sum = inside[(vtb_i64)bh * N + r] + passing;
  for (int t = r; t < i1; t++) sum += row_sums[(vtb_i64)bh * N + t];
  if (CROSSING) {
    for (int later = tile + 1; later < n_tiles; later++)
      for (int j = 0; j < 64 * tile + r - i0; j++) sum += ${column_sum};
  }
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

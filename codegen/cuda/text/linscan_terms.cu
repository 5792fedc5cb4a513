/* What a decay d_r multiplies inside a chunk: W[t, j] = (Q K^T)[t, j] (dY V^T)[t, j] M[t, j] for j < r <= t. A block owns
 * a tile of 64 rows t and meets the tiles of columns up to its own:
 *   inside[r]           sum of W over t >= r > j, both in the rows' tile
 *   row_sums[t]         sum of W over the columns of tiles before
 *   column_sums[I, j]   sum of W over the rows of tile I, tile by tile, for columns j of tiles before (CROSSING) */
constexpr int N = ${N}, K = ${K}, V = ${V}, V1 = ${V1}, CHUNK = ${CHUNK}, EXACT = ${EXACT};
constexpr int CHUNK_TILES = (CHUNK + 63) / 64, ROW_TILES = ${ROW_TILES}, SLAB = ${SLAB};
constexpr bool FOUR = ${FOUR};
constexpr int PA = vtb_pitch_along(SLAB), PP = vtb_pitch_along(64);
const int row_tile = unit;
const int c0 = row_tile / CHUNK_TILES * CHUNK, c1 = vtb_min_int(c0 + CHUNK, N), tile = row_tile % CHUNK_TILES;
const int i0 = c0 + tile * 64, n_rows = vtb_min_int(c1 - i0, 64), tid = vtb_tid(), row = 16 * vtb_warp();
VTB_PTR(float) a_tile = tiles;
VTB_PTR(float) b_tile = tiles + 64 * PA;
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto decay = [&](int t) -> float { return decay_at(place(t)); };
auto q_from = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${q_from};
};
auto k_from = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${k_from};
};
auto v_from = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${v_from};
};
auto dy_from = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${dy_from};
};
auto dy_extra = [&](int t) -> float {
  const vtb_i64 pos = place(t);
  return ${dy_extra};
};
auto v_extra = [&](int) -> float { return ${v_extra}; };
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
  auto a_of = [&](int r, int x) -> float { return a_tile[(row + r) * PA + x]; };
  auto b_of = [&](int x, int j) -> float { return b_tile[j * PA + x]; };
  for (int x0 = 0; x0 < K; x0 += SLAB) {
    const int n = vtb_clip(K - x0, SLAB);
    vtb_sync();
    vtb_copy_rows<FOUR, 64, SLAB, PA, 128>(a_tile, n_rows, n, -1, [&](int r) { return q_from(i0 + r) + x0; }, nothing);
    vtb_copy_rows<FOUR, 64, SLAB, PA, 128>(b_tile, n_columns, n, -1, [&](int r) { return k_from(j0 + r) + x0; }, nothing);
    vtb_arrived();
    vtb_product<EXACT, SLAB>(s, a_of, b_of);
  }
  for (int x0 = 0; x0 < V1; x0 += SLAB) {
    const int n = vtb_clip(V - x0, SLAB), more = V1 > V ? V - x0 : -1;
    vtb_sync();
    vtb_copy_rows<FOUR, 64, SLAB, PA, 128>(
        a_tile, n_rows, n, more, [&](int r) { return dy_from(i0 + r) + x0; },
        [&](int r) { return dy_extra(i0 + r); });
    vtb_copy_rows<FOUR, 64, SLAB, PA, 128>(b_tile, n_columns, n, more, [&](int r) { return v_from(j0 + r) + x0; }, v_extra);
    vtb_arrived();
    vtb_product<EXACT, SLAB>(g, a_of, b_of);
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
      ${put_column_sum}
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

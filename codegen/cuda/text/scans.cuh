/* Vertebra: what kernels of recurrences share, on top of products.cuh: rows along a path, products
 * of decays, sums over lanes. */

/* ROWS x COLUMNS of shared memory by WARPS warps: get(place(row), column) where row < n_rows and
 * column < n_columns, else zero. place is asked once a row: it holds the address arithmetic of a
 * path. */
template <int ROWS, int COLUMNS, int PITCH, int WARPS, class T, class Place, class Get>
VTB_FN void vtb_fill_rows(T to, int n_rows, int n_columns, Place place, Get get) {
  for (int row = vtb_warp(); row < ROWS; row += WARPS) {
    const bool real = row < n_rows;
    const vtb_i64 at = real ? place(row) : 0;
    VTB_UNROLL for (int x = vtb_lane(); x < COLUMNS; x += 32)
      to[row * PITCH + x] = real && x < n_columns ? get(at, x) : 0.0f;
  }
}

/* A decay that a sum can be divided by; a negative one stays negative. */
VTB_FN float vtb_scan_floor(float d, float least) { return vtb_abs(d) < least ? least : d; }

/* Running products of 64 numbers d by one warp: through[t] = d[0] ... d[t], after[t] = d[t+1] ...
 * d[63]; returns all of them multiplied. */
template <class T> VTB_FN float vtb_running_products(T d, T through, T after) {
  const int lane = vtb_lane();
  const float d0 = d[2 * lane], d1 = d[2 * lane + 1];
  float up = d0 * d1, down = up;
  VTB_UNROLL for (int by = 1; by < 32; by *= 2) {
    const float below = vtb_shfl_up(up, by), above = vtb_shfl_down(down, by);
    if (lane >= by) up *= below;
    if (lane + by < 32) down *= above;
  }
  float before = vtb_shfl_up(up, 1), behind = vtb_shfl_down(down, 1);
  if (lane == 0) before = 1.0f;
  if (lane == 31) behind = 1.0f;
  through[2 * lane] = before * d0;
  through[2 * lane + 1] = before * d0 * d1;
  after[2 * lane] = d1 * behind;
  after[2 * lane + 1] = behind;
  return vtb_shfl(up, 31);
}

/* Lane i of a warp receives, in v[0], the sum over lanes of v[i % M]; M a power of two up to 32.
 * Each exchange halves what is left, so that M sums take M + 4 shuffles. */
template <int M> VTB_FN void vtb_lane_sums(float (&v)[M]) {
  VTB_UNROLL for (int half = M / 2; half >= 1; half /= 2) {
    const bool upper = vtb_lane() & half;
    VTB_UNROLL for (int i = 0; i < M / 2; i++) {
      if (i >= half) break;
      const float sent = upper ? v[i] : v[i + half], kept = upper ? v[i + half] : v[i];
      v[i] = kept + vtb_shfl_xor(sent, half);
    }
  }
  VTB_UNROLL for (int m = M; m < 32; m *= 2) v[0] += vtb_shfl_xor(v[0], m);
}

/* v = N numbers of shared memory; rows of whole fours are 16-byte aligned. */
template <int N, class T> VTB_FN void vtb_load_row(float (&v)[N], T from, int at) {
  if constexpr (N % 4 == 0) {
    VTB_UNROLL for (int i = 0; i < N; i += 4) {
      const vtb_f4 four = vtb_load4(from, at + i);
      v[i] = four.x;
      v[i + 1] = four.y;
      v[i + 2] = four.z;
      v[i + 3] = four.w;
    }
  } else {
    VTB_UNROLL for (int i = 0; i < N; i++) v[i] = from[at + i];
  }
}

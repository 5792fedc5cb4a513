/* Vertebra: products of matrices in shared memory on tensor cores, on top of library.cuh.
 *
 * A warp owns 16 rows of a product and 8 * TILES columns, in registers: float c[TILES][4], element e of tile i being
 * row lane / 4 + 8 (e / 2), column 8 i + 2 (lane % 4) + e % 2. Operands are functions: a(row, k) of the warp's rows,
 * b(k, column); depth and columns are whole tiles, what lies beyond a matrix reads as zero.
 *
 * EXACT: 1 single precision (each factor as the sum of two tf32 numbers, three products; the fourth is below 2^-23),
 * 0 tf32, 2 bf16, 3 each factor as the sum of two bf16 numbers (to 2^-16), 4 fp16; sums are fp32 always.
 */

/* Row lengths that keep the lanes of a fragment on distinct banks: of rows along the depth, and across it. */
VTB_FN constexpr int vtb_pitch_along(int n) { return (n + 7) / 8 * 8 + 4; }
VTB_FN constexpr int vtb_pitch_across(int n) { return (n + 15) / 16 * 16 + 8; }

struct vtb_split { /* high + low = value */
  vtb_u32 high, low;
};
VTB_FN vtb_split vtb_split_tf32(float v) {
  vtb_split s;
  s.high = vtb_to_tf32(v);
  s.low = vtb_to_tf32(v - vtb_float(s.high));
  return s;
}

template <int TILES> VTB_FN void vtb_clear(float (&c)[TILES][4]) {
  VTB_UNROLL for (int i = 0; i < TILES; i++) VTB_UNROLL for (int e = 0; e < 4; e++) c[i][e] = 0.0f;
}

/* f(row, column, element) for all elements of the lane. */
template <int TILES, class F> VTB_FN void vtb_each(float (&c)[TILES][4], F f) {
  const int row = vtb_lane() >> 2, column = 2 * (vtb_lane() & 3);
  VTB_UNROLL for (int i = 0; i < TILES; i++) VTB_UNROLL for (int e = 0; e < 4; e++)
      f(row + 8 * (e >> 1), 8 * i + column + (e & 1), c[i][e]);
}

template <int TILES, class A, class B> VTB_FN void vtb_step_tf32(float (&c)[TILES][4], int k, A a, B b) {
  const int g = vtb_lane() >> 2, t = vtb_lane() & 3;
  const vtb_u32 x[4] = {vtb_to_tf32(a(g, k + t)), vtb_to_tf32(a(g + 8, k + t)), vtb_to_tf32(a(g, k + t + 4)),
                        vtb_to_tf32(a(g + 8, k + t + 4))};
  VTB_UNROLL for (int i = 0; i < TILES; i++) {
    const vtb_u32 y[2] = {vtb_to_tf32(b(k + t, 8 * i + g)), vtb_to_tf32(b(k + t + 4, 8 * i + g))};
    vtb_mma_tf32_m16n8k8(c[i], x, y);
  }
}

template <int TILES, class A, class B> VTB_FN void vtb_step_exact(float (&c)[TILES][4], int k, A a, B b) {
  const int g = vtb_lane() >> 2, t = vtb_lane() & 3;
  const vtb_split p = vtb_split_tf32(a(g, k + t)), q = vtb_split_tf32(a(g + 8, k + t));
  const vtb_split r = vtb_split_tf32(a(g, k + t + 4)), s = vtb_split_tf32(a(g + 8, k + t + 4));
  const vtb_u32 high[4] = {p.high, q.high, r.high, s.high}, low[4] = {p.low, q.low, r.low, s.low};
  VTB_UNROLL for (int i = 0; i < TILES; i++) {
    const vtb_split u = vtb_split_tf32(b(k + t, 8 * i + g)), v = vtb_split_tf32(b(k + t + 4, 8 * i + g));
    const vtb_u32 b_high[2] = {u.high, v.high}, b_low[2] = {u.low, v.low};
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}; /* added outside: tensor cores cut sums off instead of rounding them */
    vtb_mma_tf32_m16n8k8(sum, low, b_high);
    vtb_mma_tf32_m16n8k8(sum, high, b_low);
    vtb_mma_tf32_m16n8k8(sum, high, b_high);
    VTB_UNROLL for (int e = 0; e < 4; e++) c[i][e] += sum[e];
  }
}

/* Formats of 16 bits: fp16 or bf16. */
template <bool HALF> VTB_FN vtb_u32 vtb_pack(float lo, float hi) {
  if constexpr (HALF)
    return vtb_pack_f16(lo, hi);
  else
    return vtb_pack_bf16(lo, hi);
}
template <bool HALF> VTB_FN void vtb_mma_16(float (&d)[4], const vtb_u32 (&a)[4], const vtb_u32 (&b)[2]) {
  if constexpr (HALF)
    vtb_mma_f16_m16n8k16(d, a, b);
  else
    vtb_mma_bf16_m16n8k16(d, a, b);
}

template <bool HALF, int TILES, class A, class B> VTB_FN void vtb_step_16(float (&c)[TILES][4], int k, A a, B b) {
  const int g = vtb_lane() >> 2, t = k + 2 * (vtb_lane() & 3);
  const vtb_u32 x[4] = {vtb_pack<HALF>(a(g, t), a(g, t + 1)), vtb_pack<HALF>(a(g + 8, t), a(g + 8, t + 1)),
                        vtb_pack<HALF>(a(g, t + 8), a(g, t + 9)), vtb_pack<HALF>(a(g + 8, t + 8), a(g + 8, t + 9))};
  VTB_UNROLL for (int i = 0; i < TILES; i++) {
    const int n = 8 * i + g;
    const vtb_u32 y[2] = {vtb_pack<HALF>(b(t, n), b(t + 1, n)), vtb_pack<HALF>(b(t + 8, n), b(t + 9, n))};
    vtb_mma_16<HALF>(c[i], x, y);
  }
}

/* What bf16 numbers leave of two values, as two more. */
VTB_FN vtb_u32 vtb_rest_bf16(vtb_u32 pair, float lo, float hi) {
  return vtb_pack_bf16(lo - vtb_float(pair << 16), hi - vtb_float(pair & 0xffff0000u));
}
VTB_FN vtb_split vtb_split_bf16(float lo, float hi) {
  vtb_split s;
  s.high = vtb_pack_bf16(lo, hi);
  s.low = vtb_rest_bf16(s.high, lo, hi);
  return s;
}

template <int TILES, class A, class B> VTB_FN void vtb_step_split(float (&c)[TILES][4], int k, A a, B b) {
  const int g = vtb_lane() >> 2, t = k + 2 * (vtb_lane() & 3);
  const vtb_split p = vtb_split_bf16(a(g, t), a(g, t + 1)), q = vtb_split_bf16(a(g + 8, t), a(g + 8, t + 1));
  const vtb_split r = vtb_split_bf16(a(g, t + 8), a(g, t + 9)), s = vtb_split_bf16(a(g + 8, t + 8), a(g + 8, t + 9));
  const vtb_u32 high[4] = {p.high, q.high, r.high, s.high}, low[4] = {p.low, q.low, r.low, s.low};
  VTB_UNROLL for (int i = 0; i < TILES; i++) {
    const int n = 8 * i + g;
    const vtb_split u = vtb_split_bf16(b(t, n), b(t + 1, n)), v = vtb_split_bf16(b(t + 8, n), b(t + 9, n));
    const vtb_u32 b_high[2] = {u.high, v.high}, b_low[2] = {u.low, v.low};
    vtb_mma_bf16_m16n8k16(c[i], low, b_high);
    vtb_mma_bf16_m16n8k16(c[i], high, b_low);
    vtb_mma_bf16_m16n8k16(c[i], high, b_high);
  }
}

/* c += a b over DEPTH (a multiple of 16), or the first `depth` of it: 0 for a warp whose rows are none. */
template <int EXACT, int DEPTH, int TILES, class A, class B>
VTB_FN void vtb_product(float (&c)[TILES][4], A a, B b, int depth = DEPTH) {
  VTB_NO_UNROLL for (int k = 0; k < depth; k += EXACT >= 2 ? 16 : 8) {
    if constexpr (EXACT == 3)
      vtb_step_split(c, k, a, b);
    else if constexpr (EXACT == 2 || EXACT == 4)
      vtb_step_16<EXACT == 4>(c, k, a, b);
    else if constexpr (EXACT == 1)
      vtb_step_exact(c, k, a, b);
    else
      vtb_step_tf32(c, k, a, b);
  }
}

/* Sum and maximum over the four lanes that hold a row. */
VTB_FN float vtb_quad_sum(float v) {
  v += vtb_shfl_xor(v, 1);
  return v + vtb_shfl_xor(v, 2);
}
VTB_FN float vtb_quad_max(float v) {
  v = vtb_max(v, vtb_shfl_xor(v, 1));
  return vtb_max(v, vtb_shfl_xor(v, 2));
}

/* Four elements to shared memory: of floats asynchronously, of 16 bits through registers. */
VTB_FN void vtb_bring4(VTB_PTR(float) to, VTB_PTR(const float) from) { vtb_cp_async16(to, from, true); }
VTB_FN void vtb_bring4(VTB_PTR(float) to, VTB_PTR(const vtb_bf16) from) { vtb_store4(to, 0, vtb_load4(from, 0)); }
VTB_FN void vtb_bring4(VTB_PTR(float) to, VTB_PTR(const vtb_f16) from) { vtb_store4(to, 0, vtb_load4(from, 0)); }

/* ROWS x COLUMNS of shared memory by THREADS threads: row r holds from(r)[0 ... n_columns), then extra(r) at column `more`
 * (-1: nothing), zeros else, and zeros in rows from n_rows on. FOUR: 16 bytes at a time, asynchronously: n_columns, PITCH
 * and the rows' addresses are multiples of four. Complete after vtb_arrived(). */
template <bool FOUR, int ROWS, int COLUMNS, int PITCH, int THREADS, class T, class From, class Extra>
VTB_FN void vtb_copy_rows(T to, int n_rows, int n_columns, int more, From from, Extra extra) {
  if constexpr (FOUR) {
    constexpr int WIDE = COLUMNS / 4;
    VTB_NO_UNROLL for (int i = vtb_tid(); i < ROWS * WIDE; i += THREADS) { /* copies wait for nothing: few registers */
      const int row = i / WIDE, x = i % WIDE * 4, at = row * PITCH + x;
      if (row < n_rows && x < n_columns) {
        vtb_bring4(to + at, from(row) + x);
      } else {
        vtb_f4 v = vtb_splat(0.0f);
        if (row < n_rows && x == more) v.x = extra(row);
        vtb_store4(to, at, v);
      }
    }
    vtb_cp_commit();
  } else {
    for (int i = vtb_tid(); i < ROWS * COLUMNS; i += THREADS) {
      const int row = i / COLUMNS, x = i % COLUMNS;
      to[row * PITCH + x] = row >= n_rows ? 0.0f : x < n_columns ? from(row)[x] : x == more ? extra(row) : 0.0f;
    }
  }
}
/* One of three, which may be pointers to different types. */
template <int WHICH, class A, class B, class C> VTB_FN auto vtb_choose(A a, B b, C c) {
  if constexpr (WHICH == 0)
    return a;
  else if constexpr (WHICH == 1)
    return b;
  else
    return c;
}
VTB_FN void vtb_arrived() {
  vtb_cp_wait<0>();
  vtb_sync();
}
VTB_FN int vtb_clip(int n, int most) { return n < 0 ? 0 : n < most ? n : most; }

/* ROWS x COLUMNS of shared memory by WARPS warps: get(place(row), column) where row < n_rows and column < n_columns, else
 * zero. place is asked once a row: it holds the address arithmetic of a path. */
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

/* Running products of 64 numbers d by one warp: through[t] = d[0] ... d[t], after[t] = d[t+1] ... d[63]; returns all of
 * them multiplied. */
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

/* Lane i of a warp receives, in v[0], the sum over lanes of v[i % M]; M a power of two up to 32. Each exchange halves
 * what is left, so that M sums take M + 4 shuffles. */
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

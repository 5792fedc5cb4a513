/* Vertebra: products of matrices in shared memory on tensor cores, on top of library.cuh.
 *
 * A warp owns STRIPS times 16 rows of a product and 8 n columns, in registers: float
 * c[STRIPS n][4], element e of c[s n + i] being row 16 s + lane / 4 + 8 (e / 2), column 8 i + 2
 * (lane % 4) + e % 2. Factors are functions, a(row, k) of the warp's rows and b(k, column), or what
 * vtb_rows() and vtb_columns() make of tiles in shared memory; depth and columns are whole tiles,
 * what lies beyond a matrix reads as zero. Sums are fp32 always. */

/* How factors are rounded; the numbers are those of vtb_factors in ir/narrow.h.
 *   FP32   each is the sum of two tf32 numbers, of whose products the fourth, below 2^-23, is left
 *          out
 *   TF32   tf32 (10 bits); BF16: bfloat16 (7 bits); FP16: fp16 (10 bits, up to 65504)
 *   SPLIT  each is the sum of two bfloat16 numbers (15 bits), of whose four products three are
 *          taken */
enum vtb_factors { VTB_FP32, VTB_TF32, VTB_BF16, VTB_FP16, VTB_SPLIT };
/* The depth of a step. */
VTB_FN constexpr int vtb_depth(int factors) { return factors >= 2 ? 16 : 8; }

/* Row lengths that keep the lanes of a fragment on distinct banks: of rows along the depth, of
 * elements of so many bytes, 16 bytes more than pieces of 32; and of rows across it. */
VTB_FN constexpr int vtb_pitch_along(int n, int bytes) {
  return (n * bytes + 31) / 32 * 32 / bytes + 16 / bytes;
}
VTB_FN constexpr int vtb_pitch_across(int n) { return (n + 15) / 16 * 16 + 8; }
/* Columns of a result that a block takes: all, or parts of about equal width where they exceed the
 * registers. */
VTB_FN constexpr int vtb_parts(int width) { return (width + 127) / 128; }
VTB_FN constexpr int vtb_part_width(int width) {
  return ((width + vtb_parts(width) - 1) / vtb_parts(width) + 7) / 8 * 8;
}
/* The part of a product's depth that is taken at a time. */
VTB_FN constexpr int vtb_slab(int depth) { return depth >= 64 ? 64 : (depth + 15) / 16 * 16; }
/* Instructions of a warp for 16 of the depth of mi x ni tiles of 16 x 8: products, fragments and
 * what converts them. */
VTB_FN constexpr int vtb_step_issue(int factors, int mi, int ni) {
  return factors == 0   ? 2 * (7 * mi * ni + 16 * mi + 8 * ni)
         : factors == 1 ? 2 * (mi * ni + 8 * mi + 4 * ni)
         : factors == 4 ? 3 * mi * ni + 28 * mi + 14 * ni
                        : mi * ni + mi + (ni + 1) / 2;
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

/* Strip `s` of the lane's elements to rows of shared memory, PITCH apart from element `at` on. */
template <int STRIPS, int PITCH, int TILES, class P>
VTB_FN void vtb_put_strip(P to, int at, float (&c)[TILES][4], int s) {
  constexpr int N = TILES / STRIPS;
  VTB_PTR(float) place = to + (at + (vtb_lane() >> 2) * PITCH + 2 * (vtb_lane() & 3));
  VTB_UNROLL for (int i = 0; i < N; i++) {
    VTB_UNROLL for (int e = 0; e < 4; e++)
      place[(e >> 1) * 8 * PITCH + 8 * i + (e & 1)] = c[s * N + i][e];
  }
}

/* ---- factors in shared memory -------------------------------------------------------------------
 * A tile's rows lie along the depth (ALONG) or across it, PITCH elements apart, from element `at`
 * on. vtb_rows: rows of the tile, from `first` on, are the product's; vtb_columns: its columns. Of
 * 16-bit elements ldmatrix takes fragments as they are. `first` and `at` are added to numbers, not
 * to the pointer: addresses in 32 bits need fewer registers. */
template <bool ALONG, int PITCH>
VTB_FN auto vtb_rows(VTB_PTR(float) tile, int first = 0, int at = 0) {
  return [=](int row, int k) -> float {
    return tile[ALONG ? at + (first + row) * PITCH + k : at + k * PITCH + (first + row)];
  };
}
template <bool ALONG, int PITCH>
VTB_FN auto vtb_columns(VTB_PTR(float) tile, int first = 0, int at = 0) {
  const auto rows = vtb_rows<ALONG, PITCH>(tile, first, at);
  return [=](int k, int column) -> float { return rows(column, k); };
}
template <bool ALONG, int PITCH, class P> struct vtb_half_tile {
  P tile;
  int at;
};
#define VTB_HALF_TILES(T)                                                                          \
  template <bool ALONG, int PITCH>                                                                 \
  VTB_FN vtb_half_tile<ALONG, PITCH, VTB_PTR(T)> vtb_rows(VTB_PTR(T) tile, int first = 0,          \
                                                          int at = 0) {                            \
    vtb_half_tile<ALONG, PITCH, VTB_PTR(T)> r = {tile, at + first * (ALONG ? PITCH : 1)};          \
    return r;                                                                                      \
  }                                                                                                \
  template <bool ALONG, int PITCH>                                                                 \
  VTB_FN vtb_half_tile<ALONG, PITCH, VTB_PTR(T)> vtb_columns(VTB_PTR(T) tile, int first = 0,       \
                                                             int at = 0) {                         \
    return vtb_rows<ALONG, PITCH>(tile, first, at);                                                \
  }
VTB_HALF_TILES(vtb_bf16)
VTB_HALF_TILES(vtb_f16)

/* ---- fragments ------------------------------------------------------------------------------- */

/* Formats of 16 bits: fp16 (HALF) or bf16. */
template <bool HALF> VTB_FN vtb_u32 vtb_pack(float lo, float hi) {
  if constexpr (HALF)
    return vtb_pack_f16(lo, hi);
  else
    return vtb_pack_bf16(lo, hi);
}
template <bool HALF>
VTB_FN void vtb_mma_16(float (&d)[4], const vtb_u32 (&a)[4], const vtb_u32 (&b)[2]) {
  if constexpr (HALF)
    vtb_mma_f16_m16n8k16(d, a, b);
  else
    vtb_mma_bf16_m16n8k16(d, a, b);
}
/* The same of a depth of 8, half of such factors. */
template <bool HALF> VTB_FN void vtb_mma_8(float (&d)[4], vtb_u32 low, vtb_u32 high, vtb_u32 b) {
  if constexpr (HALF)
    vtb_mma_f16_m16n8k8(d, low, high, b);
  else
    vtb_mma_bf16_m16n8k8(d, low, high, b);
}

/* 16 rows and 16 of the depth of a first factor. */
template <bool HALF, class A> VTB_FN void vtb_first_16(vtb_u32 (&to)[4], A a, int row, int k) {
  const int g = row + (vtb_lane() >> 2), t = k + 2 * (vtb_lane() & 3);
  VTB_UNROLL for (int e = 0; e < 4; e++) {
    const int r = g + e % 2 * 8, x = t + e / 2 * 8;
    to[e] = vtb_pack<HALF>(a(r, x), a(r, x + 1));
  }
}
template <bool HALF, bool ALONG, int PITCH, class P>
VTB_FN void vtb_first_16(vtb_u32 (&to)[4], vtb_half_tile<ALONG, PITCH, P> a, int row, int k) {
  const int l = vtb_lane(), first = l % 8, second = l / 8 % 2 * 8, third = l / 16 * 8;
  if constexpr (ALONG)
    vtb_ldmatrix_x4(to, a.tile + (a.at + (row + first + second) * PITCH + k + third));
  else
    vtb_ldmatrix_x4_trans(to, a.tile + (a.at + (k + first + third) * PITCH + row + second));
}
/* 16 columns of a second one: to[0], to[1] are the first eight's; or, without BOTH, these alone. */
template <bool HALF, bool BOTH, class B>
VTB_FN void vtb_second_16(vtb_u32 (&to)[4], B b, int column, int k) {
  const int g = column + (vtb_lane() >> 2), t = k + 2 * (vtb_lane() & 3);
  VTB_UNROLL for (int e = 0; e < (BOTH ? 4 : 2); e++) {
    const int n = g + e / 2 * 8, x = t + e % 2 * 8;
    to[e] = vtb_pack<HALF>(b(x, n), b(x + 1, n));
  }
}
template <bool HALF, bool BOTH, bool ALONG, int PITCH, class P>
VTB_FN void vtb_second_16(vtb_u32 (&to)[4], vtb_half_tile<ALONG, PITCH, P> b, int column, int k) {
  const int l = vtb_lane(), first = l % 8, second = l / 8 % 2 * 8, third = BOTH ? l / 16 * 8 : 0;
  if constexpr (ALONG)
    vtb_ldmatrix_x4(to, b.tile + (b.at + (column + first + third) * PITCH + k + second));
  else
    vtb_ldmatrix_x4_trans(to, b.tile + (b.at + (k + first + second) * PITCH + column + third));
}

/* Numbers in two parts, high + low: of tf32, and pairs of bf16. */
VTB_FN void vtb_split_tf32(vtb_u32 &high, vtb_u32 &low, float v) {
  high = vtb_to_tf32(v);
  low = vtb_to_tf32(v - vtb_float(high));
}
VTB_FN void vtb_split_bf16(vtb_u32 &high, vtb_u32 &low, float first, float second) {
  high = vtb_pack_bf16(first, second);
  low = vtb_pack_bf16(first - vtb_float(high << 16), second - vtb_float(high & 0xffff0000u));
}

/* ---- steps: c += a b over vtb_depth(FACTORS) from k on --------------------------------------- */

template <int STRIPS, int TILES, class A, class B>
VTB_FN void vtb_step_tf32(float (&c)[TILES][4], int k, A a, B b) {
  constexpr int N = TILES / STRIPS;
  const int g = vtb_lane() >> 2, t = k + (vtb_lane() & 3);
  vtb_u32 x[STRIPS][4], y[N][2];
  VTB_UNROLL for (int s = 0; s < STRIPS; s++) VTB_UNROLL for (int e = 0; e < 4; e++)
      x[s][e] = vtb_to_tf32(a(16 * s + g + e % 2 * 8, t + e / 2 * 4));
  VTB_UNROLL for (int i = 0; i < N; i++) VTB_UNROLL for (int e = 0; e < 2; e++)
      y[i][e] = vtb_to_tf32(b(t + 4 * e, 8 * i + g));
  VTB_UNROLL for (int s = 0; s < STRIPS; s++) VTB_UNROLL for (int i = 0; i < N; i++)
      vtb_mma_tf32_m16n8k8(c[s * N + i], x[s], y[i]);
}

template <int STRIPS, int TILES, class A, class B>
VTB_FN void vtb_step_fp32(float (&c)[TILES][4], int k, A a, B b) {
  constexpr int N = TILES / STRIPS;
  const int g = vtb_lane() >> 2, t = k + (vtb_lane() & 3);
  /* fragments of b at a time: what takes the fewest registers */
  constexpr int AHEAD = STRIPS > 1 ? N : 1;
  vtb_u32 high[STRIPS][4], low[STRIPS][4];
  VTB_UNROLL for (int s = 0; s < STRIPS; s++) {
    vtb_split_tf32(high[s][0], low[s][0], a(16 * s + g, t));
    vtb_split_tf32(high[s][1], low[s][1], a(16 * s + g + 8, t));
    vtb_split_tf32(high[s][2], low[s][2], a(16 * s + g, t + 4));
    vtb_split_tf32(high[s][3], low[s][3], a(16 * s + g + 8, t + 4));
  }
  VTB_UNROLL for (int first = 0; first < N; first += AHEAD) {
    vtb_u32 b_high[AHEAD][2], b_low[AHEAD][2];
    VTB_UNROLL for (int i = 0; i < AHEAD; i++) {
      vtb_split_tf32(b_high[i][0], b_low[i][0], b(t, 8 * (first + i) + g));
      vtb_split_tf32(b_high[i][1], b_low[i][1], b(t + 4, 8 * (first + i) + g));
    }
    VTB_UNROLL for (int s = 0; s < STRIPS; s++) VTB_UNROLL for (int i = 0; i < AHEAD; i++) {
      /* added outside: tensor cores cut sums off instead of rounding them */
      float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      vtb_mma_tf32_m16n8k8(sum, low[s], b_high[i]);
      vtb_mma_tf32_m16n8k8(sum, high[s], b_low[i]);
      vtb_mma_tf32_m16n8k8(sum, high[s], b_high[i]);
      VTB_UNROLL for (int e = 0; e < 4; e++) c[s * N + first + i][e] += sum[e];
    }
  }
}

template <bool HALF, int STRIPS, int TILES, class A, class B>
VTB_FN void vtb_step_16(float (&c)[TILES][4], int k, A a, B b) {
  constexpr int N = TILES / STRIPS;
  vtb_u32 x[STRIPS][4], y[4];
  VTB_UNROLL for (int s = 0; s < STRIPS; s++) vtb_first_16<HALF>(x[s], a, 16 * s, k);
  VTB_UNROLL for (int i = 0; i + 1 < N; i += 2) {
    vtb_second_16<HALF, true>(y, b, 8 * i, k);
    const vtb_u32 first[2] = {y[0], y[1]}, second[2] = {y[2], y[3]};
    VTB_UNROLL for (int s = 0; s < STRIPS; s++) {
      vtb_mma_16<HALF>(c[s * N + i], x[s], first);
      vtb_mma_16<HALF>(c[s * N + i + 1], x[s], second);
    }
  }
  if constexpr (N % 2 == 1) {
    vtb_second_16<HALF, false>(y, b, 8 * (N - 1), k);
    const vtb_u32 last[2] = {y[0], y[1]};
    VTB_UNROLL for (int s = 0; s < STRIPS; s++) vtb_mma_16<HALF>(c[s * N + N - 1], x[s], last);
  }
}

template <int STRIPS, int TILES, class A, class B>
VTB_FN void vtb_step_split(float (&c)[TILES][4], int k, A a, B b) {
  constexpr int N = TILES / STRIPS;
  const int g = vtb_lane() >> 2, t = k + 2 * (vtb_lane() & 3);
  vtb_u32 high[STRIPS][4], low[STRIPS][4], b_high[N][2], b_low[N][2];
  VTB_UNROLL for (int s = 0; s < STRIPS; s++) VTB_UNROLL for (int e = 0; e < 4; e++) {
    const int r = 16 * s + g + e % 2 * 8, x = t + e / 2 * 8;
    vtb_split_bf16(high[s][e], low[s][e], a(r, x), a(r, x + 1));
  }
  VTB_UNROLL for (int i = 0; i < N; i++) VTB_UNROLL for (int e = 0; e < 2; e++) {
    const int n = 8 * i + g, x = t + e * 8;
    vtb_split_bf16(b_high[i][e], b_low[i][e], b(x, n), b(x + 1, n));
  }
  VTB_UNROLL for (int s = 0; s < STRIPS; s++) VTB_UNROLL for (int i = 0; i < N; i++) {
    vtb_mma_bf16_m16n8k16(c[s * N + i], low[s], b_high[i]);
    vtb_mma_bf16_m16n8k16(c[s * N + i], high[s], b_low[i]);
    vtb_mma_bf16_m16n8k16(c[s * N + i], high[s], b_high[i]);
  }
}

template <int FACTORS, int STRIPS, int TILES, class A, class B>
VTB_FN void vtb_step(float (&c)[TILES][4], int k, A a, B b) {
  if constexpr (FACTORS == VTB_FP32)
    vtb_step_fp32<STRIPS>(c, k, a, b);
  else if constexpr (FACTORS == VTB_TF32)
    vtb_step_tf32<STRIPS>(c, k, a, b);
  else if constexpr (FACTORS == VTB_SPLIT)
    vtb_step_split<STRIPS>(c, k, a, b);
  else
    vtb_step_16<FACTORS == VTB_FP16, STRIPS>(c, k, a, b);
}

/* c += a b over DEPTH (a multiple of 16), or the first `depth` of it: 0 for a warp whose rows are
 * none. */
template <int FACTORS, int DEPTH, int TILES, class A, class B>
VTB_FN void vtb_product(float (&c)[TILES][4], A a, B b, int depth = DEPTH) {
  VTB_NO_UNROLL for (int k = 0; k < depth; k += vtb_depth(FACTORS))
    vtb_step<FACTORS, 1>(c, k, a, b);
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

/* Four elements to shared memory: of its own type asynchronously, of another through registers. */
VTB_FN void vtb_bring4(VTB_PTR(float) to, VTB_PTR(const float) from) {
  vtb_cp_async16(to, from, true);
}
VTB_FN void vtb_bring4(VTB_PTR(float) to, VTB_PTR(const vtb_bf16) from) {
  vtb_store4(to, 0, vtb_load4(from, 0));
}
VTB_FN void vtb_bring4(VTB_PTR(float) to, VTB_PTR(const vtb_f16) from) {
  vtb_store4(to, 0, vtb_load4(from, 0));
}
VTB_FN void vtb_bring4(VTB_PTR(vtb_bf16) to, VTB_PTR(const float) from) {
  vtb_store4(to, 0, vtb_load4(from, 0));
}
VTB_FN void vtb_bring4(VTB_PTR(vtb_f16) to, VTB_PTR(const float) from) {
  vtb_store4(to, 0, vtb_load4(from, 0));
}
VTB_FN void vtb_bring4(VTB_PTR(vtb_bf16) to, VTB_PTR(const vtb_bf16) from) {
  vtb_cp_async8(to, from, true);
}
VTB_FN void vtb_bring4(VTB_PTR(vtb_f16) to, VTB_PTR(const vtb_f16) from) {
  vtb_cp_async8(to, from, true);
}

/* ROWS x COLUMNS of shared memory by THREADS threads: row r holds from(r)[0 ... n_columns), then
 * extra(r) at column `more` (-1: nothing), zeros else, and zeros in rows from n_rows on. FOUR: 16
 * bytes at a time, asynchronously: n_columns, PITCH and the rows' addresses are multiples of four.
 * Complete after vtb_arrived(). */
template <bool FOUR, int ROWS, int COLUMNS, int PITCH, int THREADS, class T, class From,
          class Extra>
VTB_FN void vtb_copy_rows(T to, int n_rows, int n_columns, int more, From from, Extra extra) {
  if constexpr (FOUR) {
    constexpr int WIDE = COLUMNS / 4;
    /* copies wait for nothing: few registers */
    VTB_NO_UNROLL for (int i = vtb_tid(); i < ROWS * WIDE; i += THREADS) {
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
      to[row * PITCH + x] = row >= n_rows   ? 0.0f
                            : x < n_columns ? from(row)[x]
                            : x == more     ? extra(row)
                                            : 0.0f;
    }
  }
}
/* ROWS x DEPTH of a tile as in vtb_rows, by THREADS threads, WIDE elements of BYTES at a time along
 * its rows: (row, k) comes from from[at(row, k)], rows from `row` and the depth from `k` on. Rows
 * beyond row_end are copies of the last ones, for results that nobody stores; the depth beyond
 * k_end is zero, if it can be (K_ENDS). Asynchronous, except where WIDE elements are no 4 bytes. */
template <bool ALONG, int ROWS, int DEPTH, int PITCH, int WIDE, int BYTES, int THREADS, bool K_ENDS,
          class T, class From, class At>
VTB_FN void vtb_fetch(T tile, From from, int row, int row_end, int k, int k_end, At at) {
  constexpr int PIECES = (ALONG ? DEPTH : ROWS) / WIDE, COUNT = ROWS * DEPTH / WIDE,
                TURNS = (COUNT + THREADS - 1) / THREADS;
  /* more of single elements would be registers for addresses */
  constexpr int TOGETHER = TURNS > 8 ? 4 : TURNS;
  const auto one = [&](int i) {
    const int outer = i / PIECES, inner = i % PIECES * WIDE, to = outer * PITCH + inner;
    const int r = vtb_min_int(row + (ALONG ? outer : inner), row_end - (ALONG ? 1 : WIDE)),
              x = k + (ALONG ? inner : outer);
    const bool valid = !K_ENDS || x < k_end;
    if constexpr (WIDE * BYTES == 16)
      vtb_cp_async16(tile + to, from + (valid ? at(r, x) : 0), valid);
    else if constexpr (WIDE * BYTES == 4)
      vtb_cp_async4(tile + to, from + (valid ? at(r, x) : 0), valid);
    else
      tile[to] = valid ? (float)from[at(r, x)] : 0.0f;
  };
  VTB_NO_UNROLL for (int first = 0; first < TURNS; first += TOGETHER)
    VTB_UNROLL for (int u = first; u < first + TOGETHER; u++) {
      const int i = vtb_tid() + u * THREADS;
      if (COUNT % THREADS == 0 ? TURNS % TOGETHER == 0 || u < TURNS : i < COUNT) one(i);
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


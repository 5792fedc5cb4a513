/* Vertebra: tiles of 16-bit elements in shared memory, on top of products.cuh: copies of 16 bytes
 * with trip counts that the compiler knows, and pairs of a lane's neighbouring columns. */

/* Eight elements to shared memory, zeros if not `valid`: of its own type asynchronously, of another
 * through registers. */
#define VTB_BRING8(T, OTHER)                                                                       \
  VTB_FN void vtb_bring8(VTB_PTR(T) to, VTB_PTR(const T) from, bool valid) {                       \
    vtb_cp_async16(to, from, valid);                                                               \
  }                                                                                                \
  VTB_FN void vtb_bring8(VTB_PTR(T) to, VTB_PTR(const float) from, bool valid) {                   \
    vtb_store4(to, 0, valid ? vtb_load4(from, 0) : vtb_splat(0.0f));                               \
    vtb_store4(to, 4, valid ? vtb_load4(from, 4) : vtb_splat(0.0f));                               \
  }                                                                                                \
  VTB_FN void vtb_bring8(VTB_PTR(T) to, VTB_PTR(const OTHER) from, bool valid) {                   \
    vtb_store4(to, 0, valid ? vtb_load4(from, 0) : vtb_splat(0.0f));                               \
    vtb_store4(to, 4, valid ? vtb_load4(from, 4) : vtb_splat(0.0f));                               \
  }
VTB_BRING8(vtb_bf16, vtb_f16)
VTB_BRING8(vtb_f16, vtb_bf16)
VTB_FN void vtb_bring8(VTB_PTR(float) to, VTB_PTR(const float) from, bool valid) {
  vtb_cp_async16(to, from, valid);
  vtb_cp_async16(to + 4, from + (valid ? 4 : 0), valid);
}
#define VTB_BRING8_WIDE(T)                                                                         \
  VTB_FN void vtb_bring8(VTB_PTR(float) to, VTB_PTR(const T) from, bool valid) {                   \
    vtb_store4(to, 0, valid ? vtb_load4(from, 0) : vtb_splat(0.0f));                               \
    vtb_store4(to, 4, valid ? vtb_load4(from, 4) : vtb_splat(0.0f));                               \
  }
VTB_BRING8_WIDE(vtb_bf16)
VTB_BRING8_WIDE(vtb_f16)

/* ROWS x COLUMNS of shared memory by THREADS threads (a warp: `self` is the lane): row r holds
 * from[at(r) * stride + (0 ... n_columns)], zeros else, and zeros in rows from n_rows on. EIGHT: 16
 * bytes at a time: COLUMNS, n_columns, PITCH and the rows' addresses are multiples of eight; a
 * thread's columns are LANES pieces apart, its rows STEP, so that addresses are a sum and a product
 * each. SETTLED: rows' addresses are one instruction instead of three, and a thread has a pointer
 * more. Complete after vtb_cp_wait and vtb_sync. */
template <bool EIGHT, int ROWS, int COLUMNS, int PITCH, int THREADS, bool SETTLED = false, class T,
          class From, class At>
VTB_FN void vtb_bring_rows(T to, int n_rows, int n_columns, From from, int stride, At at,
                           int self = vtb_tid()) {
  if constexpr (EIGHT) {
    constexpr int PIECES = COLUMNS / 8, PART = PIECES & -PIECES, LANES = PART > 32 ? 32 : PART,
                  STEP = THREADS / LANES;
    const int first = self / LANES, x0 = self % LANES * 8;
    const auto source = SETTLED ? vtb_settled(from + x0) : from + x0;
    const auto target = to + (first * PITCH + x0);
    int places[(ROWS + STEP - 1) / STEP]; /* all first: copies behind one another cost less */
    VTB_UNROLL for (int r = 0; r < ROWS; r += STEP)
        places[r / STEP] = ROWS % STEP == 0 || r + first < ROWS ? at(r + first) : 0;
    VTB_UNROLL for (int r = 0; r < ROWS; r += STEP) {
      const int row = r + first;
      if (ROWS % STEP != 0 && row >= ROWS) break;
      const auto along = source + (vtb_i64)places[r / STEP] * stride;
      VTB_UNROLL for (int x = 0; x < COLUMNS; x += LANES * 8)
          vtb_bring8(target + (r * PITCH + x), along + x, row < n_rows && x0 + x < n_columns);
    }
  } else {
    VTB_NO_UNROLL for (int i = self; i < ROWS * COLUMNS; i += THREADS) {
      const int row = i / COLUMNS, x = i % COLUMNS;
      to[row * PITCH + x] =
          row < n_rows && x < n_columns ? from[(vtb_i64)at(row) * stride + x] : 0.0f;
    }
  }
}

/* Rows as wgmma reads them: panels of 32 columns, each with rows of 64 bytes, whose pieces of 16
 * are turned by the row (a swizzle of 64). Element x of row r: */
template <int ROWS> VTB_FN int vtb_panel_at(int r, int x) {
  return x / 32 * (32 * ROWS) + r * 32 + ((x % 32 / 8) ^ (r / 2 % 4)) * 8 + x % 8;
}
/* As vtb_bring_rows; ROWS and COLUMNS are multiples of 32. */
template <bool EIGHT, int ROWS, int COLUMNS, int THREADS, class T, class From, class At>
VTB_FN void vtb_bring_panels(T to, int n_rows, int n_columns, From from, int stride, At at) {
  if constexpr (EIGHT) {
    constexpr int STEP = THREADS / 4; /* whole patterns of eight rows */
    const int first = vtb_tid() / 4, x0 = vtb_tid() % 4 * 8;
    const auto source = vtb_settled(from + x0);
    const auto target = to + vtb_panel_at<ROWS>(first, x0);
    VTB_UNROLL for (int r = 0; r < ROWS; r += STEP) {
      const auto along = source + (vtb_i64)at(r + first) * stride;
      VTB_UNROLL for (int x = 0; x < COLUMNS; x += 32)
          vtb_bring8(target + (x * ROWS + r * 32), along + x,
                     r + first < n_rows && x0 + x < n_columns);
    }
  } else {
    VTB_NO_UNROLL for (int i = vtb_tid(); i < ROWS * COLUMNS; i += THREADS) {
      const int r = i / COLUMNS, x = i % COLUMNS;
      to[vtb_panel_at<ROWS>(r, x)] =
          r < n_rows && x < n_columns ? from[(vtb_i64)at(r) * stride + x] : 0.0f;
    }
  }
}
/* 64 rows of COLUMNS elements, PITCH apart, become panels in their place. Behind a vtb_sync(). */
template <int COLUMNS, int PITCH, int THREADS, class T> VTB_FN void vtb_panels_of_rows(T tile) {
  constexpr int STEP = THREADS / 4;
  const int first = vtb_tid() / 4, x0 = vtb_tid() % 4 * 8;
  vtb_f4 kept[64 / STEP][COLUMNS / 32][2];
  VTB_UNROLL for (int r = 0; r < 64; r += STEP) VTB_UNROLL for (int x = 0; x < COLUMNS; x += 32)
      VTB_UNROLL for (int i = 0; i < 2; i++) kept[r / STEP][x / 32][i] =
          vtb_load4(tile, (r + first) * PITCH + x + x0 + 4 * i);
  vtb_sync();
  VTB_UNROLL for (int r = 0; r < 64; r += STEP) VTB_UNROLL for (int x = 0; x < COLUMNS; x += 32)
      VTB_UNROLL for (int i = 0; i < 2; i++)
          vtb_store4(tile, vtb_panel_at<64>(r + first, x + x0) + 4 * i, kept[r / STEP][x / 32][i]);
}
/* Columns of a product by wgmma that are no fewer. */
VTB_FN constexpr int vtb_wgmma_columns(int n) {
  return n > 192 ? 256 : n > 128 ? 192 : n > 96 ? 128 : n > 64 ? 96 : n > 32 ? 64 : 32;
}
/* In place of vtb_by_wgmma (wgmma.cuh) where there is none. */
struct vtb_no_wgmma {
  VTB_FN void stored() {}
  template <bool HALF, int DEPTH, class... A> VTB_FN void along(A &&...) {}
  template <bool HALF, class... A> VTB_FN void across(A &&...) {}
  template <bool HALF, bool ALONG, class... A> VTB_FN void slab(A &&...) {}
  VTB_FN void wait() {}
};

/* Two numbers as one or, in bf16, the sum of two, so that matrices keep 15 bits. */
template <bool HALF> VTB_FN void vtb_two_parts(vtb_u32 (&to)[2], float first, float second) {
  if constexpr (HALF) {
    to[0] = vtb_pack<HALF>(first, second), to[1] = 0;
  } else {
    vtb_split_bf16(to[0], to[1], first, second);
  }
}

/* Numbers that an element of a matrix of `group` x `group` is kept as: those of few are cheap to
 * keep whole. */
VTB_FN constexpr int vtb_map_parts(int half, int group) { return half || group >= 8 ? 1 : 2; }
/* instructions for a column */
VTB_FN constexpr int vtb_map_set_up(int group) { return 2 + (group > 8 ? group : 8) / 2; }
/* sixteens of columns that one has */
VTB_FN constexpr int vtb_map_span(int group) { return group > 16 ? group / 16 : 1; }

/* Matrices of BLOCK x BLOCK along a diagonal have elements in columns [n, n + n_size), rows [k, k +
 * k_size). */
VTB_FN constexpr bool vtb_map_meets(int block, int n, int n_size, int k, int k_size) {
  return n / block * block < k + k_size && k / block * block < n + n_size;
}

/* Two elements of such a matrix of blocks, as a lane holds a second factor of eight columns from n0
 * on, of a depth of eight from k0 on: element i of row c, of all of them, is matrix(c, i); ALONG:
 * what lies along i is summed. Zeros from `end` on. */
template <int BLOCK, bool ALONG, bool HALF, class W>
VTB_FN void vtb_group_factor(vtb_u32 (&to)[2], int lane, int n0, int k0, int end, W matrix) {
  const int n = n0 + lane / 4;
  float two[2] = {0.0f, 0.0f};
  VTB_UNROLL for (int i = 0; i < 2; i++) {
    const int k = k0 + lane % 4 * 2 + i;
    if (n / BLOCK == k / BLOCK && n < end)
      two[i] = ALONG ? matrix(n, k % BLOCK) : matrix(k, n % BLOCK);
  }
  vtb_two_parts<HALF>(to, two[0], two[1]);
}

/* Groups of G columns of n_rows of the 64 rows of a tile times such a matrix, plus bias(column) *
 * times(row). DOTTED: the bias is not added; what the rows' products with it are is, as a first
 * factor's lanes have rows, twice, added to dots. COLUMNS are the tile's, zeros beyond the first
 * WIDTH, which end in a group; a warp has some of them. Between two vtb_sync(). */
template <int G, int BLOCK, bool ALONG, bool HALF, bool DOTTED, int WIDTH, int COLUMNS, int PITCH,
          int THREADS, class P, class W, class B, class M>
VTB_FN void vtb_map_groups(P tile, int n_rows, W matrix, B bias, M times, float (&dots)[4][4]) {
  constexpr int PARTS = vtb_map_parts(HALF, G), SPAN = vtb_map_span(G),
                EDGE = WIDTH % (16 * SPAN) == 0 ? 0 : WIDTH;
  constexpr int NEAR = G > 8 ? 2 * SPAN : 1; /* eights that one is made of */
  VTB_NO_UNROLL for (int x0 = vtb_warp() * 16 * SPAN; x0 < WIDTH; x0 += THREADS / 2 * SPAN) {
    const bool both = COLUMNS % 16 == 0 || x0 + 8 < COLUMNS;
    vtb_u32 factors[2 * SPAN][NEAR][2], dot[2 * SPAN][2];
    float adds[2 * SPAN][2];
    VTB_UNROLL for (int i = 0; i < 2 * SPAN; i++) {
      VTB_UNROLL for (int j = 0; j < NEAR; j++)
        if (NEAR == 1 || vtb_map_meets(BLOCK, 8 * i, 8, 8 * j, 8))
          vtb_group_factor<BLOCK, ALONG, HALF>(
              factors[i][j], vtb_lane(), 8 * i, 8 * (NEAR > 1 ? j : i),
              EDGE == 0 ? 16 * SPAN : EDGE - x0,
              [&](int c, int e) { return matrix(x0 + c, e); });
        else
          factors[i][j][0] = factors[i][j][1] = 0;
      VTB_UNROLL for (int e = 0; e < 2; e++) {
        const int x = x0 + 8 * i + vtb_lane() % 4 * 2 + e;
        adds[i][e] = EDGE == 0 || x < EDGE ? bias(x) : 0.0f;
      }
      vtb_two_parts<HALF>(dot[i], adds[i][0], adds[i][1]);
    }
    VTB_UNROLL for (int s = 0; s < 4; s++) {
      if (16 * s >= n_rows) break;
      vtb_u32 x[SPAN][4];
      VTB_UNROLL for (int k = 0; k < SPAN; k++)
        vtb_ldmatrix_x4(x[k], tile + ((16 * s + vtb_lane() % 16) * PITCH + x0 + 16 * k +
                                      (both ? vtb_lane() / 16 * 8 : 0)));
      vtb_sync_warp();
      if (!both) x[0][2] = x[0][3] = 0;
      VTB_UNROLL for (int k = 0; k < (DOTTED ? SPAN : 0); k++)
        VTB_UNROLL for (int p = 0; p < (HALF ? 1 : 2); p++) {
          const vtb_u32 w[2] = {dot[2 * k][p], dot[2 * k + 1][p]};
          vtb_mma_16<HALF>(dots[s], x[k], w);
        }
      const int row = 16 * s + vtb_lane() / 4, column = x0 + vtb_lane() % 4 * 2;
      VTB_UNROLL for (int i = 0; i < 2 * SPAN; i++) {
        float y[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if constexpr (!DOTTED) {
          VTB_UNROLL for (int e = 0; e < 4; e++) y[e] = adds[i][e % 2] * times(row + e / 2 * 8);
        }
        if constexpr (NEAR > 1) {
          VTB_UNROLL for (int k = 0; k < SPAN; k++) {
            if (!vtb_map_meets(BLOCK, 8 * i, 8, 16 * k, 16)) continue;
            const vtb_u32 w[2] = {factors[i][2 * k][0], factors[i][2 * k + 1][0]};
            vtb_mma_16<HALF>(y, x[k], w);
          }
        } else {
          VTB_UNROLL for (int p = 0; p < PARTS; p++)
            vtb_mma_8<HALF>(y, x[0][2 * i], x[0][2 * i + 1], factors[i][0][p]);
        }
        if (i && !both) break;
        vtb_store2(tile, row * PITCH + column + 8 * i, y[0], y[1]);
        vtb_store2(tile, (row + 8) * PITCH + column + 8 * i, y[2], y[3]);
      }
    }
  }
}

/* f(row, column, c[i][e], c[i][e + 1]) for all pairs of the lane, of STRIPS times 16 rows. */
template <int STRIPS, int TILES, class F> VTB_FN void vtb_each_pair(float (&c)[TILES][4], F f) {
  const int row = vtb_lane() >> 2, column = 2 * (vtb_lane() & 3);
  VTB_UNROLL for (int s = 0; s < STRIPS; s++) VTB_UNROLL for (int i = 0; i < TILES / STRIPS; i++)
      VTB_UNROLL for (int e = 0; e < 4; e += 2)
        f(16 * s + row + 4 * e, 8 * i + column, c[s * (TILES / STRIPS) + i][e],
          c[s * (TILES / STRIPS) + i][e + 1]);
}

/* A first factor of 16 columns as lanes hold it, 16 bytes each, from element `at` of the lane on:
 * warps of the same rows share it. */
template <bool HALF, class P> VTB_FN void vtb_put_factor(P to, int at, const float (&c)[2][4]) {
  vtb_f4 four;
  four.x = vtb_float(vtb_pack<HALF>(c[0][0], c[0][1]));
  four.y = vtb_float(vtb_pack<HALF>(c[0][2], c[0][3]));
  four.z = vtb_float(vtb_pack<HALF>(c[1][0], c[1][1]));
  four.w = vtb_float(vtb_pack<HALF>(c[1][2], c[1][3]));
  vtb_store4(to, at, four);
}
struct vtb_kept_factor {
  vtb_f4 four;
};
template <class P> VTB_FN vtb_kept_factor vtb_factor_at(P from, int at) {
  vtb_kept_factor r = {vtb_load4(from, at)};
  return r;
}
template <bool HALF> VTB_FN void vtb_first_16(vtb_u32 (&to)[4], vtb_kept_factor a, int, int) {
  to[0] = vtb_bits(a.four.x), to[1] = vtb_bits(a.four.y);
  to[2] = vtb_bits(a.four.z), to[3] = vtb_bits(a.four.w);
}

/* Products of decays inside a tile of 64, d[lo + 1] ... d[hi]: inside a group of eight from a
 * table, else what is left of lo's group times the groups between times hi's group up to it, all of
 * numbers of size at most 1. Filled by threads 0 to 63 in two parts with a vtb_sync() between and
 * after them. */
template <class P> VTB_FN void vtb_group_products(P d, P near, P in, P out) {
  const int t = vtb_tid(), g = t / 8 * 8;
  float m = 1.0f;
  VTB_NO_UNROLL for (int l = t; l >= g; l--) {
    near[t * 8 + (l - g)] = m;
    m *= d[l];
  }
  in[t] = m;
  m = 1.0f;
  VTB_NO_UNROLL for (int l = t + 1; l < g + 8; l++) m *= d[l];
  out[t] = m;
}
template <class P> VTB_FN void vtb_group_gaps(P in, P gaps) {
  const int from = vtb_tid() / 8, to = vtb_tid() % 8;
  float m = 1.0f;
  VTB_NO_UNROLL for (int g = from + 1; g < to; g++) m *= in[8 * g + 7];
  gaps[vtb_tid()] = m;
}
template <class P> VTB_FN float vtb_product_between(int lo, int hi, P near, P in, P out, P gaps) {
  if (lo / 8 == hi / 8) return near[hi * 8 + lo % 8];
  return out[lo] * gaps[lo / 8 * 8 + hi / 8] * in[hi];
}

/* A lane's pairs of neighbouring tiles of eight columns, (a, b) and (c, d): the four of the sixteen
 * columns from 4 (lane % 4) on. */
VTB_FN vtb_f4 vtb_four_of_sixteen(float a, float b, float c, float d) {
  const int from = (vtb_lane() & ~3) | (2 * vtb_lane() & 3);
  const bool second = vtb_lane() & 2;
  const float a0 = vtb_shfl(a, from), b0 = vtb_shfl(b, from), a1 = vtb_shfl(a, from + 1),
              b1 = vtb_shfl(b, from + 1);
  const float c0 = vtb_shfl(c, from), d0 = vtb_shfl(d, from), c1 = vtb_shfl(c, from + 1),
              d1 = vtb_shfl(d, from + 1);
  vtb_f4 r = {second ? c0 : a0, second ? d0 : b0, second ? c1 : a1, second ? d1 : b1};
  return r;
}

/* The same with a quarter of the shuffles: the four from vtb_four_column() on, of both tiles of
 * eight. */
VTB_FN int vtb_four_column() { return vtb_lane() % 2 * 8 + vtb_lane() / 2 % 2 * 4; }
VTB_FN vtb_f4 vtb_four_of_eights(float a, float b, float c, float d) {
  const bool odd = vtb_lane() & 1;
  const float x = vtb_shfl_xor(odd ? a : c, 1), y = vtb_shfl_xor(odd ? b : d, 1);
  vtb_f4 r = {odd ? x : a, odd ? y : b, odd ? c : x, odd ? d : y};
  return r;
}

/* Pieces of 2 x 4 tiles that cover a lower triangle of `groups` times two rows. */
VTB_FN constexpr int vtb_triangle_pieces(int groups) { return (groups + 1) / 2 * (groups / 2 + 1); }

VTB_FN constexpr int vtb_pitch_of_halves(int n) { return vtb_pitch_along(n, 2); }

/* Pairs of 16 bits multiplied. */
template <bool HALF> VTB_FN vtb_u32 vtb_multiply_pairs(vtb_u32 x, vtb_u32 y) {
  if constexpr (HALF)
    return vtb_multiply_f16(x, y);
  else
    return vtb_multiply_bf16(x, y);
}

/* A number that a function takes as its argument's type. */
template <bool B> struct vtb_flag { static constexpr bool value = B; };
template <int N> struct vtb_int { static constexpr int value = N; };

/* A step of 16 as vtb_step_16, of columns of a tile that lies across the depth; `lane_of` is the
 * lane's own address in it, vtb_lane_across(): the others are numbers from there. */
template <int PITCH, int COLUMNS> VTB_FN int vtb_lane_across() {
  return vtb_lane() % 16 * PITCH + (COLUMNS > 8 ? vtb_lane() / 16 * 8 : 0);
}
template <bool HALF, int STRIPS, int TILES, class A, class P>
VTB_FN void vtb_step_across(float (&c)[TILES][4], int k, A a, P lane_of) {
  constexpr int N = TILES / STRIPS;
  vtb_u32 x[STRIPS][4], y[4];
  VTB_UNROLL for (int s = 0; s < STRIPS; s++) vtb_first_16<HALF>(x[s], a, 16 * s, k);
  VTB_UNROLL for (int i = 0; i < N; i += 2) {
    vtb_ldmatrix_x4_trans(y, lane_of + 8 * (i + 1 < N || N == 1 ? i : N - 2));
    /* the last tile is the second of the pair that was read */
    const bool alone = i + 1 == N && N > 1;
    const vtb_u32 one[2] = {alone ? y[2] : y[0], alone ? y[3] : y[1]}, other[2] = {y[2], y[3]};
    VTB_UNROLL for (int s = 0; s < STRIPS; s++) {
      vtb_mma_16<HALF>(c[s * N + i], x[s], one);
      if (i + 1 < N) vtb_mma_16<HALF>(c[s * N + i + 1], x[s], other);
    }
  }
}

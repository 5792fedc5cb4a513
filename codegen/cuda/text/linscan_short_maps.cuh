/* A part of linscan_short.cu: rows times small matrices. */
auto element = [](vtb_f4 v, int i) -> float {
  return i < 2 ? (i == 0 ? v.x : v.y) : i == 2 ? v.z : v.w;
};
/* Matrices as second factors: of 16 columns of rows and 16 of the result four words a lane, both
 * eights' numbers of both. Of those of at most 8 x 8 the eights of the same columns alone, in as
 * many parts as they have, of the lanes that have any. Of JOINED ones a word for eight by eight, of
 * three eights of rows from the first that a column is made of. */
const int quad = lane / 4, c_lane = 2 * (lane % 4);
auto quads_at = [&](int t, int s) -> int {
  return t * QUADS + WORDS * (GROUP > 8 ? s * 32 + lane
                                        : quad * (GROUP / 2) + lane % vtb_max_int(GROUP / 2, 1));
};
const bool mine = GROUP > 8 || c_lane / GROUP == quad / GROUP;
/* of columns of rows, for eight of the result */
constexpr int EIGHTS = GROUP > 8 && !JOINED ? 2 : 1;
/* fill(x, y, m): m[j][e] of column x of the result, column y + 8 j + e of rows */
auto make_half = [&](vtb_u32(&w)[2], int t, int s, int i, auto fill) {
  float m[EIGHTS][2];
  fill(16 * t + 8 * i + quad, 16 * (t / SPAN * SPAN + s) + (GROUP > 8 ? 0 : 8 * i) + c_lane, m);
  if constexpr (GROUP > 8) {
    VTB_UNROLL for (int j = 0; j < EIGHTS; j++) w[j] = vtb_pack<HALF>(m[j][0], m[j][1]);
  } else
    vtb_two_parts<HALF>(w, m[0][0], m[0][1]);
};
/* Of eight columns of a matrix, from eight n on: the first eight of rows; that there are any of
 * k. */
auto first_of = [](int n) -> int { return 8 * n / BLOCK * BLOCK / 8; };
auto meets_eight = [](int n, int k) -> bool { return vtb_map_meets(BLOCK, 8 * n, 8, 8 * k, 8); };
auto joined_at = [&](int n, int slot) -> int { return (3 * n + slot) * 32 + lane; };
int map_lane = lane;
auto make_eight = [&](int n, int k, auto fill) -> vtb_u32 { /* n of all */
  float m[EIGHTS][2];
  fill(8 * n + map_lane / 4, n / (2 * SPAN) * GROUP + 8 * k + map_lane % 4 * 2, m);
  return vtb_pack<HALF>(m[0][0], m[0][1]);
};
/* so many columns of the result, from column x of its sixteen, are made of 16 of rows */
auto has_part = [](int t, int x, int columns, int s) -> bool {
  return SPAN == 1 || vtb_map_meets(BLOCK, 16 * (t % SPAN) + x, columns, 16 * s, 16);
};
auto put_joined = [&](auto maps, int tiles, auto fill) {
  VTB_NO_UNROLL for (int unit = warp; unit < 2 * tiles * 3; unit += WARPS) {
    const int n = unit / 3, slot = unit % 3, first = first_of(n % (2 * SPAN));
    if (meets_eight(n % (2 * SPAN), first + slot))
      maps[joined_at(n, slot)] = vtb_float(make_eight(n, first + slot, fill));
  }
};
auto put_quads = [&](auto maps, int tiles, auto fill) {
  VTB_NO_UNROLL for (int unit = warp; unit < 2 * tiles * SPAN; unit += WARPS) {
    const int t = unit / (2 * SPAN), s = unit / 2 % SPAN, i = unit % 2;
    vtb_u32 w[2];
    if (!mine || !has_part(t, 0, 16, s)) continue;
    make_half(w, t, s, i, fill);
    VTB_UNROLL for (int j = 0; j < WORDS / 2; j++)
      maps[quads_at(t, s) + i * (WORDS / 2) + j] = vtb_float(w[j]);
  }
};
/* both columns are of one block */
auto has = [&](int x, int y) -> bool { return BLOCK == GROUP || x / BLOCK == y / BLOCK; };
constexpr int AT_ONCE = BLOCK % 8 == 0 ? 8 : BLOCK; /* terms of a sum */
if constexpr (MAP) {
  /* of column o of what A's matrix makes of column y, of one group */
  auto a_at = [&](int o, int y) -> float {
    const int c = h * DEPTH + (A_LAST_SUMMED ? o : y), i = (A_LAST_SUMMED ? y : o) % BLOCK;
    return !A_MAP ? (o == y ? 1.0f : 0.0f) : has(o, y) ? ${a_matrix} : 0.0f;
  };
  auto b_at = [&](int o, int x) -> float {
    const int c = h * DEPTH + (B_LAST_SUMMED ? o : x), i = (B_LAST_SUMMED ? x : o) % BLOCK;
    return !B_MAP ? (o == x ? 1.0f : 0.0f) : ${b_matrix};
  };
  auto a_add = [&](int o) -> float {
    const int c = h * DEPTH + o;
    return A_MAP ? ${a_bias} : 0.0f;
  };
  auto b_add = [&](int o) -> float {
    const int c = h * DEPTH + o;
    return B_MAP ? ${b_bias} : 0.0f;
  };
  auto fill_ab = [&](int x, int y, float(&m)[EIGHTS][2]) {
    VTB_UNROLL for (int j = 0; j < EIGHTS; j++) m[j][0] = m[j][1] = 0.0f;
    if (DEPTH < DEPTHS && x >= DEPTH) return;
    VTB_NO_UNROLL for (int from = 0; from < BLOCK; from += AT_ONCE)
      VTB_UNROLL for (int n = 0; n < AT_ONCE; n++) {
        const int o = x / BLOCK * BLOCK + from + n;
        const float w = b_at(o, x);
        VTB_UNROLL for (int j = 0; j < EIGHTS; j++)
          VTB_UNROLL for (int e = 0; e < 2; e++) m[j][e] += w * a_at(o, y + 8 * j + e);
      }
  };
  if constexpr (JOINED)
    put_joined(ab_maps, STEPS, fill_ab);
  else
    put_quads(ab_maps, STEPS, fill_ab);
  VTB_NO_UNROLL for (int i = tid; i < (DEPTHS + 31) / 32 * 32; i += THREADS) {
    float add = 0.0f, dot = 0.0f, both = 0.0f;
    if (i < DEPTH) {
      VTB_NO_UNROLL for (int from = 0; from < BLOCK; from += AT_ONCE)
        VTB_UNROLL for (int n = 0; n < AT_ONCE; n++) {
          const int o = i / BLOCK * BLOCK + from + n;
          add += b_at(o, i) * a_add(o);
          dot += b_add(o) * a_at(o, i);
        }
      both = a_add(i) * b_add(i);
    }
    const float other = vtb_shfl_xor(dot, 1);
    if (i < DEPTHS) {
      ab_add[i] = add;
      if constexpr (B_MAP) {
        across[i] = both;
        vtb_u32 parts[2];
        vtb_two_parts<HALF>(parts, dot, other);
        if (i % 2 == 0) {
          VTB_UNROLL for (int p = 0; p < 2; p++)
            dots[i / 16 * 16 + p * 8 + i % 8 / 2 * 2 + i / 8 % 2] = vtb_float(parts[p]);
        }
      }
    }
  }
}
auto c_at = [&](int x, int y) -> float {
  const int c = h * WIDTH + (C_LAST_SUMMED ? x : y), i = (C_LAST_SUMMED ? y : x) % BLOCK;
  return WIDTH < COLUMNS && x >= WIDTH || !has(x, y) ? 0.0f : ${c_matrix};
};
auto fill_c = [&](int x, int y, float (&m)[EIGHTS][2]) {
  VTB_UNROLL for (int j = 0; j < EIGHTS; j++)
    VTB_UNROLL for (int e = 0; e < 2; e++) m[j][e] = c_at(x, y + 8 * j + e);
};
if constexpr (C_MAP) {
  if constexpr (C_KEPT)
    put_quads(c_maps, PAIRS, fill_c);
  VTB_NO_UNROLL for (int x = tid; x < COLUMNS; x += THREADS) {
    const int c = h * WIDTH + x;
    c_add[x] = x < WIDTH ? ${c_bias} : 0.0f;
  }
}
vtb_cp_wait<0>();
vtb_sync();

/* x, of the steps that one matrix has, times 16 columns' numbers of it: two tiles of eight, added
 * to y. */
auto times_map = [&](float (&y)[2][4], const vtb_u32(&x)[SPAN][4], int k, auto load) {
  VTB_UNROLL for (int s = 0; s < SPAN; s++) {
    vtb_u32 w[2][2] = {{0, 0}, {0, 0}};
    if (!has_part(k, 0, 16, s)) continue;
    if (mine) load(w, k, s);
    VTB_UNROLL for (int i = 0; i < 2; i++) {
      if (!has_part(k, 8 * i, 8, s)) continue;
      if constexpr (GROUP > 8)
        vtb_mma_16<HALF>(y[i], x[s], w[i]);
      else {
        VTB_UNROLL for (int p = 0; p < PARTS; p++)
          vtb_mma_8<HALF>(y[i], x[0][2 * i], x[0][2 * i + 1], w[i][p]);
      }
    }
  }
};
/* f(eight of all columns, eight of rows): a word of each that is no zero */
auto each_joined = [&](vtb_u32(&w)[2][2], int k, int s, auto f) {
  VTB_UNROLL for (int i = 0; i < 2; i++) VTB_UNROLL for (int j = 0; j < 2; j++)
      if (meets_eight(2 * (k % SPAN) + i, 2 * s + j)) w[i][j] = f(2 * k + i, 2 * s + j);
};
auto load_quad = [&](vtb_u32(&w)[2][2], VTB_PTR(float) maps, int k, int s) {
  if constexpr (JOINED) {
    each_joined(w, k, s, [&](int n, int m) -> vtb_u32 {
      return vtb_bits(maps[joined_at(n, m - first_of(n % (2 * SPAN)))]);
    });
  } else if constexpr (WORDS == 4) {
    const vtb_f4 four = vtb_load4(maps, quads_at(k, s));
    w[0][0] = vtb_bits(four.x), w[0][1] = vtb_bits(four.y), w[1][0] = vtb_bits(four.z),
    w[1][1] = vtb_bits(four.w);
  } else {
    VTB_UNROLL for (int i = 0; i < 2; i++) w[i][0] = vtb_bits(maps[quads_at(k, s) + i]);
  }
};
auto load_ab = [&](vtb_u32(&w)[2][2], int k, int s) { load_quad(w, ab_maps, k, s); };
auto load_c = [&](vtb_u32(&w)[2][2], int k, int s) {
  if constexpr (C_KEPT)
    load_quad(w, c_maps, k, s);
  else if constexpr (JOINED)
    each_joined(w, k, s, [&](int n, int m) -> vtb_u32 { return make_eight(n, m, fill_c); });
  else {
    VTB_UNROLL for (int i = 0; i < 2; i++) make_half(w[i], k, s, i, fill_c);
  }
};
float both = 0.0f; /* of both biases */

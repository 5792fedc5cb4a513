/* A part of linscan_short.cu: rows times small matrices. */
auto element = [](vtb_f4 v, int i) -> float {
  return i < 2 ? (i == 0 ? v.x : v.y) : i == 2 ? v.z : v.w;
};
/* Matrices as second factors: of 16 columns of rows and 16 of the result four words a lane, both
 * eights' numbers of both. Of those of at most 8 x 8 the eights of the same columns alone, in as
 * many parts as they have, of the lanes that have any. */
const int quad = lane / 4, c_lane = 2 * (lane % 4);
auto quads_at = [&](int t, int s) -> int {
  return t * QUADS + WORDS * (GROUP > 8 ? s * 32 + lane
                                        : quad * (GROUP / 2) + lane % vtb_max_int(GROUP / 2, 1));
};
const bool mine = GROUP > 8 || c_lane / GROUP == quad / GROUP;
constexpr int EIGHTS = GROUP > 8 ? 2 : 1; /* of columns of rows, for eight of the result */
/* fill(x, y, m): m[j][e] of column x of the result, column y + 8 j + e of rows */
auto make_half = [&](vtb_u32(&w)[2], int t, int s, int i, auto fill) {
  float m[EIGHTS][2];
  fill(16 * t + 8 * i + quad, 16 * (t / SPAN * SPAN + s) + (GROUP > 8 ? 0 : 8 * i) + c_lane, m);
  if constexpr (GROUP > 8) {
    VTB_UNROLL for (int j = 0; j < EIGHTS; j++) w[j] = vtb_pack<HALF>(m[j][0], m[j][1]);
  } else
    vtb_two_parts<HALF>(w, m[0][0], m[0][1]);
};
auto put_quads = [&](auto maps, int tiles, auto fill) {
  VTB_NO_UNROLL for (int unit = warp; unit < 2 * tiles * SPAN; unit += WARPS) {
    const int t = unit / (2 * SPAN), s = unit / 2 % SPAN, i = unit % 2;
    vtb_u32 w[2];
    if (!mine) continue;
    make_half(w, t, s, i, fill);
    VTB_UNROLL for (int j = 0; j < WORDS / 2; j++)
      maps[quads_at(t, s) + i * (WORDS / 2) + j] = vtb_float(w[j]);
  }
};
constexpr int AT_ONCE = vtb_min_int(GROUP, 8); /* terms of a sum */
if constexpr (MAP) {
  const int g0 = h * (DEPTH / GROUP);
  /* of column o of what A's matrix makes of column y, of one group */
  auto a_at = [&](int o, int y) -> float {
    const int g = g0 + o / GROUP, e = A_LAST_SUMMED ? o % GROUP : y % GROUP,
              i = A_LAST_SUMMED ? y % GROUP : o % GROUP;
    return !A_MAP ? (o == y ? 1.0f : 0.0f) : ${a_matrix};
  };
  auto b_at = [&](int o, int x) -> float {
    const int g = g0 + o / GROUP, e = B_LAST_SUMMED ? o % GROUP : x % GROUP,
              i = B_LAST_SUMMED ? x % GROUP : o % GROUP;
    return !B_MAP ? (o == x ? 1.0f : 0.0f) : ${b_matrix};
  };
  auto a_add = [&](int o) -> float {
    const int g = g0 + o / GROUP, e = o % GROUP;
    return A_MAP ? ${a_bias} : 0.0f;
  };
  auto b_add = [&](int o) -> float {
    const int g = g0 + o / GROUP, e = o % GROUP;
    return B_MAP ? ${b_bias} : 0.0f;
  };
  put_quads(ab_maps, STEPS, [&](int x, int y, float(&m)[EIGHTS][2]) {
    VTB_UNROLL for (int j = 0; j < EIGHTS; j++) m[j][0] = m[j][1] = 0.0f;
    if (DEPTH < DEPTHS && x >= DEPTH) return;
    VTB_NO_UNROLL for (int from = 0; from < GROUP; from += AT_ONCE)
      VTB_UNROLL for (int n = 0; n < AT_ONCE; n++) {
        const int o = x / GROUP * GROUP + from + n;
        const float w = b_at(o, x);
        VTB_UNROLL for (int j = 0; j < EIGHTS; j++)
          VTB_UNROLL for (int e = 0; e < 2; e++) m[j][e] += w * a_at(o, y + 8 * j + e);
      }
  });
  VTB_NO_UNROLL for (int i = tid; i < (DEPTHS + 31) / 32 * 32; i += THREADS) {
    float add = 0.0f, dot = 0.0f, both = 0.0f;
    if (i < DEPTH) {
      VTB_NO_UNROLL for (int from = 0; from < GROUP; from += AT_ONCE)
        VTB_UNROLL for (int n = 0; n < AT_ONCE; n++) {
          const int o = i / GROUP * GROUP + from + n;
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
  const int g = h * (WIDTH / GROUP) + x / GROUP, e = C_LAST_SUMMED ? x % GROUP : y % GROUP,
            i = C_LAST_SUMMED ? y % GROUP : x % GROUP;
  return WIDTH < COLUMNS && x >= WIDTH ? 0.0f : ${c_matrix};
};
auto fill_c = [&](int x, int y, float (&m)[EIGHTS][2]) {
  VTB_UNROLL for (int j = 0; j < EIGHTS; j++)
    VTB_UNROLL for (int e = 0; e < 2; e++) m[j][e] = c_at(x, y + 8 * j + e);
};
if constexpr (C_MAP) {
  const int g0 = h * (WIDTH / GROUP);
  if constexpr (C_KEPT)
    put_quads(c_maps, PAIRS, fill_c);
  VTB_NO_UNROLL for (int x = tid; x < COLUMNS; x += THREADS) {
    const int g = g0 + x / GROUP, e = x % GROUP;
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
    if (mine) load(w, k, s);
    VTB_UNROLL for (int i = 0; i < 2; i++) {
      if constexpr (GROUP > 8)
        vtb_mma_16<HALF>(y[i], x[s], w[i]);
      else {
        VTB_UNROLL for (int p = 0; p < PARTS; p++)
          vtb_mma_8<HALF>(y[i], x[0][2 * i], x[0][2 * i + 1], w[i][p]);
      }
    }
  }
};
auto load_quad = [&](vtb_u32(&w)[2][2], VTB_PTR(float) maps, int k, int s) {
  if constexpr (WORDS == 4) {
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
  else {
    VTB_UNROLL for (int i = 0; i < 2; i++) make_half(w[i], k, s, i, fill_c);
  }
};
float both = 0.0f; /* of both biases */

/* A part of linscan_grad_short.cu: rows times small matrices. */
/* Eight columns: a second factor with what bf16 leaves of it behind, and two numbers of the
 * bias. */
struct factor {
  vtb_u32 of[2];
  float left, right;
};
/* h is not kept for this */
auto group_of = [&](int width) { return vtb_block() / DIRS % HEADS * (width / GROUP); };
/* of columns from x on, made of those from `from` on */
auto factor_of = [&](auto of_along, auto of_width, int x, int from, auto matrix,
                     auto bias) -> factor {
  constexpr int WIDTH = decltype(of_width)::value;
  factor f;
  const int g0 = group_of(WIDTH), n = x + 2 * (lane % 4);
  vtb_group_factor<GROUP, decltype(of_along)::value, HALF, WIDTH>(
      f.of, x, from, [&](int g, int e, int i) { return matrix(g0 + g, e, i); });
  f.left = n < WIDTH ? bias(g0 + n / GROUP, n % GROUP) : 0.0f;
  f.right = n < WIDTH ? bias(g0 + n / GROUP, n % GROUP + 1) : 0.0f;
  return f;
};
auto q_row = [&](int g, int e, int i) -> float { return ${q_matrix}; };
auto k_row = [&](int g, int e, int i) -> float { return ${k_matrix}; };
auto v_row = [&](int g, int e, int i) -> float { return ${v_matrix}; };
auto q_add = [&](int g, int e) -> float { return ${q_bias}; };
auto k_add = [&](int g, int e) -> float { return ${k_bias}; };
auto v_add = [&](int g, int e) -> float { return ${v_bias}; };
auto no_add = [](int, int) -> float { return 0.0f; };
auto put_rows = [&](auto to, int r, int x, const float(&y)[4]) { /* of eight columns of 16 rows */
  const auto at = to + ((r + lane / 4) * PA + x + 2 * (lane % 4));
  vtb_store2(at, 0, y[0], y[1]);
  vtb_store2(at, 8 * PA, y[2], y[3]);
};
/* a slab of all tokens; it may stay where it is */
auto multiply = [&](auto from, auto to, auto factor_at) {
  VTB_NO_UNROLL for (int o = vtb_warp() / TOGETHER; o < SLAB / UNIT; o += WARPS / TOGETHER) {
    factor f[NEAR][NEAR];
    VTB_UNROLL for (int i = 0; i < NEAR; i++)
      VTB_UNROLL for (int j = 0; j < NEAR; j++)
        f[i][j] = factor_at(UNIT * o + 8 * i, UNIT * o + 8 * j);
    if constexpr (GROUP > 8) {
      VTB_NO_UNROLL for (int r = vtb_warp() % TOGETHER * 16; r < ROWS; r += TOGETHER * 16) {
        vtb_u32 x[SPAN][4];
        VTB_UNROLL for (int s = 0; s < SPAN; s++)
          vtb_ldmatrix_x4(x[s], from + ((r + lane % 16) * PA + UNIT * o + 16 * s + lane / 16 * 8));
        vtb_sync_warp();
        VTB_UNROLL for (int i = 0; i < NEAR; i++) {
          float y[4] = {f[i][0].left, f[i][0].right, f[i][0].left, f[i][0].right};
          VTB_UNROLL for (int s = 0; s < SPAN; s++) {
            const vtb_u32 w[2] = {f[i][vtb_min_int(2 * s, NEAR - 1)].of[0],
                                  f[i][vtb_min_int(2 * s + 1, NEAR - 1)].of[0]};
            vtb_mma_16<HALF>(y, x[s], w);
          }
          put_rows(to, r, UNIT * o + 8 * i, y);
        }
      }
    } else {
      /* two tiles, or the last */
      VTB_NO_UNROLL for (int r = vtb_warp() % TOGETHER * 32; r < ROWS; r += TOGETHER * 32) {
        vtb_u32 x[4];
        vtb_ldmatrix_x4(
            x, from + ((vtb_min_int(r + lane / 16 * 16, ROWS - 16) + lane % 16) * PA + 8 * o));
        vtb_sync_warp();
        VTB_UNROLL for (int i = 0; i < 2; i++) {
          if (r + 16 * i >= ROWS) break;
          const vtb_u32 twice[4] = {x[2 * i], x[2 * i + 1], x[2 * i], x[2 * i + 1]};
          float y[4] = {f[0][0].left, f[0][0].right, f[0][0].left, f[0][0].right};
          vtb_mma_16<HALF>(y, twice, f[0][0].of);
          put_rows(to, r + 16 * i, 8 * o, y);
        }
      }
    }
  }
};
/* queries and keys of a slab that has come */
auto map_rows = [&](auto from, auto q_to, auto k_to, int slab) {
  if constexpr (K_MAP)
    multiply(from + (JOINT ? 0 : OTHER), k_to, [&](int x, int y) {
      return factor_of(vtb_flag<K_LAST_SUMMED>(), vtb_int<K>(), slab * SLAB + x, slab * SLAB + y,
                       k_row, k_add);
    });
  if constexpr (Q_MAP)
    multiply(from, q_to, [&](int x, int y) {
      return factor_of(vtb_flag<Q_LAST_SUMMED>(), vtb_int<K>(), slab * SLAB + x, slab * SLAB + y,
                       q_row, q_add);
    });
  if constexpr (Q_MAP || K_MAP) vtb_sync();
};
auto map_keys = [&](int at, int slab) -> int {
  map_rows(ring + at, ring + at, ring + at + OTHER, slab);
  return at;
};
auto map_values = [&](int at, int slab) -> int {
  if constexpr (V_MAP) {
    const auto to = ring + at + OTHER;
    multiply(to, to, [&](int x, int y) {
      return factor_of(vtb_flag<V_LAST_SUMMED>(), vtb_int<V>(), slab * SLAB + x, slab * SLAB + y,
                       v_row, v_add);
    });
    vtb_sync();
  }
  return at;
};

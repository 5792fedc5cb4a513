/* A part of linscan_grad_short.cu: rows times small matrices. */
/* Eight columns: a second factor with what bf16 leaves of it behind, and two numbers of the
 * bias. */
struct factor {
  vtb_u32 of[2];
  float left, right;
};
/* h is not kept for this */
auto columns_of = [&](int width) { return vtb_block() / DIRS % HEADS * width; };
int map_lane = lane;
auto settle_lane = [&]() { /* what joined matrices are made of needs registers */
  if constexpr (NEAR > 1 && BLOCK != GROUP) map_lane = vtb_settled(lane);
};
/* of columns from x on, made of those from `from` on, of those that begin with a block at `at` */
auto factor_of = [&](auto of_along, auto of_width, int at, int x, int from, auto matrix,
                     auto bias) -> factor {
  constexpr int WIDTH = decltype(of_width)::value;
  factor f;
  const int c0 = columns_of(WIDTH) + at, n = x + 2 * (map_lane % 4),
            end = WIDTH % TAKEN == 0 ? TAKEN : WIDTH - at;
  vtb_group_factor<BLOCK, decltype(of_along)::value, HALF>(
      f.of, map_lane, x, from, end, [&](int c, int i) { return matrix(c0 + c, i); });
  f.left = n < end ? bias(c0 + n) : 0.0f;
  f.right = n + 1 < end ? bias(c0 + n + 1) : 0.0f;
  return f;
};
auto q_row = [&](int c, int i) -> float { return ${q_matrix}; };
auto k_row = [&](int c, int i) -> float { return ${k_matrix}; };
auto v_row = [&](int c, int i) -> float { return ${v_matrix}; };
auto q_add = [&](int c) -> float { return ${q_bias}; };
auto k_add = [&](int c) -> float { return ${k_bias}; };
auto v_add = [&](int c) -> float { return ${v_bias}; };
auto no_add = [](int) -> float { return 0.0f; };
auto put_rows = [&](auto to, int r, int x, const float(&y)[4]) { /* of eight columns of 16 rows */
  const auto at = to + ((r + lane / 4) * PA + x + 2 * (lane % 4));
  vtb_store2(at, 0, y[0], y[1]);
  vtb_store2(at, 8 * PA, y[2], y[3]);
};
/* eight columns of those that a matrix has, from n on, are made of eight of rows from k on */
auto meet_eights = [](int n, int k) -> bool {
  return NEAR == 1 || BLOCK == GROUP ||
         (n < TAKEN && k < TAKEN && vtb_map_meets(BLOCK, n, 8, k, 8));
};
/* of 16 of rows; false: zeros */
auto pair_of = [&](vtb_u32(&w)[2], const factor(&f)[NEAR], int n, int k) -> bool {
  VTB_UNROLL for (int i = 0; i < 2; i++)
    w[i] = meet_eights(n, k + 8 * i) ? f[vtb_min_int(k / 8 + i, NEAR - 1)].of[0] : 0;
  return meet_eights(n, k) || meet_eights(n, k + 8);
};
/* a slab of all tokens; it may stay where it is */
auto multiply = [&](auto from, auto to, auto factor_at) {
  VTB_NO_UNROLL for (int o = vtb_warp() / TOGETHER; o < SLAB / UNIT; o += WARPS / TOGETHER) {
    factor f[NEAR][NEAR];
    if (vtb_warp() % TOGETHER * (GROUP > 8 ? 16 : 32) >= ROWS) break;
    settle_lane();
    VTB_UNROLL for (int i = 0; i < NEAR; i++)
      VTB_UNROLL for (int j = 0; j < NEAR; j++)
        if (meet_eights(8 * i, 8 * j)) f[i][j] = factor_at(UNIT * o, 8 * i, 8 * j);
    if constexpr (GROUP > 8) {
      VTB_NO_UNROLL for (int r = vtb_warp() % TOGETHER * 16; r < ROWS; r += TOGETHER * 16) {
        vtb_u32 x[SPAN][4];
        VTB_UNROLL for (int s = 0; s < SPAN; s++)
          vtb_ldmatrix_x4(x[s], from + ((r + lane % 16) * PA + UNIT * o + 16 * s + lane / 16 * 8));
        vtb_sync_warp();
        VTB_UNROLL for (int i = 0; i < NEAR; i++) {
          const bool any = meet_eights(8 * i, 8 * i);
          const float left = any ? f[i][i].left : 0.0f, right = any ? f[i][i].right : 0.0f;
          float y[4] = {left, right, left, right};
          VTB_UNROLL for (int s = 0; s < SPAN; s++) {
            vtb_u32 w[2];
            if (pair_of(w, f[i], 8 * i, 16 * s)) vtb_mma_16<HALF>(y, x[s], w);
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
    multiply(from + (JOINT ? 0 : OTHER), k_to, [&](int at, int x, int y) {
      return factor_of(vtb_flag<K_LAST_SUMMED>(), vtb_int<K>(), slab * TAKEN + at, x, y, k_row,
                       k_add);
    });
  if constexpr (Q_MAP)
    multiply(from, q_to, [&](int at, int x, int y) {
      return factor_of(vtb_flag<Q_LAST_SUMMED>(), vtb_int<K>(), slab * TAKEN + at, x, y, q_row,
                       q_add);
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
    multiply(to, to, [&](int at, int x, int y) {
      return factor_of(vtb_flag<V_LAST_SUMMED>(), vtb_int<V>(), slab * TAKEN + at, x, y, v_row,
                       v_add);
    });
    vtb_sync();
  }
  return at;
};

/* A part of linscan_grad_short.cu: results of a warp, and how they are stored. */
/* Results: two strips of 16 tokens and SLAB channels a warp. BACK: tiles are taken transposed,
 * those from the diagonal down; LONG: rows of the ring are those of dY alone. */
float out[SLAB / 4][4];
auto take = [&](auto of_back, auto of_long, auto tiles, int group, auto rows) {
  constexpr bool BACK = decltype(of_back)::value;
  constexpr int PITCH = decltype(of_long)::value ? PD : PA;
  const int first = 2 * group, second = vtb_min_int(first + 1, TILES - 1);
  const auto lane_of = rows + vtb_lane_across<PITCH, SLAB>();
  const auto tile = tiles + (BACK ? (lane / 8 % 2 * 2 + lane / 16) * 64 + lane % 8 * 8 : lane * 8);
  auto load = [&](vtb_u32 (&x)[4], int from) {
    if constexpr (BACK)
      vtb_ldmatrix_x4_trans(x, tile + from);
    else
      vtb_ldmatrix_x4(x, tile + from);
  };
  auto step = [&](auto of_both, int from, int other, int depth) {
    vtb_u32 x[2][4], y[4];
    load(x[0], from);
    if constexpr (decltype(of_both)::value) load(x[1], other);
    VTB_UNROLL for (int i = 0; i < SLAB / 8; i += 2) {
      vtb_ldmatrix_x4_trans(y, lane_of + (16 * depth * PITCH + 8 * i));
      const vtb_u32 left[2] = {y[0], y[1]}, right[2] = {y[2], y[3]};
      if constexpr (decltype(of_both)::value) {
        VTB_UNROLL for (int s = 0; s < 2; s++) {
          vtb_mma_16<HALF>(out[s * (SLAB / 8) + i], x[s], left);
          vtb_mma_16<HALF>(out[s * (SLAB / 8) + i + 1], x[s], right);
        }
      } else {
        constexpr int STRIP = BACK ? 0 : 1;
        vtb_mma_16<HALF>(out[STRIP * (SLAB / 8) + i], x[0], left);
        vtb_mma_16<HALF>(out[STRIP * (SLAB / 8) + i + 1], x[0], right);
      }
    }
  };
  vtb_clear(out);
  if constexpr (BACK) {
    step(vtb_flag<false>(), 256 * tile_of(first, first), 0, first);
    int from = 256 * tile_of(first + 1, first);
    VTB_NO_UNROLL for (int i = first + 1; i < TILES; i++) {
      step(vtb_flag<true>(), from, from + 256, i);
      from += 256 * (i + 1);
    }
  } else {
    const int from = 256 * tile_of(first, 0), other = 256 * tile_of(second, 0);
    VTB_NO_UNROLL for (int j = 0; j <= first; j++)
      step(vtb_flag<true>(), from + 256 * j, other + 256 * j, j);
    if (second > first) step(vtb_flag<false>(), other + 256 * second, 0, second);
  }
};
auto store = [&](auto of_four, auto of_whole, auto of_gain, int group, int x0, int width,
                 auto put_four, auto put_one) {
  constexpr bool WHOLE = decltype(of_whole)::value;
  VTB_UNROLL for (int s = 0; s < 2; s++)
    VTB_UNROLL for (int e = 0; e < 4; e += 2) {
      const int t = 32 * group + 16 * s + 4 * e + lane / 4, n = t < N ? width - x0 : 0;
      const vtb_i64 to = order_of[vtb_min_int(t, N - 1)];
      if constexpr (decltype(of_gain)::value) {
        const float by = gains[vtb_min_int(t, ROWS - 1)];
        VTB_UNROLL for (int i = 0; i < SLAB / 8; i++)
          VTB_UNROLL for (int o = 0; o < 2; o++) out[s * (SLAB / 8) + i][e + o] *= by;
      }
      VTB_UNROLL for (int i = 0; i < SLAB / 8; i += 2) {
        const int at = s * (SLAB / 8) + i;
        if constexpr (decltype(of_four)::value) {
          const vtb_f4 four =
              vtb_four_of_eights(out[at][e], out[at][e + 1], out[at + 1][e], out[at + 1][e + 1]);
          const int x = 8 * i + vtb_four_column();
          if (WHOLE ? t < N : x < n) put_four(to, x0 + x, four);
        } else {
          VTB_UNROLL for (int o = 0; o < 4; o++) {
            const int x = 8 * i + 8 * (o / 2) + 2 * (lane % 4) + o % 2;
            if (x < n) put_one(to, x0 + x, out[at + o / 2][e + o % 2]);
          }
        }
      }
    }
};

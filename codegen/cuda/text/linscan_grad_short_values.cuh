/* A part of linscan_grad_short.cu: the values' adjoints. */
auto give_values = [&]() {
  VTB_NO_UNROLL for (int slab = 0; slab < D_SLABS; slab++) {
    const int at = RESIDENT ? STAGE : arrive();
    if constexpr (V_FOLD) { /* a strip of 16 tokens a warp */
      float sum[SLAB / 8][4];
      const int x0 = slab * TAKEN, end = vtb_min_int(V, x0 + TAKEN),
                first = vtb_min_int(vtb_warp(), TILES - 1);
      const auto lane_of = ring + (at + vtb_lane_across<PA, SLAB>());
      const auto tile = p_tiles + ((lane / 8 % 2 * 2 + lane / 16) * 64 + lane % 8 * 8);
      vtb_clear(sum);
      VTB_NO_UNROLL for (int i = vtb_warp() < TILES ? first : TILES; i < TILES; i++) {
        vtb_u32 x[4], y[4];
        vtb_ldmatrix_x4_trans(x, tile + 256 * tile_of(i, first));
        VTB_UNROLL for (int c = 0; c < SLAB / 8; c += 2) {
          vtb_ldmatrix_x4_trans(y, lane_of + (16 * i * PA + 8 * c));
          const vtb_u32 left[2] = {y[0], y[1]}, right[2] = {y[2], y[3]};
          vtb_mma_16<HALF>(sum[c], x, left);
          vtb_mma_16<HALF>(sum[c + 1], x, right);
        }
      }
      vtb_sync();
      if (vtb_warp() < TILES) {
        VTB_UNROLL for (int e = 0; e < 4; e += 2) {
          const int t = 16 * first + lane / 4 + 4 * e;
          VTB_UNROLL for (int c = 0; c < SLAB / 8; c++)
            vtb_store2(ring + at, t * PA + 8 * c + 2 * (lane % 4), sum[c][e] * gains[t],
                       sum[c][e + 1] * gains[t]);
        }
      }
      vtb_sync();
      back(
          vtb_flag<false>(), ring + at, x0, end,
          [&](int, int at, int x, int y) {
            return factor_of(vtb_flag<!V_LAST_SUMMED>(), vtb_int<V>(), at, x, y, v_row, no_add);
          },
          as_is, put_dv);
      weigh(
          vtb_flag<false>(), ring + at, ring + at + OTHER, x0, end, V,
          [&](int, int g, int o, int i, float first, float second) {
            weights_of_v(g, o, i, first, second);
          },
          [&](int, int g, int o, float value) { bias_of_v(g, o, value); });
    } else {
      VTB_NO_UNROLL for (int unit = vtb_warp(); unit < HALVES * GROUPS; unit += WARPS) {
        const int side_of = unit < GROUPS ? 0 : SLAB, group = unit < GROUPS ? unit : unit - GROUPS,
                  x0 = slab * D_SLAB + side_of;
        if (x0 >= V) continue;
        take(vtb_flag<true>(), vtb_flag<true>(), p_tiles, group, ring + at + side_of);
        store(vtb_flag<DV_FOUR>(), vtb_flag<V_WHOLE>(), vtb_flag<GAIN>(), group, x0, V, put_dv,
              [&](vtb_i64 pos, int x, float value) { ${put_dv} });
      }
    }
  }
};

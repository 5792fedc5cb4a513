/* A part of linscan_grad_short.cu: adjoints through small matrices, and theirs. */
/* Adjoints of rows before the matrices, and the matrices' own, of a slab in `from` (and, TWO,
 * `from` + OTHER, of the same rows). */
auto back = [&](auto of_two, auto from, int x0, int end, auto factor_at, auto more, auto put) {
  constexpr bool TWO = decltype(of_two)::value;
  VTB_NO_UNROLL for (int pair = vtb_warp() / PER; pair < PAIRS; pair += WARPS / PER) {
    const int first = 16 * (pair / SPAN * SPAN); /* columns that these are made of */
    factor f[TWO ? 2 : 1][2][NEAR];
    settle_lane();
    VTB_UNROLL for (int m = 0; m < (TWO ? 2 : 1); m++)
      VTB_UNROLL for (int i = 0; i < 2; i++)
        VTB_UNROLL for (int j = 0; j < NEAR; j++) {
          f[m][i][j].of[0] = f[m][i][j].of[1] = 0;
          if (!meet_eights(pair % SPAN * 16 + 8 * i, 8 * j)) continue;
          f[m][i][j] = GROUP > 8
                           ? factor_at(m, x0 + first, pair % SPAN * 16 + 8 * i, 8 * j)
                           : factor_at(m, x0 + 16 * pair, 8 * i, 8 * i);
        }
    const int x = 16 * pair + vtb_four_column();
    VTB_NO_UNROLL for (int r = vtb_warp() % PER * 16; r < ROWS; r += PER * 16) {
      float y[2][4];
      vtb_u32 d[4];
      vtb_clear(y);
      if constexpr (GROUP > 8) {
        VTB_UNROLL for (int m = 0; m < (TWO ? 2 : 1); m++)
          VTB_UNROLL for (int s = 0; s < SPAN; s++) {
            vtb_ldmatrix_x4(
                d, from + (m * OTHER + (r + lane % 16) * PA + first + 16 * s + lane / 16 * 8));
            VTB_UNROLL for (int i = 0; i < 2; i++) {
              const vtb_u32 w[2] = {f[m][i][vtb_min_int(2 * s, NEAR - 1)].of[0],
                                    f[m][i][vtb_min_int(2 * s + 1, NEAR - 1)].of[0]};
              vtb_mma_16<HALF>(y[i], d, w);
            }
          }
      } else if constexpr (TWO) {
        VTB_UNROLL for (int i = 0; i < 2; i++) {
          vtb_ldmatrix_x4(d, from + ((r + lane % 16) * PA + lane / 16 * OTHER + 16 * pair + 8 * i));
          VTB_UNROLL for (int p = 0; p < (HALF ? 1 : 2); p++) {
            const vtb_u32 w[2] = {f[0][i][0].of[p], f[TWO ? 1 : 0][i][0].of[p]};
            vtb_mma_16<HALF>(y[i], d, w);
          }
        }
      } else {
        vtb_ldmatrix_x4(d, from + ((r + lane % 16) * PA + 16 * pair + lane / 16 * 8));
        VTB_UNROLL for (int i = 0; i < 2; i++) {
          const vtb_u32 twice[4] = {d[2 * i], d[2 * i + 1], d[2 * i], d[2 * i + 1]};
          vtb_mma_16<HALF>(y[i], twice, f[0][i][0].of);
        }
      }
      VTB_UNROLL for (int e = 0; e < 4; e += 2) {
        const int t = r + lane / 4 + 4 * e;
        const vtb_f4 four = vtb_four_of_eights(y[0][e], y[0][e + 1], y[1][e], y[1][e + 1]);
        if (t < N && x0 + x < end) put(order_of[t], x0 + x, more(four, t * PA + x));
      }
    }
  }
};
auto weigh = [&](auto of_two, auto from, auto rows, int x0, int end, int width,
                 auto put_weights, auto put_bias) {
  constexpr bool TWO = decltype(of_two)::value;
  VTB_NO_UNROLL for (int unit = WARPS - 1 - vtb_warp(); unit < SLAB / 8 * NEAR; unit += WARPS) {
    /* eights of both factors */
    const int x = unit / NEAR * 8, other = GROUP > 8 ? x / UNIT * UNIT + unit % NEAR * 8 : x;
    if (x0 + x >= end) break;
    if (!meet_eights(x % UNIT, other % UNIT)) continue;
    const auto d_of =
        from + ((lane % 8 + lane / 16 * 8) * PA + (TWO ? lane / 8 % 2 * OTHER : 0) + x);
    const auto x_of = rows + (lane % 16 * PA + other);
    const vtb_u32 one = vtb_pack<HALF>(1.0f, 1.0f), ones[2] = {one, one};
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, bias[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    VTB_NO_UNROLL for (int r = 0; r < ROWS; r += 32) { /* two tiles, or the last */
      vtb_u32 d[4], y[4];
      vtb_ldmatrix_x4_trans(y, x_of + (r + (r + 16 < ROWS ? lane / 16 * 16 : 0)) * PA);
      VTB_UNROLL for (int s = 0; s < 2; s++) {
        if (r + 16 * s >= ROWS) break;
        const vtb_u32 half[2] = {y[2 * s], y[2 * s + 1]};
        vtb_ldmatrix_x4_trans(d, d_of + (r + 16 * s) * PA);
        vtb_mma_16<HALF>(sum, d, half);
        vtb_mma_16<HALF>(bias, d, ones);
      }
    }
    const int to = x0 + x + lane / 4, of = x0 + other + 2 * (lane % 4),
              g = columns_of(width) / BLOCK + to / BLOCK;
    if (to >= end) continue;
    VTB_UNROLL for (int m = 0; m < (TWO ? 2 : 1); m++) {
      if constexpr (BLOCK % 2 == 0) {
        if (to / BLOCK == of / BLOCK)
          put_weights(m, g, to % BLOCK, of % BLOCK, sum[2 * m], sum[2 * m + 1]);
      } else {
        VTB_UNROLL for (int e = 0; e < 2; e++)
          if (to / BLOCK == (of + e) / BLOCK)
            put_weights(m, g, to % BLOCK, (of + e) % BLOCK, sum[2 * m + e], 0.0f);
      }
      if (lane % 4 == 0 && other == x) put_bias(m, g, to % BLOCK, bias[2 * m]);
    }
  }
};

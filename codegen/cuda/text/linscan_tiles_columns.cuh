/* A part of linscan_tiles.cu: a tile of columns. */
/* A tile of columns; the first is the rows' own, whose decays are no row's and column's, and has
 * code of its own. */
/* decays of the tiles between rows and columns; the next tile's */
float between = 1.0f, d0 = 1.0f, d1 = 1.0f, e0 = 0.0f, e1 = 0.0f, g0 = 1.0f, g1 = 1.0f;
auto meet = [&](int step, auto on_diagonal) {
  constexpr bool diagonal = decltype(on_diagonal)::value;
  constexpr bool whole = FORWARD && !PAIRED && !diagonal; /* tiles before the rows' own are */
  const int n_columns = whole ? 64 : vtb_min_int(c1 - first_of(step), 64), cur = step % 2 * 64,
            next = 64 - cur;
  const int t1 = first_of(step + 1);
  constexpr bool full = FORWARD && !PAIRED; /* the next is, if it is */
  const int n_next = step + 1 >= n_steps ? 0 : full ? 64 : vtb_min_int(c1 - t1, 64);
  float s[STRIPS * TILES_ACROSS][4];
  vtb_clear(s);
  const bool meets =
      live && column < n_columns &&
      (!diagonal || (EARLIER ? column < row + 16 * STRIPS : column + 64 / COLUMN_WARPS > row));
  auto score = [&](int slab) {
    const int at = arrive(), ahead = slab + STAGES - 1;
    bring(ahead < PER_STEP ? step : step + 1, ahead % PER_STEP);
    if (SUMMED && slab == 0 && step > 1) leave_columns(step - 1);
    if (slab == 0 && !AHEAD) find_columns(step + 1);
    if constexpr (WGMMA) {
      PRODUCTS::along<FACTORS == VTB_FP16, DEPTHS>(s, a_tile, ring + at);
      PRODUCTS::wait();
    } else if (meets) {
      VTB_UNROLL for (int k = 0; k < SLAB; k += 16)
        vtb_step_16<FACTORS == VTB_FP16, STRIPS>(s, k, vtb_rows<true, PA>(a_tile, row, slab * SLAB),
                                                 vtb_columns<true, PB>(ring, column, at));
    }
  };
  if constexpr (SLABS > 3) { /* unrolled it would spill */
    VTB_NO_UNROLL for (int slab = 0; slab < SLABS; slab++) score(slab);
  } else {
    VTB_UNROLL for (int slab = 0; slab < SLABS; slab++) score(slab);
  }
  /* of the lane's rows, ahead: loads behind stores are not joined */
  float row_factor[2 * STRIPS], extras[2 * STRIPS];
  float column_factor[2 * TILES_ACROSS];
  VTB_UNROLL for (int i = 0; i < 2 * STRIPS; i++) {
    const int t = row + 8 * i + lane / 4;
    if (!diagonal) row_factor[i] = own[t] * between;
    if (EXTRA && FORWARD) extras[i] = row_side[t];
  }
  if constexpr (!diagonal) {
    VTB_UNROLL for (int i = 0; i < 2 * TILES_ACROSS; i++) {
      const int c = cur + column + i / 2 * 8 + 2 * (lane % 4) + i % 2;
      column_factor[i] = EARLIER ? after[c] : through[c];
    }
  }
  if (!WGMMA || live) vtb_each_pair<STRIPS>(s, [&](int r, int j, float &v, float &w) {
    const int t = row + r, c = column + j, at = r / 16 * 2 + r / 8 % 2;
    if (EXTRA) {
      v += FORWARD ? extras[at] : column_side[cur + c];
      w += FORWARD ? extras[at] : column_side[cur + c + 1];
    }
    if constexpr (!diagonal) {
      v *= row_factor[at] * column_factor[j / 8 * 2];
      w *= row_factor[at] * column_factor[j / 8 * 2 + 1];
    } else {
      /* the groups of eight that the row and the columns are in, the same of all lanes */
      const int of_row = (row + r - (lane >> 2)) / 8, of_column = (column + j - 2 * (lane & 3)) / 8,
                lo = EARLIER ? of_column : of_row, hi = EARLIER ? of_row : of_column;
      if (lo > hi) {
        v = w = 0.0f;
      } else if (lo == hi) {
        v = (EARLIER ? c > t : c < t) ? 0.0f : v * near[EARLIER ? t * 8 + c % 8 : c * 8 + t % 8];
        w = (EARLIER ? c + 1 > t : c + 1 < t)
                ? 0.0f
                : w * near[EARLIER ? t * 8 + c % 8 + 1 : (c + 1) * 8 + t % 8];
      } else {
        const float leads = gaps[lo * 8 + hi] * (EARLIER ? in : out_of)[t];
        v *= leads * (EARLIER ? out_of : in)[c];
        w *= leads * (EARLIER ? out_of : in)[c + 1];
      }
    }
    if (EXTRA && !whole && c >= n_columns) v = 0.0f; /* extra goes beyond the tokens */
    if (EXTRA && !whole && c + 1 >= n_columns) w = 0.0f;
    if (Z) zs[r / 8] += v + w;
    if constexpr (WIDE) vtb_store2(scores, t * PP + c, v, w);
  });
  if (!diagonal) between *= all_of[step % 2];
  VTB_UNROLL for (int part = 0; part < C_SLABS; part++) {
    const int at = arrive(), ahead = SLABS + part + STAGES - 1;
    bring(ahead < PER_STEP ? step : step + 1, ahead % PER_STEP);
    if (part == 0 && AHEAD) find_columns(step + 2);
    if (part == 0 && vtb_warp() == 1 && n_next > 0) { /* on their way while the products go on */
      const int j0 = 2 * lane, j1 = j0 + 1;
      d0 = full || j0 < n_next ? decay_of_column(t1 + j0, next + j0) : 1.0f;
      d1 = full || j1 < n_next ? decay_of_column(t1 + j1, next + j1) : 1.0f;
      if (GAIN) g0 = gain_at(column_at[next + j0]), g1 = gain_at(column_at[next + j1]);
      if (EXTRA && !FORWARD)
        e0 = extra_at(column_at[next + j0]), e1 = extra_at(column_at[next + j1]);
    }
    /* sixteen columns of Q C^T, from c0 on, times their scores */
    auto weigh = [&](int c0, auto product_at, auto score_at) {
      float w[2][4];
      VTB_UNROLL for (int i = 0; i < 2; i++) VTB_UNROLL for (int e = 0; e < 4; e++) {
        w[i][e] = product_at(i, e) * score_at(i, e);
        if constexpr (diagonal) {
          const int t = row + lane / 4 + e / 2 * 8, c = c0 + 8 * i + 2 * (lane % 4) + e % 2;
          if (c <= t) triangle[entry_of(t, c)] = w[i][e];
        } else {
          row_sum[e / 2] += w[i][e];
        }
      }
      if constexpr (!diagonal) {
        float four[4] = {w[0][0] + w[0][2], w[0][1] + w[0][3], w[1][0] + w[1][2],
                         w[1][1] + w[1][3]};
        /* over the lanes of a column, halves exchanged */
        VTB_UNROLL for (int half = 2; half >= 1; half /= 2) {
          const bool upper = lane & 8 * half;
          VTB_UNROLL for (int x = 0; x < half; x++) {
            const float sent = upper ? four[x] : four[x + half],
                        kept = upper ? four[x + half] : four[x];
            four[x] = kept + vtb_shfl_xor(sent, 8 * half);
          }
        }
        four[0] += vtb_shfl_xor(four[0], 4);
        if (lane / 4 % 2 == 0)
          across[step % 2 * 256 + 4 * row + c0 + lane / 16 * 8 + 2 * (lane % 4) + lane / 8 % 2] =
              four[0];
      }
    };
    if constexpr (WGMMA) {
      float q[SUMMED ? 8 : 1][4];
      vtb_u32 x[4][4];
      VTB_UNROLL for (int k = 0; k < 4; k++) VTB_UNROLL for (int e = 0; e < 4; e++) {
        const float *pair = s[2 * k + e / 2] + e % 2 * 2;
        x[k][e] = vtb_pack<FACTORS == VTB_FP16>(pair[0], pair[1]);
      }
      if constexpr (SUMMED) PRODUCTS::along<FACTORS == VTB_FP16, PQ>(q, q_tile, ring + at);
      PRODUCTS::across<FACTORS == VTB_FP16>(out, x, ring + at);
      PRODUCTS::wait();
      if constexpr (SUMMED) {
        VTB_UNROLL for (int c0 = 0; c0 < 64; c0 += 16) {
          if (live && (!diagonal || c0 < row + 16))
            weigh(c0, [&](int i, int e) { return q[c0 / 8 + i][e]; },
                  [&](int i, int e) { return s[c0 / 8 + i][e]; });
        }
      }
    } else {
    if constexpr (SUMMED) {
      VTB_NO_UNROLL for (int c0 = 0;
                         live && c0 < C_ROWS && (!diagonal || C_ROWS * part + c0 < row + 16);
                         c0 += 16) {
        float q[2][4];
        vtb_clear(q);
        VTB_UNROLL for (int k = 0; k < WIDTH; k += 16)
          vtb_step_16<FACTORS == VTB_FP16, 1>(q, k, vtb_rows<true, PQ>(q_tile, row),
                                              vtb_columns<true, PC>(ring, c0, at));
        weigh(C_ROWS * part + c0, [&](int i, int e) { return q[i][e]; },
              [&](int i, int e) { return c0 == 0 ? s[4 * part + i][e] : s[4 * part + 2 + i][e]; });
      }
    }
    const auto c_stage = ring + (at + o0 + vtb_lane_across<PC, WARP_WIDTH>());
    VTB_UNROLL for (int k = 0; k < C_ROWS; k += 16) {
      const int k0 = C_ROWS * part + k;
      if (!live || k0 >= n_columns ||
          (diagonal && (EARLIER ? k0 >= row + 16 * STRIPS : k0 + 16 <= row)))
        continue;
      const auto c_lane = c_stage + k * PC;
      if constexpr (WIDE)
        vtb_step_across<FACTORS == VTB_FP16, STRIPS>(out, 0, vtb_rows<true, PP>(scores, row, k0),
                                                     c_lane);
      else
        vtb_step_across<FACTORS == VTB_FP16, STRIPS>(
            out, 0, [&](int r, int x) -> float { return s[k0 / 8 + x / 8][r / 8 * 2 + x % 2]; },
            c_lane);
    }
    }
    if (part == (WGMMA ? 0 : 1) && vtb_warp() == 1 && n_next > 0) {
      decays[2 * lane] = d0;
      decays[2 * lane + 1] = d1;
      if (EXTRA && !FORWARD)
        column_side[next + 2 * lane] = e0, column_side[next + 2 * lane + 1] = e1;
      vtb_sync_warp();
      const float all = vtb_running_products(decays, through + next, after + next);
      if (lane == 0) all_of[(step + 1) % 2] = all;
      if (GAIN) {
        after[next + 2 * lane] *= g0;
        after[next + 2 * lane + 1] *= g1;
      }
    }
  }
};

/* A part of linscan_grad_short.cu: a pass over the triangle of scores. */
/* Sums of W: of columns, tile by tile; of rows, four tiles at a time; tiles on the diagonal as they
 * are. */
const auto all_sums = sums + SUMS_AT;
const auto column_sums = all_sums, row_sums = all_sums + TRIANGLE * 16,
           inner = row_sums + PARTS * ROWS;
const auto columns_behind = inner + TILES * 16 * PI, rows_before = columns_behind + ROWS,
           tile_sums = rows_before + ROWS;

/* a pass over the triangle: P, dS and the sums, or one of both */
auto score = [&](int pass, auto of_keys, auto of_values) {
  /* the warp's tiles: rows of a group, four columns */
  int group = 0, part = pass * WARPS + vtb_warp();
  VTB_NO_UNROLL while (part >= (group + 2) / 2) {
    part -= (group + 2) / 2;
    group++;
  }
  vtb_sync_warp(); /* a pass before has read them */
  if (lane == 0) piece_of[2 * vtb_warp()] = group, piece_of[2 * vtb_warp() + 1] = part;
  const bool live = group < GROUPS;
  const int wide = vtb_min_int(2 * group + 2, TILES) - 4 * part, first = live ? 32 * group : 0,
            second = vtb_min_int(first + 16, ROWS - 16);
  float c[16][4];
  /* of fragments of rows, of columns */
  const int lane_row = lane % 8 + lane / 8 % 2 * 8, lane_column = lane % 8 + lane / 16 * 8;
  int rows_from[2], columns_from[4];
  rows_from[0] = (first + lane_row) * PA + lane / 16 * 8;
  rows_from[1] = (second + lane_row) * PA + lane / 16 * 8;
  VTB_UNROLL for (int i = 0; i < 4; i++)
    columns_from[i] =
        (ROWS + vtb_min_int(64 * part + 16 * i, ROWS - 16) + lane_column) * PA + lane / 8 % 2 * 8;
  auto meet = [&](int at) {
    if (!live) return;
    const auto stage = ring + at;
    VTB_UNROLL for (int k = 0; k < SLAB; k += 16) {
      vtb_u32 x[2][4], y[4];
      VTB_UNROLL for (int s = 0; s < 2; s++) vtb_ldmatrix_x4(x[s], stage + (rows_from[s] + k));
      VTB_UNROLL for (int i = 0; i < 4; i++) {
        if (i >= 2 && wide <= 2) break;
        vtb_ldmatrix_x4(y, stage + (columns_from[i] + k));
        const vtb_u32 left[2] = {y[0], y[1]}, right[2] = {y[2], y[3]};
        VTB_UNROLL for (int s = 0; s < 2; s++) {
          vtb_mma_16<HALF>(c[8 * s + 2 * i], x[s], left);
          vtb_mma_16<HALF>(c[8 * s + 2 * i + 1], x[s], right);
        }
      }
    }
  };
  /* f(strip, number, tile's row, column) of the tiles in the triangle */
  auto each_tile = [&](auto f) {
    VTB_UNROLL for (int s = 0; s < 2; s++) VTB_UNROLL for (int i = 0; i < 4; i++) {
      const int row = 2 * group + s, column = 4 * part + i;
      if (live && row < TILES && column <= row) f(s, i, row, column);
    }
  };
  /* M of the lane's elements of a tile: rows lane / 4 and 8 more, columns 2 (lane % 4), one more,
   * and both 8 more. */
  float m[2][4];
  /* a row's product, the tiles' between, a column's */
  auto outside = [&](int row, int column) {
    const float between = gaps[column * TILES + row];
    float f[4];
    VTB_UNROLL for (int x = 0; x < 4; x++)
      f[x] = out_of[16 * column + x / 2 * 8 + 2 * (lane % 4) + x % 2];
    VTB_UNROLL for (int r = 0; r < 2; r++) {
      const float to = in[16 * row + 8 * r + lane / 4] * between;
      VTB_UNROLL for (int x = 0; x < 4; x++) m[r][x] = to * f[x];
    }
  };
  /* inside of eights one after the other; between them a row's and a column's */
  auto diagonal = [&](int row) {
    const int t = lane / 4, j = 2 * (lane % 4);
    float to = 1.0f, from[2] = {1.0f, 1.0f};
    VTB_UNROLL for (int x = 0; x < 4; x++) m[x / 2][x] = x % 2 + j > t ? 0.0f : 1.0f;
    m[0][2] = m[0][3] = 0.0f;
    VTB_UNROLL for (int i = 0; i < 8; i++) {
      const float d = decays[16 * row + i], e = decays[16 * row + 8 + i];
      VTB_UNROLL for (int x = 0; x < 2; x++) {
        if (i > j + x && i <= t) m[0][x] *= d, m[1][2 + x] *= e;
        if (i > j + x) from[x] *= d;
      }
      if (i <= t) to *= e;
    }
    m[1][0] = to * from[0];
    m[1][1] = to * from[1];
  };
  auto decay_tile = [&](int s, int i, int row, int column) {
    if (s == i % 2 && row == column) /* others never are on the diagonal */
      diagonal(row);
    else
      outside(row, column);
  };
  if constexpr (decltype(of_keys)::value) {
    vtb_clear(c);
    VTB_NO_UNROLL for (int slab = 0; slab < K_SLABS; slab++) meet(map_keys(arrive(), slab));
    each_tile([&](int s, int i, int row, int column) {
      decay_tile(s, i, row, column);
      VTB_UNROLL for (int q = 0; q < 4; q++) {
        const int at = 8 * s + 2 * i + q / 2, e = q % 2 * 2;
        vtb_store2(p_tiles, tile_of(row, column) * 256 + 64 * q + 2 * lane,
                   c[at][e] * m[q % 2][q / 2 * 2], c[at][e + 1] * m[q % 2][q / 2 * 2 + 1]);
      }
    });
  }
  if constexpr (decltype(of_values)::value) {
  vtb_clear(c);
  VTB_NO_UNROLL for (int slab = 0; slab < V_SLABS; slab++) meet(map_values(arrive(), slab));
  /* what was computed of them is not kept */
  group = piece_of[2 * vtb_warp()], part = piece_of[2 * vtb_warp() + 1];
  if (SUMMED && PASSES == 1) vtb_sync(); /* sums take the last slab's place */
  float row_sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, extras[4];
  VTB_UNROLL for (int i = 0; i < 4; i++)
    extras[i] = side[(i < 2 ? first : second) + i % 2 * 8 + lane / 4];
  each_tile([&](int s, int i, int row, int column) {
    const int tile = tile_of(row, column) * 256 + 2 * lane;
    float w[4][2], by[4]; /* by: gains of the lane's columns */
    decay_tile(s, i, row, column);
    VTB_UNROLL for (int x = 0; x < 4; x++) {
      if constexpr (GAIN)
        by[x] = gains[16 * column + x / 2 * 8 + 2 * (lane % 4) + x % 2];
      else
        by[x] = 1.0f;
    }
    VTB_UNROLL for (int q = 0; q < 4; q++) {
      const int at = 8 * s + 2 * i + q / 2, e = q % 2 * 2;
      w[q][0] = c[at][e] + extras[2 * s + q % 2];
      w[q][1] = c[at][e + 1] + extras[2 * s + q % 2];
      const float first_ds = w[q][0] * m[q % 2][q / 2 * 2] * by[q / 2 * 2],
                  second_ds = w[q][1] * m[q % 2][q / 2 * 2 + 1] * by[q / 2 * 2 + 1];
      if constexpr (SUMMED) {
        w[q][0] *= p_tiles[tile + 64 * q];
        w[q][1] *= p_tiles[tile + 64 * q + 1];
      }
      vtb_store2(ds_tiles, tile + 64 * q, first_ds, second_ds);
    }
    if constexpr (SUMMED) {
      if (s == i % 2 && row == column) {
        VTB_UNROLL for (int q = 0; q < 4; q++) VTB_UNROLL for (int e = 0; e < 2; e++)
            inner[(16 * row + lane / 4 + q % 2 * 8) * PI + q / 2 * 8 + 2 * (lane % 4) + e] =
                w[q][e];
      } else {
        VTB_UNROLL for (int q = 0; q < 4; q++)
          row_sum[2 * s + q % 2] += w[q][0] * by[q / 2 * 2] + w[q][1] * by[q / 2 * 2 + 1];
        float four[4] = {w[0][0] + w[1][0], w[0][1] + w[1][1], w[2][0] + w[3][0],
                         w[2][1] + w[3][1]};
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
          column_sums[tile_of(row, column) * 16 + lane / 16 * 8 + 2 * (lane % 4) + lane / 8 % 2] =
              four[0];
      }
    }
  });
  if constexpr (SUMMED) {
    VTB_UNROLL for (int i = 0; i < 4; i++) {
      const float sum = vtb_quad_sum(row_sum[i]);
      const int t = 32 * group + 16 * (i / 2) + i % 2 * 8 + lane / 4;
      if (live && t < ROWS && lane % 4 == 0) row_sums[part * ROWS + t] = sum;
    }
  }
  }
};

/* A part of linscan_tiles.cu: rows of the result, stored. */
if constexpr (HALF) { /* through shared memory, so that rows are stored whole */
  vtb_each_pair<STRIPS>(out, [&](int r, int o, float v, float w) {
    vtb_store2(done, (row + r) * PO + o0 + o, v, w);
  });
  vtb_sync();
  if constexpr (Z && COLUMN_WARPS > 1) { /* whole from here on */
    if (tid < 64) {
      VTB_UNROLL for (int w = 1; w < COLUMN_WARPS; w++) sums[tid] += sums[w * 64 + tid];
    }
    vtb_sync();
  }
  constexpr int BY = FOUR ? 4 : 1, PIECES = WIDTH / BY;
  if constexpr (C_MAP) {
    auto c_row = [&](int x, int i) -> float {
      const int c = h * WIDTH + x;
      return ${c_matrix};
    };
    auto c_add = [&](int x) -> float {
      const int c = h * WIDTH + x;
      return ${c_bias};
    };
    auto z_of = [&](int r) { return Z ? sums[r] : 0.0f; };
    float none[4][4];
    vtb_map_groups<GROUP, BLOCK, C_LAST_SUMMED, FACTORS == VTB_FP16, false, WIDTH, TILE, PO,
                   THREADS>(done, n_rows, c_row, c_add, z_of, none);
    vtb_sync();
  }
  if constexpr (BODY) {
    const int row_lane = lane % ROW_LANES;
    VTB_NO_UNROLL for (int at = vtb_warp() * (32 / ROW_LANES); at < n_rows;
                       at += THREADS / ROW_LANES) {
      const bool real = at + lane / ROW_LANES < n_rows;
      const int r = vtb_min_int(at + lane / ROW_LANES, n_rows - 1);
      const vtb_i64 pos = row_at[r];
      const auto done_row = done + r * PO;
      float z_row[1] = {Z ? sums[r] : 0.0f};
      ${row_body}
    }
  } else {
    constexpr int PART = PIECES & -PIECES, LANES = PART > 32 ? 32 : PART; /* of a row */
    VTB_NO_UNROLL for (int r = tid / LANES; r < n_rows; r += THREADS / LANES) {
      const vtb_i64 pos = row_at[r];
      VTB_UNROLL for (int i = 0; i < PIECES; i += LANES) {
        const int x = (i + tid % LANES) * BY;
        if constexpr (FOUR)
          vtb_store4(${result}, ${result_at}, vtb_load4(done, r * PO + x));
        else
          ${result}[${result_at}] = done[r * PO + x];
      }
    }
  }
} else {
  vtb_sync();
  vtb_each_pair<STRIPS>(out, [&](int r, int o, float v, float w) {
    if (row + r >= n_rows) return;
    const vtb_i64 pos = row_at[row + r];
    int x = o0 + o;
    if (x < WIDTH) ${result}[${result_at}] = v;
    x++;
    if (x < WIDTH) ${result}[${result_at}] = w;
  });
}

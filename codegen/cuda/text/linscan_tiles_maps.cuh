/* A part of linscan_tiles.cu: rows times small matrices. */
if constexpr (A_MAP || B_MAP) {
  auto a_row = [&](int x, int i) -> float {
    const int c = h * DEPTH + x;
    return ${a_matrix};
  };
  auto b_row = [&](int x, int i) -> float {
    const int c = h * DEPTH + x;
    return ${b_matrix};
  };
  auto a_add = [&](int x) -> float {
    const int c = h * DEPTH + x;
    return ${a_bias};
  };
  auto b_add = [&](int x) -> float {
    const int c = h * DEPTH + x;
    return ${b_bias};
  };
  vtb_cp_wait<STAGES - 2>();
  vtb_sync();
  constexpr bool FP16 = FACTORS == VTB_FP16;
  float parts_of[4][4];
  vtb_clear(parts_of);
  auto once = [](int) { return 1.0f; };
  if constexpr (A_MAP)
    vtb_map_groups<GROUP, BLOCK, A_LAST_SUMMED, FP16, false, DEPTH, DEPTHS, PA, THREADS>(
        a_tile, n_rows, a_row, a_add, once, parts_of);
  if constexpr (B_MAP) {
    vtb_sync();
    vtb_map_groups<GROUP, BLOCK, !B_LAST_SUMMED, FP16, true, DEPTH, DEPTHS, PA, THREADS>(
        a_tile, n_rows, b_row, b_add, once, parts_of);
    VTB_UNROLL for (int i = 0; i < 8; i++)
      if (lane % 4 == 0) dots[vtb_warp() * 64 + 8 * i + lane / 4] = parts_of[i / 2][i % 2 * 2];
    vtb_sync();
    if (tid < 64) {
      float dot = dots[tid];
      VTB_UNROLL for (int w = 1; w < THREADS / 32; w++) dot += dots[w * 64 + tid];
      row_side[tid] = dot;
    }
  }
  vtb_sync();
  if constexpr (WGMMA) vtb_panels_of_rows<DEPTHS, PA, THREADS>(a_tile);
}

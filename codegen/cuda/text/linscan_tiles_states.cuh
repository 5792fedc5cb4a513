/* A part of linscan_tiles.cu: the state that enters the chunk. */
/* The state that enters the chunk, with the term that the decays' adjoint takes of it. */
if (outside) {
  VTB_NO_UNROLL for (int x0 = 0; x0 < DEPTH; x0 += 32) {
    const int at = arrive(), ahead = x0 / 32 + STAGES - 1;
    if (ahead < STATE_SLABS)
      bring_state(32 * ahead);
    else
      bring(0, ahead - STATE_SLABS);
    PRODUCTS::slab<FACTORS == VTB_FP16, STATE_ACROSS>(out, a_tile, x0, ring + at);
    PRODUCTS::wait();
    VTB_UNROLL for (int k = 0; k < (WGMMA ? 0 : 32); k += 16) {
      if (!live || x0 + k >= DEPTHS) break;
      const auto a_of = vtb_rows<true, PA>(a_tile, row, x0);
      if constexpr (STATE_ACROSS)
        vtb_step_16<FACTORS == VTB_FP16, STRIPS>(out, k, a_of, vtb_columns<true, PS>(ring, o0, at));
      else
        vtb_step_16<FACTORS == VTB_FP16, STRIPS>(out, k, a_of,
                                                 vtb_columns<false, PC>(ring, o0, at));
    }
  }
  auto vector = vectors_of + state_of * K;
  vtb_each_pair<STRIPS>(out, [&](int r, int o, float &v, float &w) {
    if (NORMALIZED && STATE_ACROSS) { /* its column of A is the extra, or ones */
      const float e = EXTRA && FORWARD ? row_side[row + r] : 1.0f;
      v += e * vector[vtb_min_int(o0 + o, K - 1)];
      w += e * vector[vtb_min_int(o0 + o + 1, K - 1)];
    }
    const float f = factor * own[row + r];
    v *= f;
    w *= f;
  });
  if constexpr (Z && NORMALIZED) {
    constexpr int SHARE = THREADS / 64;
    const int r = tid / SHARE;
    float dot = 0.0f;
    for (int x = tid % SHARE; x < DEPTH; x += SHARE)
      dot += a_tile[WGMMA ? vtb_panel_at<64>(r, x) : r * PA + x] * vector[x];
    VTB_UNROLL for (int m = 1; m < SHARE; m *= 2) dot += vtb_shfl_xor(dot, m);
    if (tid % SHARE == 0) sums[r] = dot * factor * own[r];
    vtb_sync();
    VTB_UNROLL for (int i = 0; i < 2 * STRIPS; i++)
      if (column == 0 && lane % 4 == 0) zs[i] = sums[row + 8 * i + lane / 4];
  }
  if constexpr (TERM) {
    VTB_UNROLL for (int i = 0; i < 2 * STRIPS; i++) {
      const int r = row + 8 * i + lane / 4;
      const vtb_i64 pos = row_at[r];
      const auto mate = ${mate_from};
      float sum = 0.0f;
      VTB_UNROLL for (int o = 0; o < WARP_WIDTH / 8; o++) VTB_UNROLL for (int e = 0; e < 2; e++) {
        const int x = o0 + 8 * o + 2 * (lane % 4) + e;
        if (x < WIDTH) sum += out[i / 2 * (WARP_WIDTH / 8) + o][i % 2 * 2 + e] * mate[x];
      }
      sum = vtb_quad_sum(sum);
      if (lane % 4 == 0) sums[vtb_warp() % COLUMN_WARPS * 64 + r] = sum;
    }
    vtb_sync();
    if (tid < n_rows) {
      float sum = sums[tid];
      VTB_UNROLL for (int w = 1; w < COLUMN_WARPS; w++) sum += sums[w * 64 + tid];
      ${terms}[(vtb_i64)scan * N + i0 + tid] = sum;
    }
  }
}

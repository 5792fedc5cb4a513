/* C[m, n] = sum over k of A[m, k] B[k, n] for every batch, on tensor cores: a block owns a tile of bm x bn results and a
 * range of k, its eight warps wm x wn each.
 *
 * Tiles of A and B pass through shared memory in `stages` steps of 16 k that are copied ahead (cp.async), in the order
 * they have in global memory: along k (rows of 16 + 4 padding) or along m or n (rows of bm + 8): both give the
 * fragments' loads distinct banks. What lies beyond the edges is copied as zeros. Precisions:
 *   FP32  each factor is split into two tf32 halves, x = hi + lo, and three of the four products are taken
 *   TF32  the factors are rounded to tf32 (10 bits), BF16: to bfloat16 (7 bits), FP16: to fp16 (10 bits, up to 65504)
 *   SPLIT each factor is the sum of two bfloat16 numbers (15 bits), of whose four products three are taken
 * Sums are fp32 always.
 */
  enum { FP32, TF32, BF16, FP16, SPLIT };
  constexpr int precision = ${precision};
  const int lane = vtb_lane(), g = lane / 4, t = lane % 4;
  const int warp_m = vtb_warp() / ${warps_n} * ${wm}, warp_n = vtb_warp() % ${warps_n} * ${wn};
  const int n0 = vtb_block() % ${tiles_n} * ${bn};
  const int m0 = vtb_block() / ${tiles_n} % ${tiles_m} * ${bm};
  const int batch = vtb_block() / ${tiles} % ${batches};
  const int split = vtb_block() / ${blocks};
  const int k_begin = split * ${k_range}, k_end = vtb_min_int(k_begin + ${k_range}, ${k});
  VTB_PTR(const float) a_of = a + (${a_batch});
  VTB_PTR(const float) b_of = b + (${b_batch});
  float acc[${mi}][${ni}][4];
  VTB_UNROLL for (int i = 0; i < ${mi}; i++)
    VTB_UNROLL for (int j = 0; j < ${ni}; j++)
      VTB_UNROLL for (int x = 0; x < 4; x++) acc[i][j][x] = 0.0f;

  auto fetch = [&](int stage, int k0) {
${fetch_a}${fetch_b}    vtb_cp_commit();
  };

  const int steps = (k_end - k_begin + 15) / 16;
  VTB_UNROLL for (int s = 0; s < ${stages} - 1; s++) {
    if (s < steps)
      fetch(s, k_begin + s * 16);
    else
      vtb_cp_commit();
  }
  for (int step = 0; step < steps; step++) {
    vtb_cp_wait<${stages} - 2>();
    vtb_sync();
    const int next = step + ${stages} - 1;
    if (next < steps)
      fetch(next % ${stages}, k_begin + next * 16);
    else
      vtb_cp_commit();
    auto a_value = [&](int row, int at) { return a_tile[step % ${stages} * ${a_stage} + ${a_shared}]; };
    auto b_value = [&](int row, int at) { return b_tile[step % ${stages} * ${b_stage} + ${b_shared}]; };
    if constexpr (precision >= BF16) {
      constexpr bool half = precision == FP16, both = precision == SPLIT;
      vtb_u32 a_hi[${mi}][4], a_lo[${mi}][4], b_hi[${ni}][2], b_lo[${ni}][2];
      VTB_UNROLL for (int i = 0; i < ${mi}; i++)
        VTB_UNROLL for (int x = 0; x < 4; x++) {
          const int row = warp_m + i * 16 + x % 2 * 8 + g, at = x / 2 * 8 + t * 2;
          const float u = a_value(row, at), v = a_value(row, at + 1);
          a_hi[i][x] = vtb_pack<half>(u, v);
          if constexpr (both) a_lo[i][x] = vtb_rest_bf16(a_hi[i][x], u, v);
        }
      VTB_UNROLL for (int j = 0; j < ${ni}; j++)
        VTB_UNROLL for (int x = 0; x < 2; x++) {
          const int row = warp_n + j * 8 + g, at = x * 8 + t * 2;
          const float u = b_value(row, at), v = b_value(row, at + 1);
          b_hi[j][x] = vtb_pack<half>(u, v);
          if constexpr (both) b_lo[j][x] = vtb_rest_bf16(b_hi[j][x], u, v);
        }
      VTB_UNROLL for (int i = 0; i < ${mi}; i++)
        VTB_UNROLL for (int j = 0; j < ${ni}; j++) {
          if constexpr (both) {
            vtb_mma_bf16_m16n8k16(acc[i][j], a_lo[i], b_hi[j]);
            vtb_mma_bf16_m16n8k16(acc[i][j], a_hi[i], b_lo[j]);
          }
          vtb_mma_16<half>(acc[i][j], a_hi[i], b_hi[j]);
        }
    } else {
      VTB_UNROLL for (int kk = 0; kk < 16; kk += 8) {
        vtb_u32 a_hi[${mi}][4], a_lo[${mi}][4], b_hi[${ni}][2], b_lo[${ni}][2];
        VTB_UNROLL for (int i = 0; i < ${mi}; i++)
          VTB_UNROLL for (int x = 0; x < 4; x++) {
            const float v = a_value(warp_m + i * 16 + x % 2 * 8 + g, kk + x / 2 * 4 + t);
            a_hi[i][x] = vtb_to_tf32(v);
            a_lo[i][x] = vtb_to_tf32(v - vtb_float(a_hi[i][x]));
          }
        VTB_UNROLL for (int j = 0; j < ${ni}; j++)
          VTB_UNROLL for (int x = 0; x < 2; x++) {
            const float v = b_value(warp_n + j * 8 + g, kk + x * 4 + t);
            b_hi[j][x] = vtb_to_tf32(v);
            b_lo[j][x] = vtb_to_tf32(v - vtb_float(b_hi[j][x]));
          }
        VTB_UNROLL for (int i = 0; i < ${mi}; i++)
          VTB_UNROLL for (int j = 0; j < ${ni}; j++) {
            if constexpr (precision == FP32) {
              float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}; /* added outside: tensor cores cut sums off, not round them */
              vtb_mma_tf32_m16n8k8(sum, a_lo[i], b_hi[j]);
              vtb_mma_tf32_m16n8k8(sum, a_hi[i], b_lo[j]);
              vtb_mma_tf32_m16n8k8(sum, a_hi[i], b_hi[j]);
              VTB_UNROLL for (int x = 0; x < 4; x++) acc[i][j][x] += sum[x];
            } else {
              vtb_mma_tf32_m16n8k8(acc[i][j], a_hi[i], b_hi[j]);
            }
          }
      }
    }
  }

  VTB_UNROLL for (int i = 0; i < ${mi}; i++)
    VTB_UNROLL for (int j = 0; j < ${ni}; j++)
      VTB_UNROLL for (int x = 0; x < 4; x++) {
        const int m = m0 + warp_m + i * 16 + x / 2 * 8 + g, n = n0 + warp_n + j * 8 + t * 2 + x % 2;
        if (m < ${m} && n < ${n}) ${store}
      }

/* C[m, n] = sum over k of A[m, k] B[k, n] as in product.cu, where A, B or both are 16 bits wide in memory. Their tiles
 * are so in shared memory too, in `stages` steps of ${step} k, and ldmatrix takes fragments from them; rows are padded by
 * 16 bytes, which gives the eight rows of a matrix distinct banks. A factor of 32 bits is rounded at its fragments. */
  constexpr bool half = ${half};
  const int lane = vtb_lane(), g = lane / 4, t = lane % 4;
  const int warp_m = vtb_warp() / ${warps_n} * ${wm}, warp_n = vtb_warp() % ${warps_n} * ${wn};
  const int n0 = vtb_block() % ${tiles_n} * ${bn};
  const int m0 = vtb_block() / ${tiles_n} % ${tiles_m} * ${bm};
  const int batch = vtb_block() / ${tiles} % ${batches};
  const int split = vtb_block() / ${blocks};
  const int k_begin = split * ${k_range}, k_end = vtb_min_int(k_begin + ${k_range}, ${k});
  VTB_PTR(const ${a_type}) a_of = a + (${a_batch});
  VTB_PTR(const ${b_type}) b_of = b + (${b_batch});
  float acc[${mi}][${ni}][4];
  VTB_UNROLL for (int i = 0; i < ${mi}; i++)
    VTB_UNROLL for (int j = 0; j < ${ni}; j++)
      VTB_UNROLL for (int x = 0; x < 4; x++) acc[i][j][x] = 0.0f;

  auto fetch = [&](int stage, int k0) {
${fetch_a}${fetch_b}    vtb_cp_commit();
  };

  const int steps = (k_end - k_begin + ${step} - 1) / ${step};
  VTB_UNROLL for (int s = 0; s < ${stages} - 1; s++) {
    if (s < steps)
      fetch(s, k_begin + s * ${step});
    else
      vtb_cp_commit();
  }
  for (int step = 0; step < steps; step++) {
    vtb_cp_wait<${stages} - 2>();
    vtb_sync();
    const int next = step + ${stages} - 1;
    if (next < steps)
      fetch(next % ${stages}, k_begin + next * ${step});
    else
      vtb_cp_commit();
    const int a_at = step % ${stages} * ${a_stage}, b_at = step % ${stages} * ${b_stage};
    VTB_UNROLL for (int kk = 0; kk < ${step}; kk += 16) {
      vtb_u32 a_part[${mi}][4];
      VTB_UNROLL for (int i = 0; i < ${mi}; i++)
        vtb_fragment_a<half, ${a_along}, ${a_pitch}>(a_part[i], a_tile + a_at, warp_m + i * 16, kk);
      VTB_UNROLL for (int j = 0; j < ${ni}; j += 2) {
        vtb_u32 b_part[4];
        vtb_fragment_b<half, ${b_along}, ${b_pitch}>(b_part, b_tile + b_at, warp_n + j * 8, kk);
        const vtb_u32 first[2] = {b_part[0], b_part[1]}, second[2] = {b_part[2], b_part[3]};
        VTB_UNROLL for (int i = 0; i < ${mi}; i++) {
          vtb_mma_16<half>(acc[i][j], a_part[i], first);
          vtb_mma_16<half>(acc[i][j + 1], a_part[i], second);
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

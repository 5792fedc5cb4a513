/* Vertebra: products of tiles in panels by groups of four warps, on top of tiles.cuh and
 * hopper.cuh; elsewhere vtb_no_wgmma stands for them. */
struct vtb_by_wgmma {
  /* This thread's stores to panels, for products behind the next barrier. */
  VTB_FN void stored() { vtb_async_fence(); }
  /* c = A B^T of 64 rows each, DEPTH deep. */
  template <bool HALF, int DEPTH, int TILES, class A, class B>
  VTB_FN void along(float (&c)[TILES][4], A a, B b) {
    auto &d = reinterpret_cast<float(&)[4 * TILES]>(c);
    const vtb_u64 left = vtb_wgmma_tile<64>(a, 0, 512), right = vtb_wgmma_tile<64>(b, 0, 512);
    vtb_wgmma_fence();
    VTB_UNROLL for (int k = 0; k < DEPTH; k += 16) {
      const int at = (k / 32 * 4096 + k % 32 * 2) / 16;
      vtb_wgmma<64, HALF, false, false>(d, left + at, right + at, k > 0);
    }
    vtb_wgmma_commit();
  }
  /* c += the rows in registers, 64 deep, times the 64 rows of b. */
  template <bool HALF, int TILES, class B>
  VTB_FN void across(float (&c)[TILES][4], const vtb_u32 (&rows)[4][4], B b) {
    auto &d = reinterpret_cast<float(&)[4 * TILES]>(c);
    const vtb_u64 right = vtb_wgmma_tile<64>(b, 4096, 512);
    vtb_wgmma_fence();
    VTB_UNROLL for (int k = 0; k < 4; k++)
      vtb_wgmma_rows<8 * TILES, HALF, true>(d, rows[k], right + k * 1024 / 16, 1);
    vtb_wgmma_commit();
  }
  /* c += 32 of the depth of A, from x0 on, times those of b: 32 rows, or ALONG its columns. */
  template <bool HALF, bool ALONG, int TILES, class A, class B>
  VTB_FN void slab(float (&c)[TILES][4], A a, int x0, B b) {
    auto &d = reinterpret_cast<float(&)[4 * TILES]>(c);
    const vtb_u64 left = vtb_wgmma_tile<64>(a, 0, 512) + x0 / 32 * 256,
                  right = vtb_wgmma_tile<64>(b, ALONG ? 0 : 2048, 512);
    vtb_wgmma_fence();
    VTB_UNROLL for (int k = 0; k < 32; k += 16)
      vtb_wgmma<8 * TILES, HALF, false, !ALONG>(d, left + k * 2 / 16,
                                                right + k * (ALONG ? 2 : 64) / 16, 1);
    vtb_wgmma_commit();
  }
  VTB_FN void wait() { vtb_wgmma_wait<0>(); }
};

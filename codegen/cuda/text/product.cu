/* C[m, n] = sum over k of A[m, k] B[k, n] for every batch, on tensor cores: a block owns a tile of
 * BM x BN results and a range of k, its warps WM x WN each.
 *
 * Tiles of A and B pass through shared memory in stages that are copied ahead (cp.async), of their
 * type and in the order that they have in global memory: along k or along m or n. What lies beyond
 * the edges is copied as zeros. */
#include "products.cuh"
hole int M, N, K, BATCHES;
hole int BM, BN, WARPS_N;         /* a block's results; its warps side by side */
hole int STEP, RANGE;             /* k of a stage; of a block */
hole int FACTORS, THREADS;
hole type A, B;                   /* elements in memory */
hole bool A_ALONG, B_ALONG;       /* whether they are copied along k */
hole int A_WIDE, B_WIDE;          /* elements copied at a time */
hole expr a_batch, b_batch;       /* offsets of batch, of m or n, of k */
hole expr a_m, a_k, b_n, b_k;
hole int EACH;                    /* results that a thread stores at a time: 1, or 4 along n */
hole code store, store4;          /* of the sum at batch, m, n (and split); of vsum, from n on */
hole int TOGETHER;                /* of store4 written out, at most: long ones stay within the
                                   * instruction cache */
hole int SUMMED;                  /* sums over k: 0 none, 1 of A's rows, 2 of B's columns */
hole code store_total_m, store_total_n; /* of `total` at batch, m or n (and split) */
hole bool PARTED;                 /* store4 leaves in `vpart` what it stores: mean and squares of 32
                                   * columns of a row are kept */
hole code store_part;             /* part_mean, part_squares of the columns from n - n % 32 on, at
                                   * batch, m */
constexpr int STAGES = 3, WM = BM / (THREADS / 32 / WARPS_N), WN = BN / WARPS_N, MI = WM / 16,
              NI = WN / 8;
constexpr int TILES_M = (M + BM - 1) / BM, TILES_N = (N + BN - 1) / BN,
              BLOCKS = TILES_M * TILES_N * BATCHES;
constexpr int K_ENDS = K % STEP != 0; /* a stage may be less than STEP deep */
constexpr int A_PITCH = A_ALONG ? vtb_pitch_along(STEP, sizeof(A)) : vtb_pitch_across(BM);
constexpr int B_PITCH = B_ALONG ? vtb_pitch_along(STEP, sizeof(B)) : vtb_pitch_across(BN);
constexpr int A_STAGE = (A_ALONG ? BM : STEP) * A_PITCH, B_STAGE = (B_ALONG ? BN : STEP) * B_PITCH;
require !PARTED || (EACH == 4 && WN % 32 == 0 && N % 32 == 0);
require MI >= 1 && NI >= 1 && STEP % 16 == 0 && RANGE % STEP == 0;
require BM % A_WIDE == 0 && BN % B_WIDE == 0 && STEP % A_WIDE == 0 && STEP % B_WIDE == 0;
cost tensor = 2 * BM * BN * RANGE;
cost issue = THREADS / 32 * (RANGE / STEP * (STEP / 16 * vtb_step_issue(FACTORS, MI, NI) + 8 +
                                             8 * STEP * (BM / A_WIDE + BN / B_WIDE) / THREADS) +
                             (EACH == 4 ? 16 : 40) * MI * NI + (PARTED ? 12 * MI * NI : 0) + 100);
cost flight = (STAGES - 1) * STEP * (BM * sizeof(A) + BN * sizeof(B));
cost registers = 4 * MI * NI + 8 * MI + 56;
cost wavefronts = RANGE / 16 * (THREADS / 32 * (MI + (NI + 1) / 2) * (FACTORS >= 2 ? 4 : 16) +
                                (BM + BN) * sizeof(A) / 8);
shared A a_tile[STAGES * A_STAGE];
shared B b_tile[STAGES * B_STAGE];
/* 16 rows of a warp, when tiles are read */
shared float sums[THREADS / 32 * 16 * (WN + 8)] over a_tile;
  const int warp_m = vtb_warp() / WARPS_N * WM, warp_n = vtb_warp() % WARPS_N * WN;
  const int n0 = vtb_block() % TILES_N * BN, m0 = vtb_block() / TILES_N % TILES_M * BM;
  const int batch = vtb_block() / (TILES_M * TILES_N) % BATCHES, split = vtb_block() / BLOCKS;
  const int k_begin = split * RANGE, k_end = vtb_min_int(k_begin + RANGE, K);
  VTB_PTR(const A) a_of = a + (${a_batch});
  VTB_PTR(const B) b_of = b + (${b_batch});
  /* totals: products with ones */
  float acc[MI * NI][4], totals[SUMMED == 1 ? MI : SUMMED == 2 ? NI : 1][4];
  const bool sums_here = SUMMED == 1 ? n0 == 0 && warp_n == 0 : m0 == 0 && warp_m == 0;
  vtb_clear(acc);
  vtb_clear(totals);

  auto fetch = [&](int stage, int k0) {
    vtb_fetch<A_ALONG, BM, STEP, A_PITCH, A_WIDE, sizeof(A), THREADS, K_ENDS>(
        a_tile + stage * A_STAGE, a_of, m0, M, k0, k_end,
        [&](int m, int k) { return ${a_m} + ${a_k}; });
    vtb_fetch<B_ALONG, BN, STEP, B_PITCH, B_WIDE, sizeof(B), THREADS, K_ENDS>(
        b_tile + stage * B_STAGE, b_of, n0, N, k0, k_end,
        [&](int n, int k) { return ${b_n} + ${b_k}; });
    vtb_cp_commit();
  };

  const int steps = (k_end - k_begin + STEP - 1) / STEP;
  VTB_UNROLL for (int s = 0; s < STAGES - 1; s++) {
    if (s < steps)
      fetch(s, k_begin + s * STEP);
    else
      vtb_cp_commit();
  }
  for (int step = 0; step < steps; step++) {
    vtb_cp_wait<STAGES - 2>();
    vtb_sync();
    const int next = step + STAGES - 1;
    if (next < steps)
      fetch(next % STAGES, k_begin + next * STEP);
    else
      vtb_cp_commit();
    const auto rows = vtb_rows<A_ALONG, A_PITCH>(a_tile, warp_m, step % STAGES * A_STAGE);
    const auto columns = vtb_columns<B_ALONG, B_PITCH>(b_tile, warp_n, step % STAGES * B_STAGE);
    VTB_UNROLL for (int k = 0; k < STEP; k += vtb_depth(FACTORS)) {
      vtb_step<FACTORS, MI>(acc, k, rows, columns);
      if (SUMMED == 1 && sums_here)
        vtb_step<FACTORS, SUMMED == 1 ? MI : 1>(totals, k, rows, [](int, int) { return 1.0f; });
      if (SUMMED == 2 && sums_here)
        vtb_step<FACTORS, 1>(totals, k, [](int, int) { return 1.0f; }, columns);
    }
  }
  if (SUMMED == 1 && sums_here && vtb_lane() % 4 == 0) {
    VTB_UNROLL for (int i = 0; i < MI * 2; i++) {
      const int m = m0 + warp_m + i * 8 + vtb_lane() / 4;
      const float total = totals[SUMMED == 1 ? i / 2 : 0][i % 2 * 2];
      if (m < M) {
        ${store_total_m}
      }
    }
  }
  if (SUMMED == 2 && sums_here && vtb_lane() < 4) {
    VTB_UNROLL for (int i = 0; i < NI * 2; i++) {
      const int n = n0 + warp_n + i / 2 * 8 + vtb_lane() * 2 + i % 2;
      const float total = totals[SUMMED == 2 ? i / 2 : 0][i % 2];
      if (n < N) {
        ${store_total_n}
      }
    }
  }

  constexpr int P = WN + 8; /* through shared memory: a warp's rows are stored as whole sectors */
  const int base = vtb_warp() * 16 * P;
  vtb_sync();
  VTB_UNROLL for (int i = 0; i < MI; i++) {
    if (i > 0) vtb_sync_warp();
    vtb_put_strip<MI, P>(sums, base, acc, i);
    vtb_sync_warp();
    if constexpr (EACH == 4) {
      constexpr int QUADS = WN / 4, TURNS = WN / 8, FEW = TURNS % TOGETHER == 0 ? TOGETHER : TURNS;
      VTB_NO_UNROLL for (int first = 0; first < TURNS; first += FEW)
        VTB_UNROLL for (int u = first; u < first + FEW; u++) {
          const int e = vtb_lane() + u * 32, row = e / QUADS, column = e % QUADS * 4;
          const int m = m0 + warp_m + i * 16 + row, n = n0 + warp_n + column;
          const vtb_f4 vsum = vtb_load4(sums, base + row * P + column);
          vtb_f4 vpart = {0, 0, 0, 0};
          if (m < M && n < N) {
            ${store4}
          }
          if constexpr (PARTED) {
            float part_mean, part_squares;
            vtb_part_of_8(vpart, part_mean, part_squares);
            if (m < M && n < N && vtb_lane() % 8 == 0) {
              ${store_part}
            }
          }
        }
    } else {
      VTB_NO_UNROLL for (int first = 0; first < WN / 2; first += 4)
        VTB_UNROLL for (int u = first; u < first + 4; u++) {
          const int e = vtb_lane() + u * 32, row = e / WN, column = e % WN;
          const int m = m0 + warp_m + i * 16 + row, n = n0 + warp_n + column;
          const float sum = sums[base + row * P + column];
          if (m < M && n < N) {
            ${store}
          }
        }
    }
  }

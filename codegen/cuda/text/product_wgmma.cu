/* C[m, n] = sum over k of A[m, k] B[k, n] for every batch, by wgmma on sm_90a. GRID blocks go
 * through the tiles of BM x BN results and a range of k, neighbours along n at a time, so that a
 * tile of A is read from memory once.
 *
 * One thread of the last four warps asks for the tiles of the factors, by the copy engine and in
 * the order that they have in memory; groups of four warps have 64 rows of the results each. A
 * stage of the ring is `full` when its bytes have come and `empty` when every warp of the groups is
 * done with it, so that the tiles of the next results are on their way while those of the last are
 * stored. What lies beyond the edges is zero. Of two blocks in a cluster each asks for half of the
 * tile that both read, to both, when both have given the stage back.
 *
 * A lane has four neighbours along n of a row, so that results leave registers as they are, a
 * sector of 16 bits or two of 32 by four lanes. Where B's rows are copied in that order (SPREAD)
 * they are its own sums, else pairs of lanes exchange two of four. Where results are stored one by
 * one, they pass through shared memory.
 *
 * Where a factor is summed over k as well, two more of the last warps read its tiles of the first
 * column (row) of results, in fp32 and in one order of k, and give the stages of all tiles back
 * with the others. */
#include "products.cuh"
#include "hopper.cuh"
hole int M, N, K, BATCHES;
hole int GROUPS, BN;               /* of four warps, 64 rows each; columns */
hole int RANGE, SPLITS, GRID;      /* k of a tile; how many such; blocks */
hole int CLUSTER;                  /* blocks that run together: 1; or 2, which read one tile of a
                                    * factor */
hole bool SHARE_A;                 /* A's, as neighbours along n; else B's, along m */
hole type T;                       /* elements of the factors */
hole bool HALF;                    /* fp16 */
hole bool A_ALONG, B_ALONG;        /* whether neighbours in memory follow k */
hole bool A_BATCH, B_BATCH;        /* whether a batch has a factor of its own */
hole bool SPREAD;                  /* columns 4 t + 2 h + i of 16 lie at rows 2 t + i of half h of
                                    * B's tile, as the map has them */
hole int EACH;                     /* results that a thread stores at a time: 1, or 4 along n */
hole code store, store4;           /* of the sum at batch, m, n (and split); of vsum, from n on */
hole int SUMMED;                   /* sums over k: 0 none, 1 of A's rows, 2 of B's columns */
hole code store_total_m, store_total_n; /* of `total` at batch, m or n (and split) */
hole bool PARTED;                  /* store4 leaves in `vpart` what it stores: mean and squares of
                                    * 32 columns of a row are kept */
hole bool WHOLE;                   /* and those of the row, which one tile has */
hole code store_part;              /* part_mean, part_squares of the columns from n - n % 32 on, at
                                    * batch, m; or of row m */
constexpr int BM = 64 * GROUPS, STEP = 64, P = 40; /* floats of a row of results on their way */
constexpr int STAGES = 196608 / ((BM + BN) * 128) > 6 ? 6 : 196608 / ((BM + BN) * 128);
/* of a cluster's tile */
constexpr int ROWS = SHARE_A ? BM : BM * CLUSTER, COLUMNS = SHARE_A ? BN * CLUSTER : BN;
constexpr int TILES_M = (M + ROWS - 1) / ROWS, TILES_N = (N + COLUMNS - 1) / COLUMNS,
              BLOCKS = TILES_M * TILES_N * BATCHES;
constexpr int TILES = BLOCKS * SPLITS, CLUSTERS = GRID / CLUSTER,
              TURNS = (TILES + CLUSTERS - 1) / CLUSTERS;
constexpr int SUM_WARPS = SUMMED ? 2 : 0, SUM_ROWS = SUMMED == 2 ? BN : BM; /* of the summed tile */
require !PARTED || (EACH == 4 && N % 32 == 0 && (!WHOLE || (N <= BN && !SHARE_A)));
require !SPREAD || (B_ALONG && !B_BATCH && EACH == 4 && SUMMED != 2 && N % 16 == 0);
require (CLUSTER == 1 && !SHARE_A) || (CLUSTER == 2 && GRID % 2 == 0);
/* registers of a thread of the last four warps, and of the groups', where two share a block's */
constexpr int FEW = 40, MANY = 232;
require FEW + 2 * MANY <= 65536 / 384 / 8 * 8 * 3; /* those that such a block is launched with */
require BN % 32 == 0 && (B_ALONG || BN % 64 == 0) && RANGE % STEP == 0 && GROUPS <= 2;
cost wide = 2 * BM * BN * RANGE * TURNS;
cost flight = (STAGES - 1) * (BM + BN) * STEP * 2;
constexpr bool EDGES = M % ROWS > 0 || N % COLUMNS > 0;
/* of 4 columns of 16 rows */
constexpr int EFFORT = EACH == 1 ? 20 : (SPREAD ? 4 : 8) + (EDGES ? 8 : 0) + (PARTED ? 12 : 0);
cost issue = TURNS * (GROUPS * 4 * (RANGE / STEP * 24 + BN * EFFORT / 4) + 200);
cost after = TURNS * GROUPS * BN * EFFORT;
cost registers = 168;
cost wavefronts = TURNS * (RANGE / STEP * (BM + BN + GROUPS * (64 + BN)) +
                           GROUPS * 4 * BN * (EACH == 4 ? 1 : 2));
shared T a_tile[STAGES * BM * STEP];
shared T b_tile[STAGES * BN * STEP];
shared vtb_u64 full[STAGES], empty[STAGES];
shared float sums[EACH == 4 ? 0 : GROUPS * 4 * 16 * P];
  constexpr int COPIED = (BM + BN) * STEP * 2;
  constexpr bool SHARE_B = CLUSTER > 1 && !SHARE_A;
  constexpr vtb_u32 BOTH = 3; /* blocks, to which each copies its half of the shared tile */
  if (vtb_tid() == 0) {
    for (int s = 0; s < STAGES; s++) {
      vtb_mbar_init(full + s, 1);
      vtb_mbar_init(empty + s, CLUSTER * (GROUPS * 4 + SUM_WARPS));
    }
    vtb_mbar_ready();
  }
  const int rank = CLUSTER > 1 ? vtb_cluster_rank() : 0;
  if constexpr (CLUSTER > 1)
    vtb_cluster_sync();
  else
    vtb_sync();
  int stage = 0, phase = 0; /* of the ring, which goes on from tile to tile */
  auto next_stage = [&] {
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    phase ^= stage == 0;
  };
  auto give_back = [&](int s) { /* a warp's: to whoever fills it */
    if constexpr (CLUSTER > 1) {
      if (vtb_lane() < CLUSTER) vtb_mbar_free_at(empty + s, vtb_lane());
    } else if (vtb_lane() == 0)
      vtb_mbar_arrive(empty + s);
  };
  if (vtb_warp() >= GROUPS * 4) {
    if constexpr (GROUPS == 2) vtb_registers_down<FEW>();
    if (vtb_tid() == GROUPS * 128) {
      for (int tile = vtb_block() / CLUSTER; tile < TILES; tile += CLUSTERS) {
        const int n0 = tile % TILES_N * COLUMNS + (SHARE_A ? rank * BN : 0);
        const int m0 = tile / TILES_N % TILES_M * ROWS + (SHARE_A ? 0 : rank * BM);
        const int batch = tile / (TILES_M * TILES_N) % BATCHES, split = tile / BLOCKS;
        const int k_begin = split * RANGE, k_end = vtb_min_int(k_begin + RANGE, K);
        const int a_at = A_BATCH ? batch : 0, b_at = B_BATCH ? batch : 0;
        for (int k0 = k_begin; k0 < k_end; k0 += STEP) {
          if constexpr (CLUSTER > 1)
            vtb_mbar_wait_free(empty + stage, phase ^ 1);
          else
            vtb_mbar_wait(empty + stage, phase ^ 1);
          vtb_mbar_expect(full + stage, COPIED);
          if constexpr (SHARE_A && A_ALONG)
            vtb_tma_load_to(BOTH, a_tile + (stage * BM + rank * BM / 2) * STEP, a, full + stage, k0,
                            m0 + rank * BM / 2, a_at);
          else if constexpr (SHARE_A) {
            VTB_UNROLL for (int i = 0; i < BM; i += 64)
              vtb_tma_load_to(BOTH, a_tile + (stage * BM + i + rank * 32) * STEP, a, full + stage,
                              m0 + i, k0 + rank * 32, a_at);
          } else if (A_ALONG)
            vtb_tma_load(a_tile + stage * BM * STEP, a, full + stage, k0, m0, a_at);
          else {
            VTB_UNROLL for (int i = 0; i < BM; i += 64)
              vtb_tma_load(a_tile + (stage * BM + i) * STEP, a, full + stage, m0 + i, k0, a_at);
          }
          if constexpr (SHARE_B && SPREAD)
            vtb_tma_load_to(BOTH, b_tile + (stage * BN + rank * BN / 2) * STEP, b, full + stage, k0,
                            2 * rank, 0, n0 / 16);
          else if constexpr (SHARE_B && B_ALONG)
            vtb_tma_load_to(BOTH, b_tile + (stage * BN + rank * BN / 2) * STEP, b, full + stage, k0,
                            n0 + rank * BN / 2, b_at);
          else if constexpr (SHARE_B) {
            VTB_UNROLL for (int i = 0; i < BN; i += 64)
              vtb_tma_load_to(BOTH, b_tile + (stage * BN + i + rank * 32) * STEP, b, full + stage,
                              n0 + i, k0 + rank * 32, b_at);
          } else if constexpr (SPREAD) {
            VTB_UNROLL for (int h = 0; h < 2; h++)
              vtb_tma_load(b_tile + (stage * BN + h * BN / 2) * STEP, b, full + stage, k0, 2 * h, 0,
                           n0 / 16);
          } else if (B_ALONG)
            vtb_tma_load(b_tile + stage * BN * STEP, b, full + stage, k0, n0, b_at);
          else {
            VTB_UNROLL for (int i = 0; i < BN; i += 64)
              vtb_tma_load(b_tile + (stage * BN + i) * STEP, b, full + stage, n0 + i, k0, b_at);
          }
          next_stage();
        }
      }
    } else if (SUMMED && vtb_warp() > GROUPS * 4 && vtb_warp() <= GROUPS * 4 + SUM_WARPS) {
      constexpr bool ALONG = SUMMED == 2 ? B_ALONG : A_ALONG;
      /* a thread's rows: one and each 64th from it; or four neighbours, of all k or a part */
      constexpr int OWNS = ALONG ? 1 : 4, MINE = ALONG ? (SUM_ROWS + 63) / 64 : 1,
                    PARTS = ALONG || SUM_ROWS > 128 ? 1 : SUM_ROWS > 64 ? 2 : 4, EIGHTH = 8 / PARTS;
      const int own = vtb_tid() - (GROUPS * 4 + 1) * 32, first = own / PARTS * OWNS,
                first_k = own % PARTS * EIGHTH;
      for (int tile = vtb_block() / CLUSTER; tile < TILES; tile += CLUSTERS) {
        const int n0 = tile % TILES_N * COLUMNS + (SHARE_A ? rank * BN : 0);
        const int m0 = tile / TILES_N % TILES_M * ROWS + (SHARE_A ? 0 : rank * BM);
        const int batch = tile / (TILES_M * TILES_N) % BATCHES, split = tile / BLOCKS;
        const int k_begin = split * RANGE, k_end = vtb_min_int(k_begin + RANGE, K);
        const bool here = SUMMED == 2 ? m0 == 0 : n0 == 0;
        vtb_f4 totals[MINE];
        VTB_UNROLL for (int i = 0; i < MINE; i++) totals[i] = vtb_splat(0.0f);
        for (int k0 = k_begin; k0 < k_end; k0 += STEP) {
          vtb_mbar_wait(full + stage, phase);
          VTB_UNROLL for (int i = 0; i < MINE; i++) {
            const int row = first + i * 64;
            if (!here || row >= SUM_ROWS) continue;
            VTB_PTR(const T)
            from = SUMMED == 2 ? b_tile + stage * BN * STEP : a_tile + stage * BM * STEP;
            if constexpr (ALONG) {
              VTB_UNROLL for (int k = 0; k < STEP; k += 4) {
                const vtb_f4 v = vtb_load4(from, row * STEP + ((k / 8 ^ row % 8) * 8 + k % 8));
                totals[i].x = totals[i].x + v.x + v.y + v.z + v.w;
              }
            } else {
              VTB_NO_UNROLL for (int k = 0; k < STEP; k += 8) {
                VTB_UNROLL for (int j = 0; j < EIGHTH; j++) {
                  const int of_8 = first_k + j;
                  totals[i] = totals[i] + vtb_load4(from, (row / 64 * STEP + k + of_8) * 64 +
                                                              (row % 64 / 8 ^ of_8) * 8 + row % 8);
                }
              }
            }
          }
          vtb_sync_warp();
          give_back(stage);
          next_stage();
        }
        VTB_UNROLL for (int i = 0; i < MINE; i++) VTB_UNROLL for (int j = 0; j < OWNS; j++) {
          const int row = first + i * 64 + j, m = m0 + row, n = n0 + row;
          float total = j == 0 ? totals[i].x : j == 1 ? totals[i].y : j == 2 ? totals[i].z
                                                                             : totals[i].w;
          VTB_UNROLL for (int part = 1; part < PARTS; part *= 2) total += vtb_shfl_xor(total, part);
          if (first_k > 0) continue;
          if (SUMMED == 1 && here && row < SUM_ROWS && m < M) {
            ${store_total_m}
          }
          if (SUMMED == 2 && here && row < SUM_ROWS && n < N) {
            ${store_total_n}
          }
        }
      }
    }
  } else {
    if constexpr (GROUPS == 2) vtb_registers_up<MANY>();
    const int warp_m = vtb_warp() * 16, base = vtb_warp() * 16 * P;
    float d[BN / 2];
    for (int tile = vtb_block() / CLUSTER; tile < TILES; tile += CLUSTERS) {
      const int n0 = tile % TILES_N * COLUMNS + (SHARE_A ? rank * BN : 0);
      const int m0 = tile / TILES_N % TILES_M * ROWS + (SHARE_A ? 0 : rank * BM);
      const int batch = tile / (TILES_M * TILES_N) % BATCHES, split = tile / BLOCKS;
      const int k_begin = split * RANGE, k_end = vtb_min_int(k_begin + RANGE, K);
      int last = 0;
      for (int k0 = k_begin; k0 < k_end; k0 += STEP) {
        vtb_mbar_wait(full + stage, phase);
        const vtb_u64 rows =
            vtb_wgmma_tile<128>(a_tile + (stage * BM + vtb_warp() / 4 * 64) * STEP, 0, 1024);
        const vtb_u64 columns = vtb_wgmma_tile<128>(b_tile + stage * BN * STEP, 8192, 1024);
        vtb_wgmma_fence();
        VTB_UNROLL for (int k = 0; k < STEP / 16; k++)
          vtb_wgmma<BN, HALF, !A_ALONG, !B_ALONG>(d, rows + k * (A_ALONG ? 2 : 128),
                                                  columns + k * (B_ALONG ? 2 : 128),
                                                  k0 > k_begin || k > 0);
        vtb_wgmma_commit();
        vtb_wgmma_wait<1>(); /* those of the stage before have read it */
        if (k0 > k_begin) give_back(last);
        last = stage;
        next_stage();
      }
      vtb_wgmma_wait<0>();
      give_back(last);

      if constexpr (EACH == 4) {
        const int t = vtb_lane() % 4, n_of = n0 + (SPREAD ? 4 * t : t % 2 * 8 + t / 2 * 4);
        const int m_of = m0 + warp_m + vtb_lane() / 4;
        VTB_UNROLL for (int j = 0; j < BN / 16; j++) {
          constexpr int APART = SPREAD ? BN / 4 : 4; /* of the sums of a lane's four */
          const int n = n_of + 16 * j, at = SPREAD ? 4 * j : 8 * j;
          VTB_UNROLL for (int half = 0; half < 2; half++) {
            const int m = m_of + 8 * half, i = at + 2 * half;
            const vtb_f4 vsum = vtb_four_of<SPREAD>(d[i], d[i + 1], d[i + APART], d[i + APART + 1]);
            vtb_f4 vpart = {0, 0, 0, 0};
            if (!EDGES || (m < M && n < N)) { /* whole tiles keep what rows share in registers */
              ${store4}
            }
            if constexpr (PARTED)
              d[i] = vpart.x, d[i + 1] = vpart.y, d[i + APART] = vpart.z,
              d[i + APART + 1] = vpart.w;
          }
          if constexpr (PARTED && !WHOLE)
            if (j % 2) {
              constexpr int BEFORE = SPREAD ? 4 : 8;
              VTB_UNROLL for (int half = 0; half < 2; half++) {
                const int m = m_of + 8 * half, i = at + 2 * half;
                float part_mean, part_squares;
                const vtb_f4 low = {d[i - BEFORE], d[i - BEFORE + 1], d[i - BEFORE + APART],
                                    d[i - BEFORE + APART + 1]};
                const vtb_f4 high = {d[i], d[i + 1], d[i + APART], d[i + APART + 1]};
                vtb_part_of_4(low, high, part_mean, part_squares);
                if ((!EDGES || (m < M && n < N)) && t == 0) {
                  ${store_part}
                }
              }
            }
        }
        if constexpr (PARTED && WHOLE) {
          VTB_UNROLL for (int half = 0; half < 2; half++) {
            constexpr int FOURS = N / 16;
            const int m = m_of + 8 * half, n = 0;
            auto four = [&](int j) -> vtb_f4 {
              constexpr int APART = SPREAD ? BN / 4 : 4;
              const int i = (SPREAD ? 4 * j : 8 * j) + 2 * half;
              return {d[i], d[i + 1], d[i + APART], d[i + APART + 1]};
            };
            vtb_f4 sum = {0, 0, 0, 0}, squares = {0, 0, 0, 0};
            VTB_UNROLL for (int j = 0; j < FOURS; j++) sum = sum + four(j);
            float part_mean = vtb_sum4(sum);
            VTB_UNROLL for (int mask = 2; mask > 0; mask >>= 1)
              part_mean += vtb_shfl_xor(part_mean, mask);
            part_mean *= 1.0f / N;
            VTB_UNROLL for (int j = 0; j < FOURS; j++) {
              const vtb_f4 off = four(j) - part_mean;
              squares = squares + off * off;
            }
            float part_squares = vtb_sum4(squares);
            VTB_UNROLL for (int mask = 2; mask > 0; mask >>= 1)
              part_squares += vtb_shfl_xor(part_squares, mask);
            if ((!EDGES || m < M) && t == 0) {
              ${store_part}
            }
          }
        }
      } else {
        VTB_UNROLL for (int strip = 0; strip < BN; strip += 32) {
          vtb_sync_warp();
          VTB_UNROLL for (int i = 0; i < 16; i++)
            sums[base + (vtb_lane() / 4 + i / 2 % 2 * 8) * P + i / 4 * 8 + vtb_lane() % 4 * 2 +
                 i % 2] = d[strip / 2 + i];
          vtb_sync_warp();
          VTB_NO_UNROLL for (int row = 0; row < 16; row++) {
            const int m = m0 + warp_m + row, n = n0 + strip + vtb_lane();
            const float sum = sums[base + row * P + vtb_lane()];
            if (m < M && n < N) {
              ${store}
            }
          }
        }
      }
    }
  }
  if constexpr (CLUSTER > 1) vtb_cluster_sync(); /* the other one still gives stages back */

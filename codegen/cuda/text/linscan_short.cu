/* A linear recurrence of few tokens with what is computed of its rows, classes constant and scalar,
 * of factors that round to 16 bits and narrow heads:
 *   out = (A B^T o M) C,   M[t, j] = the product of the decays after j up to t, times the gain of j
 * A block owns a sequence: keys and values of all tokens lie in shared memory, and what belongs to
 * a sequence (decays, gains, matrices in front of rows) is made once. A warp has strips of 16 rows,
 * a long one and a short one, and walks back over the strips of columns before them without waiting
 * for another warp: 16 columns are a step of depth, so that scores are the next product's factor in
 * the registers where they are. Before the rows' own strip what leaves a column is one number, and
 * what enters a row one that multiplies its sums at the end. The normalizer z is the sum of a row's
 * scores. */
#include "products.cuh"
#include "scans.cuh"
#include "tiles.cuh"
hole int N;                      /* tokens */
hole int DEPTH, WIDTH;           /* of A and B; of out */
hole int FACTORS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole type T;                     /* of tiles */
hole bool A_EIGHT, B_EIGHT, C_EIGHT; /* rows can be copied eight elements at a time */
hole bool SAME;                  /* A is B, before matrices */
hole bool Z;                     /* rows are computed of z, too */
hole expr place;                 /* of step t */
hole expr decay;                 /* at pos */
hole expr a_from, b_from, c_from; /* addresses of rows at pos */
hole int a_stride, b_stride, c_stride; /* from row to row of these */
hole expr gain;                  /* at pos */
/* Decays and gains are made of gates here, by the maximum that runs over a sequence: m = max(m
 * before + gate, entry). */
hole bool GATED;
hole code gate, entry;           /* return them at pos */
hole code weigh;                 /* of t, pos, gate_t, entry_t, m and before: step and gain */
/* Rows are first multiplied by matrices of GROUP x GROUP, a group of columns: A's and B's, turned
 * round, by one that is made of both, B's bias being a number a row; C's in the result, their bias
 * times z. LAST_SUMMED: the matrix's last axis is. */
hole int GROUP, BLOCK; /* of blocks of BLOCK along the diagonal, zeros elsewhere */
hole bool A_MAP, B_MAP, C_MAP, A_LAST_SUMMED, B_LAST_SUMMED, C_LAST_SUMMED;
/* element i of row c, of all blocks; of row c */
hole expr a_matrix, b_matrix, c_matrix, a_bias, b_bias, c_bias;
hole int ROW_LANES;              /* of a warp that share a row */
hole int ROW_ACCESSES;           /* to tensors as long as the result, by row_body */
hole code row_body;              /* what they make of the row at pos: done_row[x], z_row[0],
                                  * m_row[0] */
constexpr int BLOCKS = 1, WARPS = THREADS / 32;
constexpr int STRIPS = (N + 15) / 16, ROWS = N, COLUMNS = (WIDTH + 15) / 16 * 16,
              DEPTHS = (DEPTH + 15) / 16 * 16;
/* steps of 16; pairs of tiles of the result */
constexpr int STEPS = DEPTHS / 16, PAIRS = COLUMNS / 16;
constexpr int PB = vtb_pitch_along(DEPTHS, 2), PC = vtb_pitch_across(COLUMNS), PD = 24;
/* a warp's: rows of A, decays of its strip, rows of the result */
constexpr int STAGE = vtb_max_int(16 * vtb_max_int(SAME ? 0 : PB, PC), 32 * PD);
constexpr bool MAP = A_MAP || B_MAP, HALF = FACTORS == VTB_FP16;
constexpr int PARTS = vtb_map_parts(FACTORS == 3, GROUP), SPAN = vtb_map_span(GROUP);
/* larger ones of the result are read again by each strip */
constexpr bool C_KEPT = C_MAP && GROUP <= 8;
/* of those of smaller ones joined the eights that are no zeros are kept, three for eight columns */
constexpr bool JOINED = GROUP > 8 && BLOCK < GROUP;
/* of a lane that has numbers; for 16 columns */
constexpr int WORDS = GROUP > 8 ? 4 : 2 * PARTS,
              QUADS = JOINED ? 2 * 3 * 32 : WORDS * (GROUP > 8 ? 32 * SPAN : 4 * GROUP);
constexpr int BEFORE = STRIPS * (STRIPS - 1) / 2; /* steps before the rows' own strip */
require THREADS == 32 * ((STRIPS + 1) / 2) && N <= 256 && DEPTH <= 192 && WIDTH <= 192 &&
        FACTORS >= 2 && FACTORS <= 3;
require GROUP >= 2 && (32 % GROUP == 0 || GROUP == 48) && GROUP % BLOCK == 0 &&
        (!JOINED || BLOCK <= 24) && (!MAP || DEPTH % BLOCK == 0) && (!C_MAP || WIDTH % BLOCK == 0);
cost tensor = 512 * (BEFORE + STRIPS) * (DEPTHS + COLUMNS) +
              4096 * STRIPS * (MAP * STEPS * (PARTS + B_MAP) + C_MAP * PAIRS * PARTS);
cost issue = 5 * ROWS * (DEPTHS + COLUMNS) / 128 + WARPS * (150 + GATED * 130) +
             (MAP || C_MAP ? vtb_max_int(600, MAP * STEPS * (JOINED ? 5 * (48 + 23 * BLOCK)
                                                                    : GROUP * (GROUP + 8)))
                           : 0) +
             BEFORE * (39 + 3 * (STEPS + PAIRS)) +
             STRIPS * (250 + STEPS * (MAP ? 27 + JOINED * 8 : 3) +
                       PAIRS * (C_MAP ? 41 + (C_KEPT ? 0 : JOINED ? 62 : SPAN * 24) : 26)) +
             ROW_ACCESSES * N * WIDTH / 14;
cost flight = ROWS * (DEPTHS + COLUMNS) * sizeof(T);
cost registers = GROUP > 8 && (MAP || C_MAP)
                     ? vtb_max_int(128, 56 + 4 * STEPS + 8 * PAIRS)
                     : vtb_max_int(68, vtb_min_int(34 + 8 * (STEPS + PAIRS),
                                                   56 + 4 * STEPS + 8 * PAIRS));
cost phases = 1;
shared T b_tile[ROWS * PB];
shared T c_tile[ROWS * PC];
shared T stages[WARPS * STAGE];
shared float masks[WARPS * STAGE / 2] over stages;
/* bits of pairs */
shared float ab_maps[MAP ? STEPS * QUADS : 0], c_maps[C_KEPT ? PAIRS * QUADS : 0],
             dots[B_MAP ? DEPTHS : 0];
shared float ab_add[MAP ? DEPTHS : 0], across[B_MAP ? DEPTHS : 0], c_add[C_MAP ? COLUMNS : 0];
shared float steps[16 * STRIPS], gains[16 * STRIPS], through[16 * STRIPS], leaving[16 * STRIPS],
             all_of[STRIPS], z_rows[16 * WARPS];
shared float maxima[GATED ? 16 * STRIPS : 0], warp_sums[GATED ? WARPS : 0],
             warp_tops[GATED ? WARPS : 0];
const int scan = vtb_block() / BLOCKS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS,
          dir = scan % DIRS;
const int tid = vtb_tid(), lane = vtb_lane(), warp = vtb_warp();
${directions}
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto gain_at = [&](vtb_i64 pos) -> float { return ${gain}; };
constexpr int pos = 0; /* the first row's address */
const auto a = ${a_from};
const auto b_of = ${b_from};
const auto c_of = ${c_from};
vtb_bring_rows<B_EIGHT, ROWS, DEPTHS, PB, THREADS, true>(
    b_tile, N, DEPTH, b_of, b_stride, [&](int r) { return place(vtb_min_int(r, N - 1)); });
vtb_bring_rows<C_EIGHT, ROWS, COLUMNS, PC, THREADS, true>(
    c_tile, N, WIDTH, c_of, c_stride, [&](int r) { return place(vtb_min_int(r, N - 1)); });
vtb_cp_commit();

/* A token's decay and gain, the decays of its strip up to it, and those behind it times the
 * gain. */
{
  const int at = tid % 16, from = place(vtb_min_int(tid, N - 1));
  float step = 1.0f, gain = tid < N ? 1.0f : 0.0f;
  if constexpr (GATED) {
    auto gate_at = [&](int pos) -> float {${gate}};
    auto entry_at = [&](int pos) -> float {${entry}};
    const float gate_t = tid < N ? gate_at(from) : 0.0f,
                entry_t = tid < N ? entry_at(from) : -VTB_INF;
    /* of the tokens up to this: the maximum is max(before + sum, top) */
    float sum = gate_t, top = entry_t, before = -VTB_INF;
    VTB_UNROLL for (int by = 1; by < 32; by *= 2) {
      const float sum_below = vtb_shfl_up(sum, by), top_below = vtb_shfl_up(top, by);
      if (lane >= by) {
        top = vtb_max(top_below + sum, top);
        sum += sum_below;
      }
    }
    if (lane == 31) warp_sums[warp] = sum, warp_tops[warp] = top;
    vtb_sync();
    for (int w = 0; w < warp; w++) before = vtb_max(before + warp_sums[w], warp_tops[w]);
    const float m = vtb_max(before + sum, top), m_below = vtb_shfl_up(m, 1);
    if (lane > 0) before = m_below;
    if (tid < N) {
      const int t = tid, pos = from;
      (void)t, (void)pos, (void)before;
      ${weigh}
    }
    if (tid < 16 * STRIPS) maxima[tid] = m;
  } else if (tid < N) {
    step = decay_at(from);
    gain = gain_at(from);
  }
  const float next = vtb_shfl_down(step, 1);
  float up = step, down = at < 15 ? next : 1.0f;
  VTB_UNROLL for (int by = 1; by < 16; by *= 2) {
    const float below = vtb_shfl_up(up, by), above = vtb_shfl_down(down, by);
    if (at >= by) up *= below;
    if (at + by < 16) down *= above;
  }
  if (tid < 16 * STRIPS) {
    steps[tid] = step;
    gains[tid] = gain;
    through[tid] = up;
    leaving[tid] = down * gain;
    if (at == 15) all_of[tid / 16] = up;
  }
}

#include "linscan_short_maps.cuh"
if constexpr (B_MAP) {
  for (int i = lane; i < DEPTHS; i += 32) both += across[i];
  both = vtb_warp_sum(both);
}
const auto stage = stages + warp * STAGE;
const auto mask = masks + warp * (STAGE / 2);
const auto z_row_of = z_rows + warp * 16;
VTB_NO_UNROLL for (int turn = 0; turn < 2; turn++) {
  const int strip = turn == 0 ? STRIPS - 1 - warp : warp, t0 = 16 * strip,
            n_rows = vtb_min_int(N - t0, 16);
  if (turn == 1 && strip == STRIPS - 1 - warp) break;
  vtb_u32 x[STEPS][4];
  if constexpr (SAME) {
    const auto from = b_tile + (vtb_min_int(t0 + lane % 16, ROWS - 1) * PB + lane / 16 * 8);
    VTB_UNROLL for (int k = 0; k < STEPS; k++) vtb_ldmatrix_x4(x[k], from + 16 * k);
  } else {
    vtb_sync_warp();
    vtb_bring_rows<A_EIGHT, 16, DEPTHS, PB, 32, true>(
        stage, n_rows, DEPTH, a, a_stride, [&](int r) { return place(vtb_min_int(t0 + r, N - 1)); },
        lane);
    vtb_cp_commit();
    vtb_cp_wait<0>();
    vtb_sync_warp();
    const auto from = stage + (lane % 16 * PB + lane / 16 * 8);
    VTB_UNROLL for (int k = 0; k < STEPS; k++) vtb_ldmatrix_x4(x[k], from + 16 * k);
  }
  vtb_sync_warp();
  if (lane < 16) { /* the decays of the strip's own columns, a column a lane */
    float m = 0.0f;
    const float gain = gains[t0 + lane];
    VTB_UNROLL for (int from = 0; from < 16; from += 4) {
      const vtb_f4 step = vtb_load4(steps, t0 + from);
      VTB_UNROLL for (int i = 0; i < 4; i++) {
        m = from + i == lane ? gain : m * element(step, i);
        mask[(from + i) * PD + lane] = m;
      }
    }
  }
  float side[2] = {0.0f, 0.0f};
  if constexpr (MAP) {
    float dot[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    vtb_u32 rows[SPAN][4]; /* before the matrix, of the steps that one has */
    VTB_UNROLL for (int k = 0; k < STEPS; k++) {
      const int first = k / SPAN * SPAN;
      float y[2][4];
      if (k == first) {
        VTB_UNROLL for (int s = 0; s < SPAN; s++)
          VTB_UNROLL for (int i = 0; i < 4; i++)
            rows[s][i] = x[vtb_min_int(first + s, STEPS - 1)][i];
      }
      VTB_UNROLL for (int i = 0; i < 2; i++) {
        y[i][0] = y[i][2] = ab_add[16 * k + 8 * i + c_lane];
        y[i][1] = y[i][3] = ab_add[16 * k + 8 * i + c_lane + 1];
      }
      if constexpr (B_MAP) {
        const auto from = dots + (k * 16 + lane % 8 * 2);
        const vtb_u32 w[2] = {lane < 8 ? vtb_bits(from[0]) : 0, lane < 8 ? vtb_bits(from[1]) : 0};
        vtb_mma_16<HALF>(dot, rows[k - first], w);
      }
      times_map(y, rows, k, load_ab);
      VTB_UNROLL for (int i = 0; i < 2; i++) {
        x[k][2 * i] = vtb_pack<HALF>(y[i][0], y[i][1]);
        x[k][2 * i + 1] = vtb_pack<HALF>(y[i][2], y[i][3]);
      }
    }
    if constexpr (B_MAP) {
      VTB_UNROLL for (int i = 0; i < 2; i++)
        side[i] = vtb_shfl(dot[2 * i] + dot[2 * i + 1], lane & ~3) + both;
    }
  }
  float out[2 * PAIRS][4], zs[2] = {0.0f, 0.0f};
  vtb_clear(out);
  /* Scores of 16 columns, weighted: f(row, column, pair of scores). */
  auto meet = [&](auto b_lane, auto c_from_lane, auto weigh) {
    float s[2][4];
    VTB_UNROLL for (int i = 0; i < 2; i++)
      VTB_UNROLL for (int e = 0; e < 4; e++) s[i][e] = side[e / 2];
    VTB_UNROLL for (int k = 0; k < STEPS; k++) {
      vtb_u32 y[4];
      vtb_ldmatrix_x4(y, b_lane + 16 * k);
      const vtb_u32 first[2] = {y[0], y[1]}, second[2] = {y[2], y[3]};
      vtb_mma_16<HALF>(s[0], x[k], first);
      vtb_mma_16<HALF>(s[1], x[k], second);
    }
    VTB_UNROLL for (int i = 0; i < 2; i++) VTB_UNROLL for (int e = 0; e < 4; e += 2) {
      weigh(i, e / 2, s[i][e], s[i][e + 1]);
      if (Z) zs[e / 2] += s[i][e] + s[i][e + 1];
    }
    const vtb_u32 p[4] = {vtb_pack<HALF>(s[0][0], s[0][1]), vtb_pack<HALF>(s[0][2], s[0][3]),
                          vtb_pack<HALF>(s[1][0], s[1][1]), vtb_pack<HALF>(s[1][2], s[1][3])};
    VTB_UNROLL for (int i = 0; i < PAIRS; i++) {
      vtb_u32 y[4];
      vtb_ldmatrix_x4_trans(y, c_from_lane + 16 * i);
      const vtb_u32 first[2] = {y[0], y[1]}, second[2] = {y[2], y[3]};
      vtb_mma_16<HALF>(out[2 * i], p, first);
      vtb_mma_16<HALF>(out[2 * i + 1], p, second);
    }
  };
  const int b_row = lane % 8 + lane / 16 * 8, b_column = lane / 8 % 2 * 8, c_row = lane % 16,
            c_column = lane / 16 * 8;
  auto b_lane = b_tile + ((t0 + b_row) * PB + b_column);
  auto c_from_lane = c_tile + ((t0 + c_row) * PC + c_column);
  auto leave = leaving + (t0 + c_lane);
  auto all = all_of + strip;
  float between = 1.0f; /* the decays of the strips between rows and columns */
  /* at 0 all that is left has decayed */
  VTB_NO_UNROLL for (int left = strip; left > 0 && between != 0.0f; left--) {
    b_lane += -16 * PB;
    c_from_lane += -16 * PC;
    leave += -16;
    all += -1;
    float weight[4];
    VTB_UNROLL for (int i = 0; i < 2; i++) {
      weight[2 * i] = between * leave[8 * i];
      weight[2 * i + 1] = between * leave[8 * i + 1];
    }
    meet(b_lane, c_from_lane, [&](int i, int, float &v, float &w) {
      v *= weight[2 * i];
      w *= weight[2 * i + 1];
    });
    between *= all[0];
  }
  if (strip > 0) {
    const float low = through[t0 + quad], high = through[t0 + quad + 8];
    VTB_UNROLL for (int i = 0; i < 2 * PAIRS; i++)
      VTB_UNROLL for (int e = 0; e < 4; e++) out[i][e] *= e < 2 ? low : high;
    zs[0] *= low;
    zs[1] *= high;
  }
  vtb_sync_warp();
  meet(b_tile + (vtb_min_int(t0 + b_row, ROWS - 1) * PB + b_column),
       c_tile + (vtb_min_int(t0 + c_row, ROWS - 1) * PC + c_column),
       [&](int i, int e, float &v, float &w) {
         const int r = quad + 8 * e, c = 8 * i + c_lane;
         v = c > r ? 0.0f : v * mask[r * PD + c];
         w = c + 1 > r ? 0.0f : w * mask[r * PD + c + 1];
       });
  if constexpr (Z) {
    VTB_UNROLL for (int i = 0; i < 2; i++) {
      zs[i] = vtb_quad_sum(zs[i]);
      if (lane % 4 == 0) z_row_of[quad + 8 * i] = zs[i];
    }
  }
  vtb_sync_warp();
  vtb_u32 sums[SPAN][4];
  if constexpr (JOINED) map_lane = vtb_settled(lane); /* else addresses would be kept */
  VTB_UNROLL for (int k = 0; k < PAIRS; k++) {
    float y[2][4];
    VTB_UNROLL for (int i = 0; i < 2; i++)
      VTB_UNROLL for (int e = 0; e < 4; e++) y[i][e] = out[2 * k + i][e];
    if constexpr (C_MAP) {
      if (k % SPAN == 0) {
        VTB_UNROLL for (int s = 0; s < SPAN; s++)
          VTB_UNROLL for (int i = 0; i < 4; i++) {
            const int e = i % 2 * 2, at = vtb_min_int(2 * (k + s) + i / 2, 2 * PAIRS - 1);
            sums[s][i] = vtb_pack<HALF>(out[at][e], out[at][e + 1]);
          }
      }
      VTB_UNROLL for (int i = 0; i < 2; i++) VTB_UNROLL for (int e = 0; e < 4; e++)
          y[i][e] = Z ? c_add[16 * k + 8 * i + c_lane + e % 2] * zs[e / 2] : 0.0f;
      times_map(y, sums, k, load_c);
    }
    VTB_UNROLL for (int i = 0; i < 2; i++) {
      const int at = quad * PC + 16 * k + 8 * i + c_lane;
      vtb_store2(stage, at, y[i][0], y[i][1]);
      vtb_store2(stage, at + 8 * PC, y[i][2], y[i][3]);
    }
  }
  vtb_sync_warp();
  const int row_lane = lane % ROW_LANES;
  VTB_NO_UNROLL for (int at = 0; at < n_rows; at += 32 / ROW_LANES) {
    const bool real = at + lane / ROW_LANES < n_rows;
    const int row = vtb_min_int(at + lane / ROW_LANES, n_rows - 1);
    const vtb_i64 pos = place(t0 + row);
    const auto done_row = stage + row * PC;
    float z_row[1] = {Z ? z_row_of[row] : 0.0f}, m_row[1] = {GATED ? maxima[t0 + row] : 0.0f};
    ${row_body}
  }
  vtb_sync_warp();
}

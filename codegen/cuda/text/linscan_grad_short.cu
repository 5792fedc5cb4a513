/* The adjoints of a linear recurrence of few tokens, classes constant and scalar, of factors that
 * round to 16 bits: with M[t, j] the product of the decays after j up to t >= j, P = Q K^T o M and
 * dS = (dY V^T + dz) o M,
 *   dQ = dS K     dK = dS^T Q     dV = P^T dY
 * A block owns a sequence. Slabs of channels of all tokens come through a ring: of Q and K, then of
 * dY and V, for the lower triangles of both products, which stay in shared memory as tiles of 16 x
 * 16 in 16 bits, four pieces of 8 x 8 each; then again for the results, 32 tokens and SLAB channels
 * a warp. W = P o (dY V^T + dz) is what the decays multiply: d_r gets the sum over t >= r > j, from
 * sums that never take anything away, over d_r. Tiles are made 2 x 4 a warp. Where there is no room
 * for both triangles (ONE) dV is made as soon as P is there, and dS takes its place.
 *
 * Where rows are first multiplied by small matrices, their adjoints can go through them, too
 * (FOLD): a slab of dV, then of dQ and dK, is put in shared memory in 16 bits, where those of the
 * rows before the matrices and sums over the tokens for the matrices and their biases are made of
 * it. */
#include "products.cuh"
#include "scans.cuh"
#include "tiles.cuh"
hole int N, K, V;                /* tokens; widths of keys and values */
hole int SLAB, STAGES;           /* channels at a time; places of the ring */
hole int TAKEN;                  /* of a slab's that are used: where matrices end, before SLAB */
hole bool ONE;                   /* P and dS have one place */
hole int FACTORS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole type T;                     /* of tiles */
hole bool Q_EIGHT, K_EIGHT, V_EIGHT, DY_EIGHT; /* rows can be copied eight elements at a time */
hole bool DQ_FOUR, DK_FOUR, DV_FOUR; /* four can be stored */
hole bool GAIN;                  /* keys are multiplied by a number a token: scores are, and dV's
                                  * rows */
/* Rows are first multiplied by matrices of GROUP x GROUP, a group of columns; LAST_SUMMED: the
 * matrix's last axis is summed. */
hole int GROUP, BLOCK; /* of blocks of BLOCK along the diagonal, zeros elsewhere */
hole bool Q_MAP, K_MAP, V_MAP, Q_LAST_SUMMED, K_LAST_SUMMED, V_LAST_SUMMED;
/* element i of row c, of all blocks; of row c */
hole expr q_matrix, k_matrix, v_matrix, q_bias, k_bias, v_bias;
hole bool Q_FOLD, K_FOLD, V_FOLD; /* dq, dk and dv are those of rows before the matrices */
hole bool JOINT, ADDEND;         /* queries and keys are made of the same rows, whose adjoint is dq;
                                  * begins with these */
hole bool ADD_EIGHT;
hole expr add_from;              /* address of its row at pos */
hole int add_stride;
/* store first and, of even BLOCK, second at i and i + 1 of row o of block g */
hole code put_q_weights, put_k_weights, put_v_weights;
hole code put_q_bias, put_k_bias, put_v_bias; /* value at o of block g */
hole bool DECAYS, PART;          /* decays' adjoints are asked for; of all tokens together, for
                                  * part[scan] */
hole expr place;                 /* of step t */
hole expr decay;                 /* at pos */
hole expr q_from, k_from, v_from, dy_from; /* addresses of rows at pos */
hole int q_stride, k_stride, v_stride, dy_stride; /* from row to row of these */
hole expr dy_extra;              /* the normalizer's adjoint */
hole code put_dq, put_dk, put_dv; /* store value at pos and x; */
hole code put_dq_four, put_dk_four, put_dv_four; /* four */
hole expr gain;                  /* at pos */
hole code put_gain;              /* stores value at pos: the sum of dK K over the channels, K as it
                                  * is multiplied */
hole code put;                   /* stores value at pos, without PART */
hole code put_part;              /* stores total, with PART */
constexpr int BLOCKS = 1, WARPS = THREADS / 32;
constexpr int TILES = (N + 15) / 16, ROWS = 16 * TILES, GROUPS = (TILES + 1) / 2,
              TRIANGLE = TILES * (TILES + 1) / 2;
constexpr int PIECES = vtb_triangle_pieces(GROUPS), PASSES = (32 * PIECES + THREADS - 1) / THREADS;
constexpr bool QK_FOLD = Q_FOLD || K_FOLD, FOLD = QK_FOLD || V_FOLD;
constexpr int HALVES = V > SLAB && !V_FOLD ? 2 : 1, D_SLAB = HALVES * SLAB, /* slabs of dY alone */
              D_TAKEN = V_FOLD ? TAKEN : D_SLAB;
constexpr int PA = vtb_pitch_along(SLAB, 2), PD = vtb_pitch_along(D_SLAB, 2);
constexpr int K_SLABS = (K + TAKEN - 1) / TAKEN, V_SLABS = (V + TAKEN - 1) / TAKEN,
              D_SLABS = (V + D_TAKEN - 1) / D_TAKEN;
/* all rows are in the ring */
constexpr bool SUMMED = DECAYS || GAIN,
               RESIDENT = !ONE && K_SLABS == 1 && V_SLABS == 1 && PASSES == 1 && !SUMMED;
constexpr int SCORED = PASSES * (K_SLABS + V_SLABS),
              ALL = SCORED + (RESIDENT ? 0 : K_SLABS + D_SLABS);
/* slabs of scores, of keys or of both, before others */
constexpr int TURN = ONE ? PASSES * K_SLABS : K_SLABS + V_SLABS;
constexpr int LATER = SCORED + D_SLABS; /* results for queries and keys come last */
/* of vtb_bring_rows: a thread's rows are STEP apart */
constexpr int LANES = vtb_max_int(SLAB / 8 & -(SLAB / 8), 1), STEP = THREADS / LANES;
/* of a row's sum; pitch of a tile on the diagonal */
constexpr int PARTS = (TILES + 3) / 4, PI = 17;
constexpr int SUMS = TRIANGLE * 17 + PARTS * ROWS + TILES * 16 * PI + 2 * ROWS;
constexpr int STAGE =
    (vtb_max_int(2 * ROWS * PA, SUMMED && PASSES == 1 ? 2 * SUMS : 0) + 7) / 8 * 8;
/* the last slab's place */
constexpr int SUMS_AT = PASSES == 1 ? (SCORED + (ONE ? D_SLABS : 0) - 1) % STAGES * (STAGE / 2) : 0;
/* of a slab's second rows */
constexpr int OTHER = ROWS * PA,
              WORK = vtb_max_int(256 * TRIANGLE, QK_FOLD && !ONE ? 2 * OTHER : 0);
/* sixteens of columns that a matrix has; eights that one is made of */
constexpr int SPAN = vtb_map_span(GROUP), NEAR = GROUP > 8 ? 2 * SPAN : 1;
/* columns that are multiplied at a time; warps of these */
constexpr int UNIT = GROUP > 8 ? 16 * SPAN : 8, TOGETHER = vtb_max_int(WARPS / (SLAB / UNIT), 1);
/* sixteen columns; warps of them: the others make sums for matrices */
constexpr int PAIRS = SLAB / 16, PER = vtb_max_int(WARPS / (2 * PAIRS), 1);
require !FOLD || (GAIN && WARPS >= 2 * GROUPS && (!Q_FOLD || DQ_FOUR) &&
                  (!K_FOLD || JOINT || DK_FOUR) && (!V_FOLD || DV_FOUR));
require !JOINT || (Q_FOLD && K_FOLD);
require GROUP >= 2 && (32 % GROUP == 0 || GROUP == 48) &&
        (TAKEN == SLAB ? GROUP % BLOCK == 0 && (SLAB % GROUP == 0 || !(Q_MAP || K_MAP || V_MAP))
                       : GROUP == SLAB && TAKEN % BLOCK == 0 && TAKEN < SLAB && TAKEN > 0) &&
        (!(Q_MAP || K_MAP) || K % BLOCK == 0) && (!V_MAP || V % BLOCK == 0);
require N <= 256 && SLAB % 16 == 0 && TAKEN % 8 == 0 && STAGES >= 2 && THREADS >= ROWS &&
        WARPS >= GROUPS && FACTORS >= 2 && FACTORS <= 3;
constexpr int RESULTS = 2 * K_SLABS + HALVES * D_SLABS; /* pieces of SLAB channels of them */
constexpr int JOINED = GROUP > 8 && BLOCK != GROUP;
/* eights by eights of a slab's matrices that are no zeros */
constexpr int EIGHTS = GROUP <= 8 ? SLAB / 8
                                  : (JOINED ? (BLOCK <= 12 ? TAKEN * 7 / 24 : TAKEN / 8 * 3)
                                            : SLAB / 8 * NEAR);
/* what warps make of a matrix first, and for 16 tokens; on the way back, of two eights */
constexpr int SET_UP = GROUP <= 8 ? 31 : (JOINED ? 22 * EIGHTS : 20 + 6 * NEAR * NEAR),
              TIMES = GROUP <= 8 ? 20 : 4 + 12 * (JOINED ? TAKEN / 8 : NEAR),
              SET_UP_BACK = GROUP <= 8 ? 42 : (JOINED ? 40 * NEAR : 10 + 18 * NEAR);
constexpr int MAPPED =
    ((Q_MAP + K_MAP) * K_SLABS * (PASSES + !RESIDENT) + V_MAP * V_SLABS * PASSES) * (SLAB / UNIT) *
    (vtb_min_int(TOGETHER, TILES) * SET_UP + TILES * TIMES);
constexpr int BACKS = V_FOLD * V_SLABS + (Q_FOLD + K_FOLD - JOINT) * K_SLABS,
              FOLDED = BACKS * (PAIRS * TILES * 57 + EIGHTS * (60 + 13 * TILES)) +
                       (BACKS + JOINT * K_SLABS) * PAIRS * PER * SET_UP_BACK;
cost tensor = GROUPS * (GROUPS + 1) * 1024 * SLAB * (K_SLABS + V_SLABS + RESULTS);
cost issue = MAPPED + FOLDED + WARPS * (PASSES * ((K_SLABS + V_SLABS) * (90 + 7 * SLAB / 2) +
                                         (SUMMED ? 1750 : 1000)) +
                               (RESIDENT ? 0 : K_SLABS + D_SLABS) * 110 + 400) +
             RESULTS * GROUPS * (60 + 4 * SLAB + (GROUPS + 1) * (2 + SLAB / 2));
cost wavefronts = (MAPPED + FOLDED) / 8 + GROUPS * (GROUPS + 1) *
                  (SLAB / 16 * (K_SLABS + V_SLABS) * 6 + (8 + SLAB / 4) * RESULTS) +
                  ROWS * SLAB / 64 * (2 * (K_SLABS + V_SLABS) + RESULTS);
cost flight = (STAGES - 1) * 2 * ROWS * SLAB * sizeof(T);
cost registers = 128;
shared T p_tiles[WORK];
shared T s_tiles[ONE ? 0 : 256 * TRIANGLE];
shared T ring[STAGES * STAGE];
shared float decays[ROWS], in[ROWS], out_of[ROWS], side[ROWS], gaps[TILES * TILES],
             gains[GAIN ? ROWS : 0], total_of[32];
shared int order_of[ROWS], piece_of[2 * WARPS]; /* a warp's group and part */
shared float behind[0];
shared float sums[SUMMED ? SUMS_AT + SUMS : 0] over PASSES == 1 ? ring : behind;
shared T rows_behind[ONE && QK_FOLD ? 2 * OTHER : 0] over behind; /* when sums have been read */
constexpr bool HALF = FACTORS == VTB_FP16;
/* back_rows: of queries and keys, to the matrices */
const auto ds_tiles = ONE ? p_tiles + 0 : s_tiles + 0,
           back_rows = ONE ? rows_behind + 0 : p_tiles + 0;
const int scan = vtb_block() / BLOCKS, dir = scan % DIRS, b = scan / (DIRS * HEADS),
          h = scan / DIRS % HEADS;
${directions}
const int tid = vtb_tid(), lane = vtb_lane();
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto gain_at = [&](vtb_i64 pos) -> float { return ${gain}; };
auto extra_at = [&](vtb_i64 pos) -> float { return ${dy_extra}; };
auto tile_of = [](int i, int j) { return i * (i + 1) / 2 + j; };
constexpr int pos = 0; /* the first row's address */
const auto q_of = ${q_from};
const auto k_of = ${k_from};
const auto v_of = ${v_from};
const auto dy_of = ${dy_from};

int next = 0, to_slot = 0; /* slabs in the order in which they are needed */
auto follow = [&](int at) { return at == (STAGES - 1) * STAGE ? 0 : at + STAGE; };
int mine[(ROWS + STEP - 1) / STEP]; /* places of the rows that this thread copies */
/* maps need registers */
auto row_at = [&](int r) -> int {
  return MAPPED ? order_of[vtb_min_int(r, ROWS - 1)] : mine[(r - tid / LANES) / STEP];
};
/* SLAB channels, of which n are */
auto bring_part = [&](auto of_eight, auto of_long, auto to, int n, auto from, int stride) {
  constexpr int PITCH = decltype(of_long)::value ? PD : PA;
  if constexpr (decltype(of_eight)::value)
    vtb_bring_rows<true, ROWS, SLAB, PITCH, THREADS>(to, N, n, from, stride, row_at);
  else
    vtb_bring_rows<false, ROWS, SLAB, PITCH, THREADS>(to, N, n, from, stride,
                                                      [&](int r) { return order_of[r]; });
};
constexpr bool K_WHOLE = TAKEN == SLAB && K % SLAB == 0, V_WHOLE = TAKEN == SLAB && V % SLAB == 0;
auto whole_of = [](bool whole, int left) -> int { return whole ? SLAB : vtb_min_int(left, TAKEN); };
auto bring = [&]() {
  const auto to = ring + to_slot;
  /* The next slab: scores of keys and of values, in turns, dY for values' results, and keys again.
   * ONE: those of values last but one. */
  const bool values_first = ONE && next >= TURN,
             scores = ONE ? next < TURN || (next >= TURN + D_SLABS && next < LATER) : next < SCORED;
  /* of scores */
  const int slab =
      ONE ? (next < TURN ? next % K_SLABS : K_SLABS + (next - TURN - D_SLABS) % V_SLABS)
          : next % TURN;
  const int result = values_first ? next - TURN : next - SCORED; /* of values' */
  if (scores ? slab < K_SLABS : next >= LATER && next < ALL) {
    const int x0 = (scores ? slab : next - LATER) * TAKEN, n = whole_of(K_WHOLE, K - x0);
    bring_part(vtb_flag<Q_EIGHT>(), vtb_flag<false>(), to, n, q_of + x0, q_stride);
    if constexpr (!JOINT) {
      bring_part(vtb_flag<K_EIGHT>(), vtb_flag<false>(), to + OTHER, n, k_of + x0, k_stride);
    } else if (ADDEND && !scores) {
      /* again: they cost registers */
      const int b = vtb_block() / (DIRS * HEADS), h = vtb_block() / DIRS % HEADS;
      const auto add_of = ${add_from};
      bring_part(vtb_flag<ADD_EIGHT>(), vtb_flag<false>(), to + OTHER, n, add_of + x0,
                 add_stride);
    }
  } else if (scores || (V_FOLD && next < LATER)) {
    const int x0 = (scores ? slab - K_SLABS : result) * TAKEN, n = whole_of(V_WHOLE, V - x0);
    bring_part(vtb_flag<DY_EIGHT>(), vtb_flag<false>(), to, n, dy_of + x0, dy_stride);
    bring_part(vtb_flag<V_EIGHT>(), vtb_flag<false>(), to + OTHER, n, v_of + x0, v_stride);
  } else if (next < LATER && !RESIDENT) {
    VTB_UNROLL for (int half = 0; half < HALVES; half++) {
      const int x0 = result * D_SLAB + half * SLAB;
      bring_part(vtb_flag<DY_EIGHT>(), vtb_flag<true>(), to + half * SLAB, V - x0, dy_of + x0,
                 dy_stride);
    }
  }
  vtb_cp_commit();
  next++;
  to_slot = follow(to_slot);
};
auto arrive = [&]() -> int { /* the next slab's place; another is brought */
  vtb_cp_wait<STAGES - 2>();
  vtb_sync();
  const int now = follow(to_slot); /* the oldest */
  bring();
  return now;
};
#include "linscan_grad_short_maps.cuh"

if (tid < ROWS) order_of[tid] = place(vtb_min_int(tid, N - 1));
vtb_sync();
VTB_UNROLL for (int r = 0; r < ROWS; r += STEP)
  mine[r / STEP] = order_of[vtb_min_int(r + tid / LANES, ROWS - 1)];
VTB_UNROLL for (int i = 0; i < STAGES - 1; i++) bring();
if (tid < ROWS) {
  decays[tid] = tid < N ? decay_at(order_of[tid]) : 1.0f;
  if constexpr (GAIN) gains[tid] = tid < N ? gain_at(order_of[tid]) : 0.0f;
  side[tid] = tid < N ? extra_at(order_of[tid]) : 0.0f;
}
vtb_sync();
if (tid < ROWS) { /* products inside tiles: up to a token, behind it */
  float m = 1.0f;
  VTB_NO_UNROLL for (int t = tid / 16 * 16; t <= tid; t++) m *= decays[t];
  in[tid] = m;
  m = 1.0f;
  VTB_NO_UNROLL for (int t = tid + 1; t < tid / 16 * 16 + 16; t++) m *= decays[t];
  out_of[tid] = m;
}
vtb_sync();
VTB_NO_UNROLL for (int e = tid; e < TILES * TILES; e += THREADS) { /* of the tiles between two */
  float m = 1.0f;
  VTB_NO_UNROLL for (int i = e / TILES + 1; i < e % TILES; i++) m *= in[16 * i + 15];
  gaps[e] = m;
}

#include "linscan_grad_short_scores.cuh"
#include "linscan_grad_short_results.cuh"

#include "linscan_grad_short_fold.cuh"
auto weights_of_q = [&](int g, int o, int i, float first, float second) { ${put_q_weights} };
auto weights_of_k = [&](int g, int o, int i, float first, float second) { ${put_k_weights} };
auto weights_of_v = [&](int g, int o, int i, float first, float second) { ${put_v_weights} };
auto bias_of_q = [&](int g, int o, float value) { ${put_q_bias} };
auto bias_of_k = [&](int g, int o, float value) { ${put_k_bias} };
auto bias_of_v = [&](int g, int o, float value) { ${put_v_bias} };
auto put_dq = [&](vtb_i64 pos, int x, vtb_f4 four) { ${put_dq_four} };
auto put_dk = [&](vtb_i64 pos, int x, vtb_f4 four) { ${put_dk_four} };
auto put_dv = [&](vtb_i64 pos, int x, vtb_f4 four) { ${put_dv_four} };
auto as_is = [](vtb_f4 four, int) -> vtb_f4 { return four; };

#include "linscan_grad_short_values.cuh"
if constexpr (ONE) {
  VTB_NO_UNROLL for (int pass = 0; pass < PASSES; pass++)
    score(pass, vtb_flag<true>(), vtb_flag<false>());
  give_values();
  VTB_NO_UNROLL for (int pass = 0; pass < PASSES; pass++)
    score(pass, vtb_flag<false>(), vtb_flag<true>());
} else {
  VTB_NO_UNROLL for (int pass = 0; pass < PASSES; pass++)
    score(pass, vtb_flag<true>(), vtb_flag<true>());
}
#include "linscan_grad_short_sums.cuh"

if (RESIDENT) vtb_sync();
if constexpr (!ONE) give_values();
/* a warp's results of 32 tokens */
auto keep = [&](int group, auto to) {
  VTB_UNROLL for (int s = 0; s < 2; s++) {
    if (32 * group + 16 * s >= ROWS) break;
    VTB_UNROLL for (int i = 0; i < SLAB / 8; i++) VTB_UNROLL for (int e = 0; e < 4; e += 2)
        vtb_store2(to, (32 * group + 16 * s + lane / 4 + 4 * e) * PA + 8 * i + 2 * (lane % 4),
                   out[s * (SLAB / 8) + i][e], out[s * (SLAB / 8) + i][e + 1]);
  }
};
VTB_NO_UNROLL for (int slab = 0; slab < K_SLABS; slab++) {
  const int at = RESIDENT ? 0 : arrive(), x0 = slab * TAKEN, end = vtb_min_int(K, x0 + TAKEN);
  const auto q_rows = Q_FOLD ? back_rows : ring + at,
             k_rows = K_FOLD ? back_rows + OTHER : ring + at + OTHER;
  if constexpr (!RESIDENT) map_rows(ring + at, q_rows, k_rows, slab);
  VTB_NO_UNROLL for (int unit = vtb_warp(); unit < 2 * GROUPS; unit += WARPS) {
    if (unit < GROUPS) {
      take(vtb_flag<false>(), vtb_flag<false>(), ds_tiles, unit, k_rows);
      if constexpr (!Q_FOLD)
        store(vtb_flag<DQ_FOUR>(), vtb_flag<K_WHOLE>(), vtb_flag<false>(), unit, x0, end, put_dq,
              [&](vtb_i64 pos, int x, float value) { ${put_dq} });
    } else {
      take(vtb_flag<true>(), vtb_flag<false>(), ds_tiles, unit - GROUPS, q_rows);
      if constexpr (!K_FOLD)
        store(vtb_flag<DK_FOUR>(), vtb_flag<K_WHOLE>(), vtb_flag<false>(), unit - GROUPS, x0, end,
              put_dk, [&](vtb_i64 pos, int x, float value) { ${put_dk} });
    }
  }
  if constexpr (QK_FOLD) {
    vtb_sync();
    const int unit = vtb_warp();
    if (Q_FOLD && unit < GROUPS) keep(unit, back_rows);
    if (K_FOLD && unit >= GROUPS && unit < 2 * GROUPS) keep(unit - GROUPS, back_rows + OTHER);
    vtb_sync();
    auto queries = [&](int at, int x, int y) {
      return factor_of(vtb_flag<!Q_LAST_SUMMED>(), vtb_int<K>(), at, x, y, q_row, no_add);
    };
    auto keys = [&](int at, int x, int y) {
      return factor_of(vtb_flag<!K_LAST_SUMMED>(), vtb_int<K>(), at, x, y, k_row, no_add);
    };
    if constexpr (JOINT) {
      const auto begun = ring + at + OTHER;
      back(
          vtb_flag<true>(), back_rows, x0, end,
          [&](int m, int at, int x, int y) { return m ? keys(at, x, y) : queries(at, x, y); },
          [&](vtb_f4 four, int at) -> vtb_f4 {
            if constexpr (ADDEND)
              return four + vtb_load4(begun, at);
            else
              return four;
          },
          put_dq);
      weigh(
          vtb_flag<true>(), back_rows, ring + at, x0, end, K,
          [&](int m, int g, int o, int i, float first, float second) {
            m ? weights_of_k(g, o, i, first, second) : weights_of_q(g, o, i, first, second);
          },
          [&](int m, int g, int o, float value) {
            m ? bias_of_k(g, o, value) : bias_of_q(g, o, value);
          });
    } else {
      if constexpr (Q_FOLD) {
        back(
            vtb_flag<false>(), back_rows, x0, end,
            [&](int, int at, int x, int y) { return queries(at, x, y); }, as_is, put_dq);
        weigh(
            vtb_flag<false>(), back_rows, ring + at, x0, end, K,
            [&](int, int g, int o, int i, float first, float second) {
              weights_of_q(g, o, i, first, second);
            },
            [&](int, int g, int o, float value) { bias_of_q(g, o, value); });
      }
      if constexpr (K_FOLD) {
        back(
            vtb_flag<false>(), back_rows + OTHER, x0, end,
            [&](int, int at, int x, int y) { return keys(at, x, y); }, as_is, put_dk);
        weigh(
            vtb_flag<false>(), back_rows + OTHER, ring + at + OTHER, x0, end, K,
            [&](int, int g, int o, int i, float first, float second) {
              weights_of_k(g, o, i, first, second);
            },
            [&](int, int g, int o, float value) { bias_of_k(g, o, value); });
      }
    }
  }
}
vtb_cp_wait<0>();

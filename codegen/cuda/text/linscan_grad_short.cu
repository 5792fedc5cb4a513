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
hole int GROUP;
hole bool Q_MAP, K_MAP, V_MAP, Q_LAST_SUMMED, K_LAST_SUMMED, V_LAST_SUMMED;
/* element i of row e of group g; e of group g */
hole expr q_matrix, k_matrix, v_matrix, q_bias, k_bias, v_bias;
hole bool Q_FOLD, K_FOLD, V_FOLD; /* dq, dk and dv are those of rows before the matrices */
hole bool JOINT, ADDEND;         /* queries and keys are made of the same rows, whose adjoint is dq;
                                  * begins with these */
hole bool ADD_EIGHT;
hole expr add_from;              /* address of its row at pos */
hole int add_stride;
/* store first and second at i and i + 1 of row o of group g */
hole code put_q_weights, put_k_weights, put_v_weights;
hole code put_q_bias, put_k_bias, put_v_bias; /* value at o of group g */
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
constexpr int HALVES = V > SLAB && !V_FOLD ? 2 : 1, D_SLAB = HALVES * SLAB; /* slabs of dY alone */
constexpr int PA = vtb_pitch_along(SLAB, 2), PD = vtb_pitch_along(D_SLAB, 2);
constexpr int K_SLABS = (K + SLAB - 1) / SLAB, V_SLABS = (V + SLAB - 1) / SLAB,
              D_SLABS = (V + D_SLAB - 1) / D_SLAB;
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
/* sixteen columns; warps of them */
constexpr int PAIRS = SLAB / 16, PER = vtb_max_int(WARPS / PAIRS, 1);
require !FOLD || (GAIN && WARPS >= 2 * GROUPS && (!Q_FOLD || DQ_FOUR) &&
                  (!K_FOLD || JOINT || DK_FOUR) && (!V_FOLD || DV_FOUR));
require !JOINT || (Q_FOLD && K_FOLD);
require GROUP >= 2 && 32 % GROUP == 0 && (SLAB % GROUP == 0 || !(Q_MAP || K_MAP || V_MAP)) &&
        (!(Q_MAP || K_MAP) || K % GROUP == 0) && (!V_MAP || V % GROUP == 0);
require N <= 256 && SLAB % 16 == 0 && STAGES >= 2 && THREADS >= ROWS && WARPS >= GROUPS &&
        FACTORS >= 2 && FACTORS <= 3;
constexpr int RESULTS = 2 * K_SLABS + HALVES * D_SLABS; /* pieces of SLAB channels of them */
/* 28 for a tile of 16 x 16; a warp's large matrices */
constexpr int MAPPED = ((Q_MAP + K_MAP) * K * (PASSES + !RESIDENT) + V_MAP * V * PASSES) *
                       (TILES * 7 / 4 + (GROUP > 8 ? GROUP * TOGETHER / 6 : 0));
cost tensor = GROUPS * (GROUPS + 1) * 1024 * SLAB * (K_SLABS + V_SLABS + RESULTS);
cost issue = MAPPED + WARPS * (PASSES * ((K_SLABS + V_SLABS) * (90 + 7 * SLAB / 2) +
                                         (SUMMED ? 2500 : 1500)) +
                               (RESIDENT ? 0 : K_SLABS + D_SLABS) * 110 + 400) +
             RESULTS * GROUPS * (60 + 4 * SLAB + (GROUPS + 1) * (2 + SLAB / 2));
cost wavefronts = MAPPED / 8 + GROUPS * (GROUPS + 1) *
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
constexpr bool K_WHOLE = K % SLAB == 0, V_WHOLE = V % SLAB == 0;
auto bring = [&]() {
  const auto to = ring + to_slot;
  /* What comes next: scores of keys and of values, in turns, dY for values' results, and keys
   * again. ONE: those of values last but one. */
  const bool values_first = ONE && next >= TURN,
             scores = ONE ? next < TURN || (next >= TURN + D_SLABS && next < LATER) : next < SCORED;
  /* of scores */
  const int slab =
      ONE ? (next < TURN ? next % K_SLABS : K_SLABS + (next - TURN - D_SLABS) % V_SLABS)
          : next % TURN;
  const int result = values_first ? next - TURN : next - SCORED; /* of values' */
  if (scores ? slab < K_SLABS : next >= LATER && next < ALL) {
    const int x0 = (scores ? slab : next - LATER) * SLAB;
    bring_part(vtb_flag<Q_EIGHT>(), vtb_flag<false>(), to, K_WHOLE ? SLAB : K - x0, q_of + x0,
               q_stride);
    if constexpr (!JOINT) {
      bring_part(vtb_flag<K_EIGHT>(), vtb_flag<false>(), to + OTHER, K_WHOLE ? SLAB : K - x0,
                 k_of + x0, k_stride);
    } else if (ADDEND && !scores) {
      /* again: they cost registers */
      const int b = vtb_block() / (DIRS * HEADS), h = vtb_block() / DIRS % HEADS;
      const auto add_of = ${add_from};
      bring_part(vtb_flag<ADD_EIGHT>(), vtb_flag<false>(), to + OTHER, K_WHOLE ? SLAB : K - x0,
                 add_of + x0, add_stride);
    }
  } else if (scores || (V_FOLD && next < LATER)) {
    const int x0 = (scores ? slab - K_SLABS : result) * SLAB;
    bring_part(vtb_flag<DY_EIGHT>(), vtb_flag<false>(), to, V_WHOLE ? SLAB : V - x0, dy_of + x0,
               dy_stride);
    bring_part(vtb_flag<V_EIGHT>(), vtb_flag<false>(), to + OTHER, V_WHOLE ? SLAB : V - x0,
               v_of + x0, v_stride);
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
/* Of eight columns: a second factor with what bf16 leaves of it behind, and two numbers of the
 * bias. */
struct factor {
  vtb_u32 of[2];
  float left, right;
};
/* h is not kept for this */
auto group_of = [&](int width) { return vtb_block() / DIRS % HEADS * (width / GROUP); };
/* of columns from x on, made of those from `from` on */
auto factor_of = [&](auto of_along, auto of_width, int x, int from, auto matrix,
                     auto bias) -> factor {
  constexpr int WIDTH = decltype(of_width)::value;
  factor f;
  const int g0 = group_of(WIDTH), n = x + 2 * (lane % 4);
  vtb_group_factor<GROUP, decltype(of_along)::value, HALF, WIDTH>(
      f.of, x, from, [&](int g, int e, int i) { return matrix(g0 + g, e, i); });
  f.left = n < WIDTH ? bias(g0 + n / GROUP, n % GROUP) : 0.0f;
  f.right = n < WIDTH ? bias(g0 + n / GROUP, n % GROUP + 1) : 0.0f;
  return f;
};
auto q_row = [&](int g, int e, int i) -> float { return ${q_matrix}; };
auto k_row = [&](int g, int e, int i) -> float { return ${k_matrix}; };
auto v_row = [&](int g, int e, int i) -> float { return ${v_matrix}; };
auto q_add = [&](int g, int e) -> float { return ${q_bias}; };
auto k_add = [&](int g, int e) -> float { return ${k_bias}; };
auto v_add = [&](int g, int e) -> float { return ${v_bias}; };
auto no_add = [](int, int) -> float { return 0.0f; };
auto put_rows = [&](auto to, int r, int x, const float(&y)[4]) { /* of eight columns of 16 rows */
  const auto at = to + ((r + lane / 4) * PA + x + 2 * (lane % 4));
  vtb_store2(at, 0, y[0], y[1]);
  vtb_store2(at, 8 * PA, y[2], y[3]);
};
/* a slab of all tokens; it may stay where it is */
auto multiply = [&](auto from, auto to, auto factor_at) {
  VTB_NO_UNROLL for (int o = vtb_warp() / TOGETHER; o < SLAB / UNIT; o += WARPS / TOGETHER) {
    factor f[NEAR][NEAR];
    VTB_UNROLL for (int i = 0; i < NEAR; i++)
      VTB_UNROLL for (int j = 0; j < NEAR; j++)
        f[i][j] = factor_at(UNIT * o + 8 * i, UNIT * o + 8 * j);
    if constexpr (GROUP > 8) {
      VTB_NO_UNROLL for (int r = vtb_warp() % TOGETHER * 16; r < ROWS; r += TOGETHER * 16) {
        vtb_u32 x[SPAN][4];
        VTB_UNROLL for (int s = 0; s < SPAN; s++)
          vtb_ldmatrix_x4(x[s], from + ((r + lane % 16) * PA + UNIT * o + 16 * s + lane / 16 * 8));
        vtb_sync_warp();
        VTB_UNROLL for (int i = 0; i < NEAR; i++) {
          float y[4] = {f[i][0].left, f[i][0].right, f[i][0].left, f[i][0].right};
          VTB_UNROLL for (int s = 0; s < SPAN; s++) {
            const vtb_u32 w[2] = {f[i][vtb_min_int(2 * s, NEAR - 1)].of[0],
                                  f[i][vtb_min_int(2 * s + 1, NEAR - 1)].of[0]};
            vtb_mma_16<HALF>(y, x[s], w);
          }
          put_rows(to, r, UNIT * o + 8 * i, y);
        }
      }
    } else {
      /* two tiles, or the last */
      VTB_NO_UNROLL for (int r = vtb_warp() % TOGETHER * 32; r < ROWS; r += TOGETHER * 32) {
        vtb_u32 x[4];
        vtb_ldmatrix_x4(
            x, from + ((vtb_min_int(r + lane / 16 * 16, ROWS - 16) + lane % 16) * PA + 8 * o));
        vtb_sync_warp();
        VTB_UNROLL for (int i = 0; i < 2; i++) {
          if (r + 16 * i >= ROWS) break;
          const vtb_u32 twice[4] = {x[2 * i], x[2 * i + 1], x[2 * i], x[2 * i + 1]};
          float y[4] = {f[0][0].left, f[0][0].right, f[0][0].left, f[0][0].right};
          vtb_mma_16<HALF>(y, twice, f[0][0].of);
          put_rows(to, r + 16 * i, 8 * o, y);
        }
      }
    }
  }
};
/* queries and keys of a slab that has come */
auto map_rows = [&](auto from, auto q_to, auto k_to, int slab) {
  if constexpr (K_MAP)
    multiply(from + (JOINT ? 0 : OTHER), k_to, [&](int x, int y) {
      return factor_of(vtb_flag<K_LAST_SUMMED>(), vtb_int<K>(), slab * SLAB + x, slab * SLAB + y,
                       k_row, k_add);
    });
  if constexpr (Q_MAP)
    multiply(from, q_to, [&](int x, int y) {
      return factor_of(vtb_flag<Q_LAST_SUMMED>(), vtb_int<K>(), slab * SLAB + x, slab * SLAB + y,
                       q_row, q_add);
    });
  if constexpr (Q_MAP || K_MAP) vtb_sync();
};
auto map_keys = [&](int at, int slab) -> int {
  map_rows(ring + at, ring + at, ring + at + OTHER, slab);
  return at;
};
auto map_values = [&](int at, int slab) -> int {
  if constexpr (V_MAP) {
    const auto to = ring + at + OTHER;
    multiply(to, to, [&](int x, int y) {
      return factor_of(vtb_flag<V_LAST_SUMMED>(), vtb_int<V>(), slab * SLAB + x, slab * SLAB + y,
                       v_row, v_add);
    });
    vtb_sync();
  }
  return at;
};

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

/* Sums of W: of columns, tile by tile; of rows, four tiles at a time; tiles on the diagonal as they
 * are. */
const auto all_sums = sums + SUMS_AT;
const auto column_sums = all_sums, row_sums = all_sums + TRIANGLE * 16,
           inner = row_sums + PARTS * ROWS;
const auto columns_behind = inner + TILES * 16 * PI, rows_before = columns_behind + ROWS,
           tile_sums = rows_before + ROWS;

/* a pass over the triangle: P, dS and the sums, or one of both */
auto score = [&](int pass, auto of_keys, auto of_values) {
  /* the warp's tiles: rows of a group, four columns */
  int group = 0, part = pass * WARPS + vtb_warp();
  VTB_NO_UNROLL while (part >= (group + 2) / 2) {
    part -= (group + 2) / 2;
    group++;
  }
  vtb_sync_warp(); /* a pass before has read them */
  if (lane == 0) piece_of[2 * vtb_warp()] = group, piece_of[2 * vtb_warp() + 1] = part;
  const bool live = group < GROUPS;
  const int wide = vtb_min_int(2 * group + 2, TILES) - 4 * part, first = live ? 32 * group : 0,
            second = vtb_min_int(first + 16, ROWS - 16);
  float c[16][4];
  /* of fragments of rows, of columns */
  const int lane_row = lane % 8 + lane / 8 % 2 * 8, lane_column = lane % 8 + lane / 16 * 8;
  int rows_from[2], columns_from[4];
  rows_from[0] = (first + lane_row) * PA + lane / 16 * 8;
  rows_from[1] = (second + lane_row) * PA + lane / 16 * 8;
  VTB_UNROLL for (int i = 0; i < 4; i++)
    columns_from[i] =
        (ROWS + vtb_min_int(64 * part + 16 * i, ROWS - 16) + lane_column) * PA + lane / 8 % 2 * 8;
  auto meet = [&](int at) {
    if (!live) return;
    const auto stage = ring + at;
    VTB_UNROLL for (int k = 0; k < SLAB; k += 16) {
      vtb_u32 x[2][4], y[4];
      VTB_UNROLL for (int s = 0; s < 2; s++) vtb_ldmatrix_x4(x[s], stage + (rows_from[s] + k));
      VTB_UNROLL for (int i = 0; i < 4; i++) {
        if (i >= 2 && wide <= 2) break;
        vtb_ldmatrix_x4(y, stage + (columns_from[i] + k));
        const vtb_u32 left[2] = {y[0], y[1]}, right[2] = {y[2], y[3]};
        VTB_UNROLL for (int s = 0; s < 2; s++) {
          vtb_mma_16<HALF>(c[8 * s + 2 * i], x[s], left);
          vtb_mma_16<HALF>(c[8 * s + 2 * i + 1], x[s], right);
        }
      }
    }
  };
  /* f(strip, number, tile's row, column) of the tiles in the triangle */
  auto each_tile = [&](auto f) {
    VTB_UNROLL for (int s = 0; s < 2; s++) VTB_UNROLL for (int i = 0; i < 4; i++) {
      const int row = 2 * group + s, column = 4 * part + i;
      if (live && row < TILES && column <= row) f(s, i, row, column);
    }
  };
  /* M of the lane's elements of a tile: rows lane / 4 and 8 more, columns 2 (lane % 4), one more,
   * and both 8 more. */
  float m[2][4];
  /* a row's product, the tiles' between, a column's */
  auto outside = [&](int row, int column) {
    const float between = gaps[column * TILES + row];
    float f[4];
    VTB_UNROLL for (int x = 0; x < 4; x++)
      f[x] = out_of[16 * column + x / 2 * 8 + 2 * (lane % 4) + x % 2];
    VTB_UNROLL for (int r = 0; r < 2; r++) {
      const float to = in[16 * row + 8 * r + lane / 4] * between;
      VTB_UNROLL for (int x = 0; x < 4; x++) m[r][x] = to * f[x];
    }
  };
  /* inside of eights one after the other; between them a row's and a column's */
  auto diagonal = [&](int row) {
    const int t = lane / 4, j = 2 * (lane % 4);
    float to = 1.0f, from[2] = {1.0f, 1.0f};
    VTB_UNROLL for (int x = 0; x < 4; x++) m[x / 2][x] = x % 2 + j > t ? 0.0f : 1.0f;
    m[0][2] = m[0][3] = 0.0f;
    VTB_UNROLL for (int i = 0; i < 8; i++) {
      const float d = decays[16 * row + i], e = decays[16 * row + 8 + i];
      VTB_UNROLL for (int x = 0; x < 2; x++) {
        if (i > j + x && i <= t) m[0][x] *= d, m[1][2 + x] *= e;
        if (i > j + x) from[x] *= d;
      }
      if (i <= t) to *= e;
    }
    m[1][0] = to * from[0];
    m[1][1] = to * from[1];
  };
  auto decay_tile = [&](int s, int i, int row, int column) {
    if (s == i % 2 && row == column) /* others never are on the diagonal */
      diagonal(row);
    else
      outside(row, column);
  };
  if constexpr (decltype(of_keys)::value) {
    vtb_clear(c);
    VTB_NO_UNROLL for (int slab = 0; slab < K_SLABS; slab++) meet(map_keys(arrive(), slab));
    each_tile([&](int s, int i, int row, int column) {
      decay_tile(s, i, row, column);
      VTB_UNROLL for (int q = 0; q < 4; q++) {
        const int at = 8 * s + 2 * i + q / 2, e = q % 2 * 2;
        vtb_store2(p_tiles, tile_of(row, column) * 256 + 64 * q + 2 * lane,
                   c[at][e] * m[q % 2][q / 2 * 2], c[at][e + 1] * m[q % 2][q / 2 * 2 + 1]);
      }
    });
  }
  if constexpr (decltype(of_values)::value) {
  vtb_clear(c);
  VTB_NO_UNROLL for (int slab = 0; slab < V_SLABS; slab++) meet(map_values(arrive(), slab));
  /* what was computed of them is not kept */
  group = piece_of[2 * vtb_warp()], part = piece_of[2 * vtb_warp() + 1];
  if (SUMMED && PASSES == 1) vtb_sync(); /* sums take the last slab's place */
  float row_sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, extras[4];
  VTB_UNROLL for (int i = 0; i < 4; i++)
    extras[i] = side[(i < 2 ? first : second) + i % 2 * 8 + lane / 4];
  each_tile([&](int s, int i, int row, int column) {
    const int tile = tile_of(row, column) * 256 + 2 * lane;
    float w[4][2], by[4]; /* by: gains of the lane's columns */
    decay_tile(s, i, row, column);
    VTB_UNROLL for (int x = 0; x < 4; x++) {
      if constexpr (GAIN)
        by[x] = gains[16 * column + x / 2 * 8 + 2 * (lane % 4) + x % 2];
      else
        by[x] = 1.0f;
    }
    VTB_UNROLL for (int q = 0; q < 4; q++) {
      const int at = 8 * s + 2 * i + q / 2, e = q % 2 * 2;
      w[q][0] = c[at][e] + extras[2 * s + q % 2];
      w[q][1] = c[at][e + 1] + extras[2 * s + q % 2];
      const float first_ds = w[q][0] * m[q % 2][q / 2 * 2] * by[q / 2 * 2],
                  second_ds = w[q][1] * m[q % 2][q / 2 * 2 + 1] * by[q / 2 * 2 + 1];
      if constexpr (SUMMED) {
        w[q][0] *= p_tiles[tile + 64 * q];
        w[q][1] *= p_tiles[tile + 64 * q + 1];
      }
      vtb_store2(ds_tiles, tile + 64 * q, first_ds, second_ds);
    }
    if constexpr (SUMMED) {
      if (s == i % 2 && row == column) {
        VTB_UNROLL for (int q = 0; q < 4; q++) VTB_UNROLL for (int e = 0; e < 2; e++)
            inner[(16 * row + lane / 4 + q % 2 * 8) * PI + q / 2 * 8 + 2 * (lane % 4) + e] =
                w[q][e];
      } else {
        VTB_UNROLL for (int q = 0; q < 4; q++)
          row_sum[2 * s + q % 2] += w[q][0] * by[q / 2 * 2] + w[q][1] * by[q / 2 * 2 + 1];
        float four[4] = {w[0][0] + w[1][0], w[0][1] + w[1][1], w[2][0] + w[3][0],
                         w[2][1] + w[3][1]};
        /* over the lanes of a column, halves exchanged */
        VTB_UNROLL for (int half = 2; half >= 1; half /= 2) {
          const bool upper = lane & 8 * half;
          VTB_UNROLL for (int x = 0; x < half; x++) {
            const float sent = upper ? four[x] : four[x + half],
                        kept = upper ? four[x + half] : four[x];
            four[x] = kept + vtb_shfl_xor(sent, 8 * half);
          }
        }
        four[0] += vtb_shfl_xor(four[0], 4);
        if (lane / 4 % 2 == 0)
          column_sums[tile_of(row, column) * 16 + lane / 16 * 8 + 2 * (lane % 4) + lane / 8 % 2] =
              four[0];
      }
    }
  });
  if constexpr (SUMMED) {
    VTB_UNROLL for (int i = 0; i < 4; i++) {
      const float sum = vtb_quad_sum(row_sum[i]);
      const int t = 32 * group + 16 * (i / 2) + i % 2 * 8 + lane / 4;
      if (live && t < ROWS && lane % 4 == 0) row_sums[part * ROWS + t] = sum;
    }
  }
  }
};
/* Results: two strips of 16 tokens and SLAB channels a warp. BACK: tiles are taken transposed,
 * those from the diagonal down; LONG: rows of the ring are those of dY alone. */
float out[SLAB / 4][4];
auto take = [&](auto of_back, auto of_long, auto tiles, int group, auto rows) {
  constexpr bool BACK = decltype(of_back)::value;
  constexpr int PITCH = decltype(of_long)::value ? PD : PA;
  const int first = 2 * group, second = vtb_min_int(first + 1, TILES - 1);
  const auto lane_of = rows + vtb_lane_across<PITCH, SLAB>();
  const auto tile = tiles + (BACK ? (lane / 8 % 2 * 2 + lane / 16) * 64 + lane % 8 * 8 : lane * 8);
  auto load = [&](vtb_u32 (&x)[4], int from) {
    if constexpr (BACK)
      vtb_ldmatrix_x4_trans(x, tile + from);
    else
      vtb_ldmatrix_x4(x, tile + from);
  };
  auto step = [&](auto of_both, int from, int other, int depth) {
    vtb_u32 x[2][4], y[4];
    load(x[0], from);
    if constexpr (decltype(of_both)::value) load(x[1], other);
    VTB_UNROLL for (int i = 0; i < SLAB / 8; i += 2) {
      vtb_ldmatrix_x4_trans(y, lane_of + (16 * depth * PITCH + 8 * i));
      const vtb_u32 left[2] = {y[0], y[1]}, right[2] = {y[2], y[3]};
      if constexpr (decltype(of_both)::value) {
        VTB_UNROLL for (int s = 0; s < 2; s++) {
          vtb_mma_16<HALF>(out[s * (SLAB / 8) + i], x[s], left);
          vtb_mma_16<HALF>(out[s * (SLAB / 8) + i + 1], x[s], right);
        }
      } else {
        constexpr int STRIP = BACK ? 0 : 1;
        vtb_mma_16<HALF>(out[STRIP * (SLAB / 8) + i], x[0], left);
        vtb_mma_16<HALF>(out[STRIP * (SLAB / 8) + i + 1], x[0], right);
      }
    }
  };
  vtb_clear(out);
  if constexpr (BACK) {
    step(vtb_flag<false>(), 256 * tile_of(first, first), 0, first);
    int from = 256 * tile_of(first + 1, first);
    VTB_NO_UNROLL for (int i = first + 1; i < TILES; i++) {
      step(vtb_flag<true>(), from, from + 256, i);
      from += 256 * (i + 1);
    }
  } else {
    const int from = 256 * tile_of(first, 0), other = 256 * tile_of(second, 0);
    VTB_NO_UNROLL for (int j = 0; j <= first; j++)
      step(vtb_flag<true>(), from + 256 * j, other + 256 * j, j);
    if (second > first) step(vtb_flag<false>(), other + 256 * second, 0, second);
  }
};
auto store = [&](auto of_four, auto of_whole, auto of_gain, int group, int x0, int width,
                 auto put_four, auto put_one) {
  constexpr bool WHOLE = decltype(of_whole)::value;
  VTB_UNROLL for (int s = 0; s < 2; s++)
    VTB_UNROLL for (int e = 0; e < 4; e += 2) {
      const int t = 32 * group + 16 * s + 4 * e + lane / 4, n = t < N ? width - x0 : 0;
      const vtb_i64 to = order_of[vtb_min_int(t, N - 1)];
      if constexpr (decltype(of_gain)::value) {
        const float by = gains[vtb_min_int(t, ROWS - 1)];
        VTB_UNROLL for (int i = 0; i < SLAB / 8; i++)
          VTB_UNROLL for (int o = 0; o < 2; o++) out[s * (SLAB / 8) + i][e + o] *= by;
      }
      VTB_UNROLL for (int i = 0; i < SLAB / 8; i += 2) {
        const int at = s * (SLAB / 8) + i;
        if constexpr (decltype(of_four)::value) {
          const vtb_f4 four =
              vtb_four_of_eights(out[at][e], out[at][e + 1], out[at + 1][e], out[at + 1][e + 1]);
          const int x = 8 * i + vtb_four_column();
          if (WHOLE ? t < N : x < n) put_four(to, x0 + x, four);
        } else {
          VTB_UNROLL for (int o = 0; o < 4; o++) {
            const int x = 8 * i + 8 * (o / 2) + 2 * (lane % 4) + o % 2;
            if (x < n) put_one(to, x0 + x, out[at + o / 2][e + o % 2]);
          }
        }
      }
    }
};

/* Adjoints of rows before the matrices, and the matrices' own, of a slab in `from` (and, TWO,
 * `from` + OTHER, of the same rows). */
auto back = [&](auto of_two, auto from, int x0, int width, auto factor_at, auto more, auto put) {
  constexpr bool TWO = decltype(of_two)::value;
  VTB_NO_UNROLL for (int pair = vtb_warp() / PER; pair < PAIRS; pair += WARPS / PER) {
    const int first = 16 * (pair / SPAN * SPAN); /* columns that these are made of */
    factor f[TWO ? 2 : 1][2][NEAR];
    VTB_UNROLL for (int m = 0; m < (TWO ? 2 : 1); m++)
      VTB_UNROLL for (int i = 0; i < 2; i++)
        VTB_UNROLL for (int j = 0; j < NEAR; j++)
          f[m][i][j] = factor_at(m, x0 + 16 * pair + 8 * i,
                                 x0 + (GROUP > 8 ? first + 8 * j : 16 * pair + 8 * i));
    const int x = 16 * pair + vtb_four_column();
    VTB_NO_UNROLL for (int r = vtb_warp() % PER * 16; r < ROWS; r += PER * 16) {
      float y[2][4];
      vtb_u32 d[4];
      vtb_clear(y);
      if constexpr (GROUP > 8) {
        VTB_UNROLL for (int m = 0; m < (TWO ? 2 : 1); m++)
          VTB_UNROLL for (int s = 0; s < SPAN; s++) {
            vtb_ldmatrix_x4(
                d, from + (m * OTHER + (r + lane % 16) * PA + first + 16 * s + lane / 16 * 8));
            VTB_UNROLL for (int i = 0; i < 2; i++) {
              const vtb_u32 w[2] = {f[m][i][vtb_min_int(2 * s, NEAR - 1)].of[0],
                                    f[m][i][vtb_min_int(2 * s + 1, NEAR - 1)].of[0]};
              vtb_mma_16<HALF>(y[i], d, w);
            }
          }
      } else if constexpr (TWO) {
        VTB_UNROLL for (int i = 0; i < 2; i++) {
          vtb_ldmatrix_x4(d, from + ((r + lane % 16) * PA + lane / 16 * OTHER + 16 * pair + 8 * i));
          VTB_UNROLL for (int p = 0; p < (HALF ? 1 : 2); p++) {
            const vtb_u32 w[2] = {f[0][i][0].of[p], f[TWO ? 1 : 0][i][0].of[p]};
            vtb_mma_16<HALF>(y[i], d, w);
          }
        }
      } else {
        vtb_ldmatrix_x4(d, from + ((r + lane % 16) * PA + 16 * pair + lane / 16 * 8));
        VTB_UNROLL for (int i = 0; i < 2; i++) {
          const vtb_u32 twice[4] = {d[2 * i], d[2 * i + 1], d[2 * i], d[2 * i + 1]};
          vtb_mma_16<HALF>(y[i], twice, f[0][i][0].of);
        }
      }
      VTB_UNROLL for (int e = 0; e < 4; e += 2) {
        const int t = r + lane / 4 + 4 * e;
        const vtb_f4 four = vtb_four_of_eights(y[0][e], y[0][e + 1], y[1][e], y[1][e + 1]);
        if (t < N && x0 + x < width) put(order_of[t], x0 + x, more(four, t * PA + x));
      }
    }
  }
};
auto weigh = [&](auto of_two, auto from, auto rows, int x0, int width, auto put_weights,
                 auto put_bias) {
  constexpr bool TWO = decltype(of_two)::value;
  VTB_NO_UNROLL for (int unit = WARPS - 1 - vtb_warp(); unit < SLAB / 8 * NEAR; unit += WARPS) {
    /* eights of both factors */
    const int x = unit / NEAR * 8, other = GROUP > 8 ? x / UNIT * UNIT + unit % NEAR * 8 : x;
    if (x0 + x >= width) break;
    const auto d_of =
        from + ((lane % 8 + lane / 16 * 8) * PA + (TWO ? lane / 8 % 2 * OTHER : 0) + x);
    const auto x_of = rows + (lane % 16 * PA + other);
    const vtb_u32 one = vtb_pack<HALF>(1.0f, 1.0f), ones[2] = {one, one};
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, bias[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    VTB_NO_UNROLL for (int r = 0; r < ROWS; r += 32) { /* two tiles, or the last */
      vtb_u32 d[4], y[4];
      vtb_ldmatrix_x4_trans(y, x_of + (r + (r + 16 < ROWS ? lane / 16 * 16 : 0)) * PA);
      VTB_UNROLL for (int s = 0; s < 2; s++) {
        if (r + 16 * s >= ROWS) break;
        const vtb_u32 half[2] = {y[2 * s], y[2 * s + 1]};
        vtb_ldmatrix_x4_trans(d, d_of + (r + 16 * s) * PA);
        vtb_mma_16<HALF>(sum, d, half);
        vtb_mma_16<HALF>(bias, d, ones);
      }
    }
    const int to = x0 + x + lane / 4, of = x0 + other + 2 * (lane % 4),
              g = group_of(width) + to / GROUP;
    if (to >= width) continue;
    VTB_UNROLL for (int m = 0; m < (TWO ? 2 : 1); m++) {
      if (to / GROUP == of / GROUP)
        put_weights(m, g, to % GROUP, of % GROUP, sum[2 * m], sum[2 * m + 1]);
      if (lane % 4 == 0 && unit % NEAR == 0) put_bias(m, g, to % GROUP, bias[2 * m]);
    }
  }
};
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

auto give_values = [&]() {
  VTB_NO_UNROLL for (int slab = 0; slab < D_SLABS; slab++) {
    const int at = RESIDENT ? STAGE : arrive();
    if constexpr (V_FOLD) { /* a strip of 16 tokens a warp */
      float sum[SLAB / 8][4];
      const int x0 = slab * SLAB, first = vtb_min_int(vtb_warp(), TILES - 1);
      const auto lane_of = ring + (at + vtb_lane_across<PA, SLAB>());
      const auto tile = p_tiles + ((lane / 8 % 2 * 2 + lane / 16) * 64 + lane % 8 * 8);
      vtb_clear(sum);
      VTB_NO_UNROLL for (int i = vtb_warp() < TILES ? first : TILES; i < TILES; i++) {
        vtb_u32 x[4], y[4];
        vtb_ldmatrix_x4_trans(x, tile + 256 * tile_of(i, first));
        VTB_UNROLL for (int c = 0; c < SLAB / 8; c += 2) {
          vtb_ldmatrix_x4_trans(y, lane_of + (16 * i * PA + 8 * c));
          const vtb_u32 left[2] = {y[0], y[1]}, right[2] = {y[2], y[3]};
          vtb_mma_16<HALF>(sum[c], x, left);
          vtb_mma_16<HALF>(sum[c + 1], x, right);
        }
      }
      vtb_sync();
      if (vtb_warp() < TILES) {
        VTB_UNROLL for (int e = 0; e < 4; e += 2) {
          const int t = 16 * first + lane / 4 + 4 * e;
          VTB_UNROLL for (int c = 0; c < SLAB / 8; c++)
            vtb_store2(ring + at, t * PA + 8 * c + 2 * (lane % 4), sum[c][e] * gains[t],
                       sum[c][e + 1] * gains[t]);
        }
      }
      vtb_sync();
      back(
          vtb_flag<false>(), ring + at, x0, V,
          [&](int, int x, int y) {
            return factor_of(vtb_flag<!V_LAST_SUMMED>(), vtb_int<V>(), x, y, v_row, no_add);
          },
          as_is, put_dv);
      weigh(
          vtb_flag<false>(), ring + at, ring + at + OTHER, x0, V,
          [&](int, int g, int o, int i, float first, float second) {
            weights_of_v(g, o, i, first, second);
          },
          [&](int, int g, int o, float value) { bias_of_v(g, o, value); });
    } else {
      VTB_NO_UNROLL for (int unit = vtb_warp(); unit < HALVES * GROUPS; unit += WARPS) {
        const int side_of = unit < GROUPS ? 0 : SLAB, group = unit < GROUPS ? unit : unit - GROUPS,
                  x0 = slab * D_SLAB + side_of;
        if (x0 >= V) continue;
        take(vtb_flag<true>(), vtb_flag<true>(), p_tiles, group, ring + at + side_of);
        store(vtb_flag<DV_FOUR>(), vtb_flag<V_WHOLE>(), vtb_flag<GAIN>(), group, x0, V, put_dv,
              [&](vtb_i64 pos, int x, float value) { ${put_dv} });
      }
    }
  }
};
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
if constexpr (SUMMED) {
  vtb_sync();
  auto times_gain = [&](float v, int t) -> float {
    if constexpr (GAIN) return v * gains[t];
    return v;
  };
  const int tile = tid / 16, first = tile * 16;
  if (tid < ROWS) {
    float sum = 0.0f;
    VTB_NO_UNROLL for (int i = tile + 1; i < TILES; i++)
      sum += column_sums[tile_of(i, tile) * 16 + tid % 16];
    columns_behind[tid] = times_gain(sum, tid);
    if constexpr (GAIN) {
      VTB_NO_UNROLL for (int t = tid; t < first + 16; t++) sum += inner[t * PI + tid % 16];
      const vtb_i64 pos = order_of[tid];
      const float value = sum;
      if (tid < N) {
        ${put_gain}
      }
    }
    sum = 0.0f;
    VTB_NO_UNROLL for (int i = 0; i < (tile / 2 + 2) / 2; i++) sum += row_sums[i * ROWS + tid];
    rows_before[tid] = sum;
  }
  VTB_NO_UNROLL for (int e = tid; e < TILES * TILES; e += THREADS) {
    if (e % TILES >= e / TILES) continue;
    float sum = 0.0f;
    VTB_UNROLL for (int x = 0; x < 16; x++)
      sum += times_gain(column_sums[tile_of(e / TILES, e % TILES) * 16 + x], e % TILES * 16 + x);
    tile_sums[tile_of(e / TILES, e % TILES)] = sum;
  }
  vtb_sync();
  float total = 0.0f;
  if (DECAYS && tid < N) {
    float sum = 0.0f;
    VTB_NO_UNROLL for (int i = tile + 1; i < TILES; i++)
      VTB_NO_UNROLL for (int j = 0; j < tile; j++) sum += tile_sums[tile_of(i, j)];
    VTB_NO_UNROLL for (int t = tid; t < first + 16; t++) {
      sum += rows_before[t];
      VTB_NO_UNROLL for (int x = 0; x < tid - first; x++)
        sum += times_gain(inner[t * PI + x], first + x);
    }
    VTB_NO_UNROLL for (int x = first; x < tid; x++) sum += columns_behind[x];
    const vtb_i64 pos = order_of[tid];
    const float value = sum / decays[tid];
    total = value;
    ${put}
  }
  if (PART) {
    total = vtb_block_sum(total, WARPS, total_of);
    if (tid == 0) {
      ${put_part}
    }
  }
}

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
  const int at = RESIDENT ? 0 : arrive(), x0 = slab * SLAB;
  const auto q_rows = Q_FOLD ? back_rows : ring + at,
             k_rows = K_FOLD ? back_rows + OTHER : ring + at + OTHER;
  if constexpr (!RESIDENT) map_rows(ring + at, q_rows, k_rows, slab);
  VTB_NO_UNROLL for (int unit = vtb_warp(); unit < 2 * GROUPS; unit += WARPS) {
    if (unit < GROUPS) {
      take(vtb_flag<false>(), vtb_flag<false>(), ds_tiles, unit, k_rows);
      if constexpr (!Q_FOLD)
        store(vtb_flag<DQ_FOUR>(), vtb_flag<K_WHOLE>(), vtb_flag<false>(), unit, x0, K, put_dq,
              [&](vtb_i64 pos, int x, float value) { ${put_dq} });
    } else {
      take(vtb_flag<true>(), vtb_flag<false>(), ds_tiles, unit - GROUPS, q_rows);
      if constexpr (!K_FOLD)
        store(vtb_flag<DK_FOUR>(), vtb_flag<K_WHOLE>(), vtb_flag<false>(), unit - GROUPS, x0, K,
              put_dk, [&](vtb_i64 pos, int x, float value) { ${put_dk} });
    }
  }
  if constexpr (QK_FOLD) {
    vtb_sync();
    const int unit = vtb_warp();
    if (Q_FOLD && unit < GROUPS) keep(unit, back_rows);
    if (K_FOLD && unit >= GROUPS && unit < 2 * GROUPS) keep(unit - GROUPS, back_rows + OTHER);
    vtb_sync();
    auto queries = [&](int x, int y) {
      return factor_of(vtb_flag<!Q_LAST_SUMMED>(), vtb_int<K>(), x, y, q_row, no_add);
    };
    auto keys = [&](int x, int y) {
      return factor_of(vtb_flag<!K_LAST_SUMMED>(), vtb_int<K>(), x, y, k_row, no_add);
    };
    if constexpr (JOINT) {
      const auto begun = ring + at + OTHER;
      back(
          vtb_flag<true>(), back_rows, x0, K,
          [&](int m, int x, int y) { return m ? keys(x, y) : queries(x, y); },
          [&](vtb_f4 four, int at) -> vtb_f4 {
            if constexpr (ADDEND)
              return four + vtb_load4(begun, at);
            else
              return four;
          },
          put_dq);
      weigh(
          vtb_flag<true>(), back_rows, ring + at, x0, K,
          [&](int m, int g, int o, int i, float first, float second) {
            m ? weights_of_k(g, o, i, first, second) : weights_of_q(g, o, i, first, second);
          },
          [&](int m, int g, int o, float value) {
            m ? bias_of_k(g, o, value) : bias_of_q(g, o, value);
          });
    } else {
      if constexpr (Q_FOLD) {
        back(
            vtb_flag<false>(), back_rows, x0, K, [&](int, int x, int y) { return queries(x, y); },
            as_is, put_dq);
        weigh(
            vtb_flag<false>(), back_rows, ring + at, x0, K,
            [&](int, int g, int o, int i, float first, float second) {
              weights_of_q(g, o, i, first, second);
            },
            [&](int, int g, int o, float value) { bias_of_q(g, o, value); });
      }
      if constexpr (K_FOLD) {
        back(
            vtb_flag<false>(), back_rows + OTHER, x0, K,
            [&](int, int x, int y) { return keys(x, y); }, as_is, put_dk);
        weigh(
            vtb_flag<false>(), back_rows + OTHER, ring + at + OTHER, x0, K,
            [&](int, int g, int o, int i, float first, float second) {
              weights_of_k(g, o, i, first, second);
            },
            [&](int, int g, int o, float value) { bias_of_k(g, o, value); });
      }
    }
  }
}
vtb_cp_wait<0>();

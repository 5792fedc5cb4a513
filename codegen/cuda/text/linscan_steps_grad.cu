/* The adjoint of a linear recurrence token by token, lanes as in linscan_steps.cu. Forward once,
 * keeping the state at every segment's start; then, last segment first, the states inside a segment
 * are made again and
 *   P_t = q_t dy_t^T + D_{t+1} o P_{t+1}
 *   dq_t = S_t dy_t   dk_t = P_t v_t   dv_t = P_t^T k_t   dD_t = P_t o S_{t-1}
 * Sums over columns (dq, dk and, BY_KEY, dd) are of the block's columns, sums over keys of its tile
 * of keys; linscan_steps.c adds the blocks. */
#include "scans.cuh"
hole int N, K, V, V1;            /* V1: V and the normalizer's column */
hole int KR, GROUPS, WIDE;       /* states of a lane; warps along K, along V */
hole int KEY_TILES, THREADS;
hole int SCANS;                  /* of all directions */
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole int SEGMENT;                /* tokens */
hole bool FIRST, LATER, DFIRST;  /* S_0 and the adjoint of S_N are given, that of S_0 is asked
                                  * for */
hole bool BY_KEY, BY_VALUE;      /* decays are loaded by rows of keys; by columns of values */
hole bool RATES;
hole bool FULL;
hole expr place;                 /* of step t */
hole expr decay;                 /* of key j of the lane and token i, at pos */
hole expr decay_row, decay_value; /* at pos of key x; of column x */
hole expr rate;                  /* of key and x */
hole expr q, k, v, dy;           /* at pos of key x; of column x */
hole expr first, later;          /* of key and x */
hole code put_dq, put_dk, put_dd; /* stores value at pos of key x */
hole code put_dv, put_dstep;     /* stores value, value_d at pos of column x < V */
hole code put_first, put_first_n; /* stores s of key and x; of the normalizer's column */
hole code put_rate, put_full;    /* stores s of key and x; value at pos, too */
constexpr int KP = KR * GROUPS, WARPS = GROUPS * WIDE,
              V_BLOCKS = (V1 + 32 * WIDE - 1) / (32 * WIDE);
constexpr int BLOCKS = V_BLOCKS * KEY_TILES, SEGMENTS = (N + SEGMENT - 1) / SEGMENT,
              LANES = 32 * WIDE;
constexpr int N_SUMS = BY_KEY ? 3 : 2, N_STEPS = BY_VALUE ? 2 : 1;
require THREADS == 32 * WARPS;
cost issue = WARPS * N * (34 * KR);
cost special = RATES ? 32 * WARPS * N * 3 * KR : 0;
cost chain = 120 * N;
cost registers = 136;
shared float decays[BY_KEY ? SEGMENT * KP : 0];
shared float keys[SEGMENT * KP], queries[SEGMENT * KP];
shared float parts[GROUPS > 1 ? 2 * GROUPS * SEGMENT * 32 : 0];
shared float history[SEGMENT * KP * LANES];
shared float rows[(1 + N_STEPS) * SEGMENT * 32 * WARPS];
shared float sums[WIDE * N_SUMS * SEGMENT * KP];
const int scan = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int block = unit % V_BLOCKS, key_tile = unit / V_BLOCKS, lane = vtb_lane();
const int group = vtb_warp() % GROUPS, wide = vtb_warp() / GROUPS,
          x = (block * WIDE + wide) * 32 + lane;
/* own: of the tile's keys */
const int tile_key = key_tile * KP, own0 = group * KR, key0 = tile_key + own0;
const int n_keys = KEY_TILES == 1 ? K : vtb_min_int(K - tile_key, KP), column = wide * 32 + lane;
const bool real = x < V1;
auto place = [&](int t) -> int { return ${place}; };
/* of parts: of sums over columns, row x of width K; of sums over keys, column x of width V */
auto key_part = [&](int which, int t, int x) -> vtb_i64 {
  return ((((vtb_i64)block * N_SUMS + which) * SCANS + scan) * N + t) * K + x;
};
auto value_part = [&](int which, int t) -> vtb_i64 {
  return ((((vtb_i64)key_tile * N_STEPS + which) * SCANS + scan) * N + t) * V + x;
};
auto q_at = [&](vtb_i64 pos, int own) -> float {
  const int x = tile_key + own;
  return ${q};
};
auto k_at = [&](vtb_i64 pos, int own) -> float {
  const int x = tile_key + own;
  return ${k};
};
auto v_at = [&](vtb_i64 pos) -> float { return ${v}; };
auto dy_at = [&](vtb_i64 pos) -> float { return ${dy}; };
auto decay_row = [&](vtb_i64 pos, int own) -> float {
  const int x = tile_key + own;
  return ${decay_row};
};
auto decay_value = [&](vtb_i64 pos) -> float { return ${decay_value}; };

float state[KR], rate[KR], drate[KR];
VTB_UNROLL for (int j = 0; j < KR; j++) {
  const int key = key0 + j;
  state[j] = rate[j] = drate[j] = 0.0f;
  if (FIRST && real && key < K) state[j] = ${first};
  if (RATES && real && key < K) rate[j] = 1.4426950408889634f * ${rate};
}
/* The lane's v, dy and step sizes of the segment lie in shared memory too: loops over tokens stay
 * loops. */
auto row = [&](int which, int i) -> int {
  return (which * SEGMENT + i) * (32 * WARPS) + vtb_tid();
};
int t0 = 0, n = 0;
auto load = [&](int segment, bool backward) {
  t0 = segment * SEGMENT;
  n = vtb_min_int(N - t0, SEGMENT);
  vtb_sync();
  vtb_fill_rows<SEGMENT, KP, KP, WARPS>(
      keys, n, n_keys, [&](int i) { return place(t0 + i); }, k_at);
  if (BY_KEY)
    vtb_fill_rows<SEGMENT, KP, KP, WARPS>(
        decays, n, n_keys, [&](int i) { return place(t0 + i); }, decay_row);
  if (backward)
    vtb_fill_rows<SEGMENT, KP, KP, WARPS>(
        queries, n, n_keys, [&](int i) { return place(t0 + i); }, q_at);
  VTB_UNROLL for (int i = 0; i < SEGMENT; i++) {
    const vtb_i64 pos = place(t0 + (i < n ? i : 0));
    rows[row(0, i)] = i < n && real ? v_at(pos) : 0.0f;
    if (BY_VALUE) rows[row(2, i)] = i < n && real ? decay_value(pos) : 1.0f;
    if (backward) rows[row(1, i)] = i < n && real ? dy_at(pos) : 0.0f;
  }
  vtb_sync();
};
auto decay_of = [&](int i, int j, float step) -> float {
  const int at = i * KP + own0 + j, key = key0 + j;
  const vtb_i64 pos = place(t0 + i);
  return ${decay};
};
auto advance = [&](int i) {
  const float v = rows[row(0, i)], step = BY_VALUE ? rows[row(2, i)] : 1.0f;
  float k_row[KR];
  vtb_load_row(k_row, keys, i * KP + own0);
  VTB_UNROLL for (int j = 0; j < KR; j++) state[j] = decay_of(i, j, step) * state[j] + k_row[j] * v;
};
auto start_of = [&](int segment, int j) -> vtb_i64 {
  return (((vtb_i64)scan * SEGMENTS + segment) * K + key0 + j) * V1 + x;
};

for (int segment = 0; segment < SEGMENTS; segment++) {
  if (real) {
    VTB_UNROLL for (int j = 0; j < KR; j++)
      if (key0 + j < K) starts[start_of(segment, j)] = state[j];
  }
  if (segment == SEGMENTS - 1) break;
  load(segment, false);
  VTB_NO_UNROLL for (int i = 0; i < SEGMENT; i++) advance(i);
}

float carry[KR]; /* D_{t+1} o P_{t+1} */
VTB_UNROLL for (int j = 0; j < KR; j++) {
  const int key = key0 + j;
  carry[j] = 0.0f;
  if (LATER && real && key < K) carry[j] = ${later};
}
for (int segment = SEGMENTS - 1; segment >= 0; segment--) {
  load(segment, true);
  VTB_UNROLL for (int j = 0; j < KR; j++) {
    if (segment < SEGMENTS - 1)
      state[j] = real && key0 + j < K ? starts[start_of(segment, j)] : 0.0f;
  }
  VTB_NO_UNROLL for (int i = 0; i < n; i++) { /* history: the states before each token */
    VTB_UNROLL for (int j = 0; j < KR; j++)
      history[(i * KP + own0 + j) * LANES + column] = state[j];
    advance(i);
  }
  auto put = [&](int i, float value, float value_d) {
    if (real) {
      const vtb_i64 pos = place(t0 + i);
      if (x < V) {
        ${put_dv}
        ${put_dstep}
      }
    }
  };
  VTB_NO_UNROLL for (int i = n - 1; i >= 0; i--) {
    const float v = rows[row(0, i)], dy = rows[row(1, i)], step = BY_VALUE ? rows[row(2, i)] : 1.0f;
    float dv = 0.0f, dstep = 0.0f;
    const vtb_i64 pos = place(t0 + i);
    float to_q[KR], to_k[KR], to_d[KR], k_row[KR], q_row[KR];
    vtb_load_row(k_row, keys, i * KP + own0);
    vtb_load_row(q_row, queries, i * KP + own0);
    VTB_UNROLL for (int j = 0; j < KR; j++) {
      const int key = key0 + j;
      const float p = carry[j] + q_row[j] * dy, decay = decay_of(i, j, step);
      to_q[j] = state[j] * dy;
      state[j] = history[(i * KP + own0 + j) * LANES + column];
      to_k[j] = p * v;
      to_d[j] = p * state[j];
      dv += p * k_row[j];
      if (RATES) {
        const float dlog = to_d[j] * decay;
        dstep += dlog * (rate[j] * 0.6931471805599453f);
        drate[j] += dlog * step;
      } else if (BY_VALUE) {
        dstep += to_d[j];
      } else if (FULL && real && key < K) {
        const float value = to_d[j];
        ${put_full}
      }
      carry[j] = decay * p;
    }
    if constexpr (GROUPS == 1) {
      put(i, dv, dstep);
    } else {
      parts[(group * SEGMENT + i) * 32 + lane] = dv;
      if (BY_VALUE) parts[((GROUPS + group) * SEGMENT + i) * 32 + lane] = dstep;
    }
    vtb_lane_sums(to_q);
    vtb_lane_sums(to_k);
    if (BY_KEY) vtb_lane_sums(to_d);
    if (lane < KR) {
      sums[((wide * N_SUMS + 0) * SEGMENT + i) * KP + own0 + lane] = to_q[0];
      sums[((wide * N_SUMS + 1) * SEGMENT + i) * KP + own0 + lane] = to_k[0];
      if (BY_KEY) sums[((wide * N_SUMS + N_SUMS - 1) * SEGMENT + i) * KP + own0 + lane] = to_d[0];
    }
  }
  vtb_sync();
  if constexpr (GROUPS > 1) {
    for (int i = group; i < n; i += GROUPS) {
      float value = 0.0f, value_d = 0.0f;
      for (int g = 0; g < GROUPS; g++) {
        value += parts[(g * SEGMENT + i) * 32 + lane];
        if (BY_VALUE) value_d += parts[((GROUPS + g) * SEGMENT + i) * 32 + lane];
      }
      put(i, value, value_d);
    }
  }
  for (int i = vtb_tid(); i < N_SUMS * n * n_keys; i += 32 * WARPS) {
    const int which = i / (n * n_keys), token = i / n_keys % n, own = i % n_keys,
              x = tile_key + own;
    const vtb_i64 pos = place(t0 + token);
    float value = 0.0f;
    for (int w = 0; w < WIDE; w++)
      value += sums[((w * N_SUMS + which) * SEGMENT + token) * KP + own];
    if (which == 0) {
      ${put_dq}
    } else if (which == 1) {
      ${put_dk}
    } else {
      ${put_dd}
    }
  }
}
if (real) {
  VTB_UNROLL for (int j = 0; j < KR; j++) {
    const int key = key0 + j;
    if (key < K) {
      if (DFIRST) {
        const float s = carry[j];
        if (x < V) {
          ${put_first}
        } else {
          ${put_first_n}
        }
      }
      if (RATES) {
        const float s = drate[j];
        ${put_rate}
      }
    }
  }
}

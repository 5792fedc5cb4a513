/* The adjoint of a linear recurrence of class rates, in a body (linscan_body.c), as
 * linscan_steps_grad.cu:
 *   P_t = q_t dy_t^T + D_{t+1} o P_{t+1}
 *   dq_t = S_t dy_t   dk_t = P_t v_t   dv_t = P_t^T k_t   dlog D_t = P_t o D_t o S_{t-1}
 * but a warp owns 32 columns of V and 16 keys, a lane 4 keys of 4 columns: sums over columns and
 * over keys begin in the lane and end in 13 shuffles a token; of more keys each 16 are another
 * warp's (part), whose sums over keys are added behind the segment. Forward once, keeping the state
 * at every segment's start; then, last segment first, the states inside it are made again into
 * shared memory. What v, steps and dy are computed of is read by lanes along columns, as are the
 * results. Sums over tokens of what is behind them are added a sequence at a time. */
#include "scans.cuh"
hole int N, K, V;
hole int WIDE, PARTS, SEGMENT, THREADS; /* warps along columns, along keys; tokens */
hole int SCANS;                  /* of all directions */
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole int SUMS;                   /* sums over tokens */
hole expr place;                 /* of step t */
hole code q, k;                  /* return the number at pos of key x */
hole code values, given;         /* set input, step; and dy at pos of column x */
hole code rate;                  /* returns the rate of key and x */
hole code put;                   /* stores what is behind d_input, d_step at pos of column x, adds
                                  * to total */
hole code put_dq, put_dk;        /* store value at pos of key x */
hole code put_rate, put_totals;  /* store s of key and x; total of column x */
constexpr int KP = 16, COLUMNS = 32 * WIDE, BLOCKS = (V + COLUMNS - 1) / COLUMNS;
constexpr int LANES = COLUMNS * PARTS, WARPS = WIDE * PARTS, KEYS = KP * PARTS,
              OWN_KEYS = SEGMENT * KP;
constexpr int SEGMENTS = (N + SEGMENT - 1) / SEGMENT, TURNS = (SEGMENT + PARTS - 1) / PARTS;
require THREADS == LANES && K <= KEYS;
cost issue = WARPS * N * (420 + 960 / SEGMENT);
cost special = WARPS * 32 * N * 3 * KP;
cost chain = 150 * N;
cost registers = 125;
shared float keys[SEGMENT * KEYS], queries[SEGMENT * KEYS];
shared float rows[3 * SEGMENT * COLUMNS]; /* v, steps, dy */
shared float back[2 * SEGMENT * LANES];   /* adjoints of v and of steps, of the part's keys */
shared float history[SEGMENT * LANES * KP];
shared float sums[2 * WARPS * OWN_KEYS];
const int scan = vtb_block() / BLOCKS, block = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int tid = vtb_tid(), lane = vtb_lane(), warp = vtb_warp(), part = warp / WIDE,
          own0 = lane % 4 * 4;
const int key0 = part * KP + own0, column0 = warp % WIDE * 32 + lane / 4 * 4,
          column = tid % COLUMNS;
auto place = [&](int t) -> int { return ${place}; };
auto part_at = [&](int which, int t, int x) -> vtb_i64 {
  return ((((vtb_i64)block * 2 + which) * SCANS + scan) * N + t) * K + x;
};
auto q_at = [&](vtb_i64 pos, int x) -> float { ${q} };
auto k_at = [&](vtb_i64 pos, int x) -> float { ${k} };
auto rate_of = [&](int key, int x) -> float { ${rate} };
auto values = [&](vtb_i64 pos, int x, float &input, float &step) { ${values} };
auto given = [&](vtb_i64 pos, int x, float &input, float &step, float &dy) { ${given} };
auto row = [&](int which, int i) -> int { return (which * SEGMENT + i) * COLUMNS; };

float state[4][4], rate[4][4], drate[4][4]; /* of column c and key j of the lane */
VTB_UNROLL for (int c = 0; c < 4; c++) {
  VTB_UNROLL for (int j = 0; j < 4; j++) {
    const int key = key0 + j, x = block * COLUMNS + column0 + c;
    state[c][j] = drate[c][j] = rate[c][j] = 0.0f;
    if (key < K && x < V) rate[c][j] = 1.4426950408889634f * rate_of(key, x);
  }
}
float total[SUMS];
VTB_UNROLL for (int i = 0; i < SUMS; i++) total[i] = 0.0f;
int t0 = 0, n = 0;
auto load = [&](int segment, bool backward) {
  t0 = segment * SEGMENT;
  n = vtb_min_int(N - t0, SEGMENT);
  vtb_fill_rows<SEGMENT, KEYS, KEYS, WARPS>(keys, n, K, [&](int i) { return place(t0 + i); }, k_at);
  if (backward)
    vtb_fill_rows<SEGMENT, KEYS, KEYS, WARPS>(
        queries, n, K, [&](int i) { return place(t0 + i); }, q_at);
  const int x = block * COLUMNS + column;
  VTB_UNROLL for (int turn = 0; turn < TURNS; turn++) {
    const int i = turn * PARTS + part;
    if (SEGMENT % PARTS != 0 && i >= SEGMENT) break;
    float input = 0.0f, step = 0.0f, dy = 0.0f;
    if (i < n && x < V) {
      if (backward)
        given(place(t0 + i), x, input, step, dy);
      else
        values(place(t0 + i), x, input, step);
    }
    rows[row(0, i) + column] = input;
    rows[row(1, i) + column] = step;
    if (backward) rows[row(2, i) + column] = dy;
  }
  vtb_sync();
};
auto advance = [&](int i) {
  float k_row[4], v[4], step[4];
  vtb_load_row(k_row, keys, i * KEYS + key0);
  vtb_load_row(v, rows, row(0, i) + column0);
  vtb_load_row(step, rows, row(1, i) + column0);
  VTB_UNROLL for (int c = 0; c < 4; c++)
    VTB_UNROLL for (int j = 0; j < 4; j++)
      state[c][j] = vtb_exp2_fast(step[c] * rate[c][j]) * state[c][j] + k_row[j] * v[c];
};
auto put_states = [&](auto to, vtb_i64 at) {
  VTB_UNROLL for (int c = 0; c < 4; c++) {
    const vtb_f4 four = {state[c][0], state[c][1], state[c][2], state[c][3]};
    vtb_store4(to, at + (c * 32 + lane) * 4, four);
  }
};
auto get_states = [&](auto from, vtb_i64 at, int c) {
  const vtb_f4 four = vtb_load4(from, at + (c * 32 + lane) * 4);
  state[c][0] = four.x;
  state[c][1] = four.y;
  state[c][2] = four.z;
  state[c][3] = four.w;
};
/* the first starts from nothing */
auto start_of = [&](int segment) -> vtb_i64 {
  return (((vtb_i64)scan * (SEGMENTS - 1) + segment - 1) * BLOCKS + block) * (LANES * KP) +
         warp * (32 * KP);
};

for (int segment = 0; segment < SEGMENTS - 1; segment++) {
  load(segment, false);
  VTB_NO_UNROLL for (int i = 0; i < SEGMENT; i++) advance(i);
  put_states(starts, start_of(segment + 1));
  vtb_sync();
}

float carry[4][4]; /* D_{t+1} o P_{t+1} */
VTB_UNROLL for (int c = 0; c < 4; c++) VTB_UNROLL for (int j = 0; j < 4; j++) carry[c][j] = 0.0f;
for (int segment = SEGMENTS - 1; segment >= 0; segment--) {
  load(segment, true);
  VTB_UNROLL for (int c = 0; c < 4; c++) {
    VTB_UNROLL for (int j = 0; j < 4; j++) state[c][j] = 0.0f;
    if (segment > 0) get_states(starts, start_of(segment), c);
  }
  VTB_NO_UNROLL for (int i = 0; i < n; i++) { /* history: the states before each token */
    put_states(history, (i * WARPS + warp) * (32 * KP));
    advance(i);
  }
  VTB_NO_UNROLL for (int i = n - 1; i >= 0; i--) {
    /* to q, then k; to v, then steps */
    float q_row[4], k_row[4], v[4], step[4], dy[4], to_keys[8], to_values[8];
    vtb_load_row(q_row, queries, i * KEYS + key0);
    vtb_load_row(k_row, keys, i * KEYS + key0);
    vtb_load_row(v, rows, row(0, i) + column0);
    vtb_load_row(step, rows, row(1, i) + column0);
    vtb_load_row(dy, rows, row(2, i) + column0);
    VTB_UNROLL for (int j = 0; j < 8; j++) to_keys[j] = to_values[j] = 0.0f;
    VTB_UNROLL for (int c = 0; c < 4; c++) {
      VTB_UNROLL for (int j = 0; j < 4; j++) to_keys[j] += state[c][j] * dy[c];
      get_states(history, (i * WARPS + warp) * (32 * KP), c);
      VTB_UNROLL for (int j = 0; j < 4; j++) {
        const float p = carry[c][j] + q_row[j] * dy[c];
        carry[c][j] = vtb_exp2_fast(step[c] * rate[c][j]) * p;
        const float dlog = carry[c][j] * state[c][j];
        to_keys[4 + j] += p * v[c];
        to_values[c] += p * k_row[j];
        to_values[4 + c] += dlog * rate[c][j];
        drate[c][j] += dlog * step[c];
      }
    }
    /* Each exchange halves what is left: lanes of 4 keys, then of 4 columns. */
    VTB_UNROLL for (int half = 4; half >= 1; half /= 2) {
      const bool upper = lane & 4 * half;
      VTB_UNROLL for (int j = 0; j < 4; j++) {
        if (j >= half) break;
        const float sent = upper ? to_keys[j] : to_keys[j + half],
                    kept = upper ? to_keys[j + half] : to_keys[j];
        to_keys[j] = kept + vtb_shfl_xor(sent, 4 * half);
      }
    }
    VTB_UNROLL for (int half = 2; half >= 1; half /= 2) {
      const bool upper = lane & half;
      VTB_UNROLL for (int j = 0; j < 4; j++) {
        if (j >= 2 * half) break;
        const float sent = upper ? to_values[j] : to_values[j + 2 * half];
        const float kept = upper ? to_values[j + 2 * half] : to_values[j];
        to_values[j] = kept + vtb_shfl_xor(sent, half);
      }
    }
    const int which = lane / 16, key = own0 + lane / 4 % 4, pair = column0 + lane % 2 * 2;
    sums[(warp * 2 + which) * OWN_KEYS + i * KP + key] = to_keys[0];
    const float scale = lane & 2 ? 0.6931471805599453f : 1.0f;
    const int at = ((lane & 2 ? SEGMENT : 0) + i) * LANES + part * COLUMNS + pair;
    back[at] = scale * to_values[0];
    back[at + 1] = scale * to_values[1];
  }
  vtb_sync();
  for (int i = vtb_tid(); i < 2 * n * K; i += LANES) {
    const int which = i / (n * K), token = i / K % n, x = i % K;
    const vtb_i64 pos = place(t0 + token);
    float value = 0.0f;
    for (int w = 0; w < WIDE; w++)
      value += sums[((x / KP * WIDE + w) * 2 + which) * OWN_KEYS + token * KP + x % KP];
    if (which == 0) {
      ${put_dq}
    } else {
      ${put_dk}
    }
  }
  const int x = block * COLUMNS + column;
  VTB_UNROLL for (int turn = 0; turn < TURNS; turn++) {
    const int i = turn * PARTS + part;
    if (i >= n || x >= V) break;
    const vtb_i64 pos = place(t0 + i);
    const float step = rows[row(1, i) + column], dy = rows[row(2, i) + column];
    float d_input = 0.0f, d_step = 0.0f;
    VTB_UNROLL for (int p = 0; p < PARTS; p++) {
      d_input += back[i * LANES + p * COLUMNS + column];
      d_step += back[(SEGMENT + i) * LANES + p * COLUMNS + column];
    }
    ${put}
  }
  vtb_sync();
}
VTB_UNROLL for (int c = 0; c < 4; c++) {
  VTB_UNROLL for (int j = 0; j < 4; j++) {
    const int key = key0 + j, x = block * COLUMNS + column0 + c;
    const float s = drate[c][j];
    if (key < K && x < V) {
      ${put_rate}
    }
  }
}
if constexpr (PARTS > 1) {
  VTB_UNROLL for (int i = 0; i < SUMS; i++) history[i * LANES + tid] = total[i];
  vtb_sync();
  VTB_UNROLL for (int p = 1; p < PARTS; p++)
    VTB_UNROLL for (int i = 0; i < SUMS && part == 0; i++)
      total[i] += history[i * LANES + p * COLUMNS + column];
}
const int x = block * COLUMNS + column;
if (x < V && part == 0) {
  ${put_totals}
}

/* The adjoint of a linear recurrence of class rates with up to 16 keys, in a body (linscan_body.c), as
 * linscan_rates_grad.cu, where factors round to 16 bits: a lane owns a column and its 16 keys, so that sums over keys are
 * its own. Steps, decays and the two recurrences are fp32; what is multiplied into results is pairs of 16 bits (keys 2j and
 * 2j + 1), as are states inside a segment. Sums over the 32 columns of a warp are two products of matrices a token: of
 * selectors by the lanes' numbers, which adds up lanes of four, and of that by ones in the token's column. */
#include "products.cuh"
#include "scans.cuh"
hole int N, K, V;
hole int WIDE, SEGMENT, THREADS; /* warps; tokens */
hole int SCANS;                  /* of all directions */
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole int SUMS;                   /* sums over tokens */
hole bool GIVEN;                 /* the forward scan has left the states at the segments' starts */
hole expr place;                 /* of step t */
hole code q, k;                  /* return the number at pos of key x */
hole code values, given;         /* set input, step; and dy at pos of column x */
hole code put_start, get_start;  /* of a segment: stores pairs; sets state and, pairs of it, now */
hole code rate;                  /* returns the rate of key and x */
hole code put;                   /* stores what is behind d_input, d_step at pos of column x, adds to total */
hole code put_dq, put_dk;        /* store value at pos of key x */
hole code put_rate, put_totals;  /* store s of key and x; total of column x */
constexpr int KP = 16, PAIRS = KP / 2, COLUMNS = 32 * WIDE, BLOCKS = (V + COLUMNS - 1) / COLUMNS;
constexpr int SEGMENTS = (N + SEGMENT - 1) / SEGMENT, ROW_KEYS = SEGMENT * KP;
require THREADS == COLUMNS && K <= 16 && SEGMENT == 8;
cost issue = WIDE * N * (GIVEN ? 372 : 466);
cost special = WIDE * 32 * N * (GIVEN ? 2 : 3) * KP;
cost tensor = WIDE * N * 40960;
cost chain = 200 * N;
cost registers = 132;
shared float keys[ROW_KEYS], queries[ROW_KEYS], key_pairs[ROW_KEYS / 2];
shared float rows[3 * SEGMENT * COLUMNS]; /* v, steps, dy */
shared float drates[KP * COLUMNS], rate_pairs[PAIRS * COLUMNS];
shared float history[SEGMENT * PAIRS * COLUMNS];
shared float sums[2 * WIDE * ROW_KEYS] over history; /* when a segment's states have been read */
const int scan = vtb_block() / BLOCKS, block = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int tid = vtb_tid(), lane = vtb_lane(), warp = vtb_warp(), x = block * COLUMNS + tid;
const bool real = V % COLUMNS == 0 || x < V;
const int near = real ? x : V - 1; /* what is loaded where there is no column */
auto place = [&](int t) -> int { return ${place}; };
auto part_at = [&](int which, int t, int x) -> vtb_i64 {
  return ((((vtb_i64)block * 2 + which) * SCANS + scan) * N + t) * K + x;
};
auto q_at = [&](vtb_i64 pos, int x) -> float { ${q} };
auto k_at = [&](vtb_i64 pos, int x) -> float { ${k} };
auto rate_of = [&](int key, int x) -> float { ${rate} };
auto values = [&](vtb_i64 pos, int x, float &input, float &step) { ${values} };
auto given = [&](vtb_i64 pos, int x, float &input, float &step, float &dy) { ${given} };

float state[KP], rate[KP];
VTB_UNROLL for (int j = 0; j < KP; j++) {
  state[j] = rate[j] = 0.0f;
  if (j < K && real) rate[j] = 1.4426950408889634f * rate_of(j, x);
}
VTB_UNROLL for (int j = 0; j < PAIRS; j += 4) {
  const vtb_f4 four = {vtb_float(vtb_pack_bf16(rate[2 * j], rate[2 * j + 1])),
                       vtb_float(vtb_pack_bf16(rate[2 * j + 2], rate[2 * j + 3])),
                       vtb_float(vtb_pack_bf16(rate[2 * j + 4], rate[2 * j + 5])),
                       vtb_float(vtb_pack_bf16(rate[2 * j + 6], rate[2 * j + 7]))};
  vtb_store4(rate_pairs, (j / 4 * COLUMNS + tid) * 4, four);
}
VTB_UNROLL for (int j = 0; j < KP; j += 4) vtb_store4(drates, (j / 4 * COLUMNS + tid) * 4, vtb_splat(0.0f));
float total[SUMS];
VTB_UNROLL for (int i = 0; i < SUMS; i++) total[i] = 0.0f;
int t0 = 0, n = 0;
auto load_keys = [&](bool backward) {
  VTB_UNROLL for (int e0 = 0; e0 < ROW_KEYS; e0 += COLUMNS) {
    const int e = e0 + tid, i = e / KP, key = e % KP;
    const bool mine = ROW_KEYS % COLUMNS == 0 || e < ROW_KEYS, there = mine && i < n && key < K;
    const vtb_i64 pos = place(vtb_min_int(t0 + i, N - 1));
    const int near_key = K == KP ? key : vtb_min_int(key, K - 1);
    const float k = k_at(pos, near_key), own = there ? k : 0.0f;
    if (mine) keys[e] = own;
    if (backward) {
      const float q = q_at(pos, near_key), next = vtb_shfl_xor(own, 1);
      if (mine) queries[e] = there ? q : 0.0f;
      if (mine && e % 2 == 0) key_pairs[e / 2] = vtb_float(vtb_pack_bf16(own, next));
    }
  }
};
auto advance = [&](int i, float v, float step) {
  VTB_UNROLL for (int j = 0; j < KP; j += 4) {
    float k_row[4];
    vtb_load_row(k_row, keys, i * KP + j);
    VTB_UNROLL for (int e = 0; e < 4; e++)
      state[j + e] = vtb_exp2_fast(step * rate[j + e]) * state[j + e] + k_row[e] * v;
  }
};
auto pack_state = [&](vtb_u32 (&to)[PAIRS]) {
  VTB_UNROLL for (int j = 0; j < PAIRS; j++) to[j] = vtb_pack_bf16(state[2 * j], state[2 * j + 1]);
};
/* Four pairs of each half stand together: 16 bytes a lane. */
auto put_pairs = [&](auto to, vtb_i64 at, const vtb_u32 (&pairs)[PAIRS]) {
  VTB_UNROLL for (int j = 0; j < PAIRS; j += 4) {
    const vtb_f4 four = {vtb_float(pairs[j]), vtb_float(pairs[j + 1]), vtb_float(pairs[j + 2]), vtb_float(pairs[j + 3])};
    vtb_store4(to, at + (j / 4 * COLUMNS + tid) * 4, four);
  }
};
auto get_pairs = [&](auto from, vtb_i64 at, vtb_u32 (&pairs)[PAIRS]) {
  VTB_UNROLL for (int j = 0; j < PAIRS; j += 4) {
    const vtb_f4 four = vtb_load4(from, at + (j / 4 * COLUMNS + tid) * 4);
    pairs[j] = vtb_bits(four.x);
    pairs[j + 1] = vtb_bits(four.y);
    pairs[j + 2] = vtb_bits(four.z);
    pairs[j + 3] = vtb_bits(four.w);
  }
};
auto low_of = [&](vtb_u32 pair) -> float { return vtb_float(pair << 16); };
auto high_of = [&](vtb_u32 pair) -> float { return vtb_float(pair & 0xffff0000u); };
auto unpack_state = [&](const vtb_u32 (&from)[PAIRS]) {
  VTB_UNROLL for (int j = 0; j < PAIRS; j++) {
    state[2 * j] = low_of(from[j]);
    state[2 * j + 1] = high_of(from[j]);
  }
};
auto get_given = [&](auto from, int segment) { /* as linscan_steps.cu has left them */
  const vtb_i64 first = (((vtb_i64)b * HEADS + h) * (SEGMENTS - 1) + segment - 1) * (K / 4);
  VTB_UNROLL for (int j = 0; j < KP; j += 4) {
    if (j >= K) break;
    const vtb_f4 four = vtb_load4(from, ((first + j / 4) * V + near) * 4);
    state[j] = four.x;
    state[j + 1] = four.y;
    state[j + 2] = four.z;
    state[j + 3] = four.w;
  }
};
auto start_of = [&](int segment) -> vtb_i64 { /* the first starts from nothing */
  return (((vtb_i64)scan * (SEGMENTS - 1) + segment - 1) * BLOCKS + block) * (COLUMNS * PAIRS);
};

for (int segment = 0; segment < (GIVEN ? 0 : SEGMENTS - 1); segment++) {
  t0 = segment * SEGMENT;
  n = SEGMENT;
  float inputs[SEGMENT], steps[SEGMENT];
  load_keys(false);
  VTB_UNROLL for (int i = 0; i < SEGMENT; i++) {
    inputs[i] = steps[i] = 0.0f;
    values(place(t0 + i), near, inputs[i], steps[i]);
    if (!real) inputs[i] = 0.0f;
  }
  vtb_sync();
  VTB_UNROLL for (int i = 0; i < SEGMENT; i++) advance(i, inputs[i], steps[i]);
  vtb_u32 pairs[PAIRS];
  pack_state(pairs);
  ${put_start}
  vtb_sync();
}

/* Rows of the first product are the sums of lanes' four numbers over lanes of four: each four times, a column for four
 * lanes. What the second adds up over the columns are, row by row, the sums of all 16. */
const int g = lane / 4;
const vtb_u32 select_first = g % 4 == 0 ? 0x3f80u : g % 4 == 1 ? 0x3f800000u : 0u;
const vtb_u32 select_second = g % 4 == 2 ? 0x3f80u : g % 4 == 3 ? 0x3f800000u : 0u;
const vtb_u32 selectors[4] = {select_first, select_first, select_second, select_second};
auto sum_columns = [&](float (&to)[4], const vtb_u32 (&numbers)[PAIRS], vtb_u32 chosen) {
  vtb_u32 a[4];
  VTB_UNROLL for (int j = 0; j < 2; j++) {
    float d[2][4];
    vtb_clear(d);
    VTB_UNROLL for (int i = 0; i < 2; i++) {
      const vtb_u32 four[2] = {numbers[4 * j + 2 * i], numbers[4 * j + 2 * i + 1]};
      vtb_mma_bf16_m16n8k16(d[i], selectors, four);
    }
    a[j] = vtb_bits(g < 4 ? d[0][0] : d[1][0]);
    a[2 + j] = vtb_bits(g < 4 ? d[0][1] : d[1][1]);
  }
  const vtb_u32 ones[2] = {chosen, chosen};
  vtb_mma_tf32_m16n8k8(to, a, ones);
};

float carry[KP]; /* D_{t+1} o P_{t+1} */
VTB_UNROLL for (int j = 0; j < KP; j++) carry[j] = 0.0f;
for (int segment = SEGMENTS - 1; segment >= 0; segment--) {
  t0 = segment * SEGMENT;
  n = vtb_min_int(N - t0, SEGMENT);
  load_keys(true);
  VTB_UNROLL for (int i = 0; i < SEGMENT; i++) {
    float input = 0.0f, step = 0.0f, dy = 0.0f;
    given(place(N % SEGMENT == 0 ? t0 + i : vtb_min_int(t0 + i, N - 1)), near, input, step, dy);
    rows[i * COLUMNS + tid] = real ? input : 0.0f;
    rows[(SEGMENT + i) * COLUMNS + tid] = step;
    rows[(2 * SEGMENT + i) * COLUMNS + tid] = real ? dy : 0.0f;
  }
  vtb_u32 now[PAIRS], drate_pairs[PAIRS];
  VTB_UNROLL for (int j = 0; j < PAIRS; j++) {
    now[j] = drate_pairs[j] = 0u;
    state[2 * j] = state[2 * j + 1] = 0.0f;
  }
  if (segment > 0) {
    ${get_start}
  }
  vtb_sync();
  VTB_NO_UNROLL for (int i = 0; i < n; i++) { /* history: the states before each token */
    put_pairs(history, i * (PAIRS * COLUMNS), now);
    advance(i, rows[i * COLUMNS + tid], rows[(SEGMENT + i) * COLUMNS + tid]);
    pack_state(now);
  }
  float to_q[4] = {0.0f, 0.0f, 0.0f, 0.0f}, to_k[4] = {0.0f, 0.0f, 0.0f, 0.0f}; /* of all tokens */
  VTB_NO_UNROLL for (int i = n - 1; i >= 0; i--) {
    const float v = rows[i * COLUMNS + tid], step = rows[(SEGMENT + i) * COLUMNS + tid];
    const float dy = rows[(2 * SEGMENT + i) * COLUMNS + tid];
    const vtb_u32 dy_pair = vtb_pack_bf16(dy, dy), v_pair = vtb_pack_bf16(v, v), step_pair = vtb_pack_bf16(step, step);
    const vtb_u32 chosen = g == i ? 0x3f800000u : 0u;
    vtb_u32 terms[PAIRS], to_v[2] = {0u, 0u}, to_step[2] = {0u, 0u};
    VTB_UNROLL for (int j = 0; j < PAIRS; j++) terms[j] = vtb_multiply_bf16(now[j], dy_pair);
    sum_columns(to_q, terms, chosen);
    get_pairs(history, i * (PAIRS * COLUMNS), now);
    VTB_UNROLL for (int j = 0; j < PAIRS; j += 4) {
      float k_row[4], rate_row[4];
      vtb_load_row(k_row, key_pairs, i * PAIRS + j);
      vtb_load_row(rate_row, rate_pairs, (j / 4 * COLUMNS + tid) * 4);
      VTB_UNROLL for (int e = 0; e < 4; e += 2) {
        float q_row[4];
        vtb_load_row(q_row, queries, i * KP + 2 * (j + e));
        VTB_UNROLL for (int f = 0; f < 2; f++) {
          const int pair = j + e + f, key = 2 * pair;
          const float p0 = carry[key] + q_row[2 * f] * dy, p1 = carry[key + 1] + q_row[2 * f + 1] * dy;
          const vtb_u32 p = vtb_pack_bf16(p0, p1);
          carry[key] = vtb_exp2_fast(step * rate[key]) * p0;
          carry[key + 1] = vtb_exp2_fast(step * rate[key + 1]) * p1;
          const vtb_u32 dlog = vtb_multiply_bf16(vtb_pack_bf16(carry[key], carry[key + 1]), now[pair]);
          terms[pair] = vtb_multiply_bf16(p, v_pair);
          to_v[f] = vtb_fma_bf16(p, vtb_bits(k_row[e + f]), to_v[f]);
          to_step[f] = vtb_fma_bf16(dlog, vtb_bits(rate_row[e + f]), to_step[f]);
          drate_pairs[pair] = vtb_fma_bf16(dlog, step_pair, drate_pairs[pair]);
        }
      }
    }
    sum_columns(to_k, terms, chosen);
    if (real) {
      const vtb_i64 pos = place(t0 + i);
      const vtb_u32 ones = 0x3f803f80u;
      const vtb_u32 inputs = vtb_fma_bf16(to_v[0], ones, to_v[1]), steps = vtb_fma_bf16(to_step[0], ones, to_step[1]);
      const float d_input = low_of(inputs) + high_of(inputs);
      const float d_step = 0.6931471805599453f * (low_of(steps) + high_of(steps));
      ${put}
    }
  }
  VTB_UNROLL for (int j = 0; j < PAIRS; j += 2) {
    const int at = (j / 2 * COLUMNS + tid) * 4;
    vtb_f4 four = vtb_load4(drates, at);
    four.x += low_of(drate_pairs[j]);
    four.y += high_of(drate_pairs[j]);
    four.z += low_of(drate_pairs[j + 1]);
    four.w += high_of(drate_pairs[j + 1]);
    vtb_store4(drates, at, four);
  }
  vtb_sync();
  VTB_UNROLL for (int f = 0; f < 4; f++) {
    const int at = (lane % 4 * 2 + f % 2) * KP + g + f / 2 * 8;
    sums[(warp * 2 + 0) * ROW_KEYS + at] = to_q[f];
    sums[(warp * 2 + 1) * ROW_KEYS + at] = to_k[f];
  }
  vtb_sync();
  VTB_UNROLL for (int e0 = 0; e0 < 2 * ROW_KEYS; e0 += COLUMNS) {
    const int e = e0 + tid, which = e / ROW_KEYS, at = e % ROW_KEYS, token = at / KP, x = at % KP;
    if (e < 2 * ROW_KEYS && token < n && x < K) {
      const vtb_i64 pos = place(t0 + token);
      float value = 0.0f;
      VTB_UNROLL for (int w = 0; w < WIDE; w++) value += sums[(w * 2 + which) * ROW_KEYS + at];
      if (which == 0) {
        ${put_dq}
      } else {
        ${put_dk}
      }
    }
  }
  vtb_sync();
}
VTB_UNROLL for (int key = 0; key < KP; key++) {
  const float s = drates[(key / 4 * COLUMNS + tid) * 4 + key % 4];
  if (key < K && real) {
    ${put_rate}
  }
}
if (real) {
  ${put_totals}
}

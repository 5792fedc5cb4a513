/* The adjoint of a linear recurrence of class rates in a body (linscan_body.c), as
 * linscan_rates_grad.cu, where factors round to 16 bits: a lane owns up to 16 keys of a column, so
 * that sums over these are its own; more keys are shared out among warps (parts), in fours, and the
 * warps of a column share out the tokens that they load and what is behind the sums. Steps, decays
 * and the two recurrences are fp32; what is multiplied into results is pairs of 16 bits (keys 2j
 * and 2j + 1), as are states inside a segment. Sums over the 32 columns of a warp are two products
 * of matrices a token: of selectors by the lanes' numbers, which adds up lanes of four, and of that
 * by ones in the token's column. */
#include "products.cuh"
#include "scans.cuh"
hole int N, K, V;
hole int WIDE, PARTS, SEGMENT, THREADS; /* warps along columns, along keys; tokens */
hole int OWN;                    /* keys of a part, of room for 16 */
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
hole code put;                   /* stores what is behind d_input, d_step at pos of column x, adds
                                  * to total */
hole code put_dq, put_dk;        /* store value at pos of key x */
hole code put_rate, put_totals;  /* store s of key and x; total of column x */
constexpr int KP = 16, PAIRS = KP / 2, COLUMNS = 32 * WIDE, BLOCKS = (V + COLUMNS - 1) / COLUMNS;
constexpr int LANES = COLUMNS * PARTS, KEYS = KP * PARTS, OWN_KEYS = 8 * KP,
              ROW_KEYS = SEGMENT * KEYS;
constexpr int SEGMENTS = (N + SEGMENT - 1) / SEGMENT, TURNS = (SEGMENT + PARTS - 1) / PARTS;
require THREADS == LANES && K <= OWN * PARTS && OWN <= KP && OWN % 4 == 0 && SEGMENT == 8;
cost issue = WIDE * PARTS * N * (GIVEN ? 132 + 15 * OWN : 146 + 20 * OWN);
cost special = WIDE * PARTS * 32 * N * (GIVEN ? 2 : 3) * OWN;
cost tensor = WIDE * PARTS * N * 40960;
cost chain = 200 * N;
cost registers = GIVEN ? 128 : 132;
shared float keys[ROW_KEYS], queries[ROW_KEYS], key_pairs[ROW_KEYS / 2];
shared float rows[3 * SEGMENT * COLUMNS]; /* v, steps, dy */
shared float drates[KP * LANES], rate_pairs[PAIRS * LANES];
shared float history[SEGMENT * PAIRS * LANES];
shared float sums[2 * WIDE * ROW_KEYS] over history; /* when a segment's states have been read */
const int scan = vtb_block() / BLOCKS, block = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int tid = vtb_tid(), lane = vtb_lane(), warp = vtb_warp(),
          column = PARTS == 1 ? tid : tid % COLUMNS;
const int part = PARTS == 1 ? 0 : tid / COLUMNS, key0 = part * OWN, slot0 = part * KP,
          x = block * COLUMNS + column;
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
  if (j < OWN && key0 + j < K && real) rate[j] = 1.4426950408889634f * rate_of(key0 + j, x);
}
VTB_UNROLL for (int j = 0; j < PAIRS; j += 4) {
  const vtb_f4 four = {vtb_float(vtb_pack_bf16(rate[2 * j], rate[2 * j + 1])),
                       vtb_float(vtb_pack_bf16(rate[2 * j + 2], rate[2 * j + 3])),
                       vtb_float(vtb_pack_bf16(rate[2 * j + 4], rate[2 * j + 5])),
                       vtb_float(vtb_pack_bf16(rate[2 * j + 6], rate[2 * j + 7]))};
  vtb_store4(rate_pairs, (j / 4 * LANES + tid) * 4, four);
}
VTB_UNROLL for (int j = 0; j < KP; j += 4)
  vtb_store4(drates, (j / 4 * LANES + tid) * 4, vtb_splat(0.0f));
float total[SUMS];
VTB_UNROLL for (int i = 0; i < SUMS; i++) total[i] = 0.0f;
int t0 = 0, n = 0;
auto load_keys = [&](bool backward) {
  VTB_UNROLL for (int e0 = 0; e0 < ROW_KEYS; e0 += LANES) {
    const int e = e0 + tid, i = e / KEYS, slot = e % KEYS, key = slot / KP * OWN + slot % KP;
    const bool mine = ROW_KEYS % LANES == 0 || e < ROW_KEYS,
               there = mine && i < n && slot % KP < OWN && key < K;
    const vtb_i64 pos = place(vtb_min_int(t0 + i, N - 1));
    const int near_key = K == KEYS && OWN == KP ? key : vtb_min_int(key, K - 1);
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
  VTB_UNROLL for (int j = 0; j < OWN; j += 4) {
    float k_row[4];
    vtb_load_row(k_row, keys, i * KEYS + slot0 + j);
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
    const vtb_f4 four = {vtb_float(pairs[j]), vtb_float(pairs[j + 1]), vtb_float(pairs[j + 2]),
                         vtb_float(pairs[j + 3])};
    vtb_store4(to, at + (j / 4 * LANES + tid) * 4, four);
  }
};
auto get_pairs = [&](auto from, vtb_i64 at, vtb_u32 (&pairs)[PAIRS]) {
  VTB_UNROLL for (int j = 0; j < PAIRS; j += 4) {
    const vtb_f4 four = vtb_load4(from, at + (j / 4 * LANES + tid) * 4);
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
  VTB_UNROLL for (int j = 0; j < OWN; j += 4) {
    if (key0 + j >= K) break;
    const vtb_f4 four = vtb_load4(from, ((first + (key0 + j) / 4) * V + near) * 4);
    state[j] = four.x;
    state[j + 1] = four.y;
    state[j + 2] = four.z;
    state[j + 3] = four.w;
  }
};
auto start_of = [&](int segment) -> vtb_i64 { /* the first starts from nothing */
  return (((vtb_i64)scan * (SEGMENTS - 1) + segment - 1) * BLOCKS + block) * (LANES * PAIRS);
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

/* Rows of the first product are the sums of lanes' four numbers over lanes of four: each four
 * times, a column for four lanes. What the second adds up over the columns are, row by row, the
 * sums of all 16. */
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
  VTB_UNROLL for (int turn = 0; turn < TURNS; turn++) {
    float input = 0.0f, step = 0.0f, dy = 0.0f;
    const int i = turn * PARTS + part;
    if (SEGMENT % PARTS != 0 && i >= SEGMENT) break;
    given(place(N % SEGMENT == 0 ? t0 + i : vtb_min_int(t0 + i, N - 1)), near, input, step, dy);
    rows[i * COLUMNS + column] = real ? input : 0.0f;
    rows[(SEGMENT + i) * COLUMNS + column] = step;
    rows[(2 * SEGMENT + i) * COLUMNS + column] = real ? dy : 0.0f;
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
    put_pairs(history, i * (PAIRS * LANES), now);
    advance(i, rows[i * COLUMNS + column], rows[(SEGMENT + i) * COLUMNS + column]);
    pack_state(now);
  }
  auto finish = [&](int i, float step, float dy, float d_input, float d_step) {
    const vtb_i64 pos = place(t0 + i);
    ${put}
  };
  float to_q[4] = {0.0f, 0.0f, 0.0f, 0.0f}, to_k[4] = {0.0f, 0.0f, 0.0f, 0.0f}; /* of all tokens */
  VTB_NO_UNROLL for (int i = n - 1; i >= 0; i--) {
    const float v = rows[i * COLUMNS + column], step = rows[(SEGMENT + i) * COLUMNS + column];
    const float dy = rows[(2 * SEGMENT + i) * COLUMNS + column];
    const vtb_u32 dy_pair = vtb_pack_bf16(dy, dy), v_pair = vtb_pack_bf16(v, v),
                  step_pair = vtb_pack_bf16(step, step);
    const vtb_u32 chosen = g == i ? 0x3f800000u : 0u;
    vtb_u32 terms[PAIRS], to_v[2] = {0u, 0u}, to_step[2] = {0u, 0u};
    VTB_UNROLL for (int j = 0; j < PAIRS; j++)
      terms[j] = 2 * j < OWN ? vtb_multiply_bf16(now[j], dy_pair) : 0u;
    sum_columns(to_q, terms, chosen);
    get_pairs(history, i * (PAIRS * LANES), now);
    VTB_UNROLL for (int j = 0; j < PAIRS; j += 4) {
      float k_row[4], rate_row[4];
      vtb_load_row(k_row, key_pairs, (i * KEYS + slot0) / 2 + j);
      vtb_load_row(rate_row, rate_pairs, (j / 4 * LANES + tid) * 4);
      VTB_UNROLL for (int e = 0; e < 4; e += 2) {
        float q_row[4];
        if (2 * (j + e) >= OWN) { /* no key's */
          terms[j + e] = terms[j + e + 1] = 0u;
          continue;
        }
        vtb_load_row(q_row, queries, i * KEYS + slot0 + 2 * (j + e));
        VTB_UNROLL for (int f = 0; f < 2; f++) {
          const int pair = j + e + f, key = 2 * pair;
          const float p0 = carry[key] + q_row[2 * f] * dy,
                      p1 = carry[key + 1] + q_row[2 * f + 1] * dy;
          const vtb_u32 p = vtb_pack_bf16(p0, p1);
          carry[key] = vtb_exp2_fast(step * rate[key]) * p0;
          carry[key + 1] = vtb_exp2_fast(step * rate[key + 1]) * p1;
          const vtb_u32 dlog =
              vtb_multiply_bf16(vtb_pack_bf16(carry[key], carry[key + 1]), now[pair]);
          terms[pair] = vtb_multiply_bf16(p, v_pair);
          to_v[f] = vtb_fma_bf16(p, vtb_bits(k_row[e + f]), to_v[f]);
          to_step[f] = vtb_fma_bf16(dlog, vtb_bits(rate_row[e + f]), to_step[f]);
          drate_pairs[pair] = vtb_fma_bf16(dlog, step_pair, drate_pairs[pair]);
        }
      }
    }
    sum_columns(to_k, terms, chosen);
    if (real) {
      const vtb_u32 ones = 0x3f803f80u;
      const vtb_u32 inputs = vtb_fma_bf16(to_v[0], ones, to_v[1]),
                    steps = vtb_fma_bf16(to_step[0], ones, to_step[1]);
      const float d_input = low_of(inputs) + high_of(inputs);
      const float d_step = 0.6931471805599453f * (low_of(steps) + high_of(steps));
      if constexpr (PARTS == 1) {
        finish(i, step, dy, d_input, d_step);
      } else { /* where the lane's states before the token were */
        history[i * (PAIRS * LANES) + tid * 4] = d_input;
        history[i * (PAIRS * LANES) + tid * 4 + 1] = d_step;
      }
    }
  }
  VTB_UNROLL for (int j = 0; j < PAIRS; j += 2) {
    const int at = (j / 2 * LANES + tid) * 4;
    vtb_f4 four = vtb_load4(drates, at);
    four.x += low_of(drate_pairs[j]);
    four.y += high_of(drate_pairs[j]);
    four.z += low_of(drate_pairs[j + 1]);
    four.w += high_of(drate_pairs[j + 1]);
    vtb_store4(drates, at, four);
  }
  vtb_sync();
  if constexpr (PARTS > 1) {
    VTB_UNROLL for (int turn = 0; turn < TURNS; turn++) {
      const int i = turn * PARTS + part;
      if (i >= n || !real) break;
      float d_input = 0.0f, d_step = 0.0f;
      VTB_UNROLL for (int p = 0; p < PARTS; p++) {
        const int at = i * (PAIRS * LANES) + (p * COLUMNS + column) * 4;
        d_input += history[at];
        d_step += history[at + 1];
      }
      finish(i, rows[(SEGMENT + i) * COLUMNS + column], rows[(2 * SEGMENT + i) * COLUMNS + column],
             d_input, d_step);
    }
    vtb_sync();
  }
  VTB_UNROLL for (int f = 0; f < 4; f++) {
    const int at = (lane % 4 * 2 + f % 2) * KP + g + f / 2 * 8;
    sums[(warp * 2 + 0) * OWN_KEYS + at] = to_q[f];
    sums[(warp * 2 + 1) * OWN_KEYS + at] = to_k[f];
  }
  vtb_sync();
  VTB_UNROLL for (int e0 = 0; e0 < 2 * ROW_KEYS; e0 += LANES) {
    const int e = e0 + tid, which = e / ROW_KEYS, token = e % ROW_KEYS / KEYS, slot = e % KEYS,
              own = slot % KP, x = slot / KP * OWN + own, warp0 = slot / KP * WIDE;
    if (e < 2 * ROW_KEYS && token < n && own < OWN && x < K) {
      const vtb_i64 pos = place(t0 + token);
      float value = 0.0f;
      VTB_UNROLL for (int w = 0; w < WIDE; w++)
        value += sums[((warp0 + w) * 2 + which) * OWN_KEYS + token * KP + own];
      if (which == 0) {
        ${put_dq}
      } else {
        ${put_dk}
      }
    }
  }
  vtb_sync();
}
VTB_UNROLL for (int j = 0; j < KP; j++) {
  const int key = key0 + j;
  const float s = drates[(j / 4 * LANES + tid) * 4 + j % 4];
  if (j < OWN && key < K && real) {
    ${put_rate}
  }
}
if constexpr (PARTS > 1) { /* sums have been read */
  VTB_UNROLL for (int i = 0; i < SUMS; i++) history[i * LANES + tid] = total[i];
  vtb_sync();
  VTB_UNROLL for (int p = 1; p < PARTS; p++)
    VTB_UNROLL for (int i = 0; i < SUMS && part == 0; i++)
      total[i] += history[i * LANES + p * COLUMNS + column];
}
if (real && part == 0) {
  ${put_totals}
}

/* A linear recurrence token by token. A lane owns column x of V and, of K, the KR states of its
 * warp's group; a block has WIDE groups of 32 columns or, of one tile of keys, GROUPS groups.
 * Tokens come in segments, whose rows are shared. Of a body with several recurrences
 * (linscan_body.c), a block runs them one after the other (pass) and keeps what it has of the
 * earlier ones, a number a token and column, for the lane that made it. */
#include "scans.cuh"
hole int N, K, V, V1;            /* V1: V and the normalizer's column */
hole int KR, GROUPS, WIDE;       /* states of a lane; warps along K, along V */
hole int KEY_TILES, THREADS;
hole int SCANS;                  /* of all directions */
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole bool FIRST, LAST;           /* a state is given; the last one is asked for */
hole bool BY_KEY;                /* decays are loaded by rows of keys */
hole bool RATES;
hole bool STARTS;                /* of segments but the first are stored: with one tile of keys */
hole int PASSES, MORE;           /* recurrences; numbers a token and column that put_y reads, too */
hole type KEPT;                  /* of kept */
hole type STATE;                 /* of a state's numbers and of what is read: see
                                  * vtb_scan_is_wide */
hole expr place;                 /* of step t */
hole expr decay;                 /* of key j of the lane and token i, at pos */
hole code decay_row, q, k;       /* return the number at pos of key x */
hole code values;                /* sets input, step and more at pos of column x, of pass p */
hole code rate, first;           /* return rate, state of key and x */
hole int Y_WIDTH;                /* columns that put_y stores */
hole code put_y, put_z;          /* stores value of pass p at pos and x; behind Y_WIDTH */
hole code put_start;             /* stores four at `at` of the pass's starts */
hole code put_last, put_last_n;  /* stores s of key and x; of the normalizer's column */
constexpr int SEGMENT = 8, KP = KR * GROUPS, WARPS = GROUPS * WIDE,
              V_BLOCKS = (V1 + 32 * WIDE - 1) / (32 * WIDE);
constexpr int BLOCKS = V_BLOCKS * KEY_TILES, LATER = (N + SEGMENT - 1) / SEGMENT - 1;
require THREADS == 32 * WARPS && (!STARTS || (KEY_TILES == 1 && K % 4 == 0));
/* with a body of a few ops */
cost issue = PASSES * WARPS * N * (5 * KR + (GROUPS == 1 ? 48 : 48 / GROUPS + 14));
cost registers = (PASSES > 1 ? 96 : 75) + 2 * KR;
cost special = RATES ? PASSES * 32 * WARPS * N * KR : 0;
cost chain = PASSES * 30 * N;
shared float decays[BY_KEY ? SEGMENT * KP : 0];
shared float keys[SEGMENT * KP], queries[SEGMENT * KP];
shared STATE parts[GROUPS > 1 ? GROUPS * SEGMENT * 32 : 0];
/* values, steps: groups share out the tokens */
shared float shares[GROUPS > 1 ? 2 * SEGMENT * 32 : 0];
shared KEPT kept[PASSES > 1 ? (PASSES - 1) * N * 32 * WIDE : 0];
const int scan = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int key_tile = unit / V_BLOCKS, lane = vtb_lane(), group = vtb_warp() % GROUPS;
const int column = vtb_warp() / GROUPS * 32 + lane, x = unit % V_BLOCKS * WIDE * 32 + column;
/* own: of the tile's keys */
const int tile_key = key_tile * KP, own0 = group * KR, key0 = tile_key + own0;
const int n_keys = KEY_TILES == 1 ? K : vtb_min_int(K - tile_key, KP);
const bool real = x < V1;
int pass = 0;
auto place = [&](int t) -> int { return ${place}; };
auto part_at = [&](int t) -> vtb_i64 {
  return (((vtb_i64)key_tile * SCANS + scan) * N + t) * V1 + x;
};
auto keep = [&](int p, int pos, float value) {
  kept[(p * N + pos) * (32 * WIDE) + column] = value;
};
auto kept_of = [&](int p, int pos) -> float { return kept[(p * N + pos) * (32 * WIDE) + column]; };
auto q_at = [&](vtb_i64 pos, int own) -> float {
  const int x = tile_key + own;
  ${q}
};
auto k_at = [&](vtb_i64 pos, int own) -> float {
  const int x = tile_key + own;
  ${k}
};
auto decay_row = [&](vtb_i64 pos, int own) -> float {
  const int x = tile_key + own;
  ${decay_row}
};
auto values = [&](int p, vtb_i64 pos, float &input, float &step, float (&more)[MORE]) { ${values} };
auto rate_of = [&](int key) -> float { ${rate} };
auto first_of = [&](int key) -> float { ${first} };

for (pass = 0; pass < PASSES; pass++) {
  STATE state[KR];
  float rate[KR]; /* class rates, for exponents of two */
  VTB_UNROLL for (int j = 0; j < KR; j++) {
    const int key = key0 + j;
    state[j] = rate[j] = 0.0f;
    if (FIRST && real && key < K) state[j] = first_of(key);
    if (RATES && real && key < K) rate[j] = 1.4426950408889634f * rate_of(key);
  }
  for (int t0 = 0; t0 < N; t0 += SEGMENT) {
    const int n = vtb_min_int(N - t0, SEGMENT);
    if (STARTS && t0 > 0 && real) {
      VTB_UNROLL for (int j = 0; j + 3 < KR; j += 4) {
        const vtb_f4 four = {(float)state[j], (float)state[j + 1], (float)state[j + 2],
                             (float)state[j + 3]};
        const vtb_i64 at =
            ((((vtb_i64)(b * HEADS + h) * LATER + t0 / SEGMENT - 1) * (K / 4) + (key0 + j) / 4) *
                 V +
             x) *
            4;
        if (key0 + j < K) {
          ${put_start}
        }
      }
    }
    vtb_sync();
    vtb_fill_rows<SEGMENT, KP, KP, WARPS>(
        queries, n, n_keys, [&](int i) { return place(t0 + i); }, q_at);
    vtb_fill_rows<SEGMENT, KP, KP, WARPS>(
        keys, n, n_keys, [&](int i) { return place(t0 + i); }, k_at);
    if (BY_KEY)
      vtb_fill_rows<SEGMENT, KP, KP, WARPS>(
          decays, n, n_keys, [&](int i) { return place(t0 + i); }, decay_row);
    float vs[SEGMENT], steps[SEGMENT], more[SEGMENT][MORE];
    STATE y[SEGMENT];
    VTB_UNROLL for (int p = 0; p < PASSES; p++) {
      if (p != pass) continue;
      VTB_UNROLL for (int i = 0; i < SEGMENT; i++) {
        vs[i] = y[i] = 0.0f;
        steps[i] = 1.0f;
        VTB_UNROLL for (int m = 0; m < MORE; m++) more[i][m] = 0.0f;
        if (GROUPS > 1 && i % GROUPS != group) continue;
        if (i < n && real) values(p, place(t0 + i), vs[i], steps[i], more[i]);
        if (GROUPS > 1) {
          shares[i * 32 + lane] = vs[i];
          shares[(SEGMENT + i) * 32 + lane] = steps[i];
        }
      }
    }
    vtb_sync();
    VTB_UNROLL for (int i = 0; i < SEGMENT; i++) {
      if (i >= n) break;
      const vtb_i64 pos = place(t0 + i);
      const float v = GROUPS > 1 ? shares[i * 32 + lane] : vs[i];
      const float step = GROUPS > 1 ? shares[(SEGMENT + i) * 32 + lane] : steps[i];
      float k_row[KR], q_row[KR];
      vtb_load_row(k_row, keys, i * KP + own0);
      vtb_load_row(q_row, queries, i * KP + own0);
      VTB_UNROLL for (int j = 0; j < KR; j++) {
        const int at = i * KP + own0 + j, key = key0 + j;
        const float decay = ${decay};
        state[j] = (STATE)decay * state[j] + (STATE)k_row[j] * (STATE)v;
        y[i] += (STATE)q_row[j] * state[j];
      }
    }
    auto put = [&](int p, int i, STATE sum) {
      const float value = (float)sum;
      if (real && i < n) {
        const vtb_i64 pos = place(t0 + i);
        if (x < Y_WIDTH) {
          ${put_y}
        } else {
          ${put_z}
        }
      }
    };
    VTB_UNROLL for (int p = 0; p < PASSES; p++) {
      if (p != pass) continue;
      if constexpr (GROUPS == 1) {
        VTB_UNROLL for (int i = 0; i < SEGMENT; i++) put(p, i, y[i]);
      } else {
        VTB_UNROLL for (int i = 0; i < SEGMENT; i++)
          parts[(group * SEGMENT + i) * 32 + lane] = y[i];
        vtb_sync();
        VTB_UNROLL for (int i = 0; i < SEGMENT; i++) {
          if (i % GROUPS != group) continue;
          STATE sum = 0.0f;
          for (int g = 0; g < GROUPS; g++) sum += parts[(g * SEGMENT + i) * 32 + lane];
          put(p, i, sum);
        }
      }
    }
  }
  if (LAST && real) {
    VTB_UNROLL for (int j = 0; j < KR; j++) {
      const int key = key0 + j;
      const float s = (float)state[j];
      if (key < K) {
        if (x < V) {
          ${put_last}
        } else {
          ${put_last_n}
        }
      }
    }
  }
}

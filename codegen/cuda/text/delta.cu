/* The corrections of a recurrence that reads its own state, RANK rows a token:
 *   w = v + S^T b of the state before the token,   S <- D o S + k^T w over the token's rows
 * A block owns TILE columns of the state, in shared memory, and walks all tokens in tiles of 16
 * rows (whole tokens). In a tile, with P[i, j] the decays of the tokens between two rows, p_i those
 * of the tokens before a row's, s_j of those behind it:
 *   W = (I - A)^-1 (V + (p o B) S),   A = (B K^T) o P where j's token is before i's;   S <- D S +
 *                                     (s o K)^T W
 * Products are the tensor cores'; the triangle is substituted, a lane a column. BY_KEY decays are
 * no factor of a pair: A is summed over keys by lanes, and the rows b and k get their decays in
 * place. The next tile's rows are on their way meanwhile. */
#include "products.cuh"
#include "scans.cuh"
hole int N, K, V, RANK;          /* tokens; of the state; rows a token */
hole int FACTORS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole bool FOUR;                  /* rows can be copied 16 bytes at a time */
hole bool BY_KEY;                /* each key has a decay of its own */
hole bool FIRST;                 /* a state is given */
hole expr place;                 /* of step t */
hole expr decay;                 /* at pos, unless BY_KEY */
hole expr decay_from;            /* address of the decays at pos, BY_KEY */
hole expr k_from, v_from, by_from; /* addresses of row r at pos */
hole expr first;                 /* state of key and x */
hole expr w_at;                  /* offset for pos, r and x */
constexpr int TILE = vtb_min_int(32, (V + 7) / 8 * 8), BLOCKS = (V + TILE - 1) / TILE, WARPS = 4;
constexpr int TOKENS = 16 / RANK, TILES = (N + TOKENS - 1) / TOKENS, KP = (K + 15) / 16 * 16;
constexpr int P = vtb_pitch_along(KP, 4), PV = vtb_pitch_across(TILE), PS = vtb_pitch_along(16, 4);
require THREADS == 128 && RANK <= 16;
cost tensor = TILES * 32 * KP * (16 + 2 * TILE);
cost issue = TILES * (KP * (16 + 2 * TILE) / 4 + 1500);
cost registers = 168;
cost chain = TILES * 2500;
shared float state[KP * PV];
/* of this tile and the next */
shared float keys[2 * 16 * P], reads[2 * 16 * P], values[2 * 16 * PV];
/* by token and key; or by row: 1, but in a token's last */
shared float decays[BY_KEY ? 2 * TOKENS * P : 16];
shared float whole[BY_KEY ? KP : 1];               /* all of the tile */
shared float before[BY_KEY ? 0 : 16], behind[BY_KEY ? 0 : 16]; /* p, s */
shared float scores[16 * PS], other_scores[BY_KEY ? 0 : 16 * PS], between[BY_KEY ? 0 : 16 * PS];
const int scan = vtb_block() / BLOCKS, v0 = vtb_block() % BLOCKS * TILE,
          n_columns = vtb_min_int(V - v0, TILE);
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int tid = vtb_tid(), warp = vtb_warp(), lane = vtb_lane();
auto place = [&](int t) -> int { return ${place}; };
auto nothing = [&](int) -> float { return 0.0f; };
auto bring = [&](int tile) { /* rows of a tile, asynchronously */
  const int t0 = tile * TOKENS, n = vtb_min_int(N - t0, TOKENS), at = tile % 2 * 16;
  vtb_copy_rows<FOUR, 16, KP, P, THREADS>(
      keys + at * P, n * RANK, K, -1,
      [&](int i) {
        const int r = i % RANK;
        const vtb_i64 pos = place(t0 + i / RANK);
        return ${k_from};
      },
      nothing);
  vtb_copy_rows<FOUR, 16, KP, P, THREADS>(
      reads + at * P, n * RANK, K, -1,
      [&](int i) {
        const int r = i % RANK;
        const vtb_i64 pos = place(t0 + i / RANK);
        return ${by_from};
      },
      nothing);
  vtb_copy_rows<FOUR, 16, TILE, PV, THREADS>(
      values + at * PV, n * RANK, n_columns, -1,
      [&](int i) {
        const int r = i % RANK;
        const vtb_i64 pos = place(t0 + i / RANK);
        return ${v_from} + v0;
      },
      nothing);
  if constexpr (BY_KEY) {
    vtb_copy_rows<FOUR, TOKENS, KP, P, THREADS>(
        decays + tile % 2 * TOKENS * P, n, K, -1,
        [&](int i) {
          const vtb_i64 pos = place(t0 + i);
          return ${decay_from};
        },
        nothing);
  }
};
/* The decay of row i's token of a tile, if the row is the token's last one. */
auto row_decay = [&](int tile, int i) -> float {
  const int t = tile * TOKENS + i / RANK;
  if (BY_KEY || i % RANK != RANK - 1 || i / RANK >= TOKENS || t >= N) return 1.0f;
  const vtb_i64 pos = place(t);
  return ${decay};
};

for (int i = tid; i < KP * TILE; i += THREADS) {
  const int key = i / TILE, o = i % TILE, x = v0 + o;
  float s = 0.0f;
  if (FIRST && key < K && x < V) s = ${first};
  state[key * PV + o] = s;
}
bring(0);
if (!BY_KEY && tid < 16) decays[tid] = row_decay(0, tid);
for (int tile = 0; tile < TILES; tile++) {
  const int t0 = tile * TOKENS, n = vtb_min_int(N - t0, TOKENS), at = tile % 2 * 16;
  vtb_arrived();
  float next_decay = 1.0f;
  if (tile + 1 < TILES) {
    bring(tile + 1);
    if (tid < 16) next_decay = row_decay(tile + 1, tid);
  }
  const auto b_rows = vtb_rows<true, P>(reads, 0, at * P);
  if constexpr (BY_KEY) {
    const int d = tile % 2 * TOKENS * P;
    for (int j = warp; j < 16; j += WARPS) { /* column j of A */
      float sums[16];
      VTB_UNROLL for (int i = 0; i < 16; i++) sums[i] = 0.0f;
      for (int x = lane; x < KP; x += 32) {
        float kept = keys[(at + j) * P + x];
        VTB_UNROLL for (int i = 0; i < 16; i++) {
          if (i / RANK <= j / RANK || i / RANK >= TOKENS) continue;
          sums[i] += reads[(at + i) * P + x] * kept;
          if (i % RANK == RANK - 1) kept *= decays[d + i / RANK * P + x];
        }
      }
      vtb_lane_sums<16>(sums);
      if (lane < 16) scores[lane * PS + j] = sums[0];
    }
    vtb_sync();
    for (int x = tid; x < KP; x += THREADS) {
      float all = 1.0f;
      for (int t = 0; t < n; t++) {
        for (int r = 0; r < RANK; r++) reads[(at + t * RANK + r) * P + x] *= all;
        all *= decays[d + t * P + x];
      }
      whole[x] = all;
      all = 1.0f;
      for (int t = n - 1; t >= 0; t--) {
        for (int r = 0; r < RANK; r++) keys[(at + t * RANK + r) * P + x] *= all;
        all *= decays[d + t * P + x];
      }
    }
    vtb_sync();
  } else {
    /* Products of decays: 16 lanes an order of rows, by doubling. */
    const int i = lane % 16;
    auto prefix = [&](float v) -> float {
      VTB_UNROLL for (int by = 1; by < 16; by *= 2) {
        const float below = vtb_shfl_up(v, by);
        if (i >= by) v *= below;
      }
      return v;
    };
    VTB_UNROLL for (int pass = 0; pass < 2; pass++) {
      const int j = 4 * warp + 2 * pass + lane / 16;
      const float p = prefix(i > 0 && (i - 1) / RANK > j / RANK ? decays[i - 1] : 1.0f);
      between[i * PS + j] = i / RANK > j / RANK ? p : 0.0f;
    }
    if (warp == 0) {
      const bool up = lane < 16;
      const float p = prefix(up ? (i > 0 ? decays[i - 1] : 1.0f) : decays[15 - i]);
      const int later = (i / RANK + 1) * RANK; /* first row of the next token */
      const float s = vtb_shfl(p, later < 16 ? 31 - later : 31), all = vtb_shfl(p, 31);
      if (up) before[i] = p;
      if (up) behind[i] = later < 16 ? s : 1.0f;
      if (lane == 0) whole[0] = all;
    }
    float pairs[1][4];
    vtb_clear(pairs);
    const auto k_columns = vtb_columns<true, P>(keys, warp % 2 * 8, at * P);
    for (int k = warp / 2 * 16; k < KP; k += 32)
      VTB_UNROLL for (int step = 0; step < 16; step += vtb_depth(FACTORS))
          vtb_step<FACTORS, 1>(pairs, k + step, b_rows, k_columns);
    vtb_each(pairs, [&](int r, int o, float &v) {
      if (warp < 2)
        scores[r * PS + warp % 2 * 8 + o] = v;
      else
        other_scores[r * PS + warp % 2 * 8 + o] = v;
    });
  }
  const bool live = 8 * warp < TILE; /* the warp's eight columns of W */
  float c[1][4];
  vtb_clear(c);
  if (live) vtb_product<FACTORS, KP>(c, b_rows, vtb_columns<false, PV>(state, 8 * warp));
  if constexpr (!BY_KEY) {
    vtb_sync();
    for (int i = tid; i < 256; i += THREADS) {
      const int own = i / 16 * PS + i % 16;
      scores[own] = (scores[own] + other_scores[own]) * between[own];
    }
  }
  vtb_each(c, [&](int r, int o, float &v) {
    if (live) values[(at + r) * PV + 8 * warp + o] += v * (BY_KEY ? 1.0f : before[r]);
  });
  vtb_sync();
  if (warp == 0) {
    const int x = v0 + lane;
    float w[16], a[16];
    VTB_UNROLL for (int i = 0; i < 16; i++)
      w[i] = lane < TILE ? values[(at + i) * PV + lane] : 0.0f;
    VTB_UNROLL for (int i = 1; i < 16; i++) {
      vtb_load_row(a, scores, i * PS);
      VTB_UNROLL for (int j = 0; j < i; j++) w[i] += a[j] * w[j];
    }
    VTB_UNROLL for (int i = 0; i < 16; i++) {
      const int r = i % RANK;
      if (lane < TILE) values[(at + i) * PV + lane] = BY_KEY ? w[i] : w[i] * behind[i];
      if (lane < n_columns && i < n * RANK) {
        const vtb_i64 pos = place(t0 + i / RANK);
        result[${w_at}] = w[i];
      }
    }
  }
  vtb_sync();
  for (int strip = warp; strip * 16 < KP && tile + 1 < TILES; strip += WARPS) {
    float s[TILE / 8][4];
    VTB_PTR(float) mine = state + strip * 16 * PV;
    vtb_each(s, [&](int r, int o, float &v) {
      v = mine[r * PV + o] * whole[BY_KEY ? strip * 16 + r : 0];
    });
    vtb_product<FACTORS, 16>(s, vtb_rows<false, P>(keys, strip * 16, at * P),
                             vtb_columns<false, PV>(values, 0, at * PV));
    vtb_each(s, [&](int r, int o, float &v) { mine[r * PV + o] = v; });
  }
  if (!BY_KEY && tid < 16) decays[tid] = next_decay;
}

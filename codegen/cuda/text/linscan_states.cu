/* The state at the border of every chunk: before it, S <- D S + (products of the decays behind a
 * token o k)^T v, or, BACKWARD, the adjoint of the state after it, G <- D G + (products of the
 * decays up to a token o q)^T dy. A block walks all chunks with 64 x 64 numbers of the state in its
 * warps' registers. */
#include "products.cuh"
#include "scans.cuh"
hole int N, K, V, V1, CHUNK;     /* V1: V and the normalizer's column */
hole int ROW_TILES;              /* tiles of all chunks */
hole int STATE_PITCH;            /* from row to row of states: what is beyond V1 is zero */
hole int FACTORS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole bool FOUR;                  /* rows can be copied 16 bytes at a time */
hole bool PAIRED, BACK;          /* BACK: BACKWARD, unless it is PAIRED */
hole bool FIRST, LAST;           /* a state is given; the last one is asked for */
hole expr place;                 /* of step t */
hole expr decay;                 /* at pos */
hole expr key_from, value_from;  /* addresses of rows at pos */
hole expr value_extra;           /* of the normalizer's column */
hole expr first;                 /* state of key and x */
hole code put_last, put_last_n;  /* stores s of key and x; of the normalizer's column */
constexpr int V_TILES = (V1 + 63) / 64, N_CHUNKS = (N + CHUNK - 1) / CHUNK,
              BLOCKS = (K + 63) / 64 * V_TILES;
constexpr int CHUNK_TILES = (CHUNK + 63) / 64, P = vtb_pitch_across(64);
require THREADS == 256;
cost tensor = 2 * 64 * 64 * 64 * ROW_TILES;
cost issue = 8 * 1000 * ROW_TILES;
cost registers = 64;
cost chain = 1500 * ROW_TILES;
shared float keys[64 * P], values[64 * P];
shared float decays[64], through[64], after[64], parts[32];
const int scan = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const bool BACKWARD = PAIRED ? dir % 2 == 1 : BACK;
const int k0 = unit / V_TILES * 64, v0 = unit % V_TILES * 64, row = 16 * (vtb_warp() % 4),
          tid = vtb_tid();
const int half = vtb_warp() / 4 * 32; /* the warp's columns, from */
const int n_keys = vtb_min_int(K - k0, 64);
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
auto decay = [&](int t) -> float { /* PAIRED: as in linscan_product.cu */
  if (!PAIRED || !BACKWARD) return decay_at(place(t));
  return t > 0 ? decay_at(place(t - 1)) : 1.0f;
};
auto key_row = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${key_from};
};
auto value_row = [&](int t) {
  const vtb_i64 pos = place(t);
  return ${value_from};
};
auto value_beyond = [&](int t) -> float {
  const vtb_i64 pos = place(t);
  return ${value_extra};
};

float state[4][4];
vtb_each(state, [&](int r, int o, float &s) {
  const int key = k0 + row + r, x = v0 + half + o;
  s = 0.0f;
  if (FIRST && key < K && x < V1) s = ${first};
  if (FIRST && PAIRED && BACKWARD) s *= decay_at(place(N - 1));
});
for (int step = 0; step < ROW_TILES; step++) {
  const int tile = BACKWARD ? ROW_TILES - 1 - step : step, chunk = tile / CHUNK_TILES;
  const int t0 = chunk * CHUNK + tile % CHUNK_TILES * 64;
  const int n = vtb_min_int(vtb_min_int(chunk * CHUNK + CHUNK, N) - t0, 64);
  const bool border = BACKWARD ? tile == ROW_TILES - 1 || tile % CHUNK_TILES == CHUNK_TILES - 1
                               : tile % CHUNK_TILES == 0;
  if (border) {
    VTB_PTR(float)
    kept = states + (((vtb_i64)scan * N_CHUNKS + chunk) * (K * STATE_PITCH) +
                     (k0 + row) * STATE_PITCH + v0 + half);
    vtb_each(state, [&](int r, int o, float &s) {
      if (row + r < n_keys && v0 + half + o < STATE_PITCH) kept[r * STATE_PITCH + o] = s;
    });
    if (!LAST && chunk == (BACKWARD ? 0 : N_CHUNKS - 1)) break;
  }
  vtb_sync();
  vtb_copy_rows<FOUR, 64, 64, P, THREADS>(
      values, n, vtb_clip(V - v0, 64), V1 > V ? V - v0 : -1,
      [&](int r) { return value_row(t0 + r) + v0; }, [&](int r) { return value_beyond(t0 + r); });
  vtb_copy_rows<FOUR, 64, 64, P, THREADS>(
      keys, n, n_keys, -1, [&](int r) { return key_row(t0 + r) + k0; }, [&](int) { return 0.0f; });
  if (vtb_warp() == 0) {
    decays[tid] = tid < n ? decay(t0 + tid) : 1.0f;
    decays[tid + 32] = tid + 32 < n ? decay(t0 + tid + 32) : 1.0f;
    vtb_sync_warp();
    const float all = vtb_running_products(decays, through, after);
    if (tid == 0) parts[0] = all;
  }
  vtb_arrived();
  VTB_NO_UNROLL for (int i = tid; i < 64 * 16; i += THREADS) {
    const int t = i / 16, at = t * P + i % 16 * 4;
    vtb_store4(keys, at, vtb_load4(keys, at) * (BACKWARD ? through[t] : after[t]));
  }
  const float all = parts[0];
  vtb_each(state, [&](int, int, float &s) { s *= all; });
  vtb_sync();
  vtb_product<FACTORS, 64>(state, vtb_rows<false, P>(keys, row),
                           vtb_columns<false, P>(values, half));
}
if (LAST) {
  vtb_each(state, [&](int r, int o, float &s) {
    const int key = k0 + row + r, x = v0 + half + o;
    if (key < K && x < V1) {
      if (x < V) {
        ${put_last}
      } else {
        ${put_last_n}
      }
    }
  });
}

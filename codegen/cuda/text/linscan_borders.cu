/* The state at the border of every chunk, as linscan_states.cu, of factors that round to 16 bits,
 * in which the states are kept too: before the chunk, S <- D S + (products of the decays behind a
 * token o k)^T v, or, BACKWARD, the adjoint of the state after it, G <- D G + (products of the
 * decays up to a token o q)^T dy. A block walks all chunks with TILE_K x TILE_V numbers of the
 * state in its warps' registers while the next tiles of 64 tokens are on their way. Decays multiply
 * fragments of the keys. The normalizer's vector is a product with a column of ones, or dz, of
 * fragments alone. */
#include "products.cuh"
#include "scans.cuh"
#include "tiles.cuh"
hole int N, K, V, CHUNK;
hole int ROW_TILES;              /* tiles of all chunks */
hole int STATE_PITCH;            /* from row to row of states, a multiple of 8: what is beyond V is
                                  * zero */
hole int TILE_K, TILE_V;         /* 64 or 128; 16 to 128 */
hole int FACTORS, THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole type T;                     /* of tiles and states */
hole bool KEY_EIGHT, VALUE_EIGHT; /* rows can be copied eight elements at a time */
hole bool PAIRED, BACK;          /* BACK: BACKWARD, unless it is PAIRED */
hole bool FIRST, LAST;           /* a state is given; the last one is asked for */
hole bool NORMALIZED;
hole expr vectors;               /* their pointer */
hole expr place;                 /* of step t */
hole expr decay;                 /* at pos */
hole expr key_from, value_from;  /* addresses of rows at pos */
hole int key_stride, value_stride; /* from row to row of these */
hole expr value_extra;           /* of the normalizer's column */
hole expr first;                 /* state of key and x */
hole code put_last, put_last_n;  /* stores s of key and x; of the normalizer's column */
constexpr int V_TILES = (V + TILE_V - 1) / TILE_V, K_TILES = (K + TILE_K - 1) / TILE_K,
              BLOCKS = K_TILES * V_TILES;
constexpr int N_CHUNKS = (N + CHUNK - 1) / CHUNK, CHUNK_TILES = (CHUNK + 63) / 64,
              STRIPS = TILE_K / 64, PART = TILE_V / 2;
constexpr int PK = vtb_pitch_across(TILE_K), PV = vtb_pitch_across(TILE_V), STAGES = 3,
              STAGE = 64 * (PK + PV);
require THREADS == 256 && (TILE_K == 64 || TILE_K == 128) && TILE_V % 16 == 0 && TILE_V <= 128;
cost tensor = 2 * 64 * TILE_K * TILE_V * ROW_TILES;
cost issue = 8 * (STRIPS * PART * 3 / 2 + 100) * ROW_TILES;
cost registers = TILE_K == 64 ? 74 : 130;
cost chain = 800 * ROW_TILES;
cost flight = (STAGES - 1) * STAGE * sizeof(T);
shared T ring[STAGES * STAGE];
shared float weights[64], ones[64]; /* pairs of 16 bits, of two tiles */
shared float decays[64], through[64], after[64], all_of[2];
shared int places[256];          /* of four tiles */
const int scan = vtb_block() / BLOCKS, unit = vtb_block() % BLOCKS;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const bool BACKWARD = PAIRED ? dir % 2 == 1 : BACK;
const int k0 = unit / V_TILES * TILE_K, v0 = unit % V_TILES * TILE_V, tid = vtb_tid(),
          lane = vtb_lane();
const int row = 16 * STRIPS * (vtb_warp() % 4), column = vtb_warp() / 4 * PART; /* the warp's */
const bool vector = NORMALIZED && v0 == 0 && column == 0;
const auto vectors_of = ${vectors};
auto place = [&](int t) -> int { return ${place}; };
auto decay_at = [&](vtb_i64 pos) -> float { return ${decay}; };
constexpr int pos = 0; /* the first row's address */
const auto keys = ${key_from};
const auto values = ${value_from};
auto extra_at = [&](vtb_i64 pos) -> float { return ${value_extra}; };
auto tile_of = [&](int step) { return BACKWARD ? ROW_TILES - 1 - step : step; };
auto first_of = [&](int step) {
  return tile_of(step) / CHUNK_TILES * CHUNK + tile_of(step) % CHUNK_TILES * 64;
};
/* tokens; 0 behind the last */
auto size_of = [&](int step) {
  const int chunk = tile_of(step) / CHUNK_TILES;
  return step < ROW_TILES ? vtb_min_int(vtb_min_int(chunk * CHUNK + CHUNK, N) - first_of(step), 64)
                          : 0;
};
/* the places of a tile */
auto find = [&](int step) {
  const int n = size_of(step);
  if (tid < 64 && n > 0)
    places[step % 4 * 64 + tid] = place(first_of(step) + vtb_min_int(tid, n - 1));
};
auto bring = [&](int step) {
  const int n = size_of(step), at = step % 4 * 64, to = step % STAGES * STAGE;
  if (n > 0) {
    vtb_bring_rows<KEY_EIGHT, 64, TILE_K, PK, THREADS>(
        ring + to, n, K - k0, keys + k0, key_stride, [&](int r) { return places[at + r]; });
    vtb_bring_rows<VALUE_EIGHT, 64, TILE_V, PV, THREADS>(ring + (to + 64 * PK), n, V - v0,
                                                         values + v0, value_stride,
                                                         [&](int r) { return places[at + r]; });
  }
  vtb_cp_commit();
};
/* decays and extras of the next tile: two a lane */
float near[2] = {1.0f, 1.0f}, extras[2] = {0.0f, 0.0f};
auto look = [&](int step) {
  const int n = size_of(step);
  VTB_UNROLL for (int i = 0; i < 2; i++) {
    const int j = 2 * lane + i, at = places[step % 4 * 64 + vtb_min_int(j, n - 1)],
              t = first_of(step) + j;
    /* as in linscan_tiles.cu */
    near[i] = j >= n                 ? 1.0f
              : !PAIRED || !BACKWARD ? decay_at(at)
              : t > 0                ? decay_at(place(t - 1))
                                     : 1.0f;
    if (NORMALIZED) extras[i] = j < n ? extra_at(at) : 0.0f;
  }
};
auto weigh = [&](int step) {
  constexpr bool FP16 = FACTORS == VTB_FP16;
  const int to = step % 2 * 32 + lane;
  decays[2 * lane] = near[0];
  decays[2 * lane + 1] = near[1];
  vtb_sync_warp();
  const float all = vtb_running_products(decays, through, after);
  vtb_sync_warp();
  weights[to] = vtb_float(BACKWARD ? vtb_pack<FP16>(through[2 * lane], through[2 * lane + 1])
                                   : vtb_pack<FP16>(after[2 * lane], after[2 * lane + 1]));
  if (NORMALIZED) ones[to] = vtb_float(vtb_pack<FP16>(extras[0], extras[1]));
  if (lane == 0) all_of[step % 2] = all;
};

float state[STRIPS * PART / 8][4], n_state[STRIPS][4];
VTB_UNROLL for (int s = 0; s < STRIPS; s++)
  VTB_UNROLL for (int i = 0; i < PART / 8; i++)
    VTB_UNROLL for (int f = 0; f < 4; f++) {
      const int key = k0 + row + 16 * s + lane / 4 + f / 2 * 8,
                x = v0 + column + 8 * i + 2 * (lane % 4) + f % 2;
      state[s * (PART / 8) + i][f] = 0.0f;
      if (FIRST && key < K && x < V) {
        const float given = ${first};
        state[s * (PART / 8) + i][f] = PAIRED && BACKWARD ? given * decay_at(place(N - 1)) : given;
      }
    }
vtb_clear(n_state);
if (FIRST && vector && lane % 4 == 0) {
  VTB_UNROLL for (int s = 0; s < STRIPS; s++) VTB_UNROLL for (int f = 0; f < 4; f += 2) {
    const int key = k0 + row + 16 * s + lane / 4 + f * 4, x = V;
    if (key < K) {
      const float given = ${first};
      n_state[s][f] = PAIRED && BACKWARD ? given * decay_at(place(N - 1)) : given;
    }
  }
}
VTB_UNROLL for (int step = 0; step < 3; step++) find(step);
vtb_sync();
VTB_UNROLL for (int step = 0; step < STAGES - 1; step++) bring(step);
if (vtb_warp() == 7) {
  look(0);
  weigh(0);
}
VTB_NO_UNROLL for (int step = 0; step < ROW_TILES; step++) {
  const int tile = tile_of(step), chunk = tile / CHUNK_TILES, at = step % STAGES * STAGE,
            now = step % 2 * 32;
  /* a border */
  if (BACKWARD ? tile == ROW_TILES - 1 || tile % CHUNK_TILES == CHUNK_TILES - 1
               : tile % CHUNK_TILES == 0) {
    const vtb_i64 kept = ((vtb_i64)scan * N_CHUNKS + chunk) * K;
    VTB_UNROLL for (int s = 0; s < STRIPS; s++) VTB_UNROLL for (int f = 0; f < 4; f += 2) {
      const int key = k0 + row + 16 * s + lane / 4 + f * 4;
      const vtb_i64 to = (kept + key) * STATE_PITCH;
      VTB_UNROLL for (int i = 0; i + 1 < PART / 8; i += 2) {
        const auto &c = state[s * (PART / 8) + i], &next = state[s * (PART / 8) + i + 1];
        const vtb_f4 four = vtb_four_of_sixteen(c[f], c[f + 1], next[f], next[f + 1]);
        const int x = v0 + column + 8 * i + 4 * (lane % 4);
        if (key < K && x < STATE_PITCH) vtb_store4(states, to + x, four);
      }
      if (PART / 8 % 2 == 1) {
        const int x = v0 + column + PART - 8 + 2 * (lane % 4);
        const auto &c = state[s * (PART / 8) + PART / 8 - 1];
        if (key < K && x < STATE_PITCH) vtb_store2(states, to + x, c[f], c[f + 1]);
      }
      if (vector && lane % 4 == 0 && key < K) vectors_of[kept + key] = n_state[s][f];
    }
    if (!LAST && chunk == (BACKWARD ? 0 : N_CHUNKS - 1)) break;
  }
  vtb_cp_wait<STAGES - 2>();
  vtb_sync();
  find(step + 3);
  bring(step + STAGES - 1);
  /* on their way while the products go on */
  if (vtb_warp() == 7 && step + 1 < ROW_TILES) look(step + 1);
  const float all = all_of[step % 2];
  VTB_UNROLL for (int i = 0; i < STRIPS * PART / 8; i++)
    VTB_UNROLL for (int f = 0; f < 4; f++) state[i][f] *= all;
  if (NORMALIZED) {
    VTB_UNROLL for (int s = 0; s < STRIPS; s++)
      VTB_UNROLL for (int f = 0; f < 4; f++) n_state[s][f] *= all;
  }
  VTB_UNROLL for (int k = 0; k < 64; k += 16) {
    constexpr bool FP16 = FACTORS == VTB_FP16;
    constexpr int TILES = PART / 8;
    vtb_u32 w[2], x[STRIPS][4], y[4];
    VTB_UNROLL for (int i = 0; i < 2; i++) w[i] = vtb_bits(weights[now + k / 2 + 4 * i + lane % 4]);
    VTB_UNROLL for (int s = 0; s < STRIPS; s++) {
      vtb_first_16<FP16>(x[s], vtb_rows<false, PK>(ring, row, at), 16 * s, k);
      VTB_UNROLL for (int i = 0; i < 4; i++) x[s][i] = vtb_multiply_pairs<FP16>(x[s][i], w[i / 2]);
    }
    const auto value_of = vtb_columns<false, PV>(ring, column, at + 64 * PK);
    VTB_UNROLL for (int i = 0; i + 1 < TILES; i += 2) {
      vtb_second_16<FP16, true>(y, value_of, 8 * i, k);
      const vtb_u32 one[2] = {y[0], y[1]}, other[2] = {y[2], y[3]};
      VTB_UNROLL for (int s = 0; s < STRIPS; s++) {
        vtb_mma_16<FP16>(state[s * TILES + i], x[s], one);
        vtb_mma_16<FP16>(state[s * TILES + i + 1], x[s], other);
      }
    }
    if constexpr (TILES % 2 == 1) {
      vtb_second_16<FP16, false>(y, value_of, 8 * (TILES - 1), k);
      const vtb_u32 one[2] = {y[0], y[1]};
      VTB_UNROLL for (int s = 0; s < STRIPS; s++)
        vtb_mma_16<FP16>(state[s * TILES + TILES - 1], x[s], one);
    }
    if (vector) {
      vtb_u32 one[2];
      VTB_UNROLL for (int i = 0; i < 2; i++)
        one[i] = lane < 4 ? vtb_bits(ones[now + k / 2 + 4 * i + lane % 4]) : 0u;
      VTB_UNROLL for (int s = 0; s < STRIPS; s++) vtb_mma_16<FP16>(n_state[s], x[s], one);
    }
  }
  if (vtb_warp() == 7 && step + 1 < ROW_TILES) weigh(step + 1);
}
vtb_cp_wait<0>();
if (LAST) {
  VTB_UNROLL for (int s = 0; s < STRIPS; s++)
    VTB_UNROLL for (int i = 0; i < PART / 8; i++)
      VTB_UNROLL for (int f = 0; f < 4; f++) {
        const int key = k0 + row + 16 * s + lane / 4 + f / 2 * 8,
                  x = v0 + column + 8 * i + 2 * (lane % 4) + f % 2;
        const float s_of_tile = state[s * (PART / 8) + i][f];
        if (key < K && x < V) {
          const float s = s_of_tile;
          ${put_last}
        }
      }
  if (vector && lane % 4 == 0) {
    VTB_UNROLL for (int i = 0; i < 2 * STRIPS; i++) {
      const int key = k0 + row + lane / 4 + 8 * i;
      const float s = n_state[i / 2][i % 2 * 2];
      if (key < K) {
        ${put_last_n}
      }
    }
  }
}

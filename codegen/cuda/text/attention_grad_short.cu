/* The adjoints of attention to few keys, from P = exp(s - lse) and dS = P o (dY V^T - delta), delta
 * = dy . y - dlse:
 *   DQ = scale dS K     DK = scale dS^T Q     DV = P^T dY
 * A block owns a head of keys and makes every score once: K, V, Q and dY of a head lie in shared
 * memory whole, in 16 bits, a warp owns 16 keys, with their rows of dK and dV in registers, and
 * meets TILE queries after the other. P and dS, keys as rows, are factors where they are; for dQ,
 * which sums over the keys of all warps, dS goes through shared memory, and warps take turns with
 * 16 x 16 of it. Two places for dS: a barrier a tile. */
#include "products.cuh"
#include "tiles.cuh"
#include "turns.cuh"
hole int N, M;                     /* queries, keys */
hole int HEADS, SHARED;            /* heads of queries; that share one of keys */
hole int K, V;                     /* widths */
hole bool CAUSAL, BIAS;
hole bool Q_EIGHT, K_EIGHT, V_EIGHT, DY_EIGHT; /* rows can be copied eight elements at a time */
hole bool Y_FOUR, DQ_FOUR, DK_FOUR, DV_FOUR; /* four can be read (y and dy), stored */
hole int FACTORS, THREADS;
hole float SCALE;
hole type T;                       /* of tiles */
hole expr q_from, k_from, v_from, dy_from; /* addresses of the first rows, of b and head or kv */
hole int q_stride, k_stride, v_stride, dy_stride; /* from row to row */
hole expr bias;                    /* of i, j */
hole expr dlse;                    /* of b, i and head */
hole int Q_TURNED, K_TURNED;       /* channels that turn: turns.cuh */
hole bool Q_ROWS, K_ROWS;          /* they have been turned before */
hole expr q_cosines, q_sines;      /* addresses of rows of tables, of i and head */
hole expr k_cosines, k_sines;      /* of j and kv */
hole expr y_at, dy_at, lse_at;     /* offsets for i and x, of b and head */
hole expr dq_at, dk_at, dv_at;     /* for i or j and x */
constexpr int DEPTH = (K + 15) / 16 * 16, WIDTH = (V + 15) / 16 * 16, KEYS = (M + 15) / 16 * 16,
              TILE = 32;
constexpr int WARPS = KEYS / 16, TILES = (N + TILE - 1) / TILE, QUERIES = TILES * TILE,
              KV_HEADS = HEADS / SHARED;
constexpr int PK = vtb_pitch_along(DEPTH, 2), PV = vtb_pitch_along(WIDTH, 2),
              PS = vtb_pitch_along(TILE, 2);
require THREADS == 32 * WARPS && KEYS <= 256 && FACTORS >= 2 && FACTORS <= 3 && DEPTH <= 64 &&
        WIDTH <= 64;
cost tensor = 2 * SHARED * QUERIES * KEYS * (3 * DEPTH + 2 * WIDTH);
cost issue = SHARED * TILES * (WARPS * (8 * (DEPTH + WIDTH) / 7 + 110) +
                               DEPTH / 8 * (KEYS / 4 + 80)) + SHARED * QUERIES * 17 + WARPS * 500;
cost special = SHARED * QUERIES * KEYS;
cost registers = 128;
/* nobody waits before all are asked for */
cost flight = K_EIGHT && V_EIGHT && Q_EIGHT && DY_EIGHT ?
              (KEYS + QUERIES) * (DEPTH + WIDTH) * sizeof(T) : 0;
cost phases = 1;
shared T keys[KEYS * PK];
shared T values[KEYS * PV];
shared T queries[QUERIES * PK];
shared T dys[QUERIES * PV];
shared T scores[2 * KEYS * PS];
shared float sums[QUERIES], deltas[QUERIES];
constexpr float LOG2E = 1.4426950408889634f;
constexpr bool HALF = FACTORS == VTB_FP16;
const int b = vtb_block() / KV_HEADS, kv = vtb_block() % KV_HEADS, tid = vtb_tid(),
          lane = vtb_lane();
const int row = 16 * vtb_warp();
int head = kv * SHARED;
auto bias_at = [&](int i, int j) -> float { return ${bias}; };
auto lse_of = [&](int i) -> float { return lse[${lse_at}]; };
auto dlse_of = [&](int i) -> float { return ${dlse}; };
auto q_cosines_of = [&](int i) { return ${q_cosines}; };
auto q_sines_of = [&](int i) { return ${q_sines}; };
auto k_cosines_of = [&](int j) { return ${k_cosines}; };
auto k_sines_of = [&](int j) { return ${k_sines}; };
auto same = [&](int r) { return r; };

float k_sums[DEPTH / 8][4], v_sums[WIDTH / 8][4];
vtb_clear(k_sums);
vtb_clear(v_sums);
vtb_bring_rows<K_EIGHT, KEYS, DEPTH, PK, THREADS>(keys, M, K, ${k_from}, k_stride, same);
vtb_bring_rows<V_EIGHT, KEYS, WIDTH, PV, THREADS>(values, M, V, ${v_from}, v_stride, same);
VTB_NO_UNROLL for (int share = 0; share < SHARED; share++) {
head = kv * SHARED + share;
vtb_bring_rows<Q_EIGHT, QUERIES, DEPTH, PK, THREADS>(queries, N, K, ${q_from}, q_stride, same);
vtb_bring_rows<DY_EIGHT, QUERIES, WIDTH, PV, THREADS>(dys, N, V, ${dy_from}, dy_stride, same);
vtb_cp_commit();
VTB_NO_UNROLL for (int i = tid / 8; i < QUERIES; i += THREADS / 8) { /* eight lanes a query */
  float sum = 0.0f;
  if (i < N) {
    if constexpr (Y_FOUR) {
      VTB_UNROLL for (int part = 0; part < WIDTH; part += 32) {
        const int x = part + tid % 8 * 4;
        if (x >= V) continue;
        const vtb_f4 p = vtb_load4(y, ${y_at}), r = vtb_load4(dy, ${dy_at});
        sum += p.x * r.x + p.y * r.y + p.z * r.z + p.w * r.w;
      }
    } else {
      for (int x = tid % 8; x < V; x += 8) sum += y[${y_at}] * dy[${dy_at}];
    }
  }
  VTB_UNROLL for (int m = 1; m < 8; m *= 2) sum += vtb_shfl_xor(sum, m);
  if (tid % 8 == 0) {
    sums[i] = i < N ? lse_of(i) * LOG2E : VTB_INF;
    deltas[i] = i < N ? sum - dlse_of(i) : 0.0f;
  }
}
vtb_arrived();
if constexpr ((Q_TURNED > 0 && !Q_ROWS) || (K_TURNED > 0 && !K_ROWS)) {
  if constexpr (Q_TURNED > 0 && !Q_ROWS)
    vtb_turn_rows<true, QUERIES, DEPTH, PK, THREADS>(queries, N, Q_TURNED, q_cosines_of,
                                                     q_sines_of);
  if constexpr (K_TURNED > 0 && !K_ROWS)
    if (share == 0)
      vtb_turn_rows<true, KEYS, DEPTH, PK, THREADS>(keys, M, K_TURNED, k_cosines_of, k_sines_of);
  vtb_sync();
}

int unit = vtb_warp(); /* the warp's first piece of dQ in a tile; they go round */
VTB_NO_UNROLL for (int tile = 0; tile < TILES; tile++) {
  constexpr int UNITS = TILE / 16 * (DEPTH / 16);
  /* 13 warps and more have 128 registers each, and tables' addresses need some */
  constexpr int PART = WARPS > 12 || Q_TURNED + K_TURNED > 0 ? 16 : TILE;
  const int t0 = tile * TILE, place = tile % 2 * (KEYS * PS);
  VTB_NO_UNROLL for (int part = 0; part < TILE; part += PART) {
    const int i0 = t0 + part;
    float s[PART / 8][4], g[PART / 8][4];
    vtb_clear(s);
    vtb_clear(g);
    VTB_UNROLL for (int k = 0; k < DEPTH; k += 16)
      vtb_step_16<HALF, 1>(s, k, vtb_rows<true, PK>(keys, row), vtb_columns<true, PK>(queries, i0));
    vtb_each_pair<1>(s, [&](int r, int c, float &v, float &w) {
      const int i = i0 + c, j = row + r;
      if constexpr (BIAS) {
        v = (v * SCALE + (i < N && j < M ? bias_at(i, j) : 0.0f)) * LOG2E - sums[i];
        w = (w * SCALE + (i + 1 < N && j < M ? bias_at(i + 1, j) : 0.0f)) * LOG2E - sums[i + 1];
      } else {
        v = v * (SCALE * LOG2E) - sums[i];
        w = w * (SCALE * LOG2E) - sums[i + 1];
      }
      v = vtb_exp2_fast(v);
      w = vtb_exp2_fast(w);
      if ((M % 16 != 0 && j >= M) || (CAUSAL && j > i + M - N)) v = 0.0f;
      if ((M % 16 != 0 && j >= M) || (CAUSAL && j > i + 1 + M - N)) w = 0.0f;
    });
    auto score = [&](int k0) {
      return [=, &s](int r, int k) -> float { return s[k0 / 8 + k / 8][2 * (r / 8) + k % 2]; };
    };
    VTB_UNROLL for (int k = 0; k < PART; k += 16)
      vtb_step_16<HALF, 1>(v_sums, 0, score(k), vtb_columns<false, PV>(dys, 0, (i0 + k) * PV));
    VTB_UNROLL for (int k = 0; k < WIDTH; k += 16)
      vtb_step_16<HALF, 1>(g, k, vtb_rows<true, PV>(values, row), vtb_columns<true, PV>(dys, i0));
    VTB_UNROLL for (int t = 0; t < PART / 8; t++) VTB_UNROLL for (int e = 0; e < 4; e++)
        s[t][e] *= g[t][e] - deltas[i0 + 8 * t + 2 * (lane % 4) + e % 2];
    vtb_each_pair<1>(s, [&](int r, int c, float v, float w) {
      vtb_store2(scores, place + (row + r) * PS + part + c, v, w);
    });
    VTB_UNROLL for (int k = 0; k < PART; k += 16)
      vtb_step_16<HALF, 1>(k_sums, 0, score(k), vtb_columns<false, PK>(queries, 0, (i0 + k) * PK));
  }
  vtb_sync();
  VTB_NO_UNROLL for (int u = unit; u < UNITS; u += WARPS) {
    const int o0 = u % (DEPTH / 16) * 16, first = u / (DEPTH / 16) * 16, i1 = t0 + first;
    if (i1 >= N) continue;
    float out[2][4];
    vtb_clear(out);
    VTB_UNROLL for (int k = 0; k < KEYS; k += 16)
      vtb_step_16<HALF, 1>(out, k, vtb_rows<false, PS>(scores, first, place),
                           vtb_columns<false, PK>(keys, o0));
    if constexpr (Q_TURNED > 0)
      vtb_turn_back(
          out, N - i1, o0, Q_TURNED, [&](int r) { return q_cosines_of(i1 + r); },
          [&](int r) { return q_sines_of(i1 + r); });
    VTB_UNROLL for (int t = 0; t < 2; t++)
      VTB_UNROLL for (int e = 0; e < 4; e++) out[t][e] *= SCALE;
    if constexpr (DQ_FOUR) {
      VTB_UNROLL for (int e = 0; e < 4; e += 2) {
        const vtb_f4 four = vtb_four_of_sixteen(out[0][e], out[0][e + 1], out[1][e], out[1][e + 1]);
        const int i = i1 + lane / 4 + 4 * e, x = o0 + lane % 4 * 4;
        if (i < N && x < K) vtb_store4(dq, ${dq_at}, four);
      }
    } else {
      vtb_each(out, [&](int r, int o, float &value) {
        const int i = i1 + r, x = o0 + o;
        if (i < N && x < K) dq[${dq_at}] = value;
      });
    }
  }
  unit += WARPS - UNITS % WARPS;
  if (unit >= WARPS) unit -= WARPS;
}
}
if constexpr (DV_FOUR) {
  VTB_UNROLL for (int t = 0; t < WIDTH / 8; t += 2) VTB_UNROLL for (int e = 0; e < 4; e += 2) {
      const vtb_f4 four = vtb_four_of_sixteen(v_sums[t][e], v_sums[t][e + 1], v_sums[t + 1][e],
                                              v_sums[t + 1][e + 1]);
      const int j = row + lane / 4 + 4 * e, x = 8 * t + lane % 4 * 4;
      if (j < M && x < V) vtb_store4(dv, ${dv_at}, four);
  }
} else {
  vtb_each(v_sums, [&](int r, int x, float &value) {
    const int j = row + r;
    if (j < M && x < V) dv[${dv_at}] = value;
  });
}
if constexpr (K_TURNED > 0)
  vtb_turn_back(
      k_sums, M - row, 0, K_TURNED, [&](int r) { return k_cosines_of(row + r); },
      [&](int r) { return k_sines_of(row + r); });
VTB_UNROLL for (int t = 0; t < DEPTH / 8; t++)
  VTB_UNROLL for (int e = 0; e < 4; e++) k_sums[t][e] *= SCALE;
if constexpr (DK_FOUR) {
  VTB_UNROLL for (int t = 0; t < DEPTH / 8; t += 2) VTB_UNROLL for (int e = 0; e < 4; e += 2) {
      const vtb_f4 four = vtb_four_of_sixteen(k_sums[t][e], k_sums[t][e + 1], k_sums[t + 1][e],
                                              k_sums[t + 1][e + 1]);
      const int j = row + lane / 4 + 4 * e, x = 8 * t + lane % 4 * 4;
      if (j < M && x < K) vtb_store4(dk, ${dk_at}, four);
  }
} else {
  vtb_each(k_sums, [&](int r, int x, float &value) {
    const int j = row + r;
    if (j < M && x < K) dk[${dk_at}] = value;
  });
}

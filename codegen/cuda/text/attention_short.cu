/* softmax(scale q k^T + bias) v for few keys: K and V of a head lie in shared memory whole, a warp
 * owns strips of 16 queries, whose scores with all keys, or half of many, are in its registers:
 * nothing waits between the two products. Scores are the second product's factor where they are:
 * its depth takes keys in the order in which a lane holds them. A strip's queries come to a place
 * of the warp's own, the next one's while it still works. */
#include "products.cuh"
#include "tiles.cuh"
#include "turns.cuh"
hole int N, M;                     /* queries, keys */
hole int HEADS, SHARED;            /* heads of queries; that share one of keys */
hole int K, V;                     /* widths */
hole bool CAUSAL, BIAS;
hole bool Q_EIGHT, K_EIGHT, V_EIGHT; /* rows can be copied eight elements at a time */
hole bool Y_FOUR;                  /* four can be stored */
hole int FACTORS, THREADS;
hole float SCALE;
hole expr q_from, k_from, v_from;  /* addresses of the first rows, of b and head or kv */
hole int q_stride, k_stride, v_stride; /* from row to row */
hole expr bias;                    /* of i, j */
hole int ROWS;                     /* queries of a block */
hole type T, TQ;                   /* of tiles, and of queries */
hole int Q_TURNED, K_TURNED;       /* channels of queries and keys that turn: turns.cuh */
hole expr q_cosines, q_sines;      /* addresses of rows of tables, of i and head */
hole expr k_cosines, k_sines;      /* of j and kv */
hole expr y_at, lse_at;            /* offsets for i and x, of b and head */
constexpr int WIDTH = (V + 15) / 16 * 16, DEPTH = (K + 15) / 16 * 16, KEYS = (M + 15) / 16 * 16;
constexpr int ROW_BLOCKS = (N + ROWS - 1) / ROWS, STEP = vtb_depth(FACTORS);
constexpr int PK = vtb_pitch_along(DEPTH, sizeof(T)), PV = vtb_pitch_across(WIDTH),
              PQ = vtb_pitch_along(DEPTH, sizeof(TQ));
require ROWS % 16 == 0;
cost tensor = 2 * ROWS * KEYS * (DEPTH + WIDTH);
cost issue = ROWS / 16 * (KEYS * (DEPTH + WIDTH) / 29 + 7 * KEYS / 4 + 5 * WIDTH / 2 + 150) +
             KEYS * (DEPTH + WIDTH) / 60;
cost special = ROWS * KEYS;
cost registers = WIDTH > 64 ? 168 : 128;
/* nobody waits before all are asked for */
cost flight = K_EIGHT && V_EIGHT ? KEYS * (DEPTH + WIDTH) * sizeof(T) : 0;
cost phases = 1;
shared T keys[KEYS * PK];
shared T values[KEYS * PV];
shared TQ queries[THREADS / 2 * PQ];
constexpr bool STAGED_BIAS = BIAS && KEYS <= 64; /* a strip's, read along its rows */
constexpr int PB = KEYS + 8;
shared float biases[STAGED_BIAS ? THREADS / 2 * PB : 1];
constexpr float LOG2E = 1.4426950408889634f;
constexpr bool PLAIN = !BIAS && SCALE > 0.0f; /* the scale is part of the exponent */
const int bh = vtb_block() / ROW_BLOCKS, b = bh / HEADS, head = bh % HEADS, kv = head / SHARED;
const int first = vtb_block() % ROW_BLOCKS * ROWS, end = vtb_min_int(first + ROWS, N);
const int own = 16 * vtb_warp() * PQ, lane = vtb_lane();
auto same = [&](int r) { return r; };
auto bias_at = [&](int i, int j) -> float { return ${bias}; };
auto q_cosines_of = [&](int i) { return ${q_cosines}; };
auto q_sines_of = [&](int i) { return ${q_sines}; };
auto k_cosines_of = [&](int j) { return ${k_cosines}; };
auto k_sines_of = [&](int j) { return ${k_sines}; };
const auto q_rows = ${q_from};
/* a strip, by its warp */
auto bring = [&](int i0) {
  if (i0 < end)
    vtb_bring_rows<Q_EIGHT, 16, DEPTH, PQ, 32>(
        queries + own, end - i0, K, q_rows + (vtb_i64)i0 * q_stride, q_stride, same, lane);
  vtb_cp_commit();
};
int i0 = first + 16 * vtb_warp();
bring(i0);
vtb_bring_rows<K_EIGHT, KEYS, DEPTH, PK, THREADS>(keys, M, K, ${k_from}, k_stride, same);
vtb_cp_commit();
vtb_bring_rows<V_EIGHT, KEYS, WIDTH, PV, THREADS>(values, M, V, ${v_from}, v_stride, same);
vtb_cp_commit();
if constexpr (K_TURNED > 0) { /* the values may still be on their way */
  vtb_cp_wait<1>();
  vtb_sync();
  vtb_turn_rows<true, KEYS, DEPTH, PK, THREADS>(keys, M, K_TURNED, k_cosines_of, k_sines_of);
}
vtb_arrived();

/* of many: registers for two blocks a multiprocessor */
constexpr int PART = KEYS > 128 ? (KEYS / 2 + 15) / 16 * 16 : KEYS;
constexpr float UNIT = PLAIN ? SCALE * LOG2E : LOG2E;
VTB_NO_UNROLL for (; i0 < end; i0 += THREADS / 2) {
  float top[2] = {-VTB_INF, -VTB_INF}, sum[2] = {0.0f, 0.0f}, out[WIDTH / 8][4];
  vtb_clear(out);
  vtb_cp_wait<0>();
  vtb_sync_warp();
  if constexpr (Q_TURNED > 0) {
    vtb_turn_rows<true, 16, DEPTH, PQ, 32>(
        queries + own, vtb_min_int(end - i0, 16), Q_TURNED,
        [&](int r) { return q_cosines_of(i0 + r); }, [&](int r) { return q_sines_of(i0 + r); },
        lane);
    vtb_sync_warp();
  }
  if constexpr (STAGED_BIAS) {
    VTB_NO_UNROLL for (int e = 4 * lane; e < 16 * KEYS; e += 128)
      VTB_UNROLL for (int part = 0; part < 4; part++) {
        const int at = e - 4 * lane + 32 * part + lane, i = i0 + at / KEYS, j = at % KEYS;
        biases[(16 * vtb_warp() + at / KEYS) * PB + j] = i < end && j < M ? bias_at(i, j) : 0.0f;
      }
    vtb_sync_warp();
  }
  /* keys from ... to */
  auto meet = [&](auto from, auto to) {
    constexpr int J0 = decltype(from)::value, COUNT = decltype(to)::value - J0;
    float s[COUNT / 8][4], low[2];
    vtb_clear(s);
    vtb_product<FACTORS, DEPTH>(s, vtb_rows<true, PQ>(queries, 0, own),
                                vtb_columns<true, PK>(keys, J0));
    if constexpr (J0 + COUNT == KEYS) {
      vtb_sync_warp();
      bring(i0 + THREADS / 2);
    }
    const float before[2] = {top[0], top[1]};
    VTB_UNROLL for (int t = 0; t < COUNT / 8; t++) VTB_UNROLL for (int e = 0; e < 4; e++) {
      const int i = i0 + lane / 4 + 8 * (e / 2), j = J0 + 8 * t + 2 * (lane % 4) + e % 2;
      float &v = s[t][e];
      if constexpr (!PLAIN) v *= SCALE;
      if ((J0 + 8 * t + 8 > M && j >= M) || (CAUSAL && j > i + M - N))
        v = -VTB_INF;
      else if constexpr (STAGED_BIAS)
        v += biases[(16 * vtb_warp() + i - i0) * PB + j];
      else if (BIAS && i < end)
        v += bias_at(i, j);
      top[e / 2] = vtb_max(top[e / 2], v);
    }
    VTB_UNROLL for (int e = 0; e < 2; e++) {
      top[e] = vtb_quad_max(top[e]);
      /* no key so far: exponents of -infinity, not NaN */
      low[e] = top[e] == -VTB_INF ? 0.0f : top[e] * UNIT;
      if constexpr (J0 > 0) {
        const float shrink = vtb_exp2_fast(before[e] * UNIT - low[e]);
        sum[e] *= shrink;
        VTB_UNROLL for (int t = 0; t < WIDTH / 8; t++)
          out[t][2 * e] *= shrink, out[t][2 * e + 1] *= shrink;
      }
    }
    vtb_each(s, [&](int r, int, float &v) {
      v = vtb_exp2_fast(v * UNIT - low[r / 8]);
      sum[r / 8] += v;
    });
    VTB_UNROLL for (int k0 = 0; k0 < COUNT; k0 += STEP) {
      auto score = [&](int r, int k) -> float {
        return s[k0 / 8 + k / 8][2 * (r / 8) + (STEP == 16 ? k % 2 : k % 8 / 4)];
      };
      if constexpr (STEP == 16)
        vtb_product<FACTORS, STEP>(out, score, vtb_columns<false, PV>(values, 0, (J0 + k0) * PV));
      else
        vtb_product<FACTORS, 8>(out, score, [&](int k, int o) -> float {
          return values[(J0 + k0 + 2 * (k % 4) + k / 4) * PV + o];
        });
    }
  };
  meet(vtb_int<0>(), vtb_int<PART>());
  if constexpr (PART < KEYS) meet(vtb_int<PART % KEYS>(), vtb_int<KEYS>());
  float share[2];
  VTB_UNROLL for (int e = 0; e < 2; e++) {
    sum[e] = vtb_quad_sum(sum[e]);
    share[e] = sum[e] == 0.0f ? 0.0f : 1.0f / sum[e];
  }
  vtb_each(out, [&](int r, int, float &v) { v *= share[r / 8]; });
  if constexpr (Y_FOUR) {
    VTB_UNROLL for (int t = 0; t < WIDTH / 8; t += 2) VTB_UNROLL for (int e = 0; e < 4; e += 2) {
        const vtb_f4 four =
            vtb_four_of_sixteen(out[t][e], out[t][e + 1], out[t + 1][e], out[t + 1][e + 1]);
        const int i = i0 + lane / 4 + 4 * e, x = 8 * t + lane % 4 * 4;
        if (i < end && x < V) vtb_store4(y, ${y_at}, four);
    }
  } else {
    vtb_each(out, [&](int r, int x, float &value) {
      const int i = i0 + r;
      if (i < end && x < V) y[${y_at}] = value;
    });
  }
  if (lane % 4 == 0) {
    VTB_UNROLL for (int e = 0; e < 2; e++) {
      const int i = i0 + lane / 4 + 8 * e;
      if (i < end)
        lse[${lse_at}] =
            sum[e] == 0.0f ? VTB_INF : top[e] * (PLAIN ? SCALE : 1.0f) + vtb_log(sum[e]);
    }
  }
}

/* linscan_grad token by token, classes key, value and full, in every mode.
 *
 * First a task runs forward and keeps the state at every segment boundary; then, from the last
 * segment to the first, it recomputes the states inside the segment and runs the adjoint
 *   P_t = q_t dy_t^T + D_{t+1} o P_{t+1}
 *   dq_t = S_t dy_t     dk_t = P_t v_t     dv_t = P_t^T k_t
 *   dD_t = P_t o S_{t-1}, summed over the axes D does not have
 * Segments are about sqrt(N) long, which keeps the fewest states. What sums over V (dq, dk, dd of
 * class key) goes to partial sums of one tile each, added in order by a second task.
 */
#include "codegen/cpu/text/steps.h"

hole long SEGMENT; /* tokens */
#define SEGMENTS quotient(TOKENS + SEGMENT - 1, SEGMENT)
#define STATE (K * LD)
#define BY_VALUE (ALONG_VALUE && !ALONG_KEY)
enum { DQ, DK, DD };
#define SUMS (ALONG_KEY && !ALONG_VALUE ? DD + 1 : DK + 1) /* what sums over V */

typedef struct arrays {
  float *v, *d, *dy, *dv, *dd;      /* rows of the tile */
  float *bounds, *inside, *adjoint; /* states: before each segment, within one, P */
  float *sums;                      /* [SUMS, padded K, W]: vectors to be summed across */
} arrays;
static inline arrays lay_out(memory *m) {
  arrays a = {.v = take(m, LD), .d = take(m, LD), .dy = take(m, LD)};
  a.dv = take(m, LD), a.dd = take(m, LD);
  a.bounds = take(m, SEGMENTS * STATE), a.inside = take(m, (SEGMENT + 1) * STATE);
  a.adjoint = take(m, STATE), a.sums = take(m, SUMS * round_up(K, W) * W);
  return a;
}

/* Of temporary memory: [tile, sum, B, N, h, K]. */
long temp_bytes(void) {
  return TILES > 1 ? TILES * SUMS * BATCH * TOKENS * HEADS * K * (long)sizeof(float) : 0;
}
static inline float *partial_row(char *temp, long tile, int sum, const scan *s, long pos) {
  const long at = ((tile * SUMS + sum) * BATCH + s->batch) * TOKENS + pos;
  return (float *)temp + (at * HEADS + s->head) * K;
}
static inline int result_of(int sum) { return sum == DQ ? AT_DQ : sum == DK ? AT_DK : AT_DD; }

typedef struct backward {
  steps g;
  arrays a;
  long pos;
  const float *now, *before; /* S_t, S_{t-1} */
} backward;

static inline float *sums_of(const backward *b, int sum) {
  return b->a.sums + sum * round_up(K, W) * W;
}

static inline void run_step(const steps *g, long pos, const float *prev, float *next) {
  const step a = {g, pos, prev, next, 0};
  load_rows(g, pos);
  EACH_GROUP(&g->c, 4, advance_vectors, &a);
}

/* The state before each segment. */
static inline void run_forward(const backward *b) {
  if (INIT)
    pack_state(&b->g.c, &b->g.s, b->a.bounds, AT_S0, AT_N0, LD);
  else
    fill(b->a.bounds, 0, STATE);
  for (long i = 1; i < SEGMENTS; i++) {
    float *state = b->a.bounds + i * STATE;
    copy(state, state - STATE, STATE);
    for (long t = (i - 1) * SEGMENT; t < i * SEGMENT; t++) run_step(&b->g, place(t), state, state);
  }
}

static inline void add_to(float *at, vf x) { store(at, load(at) + x); }

/* All keys for a few vectors of V: dv and dd of class value are complete afterwards, the sums over
 * V have grown. */
static inline void adjoint_vectors(const backward *b, long j, int vectors, long left) {
  const steps *g = &b->g;
  const float *keys = row(&g->s, AT_K, b->pos), *queries = row(&g->s, AT_Q, b->pos);
  vf v[2], dy[2], dv[2], dd[2], to_q[2], to_k[2], to_d[2];
  UNROLL for (int i = 0; i < vectors; i++) {
    v[i] = load(g->v + j + i * W);
    dy[i] = load(b->a.dy + j + i * W);
    dv[i] = dd[i] = 0;
  }
  for (long k = 0; k < K; k++) {
    const vf key = (vf)keys[k], query = (vf)queries[k];
    UNROLL for (int i = 0; i < vectors; i++) {
      const long at = k * LD + j + i * W;
      const vf p = fma(query, dy[i], load(b->a.adjoint + at));
      to_q[i] = load(b->now + at) * dy[i];
      to_k[i] = p * v[i];
      to_d[i] = p * load(b->before + at);
      dv[i] = fma(p, key, dv[i]);
      if (BY_VALUE) dd[i] += to_d[i];
      if (ALONG_KEY && ALONG_VALUE) {
        float *out = row(&g->s, AT_DD, b->pos) + k * STRIDE[AT_DD][3];
        out += (g->c.from + j + i * W) * STRIDE[AT_DD][4];
        store_some(out, to_d[i], left);
      }
      store(b->a.adjoint + at, decay_at(g, b->pos, k, j + i * W, left) * p);
    }
    add_to(sums_of(b, DQ) + k * W, vectors > 1 ? to_q[0] + to_q[1] : to_q[0]);
    add_to(sums_of(b, DK) + k * W, vectors > 1 ? to_k[0] + to_k[1] : to_k[0]);
    if (SUMS > DD) add_to(sums_of(b, DD) + k * W, vectors > 1 ? to_d[0] + to_d[1] : to_d[0]);
  }
  UNROLL for (int i = 0; i < vectors; i++) {
    store(b->a.dv + j + i * W, dv[i]);
    if (BY_VALUE) store(b->a.dd + j + i * W, dd[i]);
  }
}

static inline void store_sums(const backward *b, char *temp, long tile) {
  UNROLL for (int sum = 0; sum < SUMS; sum++) {
    float *out = TILES > 1 ? partial_row(temp, tile, sum, &b->g.s, b->pos)
                           : row(&b->g.s, result_of(sum), b->pos);
    for (long k = 0; k < K; k += W) {
      vf r[W];
      UNROLL for (int i = 0; i < W; i++) r[i] = load(sums_of(b, sum) + (k + i) * W);
      const vf x = sum_rows(r);
      store_some(out + k, x, K % W ? K - k : 0);
    }
  }
}

/* `before`: the state before the step at pos; the one after it lies behind. */
static inline void step_back(backward *b, long pos, const float *before, char *temp, long tile) {
  const scan *s = &b->g.s;
  b->pos = pos;
  b->before = before;
  b->now = before + STATE;
  load_rows(&b->g, pos);
  pack_row(&b->g.c, b->a.dy, row(s, AT_DY, pos), NORMALIZER ? *row(s, AT_DZ, pos) : 0);
  fill(b->a.sums, 0, SUMS * round_up(K, W) * W);
  EACH_GROUP(&b->g.c, 2, adjoint_vectors, b);
  store_sums(b, temp, tile);
  unpack_row(&b->g.c, row(s, AT_DV, pos), 0, b->a.dv);
  if (BY_VALUE) unpack_row(&b->g.c, row(s, AT_DD, pos), 0, b->a.dd);
}

TASK(steps, BATCH *HEADS *TILES, 1, BYTES_OF(lay_out)) {
  memory own = {scratch, 0};
  backward b = {.a = lay_out(&own)};
  b.g = steps_at(t, index, b.a.v, b.a.d);
  run_forward(&b);
  if (DLAST)
    pack_state(&b.g.c, &b.g.s, b.a.adjoint, AT_DS, AT_DN, LD);
  else
    fill(b.a.adjoint, 0, STATE);
  for (long segment = SEGMENTS - 1; segment >= 0; segment--) {
    const long t0 = segment * SEGMENT, n = least(TOKENS - t0, SEGMENT);
    copy(b.a.inside, b.a.bounds + segment * STATE, STATE);
    for (long i = 0; i < n; i++)
      run_step(&b.g, place(t0 + i), b.a.inside + i * STATE, b.a.inside + (i + 1) * STATE);
    for (long i = n - 1; i >= 0; i--)
      step_back(&b, place(t0 + i), b.a.inside + i * STATE, temp, remainder(index, TILES));
  }
  if (INIT) unpack_state(&b.g.c, &b.g.s, AT_DS0, AT_DN0, b.a.adjoint, LD);
}

/* dq, dk, dd of every token: the tiles' partial sums, added in order. */
TASK(sum, TILES > 1 ? BATCH * TOKENS : 0, 16, 0) {
  const long pos = remainder(index, TOKENS);
  for (long head = 0; head < HEADS; head++) {
    const scan s = {t, quotient(index, TOKENS), head};
    UNROLL for (int sum = 0; sum < SUMS; sum++) {
      float *out = row(&s, result_of(sum), pos);
      for (long k = 0; k < K; k++) {
        float total = 0;
        for (long tile = 0; tile < TILES; tile++) total += partial_row(temp, tile, sum, &s, pos)[k];
        out[k] = total;
      }
    }
  }
}

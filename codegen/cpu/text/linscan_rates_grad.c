/* linscan_grad of class rates: see rates.h. With D_t = exp(d_t A), W_t = D_t o S_{t-1}, S_t = W_t +
 * k_t v_t^T,
 *
 *   P_t  = q_t dy_t^T + D_{t+1} o P_{t+1}     X_t = P_t o W_t
 *   dq_t = S_t dy_t     dk_t = P_t v_t        dv_t = P_t^T k_t
 *   dd_t = sum over keys of X_t o A           dA = sum over t of X_t d_t
 *
 * X is the adjoint of log D: W carries the decay, so nothing is divided and nothing cancels.
 *
 * A task owns one batch entry, one head and a group of tiles of V. Pass 1 runs the recurrence and
 * keeps the state before every chunk. Pass 2 takes the chunks from the last to the first: for each
 * tile it runs the chunk again, keeping D and W in scratch memory, and walks it back. dq and dk sum
 * over V: each group adds its tiles to rows of its own, and a second task adds the groups; a third
 * adds the batch entries of dA. All orders are fixed by the shapes.
 */
#include "codegen/cpu/text/rates.h"

hole long GROUP;               /* tiles of a task */
#define CHUNK least(TOKENS, 8) /* tokens */
#define CHUNKS quotient(TOKENS + CHUNK - 1, CHUNK)
#define GROUPS quotient(TILES + GROUP - 1, GROUP)
#define PADDED_K round_up(K, W)
#define ROWS (K * LANES) /* floats of all rows of a tile */

/* Of scratch memory: states before the chunks, P, dA, of each tile of the group; D and W of a block
 * of keys at every step of a chunk. */
typedef struct arrays {
  float *bounds, *adjoint, *drates, *decay, *kept;
} arrays;
static inline arrays lay_out(memory *m) {
  return (arrays){take(m, GROUP * CHUNKS * ROWS), take(m, GROUP * ROWS), take(m, GROUP * ROWS),
                  take(m, CHUNK * KEYS * LANES), take(m, CHUNK * KEYS * LANES)};
}

/* Of temporary memory: dq, dk [2, groups, B, h, N, padded K]; dA [B, h, tiles, K, LANES]. */
typedef struct shared {
  float *sums, *drates;
} shared;
static inline shared lay_out_shared(memory *m) {
  return (shared){take(m, 2 * GROUPS * BATCH * HEADS * TOKENS * PADDED_K),
                  take(m, BATCH * HEADS * TILES * ROWS)};
}
long temp_bytes(void) { return BYTES_OF(lay_out_shared); }

enum { DQ, DK };
static inline float *sum_row(const shared *to, int which, long group, const scan *s, long pos) {
  const long bh = ((which * GROUPS + group) * BATCH + s->batch) * HEADS + s->head;
  return to->sums + (bh * TOKENS + pos) * PADDED_K;
}
static inline float *drates_of(const shared *to, long batch, long head, long tile) {
  return to->drates + ((batch * HEADS + head) * TILES + tile) * ROWS;
}

typedef struct backward {
  rates g;
  arrays a;
  shared to;
  long group, own;  /* the group's number, the tile's in it */
  long t0, n_steps; /* the chunk's tokens */
} backward;

static inline float *bound(const backward *b, long chunk) {
  return b->a.bounds + (b->own * CHUNKS + chunk) * ROWS;
}
static inline void at_tile(backward *b, long own) {
  b->own = own;
  b->g.from = (b->group * GROUP + own) * LANES;
}

/* ---- pass 1 ---------------------------------------------------------------------------------- */

static inline void advance_block(const backward *b, long k0, int n, _Bool first) {
  for (long chunk = 1; chunk < CHUNKS; chunk++) {
    const run r = {(chunk - 1) * CHUNK, CHUNK, bound(b, chunk - 1), bound(b, chunk), 0};
    advance(&b->g, &r, k0, n, first);
  }
}

static inline void run_forward(const backward *b) {
  for (long k = 0; k < K; k++) {
    const long at = b->own * ROWS + k * LANES;
    store_16(bound(b, 0) + k * LANES, INIT ? load_tile(&b->g, state_row(&b->g.s, AT_S0, k)) : 0);
    store_16(b->a.adjoint + at, DLAST ? load_tile(&b->g, state_row(&b->g.s, AT_DS, k)) : 0);
    store_16(b->a.drates + at, 0);
  }
  EACH_BLOCK(advance_block, b);
}

/* ---- pass 2 ---------------------------------------------------------------------------------- */

/* The chunk once more; D and W of every step are kept. */
static inline void recompute(const backward *b, long k0, int n) {
  const float *from = bound(b, quotient(b->t0, CHUNK)) + k0 * LANES;
  v16 exponents[KEYS], decay[KEYS], state[KEYS];
  exponents_of(&b->g, k0, n, exponents);
  UNROLL for (int k = 0; k < n; k++) state[k] = load_16(from + k * LANES);
  for (long step = 0; step < b->n_steps; step++) {
    const long pos = place(b->t0 + step);
    const float *keys = row(&b->g.s, AT_K, pos) + k0;
    const v16 v = load_tile(&b->g, row(&b->g.s, AT_V, pos));
    decays_of(load_tile(&b->g, row(&b->g.s, AT_D, pos)), exponents, n, decay);
    UNROLL for (int k = 0; k < n; k++) {
      const v16 kept = decay[k] * state[k];
      store_16(b->a.decay + (step * KEYS + k) * LANES, decay[k]);
      store_16(b->a.kept + (step * KEYS + k) * LANES, kept);
      state[k] = fma((v16)keys[k], v, kept);
    }
  }
}

/* The lanes of x as one vector of the machine. */
static inline vf fold_lanes(v16 x) {
#if VTB_W == 16
  return x;
#elif VTB_W == 8
  return x.lo + x.hi;
#else
  return (x.lo + x.hi).lo + (x.lo + x.hi).hi;
#endif
}

/* Adds the lane sums of n vectors to a row of sums; the group's first tile overwrites it. */
static inline void add_sums(const backward *b, vf *x, int n, float *to) {
  UNROLL for (int i = n; i < W; i++) x[i] = 0;
  const vf sum = sum_rows(x), more = sum + load(to);
  store(to, b->own == 0 ? sum : more);
}

static inline void step_back(const backward *b, long k0, int n, _Bool first) {
  const scan *s = &b->g.s;
  float *adjoint = b->a.adjoint + b->own * ROWS + k0 * LANES;
  float *drates = b->a.drates + b->own * ROWS + k0 * LANES;
  v16 p[KEYS], drate[KEYS], rate[KEYS];
  vf to_q[W], to_k[W];
  UNROLL for (int k = 0; k < n; k++) {
    rate[k] = load_tile(&b->g, rate_row(&b->g, k0 + k));
    p[k] = load_16(adjoint + k * LANES);
    drate[k] = load_16(drates + k * LANES);
  }
  for (long step = b->n_steps - 1; step >= 0; step--) {
    const long pos = place(b->t0 + step);
    const float *keys = row(s, AT_K, pos) + k0, *queries = row(s, AT_Q, pos) + k0;
    const float *decays = b->a.decay + step * KEYS * LANES, *kept = b->a.kept + step * KEYS * LANES;
    const v16 v = load_tile(&b->g, row(s, AT_V, pos)), dy = load_tile(&b->g, row(s, AT_DY, pos));
    const v16 size = load_tile(&b->g, row(s, AT_D, pos));
    float *dq = sum_row(&b->to, DQ, b->group, s, pos) + k0;
    float *dk = sum_row(&b->to, DK, b->group, s, pos) + k0;
    v16 dv = 0, dd = 0;
    UNROLL for (int k = 0; k < n; k++) {
      const v16 d = load_16(decays + k * LANES), w = load_16(kept + k * LANES);
      const v16 key = keys[k], now = fma((v16)queries[k], dy, p[k]);
      to_q[k % W] = fold_lanes(fma(key, v, w) * dy);
      to_k[k % W] = fold_lanes(now * v);
      dv = fma(now, key, dv);
      const v16 x = now * w;
      dd = fma(x, rate[k], dd);
      drate[k] = fma(x, size, drate[k]);
      p[k] = now * d;
      /* summed as soon as they are whole: no register is left to keep them */
      if (k % W + 1 == W || k + 1 == n) {
        add_sums(b, to_q, k % W + 1, dq + k / W * W);
        add_sums(b, to_k, k % W + 1, dk + k / W * W);
      }
    }
    accumulate(&b->g, row(s, AT_DV, pos), dv, first);
    accumulate(&b->g, row(s, AT_DD, pos), dd, first);
  }
  UNROLL for (int k = 0; k < n; k++) {
    store_16(adjoint + k * LANES, p[k]);
    store_16(drates + k * LANES, drate[k]);
  }
}

static inline void back_block(const backward *b, long k0, int n, _Bool first) {
  recompute(b, k0, n);
  step_back(b, k0, n, first);
}

TASK(rates, BATCH *HEADS *GROUPS, 1, BYTES_OF(lay_out)) {
  memory own = {scratch, 0}, all = {temp, 0};
  backward b = {.a = lay_out(&own), .to = lay_out_shared(&all)};
  b.g.s = scan_at(t, quotient(index, GROUPS));
  b.group = remainder(index, GROUPS);
  const long n_tiles = least(TILES - b.group * GROUP, GROUP);
  for (long i = 0; i < n_tiles; i++) {
    at_tile(&b, i);
    run_forward(&b);
  }
  for (long chunk = CHUNKS - 1; chunk >= 0; chunk--) {
    b.t0 = chunk * CHUNK;
    b.n_steps = least(TOKENS - b.t0, CHUNK);
    for (long i = 0; i < n_tiles; i++) {
      at_tile(&b, i);
      EACH_BLOCK(back_block, &b);
    }
  }
  for (long i = 0; i < n_tiles; i++) {
    at_tile(&b, i);
    float *to = drates_of(&b.to, b.g.s.batch, b.g.s.head, b.group * GROUP + i);
    for (long k = 0; k < K; k++) {
      const long at = i * ROWS + k * LANES;
      if (INIT) store_tile(&b.g, state_row(&b.g.s, AT_DS0, k), load_16(b.a.adjoint + at));
      store_16(to + k * LANES, load_16(b.a.drates + at));
    }
  }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* dq and dk of every token: the groups, added in order. */
TASK(groups, BATCH *TOKENS, 16, 0) {
  memory all = {temp, 0};
  const shared from = lay_out_shared(&all);
  const long pos = remainder(index, TOKENS);
  for (long head = 0; head < HEADS; head++) {
    const scan s = {t, quotient(index, TOKENS), head};
    UNROLL for (int which = DQ; which <= DK; which++) {
      float *out = row(&s, which == DQ ? AT_DQ : AT_DK, pos);
      for (long k = 0; k < K; k += W) {
        vf sum = 0;
        for (long i = 0; i < GROUPS; i++) sum += load(sum_row(&from, which, i, &s, pos) + k);
        store_some(out + k, sum, K % W ? K - k : 0);
      }
    }
  }
}
/* dA: the batch entries, added in order. */
TASK(batch, HEADS *TILES, 1, 0) {
  memory all = {temp, 0};
  const shared from = lay_out_shared(&all);
  const long head = quotient(index, TILES), tile = remainder(index, TILES);
  const rates g = {{t, 0, head}, tile * LANES};
  float *out = t[AT_DRATES] + head * STRIDE[AT_DRATES][0];
  for (long k = 0; k < K; k++) {
    v16 sum = 0;
    for (long i = 0; i < BATCH; i++) sum += load_16(drates_of(&from, i, head, tile) + k * LANES);
    store_tile(&g, out + k * STRIDE[AT_DRATES][1], sum);
  }
}

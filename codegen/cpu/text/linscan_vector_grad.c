/* linscan_grad, classes key and value, as products of matrices. Names x, z, a, b, c, e: direct.h.
 *
 * A task owns one batch entry and one head. Pass 1 keeps the state before every chunk, [Z, x] so
 * that decays run along rows; pass 2 walks the chunks backwards, keeps the state before every
 * sub-block of one chunk, and takes the sub-blocks from the last with the adjoint G [Z, x] of the
 * state after it. Inside one, with a' = pre o a, b' = suf o b, S before:
 *   da   = sums of N W b + pre o (c S)        db   = sums of N W a + suf o (e G)
 *   de^T = G b'^T + c^T M                     dc^T = S a'^T + e^T M^T
 *   G <- whole o G + c^T a'
 * of which class key wants da, db, de, and class value db, de, dc (the other one is y). Between
 * sub-blocks everything passes through states: fewer multiplications than pairs of tokens, and the
 * same sums for the decays.
 *
 * Decays. A term of the loss that carries the factor d_r[x] contributes itself over d_r[x], so dd_r
 * is over d_r the sum of
 *   inner_r
 *   + sum over t >= r of a'_t o (c_t S)
 *   + sum over j < r of b'_j o (e_j G)
 *   + whole o (sum over z of S o G)
 * Sums add terms and never take any away; decays below FLOOR are replaced by it throughout: see
 * linscan_products_grad.c.
 */
#include "codegen/cpu/text/direct.h"

#define FLOOR (float)1e-18
#define X (ALONG_KEY ? K : V)
#define Z (ALONG_KEY ? V + NORMALIZER : K) /* counts the normalizer */
#define AT_A (ALONG_KEY ? AT_Q : AT_DY)
#define AT_B (ALONG_KEY ? AT_K : AT_V)
#define AT_C (ALONG_KEY ? AT_DY : AT_Q)
#define AT_E (ALONG_KEY ? AT_V : AT_K)
#define N_X round_up(X, W) /* floats of a padded row */
#define LD_X row_length(X)
#define LD_Z row_length(Z)
#define STATE (Z * LD_X)
#define CHUNKS quotient(TOKENS + CHUNK - 1, CHUNK)
#define SUBS quotient(CHUNK + SUB - 1, SUB)

typedef struct arrays {
  float *a, *b, *ax, *bx, *d, *pre, *suf, *sc, *ge, *da, *db, *inner; /* [SUB, LD_X] */
  float *c, *e, *out_z;                                               /* [SUB, LD_Z] */
  float *bt, *at, *et, *out_zt;            /* transposed: [X, SUB], [Z, SUB] */
  float *m, *n, *mt;                       /* [SUB, SUB] */
  float *whole, *passing;                  /* [LD_X] */
  float *states, *subs, *adjoint, *square; /* [..., Z, LD_X]; K rows of the state as stored */
} arrays;
static inline arrays lay_out(memory *m) {
  const long x = SUB * LD_X, z = SUB * LD_Z, pairs = SUB * SUB;
  arrays a;
  a.a = take(m, x), a.b = take(m, x), a.ax = take(m, x), a.bx = take(m, x), a.d = take(m, x);
  a.pre = take(m, x), a.suf = take(m, x), a.sc = take(m, x), a.ge = take(m, x);
  a.da = take(m, x), a.db = take(m, x), a.inner = take(m, x);
  a.c = take(m, z), a.e = take(m, z), a.out_z = take(m, z);
  a.bt = take(m, X * SUB), a.at = take(m, X * SUB);
  a.et = take(m, Z * SUB), a.out_zt = take(m, Z * SUB);
  a.m = take(m, pairs), a.n = take(m, pairs), a.mt = take(m, pairs);
  a.whole = take(m, LD_X), a.passing = take(m, LD_X);
  a.states = take(m, CHUNKS * STATE), a.subs = take(m, SUBS * STATE);
  a.adjoint = take(m, STATE), a.square = take(m, K * (ALONG_KEY ? LD_Z : LD_X));
  return a;
}

typedef struct backward {
  scan s;
  cols x, z;
  arrays a;
} backward;

static inline decays decays_of(const backward *g, long n) {
  return (decays){g->a.d, g->a.pre, g->a.suf, g->a.whole, LD_X, n, quotient(N_X, W), 0};
}

/* out = beta out + A B; B and out are rows along x, or [..., SUB] with columns up to n. */
static inline void product(const float *a, long a_row, long a_col, const float *b, float beta,
                           float *out, long m, long k) {
  vtb_product(a, a_row, a_col, b, LD_X, beta, out, LD_X, m, quotient(N_X, W), k);
}
static inline void product_sub(const float *a, long a_row, long a_col, const float *b, float beta,
                               float *out, long m, long n, long k) {
  vtb_product(a, a_row, a_col, b, SUB, beta, out, SUB, m, quotient(n + W - 1, W), k);
}

static inline void pack_x(const backward *g, float *out, int tensor, long t0, long n) {
  pack_tokens(&g->x, &g->s, out, LD_X, tensor, tensor == AT_V ? -1 : AT_DZ, t0, n);
}
static inline void pack_z(const backward *g, float *out, int tensor, long t0, long n) {
  pack_tokens(&g->z, &g->s, out, LD_Z, tensor, tensor == AT_V ? -1 : AT_DZ, t0, n);
}

/* The factors that move the state over n tokens from t0 on: b, e, decays and their products, b'. */
static inline void load_keys(const backward *g, long t0, long n) {
  const arrays *a = &g->a;
  const decays d = decays_of(g, n);
  pack_x(g, a->b, AT_B, t0, n);
  pack_z(g, a->e, AT_E, t0, n);
  pack_x(g, a->d, AT_D, t0, n);
  direct_factors(&d, FLOOR);
  rows_times(a->bx, a->b, a->suf, LD_X, LD_X, n, d.n_vectors);
}

/* to = the state n tokens after `from`, which may be the same. */
static inline void advance(const backward *g, const float *from, float *to, long t0, long n) {
  load_keys(g, t0, n);
  rows_times(to, from, g->a.whole, LD_X, 0, Z, quotient(N_X, W));
  product(g->a.e, 1, LD_Z, g->a.bx, 1, to, Z, n);
}

/* A state tensor with its normalizer's vector, [K, V], from and to [Z, x]. */
static inline void load_state(const backward *g, float *out, int tensor, int vector) {
  if (ALONG_KEY) {
    pack_state(&g->z, &g->s, g->a.square, tensor, vector, LD_Z);
    vtb_transpose(g->a.square, LD_Z, X, Z, out, LD_X);
  } else {
    pack_state(&g->x, &g->s, out, tensor, vector, LD_X);
  }
}
static inline void store_state(const backward *g, const float *state, int tensor, int vector) {
  if (ALONG_KEY) {
    vtb_transpose(state, LD_X, Z, X, g->a.square, LD_Z);
    unpack_state(&g->z, &g->s, tensor, vector, g->a.square, LD_Z);
  } else {
    unpack_state(&g->x, &g->s, tensor, vector, state, LD_X);
  }
}

/* Pass 1: states before the chunks. */
static inline void run_forward(const backward *g) {
  if (INIT)
    load_state(g, g->a.states, AT_S0, AT_N0);
  else
    fill(g->a.states, 0, STATE);
  for (long i = 1; i < CHUNKS; i++) {
    float *state = g->a.states + i * STATE;
    copy(state, state - STATE, STATE);
    for (long sub = 0; sub < SUBS; sub++)
      advance(g, state, state, (i - 1) * CHUNK + sub * SUB, least(CHUNK - sub * SUB, SUB));
  }
}

/* ---- pass 2 ---------------------------------------------------------------------------------- */

/* passing = whole o (sum over z of S o G); G *= whole. */
static inline void pass_through(const backward *g, const float *state) {
  for (long x = 0; x < N_X; x += W) {
    const vf whole = load(g->a.whole + x);
    vf sum = 0;
    for (long z = 0; z < Z; z++) {
      const vf kept = load(g->a.adjoint + z * LD_X + x) * whole;
      store(g->a.adjoint + z * LD_X + x, kept);
      sum = fma(load(state + z * LD_X + x), kept, sum);
    }
    store(g->a.passing + x, sum);
  }
}

/* Adds what comes through the states to da and db; inner becomes dd. */
static inline void finish_rows(const backward *g, long n) {
  const arrays *a = &g->a;
  for (long x = 0; x < N_X; x += W) {
    vf before = load(a->passing + x), after = 0;
    for (long i = 0; i < n; i++) {
      const long at = i * LD_X + x;
      const vf ge = load(a->ge + at);
      store(a->inner + at, load(a->inner + at) + before);
      store(a->db + at, fma(load(a->suf + at), ge, load(a->db + at)));
      before = fma(load(a->bx + at), ge, before);
    }
    for (long i = n - 1; i >= 0; i--) {
      const long at = i * LD_X + x;
      const vf sc = load(a->sc + at);
      after = fma(load(a->ax + at), sc, after);
      store(a->da + at, fma(load(a->pre + at), sc, load(a->da + at)));
      store(a->inner + at, (load(a->inner + at) + after) / load(a->d + at));
    }
  }
}

/* out_zt = S A^T + (c or e)^T (M or M^T), [Z, SUB], to a tensor with rows along z. */
static inline void store_along_z(const backward *g, const float *state, const float *at,
                                 const float *rows, const float *m, long t0, long n, int tensor) {
  product_sub(state, LD_X, 1, at, 0, g->a.out_zt, Z, n, X);
  product_sub(rows, 1, LD_Z, m, 1, g->a.out_zt, Z, n, n);
  vtb_transpose(g->a.out_zt, SUB, Z, n, g->a.out_z, LD_Z);
  unpack_tokens(&g->z, &g->s, tensor, -1, g->a.out_z, LD_Z, t0, n);
}

static inline void sub_block(const backward *g, long t0, long n, const float *state) {
  const arrays *a = &g->a;
  const decays d = decays_of(g, n);
  load_keys(g, t0, n);
  pack_x(g, a->a, AT_A, t0, n);
  pack_z(g, a->c, AT_C, t0, n);
  rows_times(a->ax, a->a, a->pre, LD_X, LD_X, n, d.n_vectors);
  vtb_transpose(a->e, LD_Z, n, Z, a->et, SUB);
  product_sub(a->c, LD_Z, 1, a->et, 0, a->n, n, n, Z);
  vtb_transpose(a->b, LD_X, n, X, a->bt, SUB);
  direct_scores(&(scores){&d, a->a, a->bt, a->m, X, SUB, SUB});
  direct_grads(&(grads){&d, a->n, a->a, a->b, a->da, a->db, a->inner, SUB});
  product(a->c, LD_Z, 1, state, 0, a->sc, n, Z);
  product(a->e, LD_Z, 1, a->adjoint, 0, a->ge, n, Z);
  store_along_z(g, a->adjoint, a->bt, a->c, a->m, t0, n, ALONG_KEY ? AT_DV : AT_DK);
  if (!ALONG_KEY) {
    vtb_transpose(a->ax, LD_X, n, X, a->at, SUB);
    vtb_transpose(a->m, SUB, n, SUB, a->mt, SUB);
    store_along_z(g, state, a->at, a->e, a->mt, t0, n, AT_DQ);
  }
  pass_through(g, state);
  finish_rows(g, n);
  product(a->c, 1, LD_Z, a->ax, 1, a->adjoint, Z, n);
  if (ALONG_KEY) unpack_tokens(&g->x, &g->s, AT_DQ, -1, a->da, LD_X, t0, n);
  unpack_tokens(&g->x, &g->s, ALONG_KEY ? AT_DK : AT_DV, -1, a->db, LD_X, t0, n);
  unpack_tokens(&g->x, &g->s, AT_DD, -1, a->inner, LD_X, t0, n);
}

static inline void chunk(const backward *g, long number) {
  const long t0 = number * CHUNK, n = least(TOKENS - t0, CHUNK);
  float *subs = g->a.subs;
  copy(subs, g->a.states + number * STATE, STATE);
  const long n_subs = quotient(n + SUB - 1, SUB);
  for (long i = 1; i < n_subs; i++)
    advance(g, subs + (i - 1) * STATE, subs + i * STATE, t0 + (i - 1) * SUB, SUB);
  for (long i = n_subs - 1; i >= 0; i--)
    sub_block(g, t0 + i * SUB, least(n - i * SUB, SUB), subs + i * STATE);
}

TASK(grad, BATCH *HEADS, 1, BYTES_OF(lay_out)) {
  memory own = {scratch, 0};
  const cols k = cols_all(K, 0), v = cols_all(V, NORMALIZER);
  const backward g = {scan_at(t, index), ALONG_KEY ? k : v, ALONG_KEY ? v : k, lay_out(&own)};
  run_forward(&g);
  if (DLAST)
    load_state(&g, g.a.adjoint, AT_DS, AT_DN);
  else
    fill(g.a.adjoint, 0, STATE);
  for (long i = CHUNKS - 1; i >= 0; i--) chunk(&g, i);
  if (INIT) store_state(&g, g.a.adjoint, AT_DS0, AT_DN0);
}

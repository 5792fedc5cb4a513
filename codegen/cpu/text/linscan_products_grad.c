/* linscan_grad, classes constant and scalar, as products of matrices.
 *
 * A task owns one batch entry and one head. Pass 1 keeps the state before every chunk, transposed;
 * pass 2 walks the chunks backwards with the adjoint G [K, V] of the state after the chunk. In a
 * chunk with entering state S, decays b_t up to t and s_j after j (M[t,j] = product of d over j+1
 * ... t; A = (dY V^T) o M, P = (Q K^T) o M, lower triangles):
 *   dQ = A K + b o (dY S^T)
 *   dK = A^T Q + s o (V G^T)
 *   dV = P^T dY + s o (K G)
 *   G <- b_L G + (b o Q)^T dY
 * The triangle goes by blocks of rows, last block first. Parallel mode is one chunk of all tokens.
 *
 * Decays. A term of the loss that carries the factor d_r contributes itself over d_r, so dd_r is
 * the sum over these terms, all over d_r:
 *     sum over t >= r > j of P[t,j] (dY V^T)[t,j]
 *   + sum over t >= r of b_t q_t . (S dy_t)
 *   + sum over j < r of s_j k_j . (G v_j)
 *   + b_L <S, G>
 * Running sums add terms and never take any away, so nothing cancels, and the factor divides out
 * exactly: decays below FLOOR are replaced by it throughout, which changes the other gradients by
 * 1e-18 of the state and makes dd right at 0.
 */
#include "codegen/cpu/text/products.h"

#define FLOOR (float)1e-18
#define LD_T row_length(CHUNK)
#define VN (V + NORMALIZER)
#define LD_VN row_length(VN)
#define N_K pieces(K, W) /* vectors of a row */
#define N_V pieces(VN, W)
#define STATE (VN * LD_K)
#define CHUNKS pieces(TOKENS, CHUNK)

typedef struct arrays {
  float *q, *k, *v, *dy, *kt, *vt;     /* the chunk, packed */
  float *dq, *dk, *dv;                 /* [L, ...] */
  float *p, *a, *terms, *mask;         /* block of rows: [BLOCK, LD_T]; a row of M */
  float *d, *b, *after, *inner, *x;    /* by token */
  float *below;                        /* sums over t >= r of the terms in each column */
  float *states, *adjoint, *adjoint_t; /* S^T before each chunk [VN, LD_K]; G [K, LD_VN]; G^T */
} arrays;
static inline arrays lay_out(memory *m) {
  const long rows = least(CHUNK, BLOCK) * LD_T, k = CHUNK * LD_K, v = CHUNK * LD_VN;
  arrays a = {.q = take(m, k), .k = take(m, k), .v = take(m, v), .dy = take(m, v)};
  a.kt = take(m, K * LD_T), a.vt = take(m, VN * LD_T);
  a.dq = take(m, k), a.dk = take(m, k), a.dv = take(m, v);
  a.p = take(m, rows), a.a = take(m, rows), a.terms = take(m, rows), a.mask = take(m, LD_T);
  a.d = take(m, LD_T), a.b = take(m, LD_T), a.after = take(m, LD_T), a.inner = take(m, LD_T);
  a.x = take(m, LD_T), a.below = take(m, LD_T);
  a.states = take(m, CHUNKS * STATE), a.adjoint = take(m, K * LD_VN), a.adjoint_t = take(m, STATE);
  return a;
}

typedef struct backward {
  scan s;
  cols k, v;
  arrays a;
  float *dd; /* class constant: the running sum */
} backward;

/* out = beta out + A B, rows along K or along V. */
static inline void product_k(const float *a, long a_row, long a_col, const float *b, float beta,
                             float *out, long m, long k) {
  vtb_product(a, a_row, a_col, b, LD_K, beta, out, LD_K, m, N_K, k);
}
static inline void product_v(const float *a, long a_row, long a_col, const float *b, float beta,
                             float *out, long m, long k) {
  vtb_product(a, a_row, a_col, b, LD_VN, beta, out, LD_VN, m, N_V, k);
}

/* rows[r, :] *= by[r]; to[r] = rows[r, :] . other[r, :]. */
static inline void scale_and_dot(float *rows, long ld, long vectors, long n, const float *by,
                                 const float *other, float *to) {
  for (long r = 0; r < n; r++) {
    vf sum = 0;
    for (long j = 0; j < vectors * W; j += W) {
      float *at = rows + r * ld + j;
      const vf x = load(at) * (vf)by[r];
      store(at, x);
      sum = fma(x, load(other + r * ld + j), sum);
    }
    to[r] = vtb_sum(sum);
  }
}

/* Pass 1: states before the chunks. */
static inline void run_forward(const backward *g) {
  const arrays *a = &g->a;
  if (INIT) {
    pack_state(&g->v, &g->s, a->adjoint, AT_S0, AT_N0, LD_VN);
    vtb_transpose(a->adjoint, LD_VN, K, VN, a->states, LD_K);
  } else if (CHUNKS > 1) {
    fill(a->states, 0, STATE);
  }
  for (long i = 0; i < CHUNKS - 1; i++) {
    float *from = a->states + i * STATE, *to = from + STATE;
    const float decay = chunk_decays(&g->s, i * CHUNK, CHUNK, FLOOR, a->d, a->b, a->after);
    pack_tokens_times(&g->k, &g->s, a->k, LD_K, AT_K, -1, i * CHUNK, CHUNK, a->after);
    pack_tokens(&g->v, &g->s, a->v, LD_VN, AT_V, -1, i * CHUNK, CHUNK);
    copy(to, from, STATE);
    product_k(a->v, 1, LD_VN, a->k, decay, to, VN, CHUNK);
  }
}

/* ---- pass 2: a block of rows ----------------------------------------------------------------- */

/* Row i0 - 1 of M, so that multiplying by d from row i0 on gives the block's rows. */
static inline void first_mask_row(const arrays *a, long i0, long end) {
  fill(a->mask, 0, end);
  float product = 1;
  for (long j = i0 - 1; j >= 0; j--) {
    a->mask[j] = product;
    product *= a->d[j];
  }
}

/* P = S o M, A = dP o M, terms = P o dP, S and dP in p and a on entry. */
static inline void mask_pairs(const arrays *g, long i0, long n) {
  for (long r = 0; r < n; r++) {
    const long t = i0 + r;
    const vf d = (vf)g->d[t];
    for (long j = 0; j < i0 + n; j += W) {
      const long at = r * LD_T + j;
      const vf mask = ones_between(load(g->mask + j) * d, t - j, t - j + 1), a = load(g->a + at);
      const vf p = load(g->p + at) * mask;
      store(g->mask + j, mask);
      store(g->p + at, p);
      store(g->a + at, a * mask);
      store(g->terms + at, p * a);
    }
  }
}

/* inner[r] = sum over t >= r > j of terms[t, j], for the rows of a block from the last to the
 * first. */
static inline void sum_terms(const arrays *a, long i0, long n) {
  for (long r = n - 1; r >= 0; r--) {
    const long t = i0 + r;
    vf sum = 0;
    for (long j = 0; j < t; j += W) {
      const vf below = load(a->below + j) + load(a->terms + r * LD_T + j);
      store(a->below + j, below);
      sum += vtb_part(below, t - j, (vf)0);
    }
    a->inner[t] = vtb_sum(sum);
  }
}

static inline void block(const arrays *a, long i0, long n) {
  const long end = i0 + n;
  const float *q = a->q + i0 * LD_K, *dy = a->dy + i0 * LD_VN;
  vtb_product(q, LD_K, 1, a->kt, LD_T, 0, a->p, LD_T, n, pieces(end, W), K);
  vtb_product(dy, LD_VN, 1, a->vt, LD_T, 0, a->a, LD_T, n, pieces(end, W), VN);
  first_mask_row(a, i0, end);
  mask_pairs(a, i0, n);
  sum_terms(a, i0, n);
  product_k(a->a, LD_T, 1, a->k, 1, a->dq + i0 * LD_K, n, end);
  product_k(a->a, 1, LD_T, q, 1, a->dk, end, n);
  product_v(a->p, 1, LD_T, dy, 1, a->dv, end, n);
}

/* ---- pass 2: a chunk ------------------------------------------------------------------------- */

static inline void load_chunk(const backward *g, long t0, long n) {
  const arrays *a = &g->a;
  pack_tokens(&g->k, &g->s, a->q, LD_K, AT_Q, -1, t0, n);
  pack_tokens(&g->k, &g->s, a->k, LD_K, AT_K, -1, t0, n);
  pack_tokens(&g->v, &g->s, a->v, LD_VN, AT_V, -1, t0, n);
  pack_tokens(&g->v, &g->s, a->dy, LD_VN, AT_DY, AT_DZ, t0, n);
  vtb_transpose(a->k, LD_K, n, K, a->kt, LD_T);
  vtb_transpose(a->v, LD_VN, n, VN, a->vt, LD_T);
}

/* dk, dv (and their sums x of column terms) from the state after the chunk, unless nothing follows
 * it. */
static inline void from_later(const arrays *a, long n, _Bool follows) {
  if (!follows) {
    fill(a->dk, 0, n * LD_K);
    fill(a->dv, 0, n * LD_VN);
    fill(a->x, 0, n);
    return;
  }
  vtb_transpose(a->adjoint, LD_VN, K, VN, a->adjoint_t, LD_K);
  product_k(a->v, LD_VN, 1, a->adjoint_t, 0, a->dk, n, VN);
  product_v(a->k, LD_K, 1, a->adjoint, 0, a->dv, n, K);
  scale_and_dot(a->dk, LD_K, N_K, n, a->after, a->k, a->x);
  keys_times(a->dv, LD_VN, a->after, n, N_V);
}

/* <S, G>, S^T and G^T at hand; lanes past K repeat its last row. */
static inline float dot_states(const arrays *a, const float *state) {
  vf sum = 0;
  for (long v = 0; v < VN; v++)
    for (long j = 0; j < K; j += W) {
      const vf x = load(state + v * LD_K + j);
      sum = fma(K % W ? vtb_part(x, K - j, (vf)0) : x, load(a->adjoint_t + v * LD_K + j), sum);
    }
  return vtb_sum(sum);
}

/* Adds to inner[r] the sum over j < r of the column terms x, and `through`, what passes the whole
 * chunk. */
static inline void add_column_terms(const arrays *a, long n, float through) {
  for (long i = 0; i < n; i++) {
    a->inner[i] += through;
    through += a->x[i];
  }
}

/* dq from the state before the chunk, with its row terms, and the adjoint of that state. The buffer
 * of dk, which has been stored, takes b o (dY S^T). */
static inline void to_earlier(const arrays *a, long n, const float *state, float keep) {
  product_k(a->dy, LD_VN, 1, state, 0, a->dk, n, VN);
  scale_and_dot(a->dk, LD_K, N_K, n, a->b, a->q, a->x);
  float sum = 0;
  for (long r = n - 1; r >= 0; r--) {
    sum += a->x[r];
    a->inner[r] += sum;
  }
  for (long i = 0; i < n * LD_K; i += W) store(a->dq + i, load(a->dq + i) + load(a->dk + i));
  keys_times(a->q, LD_K, a->b, n, N_K);
  product_v(a->q, 1, LD_K, a->dy, keep, a->adjoint, K, n);
}

static inline void chunk(const backward *g, long number) {
  const arrays *a = &g->a;
  const long t0 = number * CHUNK, n = least(TOKENS - t0, CHUNK);
  const float *state = a->states + number * STATE;
  const _Bool precedes = INIT || (CHUNKS > 1 && number != 0);
  const _Bool follows = DLAST || (CHUNKS > 1 && number != CHUNKS - 1);
  const float decay = chunk_decays(&g->s, t0, n, FLOOR, a->d, a->b, a->after);
  load_chunk(g, t0, n);
  from_later(a, n, follows);
  fill(a->dq, 0, n * LD_K);
  fill(a->below, 0, n);
  for (long i = (pieces(n, BLOCK) - 1) * BLOCK; i >= 0; i -= BLOCK)
    block(a, i, least(n - i, BLOCK));
  add_column_terms(a, n, precedes && follows ? decay * dot_states(a, state) : 0);
  unpack_tokens(&g->v, &g->s, AT_DV, -1, a->dv, LD_VN, t0, n);
  unpack_tokens(&g->k, &g->s, AT_DK, -1, a->dk, LD_K, t0, n);
  if (precedes) to_earlier(a, n, state, follows ? decay : 0);
  unpack_tokens(&g->k, &g->s, AT_DQ, -1, a->dq, LD_K, t0, n);
  for (long i = 0; i < n; i++) {
    const float dd = a->inner[i] / a->d[i];
    if (BY_STEP)
      *row(&g->s, AT_DD, place(t0 + i)) = dd;
    else
      *g->dd += dd;
  }
}

long temp_bytes(void) { return BY_STEP ? 0 : BATCH * HEADS * (long)sizeof(float); }

TASK(grad, BATCH *HEADS, 1, BYTES_OF(lay_out)) {
  memory own = {scratch, 0};
  float dd = 0;
  const backward g = {scan_at(t, index), cols_all(K, 0), cols_all(V, NORMALIZER), lay_out(&own),
                      &dd};
  run_forward(&g);
  if (DLAST) pack_state(&g.v, &g.s, g.a.adjoint, AT_DS, AT_DN, LD_VN);
  for (long i = CHUNKS - 1; i >= 0; i--) chunk(&g, i);
  if (INIT) unpack_state(&g.v, &g.s, AT_DS0, AT_DN0, g.a.adjoint, LD_VN);
  if (!BY_STEP) ((float *)temp)[index] = dd;
}

/* Class constant: dd[h] is the sum over the batch of what each task found. */
TASK(sum, BY_STEP ? 0 : HEADS, 64, 0) {
  float sum = 0;
  for (long b = 0; b < BATCH; b++) sum += ((const float *)temp)[b * HEADS + index];
  t[AT_DD][index * STRIDE[AT_DD][0]] = sum;
}

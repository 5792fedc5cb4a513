/* linscan, classes key and value, as products of matrices: S_t = d_t o S_{t-1} + k_t v_t^T, y_t =
 * S_t^T q_t with d_t a vector along K or along V.
 *
 * A chunk of L tokens goes in sub-blocks of SUB tokens. What came before a sub-block is kept
 * relative to its first token: the state S before the chunk, and the rows of the chunk so far (K^T
 * for class key, V for class value), all decayed by a whole sub-block as it is left behind. So
 *   class key     P = (pre o Q) Kd^T, beside it the sub-block's own scores
 *                 Y = P V + (pre o Q) S
 *   class value   N = Q K^T
 *                 Y = pre o (N Vd + Q S) + the sub-block's own sums
 * and at a chunk's end S += Kd^T V or K^T Vd. Parallel mode is one chunk of all tokens. Sub-blocks:
 * direct.h.
 */
#include "codegen/cpu/text/direct.h"

#define LD_T row_length(CHUNK)
#define LD_D (ALONG_KEY ? LD_K : LD_V)

typedef struct arrays {
  float *state, *kt, *v;           /* of the chunk: [K, LD_V], [K, LD_T], [L, LD_V] */
  float *q, *qd, *d, *pre, *p, *y; /* of the sub-block */
  float *whole;
} arrays;
static inline arrays lay_out(memory *m) { /* v in whole groups: rows behind the last are read */
  return (arrays){take(m, K * LD_V),   take(m, K * LD_T),   take(m, round_up(CHUNK, SUB) * LD_V),
                  take(m, SUB * LD_K), take(m, SUB * LD_K), take(m, SUB * LD_D),
                  take(m, SUB * LD_D), take(m, SUB * LD_T), take(m, SUB * LD_V),
                  take(m, LD_D)};
}

FORWARD;

/* The chunk's rows before i0, and the state before the chunk, seen from the next sub-block. */
static inline void leave_behind(const forward *f, long i0, _Bool entering) {
  const arrays *a = &f->a;
  const long n = f->of.n_vectors;
  if (ALONG_KEY)
    keys_times(a->kt, LD_T, a->whole, K, quotient(i0, W));
  else
    rows_times(a->v, a->v, a->whole, LD_V, 0, i0, n);
  if (!entering) return;
  if (ALONG_KEY)
    keys_times(a->state, LD_V, a->whole, K, n);
  else
    rows_times(a->state, a->state, a->whole, LD_V, 0, K, n);
}

/* y += q S. */
static inline void read_state(const forward *f, const float *q, long n, _Bool entering) {
  if (entering) vtb_product(q, LD_K, 1, f->a.state, LD_V, 1, f->a.y, LD_V, n, f->of.n_vectors, K);
}

static inline void read_by_key(const forward *f, const decays *d, long i0, _Bool entering) {
  const arrays *a = &f->a;
  const long n = d->n;
  rows_times(a->qd, a->q, a->pre, LD_K, LD_K, n, d->n_vectors);
  vtb_product(a->qd, LD_K, 1, a->kt, LD_T, 0, a->p, LD_T, n, quotient(i0, W), K);
  direct_scores(&(scores){d, a->q, a->kt + i0, a->p + i0, K, LD_T, LD_T});
  vtb_product(a->p, LD_T, 1, a->v, LD_V, 0, a->y, LD_V, n, f->of.n_vectors, i0 + n);
  read_state(f, a->qd, n, entering);
}

static inline void read_by_value(const forward *f, const decays *d, long i0, _Bool entering) {
  const arrays *a = &f->a;
  const long n = d->n;
  vtb_product(a->q, LD_K, 1, a->kt, LD_T, 0, a->p, LD_T, n, quotient(i0 + n + W - 1, W), K);
  vtb_product(a->p, LD_T, 1, a->v, LD_V, 0, a->y, LD_V, n, f->of.n_vectors, i0);
  read_state(f, a->q, n, entering);
  rows_times(a->y, a->y, a->pre, LD_V, LD_V, n, d->n_vectors);
  direct_sums(d, a->p + i0, LD_T, a->v + i0 * LD_V, a->y);
}

/* n tokens from t0 + i0 on. */
static inline void sub_block(const forward *f, long t0, long i0, long n, _Bool entering) {
  const arrays *a = &f->a;
  const scan *s = &f->of.s;
  const cols *k = &f->of.k_cols, *v = &f->of.v_cols;
  const long from = t0 + i0;
  pack_tokens(k, s, a->q, LD_K, AT_K, -1, from, n);
  vtb_transpose(a->q, LD_K, n, K, a->kt + i0, LD_T);
  pack_tokens(k, s, a->q, LD_K, AT_Q, -1, from, n);
  pack_tokens(v, s, a->v + i0 * LD_V, LD_V, AT_V, -1, from, n);
  const decays d = {
      a->d, a->pre, 0, a->whole, LD_D, n, ALONG_KEY ? quotient(round_up(K, W), W) : f->of.n_vectors,
      0};
  pack_tokens(ALONG_KEY ? k : v, s, a->d, LD_D, AT_D, -1, from, n);
  direct_factors(&d, 0);
  if (ALONG_KEY)
    read_by_key(f, &d, i0, entering);
  else
    read_by_value(f, &d, i0, entering);
  unpack_tokens(v, s, AT_Y, AT_Z, a->y, LD_V, from, n);
  leave_behind(f, i0, entering);
}

static inline void chunk(const forward *f, long t0, long n, _Bool only) {
  const arrays *a = &f->a;
  if (CHUNK <= SUB)
    sub_block(f, t0, 0, n, enters(t0, only));
  else
    for (long i = 0; i < n; i += SUB) sub_block(f, t0, i, least(n - i, SUB), enters(t0, only));
  if (LAST || (!only && t0 + n < TOKENS))
    vtb_product(a->kt, LD_T, 1, a->v, LD_V, keeps(t0), a->state, LD_V, K, f->of.n_vectors, n);
}

SCAN

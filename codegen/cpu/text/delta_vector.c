/* delta, class key, as products of matrices and a triangular solve: see delta.h.
 *
 * As in linscan_vector.c the chunk is walked in sub-blocks of SUB rows, and what came before one is
 * kept relative to its first token, decayed by a whole sub-block as it is left behind: the chunk's
 * keys K^T and the state S. With pre_t the product of the decays of the sub-block's tokens before
 * t,
 *   A = (pre o B) K^T, beside it the sub-block's own scores
 *   W = V + (pre o B) S,  W += A W
 * and at a chunk's end S += K^T W. Rows of one token lie in one group: RANK is rounded up to STEP,
 * a power of two, so that sub-blocks hold whole tokens, and the rows added are zero. The last row
 * of a token carries its decay, the others 1.
 */
#include "codegen/cpu/text/delta.h"
#include "codegen/cpu/text/direct.h"

#define ROWS round_up(CHUNK *STEP, SUB)
#define LD_T row_length(ROWS)

typedef struct arrays {
  float *state, *kt, *w;          /* of the chunk: [K, LD_V], [K, LD_T], [rows, LD_V] */
  float *b, *d, *pre, *a, *whole; /* of the sub-block; whole: [LD_K] */
} arrays;
static inline arrays lay_out(memory *m) {
  return (arrays){take(m, K * LD_V),   take(m, K * LD_T),   take(m, ROWS * LD_V),
                  take(m, SUB * LD_K), take(m, SUB * LD_K), take(m, SUB * LD_K),
                  take(m, SUB * LD_T), take(m, LD_K)};
}

FORWARD;

/* n tokens from i0 on in the chunk at t0. */
static inline void sub_block(const forward *f, long t0, long i0, long n, _Bool entering) {
  const arrays *a = &f->a;
  const scan *s = &f->of.s;
  const cols *k = &f->of.k_cols, *v = &f->of.v_cols;
  const long from = t0 + i0, own = i0 * STEP, rows = n * STEP, before = quotient(own, W);
  float *w = a->w + own * LD_V;
  pack_rows(k, s, a->b, LD_K, AT_K, from, n);
  vtb_transpose(a->b, LD_K, rows, K, a->kt + own, LD_T);
  pack_rows(k, s, a->b, LD_K, AT_B, from, n);
  pack_rows(v, s, w, LD_V, AT_V, from, n);
  fill(a->d, 1, SUB * LD_K);
  for (long i = 0; i < n; i++)
    pack_row(k, a->d + (i * STEP + STEP - 1) * LD_K, row(s, AT_D, place(from + i)), 0);
  const decays d = {a->d, a->pre, 0, a->whole, LD_K, rows, quotient(round_up(K, W), W), (int)STEP};
  direct_factors(&d, 0);
  direct_scores(&(scores){&d, a->b, a->kt + own, a->a + own, K, LD_T, LD_T});
  rows_times(a->b, a->b, a->pre, LD_K, LD_K, rows, d.n_vectors);
  vtb_product(a->b, LD_K, 1, a->kt, LD_T, 0, a->a, LD_T, rows, before, K);
  if (entering) {
    vtb_product(a->b, LD_K, 1, a->state, LD_V, 1, w, LD_V, rows, f->of.n_vectors, K);
    keys_times(a->state, LD_V, a->whole, K, f->of.n_vectors);
  }
  vtb_solve(a->a, LD_T, a->w, LD_V, own, rows, f->of.n_vectors);
  unpack_rows(v, s, AT_W, w, from, n);
  keys_times(a->kt, LD_T, a->whole, K, before);
}

static inline void chunk(const forward *f, long t0, long n, _Bool only) {
  const arrays *a = &f->a;
  const long tokens = quotient(SUB, STEP);
  for (long i = 0; i < n; i += tokens) sub_block(f, t0, i, least(n - i, tokens), enters(t0, only));
  if (!only && t0 + n < TOKENS)
    vtb_product(a->kt, LD_T, 1, a->w, LD_V, keeps(t0), a->state, LD_V, K, f->of.n_vectors,
                n * STEP);
}

SCAN

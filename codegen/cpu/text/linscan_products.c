/* linscan, classes constant and scalar, as products of matrices: S_t = d_t S_{t-1} + k_t v_t^T,
 * y_t = S_t^T q_t.
 *
 * In a chunk of L tokens, for each block of rows (queries):
 *   P = Q K^T                   masked row by row by M[t,j] = d_t M[t-1,j], M[t,t] = 1; columns
 *                               beyond the block are never computed
 *   y = P V + (b o Q) S         b_t: product of the decays of the chunk up to t
 * and then
 *   S = b_L S + (s o K)^T V     s_j: product of the decays after j
 *
 * Parallel mode is one chunk of all tokens. Q, K, V are packed in path order, so that the products
 * see plain rows.
 */
#include "codegen/cpu/text/products.h"

#define LD_T row_length(CHUNK)

typedef struct arrays {
  float *state, *kt, *v, *ks; /* of the chunk: [K, LD_V], [K, LD_T], [L, LD_V], [L, LD_K] */
  float *q, *p, *y, *mask;    /* of the block; a row of M */
  float *d, *b, *after;       /* by token */
} arrays;
static inline arrays lay_out(memory *m) {
  const long rows = least(CHUNK, BLOCK), keys = least(CHUNK, KEY_BLOCK);
  return (arrays){take(m, K * LD_V),     take(m, K * LD_T),    take(m, CHUNK * LD_V),
                  take(m, CHUNK * LD_K), take(m, keys * LD_K), take(m, rows * LD_T),
                  take(m, rows * LD_V),  take(m, LD_T),        take(m, LD_T),
                  take(m, LD_T),         take(m, LD_T)};
}

FORWARD;

/* n rows from i0 on in the chunk at t0. */
static inline void block(const forward *f, long t0, long i0, long n, _Bool entering) {
  const arrays *a = &f->a;
  const scan *s = &f->of.s;
  const long end = i0 + n, vectors = f->of.n_vectors;
  pack_tokens(&f->of.k_cols, s, a->q, LD_K, AT_Q, -1, t0 + i0, n);
  vtb_product(a->q, LD_K, 1, a->kt, LD_T, 0, a->p, LD_T, n, pieces(end, W), K);
  mask_rows(a->p, LD_T, a->mask, a->d, i0, n, 1, 0);
  vtb_product(a->p, LD_T, 1, a->v, LD_V, 0, a->y, LD_V, n, vectors, end);
  if (entering) {
    keys_times(a->q, LD_K, a->b + i0, n, pieces(K, W));
    vtb_product(a->q, LD_K, 1, a->state, LD_V, 1, a->y, LD_V, n, vectors, K);
  }
  unpack_tokens(&f->of.v_cols, s, AT_Y, AT_Z, a->y, LD_V, t0 + i0, n);
}

static inline void chunk(const forward *f, long t0, long n, _Bool only) {
  const arrays *a = &f->a;
  const scan *s = &f->of.s;
  const cols *k = &f->of.k_cols;
  const float decay = chunk_decays(s, t0, n, 0, a->d, a->b, a->after);
  for (long i = 0; i < n; i += KEY_BLOCK) {
    const long rows = least(n - i, KEY_BLOCK);
    pack_tokens(k, s, a->q, LD_K, AT_K, -1, t0 + i, rows);
    vtb_transpose(a->q, LD_K, rows, K, a->kt + i, LD_T);
  }
  pack_tokens(&f->of.v_cols, s, a->v, LD_V, AT_V, -1, t0, n);
  fill(a->mask, 0, n);
  for (long i = 0; i < n; i += BLOCK) block(f, t0, i, least(n - i, BLOCK), enters(t0, only));
  if (!LAST && (only || t0 + n >= TOKENS)) return;
  pack_tokens_times(k, s, a->ks, LD_K, AT_K, -1, t0, n, a->after);
  vtb_product(a->ks, 1, LD_K, a->v, LD_V, keeps(t0) != 0 ? decay : 0, a->state, LD_V, K,
              f->of.n_vectors, n);
}

SCAN

/* delta, classes constant and scalar, as products of matrices and a triangular solve: see delta.h.
 *
 * In a chunk of L tokens, for each block of rows:
 *   A = B K^T                  masked token by token by P[t,s] = d_{t-1} P[t-1,s], P[t,t-1] = 1;
 *                              columns beyond the block are never computed
 *   W = V + (p o B) S          p_t: product of the decays of the chunk before t
 *   W += A W                   row by row in groups of registers (vtb_solve)
 * and then
 *   S = p_end S + (s o K)^T W  s_j: product of the decays of the tokens after j
 *
 * Parallel mode is one chunk of all tokens. Decays are multiplied and never divided by: a decay of
 * 0 is exact.
 */
#include "codegen/cpu/text/delta.h"
#include "codegen/cpu/text/products.h"

#define TOKENS_OF_BLOCK (RANK < BLOCK ? quotient(BLOCK, RANK) : 1)
#define TOKENS_OF_KEYS pieces(KEY_BLOCK, RANK)
/* A transposed block is whole vectors long, from wherever it begins. */
#define LD_T row_length(CHUNK *RANK + (TOKENS_OF_KEYS * RANK % W ? W : 0))

typedef struct arrays {
  float *state, *kt, *w;     /* of the chunk: [K, LD_V], [K, LD_T], [rows, LD_V] */
  float *b, *a, *mask;       /* of the block: rows of k or b, A, a row of P */
  float *d, *before, *after; /* by token; d[t] is the decay of the token before t */
  float *after_rows;         /* by row */
} arrays;
static inline arrays lay_out(memory *m) {
  const long block = least(TOKENS_OF_BLOCK, CHUNK), keys = least(TOKENS_OF_KEYS, CHUNK);
  arrays a = {.state = take(m, K * LD_V), .kt = take(m, K * LD_T)};
  a.w = take(m, CHUNK * RANK * LD_V);
  a.b = take(m, (block > keys ? block : keys) * RANK * LD_K);
  a.a = take(m, block * RANK * LD_T), a.mask = take(m, LD_T);
  a.d = take(m, CHUNK + W), a.before = take(m, CHUNK + W), a.after = take(m, CHUNK + W);
  a.after_rows = RANK == 1 ? a.after : take(m, LD_T);
  return a;
}

FORWARD;

/* n tokens from i0 on in the chunk at t0. */
static inline void block(const forward *f, long t0, long i0, long n, _Bool entering) {
  const arrays *a = &f->a;
  const long from = t0 + i0, own = i0 * RANK, rows = n * RANK, vectors = f->of.n_vectors;
  float *w = a->w + own * LD_V;
  pack_rows(&f->of.k_cols, &f->of.s, a->b, LD_K, AT_B, from, n);
  vtb_product(a->b, LD_K, 1, a->kt, LD_T, 0, a->a, LD_T, rows, pieces(own + rows, W), K);
  mask_rows(a->a, LD_T, a->mask, a->d, i0, n, RANK, 1);
  if (entering) {
    keys_times(a->b, RANK * LD_K, a->before + i0, n, quotient(RANK * LD_K, W));
    vtb_product(a->b, LD_K, 1, a->state, LD_V, 1, w, LD_V, rows, vectors, K);
  }
  vtb_solve(a->a, LD_T, a->w, LD_V, own, rows, vectors);
  unpack_rows(&f->of.v_cols, &f->of.s, AT_W, w, from, n);
}

/* Products of decays by token and by row; returns that of the whole chunk. */
static inline float load_decays(const forward *f, long t0, long n) {
  const arrays *a = &f->a;
  a->d[0] = a->before[0] = 1;
  const float all = chunk_decays(&f->of.s, t0, n, 0, a->d + 1, a->before + 1, a->after);
  for (long i = 0; i < n && RANK > 1; i++)
    for (long r = 0; r < RANK; r++) a->after_rows[i * RANK + r] = a->after[i];
  return all;
}

static inline void chunk(const forward *f, long t0, long n, _Bool only) {
  const arrays *a = &f->a;
  const scan *s = &f->of.s;
  const float decay = load_decays(f, t0, n);
  for (long i = 0; i < n; i += TOKENS_OF_KEYS) {
    const long tokens = least(n - i, TOKENS_OF_KEYS);
    pack_rows(&f->of.k_cols, s, a->b, LD_K, AT_K, t0 + i, tokens);
    vtb_transpose(a->b, LD_K, tokens * RANK, K, a->kt + i * RANK, LD_T);
  }
  pack_rows(&f->of.v_cols, s, a->w, LD_V, AT_V, t0, n);
  fill(a->mask, 0, n * RANK);
  for (long i = 0; i < n; i += TOKENS_OF_BLOCK)
    block(f, t0, i, least(n - i, TOKENS_OF_BLOCK), enters(t0, only));
  if (only || t0 + n >= TOKENS) return;
  rows_times(a->kt, a->kt, a->after_rows, LD_T, 0, K, pieces(n * RANK, W));
  vtb_product(a->kt, LD_T, 1, a->w, LD_V, keeps(t0) != 0 ? decay : 0, a->state, LD_V, K,
              f->of.n_vectors, n * RANK);
}

SCAN

/* Small products, triangular solves and transpositions of packed tiles: functions that all texts
 * share (kernel.h). A program has each once, and sizes are values of its run.
 *
 * A tile of the result, `rows` x `vectors`, stays in registers while k runs; each step loads
 * `vectors` vectors of B and broadcasts `rows` elements of A. 6 x 2 vectors fill the 16 registers
 * of AVX2, 8 x 3 the 32 of AVX-512 and NEON; smaller tiles take the remainders. The panel of B that
 * a column of tiles reads stays in L1.
 */
#include "codegen/cpu/text/kernel.h"

enum { MOST_ROWS = 8, MOST_VECTORS = 3, LINE = 16 }; /* floats of a line of the cache */

/* Calls tile(g, row, vector, rows, vectors, masked) for the tiles of g->m rows and g->vectors:
 * columns of the widest first, in each the tallest as long as they fit. */
#define EACH_TILE(g, tile, masked)                                                                 \
  do {                                                                                             \
    long j = 0;                                                                                    \
    if (REGISTERS > 16) {                                                                          \
      EACH_COLUMN(g, tile, 8, 3, masked);                                                          \
      EACH_COLUMN(g, tile, 8, 2, masked);                                                          \
      EACH_COLUMN(g, tile, 8, 1, masked);                                                          \
    } else {                                                                                       \
      EACH_COLUMN(g, tile, 6, 2, masked);                                                          \
      EACH_COLUMN(g, tile, 6, 1, masked);                                                          \
    }                                                                                              \
  } while (0)
#define EACH_COLUMN(g, tile, most, n, masked)                                                      \
  for (; j < (g)->vectors + 1 - (n); j += (n)) {                                                   \
    long i = 0;                                                                                    \
    for (; i < (g)->m + 1 - (most); i += (most)) tile(g, i, j, most, n, masked);                   \
    for (; i < (g)->m + 1 - 4; i += 4) tile(g, i, j, 4, n, masked);                                \
    for (; i < (g)->m + 1 - 2; i += 2) tile(g, i, j, 2, n, masked);                                \
    for (; i < (g)->m; i++) tile(g, i, j, 1, n, masked);                                           \
  }

/* Of a tile. */
#define EACH_VECTOR UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)

/* SSE has no fused multiply-add: a function call an element, in the innermost loop. */
static inline vf add_product(vf x, vf y, vf sum) {
  return W == 4 && REGISTERS == 16 ? x * y + sum : fma(x, y, sum);
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct product {
  const float *a, *b, *from;
  long a_row, a_col, ldb;
  float beta, *out;
  long ld_from, ldc, m, vectors, k;
  long last; /* columns of the last vector, where it is masked */
  const float *ahead;
  long n_ahead; /* floats that are asked for meanwhile, a line a term */
} product;

/* Vector v of `vectors`, of which only the last may be cut: to its first `left` columns. */
#define IS_CUT (masked && v + 1 == vectors)

static inline void tile(const product *g, long i, long j, int rows, int vectors, _Bool masked) {
  const long left = j + vectors == g->vectors ? g->last : W;
  const float *a = g->a + i * g->a_row, *b = g->b + j * W;
  const float *from = g->from + (i * g->ld_from + j * W);
  float *out = g->out + (i * g->ldc + j * W);
  vf sum[MOST_ROWS][MOST_VECTORS];
  EACH_VECTOR sum[r][v] = 0;
  const long asked = j == 0 ? quotient(i, MOST_ROWS) * g->k * LINE : g->n_ahead;
  const long step = asked < g->n_ahead ? LINE : 0;
  const float *ahead = step ? g->ahead + asked : b;
  for (long k = 0; k < g->k; k++, a += g->a_col, b += g->ldb, ahead += step) {
    vf of_b[MOST_VECTORS];
    __builtin_prefetch(ahead, 0, 2);
    UNROLL for (int v = 0; v < vectors; v++) of_b[v] =
        IS_CUT ? load_part(b + v * W, left) : load(b + v * W);
    UNROLL for (int r = 0; r < rows; r++) {
      const vf of_a = (vf)a[r * g->a_row];
      UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = add_product(of_a, of_b[v], sum[r][v]);
    }
  }
  if (g->beta != 0) EACH_VECTOR {
      const float *at = from + (r * g->ld_from + v * W);
      sum[r][v] = fma((vf)g->beta, IS_CUT ? load_part(at, left) : load(at), sum[r][v]);
    }
  EACH_VECTOR {
    float *at = out + (r * g->ldc + v * W);
    if (IS_CUT)
      store_part(at, sum[r][v], left);
    else
      store(at, sum[r][v]);
  }
}

void vtb_product_from(const float *a, long a_row, long a_col, const float *b, long ldb, float beta,
                      const float *from, long ld_from, float *out, long ldc, long m, long vectors,
                      long k, const float *ahead, long n_ahead) {
  const product g = {a,       b,   from, a_row,   a_col, ldb, beta,  out,
                     ld_from, ldc, m,    vectors, k,     W,   ahead, n_ahead};
  EACH_TILE(&g, tile, 0);
}

void vtb_product_columns(const float *a, long a_row, long a_col, const float *b, long ldb,
                         float beta, const float *from, long ld_from, float *out, long ldc, long m,
                         long n, long k) {
  const long vectors = pieces(n, W);
  const product g = {a,   b,       from, a_row, a_col,   ldb, beta,
                     out, ld_from, ldc,  m,     vectors, k,   n - (vectors - 1) * W,
                     b,   0};
  EACH_TILE(&g, tile, 1);
}

/* ---- triangular solve ------------------------------------------------------------------------ */

typedef struct solve {
  const float *a;
  long lda;
  float *w;
  long ldw, from, m, vectors;
} solve;

/* One tile of W, rows from + i on: products with the rows before them, then the tile's own
 * triangle. */
static inline void solve_tile(const solve *g, long i, long j, int rows, int vectors, _Bool masked) {
  const long before = g->from + i;
  const float *a = g->a + i * g->lda, *done = g->w + j * W;
  float *w = g->w + (before * g->ldw + j * W);
  vf sum[MOST_ROWS][MOST_VECTORS];
  EACH_VECTOR sum[r][v] = load(w + (r * g->ldw + v * W));
  for (long k = 0; k < before; k++, done += g->ldw) {
    vf of_w[MOST_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) of_w[v] = load(done + v * W);
    UNROLL for (int r = 0; r < rows; r++) {
      const vf of_a = (vf)a[r * g->lda + k];
      UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = fma(of_a, of_w[v], sum[r][v]);
    }
  }
  UNROLL for (int s = 0; s < rows; s++) { /* row s is done: to those below it */
    UNROLL for (int r = 0; r < rows; r++) if (r > s) {
      const vf of_a = (vf)a[r * g->lda + before + s];
      UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = fma(of_a, sum[s][v], sum[r][v]);
    }
    UNROLL for (int v = 0; v < vectors; v++) store(w + (s * g->ldw + v * W), sum[s][v]);
  }
}

void vtb_solve(const float *a, long lda, float *w, long ldw, long from, long m, long vectors) {
  const solve g = {a, lda, w, ldw, from, m, vectors};
  EACH_TILE(&g, solve_tile, 0);
}

/* ---- transposition --------------------------------------------------------------------------- */

/* Blocks of d lanes off the diagonal. */
#define EXCHANGE(d)                                                                                \
  UNROLL for (int l = 0; l < W; l++) if (!(l & (d))) {                                             \
    const vf x_ = r[l], y_ = r[l + (d)];                                                           \
    r[l] = STAYING(x_, y_, d);                                                                     \
    r[l + (d)] = CROSSING(x_, y_, d);                                                              \
  }

void vtb_transpose(const float *x, long ld, long rows, long cols, float *out, long ld_out) {
  for (long i = 0; i < rows; i += W)
    for (long j = 0; j < cols; j += W) {
      vf r[W];
      if (cols - j >= W)
        UNROLL for (int l = 0; l < W; l++) r[l] = load(x + (least(i + l, rows - 1) * ld + j));
      else
        UNROLL for (int l = 0; l < W; l++) r[l] =
            load_part(x + (least(i + l, rows - 1) * ld + j), cols - j);
      EXCHANGE(1);
      EXCHANGE(2);
#if VTB_W > 4
      EXCHANGE(4);
#endif
#if VTB_W > 8
      EXCHANGE(8);
#endif
      float *to = out + (j * ld_out + i);
      if (cols - j >= W)
        UNROLL for (int l = 0; l < W; l++) store(to + l * ld_out, r[l]);
      else
        UNROLL for (int l = 0; l < W - 1; l++) if (l < cols - j) store(to + l * ld_out, r[l]);
    }
}

/* out = a b + addend, the one product of matrices: rows of a, columns of b, k terms a sum.
 *
 * A task is a block of TASK_ROWS x TASK_COLUMNS of one of LOOPS products, or of one part of its
 * sum; vtb_product (small.c) computes it, panel by panel of b, in tiles of registers. b lies as it
 * is read (DIRECT), in PANELS that the opening of the model has laid out
 * (passes/memory/pack.c), or is brought into panels here, by rows or transposed; a is transposed
 * where its rows are not contiguous. Several tasks that need the same of either find it laid out by
 * a task before them. DEPTH terms are added at a time, in their order, then those
 * sums, from the addend on: which bits an element has depends on the number of terms alone, neither
 * on its place nor on how the rest is cut.
 */
#include "codegen/cpu/text/kernel.h"

enum { A, B, OUT, ADDEND, ALL };             /* tensors */
enum { ALONG_ROWS, ALONG_COLUMNS, ALONG_K }; /* strides */
enum { DIRECT, PANELS, BY_ROWS, TRANSPOSED, MOST_LOOPS = 8 };

hole long M, N, K, PART;             /* of a product; terms of a part of its sums */
hole long TASK_ROWS, TASK_COLUMNS;   /* the latter whole panels */
hole long VECTORS, PANEL;            /* of a panel; columns of one of the model */
hole long GROUP_ROWS, DEPTH;         /* rows of a that stay in cache; terms at a time */
hole long LOOP[MOST_LOOPS][1 + ALL]; /* size, strides; size 0: no loop */
hole long TENSOR[ALL];               /* number among `t`; -1: absent */
hole long STEP[ALL][3];              /* strides along rows, columns, k */
hole long B_LIES, A_TURNED, GRAIN;
hole int B_SHARED, A_SHARED; /* laid out once, for all tasks */

#define WIDTH (VECTORS * W)
#define PARTS pieces(K, PART)
#define BLOCKS (pieces(M, TASK_ROWS) * pieces(N, TASK_COLUMNS) * PARTS)
#define B_LAID_OUT (B_LIES == BY_ROWS || B_LIES == TRANSPOSED)
#define B_STEP (B_LAID_OUT ? WIDTH : B_LIES == PANELS ? PANEL : STEP[B][ALONG_K])
#define A_LENGTH round_up(A_SHARED ? K : DEPTH, W) /* of a row that has been turned */

/* Its corner in each tensor, its size, and memory for panels. */
typedef struct block {
  float *at[ALL];
  long row, column, term, rows, columns, k; /* the first ones, and how many */
  float *turned, *panels;
} block;

static inline block lay_out(memory *m) {
  const int turns = A_TURNED && !A_SHARED, packs = B_LAID_OUT && !B_SHARED;
  return (block){.turned = turns ? take(m, GROUP_ROWS * A_LENGTH) : 0,
                 .panels = packs ? take(m, round_up(TASK_COLUMNS, WIDTH) * DEPTH) : 0};
}

/* What tasks share: rows of a and panels of b, of all terms. */
typedef struct shared {
  float *rows, *panels;
} shared;

static inline shared lay_out_shared(memory *m) {
  return (shared){.rows = A_SHARED ? take(m, M * A_LENGTH) : 0,
                  .panels = B_SHARED ? take(m, round_up(N, WIDTH) * K) : 0};
}
long temp_bytes(void) { return BYTES_OF(lay_out_shared); }

/* ---- b in panels ----------------------------------------------------------------------------- */

/* k terms, for each the columns of a panel, zeros behind the last. */
static inline void pack_rows(const float *b, long k, long columns, float *to) {
  for (long l = 0; l < k; l++, to += WIDTH, b += STEP[B][ALONG_K])
    UNROLL for (long j = 0; j < WIDTH; j += W) {
      if (columns - j >= W)
        store(to + j, load(b + j));
      else
        store(to + j, j < columns ? load_part(b + j, columns - j) : (vf)(0));
    }
}

static inline void one_panel(const float *b, long k, long columns, float *to) {
  if (B_LIES == BY_ROWS)
    pack_rows(b, k, columns, to);
  else
    vtb_transpose(b, STEP[B][ALONG_COLUMNS], columns, k, to, WIDTH);
}

static inline void lay_out_b(const block *x, long l, long k) {
  const float *b = x->at[B] + l * STEP[B][ALONG_K];
  for (long j = 0; j < x->columns; j += WIDTH)
    one_panel(b + j * STEP[B][ALONG_COLUMNS], k, least(x->columns - j, WIDTH), x->panels + j * k);
}

TASK(panels, B_SHARED ? pieces(N, WIDTH) : 0, 1, 0) {
  const long j = index * WIDTH;
  one_panel(t[TENSOR[B]] + j * STEP[B][ALONG_COLUMNS], K, least(N - j, WIDTH),
            lay_out_shared(&(memory){temp, 0}).panels + j * K);
}

TASK(rows, A_SHARED ? pieces(M, GROUP_ROWS) : 0, 1, 0) {
  const long i = index * GROUP_ROWS;
  vtb_transpose(t[TENSOR[A]] + i, STEP[A][ALONG_K], K, least(M - i, GROUP_ROWS),
                lay_out_shared(&(memory){temp, 0}).rows + i * A_LENGTH, A_LENGTH);
}

/* The panel at column j of the block, at term l; k: terms of a laid out one. */
static inline const float *panel(const block *x, long j, long l, long k) {
  if (B_SHARED) return x->panels + (x->column + j) * K + (x->term + l) * WIDTH;
  if (B_LAID_OUT) return x->panels + j * k;
  if (B_LIES == DIRECT) return x->at[B] + j + l * STEP[B][ALONG_K];
  j += x->column;
  return x->at[B] + quotient(j, PANEL) * PANEL * K + remainder(j, PANEL) + l * PANEL;
}

/* ---- a block --------------------------------------------------------------------------------- */

/* An addend with columns that a tile cannot load is brought into the result first: one number a
 * row, or numbers apart. */
#define ADDS_ROWS (TENSOR[ADDEND] >= 0 && STEP[ADDEND][ALONG_COLUMNS] == 1)

static inline void begin_with_addend(const block *x) {
  for (long i = 0; i < x->rows; i++)
    for (long j = 0; j < x->columns; j++)
      x->at[OUT][i * STEP[OUT][ALONG_ROWS] + j] =
          x->at[ADDEND][i * STEP[ADDEND][ALONG_ROWS] + j * STEP[ADDEND][ALONG_COLUMNS]];
}

/* What is asked of memory while a panel is computed: the next one, if a task has laid it out. */
#define AHEAD(j) (B_LIES == PANELS ? (remainder(j, PANEL) ? 0 : PANEL) : B_SHARED ? WIDTH : 0)

static inline long next_panel(const block *x, long j) {
  const long next = j + (B_LIES == PANELS ? PANEL : WIDTH);
  return next < x->columns ? next : 0;
}

/* k terms from term l on, of some rows from row i on. */
static inline void some_terms(const block *x, long i, long rows, long l, long k) {
  const float *a = x->at[A] + i * STEP[A][ALONG_ROWS] + l * STEP[A][ALONG_K];
  const float beta = TENSOR[ADDEND] >= 0 || l > 0 ? 1 : 0;
  const long row = A_TURNED ? A_LENGTH : STEP[A][ALONG_ROWS];
  const long term = A_TURNED ? 1 : STEP[A][ALONG_K], step = STEP[OUT][ALONG_ROWS];
  if (A_TURNED && !A_SHARED) vtb_transpose(a, STEP[A][ALONG_K], k, rows, x->turned, A_LENGTH);
  if (A_TURNED) a = A_SHARED ? x->turned + (x->row + i) * A_LENGTH + x->term + l : x->turned;
  for (long j = 0; j < x->columns; j += WIDTH) {
    const int adds = ADDS_ROWS && l == 0;
    const float *b = panel(x, j, l, k);
    float *out = x->at[OUT] + i * step + j;
    const float *from = adds ? x->at[ADDEND] + i * STEP[ADDEND][ALONG_ROWS] + j : out;
    const long columns = least(x->columns - j, WIDTH);
    const long ld_from = adds ? STEP[ADDEND][ALONG_ROWS] : step;
    if (remainder(N, W) && (N < WIDTH || columns < WIDTH))
      vtb_product_columns(a, row, term, b, B_STEP, beta, from, ld_from, out, step, rows, columns,
                          k);
    else
      vtb_product_from(a, row, term, b, B_STEP, beta, from, ld_from, out, step, rows,
                       pieces(columns, W), k, panel(x, next_panel(x, j), l, k), AHEAD(j) * k);
  }
}

static inline void all_terms(const block *x) {
  if (TENSOR[ADDEND] >= 0 && !ADDS_ROWS) begin_with_addend(x);
  for (long l = 0; l < x->k; l += DEPTH) {
    const long k = least(x->k - l, DEPTH);
    if (B_LAID_OUT && !B_SHARED) lay_out_b(x, l, k);
    for (long i = 0; i < x->rows; i += GROUP_ROWS)
      some_terms(x, i, least(x->rows - i, GROUP_ROWS), l, k);
  }
}

static inline long loops_size(void) {
  long n = 1;
  UNROLL for (int i = 0; i < MOST_LOOPS; i++) n *= LOOP[i][0] ? LOOP[i][0] : 1;
  return n;
}

TASK(product, loops_size() * BLOCKS, GRAIN, BYTES_OF(lay_out)) {
  block x = lay_out(&(memory){scratch, 0});
  const shared all = lay_out_shared(&(memory){temp, 0});
  long place = remainder(index, BLOCKS), loop = quotient(index, BLOCKS);
  const long part = remainder(place, PARTS) * PART;
  place = quotient(place, PARTS);
  const long column = remainder(place, pieces(N, TASK_COLUMNS)) * TASK_COLUMNS;
  const long row = quotient(place, pieces(N, TASK_COLUMNS)) * TASK_ROWS;
  UNROLL for (int i = 0; i < ALL; i++) {
    if (TENSOR[i] < 0) continue;
    x.at[i] = t[TENSOR[i]] + row * STEP[i][ALONG_ROWS] + part * STEP[i][ALONG_K];
    if (i != B || B_LIES != PANELS) x.at[i] += column * STEP[i][ALONG_COLUMNS];
  }
  UNROLL for (int l = MOST_LOOPS - 1; l >= 0; l--) if (LOOP[l][0]) {
    const long n = remainder(loop, LOOP[l][0]);
    loop = quotient(loop, LOOP[l][0]);
    UNROLL for (int i = 0; i < ALL; i++) if (TENSOR[i] >= 0) x.at[i] += n * LOOP[l][1 + i];
  }
  if (PARTS > 1) x.at[OUT] += quotient(part, PART) * M * N;
  if (A_SHARED) x.turned = all.rows;
  if (B_SHARED) x.panels = all.panels;
  x.row = row;
  x.column = column;
  x.term = part;
  x.rows = least(M - row, TASK_ROWS);
  x.columns = least(N - column, TASK_COLUMNS);
  x.k = least(K - part, PART);
  all_terms(&x);
}

/* Register-tiled products: see smallgemm.h.
 *
 * A tile of C, `rows` x `vectors`, stays in registers while k runs; each step loads `vectors`
 * vectors of B and broadcasts `rows` elements of A. 6 x 2 vectors fill the 16 registers of AVX2, 8
 * x 3 the 32 of AVX-512; smaller tiles take the remainders. The panel of B that a column of tiles
 * reads stays in L1.
 */
#include "codegen/cpu/product/smallgemm.h"

#include <string.h>

#define MAX_ROWS 8
#define MAX_VECTORS 3

typedef struct gemm {
  LLVMValueRef a, a_row, a_col, b, ldb, beta, out, ldc, m, n_vectors, k;
  LLVMValueRef last; /* columns of the last vector; NULL: all, and nothing is masked */
} gemm;

int64_t vtb__padded(const vtb_cpu *c, int64_t n) {
  return (n + c->width - 1) / c->width * c->width;
}

static LLVMValueRef mul(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildNSWMul(c->b, x, y, "");
}

/* The mask of the last vector of a tile that ends at vector column `end`; NULL: it is whole. */
static LLVMValueRef last_mask(vtb_cpu *c, const gemm *g, LLVMValueRef end) {
  if (!g->last) return NULL;
  LLVMValueRef is_last = LLVMBuildICmp(c->b, LLVMIntEQ, end, g->n_vectors, "");
  LLVMValueRef left = LLVMBuildSelect(c->b, is_last, g->last, vtb_cpu_i64(c, c->width), "");
  return vtb_cpu_mask(c, left, c->width);
}

static LLVMValueRef load(vtb_cpu *c, LLVMValueRef at, LLVMValueRef mask) {
  return mask ? vtb_cpu_load_masked(c, at, mask, c->width) : vtb_cpu_load(c, at, c->width);
}

static void store(vtb_cpu *c, LLVMValueRef x, LLVMValueRef at, LLVMValueRef mask) {
  if (mask)
    vtb_cpu_store_masked(c, x, at, mask);
  else
    vtb_cpu_store(c, x, at);
}

/* One tile of C at row i, vector column jv. */
static void tile(vtb_cpu *c, const gemm *g, int rows, int vectors, LLVMValueRef i,
                 LLVMValueRef jv) {
  LLVMValueRef col = vtb_cpu_mul(c, jv, c->width), zero = vtb_cpu_i64(c, 0),
               one = vtb_cpu_i64(c, 1);
  LLVMValueRef a[MAX_ROWS], out[MAX_ROWS], b = vtb_cpu_at(c, g->b, col);
  LLVMValueRef end = vtb_cpu_add(c, jv, vtb_cpu_i64(c, vectors)), mask = last_mask(c, g, end);
  for (int r = 0; r < rows; r++) {
    LLVMValueRef row = vtb_cpu_add(c, i, vtb_cpu_i64(c, r));
    a[r] = vtb_cpu_at(c, g->a, mul(c, row, g->a_row));
    out[r] = vtb_cpu_at(c, g->out, vtb_cpu_add(c, mul(c, row, g->ldc), col));
  }
  vtb_cpu_for l = vtb_cpu_for_begin(c, zero, g->k, one);
  LLVMValueRef acc[MAX_ROWS][MAX_VECTORS];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) acc[r][v] = vtb_cpu_carry(c, &l, LLVMConstNull(c->vf32));
  LLVMValueRef a_at = vtb_cpu_carry(c, &l, zero), b_at = vtb_cpu_carry(c, &l, zero),
               bv[MAX_VECTORS];
  for (int v = 0; v < vectors; v++)
    bv[v] = load(c, vtb_cpu_at(c, b, vtb_cpu_add(c, b_at, vtb_cpu_i64(c, v * c->width))),
                 v + 1 == vectors ? mask : NULL);
  for (int r = 0; r < rows; r++) {
    LLVMValueRef x = vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, a[r], a_at), 1), c->width);
    for (int v = 0; v < vectors; v++)
      vtb_cpu_carry_next(&l, r * vectors + v, vtb_cpu_fma(c, x, bv[v], acc[r][v]));
  }
  vtb_cpu_carry_next(&l, rows * vectors, vtb_cpu_add(c, a_at, g->a_col));
  vtb_cpu_carry_next(&l, rows * vectors + 1, vtb_cpu_add(c, b_at, g->ldb));
  vtb_cpu_for_end(c, &l);

  LLVMValueRef fresh = LLVMBuildFCmp(c->b, LLVMRealOEQ, g->beta, vtb_cpu_f32(c, 0), "");
  vtb_cpu_if test = vtb_cpu_if_begin(c, fresh);
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++)
      store(c, vtb_cpu_carried(&l, r * vectors + v),
            vtb_cpu_at(c, out[r], vtb_cpu_i64(c, v * c->width)), v + 1 == vectors ? mask : NULL);
  vtb_cpu_else(c, &test);
  LLVMValueRef beta = vtb_cpu_splat(c, g->beta, c->width);
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) {
      LLVMValueRef at = vtb_cpu_at(c, out[r], vtb_cpu_i64(c, v * c->width));
      LLVMValueRef own = v + 1 == vectors ? mask : NULL;
      store(c, vtb_cpu_fma(c, beta, load(c, at, own), vtb_cpu_carried(&l, r * vectors + v)), at,
            own);
    }
  vtb_cpu_if_end(c, &test);
}

/* All rows of a column of tiles: the tallest tile as long as it fits, then the remainder by
 * halves. */
static void column(vtb_cpu *c, const gemm *g, int max_rows, int vectors, LLVMValueRef jv) {
  LLVMValueRef from = vtb_cpu_i64(c, 0);
  for (int rows = max_rows; rows >= 1; rows = rows == 6 ? 4 : rows / 2) {
    vtb_cpu_for l = vtb_cpu_for_begin(c, from, vtb_cpu_add(c, g->m, vtb_cpu_i64(c, 1 - rows)),
                                      vtb_cpu_i64(c, rows));
    tile(c, g, rows, vectors, l.i, jv);
    vtb_cpu_for_end(c, &l);
    from = l.i;
  }
}

static void gemm_body(vtb_cpu *c, const gemm *g) {
  int max_rows = c->width >= 16 ? 8 : 6, max_vectors = c->width >= 16 ? 3 : 2;
  LLVMValueRef from = vtb_cpu_i64(c, 0);
  for (int vectors = max_vectors; vectors >= 1; vectors--) {
    LLVMValueRef to = vtb_cpu_add(c, g->n_vectors, vtb_cpu_i64(c, 1 - vectors));
    vtb_cpu_for l = vtb_cpu_for_begin(c, from, to, vtb_cpu_i64(c, vectors));
    column(c, g, max_rows, vectors, l.i);
    vtb_cpu_for_end(c, &l);
    from = l.i;
  }
}

/* A private function of the program; while it is emitted c->b stands in it. */
static LLVMValueRef begin_function(vtb_cpu *c, const char *name, LLVMTypeRef type,
                                   LLVMBuilderRef *saved) {
  LLVMValueRef fn = LLVMAddFunction(c->module, name, type);
  LLVMSetLinkage(fn, LLVMInternalLinkage);
  const char *const names[] = {"noinline", "nounwind"};
  for (int i = 0; i < 2; i++) {
    unsigned kind = LLVMGetEnumAttributeKindForName(names[i], strlen(names[i]));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(c->ctx, kind, 0));
  }
  if (c->width == 16)
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(c->ctx, "prefer-vector-width", 19, "512", 3));
  *saved = c->b;
  c->b = LLVMCreateBuilderInContext(c->ctx);
  LLVMPositionBuilderAtEnd(c->b, LLVMAppendBasicBlockInContext(c->ctx, fn, "entry"));
  return fn;
}

static void end_function(vtb_cpu *c, LLVMBuilderRef saved) {
  LLVMBuildRetVoid(c->b);
  LLVMDisposeBuilder(c->b);
  c->b = saved;
}

enum { GEMM_ARGUMENTS = 12 };

static LLVMTypeRef gemm_type(vtb_cpu *c) {
  LLVMTypeRef args[GEMM_ARGUMENTS] = {c->ptr, c->i64, c->i64, c->ptr, c->i64, c->f32,
                                      c->ptr, c->i64, c->i64, c->i64, c->i64, c->i64};
  return LLVMFunctionType(c->void_type, args, GEMM_ARGUMENTS, 0);
}

static LLVMValueRef gemm_function(vtb_cpu *c, bool masked) {
  const char *name = masked ? "vtb.smallgemm.masked" : "vtb.smallgemm";
  LLVMValueRef fn = LLVMGetNamedFunction(c->module, name);
  if (fn) return fn;
  LLVMBuilderRef saved;
  fn = begin_function(c, name, gemm_type(c), &saved);
  gemm g = {LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 2),  LLVMGetParam(fn, 3),
            LLVMGetParam(fn, 4), LLVMGetParam(fn, 5), LLVMGetParam(fn, 6),  LLVMGetParam(fn, 7),
            LLVMGetParam(fn, 8), LLVMGetParam(fn, 9), LLVMGetParam(fn, 10), NULL};
  if (masked) g.last = LLVMGetParam(fn, 11);
  gemm_body(c, &g);
  end_function(c, saved);
  return fn;
}

void vtb__smallgemm(vtb_cpu *c, LLVMValueRef a, LLVMValueRef a_row, LLVMValueRef a_col,
                    LLVMValueRef b, LLVMValueRef ldb, LLVMValueRef beta, LLVMValueRef out,
                    LLVMValueRef ldc, LLVMValueRef m, LLVMValueRef n_vectors, LLVMValueRef k) {
  LLVMValueRef args[GEMM_ARGUMENTS] = {a,   a_row, a_col, b,         ldb, beta,
                                       out, ldc,   m,     n_vectors, k,   vtb_cpu_i64(c, 0)};
  LLVMBuildCall2(c->b, gemm_type(c), gemm_function(c, false), args, GEMM_ARGUMENTS, "");
}

void vtb__smallgemm_columns(vtb_cpu *c, LLVMValueRef a, LLVMValueRef a_row, LLVMValueRef a_col,
                            LLVMValueRef b, LLVMValueRef ldb, LLVMValueRef beta, LLVMValueRef out,
                            LLVMValueRef ldc, LLVMValueRef m, int64_t n, LLVMValueRef k) {
  LLVMValueRef vectors = vtb_cpu_i64(c, vtb__padded(c, n) / c->width);
  if (n % c->width == 0) {
    vtb__smallgemm(c, a, a_row, a_col, b, ldb, beta, out, ldc, m, vectors, k);
    return;
  }
  LLVMValueRef last = vtb_cpu_i64(c, n % c->width);
  LLVMValueRef args[GEMM_ARGUMENTS] = {a,   a_row, a_col, b,       ldb, beta,
                                       out, ldc,   m,     vectors, k,   last};
  LLVMBuildCall2(c->b, gemm_type(c), gemm_function(c, true), args, GEMM_ARGUMENTS, "");
}

/* ---- triangular solve ------------------------------------------------------------------------ */

typedef struct solve {
  LLVMValueRef a, lda, w, ldw, from, m, n_vectors;
} solve;

/* One tile of W, rows from + i on, in registers throughout: products with the rows before them,
 * then the tile's own triangle. */
static void solve_tile(vtb_cpu *c, const solve *g, int rows, int vectors, LLVMValueRef i,
                       LLVMValueRef jv) {
  LLVMValueRef w = vtb_cpu_at(c, g->w, vtb_cpu_mul(c, jv, c->width)), zero = vtb_cpu_i64(c, 0);
  LLVMValueRef before = vtb_cpu_add(c, g->from, i), a[MAX_ROWS], at[MAX_ROWS][MAX_VECTORS];
  LLVMValueRef sum[MAX_ROWS][MAX_VECTORS];
  for (int r = 0; r < rows; r++) {
    a[r] = vtb_cpu_at(c, g->a, mul(c, vtb_cpu_add(c, i, vtb_cpu_i64(c, r)), g->lda));
    LLVMValueRef row = mul(c, vtb_cpu_add(c, before, vtb_cpu_i64(c, r)), g->ldw);
    for (int v = 0; v < vectors; v++) {
      at[r][v] = vtb_cpu_at(c, w, vtb_cpu_add(c, row, vtb_cpu_i64(c, v * c->width)));
      sum[r][v] = vtb_cpu_load(c, at[r][v], c->width);
    }
  }
  vtb_cpu_for l = vtb_cpu_for_begin(c, zero, before, vtb_cpu_i64(c, 1));
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) sum[r][v] = vtb_cpu_carry(c, &l, sum[r][v]);
  LLVMValueRef w_at = vtb_cpu_carry(c, &l, zero), b[MAX_VECTORS];
  for (int v = 0; v < vectors; v++)
    b[v] = vtb_cpu_load(c, vtb_cpu_at(c, w, vtb_cpu_add(c, w_at, vtb_cpu_i64(c, v * c->width))),
                        c->width);
  for (int r = 0; r < rows; r++) {
    LLVMValueRef x = vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, a[r], l.i), 1), c->width);
    for (int v = 0; v < vectors; v++)
      vtb_cpu_carry_next(&l, r * vectors + v, vtb_cpu_fma(c, x, b[v], sum[r][v]));
  }
  vtb_cpu_carry_next(&l, rows * vectors, vtb_cpu_add(c, w_at, g->ldw));
  vtb_cpu_for_end(c, &l);
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) sum[r][v] = vtb_cpu_carried(&l, r * vectors + v);
  for (int s = 0; s < rows; s++) { /* row s is done: to those below it */
    for (int r = s + 1; r < rows; r++) {
      LLVMValueRef col = vtb_cpu_add(c, before, vtb_cpu_i64(c, s));
      LLVMValueRef x = vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, a[r], col), 1), c->width);
      for (int v = 0; v < vectors; v++) sum[r][v] = vtb_cpu_fma(c, x, sum[s][v], sum[r][v]);
    }
    for (int v = 0; v < vectors; v++) vtb_cpu_store(c, sum[s][v], at[s][v]);
  }
}

static void solve_body(vtb_cpu *c, const solve *g) {
  int max_rows = c->width >= 16 ? 8 : 6, max_vectors = c->width >= 16 ? 3 : 2;
  LLVMValueRef from = vtb_cpu_i64(c, 0);
  for (int vectors = max_vectors; vectors >= 1; vectors--) {
    vtb_cpu_for cols =
        vtb_cpu_for_begin(c, from, vtb_cpu_add(c, g->n_vectors, vtb_cpu_i64(c, 1 - vectors)),
                          vtb_cpu_i64(c, vectors));
    LLVMValueRef top = vtb_cpu_i64(c, 0);
    for (int rows = max_rows; rows >= 1; rows = rows == 6 ? 4 : rows / 2) {
      vtb_cpu_for l = vtb_cpu_for_begin(c, top, vtb_cpu_add(c, g->m, vtb_cpu_i64(c, 1 - rows)),
                                        vtb_cpu_i64(c, rows));
      solve_tile(c, g, rows, vectors, l.i, cols.i);
      vtb_cpu_for_end(c, &l);
      top = l.i;
    }
    vtb_cpu_for_end(c, &cols);
    from = cols.i;
  }
}

void vtb__smallsolve(vtb_cpu *c, LLVMValueRef a, LLVMValueRef lda, LLVMValueRef w, LLVMValueRef ldw,
                     LLVMValueRef from, LLVMValueRef m, LLVMValueRef n_vectors) {
  LLVMTypeRef args[] = {c->ptr, c->i64, c->ptr, c->i64, c->i64, c->i64, c->i64};
  LLVMTypeRef type = LLVMFunctionType(c->void_type, args, 7, 0);
  LLVMValueRef fn = LLVMGetNamedFunction(c->module, "vtb.smallsolve");
  if (!fn) {
    LLVMBuilderRef saved;
    fn = begin_function(c, "vtb.smallsolve", type, &saved);
    solve g = {LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 2), LLVMGetParam(fn, 3),
               LLVMGetParam(fn, 4), LLVMGetParam(fn, 5), LLVMGetParam(fn, 6)};
    solve_body(c, &g);
    end_function(c, saved);
  }
  LLVMValueRef values[] = {a, lda, w, ldw, from, m, n_vectors};
  LLVMBuildCall2(c->b, type, fn, values, 7, "");
}

/* ---- transposition --------------------------------------------------------------------------- */

/* The lanes of x and y that stay and that cross when blocks of d lanes off the diagonal are
 * exchanged. */
static void exchange(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y, int d, LLVMValueRef *low,
                     LLVMValueRef *high) {
  LLVMValueRef l[16], h[16];
  for (int i = 0; i < c->width; i++) {
    l[i] = LLVMConstInt(c->i32, (unsigned)(i & d ? c->width + i - d : i), 0);
    h[i] = LLVMConstInt(c->i32, (unsigned)(i & d ? c->width + i : i + d), 0);
  }
  *low = LLVMBuildShuffleVector(c->b, x, y, LLVMConstVector(l, (unsigned)c->width), "");
  *high = LLVMBuildShuffleVector(c->b, x, y, LLVMConstVector(h, (unsigned)c->width), "");
}

/* In place, by exchanging ever larger off-diagonal blocks. */
static void transpose_registers(vtb_cpu *c, LLVMValueRef *r) {
  for (int d = 1; d < c->width; d *= 2)
    for (int i = 0; i < c->width; i++)
      if (!(i & d)) exchange(c, r[i], r[i + d], d, &r[i], &r[i + d]);
}

typedef struct flip {
  LLVMValueRef x, ld, rows, n_cols, out, ld_out;
} flip;

static void flip_body(vtb_cpu *c, const flip *f) {
  LLVMValueRef zero = vtb_cpu_i64(c, 0), w = vtb_cpu_i64(c, c->width),
               last = vtb_cpu_add(c, f->rows, vtb_cpu_i64(c, -1));
  vtb_cpu_for rows = vtb_cpu_for_begin(c, zero, f->rows, w);
  LLVMValueRef at[16], r[16];
  for (int i = 0; i < c->width; i++)
    at[i] = vtb_cpu_at(
        c, f->x, mul(c, vtb_cpu_min(c, vtb_cpu_add(c, rows.i, vtb_cpu_i64(c, i)), last), f->ld));
  vtb_cpu_for cols = vtb_cpu_for_begin(c, zero, f->n_cols, w);
  for (int i = 0; i < c->width; i++) r[i] = vtb_cpu_load(c, vtb_cpu_at(c, at[i], cols.i), c->width);
  transpose_registers(c, r);
  LLVMValueRef out = vtb_cpu_at(c, f->out, vtb_cpu_add(c, mul(c, cols.i, f->ld_out), rows.i));
  LLVMValueRef left = vtb_cpu_add(c, f->n_cols, LLVMBuildNeg(c->b, cols.i, ""));
  vtb_cpu_if whole = vtb_cpu_if_begin(c, LLVMBuildICmp(c->b, LLVMIntSGE, left, w, ""));
  for (int i = 0; i < c->width; i++)
    vtb_cpu_store(c, r[i], vtb_cpu_at(c, out, mul(c, vtb_cpu_i64(c, i), f->ld_out)));
  vtb_cpu_else(c, &whole);
  for (int i = 0; i < c->width - 1; i++) {
    vtb_cpu_if some =
        vtb_cpu_if_begin(c, LLVMBuildICmp(c->b, LLVMIntSGT, left, vtb_cpu_i64(c, i), ""));
    vtb_cpu_store(c, r[i], vtb_cpu_at(c, out, mul(c, vtb_cpu_i64(c, i), f->ld_out)));
    vtb_cpu_if_end(c, &some);
  }
  vtb_cpu_if_end(c, &whole);
  vtb_cpu_for_end(c, &cols);
  vtb_cpu_for_end(c, &rows);
}

void vtb__transpose_tile(vtb_cpu *c, LLVMValueRef x, LLVMValueRef ld, LLVMValueRef rows,
                         LLVMValueRef n_cols, LLVMValueRef out, LLVMValueRef ld_out) {
  LLVMTypeRef args[] = {c->ptr, c->i64, c->i64, c->i64, c->ptr, c->i64};
  LLVMTypeRef type = LLVMFunctionType(c->void_type, args, 6, 0);
  LLVMValueRef fn = LLVMGetNamedFunction(c->module, "vtb.transpose_tile");
  if (!fn) {
    LLVMBuilderRef saved;
    fn = begin_function(c, "vtb.transpose_tile", type, &saved);
    flip f = {LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 2),
              LLVMGetParam(fn, 3), LLVMGetParam(fn, 4), LLVMGetParam(fn, 5)};
    flip_body(c, &f);
    end_function(c, saved);
  }
  LLVMValueRef values[] = {x, ld, rows, n_cols, out, ld_out};
  LLVMBuildCall2(c->b, type, fn, values, 6, "");
}

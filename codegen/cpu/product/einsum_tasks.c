/* Tasks of a planned product: blocks of rows and columns, cut by shape only, so that results do not
 * depend on threads.
 *
 * Large products go to the services' sgemm. Narrow ones, with few rows, columns or terms (gates and
 * their adjoints), are bound by reading the large operand: BLAS would copy it first, the register
 * tiles of smallgemm read it where it is. What is added is written into a block before the product
 * adds to it, while the block is in the cache. Where few blocks have long sums, k is cut as well
 * and the parts are added in order.
 */
#include "codegen/cpu/product/einsum.h"
#include "ir/ops.h"
#include "codegen/cpu/product/smallgemm.h"

typedef struct blocks {
  int64_t m, n, k;    /* sizes of a block */
  int64_t nm, nn, nk; /* how many */
} blocks;

enum { NARROW = 16, FEW_BLOCKS = 8, MOST_BLOCKS = 64 };

static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t at_most(int64_t x, int64_t most) { return x < most ? x : most; }
static int64_t at_least(int64_t x, int64_t least) { return x > least ? x : least; }

static int64_t loops_size(const vtb__product *p) {
  int64_t n = 1;
  for (int i = 0; i < p->n_loops; i++) n *= p->loops[i].size;
  return n;
}

static double flops_of(int64_t m, int64_t n, int64_t k) {
  return 2.0 * (double)m * (double)n * (double)k;
}

/* `count` pieces of one size, a multiple of `step` but for the last. */
static void cut(int64_t size, int64_t count, int64_t step, int64_t *piece, int64_t *n) {
  *piece = at_most(ceil_div(ceil_div(size, at_least(count, 1)), step) * step, size);
  *n = ceil_div(size, *piece);
}

/* nm x nn blocks, `want` or a few more. BLAS packs a block's rows and columns anew: of all ways the
 * one that packs least, that is rows nn times and columns nm times. */
static void cut_squarely(const vtb__product *p, int64_t want, blocks *b) {
  int64_t most_n = at_least(p->n.size / 96, 1), most_m = at_least(p->m.size / 48, 1),
          best = INT64_MAX;
  for (int64_t nn = 1; nn <= at_most(want, most_n); nn++) {
    int64_t nm = at_most(ceil_div(want, nn), most_m), packed = nn * p->m.size + nm * p->n.size;
    bool enough = nm * nn >= want || nn == most_n;
    if (!enough || packed >= best) continue;
    best = packed;
    cut(p->n.size, nn, 16, &b->n, &b->nn);
    cut(p->m.size, nm, 4, &b->m, &b->nm);
  }
}

/* About 100 million operations a block, or as few as 4 million to have FEW_BLOCKS for the
 * threads. */
static blocks blas_blocks(const vtb__product *p) {
  double flops = flops_of(p->m.size, p->n.size, p->k.size);
  int64_t outer = loops_size(p), want = at_least((int64_t)(flops / 100e6),
                                                 at_most((int64_t)(flops / 4e6), FEW_BLOCKS - 1)) +
                                        1;
  want = at_least(at_most(want, MOST_BLOCKS / outer), 1);
  blocks b = {.k = p->k.size, .nk = 1};
  cut_squarely(p, want, &b);
  if (outer == 1 && !p->l.adds && b.nm * b.nn * 2 < want &&
      p->k.size >= 2048) /* few results, long sums */
    cut(p->k.size, at_most(at_most(want / (b.nm * b.nn), p->k.size / 1024), 16), 16, &b.k, &b.nk);
  return b;
}

static blocks narrow_blocks(const vtb__product *p) {
  int64_t outer = loops_size(p);
  blocks b = {.n = p->n.size, .nn = 1, .k = p->k.size, .nk = 1};
  double row = flops_of(1, p->n.size, p->k.size) + 16.0 * (double)(p->n.size + p->k.size);
  int64_t want = at_most((int64_t)(row * (double)p->m.size / 4e5), MOST_BLOCKS / outer);
  cut(p->m.size, at_most(want, p->m.size / 24), 24, &b.m, &b.nm);
  if (outer == 1 && !p->l.adds && b.nm < want && p->k.size >= 512)
    cut(p->k.size, at_most(at_most(want / b.nm, p->k.size / 256), 32), 16, &b.k, &b.nk);
  return b;
}

/* ---- narrow products ------------------------------------------------------------------------- */

/* Few rows of columns that lie as they are needed: nothing is laid out anew, and the last vector is
 * masked. */
static bool few_rows(const vtb_cpu *c, const vtb__product *p) {
  return !p->trans_b && p->m.size <= NARROW && p->n.size > c->width / 2 && p->k.size >= 2;
}

/* Decides if smallgemm serves, and how B must lie for it: rows of whole vectors. */
static void plan_narrow(vtb_cpu *c, vtb__product *p) {
  if (p->m.size > NARROW && p->n.size > NARROW && p->k.size > NARROW) return;
  if (p->k.size < 2 || (p->m.size * p->n.size < 4 * c->width && !few_rows(c, p))) return;
  bool whole = p->n.size % c->width == 0, loops = false;
  for (int i = 0; i < p->n_loops; i++) loops |= p->loops[i].stride[p->b] != 0;
  bool direct = whole ? !p->trans_b : few_rows(c, p) && (loops || p->n.size > c->width);
  if (loops && !(direct && few_rows(c, p))) return;
  if (!direct && !whole && p->n.size > c->width) return;
  if (!direct && vtb__padded(c, p->n.size) * p->k.size > 1 << 14) return;
  p->narrow = true;
  if (direct) return;
  vtb_value v = {.type = {.dtype = VTB_F32, .rank = 2}, .name = "columns"};
  int64_t stride[] = {p->k.stride[p->b], p->n.stride[p->b]}, row = vtb__padded(c, p->n.size);
  v.type.dim[0].size = p->k.size;
  v.type.dim[1].size = p->n.size;
  vtb_root root = {.value = &v, .tensor = -1, .stride = {row, 1}};
  vtb_leaf leaf = {.value = &v, .tensor = vtb__einsum_tensor(c, p->b), .stride = stride};
  if (p->temp[p->b] >= 0) {
    leaf.tensor = -1;
    leaf.temp = p->temp[p->b];
  }
  root.temp = p->temp[p->b] = vtb_cpu_temp(c, row * p->k.size * 4);
  vtb_cpu_expr e;
  vtb__expr_init(&e, c, NULL);
  vtb_vec_push(&e.body.leaves, leaf);
  vtb__emit_loop(&e.body, &root, 1);
  vtb__expr_free(&e);
  p->trans_b = false;
  p->ldb = p->k.stride[p->b] = row;
  p->n.stride[p->b] = 1;
  if (!whole) p->padded = row;
}

/* ---- one block ------------------------------------------------------------------------------- */

typedef struct block {
  const vtb__product *p;
  LLVMValueRef ptr[EINSUM_TENSORS]; /* at the block's corner */
  LLVMValueRef m, n, k;
  LLVMValueRef tile; /* scratch for rows of p->padded columns */
} block;

static LLVMValueRef load(vtb_cpu *c, LLVMValueRef ptr, LLVMValueRef mask) {
  return mask ? vtb_cpu_load_masked(c, ptr, mask, c->width) : vtb_cpu_load(c, ptr, c->width);
}

static void store(vtb_cpu *c, LLVMValueRef v, LLVMValueRef ptr, LLVMValueRef mask) {
  if (mask)
    vtb_cpu_store_masked(c, v, ptr, mask);
  else
    vtb_cpu_store(c, v, ptr);
}

/* A vector of what is added at row i, column j, whatever its stride along columns. */
static LLVMValueRef load_addend(vtb_cpu *c, const block *b, LLVMValueRef i, LLVMValueRef j,
                                LLVMValueRef mask) {
  int64_t step = b->p->n.stride[EINSUM_ADD];
  LLVMValueRef row =
      vtb_cpu_at(c, b->ptr[EINSUM_ADD], vtb_cpu_mul(c, i, b->p->m.stride[EINSUM_ADD]));
  if (step == 0) return vtb_cpu_splat(c, vtb_cpu_load(c, row, 1), c->width);
  if (step == 1) return load(c, vtb_cpu_at(c, row, j), mask);
  LLVMValueRef v = LLVMGetPoison(c->vf32), last = LLVMBuildSub(c->b, b->n, vtb_cpu_i64(c, 1), "");
  for (int l = 0; l < c->width; l++) {
    LLVMValueRef column = vtb_cpu_min(c, vtb_cpu_add(c, j, vtb_cpu_i64(c, l)), last);
    LLVMValueRef x = vtb_cpu_load(c, vtb_cpu_at(c, row, vtb_cpu_mul(c, column, step)), 1);
    v = LLVMBuildInsertElement(c->b, v, x, vtb_cpu_i64(c, l), "");
  }
  return v;
}

typedef void (*span_fn)(vtb_cpu *c, const block *b, LLVMValueRef i, LLVMValueRef j,
                        LLVMValueRef mask);

/* Calls `body` for every vector of every row of the block. */
static void for_spans(vtb_cpu *c, const block *b, span_fn body) {
  LLVMValueRef zero = vtb_cpu_i64(c, 0);
  LLVMValueRef over = vtb_cpu_rem(c, b->n, c->width), whole = LLVMBuildSub(c->b, b->n, over, "");
  vtb_cpu_for rows = vtb_cpu_for_begin(c, zero, b->m, vtb_cpu_i64(c, 1));
  vtb_cpu_for columns = vtb_cpu_for_begin(c, zero, whole, vtb_cpu_i64(c, c->width));
  body(c, b, rows.i, columns.i, NULL);
  vtb_cpu_for_end(c, &columns);
  vtb_cpu_if tail = vtb_cpu_if_begin(c, LLVMBuildICmp(c->b, LLVMIntSGT, over, zero, ""));
  body(c, b, rows.i, whole, vtb_cpu_mask(c, over, c->width));
  vtb_cpu_if_end(c, &tail);
  vtb_cpu_for_end(c, &rows);
}

static LLVMValueRef result_at(vtb_cpu *c, const block *b, LLVMValueRef i, LLVMValueRef j) {
  return vtb_cpu_at(c, b->ptr[EINSUM_OUT], vtb_cpu_add(c, vtb_cpu_mul(c, i, b->p->ldc), j));
}

static void prefill_span(vtb_cpu *c, const block *b, LLVMValueRef i, LLVMValueRef j,
                         LLVMValueRef mask) {
  store(c, load_addend(c, b, i, j, mask), result_at(c, b, i, j), mask);
}

static void untile_span(vtb_cpu *c, const block *b, LLVMValueRef i, LLVMValueRef j,
                        LLVMValueRef mask) {
  LLVMValueRef v = vtb_cpu_load(
      c, vtb_cpu_at(c, b->tile, vtb_cpu_add(c, vtb_cpu_mul(c, i, b->p->padded), j)), c->width);
  if (b->p->l.adds) v = LLVMBuildFAdd(c->b, v, load_addend(c, b, i, j, mask), "");
  store(c, v, result_at(c, b, i, j), mask);
}

/* The result may lie where the addend does, with the same strides: then it is there already. */
static void prefill(vtb_cpu *c, const block *b) {
  const vtb__product *p = b->p;
  bool alike = p->temp[EINSUM_OUT] < 0 && p->n.stride[EINSUM_ADD] == p->n.stride[EINSUM_OUT] &&
               p->m.stride[EINSUM_ADD] == p->m.stride[EINSUM_OUT];
  if (!alike) {
    for_spans(c, b, prefill_span);
    return;
  }
  LLVMValueRef apart = LLVMBuildICmp(c->b, LLVMIntNE, b->ptr[EINSUM_ADD], b->ptr[EINSUM_OUT], "");
  vtb_cpu_if fill = vtb_cpu_if_begin(c, apart);
  for_spans(c, b, prefill_span);
  vtb_cpu_if_end(c, &fill);
}

static void narrow_block(vtb_cpu *c, const block *b) {
  const vtb__product *p = b->p;
  bool tiled = p->padded > 0;
  LLVMValueRef beta = vtb_cpu_f32(c, p->l.adds && !tiled ? 1 : 0);
  vtb__smallgemm_columns(
      c, b->ptr[p->a], vtb_cpu_i64(c, p->m.stride[p->a]), vtb_cpu_i64(c, p->k.stride[p->a]),
      b->ptr[p->b], vtb_cpu_i64(c, p->k.stride[p->b]), beta, tiled ? b->tile : b->ptr[EINSUM_OUT],
      vtb_cpu_i64(c, tiled ? p->padded : p->ldc), b->m, tiled ? p->padded : p->n.size, b->k);
  if (tiled) for_spans(c, b, untile_span);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static LLVMValueRef base_of(vtb_cpu *c, vtb_cpu_task *t, const vtb__product *p, int tensor) {
  if (tensor <= EINSUM_OUT && p->temp[tensor] >= 0) return vtb_cpu_temp_ptr(c, t, p->temp[tensor]);
  return t->t[vtb__einsum_tensor(c, tensor)].ptr;
}

/* Takes the number of an inner block off *index; returns its start, sets its size. */
static LLVMValueRef take_block(vtb_cpu *c, LLVMValueRef *index, int64_t count, int64_t size,
                               int64_t total, LLVMValueRef *extent) {
  LLVMValueRef start = vtb_cpu_mul(c, vtb_cpu_rem(c, *index, count), size);
  *index = vtb_cpu_div(c, *index, count);
  *extent = count == 1 ? vtb_cpu_i64(c, total)
                       : vtb_cpu_min(c, vtb_cpu_i64(c, size),
                                     LLVMBuildSub(c->b, vtb_cpu_i64(c, total), start, ""));
  return start;
}

/* index = ((loops * nm + im) * nn + in) * nk + ik */
static block block_of(vtb_cpu *c, vtb_cpu_task *t, const vtb__product *p, const blocks *b,
                      int64_t partial) {
  block at = {.p = p};
  LLVMValueRef index = t->index, piece = vtb_cpu_rem(c, index, b->nk);
  LLVMValueRef ik = take_block(c, &index, b->nk, b->k, p->k.size, &at.k);
  LLVMValueRef in = take_block(c, &index, b->nn, b->n, p->n.size, &at.n);
  LLVMValueRef im = take_block(c, &index, b->nm, b->m, p->m.size, &at.m);
  LLVMValueRef offset[EINSUM_TENSORS];
  for (int x = 0; x < EINSUM_TENSORS; x++) {
    offset[x] = vtb_cpu_mul(c, im, p->m.stride[x]);
    offset[x] = vtb_cpu_add(c, offset[x], vtb_cpu_mul(c, in, p->n.stride[x]));
    offset[x] = vtb_cpu_add(c, offset[x], vtb_cpu_mul(c, ik, p->k.stride[x]));
  }
  for (int i = p->n_loops; i-- > 0;) {
    LLVMValueRef k = i ? vtb_cpu_rem(c, index, p->loops[i].size) : index;
    if (i) index = vtb_cpu_div(c, index, p->loops[i].size);
    for (int x = 0; x < EINSUM_TENSORS; x++)
      offset[x] = vtb_cpu_add(c, offset[x], vtb_cpu_mul(c, k, p->loops[i].stride[x]));
  }
  for (int x = 0; x < EINSUM_TENSORS; x++) {
    if (x == EINSUM_ADD && !p->l.adds) continue;
    LLVMValueRef base = base_of(c, t, p, x);
    if (x == EINSUM_OUT && b->nk > 1) {
      base = vtb_cpu_temp_ptr(c, t, partial);
      base = vtb_cpu_at(c, base, vtb_cpu_mul(c, piece, p->m.size * p->n.size));
    }
    at.ptr[x] = vtb_cpu_at(c, base, offset[x]);
  }
  if (p->padded) at.tile = vtb_cpu_scratch(c, t, b->m * p->padded * 4);
  return at;
}

/* Adds the nk partial results at `partial` into the result: reduce_sum over axis 0. */
static void sum_parts(vtb_cpu *c, const vtb__product *p, const blocks *b, int64_t partial) {
  vtb_value parts = {.type = {.dtype = VTB_F32, .rank = 2}, .name = "parts"},
            sum = {.type = {.dtype = VTB_F32, .rank = 1}, .name = "sum"};
  int64_t count = p->m.size * p->n.size, axis = 0;
  parts.type.dim[0].size = b->nk;
  parts.type.dim[1].size = sum.type.dim[0].size = count;
  vtb_attr axes = VTB_A_INTS("axes", &axis, 1);
  vtb_value *operand = &parts, *result = &sum;
  vtb_inst add = {.op = VTB_OP_reduce_sum,
                  .n_operands = 1,
                  .n_results = 1,
                  .n_attrs = 1,
                  .operands = &operand,
                  .results = &result,
                  .attrs = &axes};
  sum.def = &add;
  vtb_root root = {.value = &sum, .stride = {1}};
  root.tensor = p->temp[EINSUM_OUT] >= 0 ? -1 : vtb__einsum_tensor(c, EINSUM_OUT);
  root.temp = p->temp[EINSUM_OUT];
  vtb_cpu_expr e;
  vtb__expr_init(&e, c, NULL);
  vtb_vec_push(&e.body.leaves, ((vtb_leaf){&parts, -1, partial, NULL}));
  vtb__emit_reduce(&e.body, &root, 1);
  vtb__expr_free(&e);
}

/* Parts are summed as one dense row. */
static bool may_cut_k(const vtb__product *p) { return p->ldc == p->n.size || p->m.size == 1; }

void vtb__einsum_emit(vtb_cpu *c, vtb__product *p) {
  plan_narrow(c, p);
  blocks b = p->narrow ? narrow_blocks(p) : blas_blocks(p);
  if (!may_cut_k(p)) {
    b.nk = 1;
    b.k = p->k.size;
  }
  int64_t partial = b.nk > 1 ? vtb_cpu_temp(c, b.nk * p->m.size * p->n.size * 4) : 0;
  int64_t grain = (int64_t)(2e5 / flops_of(b.m, b.n, b.k));
  vtb_cpu_task *t =
      vtb__task_begin(c, p->narrow ? "narrow" : "gemm", loops_size(p) * b.nm * b.nn * b.nk, grain);
  block at = block_of(c, t, p, &b, partial);
  if (p->l.adds && !p->padded) prefill(c, &at);
  if (p->narrow)
    narrow_block(c, &at);
  else
    vtb_cpu_sgemm(c, t, p->trans_a, p->trans_b, at.m, at.n, at.k, 1.0f, at.ptr[p->a], p->lda,
                  at.ptr[p->b], p->ldb, p->l.adds ? 1.0f : 0.0f, at.ptr[EINSUM_OUT], p->ldc);
  vtb_cpu_task_end(c, t);
  if (b.nk > 1) sum_parts(c, p, &b, partial);
}

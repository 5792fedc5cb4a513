/* Kernels of kind local (passes/fuse/words_local.c): bodies whose results are, for a token and a
 * few channels, made of that token and those channels alone.
 *
 * Behind a convolution the body is evaluated where the convolution has its sum, four channels at a
 * time. Without one a thread owns four neighbouring channels of a range of rows: what does not
 * depend on the row, the matrices above all, is loaded once: what four lanes read apart in front of
 * the loop (a warp wants many sectors at once), the rest by compilers.
 */
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "ir/ops.h"
#include "codegen/cuda/loop/expr.h"
#include "ir/kernels.h"
#include "ir/rewrite.h"

enum {
  THREADS = 128,
  FULL = 2112,
  MOST_EACH = 32,
  REGISTERS = 64 /* of a thread: ptxas takes so many where it has a matrix of 4 x 4 */
};

typedef struct local {
  const vtb_inst *fused;
  const vtb_type *type; /* of the element that a thread is at */
  vtb_space space;
  int n_rows; /* leading axes that are the rows' */
  const vtb_cuda_point *point;
  bool makes; /* the point's value, and nothing else */
} local;

static bool is_share(const vtb_value *v) { return v->def && vtb_is_share(v->def); }

/* Factor `number` of the thin products beside a convolution: a line that keeps it. */
static void keep_factor(vtb_cuda_expr *e, const local *l, const vtb_inst *share,
                        const vtb_index *index, int number) {
  const vtb_value *x = vtb_behind_reshapes(share->operands[0]);
  vtb_index at[VTB_MAX_RANK] = {{0}};
  vtb__reshape_index(&e->body, l->type, index, &x->type, at);
  const char *value = vtb__cuda_eval(e, x, at);
  if (l->point && l->point->lanes > 1) value = vtb__cuda_widen(e, value);
  if (e->k) vtb_cuda_line(e->k, "keep(%d, %s);", number, value);
}

/* Gradients of a convolution's weight and bias, whose kernel adds them up itself. */
static bool is_sum(const vtb_value *v) {
  return v->def && (v->def->op == VTB_OP_dwconv_dw || v->def->op == VTB_OP_reduce_sum);
}

static void store_results(vtb_cuda_expr *e, const local *l) {
  vtb_index index[VTB_MAX_RANK];
  vtb__space_index(&e->body, &l->space, index);
  if (l->makes) {
    const char *made = vtb__cuda_eval(e, l->point->value, index);
    if (l->point->lanes > 1) made = vtb__cuda_widen(e, made);
    if (e->k) vtb_cuda_line(e->k, "%s = %s;", l->point->name, made);
    return;
  }
  if (l->point) {
    vtb_memo known = {.value = l->point->value, .result = (void *)(uintptr_t)l->point->name};
    memcpy(known.index, index, sizeof known.index);
    vtb_vec_push(&e->body.memo, known);
    if (l->point->centre) {
      known.value = l->point->value->def->operands[0];
      known.result = (void *)(uintptr_t)l->point->centre;
      vtb_vec_push(&e->body.memo, known);
    }
  }
  for (int r = 0; r < l->fused->n_results; r++) {
    if (is_share(l->fused->callee->returns[r]) || is_sum(l->fused->callee->returns[r])) continue;
    vtb_root root = {.value = l->fused->callee->returns[r], .tensor = l->fused->n_operands + r};
    memcpy(root.stride, vtb_cuda_tensor_of(e->c, root.tensor)->stride, sizeof root.stride);
    vtb_index at[VTB_MAX_RANK] = {{0}};
    vtb__reshape_index(&e->body, l->type, index, &root.value->type, at);
    vtb__cuda_store(e, &root, at, vtb__cuda_eval(e, root.value, at));
  }
  int n = 0;
  for (const vtb_inst *i = l->fused->callee->first; i; i = i->next)
    if (vtb_is_share(i)) keep_factor(e, l, i, index, n++);
}

static void probe(vtb_body *b, vtb_space *s, void *user) {
  local *l = user;
  l->space = *s;
  for (int a = 0; a + 1 < s->rank; a++) /* rows and columns stay apart */
    if (a + 1 == l->n_rows || l->point)
      if (s->first[a + 1] > 0 && s->count[a + 1]) b->no_merge[s->first[a + 1] - 1] = true;
  store_results(vtb__cuda_expr_of(b), l);
}

/* Groups of the variables of axes first ... last - 1. */
static int groups_of(const vtb_cuda_expr *e, const local *l, int first, int last, int *list) {
  int n = 0;
  for (int g = 0; g < e->body.n_groups; g++)
    for (int a = first; a < last; a++)
      if (e->body.groups[g].first >= l->space.first[a] &&
          e->body.groups[g].first < l->space.first[a] + l->space.count[a])
        list[n++] = g;
  return n;
}

static bool fours(const vtb_cuda_expr *e, const local *l) {
  int last = e->body.n_groups - 1, all[VTB_NEST_MAX];
  if (last < 0 || e->body.groups[last].size % 4) return false;
  int n = groups_of(e, l, l->space.rank - 1, l->space.rank, all);
  return n > 0 && all[n - 1] == last;
}

/* ---- behind a convolution -------------------------------------------------------------------- */

static const char *text_at(vtb_cuda_kernel *k, const vtb_inst *fused, const vtb_cuda_point *p,
                           bool makes) {
  vtb_cuda_expr e;
  local l = {.fused = fused, .type = &p->value->type, .point = p, .makes = makes};
  vtb_space space;
  vtb__cuda_expr_init(&e, k->c, fused);
  e.k = k;
  vtb__space_init(&e.body, &space, l.type);
  vtb__probe(&e.body, &space, probe, &l);
  const char *text = NULL;
  if (p->lanes == 1 || fours(&e, &l)) {
    int indent = k->indent, list[VTB_NEST_MAX];
    k->indent = 3;
    vtb__cuda_begin_lanes(&e, p->lanes);
    for (int a = 0; a < l.space.rank; a++) {
      bool last = a + 1 == l.space.rank;
      const char *number = p->number[a];
      if (last && p->lanes > 1)
        number = vtb_arena_printf(&k->c->arena, "%s / %d", number, p->lanes);
      vtb__cuda_decode(&e, number, list, groups_of(&e, &l, a, a + 1, list));
    }
    store_results(&e, &l);
    k->indent = indent;
    if (!e.no_lanes || p->lanes == 1) text = vtb_arena_strdup(&k->c->arena, k->body.at);
    k->body.n = 0;
    if (k->body.at) k->body.at[0] = '\0';
  }
  vtb__nest_end(&e.body);
  vtb__cuda_expr_free(&e);
  return text;
}

const char *vtb__cuda_local_text(vtb_cuda_kernel *k, const vtb_inst *fused,
                                 const vtb_cuda_point *p) {
  return text_at(k, fused, p, false);
}

const char *vtb__cuda_local_value(vtb_cuda_kernel *k, const vtb_inst *fused,
                                  const vtb_cuda_point *p) {
  return text_at(k, fused, p, true);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool write_kernel(vtb_cuda_expr *e, const local *l, int lanes) {
  int rows[VTB_NEST_MAX], columns[VTB_NEST_MAX];
  vtb__cuda_begin_lanes(e, lanes);
  vtb_cuda_kernel *k = e->k = vtb_cuda_begin(e->c, "local", THREADS);
  int n_rows = groups_of(e, l, 0, l->n_rows, rows),
      n_columns = groups_of(e, l, l->n_rows, l->space.rank, columns);
  int64_t height = vtb__cuda_groups_size(e, rows, n_rows),
          width = vtb__cuda_groups_size(e, columns, n_columns);
  int64_t each = (height * width + FULL * THREADS - 1) / (FULL * THREADS);
  if (each > MOST_EACH) each = MOST_EACH;
  const char *type = vtb__cuda_int(e), *first = e->wide ? "(vtb_i64)vtb_block()" : "vtb_block()";
  vtb_cuda_line(k, "const %s thread = %s * %d + vtb_tid();", type, first, THREADS);
  vtb_cuda_line(k, "const %s begin = thread / %lld * %lld;", type, (long long)width,
                (long long)each);
  vtb_cuda_line(k, "const %s end = begin + %lld < %lld ? begin + %lld : %lld;", type,
                (long long)each, (long long)height, (long long)each, (long long)height);
  vtb__cuda_decode(e, vtb_arena_printf(&e->c->arena, "thread %% %lld", (long long)width), columns,
                   n_columns);
  e->before_rows = k->body.n;
  memset(e->by_row, 0, sizeof e->by_row);
  for (int i = 0; i < n_rows; i++) e->by_row[rows[i]] = true;
  vtb_cuda_open(k, "for (%s row = begin; row < end; row++)", type);
  e->rows_indent = k->indent;
  vtb__cuda_decode(e, "row", rows, n_rows);
  store_results(e, l);
  e->before_rows = 0;
  vtb_cuda_close(k);
  vtb__nest_end(&e->body);
  if (lanes > 1 && e->no_lanes) {
    vtb__cuda_discard(k);
    return false;
  }
  vtb__cuda_registers(k, REGISTERS);
  vtb_cuda_launch(k, ((height + each - 1) / each * width + THREADS - 1) / THREADS);
  return true;
}

/* The matrices' axes: 3 with a letter of groups, else 2. */
static int matrix_axes(const vtb_inst *einsum) { return einsum->operands[1]->type.rank; }

void vtb__cuda_sums(vtb_cuda *c, const vtb_inst *fused) {
  if (fused->callee->first->op == VTB_OP_dwconv_dw)
    vtb__cuda_dwconv_sums(c, fused);
  else
    vtb__cuda_blocks_sums(c, fused);
}

void vtb__cuda_local(vtb_cuda *c, const vtb_inst *fused) {
  const vtb_inst *i = fused->callee->first;
  const vtb_inst *product = NULL; /* one of blocks if there is one, whose columns are two axes */
  for (; i; i = i->next) {
    if (i->op == VTB_OP_dwconv || i->op == VTB_OP_dwconv_dx || i->op == VTB_OP_dwconv_dw) {
      vtb__cuda_local_convolution(c, fused);
      return;
    }
    if (i->op == VTB_OP_einsum && (!product || matrix_axes(i) > matrix_axes(product))) product = i;
  }
  vtb_cuda_expr e;
  const vtb_type *type = &product->results[0]->type;
  local l = {.fused = fused, .type = type, .n_rows = type->rank + 1 - matrix_axes(product)};
  vtb_space space;
  vtb__cuda_expr_init(&e, c, fused);
  vtb__space_init(&e.body, &space, l.type);
  vtb__probe(&e.body, &space, probe, &l);
  if (!fours(&e, &l) || !write_kernel(&e, &l, 4)) write_kernel(&e, &l, 1);
  vtb__cuda_expr_free(&e);
}

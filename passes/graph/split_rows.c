/* split_rows: elementwise ops beside reductions over parts of a row take the parts' shape.
 *
 *   %h = mul %x, %rsqrt    [B, N, heads, V]         %h = mul %x, %rsqrt
 *   %y = reshape %h        [B, N, C]          =>    %g = reshape %gate     [B, N, heads, V]
 *   %z = mul %y, %gate     [B, N, C]                %p = mul %h, %g        [B, N, heads, V]
 *                                                   %z = reshape %p        [B, N, C]
 *
 * Reshapes are free views, but no kernel reaches across one: normalising heads and the gate after
 * it would be two passes over memory. Before fuse. Leaves ops alone that have a reduction over the
 * whole row beside them, or that only column sums use, which compute them on the way; but where
 * sums over leading axes go with the rows that they read (memory is the limit: fuse_sums.c), both
 * take the parts' shape.
 */
#include "passes/passes_internal.h"

#include "ir/axes.h"

typedef struct splitter {
  vtb_func *func;
  VTB_VEC(int) mark; /* by value id: 1 + number of the shape, 0 none */
  VTB_VEC(vtb_type) shapes;
  VTB_VEC(vtb_inst *) work;
  bool sums_too; /* over leading axes */
} splitter;

static bool is_elementwise(const vtb_inst *i) {
  return i && vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE &&
         i->results[0]->type.dtype == VTB_F32;
}

static bool reduces_rows(const vtb_inst *i) {
  return vtb_reduces_last(i) && i->operands[0]->type.dim[i->operands[0]->type.rank - 1].size > 1;
}

/* `split` is `whole` with its last axis cut in two, or with one before it that is 1 long. */
static bool splits(const vtb_type *split, const vtb_type *whole) {
  int last = whole->rank - 1;
  if (whole->rank < 1 || split->rank != whole->rank + 1 || split->dtype != whole->dtype ||
      !vtb_type_same_axes(split, whole, last))
    return false;
  return split->dim[last].size * split->dim[last + 1].size == whole->dim[last].size &&
         split->dim[last + 1].size > 1;
}

static int *mark_of(splitter *s, const vtb_inst *i) {
  return vtb__by_id(s->func, &s->mark, i->results[0]->id);
}

static void mark(splitter *s, vtb_inst *i, int shape) {
  if (*mark_of(s, i)) return;
  *mark_of(s, i) = shape;
  vtb__put(s->func, &s->work, i);
}

static void mark_readers(splitter *s, const vtb_value *v, const vtb_inst *after, int shape) {
  for (vtb_inst **r = vtb__readers(v); *r; r++)
    if ((*r)->order > after->order && is_elementwise(*r) &&
        vtb_type_equal(&(*r)->results[0]->type, &s->shapes.at[shape - 1]))
      mark(s, *r, shape);
}

static int number_of_shape(splitter *s, const vtb_type *t) {
  for (size_t k = 0; k < s->shapes.n; k++)
    if (vtb_type_equal(&s->shapes.at[k], t)) return (int)k + 1;
  vtb__put(s->func, &s->shapes, *t);
  return (int)s->shapes.n;
}

/* Elementwise ops of a row reduction's own shape, and those they touch. */
static void mark_region(splitter *s, vtb_inst *reduction) {
  vtb_type *t = &reduction->operands[0]->type;
  int shape = number_of_shape(s, t);
  size_t from = s->work.n;
  if (is_elementwise(reduction->operands[0]->def)) mark(s, reduction->operands[0]->def, shape);
  mark_readers(s, reduction->operands[0], reduction, shape);
  mark_readers(s, reduction->results[0], reduction, shape);
  for (size_t k = from; k < s->work.n; k++) {
    vtb_inst *w = s->work.at[k];
    for (int o = 0; o < w->n_operands; o++) {
      vtb_inst *d = w->operands[o]->def;
      bool column = d && d->results[0]->type.rank == t->rank &&
                    d->results[0]->type.dim[t->rank - 1].size == 1;
      if (is_elementwise(d) && (column || vtb_type_equal(&d->results[0]->type, t)))
        mark(s, d, shape);
    }
    mark_readers(s, w->results[0], w, shape);
  }
}

static bool only_for_columns(const vtb_inst *e) {
  for (vtb_inst **r = vtb__readers(e->results[0]); *r; r++)
    if (vtb_op_get((*r)->op)->klass != VTB_CLASS_REDUCE || reduces_rows(*r)) return false;
  return !vtb_is_returned(e->results[0]);
}

/* The operand of shape `x` as one for the split shape; false if that takes more than a reshape. */
static bool operand_shape(const vtb_type *x, const vtb_type *whole, const vtb_type *split,
                          vtb_type *out) {
  int last = whole->rank - 1;
  if (x->rank == 0) {
    *out = *x;
    return true;
  }
  if (x->rank == whole->rank && x->dim[last].size == 1) {
    *out = *x;
    out->dim[out->rank++] = x->dim[last];
    return true;
  }
  if (x->dim[x->rank - 1].size != whole->dim[last].size) return false;
  *out = *x;
  out->dim[x->rank - 1] = split->dim[last];
  out->dim[x->rank] = split->dim[last + 1];
  out->rank = x->rank + 1;
  return true;
}

static vtb_value *viewed(vtb_builder *b, vtb_value *x, const vtb_type *t) {
  if (x->def && x->def->op == VTB_OP_reshape) {
    vtb_value *from = x->def->operands[0];
    if (vtb_type_equal(&from->type, t)) return from;
    return vtb_b_reshape(b, from, t);
  }
  return vtb_b_shaped(b, x, t);
}

/* Replaces e by `with`; values from `fresh` on, built for it, take e's order. */
static void stand_in(vtb_inst *e, vtb_value *with, int fresh) {
  vtb__stand_in(e->results[0], with);
  for (vtb_inst *made = e->prev; made && made->results[0]->id >= fresh; made = made->prev)
    made->order = e->order;
  vtb_inst_unlink(e);
}

static void retype(splitter *s, vtb_inst *e, int shape) {
  const vtb_type whole = e->results[0]->type, split = s->shapes.at[shape - 1];
  vtb_type types[8];
  if (!is_elementwise(e) || *mark_of(s, e) || !splits(&split, &whole) || e->n_operands > 8 ||
      (!s->sums_too && only_for_columns(e)))
    return;
  for (int o = 0; o < e->n_operands; o++)
    if (!operand_shape(&e->operands[o]->type, &whole, &split, &types[o])) return;
  vtb_builder b = vtb__before(e);
  vtb_value *operands[8];
  int fresh = s->func->n_values;
  for (int o = 0; o < e->n_operands; o++) operands[o] = viewed(&b, e->operands[o], &types[o]);
  vtb_inst *now = vtb_build(&b, e->op, operands, e->n_operands, e->attrs, e->n_attrs);
  b.name_hint = NULL;
  stand_in(e, vtb_b_reshape(&b, now->results[0], &whole), fresh);
  mark(s, now, shape);
}

/* A sum over leading axes, of the parts. */
static void retype_sum(splitter *s, vtb_inst *e, int shape) {
  vtb_value *x = e->operands[0];
  const vtb_type *split = &s->shapes.at[shape - 1];
  int n = vtb_reduces_leading(e);
  if (!s->sums_too || n < 1 || n >= x->type.rank || e->op != VTB_OP_reduce_sum ||
      !splits(split, &x->type))
    return;
  const int64_t *axes = vtb_attr_ints(e, "axes", &n);
  vtb_builder b = vtb__before(e);
  int fresh = s->func->n_values;
  vtb_value *sum = vtb_b_reduce(&b, e->op, viewed(&b, x, split), axes, n, false);
  stand_in(e, vtb_b_reshape(&b, sum, &e->results[0]->type), fresh);
}

static void retype_readers(splitter *s, const vtb_value *v, int shape) {
  for (vtb_inst **r = vtb__readers(v); *r; r++) {
    retype(s, *r, shape);
    if (vtb_op_get((*r)->op)->klass == VTB_CLASS_REDUCE) retype_sum(s, *r, shape);
  }
}

static void spread(splitter *s, vtb_inst *i, int shape) {
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_inst *d = i->operands[o]->def;
    if (d && d->op == VTB_OP_reshape && d->operands[0]->def) retype(s, d->operands[0]->def, shape);
  }
  for (vtb_inst **r = vtb__readers(i->results[0]); *r; r++)
    if ((*r)->op == VTB_OP_reshape) retype_readers(s, (*r)->results[0], shape);
}

void vtb__visit_split_rows(const vtb_pass_context *c, vtb_func *f) {
  splitter s = {.func = f, .sums_too = c->target && c->target->memory_bound};
  vtb_func_number(f);
  for (vtb_inst *i = f->first; i; i = i->next)
    if (reduces_rows(i)) mark_region(&s, i);
  for (size_t k = 0; k < s.work.n; k++) spread(&s, s.work.at[k], *mark_of(&s, s.work.at[k]));
  if (s.work.n) vtb__dce_func(f);
}

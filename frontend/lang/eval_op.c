/* Operators: arithmetic on compile-time numbers, and elementwise IR ops on tensors.
 *
 * Broadcasting is numpy's, with two rules by name: a value per sample (one axis, "B") meets the
 * batch axis of a larger operand; inside a recurrence axes are matched by their names. */
#include "frontend/lang/value.h"
#include "ir/ops.h"
#include "ir/scalar.h"

#include <math.h>

vtb_builder *vtb__at(vtb__eval *e, vtb_span span) {
  if (e->stopped) return NULL;
  if (!e->frame) {
    vtb__report(e, VTB_DIAG_NOT_COMPILE_TIME, span,
                "tensors are computed in models, blocks, functions and recurrences only");
    return NULL;
  }
  e->n_steps++;
  if (++e->n_insts > VTB__MAX_INSTS) {
    vtb__report(e, VTB_DIAG_TOO_LARGE, span, "the program has more than %d instructions",
                VTB__MAX_INSTS);
    e->stopped = true;
    return NULL;
  }
  const char *scope = vtb__scope(e);
  if (*scope) span.scope = vtb_intern(e->module, scope);
  e->frame->b.span = span;
  return &e->frame->b;
}

bool vtb__check_elements(vtb__eval *e, const vtb_type *t, const char *what, vtb_span span) {
  if (vtb_type_count(t) <= VTB__MAX_ELEMENTS) return true;
  vtb__report(e, VTB_DIAG_TOO_LARGE, span, "%s of %s has more than 2^40 elements", what,
              vtb__type_string(e, t));
  return false;
}

bool vtb__check_chain(vtb__eval *e, const vtb_func *f, const char *what, const char *name) {
  int *length = vtb_xcalloc((size_t)f->n_values + 1, sizeof *length);
  const vtb_inst *far = NULL;
  for (const vtb_inst *i = f->first; i && !far; i = i->next) {
    int longest = 0;
    for (int o = 0; o < i->n_operands; o++)
      if (length[i->operands[o]->id] > longest) longest = length[i->operands[o]->id];
    for (int r = 0; r < i->n_results; r++) length[i->results[r]->id] = longest + 1;
    if (longest >= VTB__MAX_CHAIN) far = i;
  }
  vtb_free(length);
  if (far)
    vtb__report(e, VTB_DIAG_TOO_LARGE, far->span,
                "%s '%s' has more than %d operations one after the other", what, name,
                VTB__MAX_CHAIN);
  return !far;
}

vtb_value *vtb__as_tensor(vtb__eval *e, vtb__val v, vtb_span span) {
  if (v.kind == VTB__TENSOR) return v.u.t.v;
  if (vtb__is_number(v)) {
    vtb_builder *b = vtb__at(e, span);
    return b ? vtb_b_constant(b, vtb__val_number(v)) : NULL;
  }
  if (v.kind != VTB__ERROR)
    vtb__report(e, VTB_DIAG_TYPE_MISMATCH, span, "a tensor is needed here, not %s",
                vtb__describe(e, v));
  return NULL;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

static bool is_name(const char *name, const char *want) { return name && strcmp(name, want) == 0; }

static bool is_across(const vtb__eval *e, const vtb_type *t) {
  return t->rank > 1 && vtb_streq(t->dim[0].name, VTB__ACROSS) && vtb__batches_of(e, t->dim[1]);
}

/* x [B, ...] as [B, 1, ...], where the other is across; else x. */
static vtb_value *beside_across(vtb__eval *e, vtb_value *x, const vtb_type *across, vtb_span span) {
  const vtb_type *t = &x->type;
  bool meets = is_across(e, across) && t->rank == across->rank - 1 && t->rank &&
               vtb__batches_of(e, t->dim[0]);
  if (!meets) return x;
  vtb_type apart = vtb_type_with_axis(t, 1, (vtb_dim){1, NULL});
  return vtb_b_reshape(vtb__at(e, span), x, &apart);
}

/* [B] against [B, ...]: gives the vector the other's rank; against [C], which knows no batch, that
 * and an axis more. */
static vtb_value *per_sample(vtb__eval *e, vtb_value *v, const vtb_type *like, vtb_span span) {
  const vtb_type *t = &v->type;
  vtb_type joint;
  if (t->rank == 1 && vtb_is_batch(t->dim[0].size) && like->rank && like->rank < VTB_MAX_RANK &&
      !vtb_type_is_dynamic(like) && !vtb_type_broadcast(t, like, &joint)) {
    vtb_type shape = *t;
    shape.rank = like->rank + 1;
    for (int i = 1; i < shape.rank; i++) shape.dim[i] = (vtb_dim){1, NULL};
    vtb_builder *b = vtb__at(e, span);
    return b ? vtb_b_reshape(b, v, &shape) : NULL;
  }
  if (t->rank != 1 || like->rank < 2 || !is_name(t->dim[0].name, "B") ||
      !is_name(like->dim[0].name, "B") || t->dim[0].size != like->dim[0].size)
    return v;
  vtb_type shape = *t;
  shape.rank = like->rank;
  for (int i = 1; i < shape.rank; i++) shape.dim[i] = (vtb_dim){1, NULL};
  vtb_builder *b = vtb__at(e, span);
  return b ? vtb_b_reshape(b, v, &shape) : NULL;
}

/* The batch of one meets another axis of the other: each sample with each, which nobody means who
 * does not say so by across(). */
static bool pairs_samples(const vtb__eval *e, const vtb_type *x, const vtb_type *y,
                          const vtb_type *both) {
  int n = vtb_type_batch_axes(both);
  if (is_across(e, x) || is_across(e, y)) return false;
  return n > vtb_type_batch_axes(x) && n > vtb_type_batch_axes(y);
}

/* The numbers of a vector would meet the columns of an image; a weight those of all windows. */
static bool meets_last(vtb__eval *e, vtb__val of, const vtb_value *v, vtb_span span) {
  const vtb_type *t = &v->type;
  bool image = of.kind == VTB__TENSOR && of.u.t.layout->kind == VTB__IMAGE;
  if (t->rank && t->dim[t->rank - 1].size > 1 && vtb__is_param(e, v))
    vtb__warn_windows(e, span, of, "this weight is as wide as all of them");
  if (!image || t->rank != 1 || t->dim[0].size <= 1) return true;
  vtb__report(e, VTB_DIAG_IMAGE_AXIS, span, "%s would meet the columns of %s",
              vtb__type_string(e, t), vtb__describe(e, of));
  vtb__help(e, "a number a channel is [%lld, 1, 1], one a column [1, %lld]: unsqueeze(x, 0)",
            (long long)of.u.t.v->type.dim[1].size, (long long)t->dim[0].size);
  return false;
}

static bool broadcasts(vtb__eval *e, vtb__val a, vtb__val b, vtb_value *x, vtb_value *y,
                       vtb_span span) {
  vtb_type t;
  if (!meets_last(e, a, y, span) || !meets_last(e, b, x, span)) return false;
  bool fits = vtb_type_broadcast(&x->type, &y->type, &t);
  if (fits && !pairs_samples(e, &x->type, &y->type, &t)) return true;
  if (fits) {
    vtb__report(e, VTB_DIAG_BATCH_MEETS, span,
                "the batch axis of one operand meets another axis of the other: %s and %s",
                vtb__describe(e, a), vtb__describe(e, b));
    vtb__hint_batch(e, &x->type, &y->type);
    return false;
  }
  vtb__report(e, VTB_DIAG_SHAPE_MISMATCH, span, "%s does not fit %s", vtb__describe(e, a),
              vtb__describe(e, b));
  vtb__hint_shapes(e, &x->type, &y->type);
  return false;
}

/* x and y with the same axes; in a step *named tells their names. */
static bool fit(vtb__eval *e, const vtb__val *a, vtb_value **x, vtb__val b, vtb_value **y,
                vtb_type *named, vtb_span span) {
  if (e->frame && e->frame->step) {
    if (!vtb__step_align(e, x, y, named, span)) return false;
  } else {
    *x = beside_across(e, *x, &(*y)->type, span);
    *y = *x ? beside_across(e, *y, &(*x)->type, span) : NULL;
    if (!*x || !*y) return false;
    *x = per_sample(e, *x, &(*y)->type, span);
    *y = *x ? per_sample(e, *y, &(*x)->type, span) : NULL;
    if (!*x || !*y) return false;
  }
  return broadcasts(e, *a, b, *x, *y, span);
}

/* Axes that the first operand gains from a later one, those before that gain in a second round. */
static bool fit_all(vtb__eval *e, const vtb__val *a, vtb_value **x, int n, vtb_type *named,
                    vtb_span span) {
  for (int round = 0; round < (n > 2 ? 2 : 1); round++)
    for (int i = 1; i < n; i++)
      if (!fit(e, a, &x[0], a[i], &x[i], named, span)) return false;
  return true;
}

vtb__val vtb__elementwise(vtb__eval *e, vtb_op op, const vtb__val *a, int n, vtb_span span) {
  vtb_value *x[VTB_SCALAR_OPERANDS];
  vtb__val merged = a[0];
  for (int i = 1; i < n; i++) {
    const vtb__layout *l = vtb__layout_merge(e, merged, a[i], span);
    if (!l) return VTB__ERR;
    vtb__val said = a[i].kind == VTB__TENSOR ? a[i] : merged; /* what a later message describes */
    merged =
        (vtb__val){.kind = VTB__TENSOR, .u.t = {said.kind == VTB__TENSOR ? said.u.t.v : NULL, l}};
  }
  for (int i = 0; i < n; i++)
    if (!(x[i] = vtb__as_tensor(e, a[i], span))) return VTB__ERR;
  vtb_type named = {0};
  vtb_builder *b = vtb__at(e, span);
  bool mixed = false; /* labels and other numbers */
  for (int i = 1; i < n; i++) mixed |= x[i]->type.dtype != x[0]->type.dtype;
  for (int i = 0; i < n && mixed && b; i++)
    if (x[i]->type.dtype == VTB_I32) x[i] = vtb_b_cast(b, x[i], VTB_F32);
  if (!fit_all(e, a, x, n, &named, span)) return VTB__ERR;
  vtb_inst *inst = b ? vtb_build(b, op, x, n, NULL, 0) : NULL;
  if (!inst) return VTB__ERR;
  vtb_value *r = inst->results[0];
  for (int i = 0; n > 1 && e->frame->step && i < r->type.rank; i++)
    r->type.dim[i].name = vtb_intern(e->module, named.dim[i].name);
  return vtb__tensor(r, merged.kind == VTB__TENSOR ? merged.u.t.layout : NULL);
}

vtb__val vtb__elementwise2(vtb__eval *e, vtb_op op, vtb__val a, vtb__val b, vtb_span span) {
  return vtb__elementwise(e, op, (vtb__val[]){a, b}, 2, span);
}

/* ---- integers -------------------------------------------------------------------------------- */

static vtb__val overflow(vtb__eval *e, vtb_span span) {
  return vtb__report(e, VTB_DIAG_INTEGER_OVERFLOW, span, "the result does not fit into 64 bits");
}

static vtb__val divide_ints(vtb__eval *e, int64_t a, int64_t b, vtb_span span) {
  if (!b)
    return vtb__report(e, VTB_DIAG_DIVISION_BY_ZERO, span, "division of %lld by zero",
                       (long long)a);
  if (a == INT64_MIN && b == -1) return overflow(e, span);
  if (a % b == 0) return vtb__int(a / b);
  if (e->inexact) return vtb__float((double)a / (double)b);
  vtb__report(e, VTB_DIAG_DIVISION_NOT_EXACT, span, "%lld / %lld leaves a remainder of %lld",
              (long long)a, (long long)b, (long long)(a % b));
  vtb__help(e,
            "floor(a / b) rounds down, ceil(a / b) up; %lld.0 / %lld is a number with a fraction",
            (long long)a, (long long)b);
  return VTB__ERR;
}

static vtb__val binary_int(vtb__eval *e, vtb_binary_op op, int64_t a, int64_t b, vtb_span span) {
  int64_t r;
  switch (op) {
  case VTB_BIN_ADD:
    return __builtin_add_overflow(a, b, &r) ? overflow(e, span) : vtb__int(r);
  case VTB_BIN_SUB:
    return __builtin_sub_overflow(a, b, &r) ? overflow(e, span) : vtb__int(r);
  case VTB_BIN_MUL:
    return __builtin_mul_overflow(a, b, &r) ? overflow(e, span) : vtb__int(r);
  case VTB_BIN_DIV:
    return divide_ints(e, a, b, span);
  case VTB_BIN_MOD:
    if (!b)
      return vtb__report(e, VTB_DIAG_DIVISION_BY_ZERO, span, "remainder of %lld by zero",
                         (long long)a);
    if (b == -1) return vtb__int(0);
    r = a % b;
    return vtb__int(r && (r < 0) != (b < 0) ? r + b : r);
  case VTB_BIN_LT:
    return vtb__bool(a < b);
  case VTB_BIN_LE:
    return vtb__bool(a <= b);
  case VTB_BIN_GT:
    return vtb__bool(a > b);
  case VTB_BIN_GE:
    return vtb__bool(a >= b);
  default:
    return VTB__ERR;
  }
}

static vtb__val binary_float(vtb__eval *e, vtb_binary_op op, double a, double b, vtb_span span) {
  switch (op) {
  case VTB_BIN_ADD:
    return vtb__float(a + b);
  case VTB_BIN_SUB:
    return vtb__float(a - b);
  case VTB_BIN_MUL:
    return vtb__float(a * b);
  case VTB_BIN_DIV:
    if (b == 0) return vtb__report(e, VTB_DIAG_DIVISION_BY_ZERO, span, "division by zero");
    return vtb__float(a / b);
  case VTB_BIN_MOD:
    if (b == 0) return vtb__report(e, VTB_DIAG_DIVISION_BY_ZERO, span, "remainder by zero");
    return vtb__float(a - b * floor(a / b));
  case VTB_BIN_LT:
    return vtb__bool(a < b);
  case VTB_BIN_LE:
    return vtb__bool(a <= b);
  case VTB_BIN_GT:
    return vtb__bool(a > b);
  case VTB_BIN_GE:
    return vtb__bool(a >= b);
  default:
    return VTB__ERR;
  }
}

/* ---- operators ------------------------------------------------------------------------------- */

static vtb__val bad_operands(vtb__eval *e, vtb_binary_op op, vtb__val a, vtb__val b,
                             vtb_span span) {
  vtb__report(e, VTB_DIAG_BAD_OPERANDS, span, "%s has no meaning for %s and %s",
              vtb__binary_text(op), vtb__describe(e, a), vtb__describe(e, b));
  vtb__val f = a.kind == VTB__FUNCTION ? a : b;
  if (f.kind == VTB__FUNCTION)
    vtb__help(e, "what it computes is a value: %s(...)", vtb__function_name(f));
  vtb__val l = a.kind == VTB__LIST ? a : b;
  if (l.kind == VTB__LIST && l.u.list.n && l.u.list.at[0].kind == VTB__TENSOR)
    vtb__help(e, "its elements are tensors: l[0]");
  else if (vtb__batches_meant(a) || vtb__batches_meant(b))
    vtb__help(e, "float(batch) is how many samples the batch has");
  else if (a.kind == VTB__PATH || b.kind == VTB__PATH)
    vtb__help(e, "rows and cols are paths; an optimizer's matrix has rows and columns");
  else if (a.kind == VTB__STRING || b.kind == VTB__STRING)
    vtb__help(e, "strings take values in braces: \"blocks.{i}\"");
  else if (l.kind == VTB__LIST)
    vtb__help(e, "vector([1, 2]) is a tensor of a list of numbers");
  return VTB__ERR;
}

static vtb__val binary_tensor(vtb__eval *e, vtb_binary_op op, vtb__val a, vtb__val b,
                              vtb_span span) {
  static const vtb_op ops[] = {VTB_OP_add, VTB_OP_sub, VTB_OP_mul, VTB_OP_div};
  if (op <= VTB_BIN_DIV) return vtb__elementwise2(e, ops[op], a, b, span);
  switch (op) {
  case VTB_BIN_MOD:
    bad_operands(e, op, a, b, span);
    vtb__help(e, "of tensors it is x - n * floor(x / n)");
    return VTB__ERR;
  case VTB_BIN_GT:
    return vtb__elementwise2(e, VTB_OP_gt, a, b, span);
  case VTB_BIN_GE:
    return vtb__elementwise2(e, VTB_OP_ge, a, b, span);
  case VTB_BIN_LT:
    return vtb__elementwise2(e, VTB_OP_gt, b, a, span);
  case VTB_BIN_LE:
    return vtb__elementwise2(e, VTB_OP_ge, b, a, span);
  case VTB_BIN_EQ:
    return vtb__elementwise2(e, VTB_OP_eq, a, b, span);
  case VTB_BIN_NE:
    a = vtb__elementwise2(e, VTB_OP_eq, a, b, span);
    return a.kind == VTB__ERROR ? a : vtb__elementwise2(e, VTB_OP_sub, vtb__int(1), a, span);
  default:
    return bad_operands(e, op, a, b, span);
  }
}

static vtb__val concat_lists(vtb__eval *e, vtb__val a, vtb__val b, vtb_span span) {
  size_t n = a.u.list.n + b.u.list.n;
  if (n > VTB__MAX_LIST)
    return vtb__report(e, VTB_DIAG_TOO_LARGE, span, "list of more than %d elements", VTB__MAX_LIST);
  if (a.u.list.n && b.u.list.n && a.u.list.at[0].kind != b.u.list.at[0].kind)
    return vtb__report(e, VTB_DIAG_MIXED_LIST, span, "lists of different types");
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, n);
  for (size_t i = 0; i < n; i++)
    at[i] = i < a.u.list.n ? a.u.list.at[i] : b.u.list.at[i - a.u.list.n];
  return (vtb__val){.kind = VTB__LIST, .u.list = {at, n}};
}

/* Sizes axis by axis, an int on every axis: 2 * x.grid, x.grid / 4x4. */
static vtb__val binary_size(vtb__eval *e, vtb_binary_op op, vtb__val a, vtb__val b, vtb_span span) {
  vtb_grid g = a.kind == VTB__SIZE ? a.u.size : (vtb_grid){0, a.u.i, a.u.i, a.u.i},
           h = b.kind == VTB__SIZE ? b.u.size : (vtb_grid){0, b.u.i, b.u.i, b.u.i};
  if (op > VTB_BIN_MOD || (g.rank && h.rank && g.rank != h.rank))
    return bad_operands(e, op, a, b, span);
  int rank = g.rank ? g.rank : h.rank;
  int64_t x[VTB_GRID_AXES] = {g.t, g.h, g.w}, y[VTB_GRID_AXES] = {h.t, h.h, h.w};
  for (int k = rank ? VTB_GRID_AXES - rank : 0; k < VTB_GRID_AXES; k++) {
    vtb__val v = binary_int(e, op, x[k], y[k], span);
    if (v.kind == VTB__ERROR) return v;
    if (v.kind != VTB__INT) return bad_operands(e, op, a, b, span);
    if (v.u.i <= -VTB__MAX_SIZE || v.u.i >= VTB__MAX_SIZE)
      return vtb__report(e, VTB_DIAG_BAD_SIZE, span, "a size with an extent of %lld",
                         (long long)v.u.i);
    x[k] = v.u.i;
  }
  if (!rank) return (vtb__val){.kind = VTB__SIZE, .u.size = {0, x[0], x[1], x[2]}};
  return (vtb__val){.kind = VTB__SIZE, .u.size = vtb_grid_of(rank, x + VTB_GRID_AXES - rank)};
}

vtb__val vtb__binary(vtb__eval *e, vtb_binary_op op, vtb__val a, vtb__val b, vtb_span span) {
  bool tensor = a.kind == VTB__TENSOR || b.kind == VTB__TENSOR;
  if (tensor && (a.kind == VTB__TENSOR || vtb__is_number(a)) &&
      (b.kind == VTB__TENSOR || vtb__is_number(b)))
    return binary_tensor(e, op, a, b, span);
  if (op == VTB_BIN_EQ || op == VTB_BIN_NE) {
    bool comparable = a.kind == b.kind || (vtb__is_number(a) && vtb__is_number(b)) ||
                      a.kind == VTB__NONE || b.kind == VTB__NONE;
    if (!comparable) return bad_operands(e, op, a, b, span);
    return vtb__bool(vtb__val_equal(a, b) == (op == VTB_BIN_EQ));
  }
  if (a.kind == VTB__INT && b.kind == VTB__INT) return binary_int(e, op, a.u.i, b.u.i, span);
  if (vtb__is_number(a) && vtb__is_number(b))
    return binary_float(e, op, vtb__val_number(a), vtb__val_number(b), span);
  if ((a.kind == VTB__SIZE && (b.kind == VTB__SIZE || b.kind == VTB__INT)) ||
      (a.kind == VTB__INT && b.kind == VTB__SIZE))
    return binary_size(e, op, a, b, span);
  if (a.kind == VTB__LIST && b.kind == VTB__LIST && op == VTB_BIN_ADD)
    return concat_lists(e, a, b, span);
  int64_t batches = vtb__batches_meant(a.kind == VTB__INT ? b : a),
          times = a.kind == VTB__INT   ? a.u.i
                  : b.kind == VTB__INT ? b.u.i
                                       : 0;
  if (op == VTB_BIN_MUL && batches && times > 0 && times < VTB__MAX_SIZE / batches)
    return vtb__batch_word(e, batches * times);
  return bad_operands(e, op, a, b, span);
}

vtb__val vtb__unary(vtb__eval *e, vtb_unary_op op, vtb__val v, vtb_span span) {
  switch (op) {
  case VTB_UNARY_NEG:
    if (v.kind == VTB__INT) return v.u.i == INT64_MIN ? overflow(e, span) : vtb__int(-v.u.i);
    if (v.kind == VTB__FLOAT) return vtb__float(-v.u.f);
    if (v.kind == VTB__TENSOR) return vtb__elementwise(e, VTB_OP_neg, &v, 1, span);
    break;
  case VTB_UNARY_NOT:
    if (v.kind == VTB__BOOL) return vtb__bool(!v.u.b);
    vtb__report(e, VTB_DIAG_BAD_CONDITION, span, "not needs true or false, not %s",
                vtb__describe(e, v));
    if (v.kind == VTB__TENSOR) vtb__help(e, "of a tensor of 1 and 0 it is 1 - x");
    return VTB__ERR;
  case VTB_UNARY_REVERSE:
    if (v.kind == VTB__PATH) {
      vtb__path p = *v.u.path;
      p.order.reversed = !p.order.reversed;
      return vtb__path_val(e, p);
    }
    return vtb__report(e, VTB_DIAG_BAD_PATH, span, "~ reverses a path, not %s",
                       vtb__describe(e, v));
  }
  return vtb__report(e, VTB_DIAG_BAD_OPERANDS, span, "%s has no meaning for %s",
                     vtb__unary_text(op), vtb__describe(e, v));
}

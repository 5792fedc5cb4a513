/* Builtins along one axis that are made of other ops: variance, product, place of the largest,
 * running sums. All are exact and have the gradients of what they are made of. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

typedef struct along_axis {
  vtb__eval *e;
  vtb_span span;
  vtb__axis at;
  vtb__val x;         /* as the axis is one of: at.x */
  int64_t axis, size; /* below 0: the batch, or several (ir.h) */
} along_axis;

/* Needs of a builtin. */
enum { ANY, OUTSIDE /* of a step */, SIZED /* outside, and the size known */ };

/* The operand x and the axis. */
static bool take_axis(vtb__eval *e, const vtb__args *a, int needs, along_axis *w) {
  *w = (along_axis){.e = e, .span = a->span};
  if (!vtb__take_axis(e, a, vtb__arg(a, "x"), &w->at)) return false;
  w->x = w->at.x, w->axis = w->at.axis;
  w->size = w->x.u.t.v->type.dim[w->axis].size;
  if (needs == SIZED && vtb_is_batch(w->size))
    vtb__report(e, VTB_DIAG_NOT_COMPILE_TIME, a->span,
                "%s is not taken over the batch, whose size is not known", a->name);
  else if (needs >= OUTSIDE && e->frame && e->frame->step)
    vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, a->span, "a step has no '%s'", a->name);
  else
    return true;
  return false;
}

static vtb__val op1(const along_axis *w, vtb_op op, vtb__val x) {
  return x.kind == VTB__ERROR ? x : vtb__elementwise(w->e, op, &x, 1, w->span);
}

static vtb__val op2(const along_axis *w, vtb_op op, vtb__val x, vtb__val y) {
  if (x.kind == VTB__ERROR || y.kind == VTB__ERROR) return VTB__ERR;
  return vtb__elementwise2(w->e, op, x, y, w->span);
}

/* With the axis kept, as size 1. */
static vtb__val reduced(const along_axis *w, vtb_op op, vtb__val x) {
  if (x.kind != VTB__TENSOR) return VTB__ERR;
  bool keep = !w->e->frame || !w->e->frame->step;
  return vtb__tensor(vtb_b_reduce(vtb__at(w->e, w->span), op, x.u.t.v, &w->axis, 1, keep),
                     vtb__reduced_layout(&w->at));
}

/* A result without the axis, where there is still one of size 1. */
static vtb__val without_axis(const along_axis *w, vtb__val y) {
  if (y.kind != VTB__TENSOR || y.u.t.v->type.rank < w->x.u.t.v->type.rank) return y;
  vtb_type t = vtb_type_without_axis(&y.u.t.v->type, (int)w->axis);
  return vtb__tensor(vtb_b_reshape(vtb__at(w->e, w->span), y.u.t.v, &t),
                     w->at.tokens || w->at.of_grid ? NULL : y.u.t.layout);
}

/* As sum and mean give it: an axis of size 1 stays, that of the tokens goes. */
static vtb__val as_reduced(const along_axis *w, vtb__val y) {
  if (w->at.tokens) return without_axis(w, y);
  return w->at.opened && y.kind == VTB__TENSOR ? vtb__along_axis(w->e, &w->at, y.u.t.v) : y;
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* 1 an element of the axis, summed: the size of the batch, too. */
static vtb__val count(const along_axis *w) {
  if (!vtb_is_batch(w->size)) return vtb__float((double)w->size);
  vtb_type ones = {.dtype = VTB_F32, .rank = w->x.u.t.v->type.rank};
  for (int i = 0; i < ones.rank; i++)
    ones.dim[i] = i == w->axis ? w->x.u.t.v->type.dim[i] : (vtb_dim){1, NULL};
  vtb_value *one = vtb_b_splat(vtb__at(w->e, w->span), 1, &ones);
  return reduced(w, VTB_OP_reduce_sum, vtb__tensor(one, NULL));
}

/* var(x, axis, correction = 0): the sum of squares from the mean by the size less the
 * correction. */
vtb__val vtb__b_var(vtb__eval *e, const vtb__args *a) {
  along_axis w;
  double correction = vtb__arg(a, "correction").u.f;
  if (!take_axis(e, a, ANY, &w)) return VTB__ERR;
  vtb__val n = count(&w), mean = op2(&w, VTB_OP_div, reduced(&w, VTB_OP_reduce_sum, w.x), n);
  vtb__val squares = op1(&w, VTB_OP_square, op2(&w, VTB_OP_sub, w.x, mean));
  if (vtb__is_number(n)) {
    if (vtb__val_number(n) <= correction)
      return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span, "a variance of %g elements, less %g",
                         vtb__val_number(n), correction);
    n = vtb__float(vtb__val_number(n) - correction);
  } else if (correction != 0) {
    n = op2(&w, VTB_OP_sub, n, vtb__float(correction));
  }
  return as_reduced(&w, op2(&w, VTB_OP_div, reduced(&w, VTB_OP_reduce_sum, squares), n));
}

vtb__val vtb__b_amin(vtb__eval *e, const vtb__args *a) {
  along_axis w;
  if (!take_axis(e, a, ANY, &w)) return VTB__ERR;
  vtb__val y = reduced(&w, VTB_OP_reduce_max, op1(&w, VTB_OP_neg, w.x));
  return as_reduced(&w, op1(&w, VTB_OP_neg, y));
}

static vtb__val part(const along_axis *w, vtb__val x, int64_t from, int64_t to) {
  if (x.kind != VTB__TENSOR) return VTB__ERR;
  return vtb__tensor(vtb_b_slice(vtb__at(w->e, w->span), x.u.t.v, (int)w->axis, from, to, 1),
                     vtb__reduced_layout(&w->at));
}

/* Halves times halves, without a division, so that the gradient is right where there are zeros. */
vtb__val vtb__b_prod(vtb__eval *e, const vtb__args *a) {
  along_axis w;
  if (!take_axis(e, a, SIZED, &w)) return VTB__ERR;
  vtb__val x = w.x, odd = VTB__NIL;
  x.u.t.layout = vtb__reduced_layout(&w.at);
  for (int64_t n = w.size; n > 1 && x.kind == VTB__TENSOR; n /= 2) {
    vtb__val rest = n % 2 ? part(&w, x, n - 1, n) : VTB__NIL;
    x = op2(&w, VTB_OP_mul, part(&w, x, 0, n / 2), part(&w, x, n / 2, n / 2 * 2));
    if (rest.kind == VTB__TENSOR)
      odd = odd.kind == VTB__TENSOR ? op2(&w, VTB_OP_mul, odd, rest) : rest;
  }
  if (odd.kind == VTB__TENSOR) x = op2(&w, VTB_OP_mul, x, odd);
  return as_reduced(&w, x);
}

/* The number of the first largest element, without the axis: the least i of the elements that are
 * largest, which is less the largest of -i. */
vtb__val vtb__b_argmax(vtb__eval *e, const vtb__args *a) {
  along_axis w;
  if (!take_axis(e, a, OUTSIDE, &w)) return VTB__ERR;
  vtb__val x = op1(&w, VTB_OP_stop_gradient, w.x), none = vtb__float(-3e38);
  vtb__val largest = op2(&w, VTB_OP_ge, x, reduced(&w, VTB_OP_reduce_max, x));
  vtb_type t = {.dtype = VTB_F32, .rank = w.x.u.t.v->type.rank};
  for (int i = 0; i < t.rank; i++) t.dim[i] = (vtb_dim){i == w.axis ? w.size : 1, NULL};
  vtb_value *iota = vtb_b_iota(vtb__at(e, a->span), (int)w.axis, &t);
  vtb__val before = op1(&w, VTB_OP_neg, vtb__tensor(iota, NULL));
  vtb__val marks[] = {largest, before, none};
  vtb__val marked = vtb__elementwise(e, VTB_OP_select, marks, 3, a->span);
  return without_axis(&w, op1(&w, VTB_OP_neg, reduced(&w, VTB_OP_reduce_max, marked)));
}

/* cumsum(x, axis, reverse = false, exclusive = false): running sums. */
vtb__val vtb__b_cumsum(vtb__eval *e, const vtb__args *a) {
  along_axis w;
  if (!take_axis(e, a, OUTSIDE, &w)) return VTB__ERR;
  vtb_attr attrs[] = {VTB_A_INT("axis", w.axis), VTB_A_INT("reverse", vtb__arg(a, "reverse").u.b),
                      VTB_A_INT("exclusive", vtb__arg(a, "exclusive").u.b)};
  return vtb__along_axis(e, &w.at,
                         vtb_b_op(vtb__at(e, a->span), VTB_OP_prefix_sum, &w.x.u.t.v, 1, attrs, 3));
}

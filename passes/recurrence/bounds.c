/* Gains that cannot grow: exp(x) where x is at most 0 whatever the inputs are, as far as the rows
 * of its ops tell, and the exponentials of a softmax, which their largest or their sum bounds.
 */
#include "ir/scalar.h"
#include "passes/recurrence/recurrence.h"

enum { MAX_DEPTH = 8 }; /* every product is looked at four times */

static bool has_sign(const vtb_value *v, int sign, int depth);

/* By the value at zero and how the op moves from there. */
static bool moves_to(const vtb_inst *d, const vtb_scalar *row, int sign, int depth) {
  static const double zeros[VTB_SCALAR_OPERANDS] = {0};
  bool is = sign * vtb_scalar_eval(d->op, zeros) >= 0;
  for (int i = 0; is && i < d->n_operands; i++) {
    char way = row->monotone[i];
    is = way != '.' && has_sign(d->operands[i], way == '+' ? sign : -sign, depth);
  }
  return is;
}

static bool op_has_sign(const vtb_inst *d, const vtb_scalar *row, int sign, int depth) {
  vtb_value *const *x = d->operands;
  switch (row->sign) {
  case VTB_SIGN_nonnegative:
  case VTB_SIGN_nonpositive:
    return (row->sign == VTB_SIGN_nonnegative) == (sign > 0);
  case VTB_SIGN_product:
    return (has_sign(x[0], 1, depth) && has_sign(x[1], sign, depth)) ||
           (has_sign(x[0], -1, depth) && has_sign(x[1], -sign, depth));
  case VTB_SIGN_largest:
  case VTB_SIGN_smallest:
    if ((row->sign == VTB_SIGN_largest) == (sign > 0))
      return has_sign(x[0], sign, depth) || has_sign(x[1], sign, depth);
    break;
  case VTB_SIGN_any:
    break;
  }
  return moves_to(d, row, sign, depth);
}

static const vtb_value *bare(const vtb_value *v) {
  while (v->def && (v->def->op == VTB_OP_reshape || v->def->op == VTB_OP_broadcast ||
                    v->def->op == VTB_OP_stop_gradient))
    v = v->def->operands[0];
  return v;
}

/* v is `of` summed, or its maximum, over axes. */
static bool reduces(const vtb_value *v, vtb_op op, const vtb_value *of) {
  v = bare(v);
  return v->def && v->def->op == op && bare(v->def->operands[0]) == bare(of);
}

/* x - max(x), x - log(sum(exp(x))): what a softmax takes the exponential of. */
static bool less_its_largest(const vtb_inst *d) {
  const vtb_value *x = d->operands[0], *y = bare(d->operands[1]);
  if (reduces(y, VTB_OP_reduce_max, x)) return true;
  if (!y->def || y->def->op != VTB_OP_log) return false;
  const vtb_value *sum = bare(y->def->operands[0]);
  if (!sum->def || sum->def->op != VTB_OP_reduce_sum) return false;
  const vtb_value *e = bare(sum->def->operands[0]);
  return e->def && e->def->op == VTB_OP_exp && bare(e->def->operands[0]) == bare(x);
}

/* v >= 0 (sign 1) or v <= 0 (sign -1) everywhere, as far as the rows of its ops tell. */
static bool has_sign(const vtb_value *v, int sign, int depth) {
  double c;
  if (vtb__splat(v, &c)) return sign * c >= 0;
  const vtb_inst *d = v->def;
  if (!d || depth > MAX_DEPTH) return false;
  if (d->op == VTB_OP_reshape || d->op == VTB_OP_broadcast)
    return has_sign(d->operands[0], sign, depth + 1);
  if (d->op == VTB_OP_sub && sign < 0 && less_its_largest(d)) return true;
  const vtb_scalar *row = vtb_scalar_get(d->op);
  return row && op_has_sign(d, row, sign, depth + 1);
}

bool vtb__rec_is_bounded(const vtb_value *log_gain) { return has_sign(log_gain, -1, 0); }

bool vtb__rec_at_most_one(const vtb__factor *f) {
  const vtb_value *x = f->v->def->operands[0];
  return has_sign(x, -f->sign, 0);
}

bool vtb__rec_term_bounds(const vtb__term *t, const vtb__factor *gain) {
  if (vtb__rec_at_most_one(gain)) return true;
  for (int i = 0; i < t->n && gain->sign > 0; i++)
    if (t->at[i].sign < 0 && reduces(t->at[i].v, VTB_OP_reduce_sum, gain->v)) return true;
  return false;
}

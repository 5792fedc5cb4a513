/* What a row kernel computes, if it is a layer norm or an RMS norm.
 *
 * Each value of its body is one of the terms of the formula, or something else. Gains and shifts
 * may be made of several parameters in any way, as long as they are the same for all rows. */
#include <math.h>

#include "ir/kernels.h"
#include "passes/passes_internal.h"

typedef enum term {
  ELSE,
  FIXED, /* the same for all rows */
  X,
  SUM,
  MEAN,
  CENTRED,
  SQUARE, /* of x, or of what is centred */
  SQUARES,
  VARIANCE,
  SAFE, /* with eps */
  SCALE,
  NORMED
} term;

typedef struct reading {
  vtb__norm norm;
  term *of;      /* by value id */
  bool *centred; /* SQUARE and what is made of it; NORMED */
  int64_t width;
} reading;

static term of(const reading *r, const vtb_value *v) { return r->of[v->id]; }

static bool is_splat_near(const vtb_value *v, double value) {
  double x;
  return vtb__splat(v, &x) && fabs(x - value) <= 1e-5 * fabs(value);
}

static term reduce(const reading *r, const vtb_inst *i) {
  int n;
  const int64_t *axes = vtb_attr_ints(i, "axes", &n);
  term x = of(r, i->operands[0]);
  if (i->op != VTB_OP_reduce_sum || n != 1 || axes[0] != i->operands[0]->type.rank - 1 ||
      !vtb_attr_int(i, "keep", 0))
    return ELSE;
  return x == X ? SUM : x == SQUARE ? SQUARES : ELSE;
}

static term multiply(reading *r, const vtb_value *a, const vtb_value *b) {
  term x = of(r, a), y = of(r, b);
  bool mean = is_splat_near(b, 1.0 / (double)r->width);
  if (x == SUM && mean) return MEAN;
  if (x == SQUARES && mean) return VARIANCE;
  if (y == SCALE && x == (r->centred[b->id] ? CENTRED : X)) return NORMED;
  if (x != NORMED || y != FIXED || r->norm.gain || r->norm.shift || b->type.rank > 1) return ELSE;
  r->norm.gain = b;
  return NORMED;
}

static term add(reading *r, const vtb_value *a, const vtb_value *b) {
  if (of(r, a) == VARIANCE && vtb__splat(b, &r->norm.eps)) return SAFE;
  if (of(r, a) != NORMED || of(r, b) != FIXED || r->norm.shift || b->type.rank > 1) return ELSE;
  r->norm.shift = b;
  return NORMED;
}

static bool all_fixed(const reading *r, const vtb_inst *i) {
  bool fixed = i->op == VTB_OP_constant || vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE;
  for (int o = 0; o < i->n_operands; o++) fixed &= of(r, i->operands[o]) == FIXED;
  return fixed;
}

static term term_of(reading *r, const vtb_inst *i) {
  const vtb_value *a = i->n_operands ? i->operands[0] : NULL,
                  *b = i->n_operands == 2 ? i->operands[1] : NULL;
  term t = ELSE;
  if (all_fixed(r, i)) return FIXED;
  switch (i->op) {
  case VTB_OP_reduce_sum:
    return reduce(r, i);
  case VTB_OP_sub:
    return of(r, a) == X && of(r, b) == MEAN ? CENTRED : ELSE;
  case VTB_OP_square:
    return of(r, a) == X || of(r, a) == CENTRED ? SQUARE : ELSE;
  case VTB_OP_rsqrt:
    return of(r, a) == SAFE ? SCALE : ELSE;
  case VTB_OP_mul:
    t = multiply(r, a, b);
    return t != ELSE ? t : multiply(r, b, a);
  case VTB_OP_add:
    t = add(r, a, b);
    return t != ELSE ? t : add(r, b, a);
  default:
    return ELSE;
  }
}

/* Whether rows were centred before they were squared. */
static bool centred_of(const reading *r, const vtb_inst *i) {
  bool any = false;
  for (int o = 0; o < i->n_operands; o++)
    any |= r->centred[i->operands[o]->id] || of(r, i->operands[o]) == CENTRED;
  return any;
}

/* Whether result `which` is a norm of `x`, an argument or a value of the body. */
static bool read_with(const vtb_func *body, vtb_value *x, int which, vtb__norm *out) {
  reading r = {.norm = {.x = x},
               .of = vtb_xcalloc((size_t)body->n_values + 1, sizeof *r.of),
               .centred = vtb_xcalloc((size_t)body->n_values + 1, sizeof *r.centred)};
  r.width = x->type.dim[x->type.rank - 1].size;
  for (int a = 0; a < body->n_args; a++) {
    const vtb_type *arg = &body->args[a]->type;
    bool row = arg->rank <= 1 && (arg->rank == 0 || arg->dim[0].size == r.width);
    r.of[body->args[a]->id] = row ? FIXED : ELSE;
  }
  r.of[x->id] = X;
  for (const vtb_inst *i = body->first; i; i = i->next) {
    if (i->n_results != 1 || i->results[0] == x) continue;
    r.centred[i->results[0]->id] = centred_of(&r, i);
    r.of[i->results[0]->id] = term_of(&r, i);
  }
  bool is = r.of[body->returns[which]->id] == NORMED;
  r.norm.centred = r.centred[body->returns[which]->id];
  if (is) *out = r.norm;
  vtb_free(r.of);
  vtb_free(r.centred);
  return is;
}

static bool may_be_rows(const vtb_value *x, const vtb_value *result) {
  return x->type.rank > 1 && x->type.dtype == VTB_F32 && vtb_type_equal(&x->type, &result->type);
}

bool vtb__norm_of(const vtb_inst *row, vtb__norm *out) {
  if (vtb_kernel_kind_of(row) != VTB_KERNEL_ROW || row->n_results != 1) return false;
  const vtb_func *body = row->callee;
  for (int a = 0; a < body->n_args; a++)
    if (may_be_rows(body->args[a], body->returns[0]) && read_with(body, body->args[a], 0, out))
      return true;
  return false;
}

bool vtb__norm_within(const vtb_inst *row, int *which, vtb__norm *out) {
  if (vtb_kernel_kind_of(row) != VTB_KERNEL_ROW || row->n_results < 2) return false;
  const vtb_func *body = row->callee;
  for (int r = 0; r < body->n_returns; r++)
    for (int x = 0; x < body->n_returns; x++)
      if (x != r && body->returns[x]->def && may_be_rows(body->returns[x], body->returns[r]) &&
          read_with(body, body->returns[x], r, out)) {
        *which = r;
        return true;
      }
  return false;
}

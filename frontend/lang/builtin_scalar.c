/* Builtins that are rows of ir/scalar_ops.def: of numbers where all arguments are numbers, else
 * elementwise. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"
#include "ir/scalar.h"

#include <math.h>

static vtb__val not_finite(vtb__eval *e, const vtb__args *a, vtb__val x) {
  return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span, "%s of %s is not a finite number", a->name,
                     a->n == 1 ? vtb__describe(e, x) : "these numbers");
}

static vtb__val whole(vtb__eval *e, vtb_span span, vtb__val x, double d) {
  if (x.kind == VTB__INT) return x;
  if (!(fabs(d) < 9e18))
    return vtb__report(e, VTB_DIAG_INTEGER_OVERFLOW, span, "the result does not fit into 64 bits");
  return vtb__int((int64_t)d);
}

static vtb__val of_numbers(vtb__eval *e, const vtb__args *a, vtb_op op, const vtb__val *x) {
  const vtb_scalar *row = vtb_scalar_get(op);
  double at[VTB_SCALAR_OPERANDS] = {0};
  bool ints = true;
  for (int i = 0; i < row->n_operands; i++) {
    at[i] = vtb__val_number(x[i]);
    ints &= x[i].kind == VTB__INT;
  }
  double d = vtb_scalar_eval(op, at);
  for (int i = row->n_operands - 1; i >= 0 && row->builtin == VTB_BUILTIN_chosen; i--)
    if (at[i] == d) return x[i];
  if (row->builtin == VTB_BUILTIN_whole) return whole(e, a->span, x[0], d);
  if (!isfinite(d)) return not_finite(e, a, x[0]);
  bool exact = ints && d == floor(d) && fabs(d) < 9e15;
  return row->builtin == VTB_BUILTIN_same && exact ? vtb__int((int64_t)d) : vtb__float(d);
}

vtb__val vtb__b_scalar(vtb__eval *e, const vtb__args *a) {
  vtb__val x[VTB_SCALAR_OPERANDS];
  bool numbers = true;
  vtb_op op;
  vtb_check(vtb_op_find(a->name, &op), "builtin %s", a->name);
  int n = (int)a->n;
  for (int i = 0; i < n; i++) {
    x[i] = a->at[i].value;
    numbers &= vtb__is_number(x[i]);
  }
  if (numbers) return of_numbers(e, a, op, x);
  if (n == 1 && x[0].kind != VTB__TENSOR)
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "%s takes a tensor or a number, not %s",
                       a->name, vtb__describe(e, x[0]));
  return vtb__elementwise(e, op, x, n, a->span);
}

bool vtb__rounds(const vtb__builtin *b) {
  vtb_op op;
  return b->fn == vtb__b_scalar && vtb_op_find(b->name, &op) &&
         vtb_scalar_get(op)->builtin == VTB_BUILTIN_whole;
}

#define OPERANDS_1 "x: value"
#define OPERANDS_2 "x: value, y: value"
#define OPERANDS_3 "x: value, y: value, z: value"
#define BUILTIN_none(name, n, doc)
#define BUILTIN_real(name, n, doc) {#name, vtb__b_scalar, VTB__anywhere, OPERANDS_##n, doc},
#define BUILTIN_same BUILTIN_real
#define BUILTIN_whole BUILTIN_real
#define BUILTIN_chosen BUILTIN_real
const vtb__builtin vtb__scalar_builtins[] = {
#define VTB_SCALAR(name, n, formula, adjoints, eval, cpu, cuda, ints, cost, flops, monotone, sign, \
                   from, to, language, doc)                                                        \
  BUILTIN_##language(name, n, doc)
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
    {0}};

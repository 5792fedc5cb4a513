/* Builtins that are rows of ir/scalar_ops.def: of numbers where all arguments are numbers, else
 * elementwise. */
#include "frontend/lang/value.h"
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

/* Second operands with a name of their own, and what they are if they are left out. */
static const struct second {
  vtb_op op;
  const char *name;
  double otherwise;
} seconds[] = {{VTB_OP_elu, "alpha", 1}, {VTB_OP_leaky_relu, "slope", 0.01}};

static vtb__val take_operand(vtb__eval *e, vtb__args *a, vtb_op op, int i) {
  static const char *const names[VTB_SCALAR_OPERANDS] = {"x", "y", "z"};
  vtb__val v;
  for (size_t k = 0; i == 1 && k < sizeof seconds / sizeof *seconds; k++)
    if (seconds[k].op == op)
      return vtb__take_optional(e, a, seconds[k].name, &v) ? v : vtb__float(seconds[k].otherwise);
  return vtb__take(e, a, names[i]);
}

static vtb__val b_scalar(vtb__eval *e, vtb__args *a) {
  vtb__val x[VTB_SCALAR_OPERANDS];
  bool numbers = true, failed = false;
  vtb_op op;
  vtb_check(vtb_op_find(a->name, &op), "builtin %s", a->name);
  int n = vtb_scalar_get(op)->n_operands;
  for (int i = 0; i < n; i++) {
    x[i] = take_operand(e, a, op, i);
    numbers &= vtb__is_number(x[i]);
    failed |= x[i].kind == VTB__ERROR;
  }
  if (failed) return VTB__ERR;
  if (numbers) return of_numbers(e, a, op, x);
  if (n == 1 && x[0].kind != VTB__TENSOR)
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "%s takes a tensor or a number, not %s",
                       a->name, vtb__describe(e, x[0]));
  return vtb__elementwise(e, op, x, n, a->span);
}

bool vtb__rounds(const vtb__builtin *b) {
  vtb_op op;
  return b->fn == b_scalar && vtb_op_find(b->name, &op) &&
         vtb_scalar_get(op)->builtin == VTB_BUILTIN_whole;
}

#define BUILTIN_none(name)
#define BUILTIN_real(name) {#name, b_scalar},
#define BUILTIN_same(name) {#name, b_scalar},
#define BUILTIN_whole(name) {#name, b_scalar},
#define BUILTIN_chosen(name) {#name, b_scalar},
const vtb__builtin vtb__scalar_builtins[] = {
#define VTB_SCALAR(name, n, formula, adjoints, eval, cpu, cuda, ints, cost, flops, monotone, sign, \
                   from, to, language, doc)                                                        \
  BUILTIN_##language(name)
#include "ir/scalar_ops.def"
#undef VTB_SCALAR
    {NULL, NULL}};

/* maxplus and prefix_sum: sums along a sequence.
 *
 * Both combine neighbours at distances 1, 2, 4 ...: log2(N) rounds of elementwise nodes. maxplus so
 * adds up no more than what lies between two tokens, as the recurrence does; a difference of sums
 * from the start would cancel. */
#include "frontend/onnx/internal.h"

#include <math.h>

#define B(op, a, b) vtb__ox_binary(x, op, a, b)

void vtb__ox_maxplus(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  ox_value *g = vtb__ox_along(x, inst, in[0], 1, false),
           *m = vtb__ox_along(x, inst, in[1], 1, false);
  int64_t n = g->type.dim[1];
  for (int64_t s = 1; s < n; s *= 2) {
    m = B("Max", m, B("Add", vtb__ox_shift(x, m, 1, s, -INFINITY), g));
    g = B("Add", g, vtb__ox_shift(x, g, 1, s, 0));
  }
  if (inst->n_operands == 3) m = B("Max", m, B("Add", vtb__ox_unsqueeze(x, in[2], 1), g));
  out[0] = vtb__ox_along(x, inst, m, 1, true);
}

/* s less the nearest multiple of w. */
static ox_value *wrapped(ox *x, ox_value *s, double w) {
  if (w <= 0) return s;
  ox_value *by = vtb__ox_number_of(x, OX_F64, w);
  return B("Sub", s, B("Mul", vtb__ox_unary(x, "Round", B("Div", s, by)), by));
}

void vtb__ox_prefix_sum(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  const vtb_attr attrs[] = {VTB_A_INT("exclusive", vtb_attr_int(inst, "exclusive", 0)),
                            VTB_A_INT("reverse", vtb_attr_int(inst, "reverse", 0))};
  ox_type scalar = {.elem = OX_I64};
  int64_t at = axis;
  ox_value *a = vtb__ox_cast(x, vtb__ox_along(x, inst, in[0], axis, false), OX_F64);
  ox_value *s =
      vtb__ox_one(x, "CumSum", a->type, attrs, 2, OX_IN(a, vtb__ox_data(x, &scalar, &at)));
  s = vtb__ox_cast(x, wrapped(x, s, vtb_attr_float(inst, "wrap", 0)), OX_F32);
  out[0] = vtb__ox_along(x, inst, s, axis, true);
}

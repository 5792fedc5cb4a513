/* Tangents of values, and ops without any. */
#include "passes/grad/tangent.h"

vtb_value *vtb__tangent(vtb__tangents *t, const vtb_value *v) {
  return *vtb__by_id(t->b.func, &t->of, v->id);
}

vtb_value *vtb__tangent_or_zeros(vtb__tangents *t, const vtb_value *v) {
  vtb_value *d = vtb__tangent(t, v);
  return d ? d : vtb_b_splat(&t->b, 0, &v->type);
}

void vtb__add_tangent(vtb__tangents *t, vtb_value *v, vtb_value *d) {
  if (!d || v->type.dtype != VTB_F32) return;
  d = vtb_b_stretched(&t->b, d, &v->type);
  vtb_value *sum = vtb__joined(&t->b, VTB_OP_add, vtb__tangent(t, v), d);
  *vtb__by_id(t->b.func, &t->of, v->id) = sum;
}

void vtb__tangent_zero(vtb__tangents *t, vtb_inst *inst) { (void)t, (void)inst; }

void vtb__tangent_none(vtb__tangents *t, vtb_inst *inst) {
  if (t->duals->status != VTB_OK) return;
  char place[256];
  vtb_span_text(inst->span, place, sizeof place);
  t->duals->status =
      vtb_fail(t->duals->err, VTB_E_INPUT, "%s%s%s in @%s has no tangent, but one has to pass it",
               place, place[0] ? ": " : "", vtb_op_get(inst->op)->name, t->b.func->name);
}

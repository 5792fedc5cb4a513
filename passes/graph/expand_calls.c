/* Calls expanded in place: what is in the callee stands where the call was. */
#include "passes/passes_internal.h"

void vtb__expand(vtb_inst *call) {
  vtb_builder b = vtb__before(call);
  b.span = VTB_NO_SPAN; /* copies keep their own */
  vtb_value **made = vtb__inlined(&b, call->callee, call->operands);
  for (int r = 0; r < call->n_results; r++) vtb_replace_all(call->results[r], made[r]);
  vtb_inst_unlink(call);
}

void vtb__expand_calls(vtb_func *f) {
  VTB__EACH_INST(f, i, next) {
    if (i->op != VTB_OP_call) continue;
    vtb_inst *before = i->prev;
    vtb__expand(i);
    next = before ? before->next : f->first; /* calls may stand in what was put there */
  }
}

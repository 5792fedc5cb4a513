/* Calls expanded in place: what is in the callee stands where the call was. */
#include "passes/passes_internal.h"

static void expand_call(vtb_inst *call) {
  vtb_func *f = call->callee;
  vtb_builder b = vtb__before(call);
  vtb_value **map = VTB_SCRATCH(f, vtb_value *, f->n_values);
  for (int i = 0; i < f->n_args; i++) map[f->args[i]->id] = call->operands[i];
  for (const vtb_inst *i = f->first; i; i = i->next) {
    b.span = i->span;
    vtb_inst_copy(&b, i, map);
  }
  for (int r = 0; r < call->n_results; r++)
    vtb_replace_all(call->results[r], map[f->returns[r]->id]);
  vtb_inst_unlink(call);
}

void vtb__expand_calls(vtb_func *f) {
  for (vtb_inst *i = f->first, *next; i; i = next) {
    next = i->next;
    if (i->op != VTB_OP_call) continue;
    vtb_inst *before = i->prev;
    expand_call(i);
    next = before ? before->next : f->first; /* calls may stand in what was put there */
  }
}

/* Rows in loops, for ranks.c: what a fold makes of them, and who reads how many steps they took. */
#include "ir/fold.h"
#include "passes/passes_internal.h"

const bool *vtb__made_of_rows(const vtb_inst *fold) {
  const vtb_func *f = fold->callee;
  vtb_fold p = vtb_fold_of(fold);
  bool *of_rows = VTB_SCRATCH(f, bool, f->n_values), more = true;
  for (int a = 0; a < f->n_args; a++)
    of_rows[f->args[a]->id] = vtb_type_is_dynamic(&f->args[a]->type);
  while (more) {
    vtb_add_uses(f->first, of_rows);
    more = false;
    for (int n = 0; n < p.states; n++) {
      bool *state = &of_rows[f->args[n]->id], next = of_rows[f->returns[n]->id];
      more |= next && !*state;
      *state |= next;
    }
  }
  return of_rows;
}

bool vtb__is_count_read(const vtb_value *v) {
  for (vtb_inst **r = vtb__readers(v); *r; r++) {
    if ((*r)->op != VTB_OP_fold) return true;
    vtb_fold p = vtb_fold_of(*r);
    int at = p.states + p.seqs;
    for (int o = 0; o < (*r)->n_operands; o++)
      if ((*r)->operands[o] == v && !(p.has_limit && o == at)) return true;
  }
  return vtb_is_returned(v);
}

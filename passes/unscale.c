/* unscale: a constant factor of a scan's queries becomes a factor of what the scan reads out.
 *
 *   %s = mul %q, %c          (c a constant number)        %y0, ... = linscan %q, %k, %v, %d
 *   %y, ... = linscan %s, %k, %v, %d                =>    %y = mul %y0, %c
 *
 * Readout is linear in the queries. Behind the scan the factor joins an elementwise kernel, in both
 * directions of training; before it, the scaled queries would be written, and written again for the
 * backward. Before autodiff.
 */
#include "passes/passes_internal.h"

static vtb_value *factor_of(const vtb_inst *mul, vtb_value **x) {
  double c;
  for (int i = 0; i < 2; i++) {
    *x = mul->operands[1 - i];
    if (vtb__splat(mul->operands[i], &c) && vtb_type_equal(&(*x)->type, &mul->results[0]->type))
      return mul->operands[i];
  }
  return NULL;
}

static void unscale(vtb_func *f, vtb_inst *scan) {
  vtb_value *x, *c = factor_of(scan->operands[0]->def, &x);
  double value;
  if (!c || !vtb__splat(c, &value)) return;
  vtb_builder b = {.module = f->module, .func = f, .before = scan->next, .span = scan->span};
  vtb_inst_set_operand(scan, 0, x);
  for (int r = 0; r < scan->n_results; r += 2) { /* what is read out; 1 and 3 are states */
    vtb_value *old = scan->results[r];
    vtb_inst *mul = vtb_b_binary(&b, VTB_OP_mul, old, vtb_b_constant(&b, value))->def;
    vtb__swap_names(old, mul->results[0]);
    vtb_value_rename(old, mul->results[0]->name);
    vtb_replace_all(old, mul->results[0]);
    vtb_inst_set_operand(mul, 0, old);
  }
}

vtb_status vtb__pass_unscale(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    for (vtb_inst *i = f->first; i; i = i->next)
      if (i->op == VTB_OP_linscan && i->operands[0]->def && i->operands[0]->def->op == VTB_OP_mul)
        unscale(f, i);
  }
  return VTB_OK;
}

/* unscale: a constant factor of a scan's queries becomes a factor of what the scan reads out.
 *
 *   %s = mul %q, %c          (c a constant number)        %y0, ... = linscan %q, %k, %v, %d
 *   %y, ... = linscan %s, %k, %v, %d                =>    %y = mul %y0, %c
 *
 * also through reshapes on either side. Readout is linear in the queries. Behind the scan the
 * factor joins an elementwise kernel, in both directions of training; before it, the scaled queries
 * would be written, and written again for the backward. Before autodiff.
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

/* v, or the reshape that alone reads it: there the factor is beside what follows. */
static vtb_value *readout_of(vtb_value *v) {
  const vtb_inst *only = vtb_only_reader(v);
  return only && only->op == VTB_OP_reshape ? only->results[0] : v;
}

static void unscale(vtb_func *f, vtb_inst *scan) {
  vtb_inst *mul = scan->operands[0]->def, *view = NULL;
  if (mul && mul->op == VTB_OP_reshape) {
    view = mul;
    mul = view->operands[0]->def;
  }
  vtb_value *x, *c = mul && mul->op == VTB_OP_mul ? factor_of(mul, &x) : NULL;
  double value;
  if (!c || !vtb__splat(c, &value)) return;
  vtb_builder b = {.module = f->module, .func = f, .before = scan, .span = scan->span};
  vtb_inst *behind = scan->next;
  if (view) x = vtb_inst_clone(&b, view, &x)->results[0];
  vtb_inst_set_operand(scan, 0, x);
  for (int r = 0; r < scan->n_results; r += 2) { /* what is read out; 1 and 3 are states */
    vtb_value *old = readout_of(scan->results[r]);
    b.before = old->def == scan ? behind : old->def->next;
    vtb_inst *scaled = vtb_b_binary(&b, VTB_OP_mul, old, vtb_b_constant(&b, value))->def;
    vtb__swap_names(old, scaled->results[0]);
    vtb_value_rename(old, scaled->results[0]->name);
    vtb_replace_all(old, scaled->results[0]);
    vtb_inst_set_operand(scaled, 0, old);
  }
}

void vtb__visit_unscale(const vtb_pass_context *c, vtb_func *f) {
  (void)c;
  for (vtb_inst *i = f->first; i; i = i->next)
    if (i->op == VTB_OP_linscan) unscale(f, i);
}

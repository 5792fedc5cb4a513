/* cse: of equal instructions the first stays.
 *
 *   %a = mul %x, %y        %a = mul %x, %y
 *   %b = mul %y, %x   =>   %c = add %a, %a
 *   %c = add %a, %b
 *
 * Equal: same op, operands (in any order for add, mul, eq), attributes, callee and result types.
 * Everything in the IR is a pure function of its operands, `random` included; `tap` is left alone.
 * Max and min keep their operand order: it decides where the gradient goes.
 */
#include "passes/passes_internal.h"

static bool commutes(vtb_op op) { return op == VTB_OP_add || op == VTB_OP_mul || op == VTB_OP_eq; }

/* The i-th operand in an order that does not depend on how it was written. */
static const vtb_value *operand(const vtb_inst *inst, int i) {
  bool swap = commutes(inst->op) && inst->operands[0]->id > inst->operands[1]->id;
  return inst->operands[swap ? 1 - i : i];
}

static uint64_t hash_inst(const vtb_inst *inst) {
  uint64_t h = vtb_hash_bytes(VTB_HASH_INIT, &inst->op, sizeof inst->op);
  for (int i = 0; i < inst->n_operands; i++) {
    int id = operand(inst, i)->id;
    h = vtb_hash_bytes(h, &id, sizeof id);
  }
  uint64_t attrs = 0; /* the order of attributes means nothing */
  for (int i = 0; i < inst->n_attrs; i++) attrs += vtb_attr_hash(&inst->attrs[i]);
  h = vtb_hash_bytes(h, &attrs, sizeof attrs);
  return inst->callee ? vtb_hash_str(h, inst->callee->name) : h;
}

static bool equal(const vtb_inst *a, const vtb_inst *b) {
  if (a->op != b->op || a->callee != b->callee || a->n_operands != b->n_operands ||
      a->n_results != b->n_results || a->n_attrs != b->n_attrs)
    return false;
  for (int i = 0; i < a->n_operands; i++)
    if (operand(a, i) != operand(b, i)) return false;
  for (int i = 0; i < a->n_results; i++)
    if (!vtb_type_equal(&a->results[i]->type, &b->results[i]->type)) return false;
  return vtb__attrs_within(a, b, NULL);
}

int vtb__cse_func(vtb_func *f) {
  size_t n = (size_t)vtb_func_number(f), slots = 16;
  int removed = 0;
  while (slots < 2 * n) slots *= 2;
  vtb_inst **table = VTB_SCRATCH(f, vtb_inst *, slots);
  VTB__EACH_INST(f, inst, next) {
    if (inst->op == VTB_OP_tap || inst->n_results == 0) continue;
    size_t at = hash_inst(inst) & (slots - 1);
    while (table[at] && !equal(table[at], inst)) at = (at + 1) & (slots - 1);
    if (!table[at]) {
      table[at] = inst;
      continue;
    }
    for (int i = 0; i < inst->n_results; i++)
      vtb_replace_all(inst->results[i], table[at]->results[i]);
    vtb_inst_unlink(inst);
    removed++;
  }
  return removed;
}

void vtb__change_cse(vtb_pass_context *c) {
  for (vtb_func *f = c->module->first; f; f = f->next) vtb__cse_func(f);
}

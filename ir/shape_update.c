/* Shape rules of verdict and update (ir/update.h). */
#include "ir/internal.h"
#include "ir/ops.h"
#include "ir/update.h"

vtb_update vtb_update_of(const vtb_inst *update) {
  vtb_update u = {.tensors = (int)vtb_attr_int(update, "tensors", 0),
                  .scalars = (int)update->operands[0]->type.dim[0].size};
  u.changes = (int)vtb_attr_int(update, "changes", 0);
  if (u.tensors > 0) u.states = (update->n_operands - VTB_UPDATE_LEAD) / u.tensors - 2 - u.changes;
  return u;
}

bool vtb_has_update(const vtb_func *f) {
  for (const vtb_inst *i = f->first; i; i = i->next)
    if (i->op == VTB_OP_update) return true;
  return false;
}

static bool is_shape(const vtb_type *t, int rank, int64_t rows, int64_t columns) {
  return t->dtype == VTB_F32 && t->rank == rank && (rank < 1 || t->dim[0].size == rows) &&
         (rank < 2 || t->dim[1].size == columns);
}

static bool check_scalars(vtb__shape *s) {
  const vtb_type *t = vtb__shape_operand(s, 0);
  if (is_shape(t, 2, t->dim[0].size, 2) && t->dim[0].size >= VTB_N_SCALARS) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_CALL, "scalars are %s, not f32[n, 2] of at least %d rows",
                         vtb__shape_text(s, t), VTB_N_SCALARS);
}

bool vtb__shape_verdict(vtb__shape *s) {
  if (!vtb__shape_f32(s) || !check_scalars(s)) return false;
  if (vtb_type_count(vtb__shape_operand(s, 1)) != 1)
    return vtb__shape_fail(s, VTB_DIAG_IR_CALL, "the loss is %s, not one number",
                           vtb__shape_text(s, vtb__shape_operand(s, 1)));
  vtb__shape_push(s, (vtb_type){.dtype = VTB_F32, .rank = 1, .dim = {{VTB_N_VERDICT, NULL}}});
  return true;
}

static bool check_rule(vtb__shape *s, const vtb_update *u) {
  const vtb_func *f = s->inst->callee;
  int vectors = vtb_update_vectors(u);
  bool fits = f->n_args == vectors + VTB_RULE_LEAD + u->scalars && f->n_returns == 1 + u->states;
  for (int i = 0; fits && i < f->n_args; i++)
    fits = is_shape(&f->args[i]->type, i < vectors, VTB_DYN, 0);
  for (int i = 0; fits && i < f->n_returns; i++)
    fits = is_shape(&f->returns[i]->type, 1, VTB_DYN, 0);
  if (fits) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_CALL, "@%s is no rule of %d states and %d scalars", f->name,
                         u->states, u->scalars);
}

bool vtb__shape_update(vtb__shape *s) {
  if (!vtb__shape_f32(s) || !check_scalars(s)) return false;
  vtb_update u = vtb_update_of(s->inst);
  int n = s->inst->n_operands - VTB_UPDATE_LEAD;
  if (u.tensors < 1 || u.states < 0 || u.changes < 0 || u.changes > 1 || n % u.tensors ||
      !is_shape(vtb__shape_operand(s, 1), 2, u.tensors, 2) ||
      !is_shape(vtb__shape_operand(s, 2), 1, VTB_N_VERDICT, 0))
    return vtb__shape_fail(s, VTB_DIAG_IR_CALL, "update: %d operands do not fit %d tensors",
                           s->inst->n_operands, u.tensors);
  if (!check_rule(s, &u)) return false;
  for (int i = 0; i < n; i++) {
    const vtb_type *value = vtb__shape_operand(s, vtb_update_operand(&u, 0, i % u.tensors));
    const vtb_type *t = vtb__shape_operand(s, VTB_UPDATE_LEAD + i);
    if (!vtb_type_equal(t, value))
      return vtb__shape_fail(s, VTB_DIAG_IR_CALL, "update: operand %d is %s, its value %s",
                             VTB_UPDATE_LEAD + i + 1, vtb__shape_text(s, t),
                             vtb__shape_text(s, value));
  }
  for (int i = 0; i < (1 + u.states) * u.tensors; i++)
    vtb__shape_push(s, *vtb__shape_operand(s, vtb_update_operand(&u, 0, i % u.tensors)));
  return true;
}

const vtb_inst *vtb_rule_obstacle(const vtb_func *rule) {
  for (const vtb_inst *i = rule->first; i; i = i->next) {
    bool elementwise = vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE && i->op != VTB_OP_cast;
    bool known = elementwise || i->op == VTB_OP_broadcast || i->op == VTB_OP_reduce_sum ||
                 (i->op == VTB_OP_constant && !vtb_attr_find(i, "data"));
    if (!known || i->results[0]->type.rank > 1 || i->results[0]->type.dtype != VTB_F32) return i;
  }
  return NULL;
}

/* simplify: ops that change nothing go, constants are folded. One value is replaced by an equal
 * one; nothing changes beyond rounding.
 *
 *   %o = constant {value=1.0}
 *   %a = mul %x, %o               =>     %z = sub %x, %y
 *   %b = neg %y
 *   %z = add %a, %b
 *
 * Rules for elementwise ops and constants are here, rules for ops that move elements in
 * simplify_shape.c. A rule is called with an instruction whose operands are already simple and
 * returns the value to use instead of its result, or NULL. Declined, because NaN or infinity would
 * change: x*0, x-x, x/x, log(exp x).
 */
#include "passes/passes_internal.h"

#include "ir/scalar.h"

#include <math.h>

static vtb_value *fold_constants(vtb_builder *b, vtb_inst *inst) {
  double x[VTB_SCALAR_OPERANDS];
  if (!vtb_scalar_get(inst->op) || inst->results[0]->type.dtype != VTB_F32) return NULL;
  for (int i = 0; i < inst->n_operands; i++)
    if (inst->operands[i]->type.dtype != VTB_F32 || !vtb__splat(inst->operands[i], &x[i]))
      return NULL;
  double value = vtb_scalar_eval(inst->op, x);
  return isfinite(value) ? vtb_b_splat(b, value, &inst->results[0]->type) : NULL;
}

/* The operand of v's definition if that is a plain `op`. */
static vtb_value *under(const vtb_value *v, vtb_op op) {
  return v->def && v->def->op == op ? v->def->operands[0] : NULL;
}

/* A constant is the same on all ranks. */
static vtb_value *fold_sum_of_ranks(vtb_builder *b, const vtb_inst *inst) {
  double value;
  if (inst->op != VTB_OP_sum_ranks || inst->n_operands > 1 ||
      !vtb__splat(inst->operands[0], &value))
    return NULL;
  return vtb_b_splat(b, value * (double)vtb_attr_int(inst, "ranks", 1), &inst->results[0]->type);
}

static vtb_value *simplify_unary(vtb_inst *inst) {
  vtb_value *x = inst->operands[0], *y;
  switch (inst->op) {
  case VTB_OP_neg:
    return under(x, VTB_OP_neg);
  case VTB_OP_abs:
    if (under(x, VTB_OP_abs)) return x;
    if ((y = under(x, VTB_OP_neg))) vtb_inst_set_operand(inst, 0, y);
    return NULL;
  case VTB_OP_square:
    if ((y = under(x, VTB_OP_neg)) || (y = under(x, VTB_OP_abs))) vtb_inst_set_operand(inst, 0, y);
    return NULL;
  case VTB_OP_relu:
    return under(x, VTB_OP_relu) ? x : NULL;
  case VTB_OP_cast:
    return vtb_type_equal(&x->type, &inst->results[0]->type) ? x : NULL;
  default:
    return NULL;
  }
}

/* (x op c1) op c2 with constants: x op (c1 op c2), when that leaves the shape alone. */
static vtb_value *join_constants(vtb_builder *b, vtb_inst *inst, vtb_value *x, double c2) {
  if (!x->def || x->def->op != inst->op) return NULL;
  for (int side = 0; side < 2; side++) {
    double c1;
    vtb_value *inner = x->def->operands[1 - side];
    if (!vtb__splat(x->def->operands[side], &c1) ||
        !vtb_type_equal(&inner->type, &inst->results[0]->type))
      continue;
    double c = inst->op == VTB_OP_mul ? c1 * c2 : c1 + c2;
    if (!isfinite(c) || (c == 0 && inst->op == VTB_OP_mul)) return NULL;
    return vtb_b_binary(b, inst->op, inner, vtb_b_constant(b, c));
  }
  return NULL;
}

/* Sums and products, of operands in any order. */
static vtb_value *simplify_commuting(vtb_builder *b, vtb_inst *inst) {
  vtb_type *t = &inst->results[0]->type;
  bool sum = inst->op == VTB_OP_add;
  for (int side = 0; side < 2; side++) {
    vtb_value *x = inst->operands[side], *y = inst->operands[1 - side], *z;
    double c;
    if (vtb__splat(y, &c)) {
      if (c == (sum ? 0 : 1)) return vtb_b_stretched(b, x, t);
      if (!sum && c == -1 && vtb_type_equal(&x->type, t)) return vtb_b_unary(b, VTB_OP_neg, x);
      if (x->type.dtype == VTB_F32 && (z = join_constants(b, inst, x, c))) return z;
    }
    if (sum && (z = under(y, VTB_OP_neg))) return vtb_b_binary(b, VTB_OP_sub, x, z);
  }
  return NULL;
}

static vtb_value *simplify_sub(vtb_builder *b, vtb_inst *inst) {
  vtb_value *x = inst->operands[0], *y = inst->operands[1], *z;
  if (vtb__is_constant(y, 0)) return vtb_b_stretched(b, x, &inst->results[0]->type);
  if (vtb__is_constant(x, 0) && vtb_type_equal(&y->type, &inst->results[0]->type))
    return vtb_b_unary(b, VTB_OP_neg, y);
  if ((z = under(y, VTB_OP_neg))) return vtb_b_binary(b, VTB_OP_add, x, z);
  return NULL;
}

static vtb_value *simplify_div(vtb_builder *b, vtb_inst *inst) {
  vtb_value *x = inst->operands[0];
  double c;
  if (x->type.dtype != VTB_F32 || !vtb__splat(inst->operands[1], &c)) return NULL;
  if (c == 1) return vtb_b_stretched(b, x, &inst->results[0]->type);
  double r = 1 / c;
  /* A float32 quotient must stay a normal number either way round. */
  if (!isfinite(r) || fabs(r) < 1e-30 || fabs(r) > 1e30) return NULL;
  vtb_type *t = &inst->results[0]->type;
  vtb_value *by =
      vtb_type_equal(&inst->operands[1]->type, t) ? vtb_b_splat(b, r, t) : vtb_b_constant(b, r);
  return vtb_b_stretched(b, vtb_b_binary(b, VTB_OP_mul, x, by), t);
}

static vtb_value *simplify_select(vtb_builder *b, vtb_inst *inst) {
  vtb_type *t = &inst->results[0]->type;
  double c;
  if (inst->operands[1] == inst->operands[2]) return vtb_b_stretched(b, inst->operands[1], t);
  if (!vtb__splat(inst->operands[0], &c)) return NULL;
  return vtb_b_stretched(b, inst->operands[c != 0 ? 1 : 2], t);
}

static vtb_value *simplify_pow(vtb_builder *b, vtb_inst *inst) {
  vtb_value *x = inst->operands[0];
  if (!vtb_type_equal(&x->type, &inst->results[0]->type)) return NULL;
  if (vtb__is_constant(inst->operands[1], 1)) return x;
  if (vtb__is_constant(inst->operands[1], 2)) return vtb_b_unary(b, VTB_OP_square, x);
  return NULL;
}

/* Operands that broadcasting inside the op stretches just as well: broadcast(x), and reshapes that
 * only add leading ones. */
static void drop_operand_broadcasts(vtb_inst *inst) {
  for (int i = 0; i < inst->n_operands; i++) {
    const vtb_inst *d = inst->operands[i]->def;
    if (!d || (d->op != VTB_OP_broadcast && d->op != VTB_OP_reshape)) continue;
    vtb_value *x = d->operands[0];
    int extra = inst->operands[i]->type.rank - x->type.rank;
    bool ok = extra >= 0;
    for (int a = 0; ok && d->op == VTB_OP_reshape && a < inst->operands[i]->type.rank; a++)
      ok = inst->operands[i]->type.dim[a].size == (a < extra ? 1 : x->type.dim[a - extra].size);
    vtb_type t = x->type;
    for (int j = 0; ok && j < inst->n_operands; j++) {
      vtb_type joined;
      if (j == i) continue;
      ok = vtb_type_broadcast(&t, &inst->operands[j]->type, &joined);
      t = joined;
    }
    if (ok && vtb_type_equal(&t, &inst->results[0]->type)) vtb_inst_set_operand(inst, i, x);
  }
}

static vtb_value *simplify_elementwise(vtb_builder *b, vtb_inst *inst) {
  drop_operand_broadcasts(inst);
  vtb_value *v = fold_constants(b, inst);
  if (v) return v;
  switch (inst->op) {
  case VTB_OP_add:
  case VTB_OP_mul:
    return simplify_commuting(b, inst);
  case VTB_OP_sub:
    return simplify_sub(b, inst);
  case VTB_OP_div:
    return simplify_div(b, inst);
  case VTB_OP_pow:
    return simplify_pow(b, inst);
  case VTB_OP_select:
    return simplify_select(b, inst);
  default:
    return inst->n_operands == 1 ? simplify_unary(inst) : NULL;
  }
}

static vtb_value *simplify_inst(vtb_builder *b, vtb_inst *inst) {
  if (inst->n_results != 1) return NULL;
  if (vtb_op_get(inst->op)->klass == VTB_CLASS_ELEMENTWISE) return simplify_elementwise(b, inst);
  vtb_value *v = fold_sum_of_ranks(b, inst);
  return v ? v : vtb__simplify_shape(b, inst);
}

static bool simplify_once(vtb_func *f) {
  bool changed = false;
  VTB__EACH_INST(f, inst, next) {
    vtb_builder b = vtb__before(inst);
    int fresh = f->n_values;
    vtb_value *v = simplify_inst(&b, inst);
    if (!v) continue;
    changed = true;
    vtb_check(vtb_type_equal(&v->type, &inst->results[0]->type), "%s %%%s changes its type",
              vtb_op_get(inst->op)->name, inst->results[0]->name);
    if (v->id >= fresh) vtb__swap_names(v, inst->results[0]); /* dumps keep the user's names */
    vtb_replace_all(inst->results[0], v);
    vtb_inst_unlink(inst);
  }
  return changed;
}

void vtb__change_simplify(vtb_pass_context *c) {
  for (vtb_func *f = c->module->first; f; f = f->next) {
    int rounds = 0;
    while (simplify_once(f) && rounds++ < 8) continue;
    vtb__dce_func(f);
  }
}

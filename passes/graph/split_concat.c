/* split_concat: a product that sums over a concatenated axis becomes a sum of products of the
 * pieces.
 *
 *   %g = concat %q, %k, %v {axis = 2}
 *   %y = einsum %g, %w {spec = "bnd,ed->bne"}
 *   =>
 *   %w0 = slice %w ... %w1 = ... %w2 = ...
 *   %y = einsum %q, %w0 + einsum %k, %w1 + einsum %v, %w2
 *
 * The slices of the weight are views, so nothing is copied in either direction of training, where
 * the concatenation would be written and read forward, and its adjoint written and cut backward.
 * Before autodiff. Declines unless every use of the concatenation is such a product, and the
 * product's result is small beside the concatenation (gates, heads): for wide results one product
 * is faster.
 */
#include "passes/passes_internal.h"

#include "ir/axes.h"
#include "ir/product.h"

/* The axis of the other operand that operand `which` is summed along `axis` with; -1: none. */
static int other_axis_of(const vtb_inst *e, int which, int axis) {
  bool summed = vtb_axis_after(e, which, axis) == VTB_AXIS_GONE;
  return summed ? vtb_axis_beside(e, which, axis, 1 - which) : -1;
}

static bool fits(const vtb_inst *e, const vtb_inst *concat, int axis) {
  if (e->op != VTB_OP_einsum || e->n_operands != 2) return false;
  int which = e->operands[0] == concat->results[0] ? 0 : 1;
  if (e->operands[1 - which] == concat->results[0]) return false;
  if (other_axis_of(e, which, axis) < 0) return false;
  return vtb_type_count(&e->results[0]->type) * 8 <= vtb_type_count(&concat->results[0]->type);
}

static bool every_use_fits(const vtb_inst *concat, int axis) {
  const vtb_value *v = concat->results[0];
  for (vtb_inst **r = vtb__readers(v); *r; r++)
    if (!fits(*r, concat, axis)) return false;
  return vtb_reader_count(v) > 0 && !vtb_is_returned(v);
}

static void distribute(vtb_inst *e, const vtb_inst *concat, int axis) {
  int which = e->operands[0] == concat->results[0] ? 0 : 1;
  int other_axis = other_axis_of(e, which, axis);
  vtb_builder b = vtb__before(e);
  vtb_value *sum = NULL;
  int64_t at = 0;
  for (int k = 0; k < concat->n_operands; k++) {
    int64_t size = concat->operands[k]->type.dim[axis].size;
    vtb_value *part = vtb_b_slice(&b, e->operands[1 - which], other_axis, at, at + size, 1);
    vtb_value *x = which ? part : concat->operands[k], *y = which ? concat->operands[k] : part;
    vtb_value *product = vtb_b_einsum_like(&b, e, x, y);
    if (k == concat->n_operands - 1) b.name_hint = e->results[0]->name;
    sum = vtb__joined(&b, VTB_OP_add, sum, product);
    at += size;
  }
  vtb_replace_all(e->results[0], sum);
  vtb_inst_unlink(e);
}

void vtb__visit_split_concat(const vtb_pass_context *c, vtb_func *f) {
  (void)c;
  vtb_func_number(f);
  VTB__EACH_INST(f, i, next) {
    if (i->op != VTB_OP_concat) continue;
    int axis = (int)vtb_attr_int(i, "axis", 0);
    if (!every_use_fits(i, axis)) continue;
    for (vtb_inst **r = vtb__readers(i->results[0]); *r; r++) distribute(*r, i, axis);
    next = i->next;
    vtb_inst_unlink(i);
  }
}

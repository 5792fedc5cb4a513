/* padding: what a model sums over the samples of a batch leaves out the rows that only fill the
 * last one up.
 *
 *   %s = reduce_sum %x {axes = [0]}                  %x: [B, C]
 * =>
 *   %r = reshape %valid {shape = [B, 1]}             %valid: [B], 0 for a row that is padding
 *   %k = select %r, %x, 0
 *   %s = reduce_sum %k {axes = [0]}
 *
 * Needs the graph before its adjoint, which follows from it: nothing flows into a padding row that
 * no sum takes. A maximum gets the lowest number in place of 0, a product that sums over the batch
 * has both of its sides masked. As a count of samples is a sum of ones, means are right, too.
 * Functions that do this are copied and take `valid` behind their arguments; others are shared.
 * Steps of recurrences see one token and cannot sum over the batch; those of loops may. The adjoint
 * of a product meets the other side's padding rows times 0: they hold finite numbers, as the loader
 * fills them.
 */
#include "passes/passes_internal.h"

#include "ir/axes.h"

static vtb_func *masked(vtb_func *callee, const vtb_type *valid);

/* Rows of the operand come to others. */
static bool reads_along(const vtb_inst *i, int o, int axis) {
  bool reads = i->op == VTB_OP_prefix_sum || (i->op == VTB_OP_gather && o == 0);
  return reads && vtb_attr_int(i, "axis", 0) == axis;
}

/* Axes of operand o that are the batch and summed over, or read along, as bits. */
static unsigned summed_axes(const vtb_inst *i, int o) {
  const vtb_type *t = &i->operands[o]->type;
  unsigned found = 0;
  for (int a = 0; a < t->rank && i->n_results == 1 && t->dtype == VTB_F32; a++)
    if (vtb_is_batch(t->dim[a].size) &&
        (vtb_axis_after(i, o, a) == VTB_AXIS_GONE || reads_along(i, o, a)))
      found |= 1u << a;
  return found;
}

static bool runs_function(const vtb_inst *i) {
  return i->op == VTB_OP_call || i->op == VTB_OP_fold;
}

bool vtb__sums_batch(const vtb_func *f) {
  for (const vtb_inst *i = f->first; i; i = i->next) {
    for (int o = 0; o < i->n_operands; o++)
      if (summed_axes(i, o)) return true;
    if (runs_function(i) && vtb__sums_batch(i->callee)) return true;
  }
  return false;
}

/* `valid` of several batches end to end. */
static vtb_value *repeated(vtb_builder *b, vtb_value *valid, int64_t size) {
  if (size == valid->type.dim[0].size) return valid;
  vtb_type all = VTB__F32({vtb_batches(size), NULL}, valid->type.dim[0]);
  vtb_type end_to_end = VTB__F32({size, valid->type.dim[0].name});
  return vtb_b_reshape(b, vtb_b_broadcast(b, valid, &all), &end_to_end);
}

vtb_value *vtb__mask_rows(vtb_builder *b, vtb_value *valid, vtb_value *x, int axis, double fill) {
  valid = repeated(b, valid, x->type.dim[axis].size);
  valid = vtb__among_ones(b, valid, &axis, x->type.rank);
  return vtb_b_select(b, valid, x, vtb_b_constant(b, fill));
}

static void mask_operands(vtb_inst *i, vtb_value *valid) {
  double fill = i->op == VTB_OP_reduce_max ? -3e38 : 0;
  for (int o = 0; o < i->n_operands; o++) {
    unsigned axes = summed_axes(i, o);
    vtb_builder b = vtb__before(i);
    vtb_value *x = i->operands[o];
    for (int a = 0; axes >> a; a++)
      if (axes >> a & 1) x = vtb__mask_rows(&b, valid, x, a, fill);
    if (axes) vtb_inst_set_operand(i, o, x);
  }
}

static void mask_func(vtb_func *f, vtb_value *valid) {
  VTB__EACH_INST(f, i, next) {
    vtb_func *callee = runs_function(i) ? masked(i->callee, &valid->type) : NULL;
    if (!callee)
      mask_operands(i, valid);
    else if (callee != i->callee)
      vtb__call_with(i, callee, &valid, 1);
  }
}

/* The one that takes `valid`, or itself, its `scratch`. */
static vtb_func *masked(vtb_func *callee, const vtb_type *valid) {
  if (callee->scratch) return callee->scratch;
  vtb_func *made = callee->scratch = callee;
  if (vtb__sums_batch(callee)) {
    made = callee->scratch = vtb_func_clone(callee, callee->module, callee->name);
    mask_func(made, vtb_func_add_arg(made, "valid", *valid));
  }
  return made;
}

void vtb__mask_padding(vtb_func *f, vtb_value *valid) {
  for (vtb_func *g = f->module->first; g; g = g->next) g->scratch = NULL;
  mask_func(f, valid);
}

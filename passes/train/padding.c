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
 * Steps of recurrences see one token and cannot sum over the batch. The adjoint of a product meets
 * the other side's padding rows times 0: they hold finite numbers, as the loader fills them.
 */
#include "passes/passes_internal.h"

#include "ir/product.h"

#include <stdlib.h>
#include <string.h>

typedef struct masking {
  vtb_func *f;
  vtb_value *valid;
  vtb_map copies; /* callee -> the one that takes `valid`, or itself */
  vtb_module *module;
} masking;

static vtb_func *masked(masking *m, vtb_func *callee);

/* Axes of operand o that are the batch and summed over, as bits. */
static unsigned summed_axes(const vtb_inst *i, int o) {
  const vtb_type *t = &i->operands[o]->type;
  unsigned found = 0;
  if (i->op == VTB_OP_reduce_sum || i->op == VTB_OP_reduce_max) {
    int n;
    const int64_t *axes = vtb_attr_ints(i, "axes", &n);
    for (int k = 0; k < n; k++)
      if (t->dim[axes[k]].size == VTB_DYN) found |= 1u << axes[k];
  } else if (i->op == VTB_OP_einsum && o < 2) {
    vtb_product p = vtb_product_of(i);
    for (int a = 0; a < t->rank; a++)
      if (t->dim[a].size == VTB_DYN && vtb_product_at(&p, o, a)->at[VTB_IN_RESULT] < 0)
        found |= 1u << a;
  }
  return found;
}

bool vtb__sums_batch(const vtb_func *f) {
  for (const vtb_inst *i = f->first; i; i = i->next) {
    for (int o = 0; o < i->n_operands; o++)
      if (summed_axes(i, o)) return true;
    if (i->op == VTB_OP_call && vtb__sums_batch(i->callee)) return true;
  }
  return false;
}

vtb_value *vtb__mask_rows(vtb_builder *b, vtb_value *valid, vtb_value *x, int axis, double fill) {
  vtb_type t = {.dtype = VTB_F32, .rank = x->type.rank};
  for (int a = 0; a < t.rank; a++) t.dim[a] = (vtb_dim){1, NULL};
  t.dim[axis] = valid->type.dim[0];
  if (t.rank > 1) valid = vtb_b_reshape(b, valid, &t);
  return vtb_b_select(b, valid, x, vtb_b_constant(b, fill));
}

static void mask_operands(masking *m, vtb_inst *i) {
  double fill = i->op == VTB_OP_reduce_max ? -3e38 : 0;
  for (int o = 0; o < i->n_operands; o++) {
    unsigned axes = summed_axes(i, o);
    vtb_builder b = {.module = m->module, .func = m->f, .before = i, .span = i->span};
    vtb_value *x = i->operands[o];
    for (int a = 0; axes >> a; a++)
      if (axes >> a & 1) x = vtb__mask_rows(&b, m->valid, x, a, fill);
    if (axes) vtb_inst_set_operand(i, o, x);
  }
}

static void mask_call(masking *m, vtb_inst *i) {
  vtb_func *callee = masked(m, i->callee);
  if (callee == i->callee) return;
  vtb_value **operands = vtb_xcalloc((size_t)i->n_operands + 1, sizeof *operands);
  memcpy(operands, i->operands, sizeof *operands * (size_t)i->n_operands);
  operands[i->n_operands] = m->valid;
  (void)vtb__replace_call(i, callee, operands, i->n_operands + 1, NULL);
  vtb_free(operands);
}

static void mask_func(masking *m, vtb_func *f, vtb_value *valid) {
  vtb_func *outer = m->f;
  vtb_value *outer_valid = m->valid;
  m->f = f;
  m->valid = valid;
  for (vtb_inst *i = f->first, *next; i; i = next) {
    next = i->next;
    if (i->op == VTB_OP_call)
      mask_call(m, i);
    else
      mask_operands(m, i);
  }
  m->f = outer;
  m->valid = outer_valid;
}

static vtb_func *masked(masking *m, vtb_func *callee) {
  vtb_func *known = vtb_map_get(&m->copies, callee->name);
  if (known) return known;
  vtb_func *made = callee;
  if (vtb__sums_batch(callee)) {
    made = vtb_func_clone(callee, m->module, callee->name);
    mask_func(m, made, vtb_func_add_arg(made, "valid", m->valid->type));
  }
  vtb_map_set(&m->copies, callee->name, made);
  return made;
}

void vtb__mask_padding(vtb_func *f, vtb_value *valid) {
  masking m = {.module = f->module};
  mask_func(&m, f, valid);
  vtb_map_free(&m.copies);
}

/* Words of products and of what is elementwise: see words.h. */
#include "passes/fuse/words.h"

#include "ir/axes.h"
#include "ir/convolution.h"
#include "ir/product.h"

/* ---- what several ask ------------------------------------------------------------------------ */

bool vtb__is_elementwise(const vtb_inst *i) {
  if (vtb_kernel_kind_of(i) != VTB_KERNEL_LOOP) return false;
  for (const vtb_inst *x = i->callee->first; x; x = x->next)
    if (!vtb_is_splat(x) && vtb_op_get(x->op)->klass != VTB_CLASS_ELEMENTWISE) return false;
  for (int r = 0; r < i->n_results; r++)
    if (i->results[r]->type.dtype != VTB_F32) return false;
  return true;
}

const vtb_inst *vtb__op_within(const vtb_inst *i, vtb_op op, vtb_kernel_kind kind) {
  if (i->op == op) return i;
  if (i->op != VTB_OP_fused || vtb_kernel_kind_of(i) != kind) return NULL;
  for (const vtb_inst *k = i->callee->first; k; k = k->next)
    if (k->op == op) return k;
  return NULL;
}

vtb_value *vtb__operand_of(const vtb_inst *i, const vtb_inst *op, int o) {
  if (i == op) return i->operands[o];
  return op->operands[o]->def ? NULL : i->operands[op->operands[o]->index];
}

/* ---- epilogues ------------------------------------------------------------------------------- */

static bool is_alone(const vtb_inst *i) {
  return i->op == VTB_OP_einsum && !vtb_attr_int(i, "library", 0);
}

/* One with sums of its factors, too. */
bool vtb__anchor_product(const vtb_inst *i) {
  return is_alone(i) || vtb_kernel_kind_of(i) == VTB_KERNEL_PRODUCT;
}

static bool has_shape_of(const vtb_inst *i, const vtb_inst *anchor) {
  const vtb_type *shape = &anchor->results[0]->type;
  if (shape->dtype != VTB_F32 || !vtb__is_elementwise(i)) return false;
  for (int r = 0; r < i->n_results; r++)
    if (!vtb_type_equal(&i->results[r]->type, shape)) return false;
  return true;
}

VTB__WORD(elementwise) {
  return vtb_type_equal(&at->type, &g->anchor->results[0]->type) && has_shape_of(i, g->anchor) &&
         vtb__group_add(g, i);
}

VTB__WORD(sibling) { return member != g->anchor && vtb__word_elementwise(g, i, at, member); }

/* ---- statistics of rows ---------------------------------------------------------------------- */

/* A row kernel that keeps statistics of its one operand: a number a row meets rows where the mean
 * is taken off, and nowhere else. */
static bool is_row_parts(const vtb_inst *i) {
  if (vtb_kernel_kind_of(i) != VTB_KERNEL_ROW || i->n_operands != 1) return false;
  const vtb_func *body = i->callee;
  vtb_row_parts p = vtb_row_parts_of(body);
  if (p.of != body->args[0]) return false;
  const vtb_type *row = &body->returns[p.squares]->type;
  const vtb_inst *square = body->returns[p.squares]->def->operands[0]->def,
                 *off = square->operands[0]->def;
  if (!vtb_only_reader(off->results[0]) || !vtb_only_reader(square->results[0])) return false;
  for (const vtb_inst *x = body->first; x; x = x->next)
    for (int o = 0; o < x->n_operands; o++)
      if (x != off && vtb_type_equal(&x->operands[o]->type, row) &&
          !vtb_type_equal(&x->results[0]->type, row))
        return false;
  for (int r = 0; r < i->n_results; r++)
    if (r != p.mean && r != p.squares && vtb_type_equal(&body->returns[r]->type, row)) return false;
  return true;
}

VTB__WORD(row_parts) {
  const vtb_inst *einsum = vtb__op_within(g->anchor, VTB_OP_einsum, VTB_KERNEL_PRODUCT);
  for (int m = 0; m < g->n; m++)
    if (is_row_parts(g->at[m])) return false;
  return is_row_parts(i) && vtb__keeps_parts(einsum) && i->operands[0] == at &&
         vtb_type_equal(&at->type, &g->anchor->results[0]->type) && vtb__group_add(g, i);
}

/* ---- sums of factors ------------------------------------------------------------------------- */

bool vtb__anchor_tile_product(const vtb_inst *i) { return is_alone(i) && vtb_is_product(i); }

/* The sum that is all of `i`, or NULL. */
static const vtb_inst *sum_in(const vtb_inst *i) {
  if (i->n_results != 1 || i->n_operands != 1) return NULL;
  if (i->op == VTB_OP_reduce_sum) return i;
  if (vtb_kernel_kind_of(i) != VTB_KERNEL_COL) return NULL;
  const vtb_inst *only = i->callee->first;
  return only && !only->next && only->op == VTB_OP_reduce_sum ? only : NULL;
}

/* The sum is over those axes of factor `which` that the product sums over. */
static bool over_depth(const vtb_inst *sum, const vtb_inst *einsum, int which) {
  vtb_product p = vtb_product_of(einsum);
  for (int axis = 0; axis < p.rank[which]; axis++) {
    const vtb_letter *l = vtb_product_at(&p, which, axis);
    if (l->size != 1 && vtb_has_axis(sum, "axes", axis) == (l->at[VTB_IN_RESULT] >= 0))
      return false;
  }
  return true;
}

VTB__WORD(factor_sum) {
  const vtb_inst *sum = sum_in(i);
  if (!sum || g->n > 1 || member != g->anchor) return false;
  for (int which = 0; which < 2; which++)
    if (g->anchor->operands[which] == at && over_depth(sum, g->anchor, which))
      return vtb__group_add(g, i);
  return false;
}

/* ---- sums over rows -------------------------------------------------------------------------- */

/* Number of the operand that is dy, behind whose leading axes are `channels`; -1: none. */
static int adjoint_of(const vtb_inst *i, int64_t *channels) {
  if (i->op == VTB_OP_dwconv_dw) {
    vtb_depthwise d;
    if (!vtb_depthwise_of(i, &d) || d.n_extra || i->n_results > 1) return -1;
    *channels = d.channels;
    return 1;
  }
  if (!vtb_is_blocks_gradient(i) || i->n_operands != 2) return -1;
  const vtb_type *x = &i->operands[0]->type;
  int64_t size = x->dim[x->rank - 1].size, groups = x->dim[x->rank - 2].size;
  *channels = groups * size;
  return groups > 1 ? 0 : -1;
}

bool vtb__anchor_row_gradient(const vtb_inst *i) {
  int64_t channels = 0;
  return adjoint_of(i, &channels) >= 0;
}

/* Over all axes but those that make up the channels. */
static bool sums_rows(const vtb_inst *i, int64_t channels) {
  return i->op == VTB_OP_reduce_sum && vtb_reduces_leading(i) &&
         vtb_type_count(&i->results[0]->type) == channels;
}

VTB__WORD(column_sum) {
  int64_t channels = 0;
  int dy = adjoint_of(g->anchor, &channels);
  return g->n == 1 && member == g->anchor && sums_rows(i, channels) &&
         vtb_behind_reshapes(at) == vtb_behind_reshapes(g->anchor->operands[dy]) &&
         vtb__group_add(g, i);
}

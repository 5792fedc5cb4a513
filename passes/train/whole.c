/* whole: rows of a batch that ranks have shared out, together on each of them, and back.
 *
 *   %x: f32[B, C]                                     own rows, the first of them %first
 * =>
 *   %i = iota, + %first                               i32[B]
 *   %p = scatter_sum %x, %i {axis = 0, size = -4}     f32[4*B, C], 0 for rows of others
 *   %w = sum_ranks %p {ranks = 4}                     rows of all: as many batches as ranks
 *   ...
 *   %y = gather %w, %i {axis = 0}                     f32[B, C], own rows of it
 *
 * The rows of all stand in the order of the ranks, which is that of the batch in one process. Where
 * an axis is several batches, each of them is whole for itself: [2*B] is [8*B], not four times
 * [2*B].
 */
#include "ir/axes.h"
#include "passes/passes_internal.h"

#include <string.h>

/* The numbers of a rank's rows, i32 [before.., B], for the batch on that axis of t. */
static vtb_value *row_numbers(vtb_builder *b, vtb_value *first, const vtb_type *t, int axis) {
  vtb_type rows = {.dtype = VTB_I32, .rank = axis + 1};
  for (int a = 0; a < axis; a++) rows.dim[a] = t->dim[a];
  rows.dim[axis] = (vtb_dim){VTB_DYN, "B"};
  return vtb_b_binary(b, VTB_OP_add, vtb_b_iota(b, axis, &rows), first);
}

/* [.., k*B, ..] as [.., k, B, ..]; *axis is that of B. */
static vtb_value *taken_apart(vtb_builder *b, vtb_value *x, int64_t batch, int *axis) {
  *axis = vtb_batch_axis(&x->type);
  vtb_dim all = x->type.dim[*axis];
  if (all.size == batch) return x;
  vtb_type t = vtb_type_with_axis(&x->type, *axis, (vtb_dim){all.size / batch, NULL});
  t.dim[++*axis].size = batch;
  return vtb_b_reshape(b, x, &t);
}

static vtb_value *put_together(vtb_builder *b, vtb_value *x, int axis, int rank) {
  if (x->type.rank == rank) return x;
  vtb_type t = vtb_type_without_axis(&x->type, axis - 1);
  t.dim[axis - 1].size = x->type.dim[axis - 1].size * x->type.dim[axis].size;
  return vtb_b_reshape(b, x, &t);
}

vtb_value *vtb__among_all_rows(vtb_builder *b, vtb_value *x, vtb_value *first, int ranks) {
  int axis, rank = x->type.rank;
  if (x->type.dtype != VTB_F32) x = vtb_b_cast(b, x, VTB_F32);
  x = taken_apart(b, x, VTB_DYN, &axis);
  vtb_attr attrs[] = {VTB_A_INT("axis", axis), VTB_A_INT("size", ranks * VTB_DYN)};
  vtb_value *operands[] = {x, row_numbers(b, first, &x->type, axis)};
  x = vtb_build(b, VTB_OP_scatter_sum, operands, 2, attrs, 2)->results[0];
  return put_together(b, x, axis, rank);
}

vtb_value *vtb__own_rows(vtb_builder *b, vtb_value *x, vtb_value *first, int ranks) {
  int axis, rank = x->type.rank;
  x = taken_apart(b, x, ranks * VTB_DYN, &axis);
  x = vtb_b_gather(b, x, row_numbers(b, first, &x->type, axis), axis);
  return put_together(b, x, axis, rank);
}

vtb_type vtb__of_all_rows(const vtb_type *t, int ranks) {
  vtb_type all = *t;
  for (int a = 0; a < all.rank; a++)
    if (vtb_is_batch(all.dim[a].size)) all.dim[a].size *= ranks;
  return all;
}

/* Sizes that attributes tell are those of the rows of all, too. */
vtb_value *vtb__on_all_rows(vtb_builder *b, const vtb_inst *inst, int ranks) {
  vtb_attr *attrs = VTB_NEW_ARRAY(&b->module->scratch, vtb_attr, inst->n_attrs + 1);
  for (int i = 0; i < inst->n_attrs; i++) {
    vtb_attr *a = &attrs[i];
    *a = inst->attrs[i];
    if (strcmp(a->key, "size") == 0 && vtb_is_batch(a->i)) a->i *= ranks;
    if (strcmp(a->key, "shape") != 0) continue;
    int64_t *shape = VTB_NEW_ARRAY(&b->module->scratch, int64_t, a->n + 1);
    for (int k = 0; k < a->n; k++) shape[k] = a->ints[k] * (vtb_is_batch(a->ints[k]) ? ranks : 1);
    a->ints = shape;
  }
  vtb_type t = vtb__of_all_rows(&inst->results[0]->type, ranks);
  if (!inst->n_operands) /* numbers of nothing */
    return vtb_build_typed(b, inst->op, NULL, 0, attrs, inst->n_attrs, &t, 1)->results[0];
  return vtb_build(b, inst->op, inst->operands, inst->n_operands, attrs, inst->n_attrs)->results[0];
}

/* See axes.h. */
#include "ir/axes.h"
#include "ir/ops.h"

#include "ir/product.h"

#include <string.h>

bool vtb_has_axis(const vtb_inst *inst, const char *key, int axis) {
  int n;
  const int64_t *axes = vtb_attr_ints(inst, key, &n);
  for (int i = 0; i < n; i++)
    if (axes[i] == axis) return true;
  return false;
}

vtb_slice vtb_slice_of(const vtb_inst *slice) {
  return (vtb_slice){(int)vtb_attr_int(slice, "axis", 0), vtb_attr_int(slice, "start", 0),
                     vtb_attr_int(slice, "limit", 0), vtb_attr_int(slice, "step", 1)};
}

/* Axes of a reduction, each once and in any order; NULL: it is none. */
static const int64_t *reduced(const vtb_inst *inst, int *n) {
  *n = 0;
  bool reduces = vtb_op_get(inst->op)->klass == VTB_CLASS_REDUCE;
  return reduces ? vtb_attr_ints(inst, "axes", n) : NULL;
}

bool vtb_reduces_last(const vtb_inst *inst) {
  int n;
  const int64_t *axes = reduced(inst, &n);
  return n == 1 && axes[0] == inst->operands[0]->type.rank - 1;
}

int vtb_reduces_leading(const vtb_inst *inst) {
  int n;
  const int64_t *axes = reduced(inst, &n);
  for (int a = 0; a < n; a++)
    if (axes[a] != a) return 0;
  return n;
}

int vtb_batch_axis(const vtb_type *t) {
  int axis = t->rank - 1;
  while (axis >= 0 && !vtb_is_batch(t->dim[axis].size)) axis--;
  return vtb_type_batch_axes(t) == 1 ? axis : -1;
}

static int after_reduce(const vtb_inst *inst, int axis) {
  if (vtb_has_axis(inst, "axes", axis)) return VTB_AXIS_GONE;
  if (vtb_attr_int(inst, "keep", 0)) return axis;
  int out = axis;
  for (int a = 0; a < axis; a++) out -= vtb_has_axis(inst, "axes", a);
  return out;
}

static int64_t count_before(const vtb_type *t, int axis, int *n_dynamic) {
  int64_t count = 1;
  *n_dynamic = 0;
  for (int a = 0; a < axis; a++) {
    *n_dynamic += vtb_is_batch(t->dim[a].size);
    count *= vtb_bound_size(t->dim[a].size, 1);
  }
  return count;
}

int vtb_axis_reshaped(const vtb_type *from, const vtb_type *to, int axis) {
  int dynamic, other;
  int64_t before = count_before(from, axis, &dynamic);
  for (int a = 0; a < to->rank; a++)
    if (to->dim[a].size == from->dim[axis].size && count_before(to, a, &other) == before &&
        other == dynamic)
      return a;
  return VTB_AXIS_MIXED;
}

static int after_transpose(const vtb_inst *inst, int axis) {
  int n;
  const int64_t *perm = vtb_attr_ints(inst, "perm", &n);
  for (int i = 0; i < n; i++)
    if (perm[i] == axis) return i;
  return VTB_AXIS_MIXED;
}

/* The axis that has, in another place, the letter of `axis` there: a factor, or the result. */
static int letter_axis(const vtb_inst *inst, int place, int axis, int other) {
  vtb_product p = vtb_product_of(inst);
  return vtb_product_at(&p, place, axis)->at[other];
}

/* The step that enters a shift has no axis of steps. */
static int after_shift(int operand, int axis, int along) {
  if (operand == 1) return axis + (axis >= along);
  return axis == along ? VTB_AXIS_MIXED : axis;
}

/* Axes that the operands of a gather or its adjoint have in common, the first of either. */
static int picked_together(const vtb_inst *inst) {
  return inst->op == VTB_OP_gather ? (int)vtb_attr_int(inst, "axis", 0)
                                   : inst->operands[1]->type.rank;
}

static int after_gather(const vtb_inst *inst, int operand, int axis, int along) {
  if (operand == 1 || axis < along) return axis;
  return axis == along ? VTB_AXIS_MIXED : axis + inst->operands[1]->type.rank - along - 1;
}

/* A place sums the picks that name it; where places are samples, so are the picks of others. */
static int after_scatter(const vtb_inst *inst, int axis, int along) {
  int picks = inst->operands[1]->type.rank;
  if (axis < along) return axis;
  if (axis >= picks) return axis - picks + along + 1;
  return vtb_is_batch(inst->results[0]->type.dim[along].size) ? VTB_AXIS_MIXED : VTB_AXIS_GONE;
}

int vtb_axis_after(const vtb_inst *inst, int operand, int axis) {
  const vtb_type *x = &inst->operands[operand]->type, *y = &inst->results[0]->type;
  int along = (int)vtb_attr_int(inst, "axis", 0);
  switch (inst->op) {
  case VTB_OP_reduce_sum:
  case VTB_OP_reduce_max:
    return after_reduce(inst, axis);
  case VTB_OP_reshape:
    return vtb_axis_reshaped(x, y, axis);
  case VTB_OP_transpose:
    return after_transpose(inst, axis);
  case VTB_OP_slice:
  case VTB_OP_pad:
  case VTB_OP_concat:
  case VTB_OP_permute:
  case VTB_OP_prefix_sum:
    return axis == along ? VTB_AXIS_MIXED : axis;
  case VTB_OP_shift:
    return after_shift(operand, axis, along);
  case VTB_OP_gather:
    return after_gather(inst, operand, axis, along);
  case VTB_OP_scatter_sum:
    return after_scatter(inst, axis, along);
  case VTB_OP_einsum:
    if (operand < 2) return letter_axis(inst, operand, axis, VTB_IN_RESULT);
    return axis + y->rank - x->rank;
  default:
    break;
  }
  bool aligned = inst->op == VTB_OP_broadcast || inst->op == VTB_OP_tap ||
                 vtb_op_get(inst->op)->klass == VTB_CLASS_ELEMENTWISE;
  return aligned ? axis + y->rank - x->rank : VTB_AXIS_MIXED;
}

int vtb_axis_beside(const vtb_inst *inst, int operand, int axis, int other) {
  const vtb_type *x = &inst->operands[operand]->type, *y = &inst->operands[other]->type;
  int to = vtb_axis_after(inst, operand, axis);
  if (inst->op == VTB_OP_einsum && operand < 2 && other < 2)
    return letter_axis(inst, operand, axis, other);
  if (inst->op == VTB_OP_gather || inst->op == VTB_OP_scatter_sum)
    return axis < picked_together(inst) ? axis : -1;
  for (int a = 0; a < y->rank && to >= 0; a++)
    if (vtb_axis_after(inst, other, a) == to && y->dim[a].size == x->dim[axis].size) return a;
  return -1;
}

bool vtb_keeps_samples(const vtb_inst *inst) {
  int to = inst->n_results == 1 ? vtb_batch_axis(&inst->results[0]->type) : -1;
  for (int r = 0; r < inst->n_results; r++)
    if (to < 0 && vtb_type_is_dynamic(&inst->results[r]->type)) return false;
  for (int o = 0; o < inst->n_operands; o++) {
    const vtb_type *t = &inst->operands[o]->type;
    if (!vtb_type_is_dynamic(t)) continue;
    int axis = vtb_batch_axis(t);
    if (axis < 0 || to < 0 || vtb_axis_after(inst, o, axis) != to) return false;
  }
  return true;
}

static bool is_row_of_another(const vtb_inst *i) {
  bool moves = i->op == VTB_OP_gather || i->op == VTB_OP_prefix_sum || i->op == VTB_OP_scatter_sum;
  const vtb_type *x = &i->operands[0]->type;
  int64_t axis = vtb_attr_int(i, "axis", 0);
  return moves && axis < x->rank && vtb_is_batch(x->dim[axis].size);
}

static bool has_several(const vtb_inst *i) {
  for (int r = 0; r < i->n_results; r++) {
    const vtb_type *t = &i->results[r]->type;
    int axis = vtb_batch_axis(t);
    if (axis >= 0 && t->dim[axis].size < VTB_DYN) return true;
  }
  return false;
}

static bool has_pairs(const vtb_inst *i) {
  for (int r = 0; r < i->n_results; r++)
    if (vtb_type_batch_axes(&i->results[r]->type) > 1) return true;
  return i->n_operands && is_row_of_another(i);
}

static bool sums_samples(const vtb_inst *i) {
  if (i->op != VTB_OP_einsum && vtb_op_get(i->op)->klass != VTB_CLASS_REDUCE) return false;
  for (int o = 0; o < i->n_operands; o++) {
    int axis = vtb_batch_axis(&i->operands[o]->type);
    if (axis >= 0 && vtb_axis_after(i, o, axis) == VTB_AXIS_GONE) return true;
  }
  return false;
}

static bool any_inst(const vtb_module *m, bool (*one)(const vtb_inst *),
                     bool (*or_this)(const vtb_inst *)) {
  for (const vtb_func *f = m->first; f; f = f->next)
    for (const vtb_inst *i = f->first; i && f->kind != VTB_FUNC_RULE; i = i->next)
      if (one(i) || or_this(i)) return true;
  return false;
}

bool vtb_mixes_samples(const vtb_module *m) { return any_inst(m, has_pairs, has_several); }

bool vtb_samples_meet(const vtb_module *m) { return any_inst(m, has_pairs, sums_samples); }

/* A transpose's axes with those of the operand that are new. */
static int put_axes(int64_t *perm, int rank, int at, int n) {
  for (int k = 0; k < n; k++) perm[rank++] = at + k;
  return rank;
}

vtb_value *vtb_b_with_axes(vtb_builder *b, const vtb_inst *inst, vtb_value *const *operands, int at,
                           int n) {
  vtb_attr *attrs = VTB_NEW_ARRAY(&b->module->scratch, vtb_attr, inst->n_attrs + 1);
  int64_t moved[VTB_MAX_RANK];
  for (int i = 0; i < inst->n_attrs; i++) {
    vtb_attr *a = &attrs[i];
    *a = inst->attrs[i];
    bool perm = strcmp(a->key, "perm") == 0;
    if (strcmp(a->key, "axis") == 0) a->i += a->i >= at ? n : 0;
    if (!perm && strcmp(a->key, "axes") != 0) continue;
    int rank = perm && at == 0 ? put_axes(moved, 0, 0, n) : 0;
    for (int k = 0; k < a->n; k++) {
      moved[rank++] = a->ints[k] + (a->ints[k] >= at ? n : 0);
      if (perm && a->ints[k] == at - 1) rank = put_axes(moved, rank, at, n);
    }
    a->ints = moved, a->n = rank;
  }
  return vtb_build(b, inst->op, operands, inst->n_operands, attrs, inst->n_attrs)->results[0];
}

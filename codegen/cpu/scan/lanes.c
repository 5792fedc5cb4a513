/* Sequences side by side, a lane of a vector each. */
#include "codegen/cpu/scan/lanes.h"

/* Axes from `first` on are row-major without gaps. */
static bool dense_from(const vtb_type *t, const int64_t *stride, int first) {
  int64_t want = 1;
  for (int a = t->rank - 1; a >= first; a--) {
    if (t->dim[a].size > 1 && stride[a] != want) return false;
    want *= t->dim[a].size;
  }
  return true;
}

static bool all_dense(vtb_cpu *c, const vtb_inst *inst, int axis) {
  for (int i = 0; i < inst->n_operands + inst->n_results; i++) {
    const vtb_value *v =
        i < inst->n_operands ? inst->operands[i] : inst->results[i - inst->n_operands];
    bool whole = v->type.rank == inst->operands[0]->type.rank;
    if (!dense_from(&v->type, vtb_cpu_strides(c, i), whole ? axis + 1 : axis)) return false;
  }
  return true;
}

static int64_t stride_along(vtb_cpu *c, const vtb_inst *inst, int tensor, int token_axis,
                            int axis) {
  const vtb_value *v =
      tensor < inst->n_operands ? inst->operands[tensor] : inst->results[tensor - inst->n_operands];
  bool whole = v->type.rank == inst->operands[0]->type.rank;
  if (axis == token_axis && !whole) return 0;
  return vtb_cpu_strides(c, tensor)[whole || axis < token_axis ? axis : axis - 1];
}

void vtb__lanes_open(vtb__lanes *l, vtb_cpu *c, const vtb_inst *inst, const char *text, int axis) {
  enum { TENSORS = 16 };
  const vtb_type *g = &inst->operands[0]->type;
  int last = g->rank - 1, n = inst->n_operands + inst->n_results, n_axes = 0;
  bool merged = axis < last && all_dense(c, inst, axis);
  int64_t outer = 1, inner = axis < last ? g->dim[last].size : 1, size[VTB_MAX_RANK];
  int64_t at[TENSORS][VTB_MAX_RANK] = {0}, token[TENSORS];
  vtb_check(n <= TENSORS, "%d tensors side by side", n);
  for (int a = axis == last ? last : last - 1; a >= 0; a--) {
    if (a == axis) continue;
    if (a > axis && merged) {
      inner *= g->dim[a].size;
      continue;
    }
    for (int i = 0; i < n; i++) at[i][n_axes] = stride_along(c, inst, i, axis, a);
    size[n_axes++] = g->dim[a].size;
    outer *= g->dim[a].size;
  }
  for (int i = 0; i < n; i++) token[i] = stride_along(c, inst, i, axis, axis);
  l->text = vtb_cpu_text_open(c, text, inner > 1 ? c->width : 1);
  l->order = vtb__order_make(c, vtb_attr_str(inst, "path", NULL), g->dim[axis].size);
  vtb_cpu_text_order(l->text, "place", &l->order);
  vtb_cpu_text_number(l->text, "TOKENS", g->dim[axis].size);
  vtb_cpu_text_number(l->text, "OUTER", outer);
  vtb_cpu_text_number(l->text, "INNER", inner);
  vtb_cpu_text_number(l->text, "AXES", n_axes);
  vtb_cpu_text_numbers(l->text, "SIZE", size, n_axes);
  vtb_cpu_text_numbers(l->text, "AT", at[0], n * VTB_MAX_RANK);
  vtb_cpu_text_numbers(l->text, "TOKEN", token, n);
}

/* Sequences side by side, a lane of a vector each. */
#include "codegen/cpu/scan/lanes.h"

#define PIECE 4 /* vectors of the last axis a task takes, one after another */

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

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

/* Axis a is indexed by the task. */
static bool is_outer(const vtb__lanes *l, int a) {
  return a < l->axis || (a > l->axis && !l->merged);
}

/* The task's index taken apart, the innermost axis first; what is left for a batch is its index. */
static void take_apart(vtb__lanes *l, const vtb_type *g, LLVMValueRef rest) {
  int last = g->rank - 1;
  for (int a = l->axis == last ? last : last - 1; a >= 0; a--) {
    if (a == l->axis) continue;
    if (!is_outer(l, a)) {
      l->at[a] = k_(l->c, 0);
      continue;
    }
    l->at[a] = a > 0 ? vtb_cpu_rem(l->c, rest, g->dim[a].size) : rest;
    if (a > 0) rest = vtb_cpu_div(l->c, rest, g->dim[a].size);
  }
}

vtb__lanes vtb__lanes_open(vtb_cpu *c, const vtb_inst *inst, int axis) {
  const vtb_type *g = &inst->operands[0]->type;
  int last = g->rank - 1;
  vtb__lanes l = {.c = c, .axis = axis, .n_tokens = g->dim[axis].size, .rank = g->rank, .inner = 1};
  l.order = vtb__order_make(c, vtb_attr_str(inst, "path", NULL), l.n_tokens);
  l.merged = axis < last && all_dense(c, inst, axis);
  if (axis < last) l.inner = g->dim[last].size;
  int64_t outer = 1;
  for (int a = 0; a < g->rank; a++) {
    if (a == axis || (a == last && axis < last)) continue;
    if (is_outer(&l, a))
      outer *= g->dim[a].size;
    else
      l.inner *= g->dim[a].size;
  }
  l.width = l.inner > 1 ? c->width : 1;
  int64_t piece = PIECE * (int64_t)l.width, n_pieces = (l.inner + piece - 1) / piece;
  l.t = vtb_cpu_task_begin(c, inst, vtb_op_get(inst->op)->name, outer * n_pieces, 1);
  take_apart(&l, g, vtb_cpu_div(c, l.t->index, n_pieces));
  LLVMValueRef from = vtb_cpu_mul(c, vtb_cpu_rem(c, l.t->index, n_pieces), piece);
  l.pieces = vtb_cpu_for_begin(
      c, from, vtb_cpu_min(c, vtb_cpu_add(c, from, k_(c, piece)), k_(c, l.inner)), k_(c, l.width));
  if (axis < last) l.at[last] = l.pieces.i;
  if (l.width > 1)
    l.mask = vtb_cpu_mask(c, LLVMBuildNSWSub(c->b, k_(c, l.inner), l.pieces.i, ""), l.width);
  return l;
}

void vtb__lanes_close(vtb__lanes *l) {
  vtb_cpu_for_end(l->c, &l->pieces);
  vtb_cpu_task_end(l->c, l->t);
}

static LLVMValueRef address(const vtb__lanes *l, int i, LLVMValueRef pos) {
  LLVMValueRef index[VTB_MAX_RANK];
  int n = 0;
  for (int a = 0; a < l->rank; a++) {
    if (a == l->axis && !pos) continue;
    index[n++] = a == l->axis ? pos : l->at[a];
  }
  return vtb_cpu_element(l->c, &l->t->t[i], index, n);
}

LLVMValueRef vtb__lanes_get(const vtb__lanes *l, int i, LLVMValueRef pos) {
  LLVMValueRef at = address(l, i, pos);
  return l->mask ? vtb_cpu_load_masked(l->c, at, l->mask, l->width) : vtb_cpu_load(l->c, at, 1);
}

void vtb__lanes_put(const vtb__lanes *l, LLVMValueRef v, int i, LLVMValueRef pos) {
  LLVMValueRef at = address(l, i, pos);
  if (l->mask)
    vtb_cpu_store_masked(l->c, v, at, l->mask);
  else
    vtb_cpu_store(l->c, v, at);
}

/* maxplus: m_t = max(m_{t-1} + g_t, i_t) along axis 1 in path order, and its adjoint.
 *
 * A task owns one batch entry, one index of the axes between tokens and the last, and a piece of
 * the last axis, which the vectors run along: each lane is its own recurrence. Axes after the
 * tokens that lie densely in all tensors count as one. Adjoint: r_t = dm_t + (what m_t passes on to
 * later steps) goes to g_t and on to m_{t-1} where m_{t-1} + g_t > i_t, else to i_t.
 */
#include "codegen/cpu/loop/order.h"

#define PIECE 4 /* vectors of the last axis a task takes, one after another */

typedef struct lanes {
  vtb_cpu *c;
  vtb_cpu_task *t;
  vtb__order order;
  int64_t n_tokens, inner; /* inner: length of the last (merged) axis */
  bool merged;
  LLVMValueRef at[VTB_MAX_RANK]; /* [batch, (tokens), outer axes ..., start on the last axis] */
  int rank;
  LLVMValueRef mask; /* NULL for a scalar */
  int width;
} lanes;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

/* Whether axes from `first` on are row-major without gaps. */
static bool dense_from(const vtb_type *t, const int64_t *stride, int first) {
  int64_t want = 1;
  for (int a = t->rank - 1; a >= first; a--) {
    if (t->dim[a].size > 1 && stride[a] != want) return false;
    want *= t->dim[a].size;
  }
  return true;
}

static bool all_dense(vtb_cpu *c, const vtb_inst *inst) {
  for (int i = 0; i < inst->n_operands + inst->n_results; i++) {
    const vtb_value *v =
        i < inst->n_operands ? inst->operands[i] : inst->results[i - inst->n_operands];
    bool whole = v->type.rank == inst->operands[0]->type.rank;
    if (!dense_from(&v->type, vtb_cpu_strides(c, i), whole ? 2 : 1)) return false;
  }
  return true;
}

/* Opens the task and the loop over vectors; returns false lanes.mask for a rank-2 tensor, which has
 * one lane. */
static lanes open_task(vtb_cpu *c, const vtb_inst *inst, vtb_cpu_for *pieces) {
  const vtb_type *g = &inst->operands[0]->type;
  lanes l = {.c = c, .n_tokens = g->dim[1].size, .rank = g->rank, .inner = 1};
  l.order = vtb__order_make(c, vtb_attr_str(inst, "path", NULL), l.n_tokens);
  l.merged = g->rank > 2 && all_dense(c, inst);
  int64_t outer = g->dim[0].size;
  if (g->rank > 2) l.inner = g->dim[g->rank - 1].size;
  for (int a = 2; a < g->rank - 1; a++) {
    if (l.merged)
      l.inner *= g->dim[a].size;
    else
      outer *= g->dim[a].size;
  }
  l.width = l.inner > 1 ? c->width : 1;
  int64_t piece = PIECE * (int64_t)l.width, n_pieces = (l.inner + piece - 1) / piece;
  l.t = vtb_cpu_task_begin(c, inst, "maxplus", outer * n_pieces, 1);
  LLVMValueRef rest = vtb_cpu_div(c, l.t->index, n_pieces);
  LLVMValueRef from = vtb_cpu_mul(c, vtb_cpu_rem(c, l.t->index, n_pieces), piece);
  for (int a = g->rank - 2; a >= 2; a--) {
    l.at[a] = l.merged ? k_(c, 0) : vtb_cpu_rem(c, rest, g->dim[a].size);
    if (!l.merged) rest = vtb_cpu_div(c, rest, g->dim[a].size);
  }
  l.at[0] = rest;
  *pieces = vtb_cpu_for_begin(
      c, from, vtb_cpu_min(c, vtb_cpu_add(c, from, k_(c, piece)), k_(c, l.inner)), k_(c, l.width));
  if (g->rank > 2) l.at[g->rank - 1] = pieces->i;
  if (l.width > 1)
    l.mask = vtb_cpu_mask(c, LLVMBuildNSWSub(c->b, k_(c, l.inner), pieces->i, ""), l.width);
  return l;
}

static void close_task(lanes *l, vtb_cpu_for *pieces) {
  vtb_cpu_for_end(l->c, pieces);
  vtb_cpu_task_end(l->c, l->t);
}

/* Address in tensor i at storage position pos; pos NULL: a tensor without the token axis. */
static LLVMValueRef address(const lanes *l, int i, LLVMValueRef pos) {
  LLVMValueRef index[VTB_MAX_RANK];
  int n = 0;
  for (int a = 0; a < l->rank; a++) {
    if (a == 1 && !pos) continue;
    index[n++] = a == 1 ? pos : l->at[a];
  }
  return vtb_cpu_element(l->c, &l->t->t[i], index, n);
}

static LLVMValueRef get(const lanes *l, int i, LLVMValueRef pos) {
  LLVMValueRef at = address(l, i, pos);
  return l->mask ? vtb_cpu_load_masked(l->c, at, l->mask, l->width) : vtb_cpu_load(l->c, at, 1);
}

static void put(const lanes *l, LLVMValueRef v, int i, LLVMValueRef pos) {
  LLVMValueRef at = address(l, i, pos);
  if (l->mask)
    vtb_cpu_store_masked(l->c, v, at, l->mask);
  else
    vtb_cpu_store(l->c, v, at);
}

static LLVMValueRef lowest(const lanes *l) {
  return vtb_cpu_splat(l->c, vtb_cpu_f32(l->c, -(double)__builtin_inff()), l->width);
}

void vtb__cpu_maxplus(vtb_cpu *c, const vtb_inst *inst) {
  vtb_cpu_for pieces;
  lanes l = open_task(c, inst, &pieces);
  int n_in = inst->n_operands;
  LLVMValueRef first = n_in == 3 ? get(&l, 2, NULL) : lowest(&l);
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), k_(c, l.n_tokens), k_(c, 1));
  LLVMValueRef m = vtb_cpu_carry(c, &t, first), pos = vtb__order_at(c, &l.order, t.i);
  LLVMValueRef kept = LLVMBuildFAdd(c->b, m, get(&l, 0, pos), "");
  LLVMValueRef next = vtb_cpu_fmax(c, kept, get(&l, 1, pos));
  put(&l, next, n_in, pos);
  vtb_cpu_carry_next(&t, 0, next);
  vtb_cpu_for_end(c, &t);
  close_task(&l, &pieces);
}

void vtb__cpu_maxplus_grad(vtb_cpu *c, const vtb_inst *inst) {
  vtb_cpu_for pieces;
  bool init = vtb_attr_int(inst, "init", 0) != 0;
  lanes l = open_task(c, inst, &pieces);
  int m_at = 2 + init, dm_at = 3 + init, dg_at = 4 + init;
  LLVMValueRef first = init ? get(&l, 2, NULL) : lowest(&l), zero = vtb_cpu_like(c, first, 0);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), k_(c, l.n_tokens), k_(c, 1));
  LLVMValueRef later = vtb_cpu_carry(c, &r, zero),
               t = LLVMBuildNSWSub(c->b, k_(c, l.n_tokens - 1), r.i, "");
  LLVMValueRef pos = vtb__order_at(c, &l.order, t),
               at_start = LLVMBuildICmp(c->b, LLVMIntEQ, t, k_(c, 0), "");
  LLVMValueRef before = LLVMBuildSelect(c->b, at_start, t, vtb_cpu_add(c, t, k_(c, -1)), "");
  LLVMValueRef m =
      LLVMBuildSelect(c->b, at_start, first, get(&l, m_at, vtb__order_at(c, &l.order, before)), "");
  LLVMValueRef kept = LLVMBuildFAdd(c->b, m, get(&l, 0, pos), "");
  LLVMValueRef keeps = LLVMBuildFCmp(c->b, LLVMRealOGT, kept, get(&l, 1, pos), "");
  LLVMValueRef d = LLVMBuildFAdd(c->b, get(&l, dm_at, pos), later, "");
  LLVMValueRef to_g = LLVMBuildSelect(c->b, keeps, d, zero, "");
  put(&l, to_g, dg_at, pos);
  put(&l, LLVMBuildSelect(c->b, keeps, zero, d, ""), dg_at + 1, pos);
  vtb_cpu_carry_next(&r, 0, to_g);
  vtb_cpu_for_end(c, &r);
  if (init) put(&l, vtb_cpu_carried(&r, 0), dg_at + 2, NULL);
  close_task(&l, &pieces);
}

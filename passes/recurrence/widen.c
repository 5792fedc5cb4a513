/* See widen.h. */
#include "ir/axes.h"
#include "ir/product.h"
#include "passes/recurrence/widen.h"

static int from_end(const vtb_type *t, int axis) { return t->rank - 1 - axis; }

/* ---- what can be widened --------------------------------------------------------------------- */

bool vtb__can_widen(const vtb_inst *inst, const bool *varies) {
  const vtb_type *out = &inst->results[0]->type;
  int to = inst->n_results == 1 ? vtb_batch_axis(out) : -1;
  if (to < 0 || out->rank == VTB_MAX_RANK) return false;
  for (int i = 0; i < inst->n_operands; i++) {
    const vtb_type *t = &inst->operands[i]->type;
    if (!varies[inst->operands[i]->id]) continue;
    int axis = vtb_batch_axis(t);
    if (axis < 0 || t->rank == VTB_MAX_RANK || vtb_axis_after(inst, i, axis) != to) return false;
  }
  return inst->op != VTB_OP_einsum || inst->n_operands == 2;
}

/* ---- widening -------------------------------------------------------------------------------- */

static vtb_value *fixed_value(vtb__widen *w, vtb_value *v) {
  vtb_value *operands[3 * VTB_MAX_RANK];
  const vtb_inst *inst = v->def;
  vtb_check(inst && inst->n_operands <= 3 * VTB_MAX_RANK, "%%%s is not given", v->name);
  for (int i = 0; i < inst->n_operands; i++) operands[i] = vtb__widen_value(w, inst->operands[i]);
  return vtb_inst_clone(&w->b, inst, operands)->results[v->index];
}

/* An operand of an op that broadcasts to a result whose batch has `tail` axes behind it: what does
 * not vary gets a 1 where the tokens are. */
static vtb_value *beside(vtb__widen *w, vtb_value *v, int tail) {
  vtb_value *x = vtb__widen_value(w, v);
  if (w->varies[v->id] || v->type.rank <= tail) return x;
  vtb_type t = vtb_type_with_axis(&v->type, v->type.rank - tail, (vtb_dim){.size = 1});
  return vtb_b_reshape(&w->b, x, &t);
}

/* slice, pad, concat and the like: their axis moves. */
static vtb_value *widen_along(vtb__widen *w, const vtb_inst *inst) {
  vtb_value **at = VTB_SCRATCH(&w->b, vtb_value *, inst->n_operands);
  int p = vtb_batch_axis(&inst->results[0]->type), tail = from_end(&inst->results[0]->type, p);
  for (int i = 0; i < inst->n_operands; i++) {
    vtb_value *x = beside(w, inst->operands[i], tail);
    vtb_type t = vtb_type_with_axis(&inst->operands[i]->type, p + 1, w->tokens);
    at[i] = w->varies[inst->operands[i]->id] ? x : vtb_b_broadcast(&w->b, x, &t);
  }
  return vtb_b_with_axes(&w->b, inst, at, p + 1, 1);
}

static vtb_value *widen_scalar(vtb__widen *w, const vtb_inst *inst) {
  vtb_value *at[VTB_MAX_RANK];
  const vtb_type *out = &inst->results[0]->type;
  int tail = from_end(out, vtb_batch_axis(out));
  for (int i = 0; i < inst->n_operands; i++) at[i] = beside(w, inst->operands[i], tail);
  return vtb_build(&w->b, inst->op, at, inst->n_operands, inst->attrs, inst->n_attrs)->results[0];
}

/* ---- products -------------------------------------------------------------------------------- */

/* One side of a product: its letters without axes of size 1, the tokens' letter behind the
 * batch's. */
static vtb_value *product_side(vtb__widen *w, const vtb_inst *inst, int side, char token,
                               vtb_spec *out) {
  vtb_value *v = inst->operands[side], *x = vtb__widen_value(w, v);
  vtb_type t = {.dtype = v->type.dtype};
  vtb_product p = vtb_product_of(inst);
  for (int a = 0; a < v->type.rank; a++) {
    if (v->type.dim[a].size == 1) continue;
    t.dim[t.rank++] = v->type.dim[a];
    vtb_spec_put(out, side, vtb_product_at(&p, side, a)->name);
    if (!w->varies[v->id] || !vtb_is_batch(v->type.dim[a].size)) continue;
    t.dim[t.rank++] = w->tokens;
    vtb_spec_put(out, side, token);
  }
  return vtb_b_shaped(&w->b, x, &t);
}

/* With `total`, summed over tokens. */
static vtb_value *widen_einsum(vtb__widen *w, const vtb_inst *inst, bool total) {
  vtb_product p = vtb_product_of(inst);
  const vtb_type *type = &inst->results[0]->type;
  vtb_spec made = {0};
  char token[2];
  vtb_unused_letters(&p, "abcdefghijklmnopqrstuvwxyz", 1, token);
  vtb_value *x = product_side(w, inst, 0, token[0], &made);
  vtb_value *y = product_side(w, inst, 1, token[0], &made);
  vtb_type full = *type;
  for (int a = 0; a < type->rank; a++) {
    if (type->dim[a].size == 1) continue;
    vtb_spec_put(&made, VTB_IN_RESULT, vtb_product_at(&p, VTB_IN_RESULT, a)->name);
    if (vtb_is_batch(type->dim[a].size) && !total) {
      vtb_spec_put(&made, VTB_IN_RESULT, token[0]);
      full = vtb_type_with_axis(type, a + 1, w->tokens);
    }
  }
  vtb_value *r = vtb_b_einsum_of(&w->b, &made, x, y);
  return vtb_b_shaped(&w->b, r, &full);
}

static vtb_value *widen_inst(vtb__widen *w, const vtb_inst *inst) {
  const vtb_type *out = &inst->results[0]->type;
  int p = vtb_batch_axis(out);
  vtb_type all = vtb_type_with_axis(out, p + 1, w->tokens);
  vtb_value *x;
  switch (inst->op) {
  case VTB_OP_reshape:
    return vtb_b_reshape(&w->b, vtb__widen_value(w, inst->operands[0]), &all);
  case VTB_OP_broadcast:
    return vtb_b_broadcast(&w->b, beside(w, inst->operands[0], from_end(out, p)), &all);
  case VTB_OP_transpose:
  case VTB_OP_reduce_sum:
  case VTB_OP_reduce_max:
    x = vtb__widen_value(w, inst->operands[0]);
    return vtb_b_with_axes(&w->b, inst, &x, vtb_batch_axis(&inst->operands[0]->type) + 1, 1);
  case VTB_OP_einsum:
    return widen_einsum(w, inst, false);
  default:
    return vtb_attr_find(inst, "axis") ? widen_along(w, inst) : widen_scalar(w, inst);
  }
}

vtb_value *vtb__widen_value(vtb__widen *w, vtb_value *v) {
  vtb_value **outer = &w->outer[v->id];
  if (*outer) return *outer;
  vtb_value *made = w->varies[v->id] ? widen_inst(w, v->def) : fixed_value(w, v);
  return w->outer[v->id] = made;
}

/* ---- sums over tokens ------------------------------------------------------------------------ */

/* The one operand that varies, if the op is linear in it; NULL else. */
static vtb_value *linear_operand(const vtb_inst *inst, const bool *varies) {
  vtb_value *const *x = inst->operands;
  if (vtb_is_view(inst->op) || inst->op == VTB_OP_pad || inst->op == VTB_OP_neg) return x[0];
  if (inst->op != VTB_OP_mul || (varies[x[0]->id] && varies[x[1]->id])) return NULL;
  return x[varies[x[0]->id] ? 0 : 1];
}

static bool is_sum(const vtb_inst *inst) {
  return (inst->op == VTB_OP_add || inst->op == VTB_OP_sub) &&
         vtb_type_equal(&inst->operands[0]->type, &inst->operands[1]->type);
}

static bool reads_batches(const vtb_inst *inst, const bool *varies) {
  for (int i = 0; i < inst->n_operands; i++) {
    const vtb_value *v = inst->operands[i];
    if (varies[v->id] ? vtb_batch_axis(&v->type) < 0 : vtb_type_is_dynamic(&v->type)) return false;
  }
  return true;
}

bool vtb__total_leaves(vtb_value *v, const bool *varies, vtb__has_outer leaf, void *user) {
  if (!varies[v->id]) return true;
  if (vtb_batch_axis(&v->type) >= 0) return leaf(user, v);
  const vtb_inst *inst = v->def;
  if (!inst || inst->n_results != 1) return false;
  if (is_sum(inst))
    return vtb__total_leaves(inst->operands[0], varies, leaf, user) &&
           vtb__total_leaves(inst->operands[1], varies, leaf, user);
  if (inst->op == VTB_OP_reduce_sum || (inst->op == VTB_OP_einsum && inst->n_operands == 2)) {
    bool fits = reads_batches(inst, varies);
    for (int i = 0; i < inst->n_operands; i++)
      if (varies[inst->operands[i]->id]) fits = fits && leaf(user, inst->operands[i]);
    return fits;
  }
  vtb_value *x = linear_operand(inst, varies);
  return x && vtb_batch_axis(&x->type) < 0 && vtb__total_leaves(x, varies, leaf, user);
}

static vtb_value *sum_tokens(vtb__widen *w, vtb_value *v) {
  int64_t axis = vtb_batch_axis(&v->type) + 1;
  return vtb_b_reduce(&w->b, VTB_OP_reduce_sum, vtb__widen_value(w, v), &axis, 1, false);
}

/* The batch is among the axes, and the tokens with it. */
static vtb_value *total_reduce(vtb__widen *w, const vtb_inst *inst) {
  int n, p = vtb_batch_axis(&inst->operands[0]->type);
  const int64_t *axes = vtb_attr_ints(inst, "axes", &n);
  int64_t moved[VTB_MAX_RANK];
  for (int i = 0; i < n; i++) moved[i] = axes[i] + (axes[i] > p);
  moved[n] = p + 1;
  vtb_value *x = vtb__widen_value(w, inst->operands[0]);
  vtb_value *r = vtb_b_reduce(&w->b, VTB_OP_reduce_sum, x, moved, n + 1, false);
  const vtb_type *t = &inst->results[0]->type;
  return vtb_b_shaped(&w->b, r, t);
}

vtb_value *vtb__total(vtb__widen *w, vtb_value *v) {
  if (!w->varies[v->id])
    return vtb_b_binary(&w->b, VTB_OP_mul, vtb__widen_value(w, v),
                        vtb_b_constant(&w->b, (double)w->tokens.size));
  if (vtb_batch_axis(&v->type) >= 0) return sum_tokens(w, v);
  vtb_inst *inst = v->def;
  if (inst->op == VTB_OP_einsum) return widen_einsum(w, inst, true);
  if (inst->op == VTB_OP_reduce_sum && vtb_batch_axis(&inst->operands[0]->type) >= 0)
    return total_reduce(w, inst);
  vtb_value *at[2];
  for (int i = 0; i < inst->n_operands; i++) {
    vtb_value *x = inst->operands[i];
    bool factor = inst->op == VTB_OP_mul && !w->varies[x->id];
    at[i] = factor ? vtb__widen_value(w, x) : vtb__total(w, x);
  }
  return vtb_inst_clone(&w->b, inst, at)->results[0];
}

/* Rules of the simplify pass for constants that are moved, reshapes, slices, reductions and
 * permutations. */
#include "passes/passes_internal.h"

#include "ir/axes.h"
#include "ir/path.h"

static vtb_inst *made_by(const vtb_value *v, vtb_op op) {
  return v->def && v->def->op == op ? v->def : NULL;
}

/* Moving the elements of a splat gives a splat. */
static vtb_value *moved_splat(vtb_builder *b, vtb_inst *inst) {
  double c;
  if (!vtb__splat(inst->operands[0], &c)) return NULL;
  return vtb_b_splat(b, c, &inst->results[0]->type);
}

/* Two in a row: the second is enough. */
static vtb_value *simplify_spread(vtb_builder *b, vtb_inst *inst) {
  vtb_value *x = inst->operands[0];
  const vtb_type *t = &inst->results[0]->type;
  vtb_inst *d = made_by(x, inst->op);
  if (!d) return moved_splat(b, inst);
  x = d->operands[0];
  return inst->op == VTB_OP_reshape ? vtb_b_reshape(b, x, t) : vtb_b_broadcast(b, x, t);
}

/* True if the axes that are not of size 1 keep their order, so that no element moves. */
static bool moves_only_ones(const vtb_type *x, const int64_t *perm) {
  int64_t last = -1;
  for (int i = 0; i < x->rank; i++) {
    if (x->dim[perm[i]].size == 1) continue;
    if (perm[i] < last) return false;
    last = perm[i];
  }
  return true;
}

static vtb_value *simplify_transpose(vtb_builder *b, vtb_inst *inst) {
  vtb_value *x = inst->operands[0];
  int n;
  const int64_t *perm = vtb_attr_ints(inst, "perm", &n);
  bool identity = true;
  for (int i = 0; i < n; i++) identity &= perm[i] == i;
  if (identity) return x;
  if (moves_only_ones(&x->type, perm)) return vtb_b_reshape(b, x, &inst->results[0]->type);
  vtb_inst *d = made_by(x, VTB_OP_transpose);
  if (!d) return moved_splat(b, inst);
  const int64_t *inner = vtb_attr_ints(d, "perm", &n);
  int64_t both[VTB_MAX_RANK];
  for (int i = 0; i < n; i++) both[i] = inner[perm[i]];
  return vtb_b_transpose(b, d->operands[0], both);
}

/* A slice that lies inside one operand of a concat. */
static vtb_value *slice_of_concat(vtb_builder *b, const vtb_slice *r, vtb_inst *concat) {
  if (vtb_attr_int(concat, "axis", 0) != r->axis) return NULL;
  int64_t begin = 0;
  for (int i = 0; i < concat->n_operands; i++) {
    int64_t end = begin + concat->operands[i]->type.dim[r->axis].size;
    if (r->start >= begin && r->limit <= end)
      return vtb_b_slice(b, concat->operands[i], r->axis, r->start - begin, r->limit - begin,
                         r->step);
    begin = end;
  }
  return NULL;
}

static vtb_value *simplify_slice(vtb_builder *b, vtb_inst *inst) {
  vtb_value *x = inst->operands[0];
  vtb_slice r = vtb_slice_of(inst);
  vtb_inst *d = made_by(x, VTB_OP_concat);
  if (d) return slice_of_concat(b, &r, d);
  d = made_by(x, VTB_OP_slice);
  vtb_slice in = d ? vtb_slice_of(d) : r;
  if (!d || in.axis != r.axis) return moved_splat(b, inst);
  int64_t count = inst->results[0]->type.dim[r.axis].size, step = in.step * r.step,
          start = in.start + r.start * in.step;
  return vtb_b_slice(b, d->operands[0], r.axis, start, start + (count - 1) * step + 1, step);
}

/* Operands i and i+1 as one slice of what both are slices of, or NULL. */
static vtb_value *join_slices(vtb_builder *b, int axis, const vtb_value *x, const vtb_value *y) {
  const vtb_inst *dx = made_by(x, VTB_OP_slice), *dy = made_by(y, VTB_OP_slice);
  if (!dx || !dy || dx->operands[0] != dy->operands[0]) return NULL;
  vtb_slice rx = vtb_slice_of(dx), ry = vtb_slice_of(dy);
  if (rx.axis != axis || ry.axis != axis || rx.step != 1 || ry.step != 1 || rx.limit != ry.start)
    return NULL;
  return vtb_b_slice(b, dx->operands[0], axis, rx.start, ry.limit, 1);
}

static vtb_value *simplify_concat(vtb_builder *b, vtb_inst *inst) {
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  if (inst->n_operands == 1) return inst->operands[0];
  VTB_VEC(vtb_value *) parts = {0};
  bool changed = false;
  for (int i = 0; i < inst->n_operands; i++) {
    vtb_inst *d = made_by(inst->operands[i], VTB_OP_concat);
    bool nested = d && vtb_attr_int(d, "axis", 0) == axis;
    changed |= nested;
    for (int j = 0; j < (nested ? d->n_operands : 1); j++) {
      vtb_value *x = nested ? d->operands[j] : inst->operands[i];
      vtb_value *joined = parts.n ? join_slices(b, axis, parts.at[parts.n - 1], x) : NULL;
      if (joined)
        parts.at[parts.n - 1] = joined;
      else
        vtb__put(b, &parts, x);
      changed |= joined != NULL;
    }
  }
  return changed ? vtb_b_concat(b, parts.at, (int)parts.n, axis) : NULL;
}

/* Sums of equal numbers, and the maximum of them. */
static vtb_value *reduce_splat(vtb_builder *b, vtb_inst *inst, const int64_t *axes, int n) {
  double c, count = 1;
  if (!vtb__splat(inst->operands[0], &c)) return NULL;
  for (int i = 0; i < n; i++) {
    int64_t size = inst->operands[0]->type.dim[axes[i]].size;
    if (size <= 0) return NULL;
    count *= (double)size;
  }
  return vtb_b_splat(b, inst->op == VTB_OP_reduce_sum ? c * count : c, &inst->results[0]->type);
}

/* Axes of size 1 need no reduction, only a reshape. */
static vtb_value *simplify_reduce(vtb_builder *b, vtb_inst *inst) {
  vtb_value *x = inst->operands[0];
  int n, n_left = 0;
  const int64_t *axes = vtb_attr_ints(inst, "axes", &n);
  int64_t left[VTB_MAX_RANK];
  vtb_value *v = reduce_splat(b, inst, axes, n);
  if (v) return v;
  for (int i = 0; i < n; i++)
    if (x->type.dim[axes[i]].size != 1) left[n_left++] = axes[i];
  if (n_left == n && n > 0) return NULL;
  if (n_left == 0) return vtb_b_reshape(b, x, &inst->results[0]->type);
  if (vtb_attr_int(inst, "keep", 0)) return vtb_b_reduce(b, inst->op, x, left, n_left, true);
  vtb_type t = {.dtype = x->type.dtype};
  for (int a = 0; a < x->type.rank; a++)
    if (!vtb_has_axis(inst, "axes", a) || x->type.dim[a].size != 1)
      t.dim[t.rank++] = x->type.dim[a];
  for (int i = 0; i < n_left; i++) left[i] = vtb_axis_reshaped(&x->type, &t, (int)left[i]);
  return vtb_b_reduce(b, inst->op, vtb_b_reshape(b, x, &t), left, n_left, false);
}

static bool identity_path(const char *path) {
  if (!path) return false;
  vtb_path p = vtb__path_of(path);
  bool identity = vtb_path_is_identity(&p);
  vtb_path_free(&p);
  return identity;
}

static bool same_path(const char *a, const char *b) {
  if (vtb_streq(a, b) || !a || !b) return a && b;
  vtb_path p = vtb__path_of(a), q = vtb__path_of(b);
  bool same = vtb_path_equal(&p, &q);
  vtb_path_free(&p);
  vtb_path_free(&q);
  return same;
}

static vtb_value *simplify_permute(vtb_builder *b, vtb_inst *inst) {
  const char *path = vtb_attr_str(inst, "path", NULL);
  if (identity_path(path)) return inst->operands[0];
  vtb_inst *d = made_by(inst->operands[0], VTB_OP_permute);
  if (d && vtb_attr_int(d, "axis", 0) == vtb_attr_int(inst, "axis", 0) &&
      !vtb_attr_int(d, "inverse", 0) != !vtb_attr_int(inst, "inverse", 0) &&
      same_path(path, vtb_attr_str(d, "path", NULL)))
    return d->operands[0];
  return moved_splat(b, inst);
}

vtb_value *vtb__simplify_shape(vtb_builder *b, vtb_inst *inst) {
  bool in_order = vtb_is_view(inst->op) ? inst->op != VTB_OP_transpose : inst->op == VTB_OP_pad;
  if (in_order && vtb_type_equal(&inst->operands[0]->type, &inst->results[0]->type))
    return inst->operands[0];
  switch (inst->op) {
  case VTB_OP_reshape:
  case VTB_OP_broadcast:
    return simplify_spread(b, inst);
  case VTB_OP_transpose:
    return simplify_transpose(b, inst);
  case VTB_OP_slice:
    return simplify_slice(b, inst);
  case VTB_OP_concat:
    return simplify_concat(b, inst);
  case VTB_OP_reduce_sum:
  case VTB_OP_reduce_max:
    return simplify_reduce(b, inst);
  case VTB_OP_permute:
    return simplify_permute(b, inst);
  case VTB_OP_shift:
    return vtb_attr_int(inst, "by", 0) == 0 ? inst->operands[0] : NULL;
  default:
    if (identity_path(vtb_attr_str(inst, "path", NULL))) vtb_attr_remove(inst, "path");
    return NULL;
  }
}

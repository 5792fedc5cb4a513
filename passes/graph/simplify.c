/* simplify: ops that change nothing go, constants are folded. One value is replaced by an equal
 * one; nothing changes beyond rounding.
 *
 *   %o = constant {value=1.0}
 *   %a = mul %x, %o               =>     %z = sub %x, %y
 *   %b = neg %y
 *   %z = add %a, %b
 *
 * A rule is called with an instruction whose operands are already simple and returns the value to
 * use instead of its result, or NULL. Declined, because NaN or infinity would change: x*0, x-x,
 * x/x, log(exp x).
 */
#include "passes/passes_internal.h"

#include "ir/axes.h"
#include "ir/path.h"
#include "ir/scalar.h"

#include <math.h>

/* ---- elementwise ops ------------------------------------------------------------------------- */

static vtb_value *fold_constants(vtb_builder *b, vtb_inst *inst) {
  double x[VTB_SCALAR_OPERANDS];
  if (!vtb_scalar_get(inst->op) || inst->results[0]->type.dtype != VTB_F32) return NULL;
  for (int i = 0; i < inst->n_operands; i++)
    if (inst->operands[i]->type.dtype != VTB_F32 || !vtb__splat(inst->operands[i], &x[i]))
      return NULL;
  double value = vtb_scalar_eval(inst->op, x);
  return isfinite(value) ? vtb_b_splat(b, value, &inst->results[0]->type) : NULL;
}

static vtb_inst *made_by(const vtb_value *v, vtb_op op) {
  return v->def && v->def->op == op ? v->def : NULL;
}

/* The operand of v's definition if that is a plain `op`. */
static vtb_value *under(const vtb_value *v, vtb_op op) {
  return made_by(v, op) ? v->def->operands[0] : NULL;
}

static vtb_value *simplify_unary(vtb_builder *b, vtb_inst *inst) {
  (void)b;
  vtb_value *x = inst->operands[0], *y;
  switch (inst->op) {
  case VTB_OP_neg:
    return under(x, VTB_OP_neg);
  case VTB_OP_abs:
    if (under(x, VTB_OP_abs)) return x;
    if ((y = under(x, VTB_OP_neg))) vtb_inst_set_operand(inst, 0, y);
    return NULL;
  case VTB_OP_square:
    if ((y = under(x, VTB_OP_neg)) || (y = under(x, VTB_OP_abs))) vtb_inst_set_operand(inst, 0, y);
    return NULL;
  case VTB_OP_relu:
    return under(x, VTB_OP_relu) ? x : NULL;
  case VTB_OP_cast:
    return vtb_type_equal(&x->type, &inst->results[0]->type) ? x : NULL;
  default:
    return NULL;
  }
}

/* (x op c1) op c2 with constants: x op (c1 op c2), when that leaves the shape alone. */
static vtb_value *join_constants(vtb_builder *b, vtb_inst *inst, vtb_value *x, double c2) {
  if (!x->def || x->def->op != inst->op) return NULL;
  for (int side = 0; side < 2; side++) {
    double c1;
    vtb_value *inner = x->def->operands[1 - side];
    if (!vtb__splat(x->def->operands[side], &c1) ||
        !vtb_type_equal(&inner->type, &inst->results[0]->type))
      continue;
    double c = inst->op == VTB_OP_mul ? c1 * c2 : c1 + c2;
    if (!isfinite(c) || (c == 0 && inst->op == VTB_OP_mul)) return NULL;
    return vtb_b_binary(b, inst->op, inner, vtb_b_constant(b, c));
  }
  return NULL;
}

/* Sums and products, of operands in any order. */
static vtb_value *simplify_commuting(vtb_builder *b, vtb_inst *inst) {
  vtb_type *t = &inst->results[0]->type;
  bool sum = inst->op == VTB_OP_add;
  for (int side = 0; side < 2; side++) {
    vtb_value *x = inst->operands[side], *y = inst->operands[1 - side], *z;
    double c;
    if (vtb__splat(y, &c)) {
      if (c == (sum ? 0 : 1)) return vtb_b_stretched(b, x, t);
      if (!sum && c == -1 && vtb_type_equal(&x->type, t)) return vtb_b_unary(b, VTB_OP_neg, x);
      if (x->type.dtype == VTB_F32 && (z = join_constants(b, inst, x, c))) return z;
    }
    if (sum && (z = under(y, VTB_OP_neg))) return vtb_b_binary(b, VTB_OP_sub, x, z);
  }
  return NULL;
}

static vtb_value *simplify_sub(vtb_builder *b, vtb_inst *inst) {
  vtb_value *x = inst->operands[0], *y = inst->operands[1], *z;
  if (vtb__is_constant(y, 0)) return vtb_b_stretched(b, x, &inst->results[0]->type);
  if (vtb__is_constant(x, 0) && vtb_type_equal(&y->type, &inst->results[0]->type))
    return vtb_b_unary(b, VTB_OP_neg, y);
  if ((z = under(y, VTB_OP_neg))) return vtb_b_binary(b, VTB_OP_add, x, z);
  return NULL;
}

static vtb_value *simplify_div(vtb_builder *b, vtb_inst *inst) {
  vtb_value *x = inst->operands[0];
  double c;
  if (x->type.dtype != VTB_F32 || !vtb__splat(inst->operands[1], &c)) return NULL;
  if (c == 1) return vtb_b_stretched(b, x, &inst->results[0]->type);
  double r = 1 / c;
  /* A float32 quotient must stay a normal number either way round. */
  if (!isfinite(r) || fabs(r) < 1e-30 || fabs(r) > 1e30) return NULL;
  vtb_type *t = &inst->results[0]->type;
  vtb_value *by =
      vtb_type_equal(&inst->operands[1]->type, t) ? vtb_b_splat(b, r, t) : vtb_b_constant(b, r);
  return vtb_b_stretched(b, vtb_b_binary(b, VTB_OP_mul, x, by), t);
}

static vtb_value *simplify_select(vtb_builder *b, vtb_inst *inst) {
  vtb_type *t = &inst->results[0]->type;
  double c;
  if (inst->operands[1] == inst->operands[2]) return vtb_b_stretched(b, inst->operands[1], t);
  if (!vtb__splat(inst->operands[0], &c)) return NULL;
  return vtb_b_stretched(b, inst->operands[c != 0 ? 1 : 2], t);
}

static vtb_value *simplify_pow(vtb_builder *b, vtb_inst *inst) {
  vtb_value *x = inst->operands[0];
  if (!vtb_type_equal(&x->type, &inst->results[0]->type)) return NULL;
  if (vtb__is_constant(inst->operands[1], 1)) return x;
  if (vtb__is_constant(inst->operands[1], 2)) return vtb_b_unary(b, VTB_OP_square, x);
  return NULL;
}

/* Operands that broadcasting inside the op stretches just as well: broadcast(x), and reshapes that
 * only add leading ones. */
static void drop_operand_broadcasts(vtb_inst *inst) {
  for (int i = 0; i < inst->n_operands; i++) {
    const vtb_inst *d = inst->operands[i]->def;
    if (!d || (d->op != VTB_OP_broadcast && d->op != VTB_OP_reshape)) continue;
    vtb_value *x = d->operands[0];
    int extra = inst->operands[i]->type.rank - x->type.rank;
    bool ok = extra >= 0;
    for (int a = 0; ok && d->op == VTB_OP_reshape && a < inst->operands[i]->type.rank; a++)
      ok = inst->operands[i]->type.dim[a].size == (a < extra ? 1 : x->type.dim[a - extra].size);
    vtb_type t = x->type;
    for (int j = 0; ok && j < inst->n_operands; j++) {
      vtb_type joined;
      if (j == i) continue;
      ok = vtb_type_broadcast(&t, &inst->operands[j]->type, &joined);
      t = joined;
    }
    if (ok && vtb_type_equal(&t, &inst->results[0]->type)) vtb_inst_set_operand(inst, i, x);
  }
}

/* ---- moves, sums --------------------------------------------------------------------------- */

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

/* A constant is the same on all ranks. */
static vtb_value *simplify_sum_ranks(vtb_builder *b, vtb_inst *inst) {
  double value;
  if (inst->n_operands > 1 || !vtb__splat(inst->operands[0], &value)) return NULL;
  return vtb_b_splat(b, value * (double)vtb_attr_int(inst, "ranks", 1), &inst->results[0]->type);
}

static vtb_value *simplify_shift(vtb_builder *b, vtb_inst *inst) {
  (void)b;
  return vtb_attr_int(inst, "by", 0) == 0 ? inst->operands[0] : NULL;
}

/* ---- the rules ------------------------------------------------------------------------------- */

typedef vtb_value *(*rule)(vtb_builder *b, vtb_inst *inst);
static const rule rules[VTB_OP_COUNT] = {[VTB_OP_neg] = simplify_unary,
                                         [VTB_OP_abs] = simplify_unary,
                                         [VTB_OP_square] = simplify_unary,
                                         [VTB_OP_relu] = simplify_unary,
                                         [VTB_OP_cast] = simplify_unary,
                                         [VTB_OP_add] = simplify_commuting,
                                         [VTB_OP_mul] = simplify_commuting,
                                         [VTB_OP_sub] = simplify_sub,
                                         [VTB_OP_div] = simplify_div,
                                         [VTB_OP_pow] = simplify_pow,
                                         [VTB_OP_select] = simplify_select,
                                         [VTB_OP_sum_ranks] = simplify_sum_ranks,
                                         [VTB_OP_reshape] = simplify_spread,
                                         [VTB_OP_broadcast] = simplify_spread,
                                         [VTB_OP_transpose] = simplify_transpose,
                                         [VTB_OP_slice] = simplify_slice,
                                         [VTB_OP_concat] = simplify_concat,
                                         [VTB_OP_reduce_sum] = simplify_reduce,
                                         [VTB_OP_reduce_max] = simplify_reduce,
                                         [VTB_OP_permute] = simplify_permute,
                                         [VTB_OP_shift] = simplify_shift};

/* Elements are where they were. */
static bool keeps_order(const vtb_inst *inst) {
  bool in_order = vtb_is_view(inst->op) ? inst->op != VTB_OP_transpose : inst->op == VTB_OP_pad;
  return in_order && vtb_type_equal(&inst->operands[0]->type, &inst->results[0]->type);
}

static vtb_value *simplify_inst(vtb_builder *b, vtb_inst *inst) {
  if (inst->n_results != 1) return NULL;
  if (keeps_order(inst)) return inst->operands[0];
  if (vtb_op_get(inst->op)->klass == VTB_CLASS_ELEMENTWISE) {
    drop_operand_broadcasts(inst);
    vtb_value *v = fold_constants(b, inst);
    if (v) return v;
  }
  if (rules[inst->op]) return rules[inst->op](b, inst);
  if (identity_path(vtb_attr_str(inst, "path", NULL))) vtb_attr_remove(inst, "path");
  return NULL;
}

static bool simplify_once(vtb_func *f) {
  bool changed = false;
  VTB__EACH_INST(f, inst, next) {
    vtb_builder b = vtb__before(inst);
    int fresh = f->n_values;
    vtb_value *v = simplify_inst(&b, inst);
    if (!v) continue;
    changed = true;
    vtb_check(vtb_type_equal(&v->type, &inst->results[0]->type), "%s %%%s changes its type",
              vtb_op_get(inst->op)->name, inst->results[0]->name);
    if (v->id >= fresh) vtb__swap_names(v, inst->results[0]); /* dumps keep the user's names */
    vtb_replace_all(inst->results[0], v);
    vtb_inst_unlink(inst);
  }
  return changed;
}

void vtb__change_simplify(vtb_pass_context *c) {
  for (vtb_func *f = c->module->first; f; f = f->next) {
    int rounds = 0;
    while (simplify_once(f) && rounds++ < 8) continue;
    vtb__dce_func(f);
  }
}

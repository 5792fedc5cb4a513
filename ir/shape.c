/* Shape rules: dispatch from the op table, checks common to all ops, and the rules of elementwise
 * ops and calls. */
#include "ir/internal.h"
#include "ir/ops.h"
#include "ir/kernels.h"
#include "ir/scalar.h"

#include <inttypes.h>

static const vtb__shape_fn rules[] = {
#define VTB_OP(name, klass, min, max, shape, ...) vtb__shape_##shape,
#include "ir/ops.def"
#undef VTB_OP
};

/* Rules see operands as they are computed with. */
static void widen_operands(vtb__shape *s) {
  const vtb_inst *inst = s->inst;
  s->wide = VTB_NEW_ARRAY(&s->scratch, vtb_type, inst->n_operands + 1);
  for (int i = 0; i < inst->n_operands; i++) {
    s->wide[i] = inst->operands[i]->type;
    s->wide[i].dtype = VTB_F32;
  }
}

/* How results are stored is up to the maker of the instruction, except of calls: the callee has
 * stored them. */
static void store_results(vtb__shape *s) {
  for (size_t i = 0; i < s->results.n && (int)i < s->n_given; i++)
    if (s->results.at[i].dtype == VTB_F32 && vtb_is_half(s->given[i].dtype))
      s->results.at[i].dtype = s->given[i].dtype;
}

static const char *op_name(const vtb__shape *s) { return vtb_op_get(s->inst->op)->name; }

/* ---- common checks --------------------------------------------------------------------------- */

static bool check_attr(vtb__shape *s, const vtb_attr *a) {
  vtb__attr_spec spec;
  if (!vtb__attr_spec_find(s->inst->op, a->key, &spec))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s has no attribute %s", op_name(s), a->key);
  if (a->kind != spec.kind)
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s: attribute %s is of the wrong kind", op_name(s),
                           a->key);
  if (vtb_streq(a->key, "precision") && !vtb_is_factors(a->s))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s: no factors are rounded to \"%s\"", op_name(s),
                           a->s);
  if ((a->kind == VTB_ATTR_INT && (a->i > VTB__MAX_DIM || a->i < -VTB__MAX_DIM)))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s: attribute %s = %" PRId64 " is too large",
                           op_name(s), a->key, a->i);
  for (int i = 0; a->kind == VTB_ATTR_INTS && i < a->n; i++)
    if (a->ints[i] > VTB__MAX_DIM || a->ints[i] < -VTB__MAX_DIM)
      return vtb__shape_fail(s, VTB_DIAG_IR_ATTR,
                             "%s: attribute %s holds %" PRId64 ", which is too large", op_name(s),
                             a->key, a->ints[i]);
  return true;
}

static bool check_attrs(vtb__shape *s) {
  for (int i = 0; i < s->inst->n_attrs; i++)
    if (!check_attr(s, &s->inst->attrs[i])) return false;
  vtb__attr_spec spec;
  for (const char *p = vtb_op_get(s->inst->op)->attrs; (p = vtb__attr_spec_next(p, &spec));)
    if (!spec.optional && !vtb_attr_find(s->inst, spec.key))
      return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s lacks attribute %s", op_name(s), spec.key);
  return true;
}

static bool check_operands(vtb__shape *s) {
  const vtb_op_info *info = vtb_op_get(s->inst->op);
  int n = s->inst->n_operands;
  if (n < info->min_operands || (info->max_operands >= 0 && n > info->max_operands))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s with %d operands", info->name, n);
  vtb_op op = s->inst->op;
  bool takes_callee = op == VTB_OP_call || op == VTB_OP_fused || op == VTB_OP_recurrence ||
                      op == VTB_OP_fold || op == VTB_OP_tangent || op == VTB_OP_update;
  if (takes_callee == (s->inst->callee != NULL)) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_CALL,
                         takes_callee ? "%s lacks a function" : "%s takes no function", info->name);
}

static bool check_size(vtb__shape *s, const vtb_type *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) {
    int64_t size = t->dim[i].size;
    if (size == 0)
      return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "%s: the result %s has no elements", op_name(s),
                             vtb__shape_text(s, t));
    size = vtb_bound_size(size, 1);
    if (size > VTB__MAX_DIM || (n *= size) > VTB__MAX_COUNT)
      return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "%s: the result %s is too large", op_name(s),
                             vtb__shape_text(s, t));
  }
  return true;
}

bool vtb__shape_infer(vtb__shape *s, const vtb_inst *inst, const vtb_type *given, int n_given) {
  *s = (vtb__shape){.inst = inst, .given = given, .n_given = n_given};
  vtb_arena_init(&s->scratch);
  if (!check_operands(s) || !check_attrs(s)) return false;
  widen_operands(s);
  if (!rules[inst->op](s)) return false;
  if (inst->op != VTB_OP_call) store_results(s);
  for (size_t i = 0; i < s->results.n; i++)
    if (!check_size(s, &s->results.at[i])) return false;
  return true;
}

void vtb__shape_free(vtb__shape *s) {
  vtb_vec_free(&s->results);
  vtb_free(s->text);
  s->text = NULL;
  vtb_arena_free(&s->scratch);
}

/* ---- given, elementwise ---------------------------------------------------------------------- */

bool vtb__shape_given(vtb__shape *s) {
  if (s->n_given != 1)
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s needs one given result type", op_name(s));
  const vtb_type *t = &s->given[0];
  const vtb_attr *data = vtb_attr_find(s->inst, "data");
  if (data && (vtb_type_is_dynamic(t) || !check_size(s, t) || vtb_type_count(t) != data->n))
    return vtb__shape_fail(s, VTB_DIAG_IR_COUNT, "constant: %d numbers for %s", data->n,
                           vtb__shape_text(s, t));
  if (s->inst->op == VTB_OP_constant && (data != NULL) == (vtb_attr_find(s->inst, "value") != NULL))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "constant needs either value or data");
  if (s->inst->op == VTB_OP_iota && !vtb__shape_axis(s, t, vtb_attr_int(s->inst, "axis", 0)))
    return false;
  if (s->inst->op == VTB_OP_random) {
    for (int o = 0; o < s->inst->n_operands; o++) {
      const vtb_type *x = vtb__shape_operand(s, o);
      if (x->dtype == VTB_I32 && vtb_type_count(x) == 1 && !vtb_type_is_dynamic(x)) continue;
      return vtb__shape_fail(s, VTB_DIAG_IR_DTYPE, "random: %s is an i32 scalar, not %s",
                             o ? "the first index" : "the seed", vtb__shape_text(s, x));
    }
  }
  vtb__shape_push(s, *t);
  return true;
}

static const char *axis_label(vtb__shape *s, const vtb_dim *a, const vtb_dim *b, int from_last) {
  if (a->name || b->name) return a->name ? a->name : b->name;
  return vtb_arena_printf(&s->scratch, "%d from the last", from_last);
}

static bool broadcast_fail(vtb__shape *s, const vtb_type *a, const vtb_type *b) {
  for (int k = 1; k <= a->rank && k <= b->rank; k++) {
    const vtb_dim *da = &a->dim[a->rank - k], *db = &b->dim[b->rank - k];
    if (da->size == db->size || da->size == 1 || db->size == 1) continue;
    const char *ta = vtb__shape_text(s, a), *tb = vtb__shape_text(s, b),
               *axis = axis_label(s, da, db, k - 1);
    if (vtb_is_batch(da->size) || vtb_is_batch(db->size))
      return vtb__shape_fail(
          s, VTB_DIAG_IR_BROADCAST,
          "%s: shapes %s and %s do not broadcast: the batch axis %s meets %" PRId64, op_name(s), ta,
          tb, axis, vtb_is_batch(da->size) ? db->size : da->size);
    return vtb__shape_fail(s, VTB_DIAG_IR_BROADCAST,
                           "%s: shapes %s and %s do not broadcast: axis %s is %" PRId64
                           " and %" PRId64,
                           op_name(s), ta, tb, axis, da->size, db->size);
  }
  vtb_bug("shapes broadcast after all");
}

static bool elementwise_dtype(vtb__shape *s, vtb_dtype *out) {
  vtb_op op = s->inst->op;
  int first = op == VTB_OP_select ? 1 : 0; /* the condition may be of either type */
  const vtb_type *a = vtb__shape_operand(s, first);
  for (int i = first + 1; i < s->inst->n_operands; i++)
    if (vtb__shape_operand(s, i)->dtype != a->dtype)
      return vtb__shape_fail(s, VTB_DIAG_IR_DTYPE, "%s of %s and %s: element types differ",
                             op_name(s), vtb__shape_text(s, a),
                             vtb__shape_text(s, vtb__shape_operand(s, i)));
  if (a->dtype == VTB_I32 && !vtb_scalar_get(op)->ints) return vtb__shape_f32(s);
  *out = op == VTB_OP_gt || op == VTB_OP_ge || op == VTB_OP_eq ? VTB_F32 : a->dtype;
  return true;
}

bool vtb__shape_broadcast(vtb__shape *s) {
  vtb_type t = *vtb__shape_operand(s, 0);
  vtb_dtype dtype = VTB_F32;
  if (!elementwise_dtype(s, &dtype)) return false;
  for (int i = 1; i < s->inst->n_operands; i++)
    if (!vtb_type_broadcast(&t, vtb__shape_operand(s, i), &t))
      return broadcast_fail(s, &t, vtb__shape_operand(s, i));
  t.dtype = dtype;
  vtb__shape_push(s, t);
  return true;
}

bool vtb__shape_cast(vtb__shape *s) {
  const char *to = vtb_attr_str(s->inst, "to", "");
  vtb_type t = *vtb__shape_operand(s, 0);
  if (!vtb_dtype_find(to, &t.dtype))
    return vtb__shape_fail(s, VTB_DIAG_IR_DTYPE,
                           "cast to \"%s\"; element types are \"f32\", \"i32\", \"bf16\" and "
                           "\"f16\"",
                           to);
  vtb__shape_push(s, t);
  return true;
}

/* ---- control --------------------------------------------------------------------------------- */

/* Functions take places in memory as they are, kernels read what is in them. */
static const vtb_type *called_with(const vtb__shape *s, int i) {
  return s->inst->op == VTB_OP_call ? &s->inst->operands[i]->type : vtb__shape_operand(s, i);
}

bool vtb__shape_call(vtb__shape *s) {
  const char *kind = vtb_attr_str(s->inst, "kind", NULL);
  vtb_kernel_kind known;
  if (kind && !vtb_kernel_kind_find(kind, &known))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s: no kernel is of kind \"%s\"", op_name(s),
                           kind);
  const vtb_func *f = s->inst->callee;
  if (f->n_args != s->inst->n_operands)
    return vtb__shape_fail(s, VTB_DIAG_IR_CALL, "@%s takes %d arguments, not %d", f->name,
                           f->n_args, s->inst->n_operands);
  for (int i = 0; i < f->n_args; i++)
    if (!vtb_type_equal(&f->args[i]->type, called_with(s, i)))
      return vtb__shape_fail(s, VTB_DIAG_IR_CALL, "@%s takes %s as %s, not %s", f->name,
                             vtb__shape_text(s, &f->args[i]->type), f->args[i]->name,
                             vtb__shape_text(s, vtb__shape_operand(s, i)));
  for (int i = 0; i < f->n_returns; i++) vtb__shape_push(s, f->returns[i]->type);
  return true;
}

/* Arguments, then tangents of some, which are of their types. */
bool vtb__shape_tangent(vtb__shape *s) {
  const vtb_func *f = s->inst->callee;
  int n, last = -1;
  const int64_t *wrt = vtb_attr_ints(s->inst, "wrt", &n);
  if (n < 1 || f->n_args + n != s->inst->n_operands)
    return vtb__shape_fail(s, VTB_DIAG_IR_CALL,
                           "tangent @%s: %d operands are not %d arguments and %d tangents", f->name,
                           s->inst->n_operands, f->n_args, n);
  for (int i = 0; i < n; i++) {
    if (wrt[i] <= last || wrt[i] >= f->n_args || f->args[wrt[i]]->type.dtype != VTB_F32)
      return vtb__shape_fail(s, VTB_DIAG_IR_CALL,
                             "tangent @%s: argument %" PRId64 " has no tangent here", f->name,
                             wrt[i]);
    last = (int)wrt[i];
  }
  for (int i = 0; i < f->n_args + n; i++) {
    const vtb_value *arg = f->args[i < f->n_args ? i : (int)wrt[i - f->n_args]];
    if (!vtb_type_equal(&arg->type, vtb__shape_operand(s, i)))
      return vtb__shape_fail(s, VTB_DIAG_IR_CALL, "tangent @%s takes %s as %s, not %s", f->name,
                             vtb__shape_text(s, &arg->type), arg->name,
                             vtb__shape_text(s, vtb__shape_operand(s, i)));
  }
  for (int i = 0; i < f->n_returns; i++) vtb__shape_push(s, f->returns[i]->type);
  for (int i = 0; i < f->n_returns; i++)
    if (f->returns[i]->type.dtype == VTB_F32) vtb__shape_push(s, f->returns[i]->type);
  return true;
}

bool vtb__shape_sum_ranks(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  int64_t ranks = vtb_attr_int(s->inst, "ranks", 0);
  if (ranks < 1) return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "sum_ranks: ranks is at least 1");
  for (int a = 0; a < x->rank; a++) {
    if (!vtb_is_batch(x->dim[a].size) || vtb_batches(x->dim[a].size) % ranks == 0) continue;
    return vtb__shape_fail(s, VTB_DIAG_IR_DTYPE,
                           "sum_ranks: %s is shared out, and has no sum over ranks",
                           vtb__shape_text(s, x));
  }
  const vtb_type *when = vtb__shape_operand(s, s->inst->n_operands - 1);
  if (s->inst->n_operands > 1 && vtb_type_count(when) != 1)
    return vtb__shape_fail(s, VTB_DIAG_IR_DTYPE, "sum_ranks: operand 2 is a scalar, not %s",
                           vtb__shape_text(s, when));
  vtb__shape_push(s, *x);
  return vtb__shape_f32(s);
}

bool vtb__shape_tap(vtb__shape *s) {
  vtb__shape_push(s, *vtb__shape_operand(s, 0));
  return true;
}

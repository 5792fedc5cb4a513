/* The builder: instructions with types from the shape rules, and short forms for the common ops. */
#include "ir/internal.h"
#include "ir/ops.h"

vtb_inst *vtb__inst_new(vtb_func *f, vtb_op op, vtb_func *callee, vtb_value *const *operands, int n,
                        const vtb_attr *attrs, int n_attrs, vtb_span span) {
  vtb_module *m = f->module;
  vtb_inst *inst = VTB_NEW(&m->arena, vtb_inst);
  inst->op = op;
  inst->callee = callee;
  inst->func = f;
  inst->span = span;
  inst->n_operands = n;
  inst->operands = VTB_NEW_ARRAY(&m->arena, vtb_value *, n);
  for (int i = 0; i < n; i++) vtb_inst_set_operand(inst, i, operands[i]);
  inst->n_attrs = n_attrs;
  inst->attrs = VTB_NEW_ARRAY(&m->arena, vtb_attr, n_attrs);
  for (int i = 0; i < n_attrs; i++) inst->attrs[i] = vtb__attr_copy(m, attrs[i]);
  if (op == VTB_OP_einsum) vtb__product_read(inst);
  return inst;
}

static vtb_inst *refuse(vtb_builder *b, vtb__shape *s) {
  if (!b->diags) vtb_bug("@%s: %s", b->func->name, s->text);
  vtb_diag_error(b->diags, s->code, b->span, "%s", s->text);
  vtb__shape_free(s);
  return NULL;
}

/* Sizes come from the rule, axis names from the given types where there are some. */
vtb_type vtb__type_with_names(vtb_type t, const vtb_type *named) {
  if (named && vtb_type_equal(&t, named))
    for (int i = 0; i < t.rank; i++)
      if (named->dim[i].name) t.dim[i].name = named->dim[i].name;
  return t;
}

/* "layer.proj_up" -> "proj_up", "blocks.0" -> "blocks.0": from the last part that is no number. */
const char *vtb_scope_end(const char *scope) {
  const char *end = scope;
  for (const char *p = scope; *p; p++)
    if (*p == '.' && !(p[1] >= '0' && p[1] <= '9')) end = p + 1;
  return end;
}

/* Ops whose result is their operand in another form. */
static bool keeps_value(vtb_op op) {
  return op == VTB_OP_reshape || op == VTB_OP_broadcast || op == VTB_OP_transpose ||
         op == VTB_OP_permute || op == VTB_OP_cast;
}

/* The name of a value that nobody named: where it is and what made it, "proj_up.einsum"; after the
 * operand if it is the same value. */
static const char *default_name(const vtb_builder *b, vtb_op op, const vtb_func *callee,
                                vtb_value *const *operands, char *buf, size_t n) {
  if (keeps_value(op) && operands[0]) return operands[0]->name;
  const char *what = callee ? callee->name : op == VTB_OP_constant ? "const" : vtb_op_get(op)->name;
  if (!b->span.scope || !*b->span.scope) return what;
  snprintf(buf, n, "%s.%s", vtb_scope_end(b->span.scope), what);
  return buf;
}

static vtb_inst *build(vtb_builder *b, vtb_op op, vtb_func *callee, vtb_value *const *operands,
                       int n, const vtb_attr *attrs, int n_attrs, const vtb_type *types,
                       int n_types) {
  char unnamed[256];
  if (!b) return NULL;
  const char *hint = b->name_hint;
  b->name_hint = NULL;
  if (!hint) hint = default_name(b, op, callee, operands, unnamed, sizeof unnamed);
  for (int i = 0; i < n; i++) {
    if (!operands[i]) return NULL;
    vtb_check(operands[i]->func == b->func, "%s in @%s: operand %%%s belongs to @%s",
              vtb_op_get(op)->name, b->func->name, operands[i]->name, operands[i]->func->name);
  }
  vtb_inst *inst = vtb__inst_new(b->func, op, callee, operands, n, attrs, n_attrs, b->span);
  vtb__shape s;
  if (!vtb__shape_infer(&s, inst, types, n_types)) return refuse(b, &s);
  inst->n_results = (int)s.results.n;
  inst->results = VTB_NEW_ARRAY(&b->func->module->arena, vtb_value *, s.results.n);
  for (int i = 0; i < inst->n_results; i++) {
    vtb_type t = vtb__type_with_names(s.results.at[i], i < n_types ? &types[i] : NULL);
    inst->results[i] = vtb__value_new(b->func, hint, &t, inst, i);
  }
  vtb__shape_free(&s);
  vtb__inst_link(b->func, inst, b->before);
  return inst;
}

vtb_inst *vtb_build(vtb_builder *b, vtb_op op, vtb_value *const *operands, int n,
                    const vtb_attr *attrs, int n_attrs) {
  return build(b, op, NULL, operands, n, attrs, n_attrs, NULL, 0);
}

vtb_inst *vtb_build_typed(vtb_builder *b, vtb_op op, vtb_value *const *operands, int n,
                          const vtb_attr *attrs, int n_attrs, const vtb_type *types,
                          int n_results) {
  return build(b, op, NULL, operands, n, attrs, n_attrs, types, n_results);
}

vtb_inst *vtb_build_call(vtb_builder *b, vtb_op op, vtb_func *callee, vtb_value *const *operands,
                         int n, const vtb_attr *attrs, int n_attrs) {
  return build(b, op, callee, operands, n, attrs, n_attrs, NULL, 0);
}

/* ---- one result ------------------------------------------------------------------------------ */

static vtb_value *first(vtb_inst *inst) { return inst ? inst->results[0] : NULL; }

vtb_value *vtb_b_op(vtb_builder *b, vtb_op op, vtb_value *const *operands, int n,
                    const vtb_attr *attrs, int n_attrs) {
  return first(vtb_build(b, op, operands, n, attrs, n_attrs));
}

vtb_value *vtb_b_data(vtb_builder *b, const double *data, const vtb_type *type) {
  vtb_attr attr = VTB_A_FLOATS("data", data, (int)vtb_type_count(type));
  return first(vtb_build_typed(b, VTB_OP_constant, NULL, 0, &attr, 1, type, 1));
}

vtb_value *vtb_b_splat(vtb_builder *b, double value, const vtb_type *type) {
  vtb_attr attr = VTB_A_FLOAT("value", value);
  return first(vtb_build_typed(b, VTB_OP_constant, NULL, 0, &attr, 1, type, 1));
}

vtb_value *vtb_b_constant(vtb_builder *b, double value) {
  vtb_type scalar = vtb_type_scalar();
  return vtb_b_splat(b, value, &scalar);
}

vtb_value *vtb_b_unary(vtb_builder *b, vtb_op op, vtb_value *x) {
  return first(vtb_build(b, op, &x, 1, NULL, 0));
}

vtb_value *vtb_b_binary(vtb_builder *b, vtb_op op, vtb_value *x, vtb_value *y) {
  return first(vtb_build(b, op, (vtb_value *[]){x, y}, 2, NULL, 0));
}

vtb_value *vtb_b_select(vtb_builder *b, vtb_value *cond, vtb_value *x, vtb_value *y) {
  return first(vtb_build(b, VTB_OP_select, (vtb_value *[]){cond, x, y}, 3, NULL, 0));
}

vtb_value *vtb_b_reduce(vtb_builder *b, vtb_op op, vtb_value *x, const int64_t *axes, int n_axes,
                        bool keep) {
  vtb_attr attrs[] = {VTB_A_INTS("axes", axes, n_axes), VTB_A_INT("keep", 1)};
  return first(vtb_build(b, op, &x, 1, attrs, keep ? 2 : 1));
}

/* For ops whose attribute `shape` is the wanted type: names come from it too. */
static vtb_value *to_shape(vtb_builder *b, vtb_op op, vtb_value *x, const vtb_type *shape) {
  if (!x) return vtb_b_unary(b, op, x); /* consumes the name hint */
  int64_t sizes[VTB_MAX_RANK];
  for (int i = 0; i < shape->rank; i++) sizes[i] = shape->dim[i].size;
  vtb_type named = *shape;
  named.dtype = x->type.dtype;
  vtb_attr attr = VTB_A_INTS("shape", sizes, shape->rank);
  return first(build(b, op, NULL, &x, 1, &attr, 1, &named, 1));
}

vtb_value *vtb_b_reshape(vtb_builder *b, vtb_value *x, const vtb_type *shape) {
  return to_shape(b, VTB_OP_reshape, x, shape);
}

vtb_value *vtb_b_broadcast(vtb_builder *b, vtb_value *x, const vtb_type *shape) {
  return to_shape(b, VTB_OP_broadcast, x, shape);
}

vtb_value *vtb_b_shaped(vtb_builder *b, vtb_value *x, const vtb_type *shape) {
  return vtb_type_equal(&x->type, shape) ? x : vtb_b_reshape(b, x, shape);
}

vtb_value *vtb_b_stretched(vtb_builder *b, vtb_value *x, const vtb_type *shape) {
  return vtb_type_equal(&x->type, shape) ? x : vtb_b_broadcast(b, x, shape);
}

vtb_value *vtb_b_cast(vtb_builder *b, vtb_value *x, vtb_dtype to) {
  vtb_attr attr = VTB_A_STR("to", vtb_dtype_name(to));
  return first(vtb_build(b, VTB_OP_cast, &x, 1, &attr, 1));
}

vtb_value *vtb_b_iota(vtb_builder *b, int axis, const vtb_type *type) {
  vtb_attr attr = VTB_A_INT("axis", axis);
  return first(vtb_build_typed(b, VTB_OP_iota, NULL, 0, &attr, 1, type, 1));
}

vtb_value *vtb_b_transpose(vtb_builder *b, vtb_value *x, const int64_t *perm) {
  vtb_attr attr = VTB_A_INTS("perm", perm, x ? x->type.rank : 0);
  return first(vtb_build(b, VTB_OP_transpose, &x, 1, &attr, 1));
}

vtb_value *vtb_b_slice(vtb_builder *b, vtb_value *x, int axis, int64_t start, int64_t limit,
                       int64_t step) {
  vtb_attr attrs[] = {VTB_A_INT("axis", axis), VTB_A_INT("start", start), VTB_A_INT("limit", limit),
                      VTB_A_INT("step", step)};
  return first(vtb_build(b, VTB_OP_slice, &x, 1, attrs, step == 1 ? 3 : 4));
}

vtb_value *vtb_b_concat(vtb_builder *b, vtb_value *const *xs, int n, int axis) {
  vtb_attr attr = VTB_A_INT("axis", axis);
  return first(vtb_build(b, VTB_OP_concat, xs, n, &attr, 1));
}

vtb_value *vtb_b_gather(vtb_builder *b, vtb_value *x, vtb_value *indices, int axis) {
  vtb_attr attr = VTB_A_INT("axis", axis);
  return first(vtb_build(b, VTB_OP_gather, (vtb_value *[]){x, indices}, 2, &attr, 1));
}

vtb_value *vtb_b_permute(vtb_builder *b, vtb_value *x, int axis, const char *path, bool inverse) {
  vtb_attr attrs[] = {VTB_A_INT("axis", axis), VTB_A_STR("path", path), VTB_A_INT("inverse", 1)};
  return first(vtb_build(b, VTB_OP_permute, &x, 1, attrs, inverse ? 3 : 2));
}

vtb_inst *vtb_b_call(vtb_builder *b, vtb_func *callee, vtb_value *const *operands, int n) {
  return vtb_build_call(b, VTB_OP_call, callee, operands, n, NULL, 0);
}

/* One sum over all stretched axes, then a reshape if size-1 axes remain beside dropped ones. */
vtb_value *vtb_b_reduce_to(vtb_builder *b, vtb_value *x, const vtb_type *shape) {
  if (!b || !x) return vtb_b_unary(b, VTB_OP_neg, x);
  int64_t axes[VTB_MAX_RANK];
  int n = 0, lead = x->type.rank - shape->rank;
  vtb_check(lead >= 0, "reduce_to: %%%s has a lower rank than the shape asked for", x->name);
  for (int i = 0; i < lead; i++) axes[n++] = i;
  for (int i = 0; i < shape->rank; i++)
    if (shape->dim[i].size == 1 && x->type.dim[lead + i].size != 1) axes[n++] = lead + i;
  if (n == 0) {
    b->name_hint = NULL;
    return x;
  }
  if (lead == 0) return vtb_b_reduce(b, VTB_OP_reduce_sum, x, axes, n, true);
  const char *hint = b->name_hint;
  if (n == lead) return vtb_b_reduce(b, VTB_OP_reduce_sum, x, axes, n, false);
  b->name_hint = NULL;
  vtb_value *sum = vtb_b_reduce(b, VTB_OP_reduce_sum, x, axes, n, false);
  b->name_hint = hint;
  return vtb_b_reshape(b, sum, shape);
}

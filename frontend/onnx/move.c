/* Constants, casts, reductions and ops that move elements. */
#include "frontend/onnx/internal.h"
#include "ir/ops.h"

static ox_type result_type(const vtb_inst *inst) { return vtb__ox_type(&inst->results[0]->type); }

static ox_value *expanded(ox *x, ox_value *a, const ox_type *t) {
  return vtb__ox_expand(x, a, t->rank, t->dim);
}

/* Numbers of the element type, n of them, from doubles. */
static void *numbers(ox *x, ox_elem e, const double *from, int64_t n) {
  void *out = VTB_NEW_ARRAY(&x->arena, double, n + 1);
  for (int64_t i = 0; i < n; i++)
    if (e == OX_I32)
      ((int32_t *)out)[i] = (int32_t)from[i];
    else
      ((float *)out)[i] = (float)from[i];
  return out;
}

void vtb__ox_constant(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  (void)in;
  ox_type t = result_type(inst);
  const vtb_attr *data = vtb_attr_find(inst, "data");
  if (data)
    out[0] = vtb__ox_data(x, &t, numbers(x, t.elem, data->floats, data->n));
  else
    out[0] = expanded(x, vtb__ox_number_of(x, t.elem, vtb_attr_float(inst, "value", 0)), &t);
}

void vtb__ox_iota(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  (void)in;
  ox_type t = result_type(inst), line = {.elem = t.elem, .rank = t.rank};
  int64_t axis = vtb_attr_int(inst, "axis", 0), n = t.dim[axis];
  vtb_check(n != VTB_DYN, "onnx: an index along the batch");
  double *at = VTB_NEW_ARRAY(&x->arena, double, n);
  for (int64_t i = 0; i < n; i++) at[i] = (double)i;
  for (int i = 0; i < t.rank; i++) line.dim[i] = i == axis ? n : 1;
  out[0] = expanded(x, vtb__ox_data(x, &line, numbers(x, t.elem, at, n)), &t);
}

void vtb__ox_op_cast(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  out[0] = vtb__ox_cast(x, in[0], result_type(inst).elem);
}

void vtb__ox_op_reduce(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  int n;
  const int64_t *axes = vtb_attr_ints(inst, "axes", &n);
  const char *op = inst->op == VTB_OP_reduce_max ? "ReduceMax" : "ReduceSum";
  out[0] = vtb__ox_reduce(x, op, in[0], axes, n, vtb_attr_int(inst, "keep", 0) != 0);
}

void vtb__ox_op_reshape(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  ox_type t = result_type(inst);
  out[0] = vtb__ox_reshape(x, in[0], t.rank, t.dim);
}

void vtb__ox_op_broadcast(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  ox_type t = result_type(inst);
  out[0] = expanded(x, in[0], &t);
}

void vtb__ox_op_transpose(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  int n;
  out[0] = vtb__ox_transpose(x, in[0], vtb_attr_ints(inst, "perm", &n));
}

void vtb__ox_op_slice(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  out[0] =
      vtb__ox_slice(x, in[0], (int)vtb_attr_int(inst, "axis", 0), vtb_attr_int(inst, "start", 0),
                    vtb_attr_int(inst, "limit", 0), vtb_attr_int(inst, "step", 1));
}

/* Each element with step - 1 zeros behind it, but the last. */
static ox_value *spread(ox *x, ox_value *a, int axis, int64_t step) {
  ox_type t = a->type;
  int64_t n = t.dim[axis];
  if (step == 1 || n == 1) return a;
  for (int i = t.rank++; i > axis + 1; i--) t.dim[i] = t.dim[i - 1];
  t.dim[axis + 1] = 1;
  a = vtb__ox_pad(x, vtb__ox_reshape(x, a, t.rank, t.dim), axis + 1, 0, step - 1, 0);
  t.dim[axis] *= step;
  for (int i = axis + 1; i + 1 < t.rank; i++) t.dim[i] = t.dim[i + 1];
  t.rank--;
  return vtb__ox_slice(x, vtb__ox_reshape(x, a, t.rank, t.dim), axis, 0, (n - 1) * step + 1, 1);
}

void vtb__ox_op_pad(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  ox_value *a = spread(x, in[0], axis, vtb_attr_int(inst, "step", 1));
  out[0] = vtb__ox_pad(x, a, axis, vtb_attr_int(inst, "low", 0), vtb_attr_int(inst, "high", 0), 0);
}

void vtb__ox_op_concat(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  out[0] = vtb__ox_concat(x, in, inst->n_operands, (int)vtb_attr_int(inst, "axis", 0));
}

void vtb__ox_permute(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  out[0] = vtb__ox_along(x, inst, in[0], (int)vtb_attr_int(inst, "axis", 0),
                         vtb_attr_int(inst, "inverse", 0) != 0);
}

/* One more element behind the axis, which steps without a predecessor read; then a Gather. */
void vtb__ox_op_shift(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  ox_type t = in[0]->type;
  int64_t n = t.dim[axis], by = vtb_attr_int(inst, "by", 0), *perm = vtb__ox_perm(x, inst, n);
  int64_t *from = VTB_NEW_ARRAY(&x->arena, int64_t, n);
  for (int64_t s = 0; s < n; s++) from[perm[s]] = s - by >= 0 && s - by < n ? perm[s - by] : n;
  ox_value *wide;
  if (inst->n_operands == 2) {
    t.dim[axis] = 1;
    wide = vtb__ox_concat(x, (ox_value *const[]){in[0], vtb__ox_reshape(x, in[1], t.rank, t.dim)},
                          2, axis);
  } else {
    wide = vtb__ox_pad(x, in[0], axis, 0, 1, vtb_attr_float(inst, "fill", 0));
  }
  out[0] = vtb__ox_gather(x, wide, axis, vtb__ox_ints(x, (int)n, from));
}

/* Indices outside read place 0, and zeros take what they read. */
void vtb__ox_op_gather(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  ox_type t = result_type(inst), mask = {.elem = OX_BOOL, .rank = t.rank}, one = {.elem = OX_I64};
  int64_t size = in[0]->type.dim[axis], picks = in[1]->type.rank, zero = 0;
  ox_value *n = size == VTB_DYN ? x->batch : vtb__ox_data(x, &one, &size),
           *none = vtb__ox_data(x, &one, &zero), *at = vtb__ox_cast(x, in[1], OX_I64);
  ox_value *inside = vtb__ox_compare(x, "And", vtb__ox_compare(x, "GreaterOrEqual", at, none),
                                     vtb__ox_compare(x, "Less", at, n));
  at = vtb__ox_unsqueeze(x, vtb__ox_where(x, inside, at, none), (int)picks);
  const vtb_attr common = VTB_A_INT("batch_dims", axis);
  ox_value *rows = vtb__ox_one(x, "GatherND", t, &common, 1, OX_IN(in[0], at));
  for (int a = 0; a < t.rank; a++) mask.dim[a] = a < picks ? t.dim[a] : 1;
  inside = vtb__ox_reshape(x, inside, mask.rank, mask.dim);
  out[0] = vtb__ox_where(x, inside, rows, vtb__ox_number_of(x, t.elem, 0));
}

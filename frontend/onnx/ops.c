/* Nodes with the types of what they compute. */
#include "frontend/onnx/internal.h"
#include "ir/path.h"

#include <string.h>

static ox_type broadcast(const ox_type *a, const ox_type *b) {
  ox_type t = a->rank >= b->rank ? *a : *b;
  const ox_type *less = a->rank >= b->rank ? b : a;
  int lead = t.rank - less->rank;
  for (int i = 0; i < less->rank; i++) {
    int64_t *to = &t.dim[lead + i], with = less->dim[i];
    vtb_check(*to == with || *to == 1 || with == 1, "onnx: axes of %lld and %lld", (long long)*to,
              (long long)with);
    if (*to == 1) *to = with;
  }
  return t;
}

ox_value *vtb__ox_unary(ox *x, const char *op, ox_value *a) {
  return vtb__ox_one(x, op, a->type, NULL, 0, OX_IN(a));
}

ox_value *vtb__ox_binary(ox *x, const char *op, ox_value *a, ox_value *b) {
  ox_type t = broadcast(&a->type, &b->type);
  t.elem = a->type.elem;
  return vtb__ox_one(x, op, t, NULL, 0, OX_IN(a, b));
}

ox_value *vtb__ox_compare(ox *x, const char *op, ox_value *a, ox_value *b) {
  ox_type t = broadcast(&a->type, &b->type);
  t.elem = OX_BOOL;
  return vtb__ox_one(x, op, t, NULL, 0, OX_IN(a, b));
}

ox_value *vtb__ox_where(ox *x, ox_value *c, ox_value *a, ox_value *b) {
  ox_type ab = broadcast(&a->type, &b->type), t = broadcast(&c->type, &ab);
  t.elem = a->type.elem;
  return vtb__ox_one(x, "Where", t, NULL, 0, OX_IN(c, a, b));
}

ox_value *vtb__ox_cast(ox *x, ox_value *a, ox_elem to) {
  ox_type t = a->type;
  if (t.elem == to) return a;
  t.elem = to;
  return vtb__ox_one(x, "Cast", t, (const vtb_attr[]){VTB_A_INT("to", to)}, 1, OX_IN(a));
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool same_shape(const ox_type *t, int rank, const int64_t *dim) {
  bool same = t->rank == rank;
  for (int i = 0; same && i < rank; i++) same = t->dim[i] == dim[i];
  return same;
}

ox_value *vtb__ox_reshape(ox *x, ox_value *a, int rank, const int64_t *dim) {
  ox_type t = vtb__ox_shape(a->type.elem, rank, dim);
  if (same_shape(&a->type, rank, dim)) return a;
  vtb_check(vtb__ox_count(&t) == vtb__ox_count(&a->type), "onnx: a reshape changes the count");
  return vtb__ox_one(x, "Reshape", t, NULL, 0, OX_IN(a, vtb__ox_ints(x, rank, dim)));
}

ox_value *vtb__ox_transpose(ox *x, ox_value *a, const int64_t *perm) {
  ox_type t = a->type;
  bool same = true;
  for (int i = 0; i < t.rank; i++) t.dim[i] = a->type.dim[perm[i]], same &= perm[i] == i;
  if (same) return a;
  return vtb__ox_one(x, "Transpose", t, (const vtb_attr[]){VTB_A_INTS("perm", perm, t.rank)}, 1,
                     OX_IN(a));
}

ox_value *vtb__ox_unsqueeze(ox *x, ox_value *a, int at) {
  ox_type t = a->type;
  for (int i = t.rank++; i > at; i--) t.dim[i] = t.dim[i - 1];
  t.dim[at] = 1;
  return vtb__ox_reshape(x, a, t.rank, t.dim);
}

ox_value *vtb__ox_squeeze(ox *x, ox_value *a, int at) {
  ox_type t = a->type;
  for (int i = at; i + 1 < t.rank; i++) t.dim[i] = t.dim[i + 1];
  return vtb__ox_reshape(x, a, t.rank - 1, t.dim);
}

/* A shape as a value; the batch in it is known when the file runs. */
static ox_value *shape_of(ox *x, int rank, const int64_t *dim) {
  ox_value *parts[3] = {0};
  int at = 0, n = 0;
  while (at < rank && dim[at] != VTB_DYN) at++;
  if (at == rank) return vtb__ox_ints(x, rank, dim);
  vtb_check(x->batch != NULL, "onnx: a symbolic batch without an input that has it");
  if (at > 0) parts[n++] = vtb__ox_ints(x, at, dim);
  parts[n++] = x->batch;
  if (at + 1 < rank) parts[n++] = vtb__ox_ints(x, rank - at - 1, dim + at + 1);
  return n == 1 ? parts[0] : vtb__ox_concat(x, parts, n, 0);
}

ox_value *vtb__ox_expand(ox *x, ox_value *a, int rank, const int64_t *dim) {
  ox_type t = vtb__ox_shape(a->type.elem, rank, dim);
  if (same_shape(&a->type, rank, dim)) return a;
  return vtb__ox_one(x, "Expand", t, NULL, 0, OX_IN(a, shape_of(x, rank, dim)));
}

ox_value *vtb__ox_slice(ox *x, ox_value *a, int axis, int64_t start, int64_t limit, int64_t step) {
  ox_type t = a->type;
  int64_t size = t.dim[axis], at = axis;
  if (start == 0 && limit == size && step == 1) return a;
  t.dim[axis] = (limit - start + step - 1) / step;
  return vtb__ox_one(x, "Slice", t, NULL, 0,
                     OX_IN(a, vtb__ox_ints(x, 1, &start), vtb__ox_ints(x, 1, &limit),
                           vtb__ox_ints(x, 1, &at), vtb__ox_ints(x, 1, &step)));
}

ox_value *vtb__ox_pad(ox *x, ox_value *a, int axis, int64_t low, int64_t high, double with) {
  ox_type t = a->type;
  int64_t pads[2 * OX_MAX_RANK] = {0};
  if (!low && !high) return a;
  pads[axis] = low, pads[t.rank + axis] = high;
  t.dim[axis] += low + high;
  return vtb__ox_one(
      x, "Pad", t, NULL, 0,
      OX_IN(a, vtb__ox_ints(x, 2 * t.rank, pads), vtb__ox_number_of(x, t.elem, with)));
}

ox_value *vtb__ox_concat(ox *x, ox_value *const *in, int n, int axis) {
  ox_type t = in[0]->type;
  if (n == 1) return in[0];
  for (int i = 1; i < n; i++) t.dim[axis] += in[i]->type.dim[axis];
  return vtb__ox_one(x, "Concat", t, (const vtb_attr[]){VTB_A_INT("axis", axis)}, 1, in, n);
}

ox_value *vtb__ox_gather(ox *x, ox_value *a, int axis, ox_value *indices) {
  ox_type t = {.elem = a->type.elem};
  for (int i = 0; i < axis; i++) t.dim[t.rank++] = a->type.dim[i];
  for (int i = 0; i < indices->type.rank; i++) t.dim[t.rank++] = indices->type.dim[i];
  for (int i = axis + 1; i < a->type.rank; i++) t.dim[t.rank++] = a->type.dim[i];
  return vtb__ox_one(x, "Gather", t, (const vtb_attr[]){VTB_A_INT("axis", axis)}, 1,
                     OX_IN(a, indices));
}

ox_value *vtb__ox_shift(ox *x, ox_value *a, int axis, int64_t by, double with) {
  int64_t n = a->type.dim[axis];
  if (by > 0) return vtb__ox_pad(x, vtb__ox_slice(x, a, axis, 0, n - by, 1), axis, by, 0, with);
  return vtb__ox_pad(x, vtb__ox_slice(x, a, axis, -by, n, 1), axis, 0, -by, with);
}

/* ---- sums and products ----------------------------------------------------------------------- */

/* The axes of ReduceSum are an operand, those of other reductions an attribute. */
ox_value *vtb__ox_reduce(ox *x, const char *op, ox_value *a, const int64_t *axes, int n,
                         bool keep) {
  ox_type t = {.elem = a->type.elem};
  bool sum = strcmp(op, "ReduceSum") == 0, gone[OX_MAX_RANK] = {0};
  for (int i = 0; i < n; i++) gone[axes[i]] = true;
  for (int i = 0; i < a->type.rank; i++)
    if (keep || !gone[i]) t.dim[t.rank++] = gone[i] ? 1 : a->type.dim[i];
  if (n == 0) return a;
  const vtb_attr attrs[] = {VTB_A_INT("keepdims", keep), VTB_A_INTS("axes", axes, n)};
  if (sum) return vtb__ox_one(x, op, t, attrs, 1, OX_IN(a, vtb__ox_ints(x, n, axes)));
  return vtb__ox_one(x, op, t, attrs, 2, OX_IN(a));
}

ox_value *vtb__ox_matmul(ox *x, ox_value *a, ox_value *b) {
  ox_type ta = a->type, tb = b->type;
  int64_t rows = ta.dim[ta.rank - 2], cols = tb.dim[tb.rank - 1];
  vtb_check(ta.dim[ta.rank - 1] == tb.dim[tb.rank - 2], "onnx: a product of %lld and %lld",
            (long long)ta.dim[ta.rank - 1], (long long)tb.dim[tb.rank - 2]);
  ta.rank -= 2, tb.rank -= 2;
  ox_type t = broadcast(&ta, &tb);
  t.dim[t.rank++] = rows;
  t.dim[t.rank++] = cols;
  return vtb__ox_one(x, "MatMul", t, NULL, 0, OX_IN(a, b));
}

/* ---- paths ----------------------------------------------------------------------------------- */

int64_t *vtb__ox_perm(ox *x, const vtb_inst *inst, int64_t n) {
  int64_t *perm = VTB_NEW_ARRAY(&x->arena, int64_t, n);
  const char *text = vtb_attr_str(inst, "path", NULL);
  vtb_path path;
  vtb_error err = {0};
  for (int64_t t = 0; t < n; t++) perm[t] = t;
  if (!text) return perm;
  if (vtb_path_parse(text, &path, &err) != VTB_OK) vtb_bug("path '%s': %s", text, err.text);
  vtb_check(path.n == n, "path '%s' on %lld tokens", text, (long long)n);
  vtb_path_indices(&path, perm);
  vtb_path_free(&path);
  return perm;
}

ox_value *vtb__ox_along(ox *x, const vtb_inst *inst, ox_value *a, int axis, bool back) {
  int64_t n = a->type.dim[axis], *perm = vtb__ox_perm(x, inst, n);
  int64_t *at = VTB_NEW_ARRAY(&x->arena, int64_t, n);
  bool same = true;
  for (int64_t t = 0; t < n; t++) at[back ? perm[t] : t] = back ? t : perm[t];
  for (int64_t t = 0; t < n; t++) same &= at[t] == t;
  return same ? a : vtb__ox_gather(x, a, axis, vtb__ox_ints(x, (int)n, at));
}

/* Shape rules of reductions and of ops that move elements. */
#include "ir/internal.h"
#include "ir/ops.h"

#include <float.h>
#include <inttypes.h>

static const char *op_name(const vtb__shape *s) { return vtb_op_get(s->inst->op)->name; }

/* Sums of ranges of the leading axes: a part an entry of a new first axis. */
static bool leading_parts(vtb__shape *s, const int64_t *axes, int n, int64_t parts, vtb_type *t) {
  for (int i = 0; i < n; i++)
    if (axes[i] != i || vtb_attr_int(s->inst, "keep", 0))
      return vtb__shape_fail(s, VTB_DIAG_IR_AXIS, "%s: parts are of the leading axes, not kept",
                             op_name(s));
  if (parts < 1 || s->inst->op != VTB_OP_reduce_sum)
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "%s: %" PRId64 " parts", op_name(s), parts);
  t->dim[t->rank++] = vtb__dim(parts, NULL);
  return true;
}

bool vtb__shape_reduce(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  int n;
  const int64_t *axes = vtb_attr_ints(s->inst, "axes", &n);
  bool drop[VTB_MAX_RANK] = {0}, keep = vtb_attr_int(s->inst, "keep", 0) != 0;
  if (!vtb__shape_f32(s)) return false;
  for (int i = 0; i < n; i++) {
    if (!vtb__shape_axis(s, x, axes[i])) return false;
    if (drop[axes[i]])
      return vtb__shape_fail(s, VTB_DIAG_IR_AXIS, "%s: axis %" PRId64 " named twice", op_name(s),
                             axes[i]);
    drop[axes[i]] = true;
  }
  vtb_type t = {.dtype = x->dtype};
  int64_t parts = vtb_attr_int(s->inst, "parts", 0);
  if (parts && !leading_parts(s, axes, n, parts, &t)) return false;
  for (int i = 0; i < x->rank; i++) {
    if (!drop[i])
      t.dim[t.rank++] = x->dim[i];
    else if (keep)
      t.dim[t.rank++] = vtb__dim(1, NULL);
  }
  vtb__shape_push(s, t);
  return true;
}

/* ---- reshape, broadcast, transpose ----------------------------------------------------------- */

/* The type of attribute `shape`. */
static bool wanted_shape(vtb__shape *s, vtb_type *t) {
  int n;
  const int64_t *sizes = vtb_attr_ints(s->inst, "shape", &n);
  if (n > VTB_MAX_RANK)
    return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "%s to %d axes; at most %d", op_name(s), n,
                           VTB_MAX_RANK);
  *t = (vtb_type){.dtype = vtb__shape_operand(s, 0)->dtype, .rank = n};
  int64_t count = 1;
  for (int i = 0; i < n; i++) {
    if (sizes[i] == 0 || sizes[i] < -VTB__MAX_DIM)
      return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "%s to an axis of size %" PRId64, op_name(s),
                             sizes[i]);
    if ((count *= vtb_bound_size(sizes[i], 1)) > VTB__MAX_COUNT)
      return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "%s to a shape that is too large", op_name(s));
    t->dim[i].size = sizes[i];
  }
  return true;
}

/* Equal leading and trailing axes keep their names; what is between was regrouped. */
static void keep_names(const vtb_type *x, vtb_type *t) {
  int lead = 0;
  while (lead < x->rank && lead < t->rank && x->dim[lead].size == t->dim[lead].size) {
    t->dim[lead].name = x->dim[lead].name;
    lead++;
  }
  for (int k = 1; k <= x->rank - lead && k <= t->rank - lead; k++) {
    if (x->dim[x->rank - k].size != t->dim[t->rank - k].size) break;
    t->dim[t->rank - k].name = x->dim[x->rank - k].name;
  }
}

static bool several_batches(const vtb_type *t) {
  for (int a = 0; a < t->rank; a++)
    if (vtb_batches(t->dim[a].size) > 1) return true;
  return false;
}

/* Several batches are one behind the other, wherever they are taken apart. */
static bool same_batches(const vtb_type *x, const vtb_type *y) {
  if (vtb_type_batch_axes(x) != vtb_type_batch_axes(y)) return false;
  if (!several_batches(x) && !several_batches(y)) return true;
  return vtb_type_same_samples(x, y);
}

bool vtb__shape_reshape(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  vtb_type t;
  if (!wanted_shape(s, &t)) return false;
  keep_names(x, &t);
  if (!same_batches(x, &t) || vtb_type_count(x) != vtb_type_count(&t))
    return vtb__shape_fail(s, VTB_DIAG_IR_COUNT,
                           "reshape of %s to %s: %" PRId64 "%s elements to %" PRId64 "%s",
                           vtb__shape_text(s, x), vtb__shape_text(s, &t), vtb_type_count(x),
                           vtb_type_is_dynamic(x) ? " x batch" : "", vtb_type_count(&t),
                           vtb_type_is_dynamic(&t) ? " x batch" : "");
  vtb__shape_push(s, t);
  return true;
}

bool vtb__shape_expand(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  vtb_type t, both;
  if (!wanted_shape(s, &t)) return false;
  if (!vtb_type_broadcast(x, &t, &both) || !vtb_type_equal(&both, &t))
    return vtb__shape_fail(s, VTB_DIAG_IR_BROADCAST, "%s does not broadcast to %s",
                           vtb__shape_text(s, x), vtb__shape_text(s, &t));
  vtb__shape_push(s, both);
  return true;
}

bool vtb__shape_transpose(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  const int64_t *perm = vtb__shape_list(s, "perm", x->rank);
  if (!perm) return false;
  bool seen[VTB_MAX_RANK] = {0};
  vtb_type t = {.dtype = x->dtype, .rank = x->rank};
  for (int i = 0; i < x->rank; i++) {
    if (!vtb__shape_axis(s, x, perm[i])) return false;
    if (seen[perm[i]])
      return vtb__shape_fail(s, VTB_DIAG_IR_AXIS, "transpose: axis %" PRId64 " named twice",
                             perm[i]);
    seen[perm[i]] = true;
    t.dim[i] = x->dim[perm[i]];
  }
  vtb__shape_push(s, t);
  return true;
}

/* ---- along one axis -------------------------------------------------------------------------- */

/* The attribute `axis` if it names an axis of known size, else -1 and a failure. */
static int sized_axis(vtb__shape *s, const vtb_type *x) {
  int64_t axis = vtb_attr_int(s->inst, "axis", 0);
  if (!vtb__shape_axis(s, x, axis)) return -1;
  if (!vtb_is_batch(x->dim[axis].size)) return (int)axis;
  vtb__shape_fail(s, VTB_DIAG_IR_AXIS, "%s along the batch axis of %s", op_name(s),
                  vtb__shape_text(s, x));
  return -1;
}

bool vtb__shape_slice(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  int axis = sized_axis(s, x);
  if (axis < 0) return false;
  int64_t start = vtb_attr_int(s->inst, "start", 0), limit = vtb_attr_int(s->inst, "limit", 0);
  int64_t step = vtb_attr_int(s->inst, "step", 1), size = x->dim[axis].size;
  if (step < 1 || start < 0 || start >= limit || limit > size)
    return vtb__shape_fail(s, VTB_DIAG_IR_JOIN,
                           "slice %" PRId64 ":%" PRId64 ":%" PRId64
                           " of axis %d of %s: want 0 <= start < limit <= %" PRId64
                           " and step >= 1",
                           start, limit, step, axis, vtb__shape_text(s, x), size);
  vtb_type t = *x;
  int64_t n = (limit - start + step - 1) / step;
  t.dim[axis] = vtb__dim(n, n == size ? x->dim[axis].name : NULL);
  vtb__shape_push(s, t);
  return true;
}

bool vtb__shape_pad(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  int axis = sized_axis(s, x);
  if (axis < 0) return false;
  int64_t low = vtb_attr_int(s->inst, "low", 0), high = vtb_attr_int(s->inst, "high", 0);
  int64_t step = vtb_attr_int(s->inst, "step", 1), size = x->dim[axis].size;
  if (low < 0 || high < 0 || step < 1)
    return vtb__shape_fail(s, VTB_DIAG_IR_JOIN,
                           "pad by %" PRId64 " and %" PRId64 " with step %" PRId64
                           ": want 0, 0 and 1 at least",
                           low, high, step);
  vtb_type t = *x;
  t.dim[axis] = vtb__dim(low + (size - 1) * step + 1 + high, NULL);
  vtb__shape_push(s, t);
  return true;
}

static bool joins(const vtb_type *a, const vtb_type *b, int axis) {
  if (a->rank != b->rank || a->dtype != b->dtype) return false;
  for (int i = 0; i < a->rank; i++)
    if (i != axis && a->dim[i].size != b->dim[i].size) return false;
  return !vtb_is_batch(b->dim[axis].size);
}

bool vtb__shape_concat(vtb__shape *s) {
  vtb_type t = *vtb__shape_operand(s, 0);
  int axis = sized_axis(s, &t);
  if (axis < 0) return false;
  for (int i = 1; i < s->inst->n_operands; i++) {
    const vtb_type *x = vtb__shape_operand(s, i);
    if (!joins(vtb__shape_operand(s, 0), x, axis))
      return vtb__shape_fail(s, VTB_DIAG_IR_JOIN,
                             "concat along axis %d: %s and %s differ elsewhere", axis,
                             vtb__shape_text(s, vtb__shape_operand(s, 0)), vtb__shape_text(s, x));
    t.dim[axis].size += x->dim[axis].size;
    if (t.dim[axis].size > VTB__MAX_DIM)
      return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "concat: the result is too large");
    for (int k = 0; k < t.rank; k++)
      if (!t.dim[k].name) t.dim[k].name = x->dim[k].name;
  }
  if (s->inst->n_operands > 1) t.dim[axis].name = NULL;
  vtb__shape_push(s, t);
  return true;
}

bool vtb__shape_permute(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  int axis = sized_axis(s, x);
  if (axis < 0 || !vtb__shape_path(s, x->dim[axis].size)) return false;
  vtb__shape_push(s, *x);
  return true;
}

bool vtb__shape_shift(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  int axis = sized_axis(s, x);
  if (axis < 0 || !vtb__shape_path(s, x->dim[axis].size)) return false;
  int64_t by = vtb_attr_int(s->inst, "by", 0);
  if (s->inst->n_operands == 2) {
    const vtb_type *fill = vtb__shape_operand(s, 1);
    vtb_type want = vtb_type_without_axis(x, axis);
    if (!vtb_type_equal(&want, fill))
      return vtb__shape_fail(s, VTB_DIAG_IR_JOIN, "shift of %s: the entering step is %s, not %s",
                             vtb__shape_text(s, x), vtb__shape_text(s, &want),
                             vtb__shape_text(s, fill));
    if (by != 1 && by != -1)
      return vtb__shape_fail(s, VTB_DIAG_IR_JOIN, "shift by %" PRId64 " with one entering step",
                             by);
    if (vtb_attr_find(s->inst, "fill"))
      return vtb__shape_fail(s, VTB_DIAG_IR_ATTR,
                             "shift with both an entering step and a fill value");
  }
  vtb__shape_push(s, *x);
  return true;
}

/* Sums along the batch have no path: in what order its samples stand is known, not their number. */
bool vtb__shape_prefix_sum(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0);
  int64_t axis = vtb_attr_int(s->inst, "axis", 0);
  if (!vtb__shape_axis(s, x, axis) || !vtb__shape_f32(s)) return false;
  if (!vtb__shape_path(s, x->dim[axis].size)) return false;
  const vtb_attr *wrap = vtb_attr_find(s->inst, "wrap");
  if (wrap && !(wrap->f > 0 && wrap->f <= DBL_MAX))
    return vtb__shape_fail(s, VTB_DIAG_IR_ATTR, "prefix_sum: wrap is %g, not a positive number",
                           wrap->f);
  vtb__shape_push(s, *x);
  return true;
}

/* ---- places that indices name ---------------------------------------------------------------- */

/* Numbers of 32 bits, whose first `axis` axes are those of the indices. */
static bool common_axes(vtb__shape *s, int64_t axis) {
  const vtb_type *x = vtb__shape_operand(s, 0), *i = vtb__shape_operand(s, 1);
  bool common = i->dtype == VTB_I32 && axis <= i->rank && (int)vtb_dtype_bytes(x->dtype) == 4;
  for (int a = 0; common && a < axis; a++) common = x->dim[a].size == i->dim[a].size;
  if (common) return true;
  return vtb__shape_fail(s, VTB_DIAG_IR_JOIN, "%s along axis %" PRId64 " of %s: the indices are %s",
                         op_name(s), axis, vtb__shape_text(s, x), vtb__shape_text(s, i));
}

/* `n` axes of t behind those that are there. */
static bool put_axes(vtb__shape *s, vtb_type *to, const vtb_type *t, int from, int n) {
  if (to->rank + n > VTB_MAX_RANK)
    return vtb__shape_fail(s, VTB_DIAG_IR_SIZE, "%s of %s by %s: more than %d axes", op_name(s),
                           vtb__shape_text(s, vtb__shape_operand(s, 0)),
                           vtb__shape_text(s, vtb__shape_operand(s, 1)), VTB_MAX_RANK);
  for (int a = 0; a < n; a++) to->dim[to->rank++] = t->dim[from + a];
  return true;
}

bool vtb__shape_gather(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0), *i = vtb__shape_operand(s, 1);
  int64_t axis = vtb_attr_int(s->inst, "axis", 0);
  vtb_type t = {.dtype = x->dtype};
  if (!vtb__shape_axis(s, x, axis) || !common_axes(s, axis) || !put_axes(s, &t, i, 0, i->rank) ||
      !put_axes(s, &t, x, (int)axis + 1, x->rank - (int)axis - 1))
    return false;
  vtb__shape_push(s, t);
  return true;
}

bool vtb__shape_scatter_sum(vtb__shape *s) {
  const vtb_type *x = vtb__shape_operand(s, 0), *i = vtb__shape_operand(s, 1);
  int64_t axis = vtb_attr_int(s->inst, "axis", 0), size = vtb_attr_int(s->inst, "size", 0);
  vtb_type t = {.dtype = x->dtype}, along = {.dim = {vtb__dim(size, NULL)}};
  bool good = axis >= 0 && size != 0 && vtb_bound_size(size, 1) <= VTB__MAX_DIM &&
              x->dtype == VTB_F32 && x->rank >= i->rank;
  for (int a = 0; good && a < i->rank; a++) good = x->dim[a].size == i->dim[a].size;
  if (!good)
    return vtb__shape_fail(s, VTB_DIAG_IR_JOIN,
                           "scatter_sum of %s by %s along axis %" PRId64 " of size %" PRId64,
                           vtb__shape_text(s, x), vtb__shape_text(s, i), axis, size);
  if (!common_axes(s, axis) || !put_axes(s, &t, x, 0, (int)axis) ||
      !put_axes(s, &t, &along, 0, 1) || !put_axes(s, &t, x, i->rank, x->rank - i->rank))
    return false;
  vtb__shape_push(s, t);
  return true;
}

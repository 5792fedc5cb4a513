/* Elements of tensors that a checkpoint describes by storage, offset and strides. */
#include "runtime/weights/checkpoint.h"

#include <string.h>

/* Axes of more than one element, the shortest stride first; their count. */
static int sorted_axes(const py_tensor *t, int *axis) {
  int n = 0;
  for (int i = 0; i < t->rank; i++) {
    if (t->dim[i] == 1) continue;
    int k = n++;
    for (; k > 0 && t->stride[axis[k - 1]] > t->stride[i]; k--) axis[k] = axis[k - 1];
    axis[k] = i;
  }
  return n;
}

/* No two elements are one: each stride steps over all that the shorter ones reach. */
static bool is_apart(const py_tensor *t) {
  int axis[VTB_WEIGHT_MAX_RANK], n = sorted_axes(t, axis);
  int64_t reach = 0;
  for (int k = 0; k < n; k++) {
    if (t->stride[axis[k]] <= reach) return false;
    reach += (t->dim[axis[k]] - 1) * t->stride[axis[k]];
  }
  return true;
}

static bool is_row_major(const py_tensor *t) {
  int64_t step = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (t->dim[i] != 1 && t->stride[i] != step) return false;
    step *= t->dim[i];
  }
  return true;
}

/* -1: more than can be counted. */
static int64_t count(const py_tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++)
    if (__builtin_mul_overflow(n, t->dim[i], &n)) return -1;
  return n;
}

/* Elements from the first to behind the last. */
static int64_t reach(const py_tensor *t) {
  int64_t last = 0;
  for (int i = 0; i < t->rank; i++) last += (t->dim[i] - 1) * t->stride[i];
  return last + 1;
}

/* Copies in row-major order, the last axis innermost. */
static void copy_strided(const py_tensor *t, const unsigned char *from, unsigned char *to) {
  size_t size = (size_t)t->dtype->bytes;
  int64_t at[VTB_WEIGHT_MAX_RANK] = {0}, place = 0;
  for (int64_t n = count(t); n > 0; n--, to += size) {
    memcpy(to, from + (size_t)place * size, size);
    for (int i = t->rank - 1; i >= 0; i--) {
      place += t->stride[i];
      if (++at[i] < t->dim[i]) break;
      place -= t->dim[i] * t->stride[i];
      at[i] = 0;
    }
  }
}

/* ---- one tensor ------------------------------------------------------------------------------ */

static vtb_status check_tensor(vtb_checkpoint *c, const char *name, const py_tensor *t) {
  if (!t->dtype || t->dtype->elem < 0 || !t->storage)
    return vtb_fail(c->err, VTB_E_INPUT,
                    "%s: tensor %s has elements of type %s, which are not read", c->path, name,
                    t->dtype ? t->dtype->name : "unknown");
  if (count(t) < 0)
    return vtb_fail(c->err, VTB_E_INPUT, "%s: tensor %s: its shape overflows", c->path, name);
  if (!count(t)) return VTB_OK;
  if (!is_apart(t))
    return vtb_fail(c->err, VTB_E_INPUT,
                    "%s: tensor %s is a view whose elements overlap: save it as a copy "
                    "(.contiguous())",
                    c->path, name);
  c->total += (uint64_t)count(t) * (uint64_t)t->dtype->bytes;
  if (c->total > c->most_total)
    return vtb_fail(
        c->err, VTB_E_INPUT,
        "%s: damaged, or no file of weights: its tensors would take %llu MB, which a file of "
        "this size cannot mean",
        c->path, (unsigned long long)(c->total >> 20));
  return VTB_OK;
}

/* The part of the storage that the tensor looks at. */
static void want(const py_tensor *t) {
  int64_t from = t->offset * t->dtype->bytes, to = from + reach(t) * t->dtype->bytes;
  py_storage *s = t->storage;
  bool first = s->from == s->to;
  if (first || from < s->from) s->from = from;
  if (first || to > s->to) s->to = to;
}

static vtb_status add_copy(vtb_checkpoint *c, const char *name, const py_tensor *t,
                           const unsigned char *from) {
  uint64_t bytes = (uint64_t)count(t) * (uint64_t)t->dtype->bytes;
  if (bytes > c->budget)
    return vtb_fail(c->err, VTB_E_INPUT, "%s: copies of its tensors take far more than the file",
                    c->path);
  c->budget -= bytes;
  vtb_weight *w = vtb_weights_add(c->w, name, (vtb_elem)t->dtype->elem, t->rank, t->dim);
  if (w) copy_strided(t, from, w->data);
  return VTB_OK;
}

static vtb_status add_tensor(vtb_checkpoint *c, const char *name, const py_tensor *t) {
  py_storage *s = t->storage;
  if (!count(t)) {
    (void)vtb_weights_add(c->w, name, (vtb_elem)t->dtype->elem, t->rank, t->dim);
    return VTB_OK;
  }
  if (!s->data) VTB_TRY(c->load(c, s));
  const unsigned char *from = s->data + (t->offset * t->dtype->bytes - s->from);
  if (s->passing || !is_row_major(t)) return add_copy(c, name, t, from);
  (void)vtb_weights_borrow(c->w, name, (vtb_elem)t->dtype->elem, t->rank, t->dim, from);
  return VTB_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static vtb_status take_name(vtb_checkpoint *c, const py_value *v, char **out) {
  if (!vtb__good_name(v->text.at, v->text.n))
    return vtb_fail(c->err, VTB_E_INPUT, "%s: the name of a tensor is no readable text", c->path);
  *out = vtb_py_string(&c->machine, v->text.at, v->text.n);
  return *out ? VTB_OK : c->err->status;
}

vtb_status vtb__checkpoint_add(vtb_checkpoint *c, const vtb_named *at, size_t n) {
  vtb_status status = VTB_OK;
  char **names = vtb_py_alloc(&c->machine, n + 1, sizeof *names);
  if (!names) return c->err->status;
  for (size_t i = 0; i < n && status == VTB_OK; i++) {
    status = take_name(c, at[i].name, &names[i]);
    if (status == VTB_OK) status = check_tensor(c, names[i], at[i].tensor);
    if (status == VTB_OK && count(at[i].tensor) && !at[i].tensor->storage->data) want(at[i].tensor);
  }
  for (size_t i = 0; i < n && status == VTB_OK; i++) status = add_tensor(c, names[i], at[i].tensor);
  if (status == VTB_OK && c->w->error.text[0])
    status = vtb_fail(c->err, c->w->error.status, "%s: %s", c->path, c->w->error.text);
  return status;
}

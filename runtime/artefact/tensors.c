/* The store of named tensors and conversion between element types. */
#include "runtime/artefact/tensors.h"

#include "runtime/base/half.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  size_t bytes;
} elems[VTB_N_ELEMS] = {
    [VTB_ELEM_F32] = {"F32", 4},   [VTB_ELEM_F64] = {"F64", 8}, [VTB_ELEM_F16] = {"F16", 2},
    [VTB_ELEM_BF16] = {"BF16", 2}, [VTB_ELEM_I64] = {"I64", 8}, [VTB_ELEM_I32] = {"I32", 4},
    [VTB_ELEM_I16] = {"I16", 2},   [VTB_ELEM_I8] = {"I8", 1},   [VTB_ELEM_U64] = {"U64", 8},
    [VTB_ELEM_U32] = {"U32", 4},   [VTB_ELEM_U16] = {"U16", 2}, [VTB_ELEM_U8] = {"U8", 1},
    [VTB_ELEM_BOOL] = {"BOOL", 1},
};

size_t vtb_elem_bytes(vtb_elem e) { return elems[e].bytes; }
const char *vtb_elem_name(vtb_elem e) { return elems[e].name; }

bool vtb_elem_parse(const char *name, vtb_elem *out) {
  for (int i = 0; i < VTB_N_ELEMS; i++)
    if (vtb_streq(elems[i].name, name)) {
      *out = (vtb_elem)i;
      return true;
    }
  return false;
}

/* ---- the store ------------------------------------------------------------------------------- */

vtb_weights *vtb_weights_new(void) { return calloc(1, sizeof(vtb_weights)); }

static void free_weight(vtb_weight *t) {
  if (t->owned) free(t->data);
  free(t->name);
  free(t);
}

void vtb_weights_free(vtb_weights *w) {
  if (!w) return;
  for (size_t i = 0; i < w->n; i++) free_weight(w->at[i]);
  free(w->at);
  for (size_t i = 0; i < w->meta.n; i++) free(w->meta.at[i].value);
  vtb_map_free(&w->meta);
  vtb_map_free(&w->index);
  while (w->holds.n--) w->holds.at[w->holds.n].release(w->holds.at[w->holds.n].what);
  free(w->holds.at);
  vtb_unmap_file(&w->file);
  free(w);
}

bool vtb_weights_keep(vtb_weights *w, void *what, void (*release)(void *what)) {
  if (vtb_vec_try_push(&w->holds, ((vtb_weights_hold){what, release}))) return true;
  release(what);
  vtb_no_memory(&w->error, "tensors");
  return false;
}

/* Elements of the shape in *count; false, and an error, if there cannot be such a tensor. */
static bool check_new(vtb_weights *w, const char *name, vtb_elem elem, int rank, const int64_t *dim,
                      int64_t *count) {
  int64_t bytes = (int64_t)vtb_elem_bytes(elem);
  bool countable = rank >= 0 && rank <= VTB_WEIGHT_MAX_RANK;
  *count = 1;
  for (int i = 0; i < rank && countable; i++)
    countable = dim[i] >= 0 && !__builtin_mul_overflow(*count, dim[i], count) &&
                !__builtin_mul_overflow(bytes, dim[i], &bytes);
  if (!countable) vtb_fail(&w->error, VTB_E_INPUT, "tensor %s is too large", name);
  bool known = vtb_map_has(&w->index, name);
  if (known) vtb_fail(&w->error, VTB_E_INPUT, "there are two tensors %s", name);
  return countable && !known;
}

/* Takes `data` if it is the store's. */
static vtb_weight *add_weight(vtb_weights *w, const char *name, vtb_elem elem, int rank,
                              const int64_t *dim, int64_t count, void *data, bool owned) {
  vtb_weight *t = data || !owned ? calloc(1, sizeof *t) : NULL;
  if (t) {
    *t = (vtb_weight){.name = strdup(name), .elem = elem, .rank = rank, .count = count};
    t->data = data;
    for (int i = 0; i < rank; i++) t->dim[i] = dim[i];
    bool listed = t->name && vtb_vec_try_push(w, t);
    if (listed && vtb_map_try_set(&w->index, name, t)) {
      t->owned = owned;
      return t;
    }
    w->n -= listed;
    free_weight(t);
  }
  if (owned) free(data);
  vtb_no_memory(&w->error, name);
  return NULL;
}

vtb_weight *vtb_weights_borrow(vtb_weights *w, const char *name, vtb_elem elem, int rank,
                               const int64_t *dim, const void *data) {
  int64_t count;
  if (!check_new(w, name, elem, rank, dim, &count)) return NULL;
  return add_weight(w, name, elem, rank, dim, count, (void *)(uintptr_t)data, false);
}

vtb_weight *vtb_weights_add(vtb_weights *w, const char *name, vtb_elem elem, int rank,
                            const int64_t *dim) {
  int64_t count;
  if (!check_new(w, name, elem, rank, dim, &count)) return NULL;
  size_t bytes = (size_t)count * vtb_elem_bytes(elem);
  void *data = vtb_aligned_alloc(bytes);
  if (data) memset(data, 0, bytes);
  return add_weight(w, name, elem, rank, dim, count, data, true);
}

vtb_weight *vtb_weights_put(vtb_weights *w, const char *name, vtb_elem elem, int rank,
                            const int64_t *dim, const void *data) {
  vtb_weight *t = vtb_weights_add(w, name, elem, rank, dim);
  if (t && t->count) memcpy(t->data, data, (size_t)t->count * vtb_elem_bytes(elem));
  return t;
}

vtb_weight *vtb_weights_find(const vtb_weights *w, const char *name) {
  return vtb_map_get(&w->index, name);
}

void vtb_weights_set_meta(vtb_weights *w, const char *key, const char *value) {
  char *copy = strdup(value), *old = vtb_map_get(&w->meta, key);
  if (copy && vtb_map_try_set(&w->meta, key, copy)) {
    free(old);
  } else {
    free(copy);
    vtb_no_memory(&w->error, key);
  }
}

const char *vtb_weights_meta(const vtb_weights *w, const char *key) {
  return vtb_map_get(&w->meta, key);
}

/* ---- conversion ------------------------------------------------------------------------------ */

/* memcpy because the bytes of a mapped file may lie at any address. */
#define READ(T, v)                                                                                 \
  T v;                                                                                             \
  memcpy(&v, p, sizeof v)

static double element_as_double(vtb_elem e, const unsigned char *p) {
  switch (e) {
  case VTB_ELEM_F32: {
    READ(float, v);
    return (double)v;
  }
  case VTB_ELEM_F64: {
    READ(double, v);
    return v;
  }
  case VTB_ELEM_F16: {
    READ(uint16_t, v);
    return (double)vtb_f16_to_f32(v);
  }
  case VTB_ELEM_BF16: {
    READ(uint16_t, v);
    return (double)vtb_bf16_to_f32(v);
  }
  case VTB_ELEM_I64: {
    READ(int64_t, v);
    return (double)v;
  }
  case VTB_ELEM_I32: {
    READ(int32_t, v);
    return v;
  }
  case VTB_ELEM_I16: {
    READ(int16_t, v);
    return v;
  }
  case VTB_ELEM_I8: {
    READ(int8_t, v);
    return v;
  }
  case VTB_ELEM_U64: {
    READ(uint64_t, v);
    return (double)v;
  }
  case VTB_ELEM_U32: {
    READ(uint32_t, v);
    return v;
  }
  case VTB_ELEM_U16: {
    READ(uint16_t, v);
    return v;
  }
  case VTB_ELEM_U8:
    return *p;
  case VTB_ELEM_BOOL:
    return *p != 0;
  case VTB_N_ELEMS:
    break;
  }
  assert(!"an element type");
  return 0;
}
#undef READ

void vtb_weight_read_f64(const vtb_weight *t, double *out) {
  size_t step = vtb_elem_bytes(t->elem);
  const unsigned char *p = t->data;
  for (int64_t i = 0; i < t->count; i++) out[i] = element_as_double(t->elem, p + (size_t)i * step);
}

void vtb_weight_read_f32(const vtb_weight *t, float *out) {
  size_t step = vtb_elem_bytes(t->elem);
  const unsigned char *p = t->data;
  if (t->elem == VTB_ELEM_F32) {
    if (t->count) memcpy(out, p, (size_t)t->count * step);
    return;
  }
  for (int64_t i = 0; i < t->count; i++)
    out[i] = (float)element_as_double(t->elem, p + (size_t)i * step);
}

vtb_status vtb_weight_read_i32(const vtb_weight *t, int32_t *out, vtb_error *err) {
  size_t step = vtb_elem_bytes(t->elem);
  const unsigned char *p = t->data;
  for (int64_t i = 0; i < t->count; i++) {
    double v = element_as_double(t->elem, p + (size_t)i * step);
    if (!(v >= INT32_MIN && v <= INT32_MAX) || v != floor(v))
      return vtb_fail(err, VTB_E_INPUT,
                      "tensor %s: element %lld is %g, which is not a 32-bit integer", t->name,
                      (long long)i, v);
    out[i] = (int32_t)v;
  }
  return VTB_OK;
}

void vtb_shape_print(vtb_strbuf *out, int rank, const int64_t *dim) {
  vtb_strbuf_putc(out, '[');
  for (int i = 0; i < rank; i++) vtb_strbuf_printf(out, "%s%lld", i ? ", " : "", (long long)dim[i]);
  vtb_strbuf_putc(out, ']');
}

/* ---- binding to a program -------------------------------------------------------------------- */

static vtb_status shape_differs(const vtb_tensor_info *t, const vtb_weight *w, vtb_error *err) {
  vtb_strbuf model = VTB_CHECKED_STRBUF, file = VTB_CHECKED_STRBUF;
  vtb_shape_print(&model, t->rank, t->dim);
  vtb_shape_print(&file, w->rank, w->dim);
  vtb_fail(err, VTB_E_INPUT, "weights: tensor %s has shape %s, the model wants %s", w->name,
           vtb_strbuf_text(&file), vtb_strbuf_text(&model));
  vtb_strbuf_free(&model);
  vtb_strbuf_free(&file);
  return VTB_E_INPUT;
}

/* A single number is [] in some files and [1] in others. */
static bool same_shape(const vtb_tensor_info *t, const vtb_weight *w) {
  if (t->rank <= 1 && w->rank <= 1 && vtb_tensor_info_count(t) == 1 && w->count == 1) return true;
  if (t->rank != w->rank) return false;
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i] != w->dim[i]) return false;
  return true;
}

static bool is_state(const vtb_tensor_info *t) {
  return t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER;
}

/* Reports `missing` absent tensors, of which `first` (full name) is the first. */
static vtb_status report_missing(const vtb_weights *w, const char *first, int missing,
                                 vtb_error *err) {
  const char **names = calloc(w->n + 1, sizeof *names), *near = NULL;
  char more[32] = "";
  for (size_t i = 0; names && i < w->n; i++) names[i] = w->at[i]->name;
  if (names) near = vtb_suggest(first, names, w->n);
  if (missing > 1) snprintf(more, sizeof more, " (and %d more)", missing - 1);
  free(names);
  return vtb_fail(err, VTB_E_INPUT, "weights: tensor %s is missing%s%s%s", first, more,
                  near ? "; the file has " : "", near ? near : "");
}

/* Fills `buffer` from the tensor of that name; *found: there is one. */
static vtb_status bind_one(const vtb_tensor_info *t, const vtb_weights *w, const char *name,
                           void *buffer, bool *found, vtb_error *err) {
  const vtb_weight *source = vtb_weights_find(w, name);
  *found = source != NULL;
  if (!source) return VTB_OK;
  if (!same_shape(t, source)) return shape_differs(t, source, err);
  if (t->is_int) return vtb_weight_read_i32(source, buffer, err);
  vtb_weight_read_f32(source, buffer);
  return VTB_OK;
}

vtb_status vtb_weights_bind(const vtb_program *p, const vtb_weights *w, const char *prefix,
                            void *const *buffers, int *n_missing, int *n_unused, vtb_error *err) {
  int missing = 0, used = 0;
  char *first_missing = NULL;
  vtb_status status = VTB_OK;
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    if (!is_state(t) || !buffers[i]) continue;
    char *name = vtb_strprintf("%s%s", prefix ? prefix : "", t->name);
    bool found = false;
    status = name ? bind_one(t, w, name, buffers[i], &found, err) : vtb_no_memory(err, t->name);
    used += found;
    missing += !found;
    if (found || first_missing)
      free(name);
    else
      first_missing = name;
  }
  if (status == VTB_OK && missing && !n_missing)
    status = report_missing(w, first_missing, missing, err);
  free(first_missing);
  if (status != VTB_OK) return status;
  if (n_missing) *n_missing = missing;
  if (n_unused) *n_unused = (int)w->n - used;
  return VTB_OK;
}

/* ---- the same in place ----------------------------------------------------------------------- */

static bool is_as_computed(const vtb_tensor_info *t, const vtb_weight *w) {
  return w->elem == (t->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32) && (uintptr_t)w->data % 4 == 0;
}

static vtb_status convert(const vtb_tensor_info *t, const vtb_weight *from, vtb_weights *made,
                          const void **at, vtb_error *err) {
  vtb_weight *to = vtb_weights_find(made, from->name);
  *at = to ? to->data : NULL;
  if (to) return VTB_OK;
  vtb_elem elem = t->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32;
  to = vtb_weights_add(made, from->name, elem, from->rank, from->dim);
  if (!to) return vtb_fail(err, made->error.status, "%s", made->error.text);
  *at = to->data;
  if (t->is_int) return vtb_weight_read_i32(from, to->data, err);
  vtb_weight_read_f32(from, to->data);
  return VTB_OK;
}

vtb_status vtb_weights_view(const vtb_program *p, const vtb_weights *w, vtb_weights *made,
                            const void **at, vtb_error *err) {
  const char *first_missing = NULL;
  int missing = 0;
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    if (!is_state(t)) continue;
    const vtb_weight *source = vtb_weights_find(w, t->name);
    vtb_status status = VTB_OK;
    if (!source && !missing++) first_missing = t->name;
    if (source && !same_shape(t, source)) return shape_differs(t, source, err);
    if (source && is_as_computed(t, source))
      at[i] = source->data;
    else if (source)
      status = convert(t, source, made, &at[i], err);
    if (status != VTB_OK) return status;
  }
  return missing ? report_missing(w, first_missing, missing, err) : VTB_OK;
}

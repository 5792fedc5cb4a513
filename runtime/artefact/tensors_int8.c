/* Matrices that files have in 8 bits, with a scale a row. */
#include <stdlib.h>
#include <string.h>

#include "runtime/artefact/tensors.h"

/* The scales of a matrix; NULL: it is none of 8 bits. */
static const vtb_weight *scales_of(const vtb_weights *w, const vtb_weight *t) {
  if (t->elem != VTB_ELEM_I8 || t->rank < 1) return NULL;
  char *name = vtb_strprintf("%s%s", t->name, VTB_WEIGHTS_SCALES);
  const vtb_weight *scales = name ? vtb_weights_find(w, name) : NULL;
  free(name);
  bool fit =
      scales && scales->elem == VTB_ELEM_F32 && scales->rank == 1 && scales->dim[0] == t->dim[0];
  return fit ? scales : NULL;
}

/* True of the scales of a matrix of the store. */
static bool is_scales(const vtb_weights *w, const vtb_weight *t) {
  size_t n = strlen(t->name), end = strlen(VTB_WEIGHTS_SCALES);
  if (n < end || strcmp(t->name + n - end, VTB_WEIGHTS_SCALES) != 0) return false;
  char *name = vtb_strprintf("%.*s", (int)(n - end), t->name);
  const vtb_weight *matrix = name ? vtb_weights_find(w, name) : NULL;
  free(name);
  return matrix && scales_of(w, matrix) == t;
}

static void put_widened(vtb_weights *into, const vtb_weight *t, const vtb_weight *scales) {
  vtb_weight *made = vtb_weights_add(into, t->name, VTB_ELEM_F32, t->rank, t->dim);
  if (!made || !t->count) return;
  int64_t k = t->count / t->dim[0];
  const int8_t *q = t->data;
  float *x = made->data;
  for (int64_t r = 0; r < t->dim[0]; r++) {
    float scale;
    memcpy(&scale, (const char *)scales->data + (size_t)r * sizeof scale, sizeof scale);
    for (int64_t i = r * k; i < (r + 1) * k; i++) x[i] = scale * (float)q[i];
  }
}

static void release(void *w) { vtb_weights_free(w); }

vtb_status vtb_weights_widen(vtb_weights **w, vtb_error *err) {
  vtb_weights *from = *w;
  bool any = false;
  for (size_t i = 0; i < from->n && !any; i++) any = scales_of(from, from->at[i]) != NULL;
  if (!any) return VTB_OK;
  vtb_weights *into = vtb_weights_new();
  if (!into) return vtb_no_memory(err, "weights");
  for (size_t i = 0; i < from->n; i++) {
    const vtb_weight *t = from->at[i], *scales = scales_of(from, t);
    if (scales)
      put_widened(into, t, scales);
    else if (!is_scales(from, t))
      (void)vtb_weights_borrow(into, t->name, t->elem, t->rank, t->dim, t->data);
  }
  for (size_t i = 0; i < from->meta.n; i++)
    vtb_weights_set_meta(into, from->meta.at[i].key, from->meta.at[i].value);
  if (into->error.text[0]) {
    vtb_status status = vtb_fail(err, into->error.status, "%s", into->error.text);
    vtb_weights_free(into);
    return status;
  }
  if (!vtb_weights_keep(into, from, release)) { /* which has released it */
    vtb_weights_free(into);
    *w = NULL;
    return vtb_no_memory(err, "weights");
  }
  *w = into;
  return VTB_OK;
}

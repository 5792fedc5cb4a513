/* Memory of the caller's in place of the session's. Inputs of another image size choose the
 * programs of that size. */
#include "runtime/model.h"

static bool fits(const vtb_session *s, int tensor, const vtb_tensor_info *t, const vtb_array *a) {
  bool rows = vtb__has_rows(s, tensor);
  if (a->rank != t->rank || (rows && a->dim[0] < 1)) return false;
  for (int i = rows; i < t->rank; i++)
    if (a->dim[i] != t->dim[i]) return false;
  return true;
}

/* Everything that is bound fits the size, `tensor` being bound to *a. */
static bool size_fits(const vtb_session *s, const vtb__variant *v, int tensor, const vtb_array *a,
                      bool only_inputs) {
  for (int i = 0; i < s->n_tensors; i++) {
    const vtb_tensor_info *t = &v->tensors[i];
    const vtb_array *b = i == tensor ? a : &s->buffers[i].bound;
    if ((i != tensor && !s->buffers[i].is_bound) || !b || (only_inputs && t->io != VTB_IO_INPUT))
      continue;
    if (!fits(s, i, t, b)) return false;
  }
  return true;
}

/* The size that fits all that is bound; else the inputs; else this one; -1: not even that. */
static int find_size(const vtb_session *s, int tensor, const vtb_array *a) {
  int found = -1, quality = 0;
  for (int i = 0; i < s->n_parts; i++) {
    const vtb__variant *v = s->parts[i].variant;
    int q = !fits(s, tensor, &v->tensors[tensor], a) ? 0
            : size_fits(s, v, tensor, a, false)      ? 3
            : size_fits(s, v, tensor, a, true)       ? 2
                                                     : 1;
    if (q > quality || (q && q == quality && s->parts[i].size == s->size))
      quality = q, found = s->parts[i].size;
  }
  return found;
}

static vtb_status does_not_fit(const vtb_session *s, int tensor, const vtb_array *a,
                               vtb_error *err) {
  vtb_strbuf have = VTB_CHECKED_STRBUF, want = VTB_CHECKED_STRBUF;
  const vtb_tensor_info *t = &vtb__session_variant(s)->tensors[tensor];
  bool rows = vtb__has_rows(s, tensor);
  const char *more = "";
  for (int i = 0; i < s->n_parts; i++)
    if (s->parts[i].size != s->size) more = ", or those of another image size in the file";
  vtb_strbuf_putc(&have, '[');
  for (int i = 0; i < a->rank && i < VTB_ARRAY_RANK; i++)
    vtb_strbuf_printf(&have, "%s%lld", i ? ", " : "", (long long)a->dim[i]);
  vtb_strbuf_printf(&want, "[%s", rows ? "rows" : "");
  for (int i = rows; i < t->rank; i++)
    vtb_strbuf_printf(&want, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
  vtb_fail(err, VTB_E_INPUT, "the array for \"%s\" is %s], and %s]%s is needed", t->name,
           vtb_strbuf_text(&have), vtb_strbuf_text(&want), more);
  vtb_strbuf_free(&have);
  vtb_strbuf_free(&want);
  return VTB_E_INPUT;
}

static vtb_status check_array(const vtb_session *s, int tensor, const vtb_array *a,
                              vtb_error *err) {
  const vtb_tensor_info *t = &vtb__session_variant(s)->tensors[tensor];
  if (a->device == VTB_DEVICE_CUDA) {
    const vtb_program *there = vtb__session_device(s);
    if (!there)
      return vtb_fail(err, VTB_E_DEVICE,
                      "the array for \"%s\" is not in the host's memory, where the session is",
                      t->name);
    if (vtb__session_owns(s, t) || t->io == VTB_IO_UPDATE || t->io == VTB_IO_STATE)
      return vtb_fail(err, VTB_E_USAGE,
                      "\"%s\" is the training session's own on the device: bind memory of the "
                      "host, where it is brought on request",
                      t->name);
    if (!a->data) return VTB_OK;
    vtb_status status =
        there->device->check(there->owner, (uint64_t)(uintptr_t)a->data, t->name, err);
    if (status != VTB_OK) return status;
  }
  if (!a->data) return vtb_fail(err, VTB_E_INPUT, "the array for \"%s\" has no data", t->name);
  if (a->type != (t->is_int ? VTB_ARRAY_I32 : VTB_ARRAY_F32))
    return vtb_fail(err, VTB_E_INPUT, "the array for \"%s\" is not of type %s", t->name,
                    t->is_int ? "VTB_ARRAY_I32" : "VTB_ARRAY_F32");
  if ((unsigned)a->device > VTB_DEVICE_CUDA)
    return vtb_fail(err, VTB_E_USAGE, "the array for \"%s\" is on no device that there is",
                    t->name);
  return a->rank < 0 || a->rank > VTB_ARRAY_RANK ? does_not_fit(s, tensor, a, err) : VTB_OK;
}

/* A device has to be given it again; what a training session made of its own comes back first. */
static vtb_status forget_parameter(vtb_session *s, int tensor, vtb_error *err) {
  const vtb_tensor_info *t = &vtb__session_variant(s)->tensors[tensor];
  bool is_param = t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER;
  vtb_status status = VTB_OK;
  if (vtb__session_owns(s, t) || t->io == VTB_IO_STATE)
    status = vtb__session_exchange(s, false, err);
  else if (is_param)
    for (int k = 0; k < s->n_parts; k++) s->parts[k].kept = false;
  return status;
}

static vtb_status bind(vtb_session *s, const char *name, const vtb_array *given, vtb_error *err) {
  vtb_array a;
  if (given && !vtb__take_struct(given, &a, sizeof a)) return vtb__wrong_size("vtb_array", err);
  int i = vtb__session_find(s, VTB_ARRAY_ANY, name, err);
  if (i < 0) return VTB_E_INPUT;
  vtb__buffer *b = &s->buffers[i];
  if (given) VTB_TRY(check_array(s, i, &a, err));
  VTB_TRY(forget_parameter(s, i, err));
  if (!given || !a.data) {
    b->is_bound = false;
    b->on_device = given != NULL;
    return VTB_OK;
  }
  int size = find_size(s, i, &a);
  if (size < 0) return does_not_fit(s, i, &a, err);
  s->size = size;
  b->is_bound = true;
  b->bound = a;
  return VTB_OK;
}

vtb_status vtb_session_bind(vtb_session *s, const char *name, const vtb_array *a, vtb_error *err) {
  vtb_status status = vtb__session_take(s, err);
  if (status != VTB_OK) return status;
  status =
      name ? bind(s, name, a, err) : vtb_fail(err, VTB_E_USAGE, "an array is bound by its name");
  vtb__session_give(s);
  return status;
}

/* Before a run: what was bound for another size is still there. */
vtb_status vtb__session_check(const vtb_session *s, vtb_error *err) {
  const vtb__variant *v = vtb__session_variant(s);
  for (int i = 0; i < s->n_tensors; i++)
    if (s->buffers[i].is_bound && !fits(s, i, &v->tensors[i], &s->buffers[i].bound))
      return does_not_fit(s, i, &s->buffers[i].bound, err);
  return VTB_OK;
}

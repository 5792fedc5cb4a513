/* Sessions that train: parameters of their own, which each run updates. On a device they stay
 * there, and come back when somebody asks for them. */
#include "runtime/model.h"

#include "runtime/artefact/content_hash.h"
#include "runtime/artefact/init.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/base/c_locale.h"
#include "runtime/base/update.h"

#include <stdlib.h>
#include <string.h>

static bool is_param(const vtb_tensor_info *t) {
  return t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER;
}

bool vtb__session_owns(const vtb_session *s, const vtb_tensor_info *t) {
  return s->options.role == VTB_SESSION_STEP && is_param(t);
}

int vtb__session_target(const vtb_session *s, int tensor) {
  static const char prefix[] = "updated.";
  const vtb_tensor_info *t = vtb__session_variant(s)->tensors;
  if (t[tensor].io != VTB_IO_UPDATE || !vtb_starts_with(t[tensor].name, prefix)) return tensor;
  for (int i = 0; i < s->n_tensors; i++)
    if (t[i].io != VTB_IO_UPDATE && vtb_streq(t[i].name, t[tensor].name + strlen(prefix))) return i;
  return tensor;
}

/* The initialiser names a scalar a row, "adamw t lr average clip scale beta1=0.9 ...". */
static void fill_scalars(const vtb_tensor_info *t, float *at) {
  int64_t row = -1; /* the optimiser's name comes first */
  for (const char *word = t->init; word && *word && row < t->dim[0]; row++) {
    size_t n = strcspn(word, " ");
    const char *eq = memchr(word, '=', n);
    if (row >= 0 && eq) {
      double value = strtod(eq + 1, NULL);
      at[2 * row] = (float)value;
      at[2 * row + 1] = (float)(value - (double)at[2 * row]);
    }
    word += n + strspn(word + n, " ");
  }
  at[2 * VTB_SCALAR_STEP] = at[2 * VTB_SCALAR_SCALE] = 1;
}

/* Every parameter with the whole learning rate, and the weight decay that it declares. */
static void fill_rates(const vtb_session *s, const vtb_tensor_info *rates, float *at) {
  const vtb__variant *v = vtb__session_variant(s);
  int64_t row = 0;
  for (int i = 0; i < v->n_tensors && row < rates->dim[0]; i++) {
    const vtb_tensor_info *t = &v->tensors[i];
    if (t->io != VTB_IO_PARAM) continue;
    at[2 * row] = 1;
    at[2 * row++ + 1] = t->decay;
  }
}

/* Fills the inputs of a step that are the same for most. */
static vtb_status fill_inputs(vtb_session *s, vtb_error *err) {
  const vtb__variant *v = vtb__session_variant(s);
  for (int i = 0; i < v->n_tensors; i++) {
    const vtb_tensor_info *t = &v->tensors[i];
    bool scalars = vtb_streq(t->name, VTB_UPDATE_SCALARS);
    bool rates = vtb_streq(t->name, VTB_UPDATE_RATES), scale = vtb_streq(t->name, VTB_LOSS_SCALE);
    if (t->io != VTB_IO_INPUT || t->is_int || !(scalars || rates || scale)) continue;
    float *at = vtb__session_memory(s, i);
    if (!at) return vtb_no_memory(err, t->name);
    if (scale) *at = 1;
    if (scalars && t->rank == 2 && t->dim[0] >= VTB_N_SCALARS && t->dim[1] == 2)
      fill_scalars(t, at);
    if (rates && t->rank == 2 && t->dim[1] == 2) fill_rates(s, t, at);
  }
  return VTB_OK;
}

vtb_status vtb__session_begin(vtb_session *s, vtb_error *err) {
  const vtb__variant *v = vtb__session_variant(s);
  vtb_status status = VTB_OK;
  for (int i = 0; i < s->n_tensors && status == VTB_OK; i++) {
    const vtb_tensor_info *t = &v->tensors[i];
    if (!vtb__session_owns(s, t)) continue;
    void *memory = vtb__session_memory(s, i);
    if (!memory) return vtb_no_memory(err, t->name);
    if (v->params)
      memcpy(memory, v->params[i], (size_t)vtb_tensor_info_count(t) * 4);
    else if (!t->is_int)
      status = vtb_init_tensor(t->init, t->name, s->options.seed, t->rank, t->dim, memory, err);
  }
  if (status == VTB_OK && s->options.role == VTB_SESSION_STEP) status = fill_inputs(s, err);
  return status;
}

vtb_status vtb__session_exchange(vtb_session *s, bool in, vtb_error *err) {
  vtb__part *p = s->parts;
  if (s->options.role != VTB_SESSION_STEP || !p->program || !p->program->exchange || p->kept == in)
    return VTB_OK;
  for (int i = 0; i < p->program->n_tensors; i++) {
    s->args[i] = vtb__session_memory(s, p->tensor[i]);
    if (!s->args[i]) return vtb_no_memory(err, p->program->tensors[i].name);
  }
  vtb_status status = vtb_program_exchange(p->program, s->args, in, err);
  if (status == VTB_OK) p->kept = in;
  return status;
}

static vtb_status save(vtb_session *s, const char *path, vtb_error *err) {
  const vtb__variant *v = vtb__session_variant(s);
  vtb_status status = vtb__session_exchange(s, false, err);
  vtb_weights *w = status == VTB_OK ? vtb_weights_new() : NULL;
  if (!w) return status == VTB_OK ? vtb_no_memory(err, path) : status;
  for (int i = 0; i < s->n_tensors; i++) {
    const vtb_tensor_info *t = &v->tensors[i];
    const void *memory = is_param(t) ? vtb__session_memory(s, i) : NULL;
    if (memory)
      vtb_weights_borrow(w, t->name, t->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32, t->rank, t->dim,
                         memory);
  }
  vtb_weights_set_meta(w, "format", "vertebra-weights-1");
  vtb_content_hash_want(w);
  status = vtb_safetensors_save(path, w, err);
  vtb_weights_free(w);
  return status;
}

vtb_status vtb_session_save(vtb_session *s, const char *path, vtb_error *err) {
  VTB_TRY(vtb__session_take(s, err));
  locale_t before = vtb_c_locale_begin();
  vtb_status status = save(s, path, err);
  vtb_c_locale_end(before);
  vtb__session_give(s);
  return status;
}

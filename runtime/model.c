/* Models: what is in a built file, or a program that was compiled in memory, with its parameters,
 * which nobody changes any more. */
#include "runtime/model.h"

#include "runtime/artefact/init.h"
#include "runtime/base/c_locale.h"

#include <stdlib.h>
#include <string.h>

uint32_t vtb_abi_version(void) { return VTB_ABI_VERSION; }
const char *vtb_version(void) { return VTB_VERSION; }

/* ---- structs that grow ----------------------------------------------------------------------- */

bool vtb__take_struct(const void *given, void *to, size_t n) {
  size_t size;
  memset(to, 0, n);
  if (!given) return true;
  memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > 4096) return false;
  const unsigned char *bytes = given;
  for (size_t i = n; i < size; i++)
    if (bytes[i]) return false; /* a field that this library does not know */
  memcpy(to, given, size < n ? size : n);
  return true;
}

bool vtb__give_struct(const void *from, void *out, size_t n) {
  size_t size;
  memcpy(&size, out, sizeof size);
  if (size < sizeof size || size > 4096) return false;
  if (size < n) n = size;
  memcpy((char *)out + sizeof size, (const char *)from + sizeof size, n - sizeof size);
  return true;
}

vtb_status vtb__wrong_size(const char *what, vtb_error *err) {
  return vtb_fail(err, VTB_E_USAGE,
                  "%s.size is wrong, or it asks for more than vertebra %s (ABI %d) has: set it to "
                  "sizeof(%s)",
                  what, VTB_VERSION, VTB_ABI_VERSION, what);
}

static vtb_array_kind kind_of(vtb_io io) {
  static const vtb_array_kind kinds[] = {
      [VTB_IO_INPUT] = VTB_ARRAY_INPUT,    [VTB_IO_PARAM] = VTB_ARRAY_PARAMETER,
      [VTB_IO_BUFFER] = VTB_ARRAY_BUFFER,  [VTB_IO_GRAD_IN] = VTB_ARRAY_ADJOINT,
      [VTB_IO_OUTPUT] = VTB_ARRAY_OUTPUT,  [VTB_IO_GRAD_OUT] = VTB_ARRAY_GRADIENT,
      [VTB_IO_UPDATE] = VTB_ARRAY_UPDATED, [VTB_IO_STATE] = VTB_ARRAY_STATE,
  };
  return kinds[io];
}

vtb_array vtb__array_of(const vtb_tensor_info *t, vtb_device device, const void *data) {
  vtb_array a = {.size = sizeof a,
                 .name = t->name,
                 .kind = kind_of(t->io),
                 .type = t->is_int ? VTB_ARRAY_I32 : VTB_ARRAY_F32,
                 .device = device,
                 .rank = t->rank,
                 .data = (void *)(uintptr_t)data};
  for (int i = 0; i < t->rank; i++) a.dim[i] = t->dim[i];
  return a;
}

/* ---- built files ----------------------------------------------------------------------------- */

static vtb_session_role role_of(vtb_artefact_role role) {
  return role == VTB_ARTEFACT_STEP         ? VTB_SESSION_STEP
         : role == VTB_ARTEFACT_EVALUATION ? VTB_SESSION_EVALUATE
         : role == VTB_ARTEFACT_GRADIENT   ? VTB_SESSION_VJP
                                           : VTB_SESSION_INFER;
}

static vtb_status list_programs(vtb_model *m, vtb_error *err) {
  const vtb_manifest *all = vtb_artefact_manifest(m->file);
  m->variants = calloc((size_t)all->n_programs + 1, sizeof *m->variants);
  if (!m->variants) return vtb_no_memory(err, "programs");
  for (int i = 0; i < all->n_programs; i++) {
    const vtb_artefact_program *p = &all->programs[i];
    m->variants[m->n_variants++] = (vtb__variant){.about = {.role = role_of(p->role),
                                                            .batch = p->batch,
                                                            .height = p->height,
                                                            .width = p->width,
                                                            .n_arrays = p->n_tensors,
                                                            .cpu = p->n_codes > 0,
                                                            .cuda = p->n_images > 0},
                                                  .n_tensors = p->n_tensors,
                                                  .tensors = p->tensors,
                                                  .built = p};
  }
  return VTB_OK;
}

/* A file, or what is linked into the program. */
static vtb_status open_file(vtb_model *m, const char *path, const vtb_static_model *linked,
                            const vtb_open_options *o, vtb_error *err) {
  vtb_status status =
      linked ? vtb_artefact_open_linked((const vtb_artefact_linked *)linked, &m->file, err)
             : vtb_artefact_open(path, &m->file, err);
  if (status == VTB_OK && o->verify) status = vtb_artefact_verify(m->file, err);
  if (status == VTB_OK) status = list_programs(m, err);
  if (status != VTB_OK) return status;
  const vtb_weights *w = vtb_artefact_weights(m->file);
  if (o->weights) return vtb__model_weights(m, o, err);
  return w ? vtb__model_find(m, w, err) : VTB_OK;
}

static vtb_status open_model(const char *path, const vtb_static_model *linked,
                             const vtb_open_options *given, vtb_model **out, vtb_error *err) {
  vtb_open_options o;
  if (!vtb__take_struct(given, &o, sizeof o)) return vtb__wrong_size("vtb_open_options", err);
  vtb_model *m = calloc(1, sizeof *m);
  if (!m) return vtb_no_memory(err, "a model");
  atomic_init(&m->users, 1);
  locale_t before = vtb_c_locale_begin();
  vtb_status status = open_file(m, path, linked, &o, err);
  vtb_c_locale_end(before);
  if (status == VTB_OK)
    *out = m;
  else
    vtb_model_release(m);
  return status;
}

vtb_status vtb_model_open(const char *path, const vtb_open_options *o, vtb_model **out,
                          vtb_error *err) {
  if (!path) return vtb_fail(err, VTB_E_USAGE, "a model is opened by the path of its file");
  return open_model(path, NULL, o, out, err);
}

vtb_status vtb_model_open_static(const vtb_static_model *linked, const vtb_open_options *o,
                                 vtb_model **out, vtb_error *err) {
  if (!linked) return vtb_fail(err, VTB_E_USAGE, "a model that is linked in is opened by its name");
  return open_model(NULL, linked, o, out, err);
}

vtb_model *vtb_model_retain(vtb_model *m) {
  atomic_fetch_add(&m->users, 1);
  return m;
}

void vtb_model_release(vtb_model *m) {
  if (!m || atomic_fetch_sub(&m->users, 1) > 1) return;
  for (int i = 0; i < m->n_variants; i++) free(m->variants[i].params);
  free(m->variants);
  vtb__device_weights_forget(&m->on_devices);
  vtb__model_forget_kept(m);
  vtb_weights_free(m->made);
  vtb_weights_free(m->beside);
  vtb_program_free(m->program);
  vtb_artefact_close(m->file);
  free(m);
}

vtb_status vtb_model_verify(const vtb_model *m, vtb_error *err) {
  return m->file ? vtb_artefact_verify(m->file, err) : VTB_OK;
}

/* ---- compiled in memory ---------------------------------------------------------------------- */

static vtb_status initialise(vtb_model *m, vtb_error *err) {
  vtb__variant *v = &m->variants[0];
  m->made = vtb_weights_new();
  v->params = calloc((size_t)v->n_tensors + 1, sizeof *v->params);
  if (!m->made || !v->params) return vtb_no_memory(err, "parameters");
  m->has_params = true;
  for (int i = 0; i < v->n_tensors; i++) {
    const vtb_tensor_info *t = &v->tensors[i];
    if (t->io != VTB_IO_PARAM && t->io != VTB_IO_BUFFER) continue;
    vtb_weight *w =
        vtb_weights_add(m->made, t->name, t->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32, t->rank, t->dim);
    if (!w) return vtb_fail(err, m->made->error.status, "%s", m->made->error.text);
    v->params[i] = w->data;
    vtb_status status =
        t->is_int ? VTB_OK : vtb_init_tensor(t->init, t->name, 0, t->rank, t->dim, w->data, err);
    if (status != VTB_OK) return status;
  }
  return VTB_OK;
}

static vtb_status describe_program(vtb_model *m, const char *weights, vtb_weights *taken,
                                   vtb_error *err) {
  const vtb_program *p = m->program;
  m->variants = calloc(1, sizeof *m->variants);
  if (!m->variants) return vtb_no_memory(err, "programs");
  m->n_variants = 1;
  m->variants[0] = (vtb__variant){.about = {.batch = p->batch,
                                            .n_arrays = p->n_tensors,
                                            .cpu = p->entry != NULL,
                                            .cuda = p->run != NULL},
                                  .n_tensors = p->n_tensors,
                                  .tensors = p->tensors};
  m->beside = taken;
  if (!weights) return initialise(m, err);
  const vtb_open_options o = {.size = sizeof o, .weights = weights};
  if (!taken) return vtb__model_weights(m, &o, err);
  vtb_error inner = {0};
  vtb_status status = vtb__model_find(m, taken, &inner);
  return status == VTB_OK ? status : vtb_fail(err, status, "%s: %s", weights, inner.text);
}

vtb_status vtb__model_of_program(vtb_program *program, const char *weights, vtb_weights *taken,
                                 vtb_model **out, vtb_error *err) {
  vtb_model *m = calloc(1, sizeof *m);
  if (!m) {
    vtb_program_free(program);
    vtb_weights_free(taken);
    return vtb_no_memory(err, "a model");
  }
  atomic_init(&m->users, 1);
  m->program = program;
  locale_t before = vtb_c_locale_begin();
  vtb_status status = describe_program(m, weights, taken, err);
  vtb_c_locale_end(before);
  if (status == VTB_OK)
    *out = m;
  else
    vtb_model_release(m);
  return status;
}

/* ---- programs that run ----------------------------------------------------------------------- */

vtb_status vtb__model_load(vtb_model *m, const vtb__variant *v, vtb_device device,
                           const vtb_device_choice *where, vtb_program **out, vtb_error *err) {
  if (m->program) {
    const vtb_device_calls *calls = m->program->device;
    if (calls && calls->open) return calls->open(m->program->owner, where, out, err);
    if (m->program->run && atomic_exchange(&m->lent, true))
      return vtb_fail(err, VTB_E_USAGE,
                      "a model that was compiled for a device has one session at a time");
    *out = m->program;
    return VTB_OK;
  }
  if (device == VTB_DEVICE_CUDA)
    return vtb_artefact_load_on(m->file, v->built, "cuda", where, out, err);
  (void)vtb_lock_take(&m->loading);
  vtb_status status = vtb_artefact_load_program(m->file, v->built, "cpu", out, err);
  vtb_lock_give(&m->loading);
  return status;
}

void vtb__model_give_back(vtb_model *m, vtb_program *p) {
  if (p != m->program)
    vtb_program_free(p);
  else
    atomic_store(&m->lent, false);
}

/* ---- what a model says ----------------------------------------------------------------------- */

const char *vtb_model_meta(const vtb_model *m, const char *key) {
  const char *said = m->beside ? vtb_weights_meta(m->beside, key) : NULL;
  if (said || !m->file) return said;
  return vtb_manifest_meta(vtb_artefact_manifest(m->file), key);
}

const char *vtb_model_meta_key(const vtb_model *m, int32_t i) {
  const vtb_manifest *all = m->file ? vtb_artefact_manifest(m->file) : NULL;
  return all && i >= 0 && i < all->n_meta ? all->meta[i].key : NULL;
}

vtb_status vtb_model_program(const vtb_model *m, int32_t i, vtb_program_info *out, vtb_error *err) {
  if (i < 0 || i >= m->n_variants)
    return vtb_fail(err, VTB_E_USAGE, "there is no program %d: there are %d", (int)i,
                    m->n_variants);
  if (vtb__give_struct(&m->variants[i].about, out, sizeof *out)) return VTB_OK;
  return vtb__wrong_size("vtb_program_info", err);
}

vtb_status vtb_model_array(const vtb_model *m, int32_t program, int32_t i, vtb_array *out,
                           vtb_error *err) {
  if (program < 0 || program >= m->n_variants || i < 0 || i >= m->variants[program].n_tensors)
    return vtb_fail(err, VTB_E_USAGE, "program %d has no array %d", (int)program, (int)i);
  const vtb__variant *v = &m->variants[program];
  vtb_array a = vtb__array_of(&v->tensors[i], VTB_DEVICE_CPU, v->params ? v->params[i] : NULL);
  if (vtb__give_struct(&a, out, sizeof *out)) return VTB_OK;
  return vtb__wrong_size("vtb_array", err);
}

/* The public API: a program, buffers for all of its tensors, and threads. */
#include "runtime/base/c_locale.h"
#include "runtime/artefact/artefact.h"
#include "runtime/artefact/init.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/base/prepare.h"
#include "runtime/launch/threads.h"
#include "runtime/vertebra.h"

#include <stdlib.h>
#include <string.h>

struct vtb_model {
  vtb_program *program;
  vtb_services *services;
  void **buffers; /* one a tensor */
  void *workspace;
  vtb_artefact *file; /* NULL: not from one */
  bool kept;          /* a device has the parameters as they are */
  /* what weights that were loaded say of images; "" where they do not */
  char prepare[VTB_PROGRAM_MAX_PREPARE], mean[128], std[128];
};

const char *vtb_version(void) { return VTB_VERSION; }

static bool allocate(vtb_model *m, int n_threads) {
  const vtb_program *p = m->program;
  m->services = vtb_services_default(n_threads);
  m->buffers = calloc((size_t)p->n_tensors + 1, sizeof *m->buffers);
  m->workspace = vtb_aligned_alloc((size_t)p->workspace_bytes);
  bool enough = m->services && m->buffers && m->workspace;
  for (int i = 0; i < p->n_tensors && enough; i++) {
    size_t bytes = (size_t)vtb_tensor_info_count(&p->tensors[i]) * 4;
    m->buffers[i] = vtb_aligned_alloc(bytes);
    enough = m->buffers[i] != NULL;
    if (enough) memset(m->buffers[i], 0, bytes);
  }
  return enough;
}

vtb_status vtb_model_new(vtb_program *program, int n_threads, vtb_model **out, vtb_error *err) {
  vtb_model *m = calloc(1, sizeof *m);
  if (m) m->program = program;
  if (m && allocate(m, n_threads)) {
    *out = m;
    return VTB_OK;
  }
  vtb_status status =
      vtb_fail(err, VTB_E_MEMORY, "out of memory for the model (workspace %lld bytes)",
               (long long)program->workspace_bytes);
  if (m)
    vtb_model_free(m);
  else
    vtb_program_free(program);
  return status;
}

void vtb_model_free(vtb_model *m) {
  if (!m) return;
  for (int i = 0; m->buffers && i < m->program->n_tensors; i++) free(m->buffers[i]);
  free(m->buffers);
  free(m->workspace);
  vtb_services_free(m->services);
  vtb_program_free(m->program);
  vtb_artefact_close(m->file);
  free(m);
}

/* ---- built files ----------------------------------------------------------------------------- */

/* Takes the artefact. */
static vtb_status from_file(vtb_artefact *a, const vtb_open_options *o, vtb_model **out,
                            vtb_error *err) {
  const char *target = o->target ? o->target : vtb_artefact_target(a);
  vtb_program *program;
  vtb_status status = vtb_artefact_load(a, VTB_ARTEFACT_INFERENCE, target, &program, err);
  if (status == VTB_OK) status = vtb_model_new(program, o->n_threads, out, err);
  if (status == VTB_OK)
    (*out)->file = a;
  else
    vtb_artefact_close(a);
  return status;
}

/* Parameters may change now: the next run copies them again. */
static void release_params(vtb_model *m) {
  if (m->kept) vtb_program_keep(m->program, 0);
  m->kept = false;
}

static void keep_meta(const vtb_weights *w, const char *key, char *out, size_t n) {
  const char *text = vtb_weights_meta(w, key);
  snprintf(out, n, "%s", text ? text : "");
}

static vtb_status load(vtb_model *m, const char *path, vtb_error *err) {
  release_params(m);
  vtb_weights *w = NULL;
  vtb_status status = vtb_safetensors_load(path, &w, err);
  if (status != VTB_OK) return status;
  vtb_error inner = {0};
  status = vtb_weights_bind(m->program, w, NULL, m->buffers, NULL, NULL, &inner);
  if (status != VTB_OK) vtb_fail(err, status, "%s: %s", path, inner.text);
  if (status == VTB_OK) {
    keep_meta(w, VTB_META_PREPARE, m->prepare, sizeof m->prepare);
    keep_meta(w, "mean", m->mean, sizeof m->mean);
    keep_meta(w, "std", m->std, sizeof m->std);
  }
  vtb_weights_free(w);
  return status;
}

static vtb_status open_model(const char *path, const vtb_open_options *o, vtb_model **out,
                             vtb_error *err) {
  static const vtb_open_options defaults = {0};
  vtb_artefact *a;
  vtb_model *m = NULL;
  if (!o) o = &defaults;
  vtb_status status = vtb_artefact_open(path, &a, err);
  if (status == VTB_OK) status = from_file(a, o, &m, err);
  if (status != VTB_OK) return status;
  const vtb_weights *w = vtb_artefact_weights(a);
  if (o->weights)
    status = load(m, o->weights, err);
  else if (w)
    status = vtb_weights_bind(m->program, w, NULL, m->buffers, NULL, NULL, err);
  if (status == VTB_OK)
    *out = m;
  else
    vtb_model_free(m);
  return status;
}

vtb_status vtb_model_open(const char *path, const vtb_open_options *o, vtb_model **out,
                          vtb_error *err) {
  locale_t before = vtb_c_locale_begin();
  vtb_status status = open_model(path, o, out, err);
  vtb_c_locale_end(before);
  return status;
}

const char *vtb_model_meta(const vtb_model *m, const char *key) {
  return m->file ? vtb_manifest_meta(vtb_artefact_manifest(m->file), key) : NULL;
}

static bool is_state(const vtb_tensor_info *t) {
  return t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER;
}

/* ---- parameters ------------------------------------------------------------------------------ */

vtb_status vtb_model_load(vtb_model *m, const char *path, vtb_error *err) {
  locale_t before = vtb_c_locale_begin();
  vtb_status status = load(m, path, err);
  vtb_c_locale_end(before);
  return status;
}

static vtb_status initialise(vtb_model *m, uint64_t seed, vtb_error *err) {
  release_params(m);
  for (int i = 0; i < m->program->n_tensors; i++) {
    const vtb_tensor_info *t = &m->program->tensors[i];
    if (!is_state(t) || t->is_int) continue;
    vtb_status status =
        vtb_init_tensor(t->init, t->name, seed, t->rank, t->dim, m->buffers[i], err);
    if (status != VTB_OK) return status;
  }
  return VTB_OK;
}

vtb_status vtb_model_init(vtb_model *m, uint64_t seed, vtb_error *err) {
  locale_t before = vtb_c_locale_begin();
  vtb_status status = initialise(m, seed, err);
  vtb_c_locale_end(before);
  return status;
}

vtb_status vtb_model_save(const vtb_model *m, const char *path, vtb_error *err) {
  vtb_weights *w = vtb_weights_new();
  if (!w) return vtb_no_memory(err, path);
  for (int i = 0; i < m->program->n_tensors; i++) {
    const vtb_tensor_info *t = &m->program->tensors[i];
    if (is_state(t))
      vtb_weights_borrow(w, t->name, t->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32, t->rank, t->dim,
                         m->buffers[i]);
  }
  vtb_weights_set_meta(w, "format", "vertebra-weights-1");
  vtb_status status = vtb_safetensors_save(path, w, err);
  vtb_weights_free(w);
  return status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

int vtb_model_tensors(const vtb_model *m, const vtb_tensor_info **out) {
  if (out) *out = m->program->tensors;
  return m->program->n_tensors;
}

int64_t vtb_model_batch(const vtb_model *m) { return m->program->batch; }
const vtb_services *vtb_model_services(const vtb_model *m) { return m->services; }

/* By role and name; name NULL: the first of that role. -1 if there is none. */
static int find(const vtb_model *m, const char *name, vtb_io io, vtb_io other) {
  for (int i = 0; i < m->program->n_tensors; i++) {
    const vtb_tensor_info *t = &m->program->tensors[i];
    if ((t->io == io || t->io == other) && (!name || vtb_streq(t->name, name))) return i;
  }
  return -1;
}

static void *buffer(const vtb_model *m, int i, int64_t *count) {
  if (count) *count = i < 0 ? 0 : vtb_tensor_info_count(&m->program->tensors[i]);
  return i < 0 ? NULL : m->buffers[i];
}

void *vtb_model_input(vtb_model *m, const char *name, int64_t *count) {
  return buffer(m, find(m, name, VTB_IO_INPUT, VTB_IO_GRAD_IN), count);
}

const void *vtb_model_output(const vtb_model *m, const char *name, int64_t *count) {
  return buffer(m, find(m, name, VTB_IO_OUTPUT, VTB_IO_GRAD_OUT), count);
}

void *vtb_model_param(vtb_model *m, const char *name, int64_t *count) {
  release_params(m);
  return buffer(m, find(m, name, VTB_IO_PARAM, VTB_IO_BUFFER), count);
}

vtb_status vtb_model_set_input(vtb_model *m, const char *name, const float *data, int64_t count,
                               vtb_error *err) {
  int i = find(m, name, VTB_IO_INPUT, VTB_IO_GRAD_IN);
  if (i < 0) return vtb_fail(err, VTB_E_INPUT, "the model has no input %s", name ? name : "at all");
  const vtb_tensor_info *t = &m->program->tensors[i];
  if (t->is_int) return vtb_fail(err, VTB_E_INPUT, "input %s holds integers", t->name);
  if (count != vtb_tensor_info_count(t))
    return vtb_fail(err, VTB_E_INPUT, "input %s has %lld elements, not %lld", t->name,
                    (long long)vtb_tensor_info_count(t), (long long)count);
  memcpy(m->buffers[i], data, (size_t)count * sizeof *data);
  return VTB_OK;
}

/* ---- images ---------------------------------------------------------------------------------- */

static const char *or_null(const char *text) { return text && *text ? text : NULL; }

/* The image input of that name, or the first; -1 with a sentence. */
static int find_image(const vtb_model *m, const char *name, vtb_error *err) {
  for (int i = 0; i < m->program->n_tensors; i++) {
    const vtb_tensor_info *t = &m->program->tensors[i];
    if (t->io == VTB_IO_INPUT && t->rank == 4 && !t->is_int && (!name || vtb_streq(t->name, name)))
      return i;
  }
  vtb_fail(err, VTB_E_INPUT, "the model has no image input%s%s", name ? " " : "", name ? name : "");
  return -1;
}

/* The program says what its model does; weights of its own or loaded ones hold over that. */
static vtb_status read_preparation(const vtb_model *m, int input, vtb_preparation *out,
                                   vtb_error *err) {
  const vtb_tensor_info *t = &m->program->tensors[input];
  *out = vtb_preparation_default((int)t->dim[1], (int)t->dim[2], (int)t->dim[3]);
  vtb_status status = vtb_preparation_check(out, err);
  const char *said = or_null(m->program->prepare);
  if (status == VTB_OK)
    status = vtb_preparation_read_meta(out, said, said ? NULL : vtb_model_meta(m, "mean"),
                                       said ? NULL : vtb_model_meta(m, "std"), "the model", err);
  if (status == VTB_OK)
    status = vtb_preparation_read_meta(out, or_null(m->prepare), or_null(m->mean), or_null(m->std),
                                       "the weights", err);
  return status;
}

vtb_status vtb_model_preparation(const vtb_model *m, const char *input, vtb_preparation *out,
                                 vtb_error *err) {
  int i = find_image(m, input, err);
  return i < 0 ? VTB_E_INPUT : read_preparation(m, i, out, err);
}

vtb_status vtb_model_set_image(vtb_model *m, const char *input, int64_t row, const vtb_image *im,
                               vtb_error *err) {
  vtb_preparation p;
  int i = find_image(m, input, err);
  if (i < 0) return VTB_E_INPUT;
  const vtb_tensor_info *t = &m->program->tensors[i];
  if (row < 0 || row >= t->dim[0])
    return vtb_fail(err, VTB_E_INPUT, "row %lld of %s, which has %lld", (long long)row, t->name,
                    (long long)t->dim[0]);
  vtb_status status = read_preparation(m, i, &p, err);
  if (status != VTB_OK) return status;
  float *to = (float *)m->buffers[i] + row * t->dim[1] * t->dim[2] * t->dim[3];
  return vtb_image_prepare(&p, im, to, err);
}

vtb_status vtb_model_load_image(vtb_model *m, const char *input, int64_t row, const char *path,
                                vtb_error *err) {
  vtb_image im = {0};
  vtb_status status = vtb_image_load(path, 0, &im, err);
  if (status == VTB_OK) status = vtb_model_set_image(m, input, row, &im, err);
  vtb_image_free(&im);
  return status;
}

vtb_status vtb_model_run(vtb_model *m, vtb_error *err) {
  if (!m->program->entry && !m->program->run)
    return vtb_fail(err, VTB_E_INTERNAL, "the program has no entry");
  vtb_status status = vtb_program_execute(m->program, m->buffers, m->workspace, m->services, err);
  if (status == VTB_OK && !m->kept) {
    vtb_program_keep(m->program, 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER);
    m->kept = true;
  }
  return status;
}

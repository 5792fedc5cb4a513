/* See runner.h. */
#include "runtime/base/c_locale.h"
#include "runtime/artefact/content_hash.h"
#include "runtime/artefact/init.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/launch/threads.h"
#include "runtime/runner.h"

#include <stdlib.h>
#include <string.h>

struct vtb_runner {
  vtb_program *program;
  vtb_services *services;
  void **buffers; /* one a tensor */
  void *workspace;
  bool kept; /* a device has the parameters as they are */
};

static bool allocate(vtb_runner *m, int n_threads) {
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

vtb_status vtb_runner_new(vtb_program *program, int n_threads, vtb_runner **out, vtb_error *err) {
  vtb_runner *m = calloc(1, sizeof *m);
  if (m) m->program = program;
  if (m && allocate(m, n_threads)) {
    *out = m;
    return VTB_OK;
  }
  vtb_status status =
      vtb_fail(err, VTB_E_MEMORY, "out of memory for the model (workspace %lld bytes)",
               (long long)program->workspace_bytes);
  if (m)
    vtb_runner_free(m);
  else
    vtb_program_free(program);
  return status;
}

void vtb_runner_free(vtb_runner *m) {
  if (!m) return;
  for (int i = 0; m->buffers && i < m->program->n_tensors; i++) free(m->buffers[i]);
  free(m->buffers);
  free(m->workspace);
  vtb_services_free(m->services);
  vtb_program_free(m->program);
  free(m);
}

/* Parameters may change now: the next run copies them again. */
static void release_params(vtb_runner *m) {
  if (m->kept) vtb_program_keep(m->program, 0);
  m->kept = false;
}

static bool is_state(const vtb_tensor_info *t) {
  return t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static vtb_status initialise(vtb_runner *m, uint64_t seed, vtb_error *err) {
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

vtb_status vtb_runner_init(vtb_runner *m, uint64_t seed, vtb_error *err) {
  locale_t before = vtb_c_locale_begin();
  vtb_status status = initialise(m, seed, err);
  vtb_c_locale_end(before);
  return status;
}

vtb_status vtb_runner_save(const vtb_runner *m, const char *path, vtb_error *err) {
  vtb_weights *w = vtb_weights_new();
  if (!w) return vtb_no_memory(err, path);
  for (int i = 0; i < m->program->n_tensors; i++) {
    const vtb_tensor_info *t = &m->program->tensors[i];
    if (is_state(t))
      vtb_weights_borrow(w, t->name, t->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32, t->rank, t->dim,
                         m->buffers[i]);
  }
  vtb_weights_set_meta(w, "format", "vertebra-weights-1");
  vtb_content_hash_want(w);
  vtb_status status = vtb_safetensors_save(path, w, err);
  vtb_weights_free(w);
  return status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

int vtb_runner_tensors(const vtb_runner *m, const vtb_tensor_info **out) {
  if (out) *out = m->program->tensors;
  return m->program->n_tensors;
}

int64_t vtb_runner_batch(const vtb_runner *m) { return m->program->batch; }
const vtb_services *vtb_runner_services(const vtb_runner *m) { return m->services; }

/* By role and name; name NULL: the first of that role. -1 if there is none. */
static int find_tensor(const vtb_runner *m, const char *name, vtb_io io, vtb_io other) {
  for (int i = 0; i < m->program->n_tensors; i++) {
    const vtb_tensor_info *t = &m->program->tensors[i];
    if ((t->io == io || t->io == other) && (!name || vtb_streq(t->name, name))) return i;
  }
  return -1;
}

static void *buffer(const vtb_runner *m, int i, int64_t *count) {
  if (count) *count = i < 0 ? 0 : vtb_tensor_info_count(&m->program->tensors[i]);
  return i < 0 ? NULL : m->buffers[i];
}

void *vtb_runner_input(vtb_runner *m, const char *name, int64_t *count) {
  return buffer(m, find_tensor(m, name, VTB_IO_INPUT, VTB_IO_GRAD_IN), count);
}

const void *vtb_runner_output(const vtb_runner *m, const char *name, int64_t *count) {
  return buffer(m, find_tensor(m, name, VTB_IO_OUTPUT, VTB_IO_GRAD_OUT), count);
}

void *vtb_runner_param(vtb_runner *m, const char *name, int64_t *count) {
  release_params(m);
  return buffer(m, find_tensor(m, name, VTB_IO_PARAM, VTB_IO_BUFFER), count);
}

vtb_status vtb_runner_run(vtb_runner *m, vtb_error *err) {
  if (!m->program->entry && !m->program->run)
    return vtb_fail(err, VTB_E_INTERNAL, "the program has no entry");
  if (!m->kept) vtb_services_keep(m->services, true);
  vtb_status status = vtb_program_execute(m->program, m->buffers, m->workspace, m->services, err);
  if (status == VTB_OK && !m->kept) {
    vtb_program_keep(m->program, 1u << VTB_IO_PARAM | 1u << VTB_IO_BUFFER);
    m->kept = true;
  }
  return status;
}

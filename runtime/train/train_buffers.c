/* What a training step changes beside the trained weights: buffers the program returns an update
 * of, such as the running statistics of a batch norm. They are not in the optimiser: no gradient,
 * no decay. With an average of the weights they are averaged alike, so that both fit together; a
 * single number is a count, and copied.
 */
#include "runtime/train/train_internal.h"

#include <stdlib.h>
#include <string.h>

static const char prefix[] = "updated.";

static size_t bytes_of(const vtb_tensor_info *t) { return (size_t)vtb_tensor_info_count(t) * 4; }

static bool is_averaged(const vtb_trainer *t, const vtb_tensor_info *info) {
  return t->config.optim.ema_decay > 0 && !info->is_int && vtb_tensor_info_count(info) > 1;
}

vtb_status vtb__buffers_open(vtb_trainer *t, vtb_error *err) {
  const vtb_program *p = t->bound.program;
  t->moved = calloc((size_t)p->n_tensors + 1, sizeof *t->moved);
  if (!t->moved) return vtb_no_memory(err, "the buffers of training");
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *from = &p->tensors[i];
    if (from->io != VTB_IO_UPDATE) continue;
    int at = vtb_program_find(p, from->name + strlen(prefix));
    const vtb_tensor_info *to = at < 0 ? NULL : &p->tensors[at];
    if (!to || to->io != VTB_IO_BUFFER || to->is_int != from->is_int ||
        bytes_of(to) != bytes_of(from))
      return vtb_fail(err, VTB_E_INPUT, "%s is no update of a buffer of the training program",
                      from->name);
    vtb_moved *m = &t->moved[t->n_moved++];
    *m = (vtb_moved){.buffer = at, .update = i};
    if (!is_averaged(t, to)) continue;
    m->average = vtb_aligned_alloc(bytes_of(to));
    if (!m->average)
      return vtb_fail(err, VTB_E_MEMORY, "out of memory for the averages of buffers");
    memcpy(m->average, t->bound.args[at], bytes_of(to));
  }
  return VTB_OK;
}

void vtb__buffers_close(vtb_trainer *t) {
  for (int i = 0; i < t->n_moved; i++) free(t->moved[i].average);
  free(t->moved);
}

void vtb__buffers_step(vtb_trainer *t) {
  float d = (float)t->config.optim.ema_decay, c = (float)(1 - t->config.optim.ema_decay);
  for (int i = 0; i < t->n_moved; i++) {
    const vtb_moved *m = &t->moved[i];
    const vtb_tensor_info *info = &t->bound.program->tensors[m->buffer];
    memcpy(t->bound.args[m->buffer], t->bound.args[m->update], bytes_of(info));
    const float *now = t->bound.args[m->buffer];
    int64_t n = m->average ? vtb_tensor_info_count(info) : 0;
    for (int64_t k = 0; k < n; k++) m->average[k] = d * m->average[k] + c * now[k];
  }
}

float *vtb__buffer_average(const vtb_trainer *t, int tensor) {
  for (int i = 0; i < t->n_moved; i++)
    if (t->moved[i].buffer == tensor) return t->moved[i].average;
  return NULL;
}

/* NULL when out of memory. */
static const char *average_name(const vtb_trainer *t, const vtb_moved *m, vtb_strbuf *buf) {
  return vtb_strbuf_format(buf, "ema/%s", t->bound.program->tensors[m->buffer].name);
}

void vtb__buffers_save(const vtb_trainer *t, vtb_weights *w) {
  vtb_strbuf name = VTB_CHECKED_STRBUF;
  for (int i = 0; i < t->n_moved; i++) {
    const vtb_moved *m = &t->moved[i];
    int64_t n = vtb_tensor_info_count(&t->bound.program->tensors[m->buffer]);
    if (m->average && average_name(t, m, &name))
      vtb_weights_borrow(w, name.at, VTB_ELEM_F32, 1, &n, m->average);
  }
  vtb_strbuf_check(&name, &w->error);
  vtb_strbuf_free(&name);
}

vtb_status vtb__buffers_load(vtb_trainer *t, const vtb_weights *w, vtb_error *err) {
  vtb_strbuf name = VTB_CHECKED_STRBUF;
  vtb_status status = VTB_OK;
  for (int i = 0; i < t->n_moved && status == VTB_OK; i++) {
    const vtb_moved *m = &t->moved[i];
    if (!m->average) continue;
    const vtb_weight *saved = average_name(t, m, &name) ? vtb_weights_find(w, name.at) : NULL;
    if (name.failed)
      status = vtb_strbuf_check(&name, err);
    else if (!saved || saved->count != vtb_tensor_info_count(&t->bound.program->tensors[m->buffer]))
      status = vtb_fail(err, VTB_E_INPUT, "checkpoint: tensor %s is missing or of another size",
                        name.at);
    else
      vtb_weight_read_f32(saved, m->average);
  }
  vtb_strbuf_free(&name);
  return status;
}

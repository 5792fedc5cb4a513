/* Training with a program that updates its parameters itself (runtime/train/update.h): what stays
 * on the device has its copy on the host in the same buffers that the host's optimiser would use,
 * so that checkpoints, averages and evaluation know no difference. The copies are made when
 * somebody asks.
 */
#include "runtime/train/train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The host's buffer for a state tensor of the program: the optimiser's, or a buffer's average. */
static vtb_status bind(vtb_trainer *t, const char *name, void *data, vtb_error *err) {
  const vtb_program *p = t->bound.program;
  int i = vtb_program_find(p, name);
  if (i < 0 || p->tensors[i].io != VTB_IO_STATE)
    return vtb_fail(err, VTB_E_INPUT,
                    "the training program updates its parameters itself, but keeps no %s: it was "
                    "made for other settings",
                    name);
  t->bound.args[i] = data;
  return VTB_OK;
}

static vtb_status bind_all(vtb_trainer *t, vtb_error *err) {
  vtb_strbuf name = VTB_CHECKED_STRBUF;
  vtb_status status = VTB_OK;
  for (int i = 0; i < vtb_optim_n_states(t->optim) && status == VTB_OK; i++) {
    float *data = vtb_optim_state(t->optim, i, &name);
    status = vtb_strbuf_check(&name, err);
    if (status == VTB_OK) status = bind(t, name.at, data, err);
  }
  for (int i = 0; i < t->n_moved && status == VTB_OK; i++) {
    if (!t->moved[i].average) continue;
    vtb_strbuf_format(&name, "ema/%s", t->bound.program->tensors[t->moved[i].buffer].name);
    status = vtb_strbuf_check(&name, err);
    if (status == VTB_OK) status = bind(t, name.at, t->moved[i].average, err);
  }
  vtb_strbuf_free(&name);
  return status;
}

vtb_status vtb__device_open(vtb_trainer *t, vtb_error *err) {
  vtb_bound *b = &t->bound;
  const vtb_program *p = b->program;
  int64_t wanted = VTB_SCALAR_RATES + 2 * (int64_t)t->n_trained;
  if (vtb_tensor_info_count(&p->tensors[b->scalars]) != wanted)
    return vtb_fail(err, VTB_E_INPUT,
                    "the training program updates another number of parameters than it has");
  vtb_status status = bind_all(t, err);
  for (int i = 0; i < p->n_tensors && status == VTB_OK; i++)
    if (p->tensors[i].io == VTB_IO_STATE && !b->args[i])
      status = vtb_fail(err, VTB_E_INPUT,
                        "the training program keeps %s, for which these settings have no use",
                        p->tensors[i].name);
  if (status != VTB_OK) return status;
  t->scalars = calloc((size_t)wanted, sizeof *t->scalars);
  if (!t->scalars) return vtb_no_memory(err, "the scalars of an update");
  b->args[b->scalars] = t->scalars;
  return VTB_OK;
}

void vtb__device_close(vtb_trainer *t) { free(t->scalars); }

vtb_status vtb__device_push(vtb_trainer *t, vtb_error *err) {
  return vtb_program_exchange(t->bound.program, t->bound.args, true, err);
}

vtb_status vtb__device_pull(vtb_trainer *t, vtb_error *err) {
  if (!t->stale) return VTB_OK;
  vtb_status status = vtb_program_exchange(t->bound.program, t->bound.args, false, err);
  t->stale = status != VTB_OK;
  return status;
}

vtb_status vtb__device_result(vtb_trainer *t, int64_t *correct, vtb_error *err) {
  const float *result = t->bound.args[t->bound.result];
  *correct = (int64_t)result[VTB_RESULT_CORRECT];
  if (result[VTB_RESULT_COUNTS] == 0)
    return vtb_optim_not_finite(t->optim, (int)result[VTB_RESULT_CULPRIT], err);
  t->grad_norm = (double)result[VTB_RESULT_NORM];
  vtb_optim_count(t->optim);
  t->stale = true;
  return VTB_OK;
}

/* The end of a measured training step: the update that `train` makes, AdamW with clipping. Programs
 * that update their parameters themselves (runtime/train/update.h) have it inside; after others the
 * host's optimiser runs. The learning rate is zero: the same work, and the numbers stay those of
 * the first step. */
#include "frontend/cli/bench_update.h"

#include "runtime/train/update.h"

#include <stdlib.h>
#include <string.h>

enum { CLIP_NORM = 1 };

static float *named(const vtb_program *p, void **buffers, const char *name) {
  int i = vtb_program_find(p, name);
  return i < 0 ? NULL : buffers[i];
}

bool cli_updates_itself(const vtb_program *p) {
  return vtb_program_find(p, VTB_UPDATE_SCALARS) >= 0;
}

vtb_status cli_update_open(const vtb_program *p, void **buffers, const vtb_services *s,
                           cli_update *u, vtb_error *err) {
  vtb_optim_config c = vtb_optim_defaults(VTB_OPTIM_ADAMW);
  int *trained = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *trained), n = 0;
  c.clip_norm = CLIP_NORM;
  *u = (cli_update){.program = p, .buffers = buffers, .inside = cli_updates_itself(p)};
  vtb_status status = vtb_optim_of_program(p, buffers, &c, s, trained, &n, &u->optim, err);
  vtb_free(trained);
  if (status != VTB_OK) return status;
  float *scale = named(p, buffers, VTB_LOSS_SCALE),
        *scalars = named(p, buffers, VTB_UPDATE_SCALARS);
  if (scale) *scale = 1;
  if (scalars) vtb_optim_scalars(u->optim, 0, scalars);
  return u->inside ? vtb_program_exchange(p, buffers, true, err) : VTB_OK;
}

void cli_update_close(cli_update *u) { vtb_optim_free(u->optim); }

vtb_status cli_update_step(cli_update *u, vtb_error *err) {
  return u->inside ? VTB_OK : vtb_optim_step(u->optim, 0, NULL, err);
}

vtb_status cli_update_check(const cli_update *u, vtb_error *err) {
  const float *result = named(u->program, u->buffers, VTB_UPDATE_RESULT);
  if (!result || result[VTB_RESULT_COUNTS] != 0) return VTB_OK;
  return vtb_optim_not_finite(u->optim, (int)result[VTB_RESULT_CULPRIT], err);
}

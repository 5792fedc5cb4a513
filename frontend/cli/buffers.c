/* Buffers for measuring a program without data. */
#include "frontend/cli/cli.h"
#include "runtime/base/objective.h"
#include "runtime/base/random.h"

#include <string.h>

/* A tensor that an update has beside its parameters is its optimiser's. */
static bool is_of_update(const vtb_program *p, const vtb_tensor_info *t) {
  return vtb_optim_is_inside(p) &&
         (t->io == VTB_IO_STATE || t->io == VTB_IO_UPDATE || vtb_starts_with(t->name, "update."));
}

void **cli_make_buffers(const vtb_program *p, vtb_error *err) {
  void **buffers = vtb_xcalloc((size_t)p->n_tensors, sizeof *buffers);
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    int64_t n = vtb_tensor_info_count(t);
    if (is_of_update(p, t)) continue;
    float *data = vtb_aligned_alloc((size_t)n * 4);
    if (!data) {
      vtb_fail(err, VTB_E_MEMORY, "out of memory for %s", t->name);
      return buffers;
    }
    buffers[i] = data;
    memset(data, 0, (size_t)n * 4);
    if (t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER) {
      if (vtb_init_tensor(t->init, t->name, 1, t->rank, t->dim, data, err) != VTB_OK)
        return buffers;
    } else if (t->io == VTB_IO_INPUT && strcmp(t->name, VTB_VALID) == 0 && !t->is_int) {
      for (int64_t k = 0; k < n; k++) data[k] = 1;
    } else if (!t->is_int && (t->io == VTB_IO_INPUT || t->io == VTB_IO_GRAD_IN)) {
      for (int64_t k = 0; k < n; k++) data[k] = (float)(2 * vtb_random_unit(7, (uint64_t)k) - 1);
    }
  }
  return buffers;
}

void cli_free_buffers(const vtb_program *p, void **buffers) {
  for (int i = 0; i < p->n_tensors; i++) vtb_free(buffers[i]);
  vtb_free(buffers);
}

vtb_status cli_measured_update(const vtb_program *p, void **buffers, vtb_optim **out,
                               vtb_error *err) {
  *out = NULL;
  if (!vtb_optim_is_inside(p)) return VTB_OK;
  vtb_optim_config config = {.clip_norm = 1, .ema_decay = vtb_optim_has_averages(p) ? 0.5 : 0};
  int scale = vtb_program_find(p, VTB_LOSS_SCALE);
  if (scale >= 0) *(float *)buffers[scale] = 1;
  VTB_TRY(vtb_optim_open(p, buffers, &config, out, err));
  vtb_optim_prepare(*out, 0, 1);
  return vtb_program_exchange(p, buffers, true, err);
}

double cli_measure_run(const vtb_program *p, const vtb_services *s, double seconds,
                       vtb_error *err) {
  void **buffers = cli_make_buffers(p, err);
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_optim *update = NULL;
  double each = 0;
  if (!workspace) vtb_fail(err, VTB_E_MEMORY, "out of memory for the workspace");
  if (!err->text[0] && cli_measured_update(p, buffers, &update, err) == VTB_OK &&
      vtb_program_execute(p, buffers, workspace, s, err) == VTB_OK) {
    double start = vtb_now();
    int runs = 0;
    do {
      if (vtb_program_execute(p, buffers, workspace, s, err) != VTB_OK) break;
      runs++;
    } while (vtb_now() - start < seconds);
    each = runs ? (vtb_now() - start) / runs : 0;
  }
  vtb_optim_free(update);
  cli_free_buffers(p, buffers);
  vtb_free(workspace);
  return each;
}

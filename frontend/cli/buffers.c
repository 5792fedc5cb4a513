/* Buffers for measuring a program without data. */
#include "runtime/base/random.h"
#include "frontend/cli/cli.h"

#include <string.h>

void **cli_make_buffers(const vtb_program *p, vtb_error *err) {
  void **buffers = vtb_xcalloc((size_t)p->n_tensors, sizeof *buffers);
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    int64_t n = vtb_tensor_info_count(t);
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

double cli_measure_run(const vtb_program *p, const vtb_services *s, double seconds,
                       vtb_error *err) {
  void **buffers = cli_make_buffers(p, err);
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  double each = 0;
  if (!workspace) vtb_fail(err, VTB_E_MEMORY, "out of memory for the workspace");
  if (!err->text[0] && vtb_program_execute(p, buffers, workspace, s, err) == VTB_OK) {
    double start = vtb_now();
    int runs = 0;
    do {
      if (vtb_program_execute(p, buffers, workspace, s, err) != VTB_OK) break;
      runs++;
    } while (vtb_now() - start < seconds);
    each = runs ? (vtb_now() - start) / runs : 0;
  }
  cli_free_buffers(p, buffers);
  vtb_free(workspace);
  return each;
}

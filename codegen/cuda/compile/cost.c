/* What kernels do, as far as they say so: see ../cost.h. */
#include "codegen/cuda/cost.h"
#include "codegen/cuda/plan/program.h"

const vtb_gpu *vtb_cuda_gpu(const vtb_cuda *c) {
  return c->options->gpu ? c->options->gpu : vtb_gpu_default();
}

static double larger(double a, double b) { return a > b ? a : b; }

void vtb_cuda_spend(vtb_cuda_kernel *k, const vtb_work *w) {
  for (int u = 0; u < VTB_N_TENSOR_UNITS; u++) k->work.tensor[u] += w->tensor[u];
  k->work.issue += w->issue;
  k->work.special += w->special;
  k->work.wavefronts += w->wavefronts;
  k->work.chain = larger(k->work.chain, w->chain);
  k->work.registers = larger(k->work.registers, w->registers);
}

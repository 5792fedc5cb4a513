/* delta on a GPU. */
#include "codegen/cuda/emitters.h"

void vtb__cuda_delta(vtb_cuda *c, const vtb_inst *inst) {
  vtb_cuda_unsupported(c, inst, "there is none yet");
}

/* The state of a training step that updates itself, as the kernels of its update see it (update.c).
 * */
#ifndef VTB_CODEGEN_CUDA_UPDATE_H
#define VTB_CODEGEN_CUDA_UPDATE_H

#include "codegen/cuda/plan/program.h"
#include "ir/update.h"

typedef struct vtb_cuda_update_group { /* one op update; in the program's arena */
  const vtb_inst *inst;
  vtb_update u;
  int *order;     /* tensors as they stand in a region */
  int64_t *slot;  /* of tensor i: elements from the beginning of each region */
  int64_t *begin; /* of region k (0: values, 1: gradients, 2: first state): bytes in the state */
  int64_t bytes;  /* of each region */
  struct vtb_cuda_update_group *next;
} vtb_cuda_update_group;

/* Buckets of the gradients that the verdict reads, in a plan with all its steps, and of n other
 * sums over ranks (buckets.c). */
void vtb__cuda_fill_buckets(const vtb_cuda *c, vtb_launch_plan *p, const vtb_launch_bucket *sums,
                            int n);

/* VTB_E_INTERNAL if regions or slots are not what update.c says of them; vtb__cuda_update_layout()
 * asks where checks are wanted (ir/checks.h). */
VTB_MUST_USE vtb_status vtb__cuda_layout_check(const vtb_cuda *c, vtb_error *err);

const vtb_cuda_update_group *vtb__cuda_group_of(const vtb_cuda *c, const vtb_inst *update);

#endif

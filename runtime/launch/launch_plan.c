/* Life of a launch plan, and what its programs say of themselves: see launch_plan.h. */
#include "runtime/launch/launch_plan.h"

vtb_status vtb_launch_plan_describe(vtb_launch_plan *p, vtb_program *program, vtb_error *err) {
  vtb_kernel_info *kernels = vtb_arena_try(&p->arena, (size_t)p->n_kernels + 1, sizeof *kernels);
  bool *resident = vtb_arena_try(&p->arena, (size_t)p->n_tensors + 1, sizeof *resident);
  if (!kernels || !resident) return vtb_no_memory(err, "the tables of a program");
  for (int i = 0; i < p->n_kernels; i++) kernels[i] = p->kernels[i].info;
  for (int i = 0; i < p->n_tensors; i++) resident[i] = vtb_launch_place(p, i) >= 0;
  program->n_tensors = p->n_tensors;
  program->tensors = p->tensors;
  program->resident = p->place ? resident : NULL;
  program->batch = p->batch;
  program->device_workspace_bytes = p->workspace_bytes;
  program->n_kernels = p->n_kernels;
  program->kernels = kernels;
  return VTB_OK;
}

void vtb_launch_plan_free(vtb_launch_plan *p) {
  if (!p) return;
  vtb_arena_free(&p->arena);
  vtb_free(p); /* the compiler makes plans too */
}

/* A plan of every kind of part, small enough to be understood: y = 2 x + 1 in two launches through
 * the workspace. */
#ifndef VTB_TEST_SAMPLE_PLAN_H
#define VTB_TEST_SAMPLE_PLAN_H

#include "runtime/launch/launch_plan.h"

static inline vtb_launch_arg sample_arg(int space, int tensor, int access, int value) {
  return (vtb_launch_arg){.space = (uint8_t)space,
                          .access = (uint8_t)access,
                          .element_bytes = 4,
                          .align = 16,
                          .tensor = tensor,
                          .value = value,
                          .bytes = 256,
                          .touched = 252};
}

static inline vtb_launch_kernel sample_kernel(const char *name, int threads, int shared_bytes) {
  return (vtb_launch_kernel){
      .name = name,
      .threads = threads,
      .shared_bytes = shared_bytes,
      .n_args = 2,
      .info = {.name = name, .ops = "mul", .origin = "model.vtb:7", .flops = 64, .launches = 1}};
}

static inline vtb_launch_plan *sample_plan(void) {
  vtb_launch_plan *p = vtb_xcalloc(1, sizeof *p);
  vtb_arena *a = &p->arena;
  vtb_arena_init(a);
  p->n_tensors = 2;
  p->tensors = VTB_NEW_ARRAY(a, vtb_tensor_info, 2);
  p->tensors[0] = (vtb_tensor_info){.name = "x", .io = VTB_IO_INPUT, .rank = 1, .dim = {64}};
  p->tensors[1] = (vtb_tensor_info){.name = "y", .io = VTB_IO_OUTPUT, .rank = 2, .dim = {1, 64}};
  p->batch = 1;
  p->workspace_bytes = 256;
  p->constant_bytes = 16;
  p->constants = vtb_arena_memdup(a, "0123456789abcdef", 16);
  p->common = "// common\n";
  p->n_sources = p->n_gemms = 1;
  p->sources = VTB_NEW_ARRAY(a, vtb_launch_source, 1);
  p->sources[0].text = "VTB_KERNEL(32, k_double)";
  p->gemms = VTB_NEW_ARRAY(a, vtb_launch_gemm, 1);
  p->gemms[0] = (vtb_launch_gemm){.m = 2,
                                  .n = 3,
                                  .k = 4,
                                  .batch = 1,
                                  .lda = 4,
                                  .ldb = 3,
                                  .ldc = 3,
                                  .trans_b = 1,
                                  .info = {.name = "cublaslt_0", .origin = "m.vtb:9"}};
  p->n_kernels = p->n_steps = 2;
  p->kernels = VTB_NEW_ARRAY(a, vtb_launch_kernel, 2);
  p->kernels[0] = sample_kernel("k_double", 32, 65536);
  p->kernels[1] = sample_kernel("k_add_one", 64, 0);
  p->kernels[0].arch = 90;
  p->kernels[0].cluster = 2;
  p->steps = VTB_NEW_ARRAY(a, vtb_launch_step, 2);
  p->steps[0] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 0, 2, 0, 2};
  p->steps[1] = (vtb_launch_step){VTB_LAUNCH_KERNEL, 1, 1, 2, 2};
  p->n_args = 4;
  p->args = VTB_NEW_ARRAY(a, vtb_launch_arg, 4);
  p->args[0] = sample_arg(VTB_LAUNCH_TENSOR, 0, VTB_LAUNCH_READ, 0);
  p->args[1] = sample_arg(VTB_LAUNCH_WORKSPACE, 0, VTB_LAUNCH_WRITE, 1);
  p->args[2] = sample_arg(VTB_LAUNCH_WORKSPACE, 0, VTB_LAUNCH_READ, 1);
  p->args[3] = sample_arg(VTB_LAUNCH_TENSOR, 1, VTB_LAUNCH_WRITE, 2);
  return p;
}

#endif

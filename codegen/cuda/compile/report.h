/* Tables for people: what each kernel of a plan needs on an architecture, and what a run
 * launches. */
#ifndef VTB_CODEGEN_CUDA_REPORT_H
#define VTB_CODEGEN_CUDA_REPORT_H

#include "codegen/cuda/compile/nvrtc.h"

/* Compiles the plan for `arch` (NULL: sm_90a). *n_spilling: kernels that keep registers in
 * memory. */
VTB_MUST_USE vtb_status vtb_cuda_report(const vtb_launch_plan *plan, const char *arch,
                                        const struct vtb_behaviour *how, vtb_strbuf *out,
                                        int *n_spilling, vtb_error *err);

/* A line a step in order, with the bytes of the tensors that it reads and writes, and their sums;
 * what is prepared is counted apart. */
void vtb_cuda_launches(const vtb_launch_plan *plan, vtb_strbuf *out);

#endif

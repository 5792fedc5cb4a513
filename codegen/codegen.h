/* IR to native code. Input: a module after the pipeline of its target (bound, fused, modes
 * selected); output: a vtb_program.
 *
 * Compilation is single-threaded per module; programs from different modules may be compiled on
 * different threads. Kernels are emitted once a distinct kernel function or structured instruction
 * shape, so that compile time does not grow with depth.
 */
#ifndef VTB_CODEGEN_H
#define VTB_CODEGEN_H

#include "passes/cost/gpu.h"
#include "passes/passes.h"
#include "passes/target.h"
#include "runtime/launch/launch_plan.h"
#include "runtime/vertebra.h"

typedef struct vtb_codegen_options {
  /* LLVM cpu name, NULL or "host": this machine's. "x86-64-v3" (AVX2), "x86-64-v4",
   * "aarch64" */
  const char *cpu;
  const char *arch;        /* of texts for GPUs: "compute_80", "sm_90a"; NULL: a default */
  bool no_opt;             /* compiles in a fifth of the time, runs longer */
  bool profile;            /* emit the kernel_begin / kernel_end calls */
  vtb_precision precision; /* of products, where the target knows several */
  bool int8;               /* products with parameters in numbers of 8 bits */
  bool library;            /* large products by the vendor's library instead of generated kernels */
  /* For tests: products by wgmma, clusters, indices of 64 bits wherever they can be, not where they
   * are faster or needed. */
  bool wgmma, clusters, far;
  int64_t bucket_bytes; /* of gradients, at most unless one tensor has more; 0: 25 MB */
  vtb_gpu gpu;          /* that launches are to be fast on; without a name: the default */
  vtb_behaviour how;    /* texts outlive the options */
} vtb_codegen_options;

/* Compiles entry `f` for this machine. On success *program is owned by the caller. */
VTB_MUST_USE vtb_status vtb_jit(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                                vtb_program **program, vtb_error *err);

/* The same as an object file: position-independent, with `symbol` (a vtb_entry_fn, hidden) for its
 * entry; only the C library is called. `about` has the tables of a vtb_program and no entry.
 * Everything is the arena's. */
typedef struct vtb_object {
  const char *data;
  size_t n_bytes;
  vtb_program about;
  vtb_arena arena;
} vtb_object;
VTB_MUST_USE vtb_status vtb_codegen_object(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                                           const char *symbol, vtb_object *out, vtb_error *err);
void vtb_object_free(vtb_object *o);

/* Text of what would run, for `vertebra dump --stage llvm|asm`. */
VTB_MUST_USE vtb_status vtb_codegen_text(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                                         bool assembly, vtb_strbuf *out, vtb_error *err);

/* ---- CUDA: docs/cuda.md ---------------------------------------------------------------------- */

/* Kernels and launches of entry `f`, whose module is rewritten on the way. On success *plan is
 * owned by the caller: vtb_launch_plan_free(). */
VTB_MUST_USE vtb_status vtb_cuda_plan(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                                      vtb_launch_plan **plan, vtb_error *err);

/* The text before a source of the plan: the intrinsics (an emulator has its own), then the
 * library. */
const char *vtb_cuda_intrinsics(void);
const char *vtb_cuda_library(void);

/* "znver3, 8 x f32"; fails without LLVM. */
VTB_MUST_USE vtb_status vtb_codegen_describe_host(vtb_strbuf *out, vtb_error *err);

#endif

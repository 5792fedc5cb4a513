/* Runs CUDA C on the CPU: the emitted source, with the emulator's intrinsics in place of the GPU's,
 * compiled by a host C++ compiler and loaded; threads are fibers, blocks are spread over the cores,
 * both in a shuffled order.
 *
 * A checked build (the default) sees every access: it finds accesses outside the arguments of the
 * launch, reads of shared memory nobody wrote, races on shared memory between barriers, and copies
 * read before their wait. Missing and divergent barriers and collectives are found in every build.
 * An error names kernel, block, thread and line.
 *
 * Ownership: an emulator owns its library until vtb_emulator_free(). Threads: one launch at a time
 * per emulator.
 */
#ifndef VTB_EMULATOR_H
#define VTB_EMULATOR_H

#include "codegen/emulator/abi.h"
#include "runtime/launch/launch_plan.h"

typedef struct vtb_emulator vtb_emulator;

typedef struct vtb_emulator_options {
  const char
      *compiler;  /* NULL: $VTB_CXX, $CXX, g++, clang++, c++: the first that is set or exists */
  bool unchecked; /* no checks of single accesses: several times faster */
  bool optimise;  /* compile longer, run faster; vtb_emulator_program() sets it for large plans */
  uint64_t seed;  /* of the order of blocks and threads */
} vtb_emulator_options;

typedef struct vtb_emulator_launch {
  const char *kernel;
  int64_t grid;
  int threads, shared_bytes, n_args;
  const vtb_emu_arg *args;
} vtb_emulator_launch;

/* False and why in `err`: there is no C++ compiler. o may be NULL. */
bool vtb_emulator_available(const vtb_emulator_options *o, vtb_error *err);

/* `text` is CUDA C behind the intrinsics and the library; `kernels` are the names of its __global__
 * functions. Compiled libraries are kept in the cache folder by content. o may be NULL. */
VTB_MUST_USE vtb_status vtb_emulator_new(const char *text, const char *const *kernels,
                                         int n_kernels, const vtb_emulator_options *o,
                                         vtb_emulator **out, vtb_error *err);
void vtb_emulator_free(vtb_emulator *e); /* NULL is fine */

/* s gives the threads; NULL: the caller's only. */
VTB_MUST_USE vtb_status vtb_emulator_run(vtb_emulator *e, const vtb_emulator_launch *l,
                                         const vtb_services *s, vtb_error *err);

/* A program whose runs walk the plan in the emulator (plan.c): tensors are copied to memory of
 * their own and back, the workspace is filled with NaN before every run. Takes the plan on success.
 * o may be NULL. */
VTB_MUST_USE vtb_status vtb_emulator_program(vtb_launch_plan *plan, const vtb_emulator_options *o,
                                             vtb_program **program, vtb_error *err);

#endif

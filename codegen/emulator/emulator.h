/* Runs CUDA C on the CPU: the emitted source, with the emulator's intrinsics in place of the GPU's,
 * compiled by a host C++ compiler and loaded; threads are fibers, blocks are spread over the cores,
 * both in a shuffled order.
 *
 * A checked build (the default) sees every access: it finds accesses outside the arguments of the
 * launch, reads of shared memory nobody wrote, races on shared memory between barriers, and copies
 * read before their wait. Missing and divergent barriers and collectives are found in every build.
 * Blocks of a cluster run together.
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
  bool counted;   /* for vtb_emulator_count(): accesses are counted, products left out */
  uint64_t seed;  /* of the order of blocks and threads */
  bool reversed;  /* blocks, warps and lanes run in the opposite of the seed's order */
} vtb_emulator_options;

typedef struct vtb_emulator_launch {
  const char *kernel;
  int64_t grid;
  int threads, shared_bytes, n_args;
  int cluster; /* blocks that run together; 0: one */
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

/* Costs of some blocks' accesses. A warp's access is the same instruction of its lanes; a sector is
 * 32 bytes, a line 128; the ideal is the sectors that the wanted bytes would fill. */
typedef struct vtb_emulator_counts {
  int64_t blocks;
  /* Global memory: accesses by warps, the distinct bytes, sectors and lines of each, summed. */
  int64_t accesses, useful, sectors, lines, ideal;
  /* The same of all a block's accesses together, reads and writes apart: what remains if the
   * multiprocessor's cache keeps everything. With `whole` of the blocks' together. */
  int64_t block_useful, block_sectors, block_ideal;
  bool whole;
  /* Shared memory: accesses by warps and their wavefronts, which are more than the least where
   * lanes want different words of one of the 32 banks. 8 bytes a lane go by half warps, 16 by
   * quarters. */
  int64_t shared, wavefronts, least_wavefronts;
  int64_t boxes;   /* of the accesses: rows of boxes, which no lanes make */
  int64_t partial; /* accesses of either memory in which not all lanes of the warp take part */
  int64_t lanes;   /* that took part in accesses */
  int64_t threads, idle; /* of the blocks; those that accessed no memory */
  int64_t lane_accesses;
  /* The line with the most sectors beyond its ideal, of those above twice; "" if there is none. */
  int64_t worst_sectors, worst_ideal;
  char worst[96];
} vtb_emulator_counts;

/* Runs some blocks of a launch (and those of their clusters), in order and (unless counts->whole)
 * until they have made some million accesses, and adds to *counts. The emulator must be counted. */
VTB_MUST_USE vtb_status vtb_emulator_count(vtb_emulator *e, const vtb_emulator_launch *l,
                                           const int64_t *blocks, int n,
                                           vtb_emulator_counts *counts, vtb_error *err);

/* A program whose runs walk the plan in the emulator (plan.c): tensors are copied to memory of
 * their own and back, the workspace is filled with NaN before every run. Takes the plan on success.
 * o may be NULL. */
VTB_MUST_USE vtb_status vtb_emulator_program(vtb_launch_plan *plan, const vtb_emulator_options *o,
                                             vtb_program **program, vtb_error *err);

#endif

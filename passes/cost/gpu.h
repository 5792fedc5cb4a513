/* GPUs as numbers, and what a launch on one of them takes: the model behind `vertebra dump
 * --estimate`, the choice of modes and of tiles. docs/cuda_cost.md says how it is meant, and how
 * far it can be trusted.
 *
 * A launch takes what its slowest resource takes, and what it costs to begin and end it:
 *
 *   seconds = launch + max(memory, L2, tensor cores, issue slots, special functions, wavefronts,
 *                          chain)
 *
 * but what a block does in phases of which one waits for the other adds up, as far as other blocks
 * of the multiprocessor do not fill the gaps: memory and computing of kernels that say so, tensor
 * cores and what is made of their results.
 *
 * All but memory and L2 belong to a multiprocessor: the one with most blocks decides, so that 133
 * equal blocks on 132 multiprocessors take as long as 264. How many blocks share one follows from
 * threads, shared memory and registers; few warps neither fill the issue slots nor keep enough
 * bytes under way. Everything is monotonic: more work never takes less.
 *
 * Units: bytes, seconds, hertz; counts are doubles, of a whole launch. Rows are constant and
 * outlive everything; a machine that was read from a file is the caller's. Any thread.
 */
#ifndef VTB_GPU_H
#define VTB_GPU_H

#include "runtime/base/base.h"

/* Who makes a product, and of what: a warp (mma.sync), or what is larger than one and reads shared
 * memory itself (wgmma, tcgen05); of 16-bit factors, or of tf32. Machines without the large ones
 * make them as the small ones. */
typedef enum vtb_tensor_unit {
  VTB_TENSOR_WARP_16,
  VTB_TENSOR_WARP_TF32,
  VTB_TENSOR_WIDE_16,
  VTB_TENSOR_WIDE_TF32,
  VTB_N_TENSOR_UNITS
} vtb_tensor_unit;

typedef struct vtb_gpu {
  char name[32], what[64];
  char arch[16]; /* whose own plans it runs (docs/hopper.md); empty: those for all */
  /* of a multiprocessor: clocks a second, and what can be resident */
  double processors, clock;
  double warps, blocks, registers, shared_bytes;
  /* of a multiprocessor and clock: instructions of a warp, results of special functions, accesses
   * to L1 or shared memory of 128 bytes */
  double issue, special, wavefronts;
  double tensor[VTB_N_TENSOR_UNITS]; /* flops a second of the whole machine, as programs reach it */
  /* of the whole machine, as programs reach it */
  double bytes, l2_bytes; /* a second, from memory and from L2 */
  double l2_size;
  double launch;  /* seconds from kernel to kernel in a graph, none of it work */
  double latency; /* seconds of an access to memory: what a launch takes at least beside that */
} vtb_gpu;

const vtb_gpu *vtb_gpus(size_t *n);
const vtb_gpu *vtb_gpu_find(const char *name); /* NULL: none has the name */
/* The machine of decisions where nobody says: h200. */
const vtb_gpu *vtb_gpu_default(void);
/* The default if g has no name. */
const vtb_gpu *vtb_gpu_or_default(const vtb_gpu *g);

/* Shared memory that each of so many blocks can have that are to share a multiprocessor. */
double vtb_gpu_block_shared(const vtb_gpu *g, int blocks);

/* A launch's work. Zero is the default of every field; nothing is known of registers at 0. */
typedef struct vtb_work {
  double blocks;
  double threads, shared_bytes, registers; /* of a block; registers of a thread */
  double bytes;                            /* read from and written to memory */
  double l2_bytes;                         /* read that lies in L2, not among `bytes` */
  double tensor[VTB_N_TENSOR_UNITS];       /* flops, multiply and add */
  double issue;                            /* instructions of warps, those of products among them */
  double special;                          /* results: an exponential is one */
  double wavefronts;                       /* accesses to L1 and shared memory, 128 bytes each */
  double chain;                            /* clocks that a block takes at least */
  double flight; /* bytes that a block keeps under way; 0: two loads of 16 bytes a lane */
  /* The part of `issue` that a block's warps still have to do when its tensor cores have ended. */
  double after;
  bool phases; /* a block brings all it needs, then computes: one waits for the other */
} vtb_work;

typedef enum vtb_limit {
  VTB_LIMIT_LAUNCH, /* nothing takes as long as beginning and ending it */
  VTB_LIMIT_MEMORY,
  VTB_LIMIT_L2,
  VTB_LIMIT_TENSOR,
  VTB_LIMIT_ISSUE,
  VTB_LIMIT_SPECIAL,
  VTB_LIMIT_WAVEFRONTS,
  VTB_LIMIT_CHAIN,
  VTB_N_LIMITS
} vtb_limit;
extern const char *const vtb_limit_names[VTB_N_LIMITS];

typedef struct vtb_launch_time {
  double seconds;
  vtb_limit limit;
  double by[VTB_N_LIMITS]; /* seconds that each would take alone */
  int resident;            /* blocks that share a multiprocessor, at most */
  double waves;            /* of resident blocks; 1: all run at once */
} vtb_launch_time;
vtb_launch_time vtb_gpu_time(const vtb_gpu *m, const vtb_work *w);

/* A product of matrices by the vendor's library: batch times rows x depth by depth x columns, by
 * large tensor-core operations where there are any; of fp32, VTB_N_TENSOR_UNITS, by multiply-adds
 * of lanes. Bytes as in vtb_work. */
vtb_launch_time vtb_gpu_gemm(const vtb_gpu *g, double rows, double columns, double depth,
                             double batch, vtb_tensor_unit unit, double bytes, double l2_bytes);

#endif

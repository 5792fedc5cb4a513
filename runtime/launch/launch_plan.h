/* A compiled CUDA program as plain data: kernels, and the line of launches that one run is, with
 * loops in it.
 *
 * The compiler (codegen/cuda) makes it; the runtime walks it on a stream or captures it in a graph;
 * the CUDA-on-CPU emulator walks it with host code; the checker proves that it stays inside its
 * memory and the architecture's limits. Everything is an array of structs without pointers into
 * other structs, except texts, so that writing it to a file is writing its arrays. Ownership: the
 * plan owns all it points to until vtb_launch_plan_free().
 *
 * Memory of a run: one buffer a tensor (arguments, then returns; 256-byte aligned), the workspace
 * (256-byte aligned, contents undefined at the start), the constants (256-byte aligned, read only)
 * and, of plans that update parameters (runtime/base/update.h), the state (256-byte aligned, zero
 * at first), which stays from run to run and in which tensors may have their place. Steps run one
 * after another in order: step i sees everything steps before it wrote, and in a loop what its turn
 * before wrote. A run whose parameters and
 * buffers are those of the run before, in the same workspace, may begin behind the prepared steps.
 */
#ifndef VTB_LAUNCH_PLAN_H
#define VTB_LAUNCH_PLAN_H

#include "runtime/launch/program.h"

/* A translation unit: kernels, behind the intrinsics, the library and the plan's common text. */
typedef struct vtb_launch_source {
  const char *text;
} vtb_launch_source;

/* Blocks of a cluster, as every device of sm_90a takes them. */
enum { VTB_LAUNCH_CLUSTER = 8 };
/* One __global__ function. Blocks and grids are one-dimensional. All shared memory is dynamic. */
typedef struct vtb_launch_kernel {
  const char *name; /* of the function */
  int32_t source;
  int32_t threads;      /* of a block; a multiple of 32, also its __launch_bounds__ */
  int32_t shared_bytes; /* dynamic */
  int32_t n_args;       /* pointers and maps, no scalars */
  int32_t arch;         /* 0: any; 90: sm_90a alone */
  int32_t cluster;      /* blocks that run together (sm_90a), neighbours in the grid; 0: one */
  vtb_kernel_info info; /* for profiles and messages; `name` is the same */
} vtb_launch_kernel;

typedef enum vtb_launch_space {
  VTB_LAUNCH_TENSOR,
  VTB_LAUNCH_WORKSPACE,
  VTB_LAUNCH_CONSTANT,
  VTB_LAUNCH_STATE
} vtb_launch_space;
enum { VTB_LAUNCH_READ = 1, VTB_LAUNCH_WRITE = 2 };

/* A pointer: base of the space + offset. The kernel touches no byte outside [offset, offset +
 * bytes), and `touched` of these at most: q of a joined qkv tensor is a third of its range. */
typedef struct vtb_launch_arg {
  uint8_t space, access; /* vtb_launch_space; READ, WRITE or both */
  uint8_t element_bytes; /* 4: f32, i32; 2: bf16; 8: f64 */
  uint8_t align;         /* bytes the kernel relies on: 4, 8 or 16 */
  int32_t tensor;        /* number in the plan's tensors, for VTB_LAUNCH_TENSOR */
  /* what is stored there: equal numbers are one SSA value (or one temporary) and its views. A read
   * that finds bytes last written for another value is an overlap of live memory. Negative:
   * constants, and the state as a whole, of whatever values. */
  int32_t value;
  int64_t offset, bytes, touched;
  int32_t map; /* 0: a pointer; else that map, counted from 1, whose tensor begins there */
} vtb_launch_arg;

/* A tensor whose boxes kernels copy at once (TMA): 128 bytes of the driver's making, passed by
 * value. Innermost first; sizes and boxes in elements, strides in bytes; the innermost is dense and
 * has no stride. */
enum { VTB_LAUNCH_MAP_RANK = 5, VTB_LAUNCH_MAP_BYTES = 128 };
typedef struct vtb_launch_map {
  int64_t size[VTB_LAUNCH_MAP_RANK], stride[VTB_LAUNCH_MAP_RANK];
  int32_t box[VTB_LAUNCH_MAP_RANK];
  int32_t rank, element_bytes; /* 2 to 5; 2 or 4 */
  int32_t swizzle;             /* bytes of the box's rows in shared memory that are turned, or 0 */
} vtb_launch_map;

typedef enum vtb_launch_kind { VTB_LAUNCH_KERNEL, VTB_LAUNCH_GEMM } vtb_launch_kind;

typedef struct vtb_launch_step {
  int32_t kind;              /* vtb_launch_kind */
  int32_t index;             /* of the kernel or gemm */
  int64_t grid;              /* blocks, for a kernel; at most 2^31 - 1 */
  int32_t first_arg, n_args; /* in the plan's args */
} vtb_launch_step;

/* Steps [first, first + n) run `times` times. Addresses are the same in each turn: what changes
 * from turn to turn lies in memory, a number that counts the turns among it (codegen/cuda/plan/
 * fold.c). Loops nest or are apart; they stand in the order of their first steps, outer ones before
 * those inside. */
enum { VTB_LAUNCH_DEPTH = 8 };
typedef struct vtb_launch_loop {
  int32_t first, n;
  int64_t times; /* at least 1 */
  /* 0: all turns run. Else an argument, counted from 1: an i32 that is read before the first turn.
   * n > 0: it is read again after n turns; 0: the loop ends; n < 0: it ends after -n turns. After
   * `times` turns it ends in any case. */
  int32_t condition;
} vtb_launch_loop;

/* For cublasLt: C[b] = op(A[b]) op(B[b]) + beta C[b] (+ bias along columns), row-major f32, leading
 * dimensions and batch strides in elements. Arguments of the step: A, B, C and, if has_bias, the
 * bias [n]. */
typedef struct vtb_launch_gemm {
  int64_t m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c;
  uint8_t trans_a, trans_b, has_bias, accumulate; /* accumulate: beta = 1 */
  uint8_t precision; /* of the factors: 0 fp32, 1 tf32, 2 bf16, 3 fp16 */
  /* A and B; C and the bias: 16 bits in memory, of that format */
  uint8_t narrow_factors, narrow_result;
  vtb_kernel_info info; /* for profiles and messages */
} vtb_launch_gemm;

/* Gradients in the state that are whole behind step `step`, which is in no loop: nothing writes
 * there afterwards, and nothing reads them before it but what adds to them. A range of its own, so
 * that to sum it up over devices is one call; in the order of their steps. */
typedef enum vtb_launch_where {
  VTB_BUCKET_STATE,
  /* a sum within a step that several ranks run: the steps behind read what is there then. Of n
   * floats in the workspace, or in tensor `tensor` */
  VTB_BUCKET_WORKSPACE,
  VTB_BUCKET_TENSOR
} vtb_launch_where;
typedef struct vtb_launch_bucket {
  int64_t offset, bytes; /* in the state, multiples of 256 */
  int32_t step, n_tensors;
  int32_t where, tensor; /* vtb_launch_where */
} vtb_launch_bucket;

typedef struct vtb_launch_plan {
  int32_t n_tensors; /* arguments first, then returns: as in a vtb_program */
  vtb_tensor_info *tensors;
  /* one a tensor: its first byte in the state, or -1: a buffer of its own. NULL: all -1 */
  int64_t *place;
  int64_t batch;
  int64_t workspace_bytes, constant_bytes, state_bytes;
  unsigned char *constants;
  int32_t n_sources, n_kernels, n_gemms, n_steps, n_loops, n_args, n_maps, n_buckets;
  /* of the steps, the first: what they write stays valid while parameters and buffers do */
  int32_t n_prepared;
  /* device functions that the sources share; goes before each, or once before all */
  const char *common;
  vtb_launch_source *sources;
  vtb_launch_kernel *kernels;
  vtb_launch_gemm *gemms;
  vtb_launch_step *steps;
  vtb_launch_loop *loops;
  vtb_launch_arg *args;
  vtb_launch_map *maps;
  vtb_launch_bucket *buckets; /* of training steps that update themselves */
  /* one a kernel, of its first launch, while the compiler has the plan (passes/cost/gpu.h); else
   * NULL */
  const struct vtb_work *work;
  vtb_arena arena; /* owns all of the above */
} vtb_launch_plan;

void vtb_launch_plan_free(vtb_launch_plan *p); /* NULL is fine; the struct too */
/* Where tensor i stands in the state, or -1. */
static inline int64_t vtb_launch_place(const vtb_launch_plan *p, int i) {
  return p->place ? p->place[i] : -1;
}
static inline const vtb_kernel_info *vtb_launch_info(const vtb_launch_plan *p,
                                                     const vtb_launch_step *s) {
  return s->kind == VTB_LAUNCH_KERNEL ? &p->kernels[s->index].info : &p->gemms[s->index].info;
}
/* Bytes that a step reads and writes, each counted once whichever arguments reach it. */
typedef struct vtb_launch_traffic {
  int64_t read, written;
} vtb_launch_traffic;
vtb_launch_traffic vtb_launch_traffic_of(const vtb_launch_plan *p, const vtb_launch_step *s);
/* The description of a program that runs the plan; tables are the plan's. Its kernels are the
 * plan's, and behind them its library products. */
VTB_MUST_USE vtb_status vtb_launch_plan_describe(vtb_launch_plan *p, vtb_program *program,
                                                 vtb_error *err);

#endif

/* The table of targets. */
#include "passes/target.h"

/* From a module of the graph to fused kernels, on every machine. The first cleaning is for what
 * autodiff leaves, so that the batch is bound in little code; the second for the reductions and
 * reshapes that a known batch turns into nothing; the third for the reshapes that split_rows puts
 * around what it widens: two that meet are none, and what they read becomes equal. */
#define BOUND "simplify,cse,dce,fold_split,fold_tile,bind,select_mode,simplify,cse,dce"
#define BEFORE_FUSION "add_in_product,split_rows,simplify,cse,dce,grow{of everywhere}"
#define KERNELS BOUND "," BEFORE_FUSION ",quantize,fuse"

/* On processors runs of inference keep what is made of parameters alone, weights in panels too. */
#define KEPT "pack{of inference},hoist{of inference},prepare{of inference}"

/* Where memory is the limit, of the graph, differentiated or not. */
#define FEWER_READERS "compose_weights"

/* With tensor cores: how products round, which decides what memory holds; epilogues take kernels
 * that are fused. What is prepared comes last, because casts are. */
#define TENSOR_CORES                                                                               \
  FEWER_READERS                                                                                    \
  "," BOUND ",add_in_callee," BEFORE_FUSION ",join_blocks,split_thin,precision,fuse_norms,"        \
  "grow{of ops},fuse,grow{of channels},grow{of products},library,"                                 \
  "copy_for_scans,grow{of scans},storage,hoist,gather,prepare"

/* A cache line, and the widest vector; code asks no more of a tensor than its elements. */
#define CPU_PLACES                                                                                 \
  { .frame_align = 64, .tensor_align = 4, .kept = true }
/* The driver's alignment of memory, and the widest access of a thread. */
#define CUDA_PLACES                                                                                \
  {                                                                                                \
    .frame_align = 256, .tensor_align = 16, .strided_rows = true, .channels_last = true,           \
    .small_bytes = 2 << 20                                                                         \
  }

enum { FP32 = 1u << VTB_PRECISION_FP32, EVERY_PRECISION = (1u << VTB_N_PRECISIONS) - 1 };

/* Measured (docs/results/recurrences.md): a step of a decay a key or value loads and stores the
 * state, 5.5 a number; other forms pay 50 a row or column for the decays inside sub-blocks, 0.9 a
 * number to move the state for every sub-block, and 1.4 times the plain price for pairs of tokens.
 * The adjoint of a step costs more than twice a step. */
#define VECTOR_SCANS                                                                               \
  .vector = {.own = 50, .pair = 1.4, .state = 2.9, .step = 5.5, .chunk = 32},                      \
  .vector_grad = {                                                                                 \
      .own = 50, .pair = 1.4, .state = 2.9, .step = 12.38, .chunk = 64, .chunks = true}

/* Measured (docs/results/modes.md): chunks of 16 are the fastest for states from 32 x 32 to
 * 96 x 96, of 16 to 32 in the adjoint, which keeps the state of every chunk; steps where states are
 * small. */
#define CPU_SCANS                                                                                  \
  .matrix = {.pair = 1, .state = 1.75, .turn = 4, .step = 2.6},                                    \
  .matrix_grad = {.pair = 1, .state = 1.6, .turn = 12}, VECTOR_SCANS

/* Measured likewise (tests/bench/delta.c). */
#define CPU_DELTAS                                                                                 \
  .delta = {.own = 25, .pair = 1, .state = 2, .step = 3.8, .chunk = 32},                           \
  .delta_vector = {.own = 30, .pair = 1.4, .state = 2.9, .step = 4.6, .chunk = 32}

/* One kernel in chunks of its own, whatever the length. */
#define CUDA_DELTAS                                                                                \
  .delta = {.pair = 1, .state = 2, .chunk = 64, .chunks = true},                                   \
  .delta_vector = {.pair = 1, .state = 2, .chunk = 64, .chunks = true}

/* Rows and states of a task stay in the caches, and a task more is a few hundred nanoseconds. */
#define CPU_COSTS                                                                                  \
  {                                                                                                \
    CPU_SCANS, CPU_DELTAS, .fold = {.samples = 8, .tiles = 4, .work = 2e6 }                        \
  }

/* Decays a key or value run step by step whatever is chosen. */
#define CUDA_COSTS                                                                                 \
  {                                                                                                \
    .by_launches = true, VECTOR_SCANS, CUDA_DELTAS, .fold = {                                      \
      .samples = 1,                                                                                \
      .tiles = INT64_MAX,                                                                          \
      .work = 1e6,                                                                                 \
      .one_body = true                                                                             \
    }                                                                                              \
  }

/* Between what cores with 8 and with 16 lanes reach: docs/results/modes.md and cpu.md there. */
#define CPU_SPEEDS                                                                                 \
  { .flops = {[VTB_PRECISION_FP32] = 80e9}, .bytes = 40e9, .launch = 1e-6 }
#define CUDA_CODE                                                                                  \
  .graph = FEWER_READERS, .pipeline = TENSOR_CORES, .places = CUDA_PLACES, .costs = CUDA_COSTS,    \
  .memory_bound = true, .tells_gradients = true, .precisions = EVERY_PRECISION

static const vtb_target table[] = {
    {.name = "interp",
     .summary = "the interpreter, in double precision",
     .pipeline = "bind,select_mode",
     .costs = CPU_COSTS,
     .speeds = CPU_SPEEDS,
     .precisions = FP32,
     .in_double = true},
    {.name = "cpu",
     .summary = "native code of this machine or another of its kind, by LLVM",
     .pipeline = KERNELS "," KEPT,
     .places = CPU_PLACES,
     .panels = {.columns = VTB_PANEL, .rows = 8, .terms = 16},
     .costs = CPU_COSTS,
     .speeds = CPU_SPEEDS,
     .precisions = FP32,
     .int8 = true},
    {.name = "cuda-emulated",
     .summary = "the kernels of target cuda, run and checked on the CPU",
     .needs = "a C++ compiler",
     CUDA_CODE},
    {.name = "cuda",
     .summary = "CUDA C, compiled by NVRTC for the GPU at hand",
     .needs = "an NVIDIA GPU",
     CUDA_CODE},
};
enum { N_TARGETS = sizeof table / sizeof *table };

const vtb_target *vtb_targets(size_t *n) {
  *n = N_TARGETS;
  return table;
}

const vtb_target *vtb_target_find(const char *name) {
  for (size_t i = 0; i < N_TARGETS; i++)
    if (vtb_streq(table[i].name, name)) return &table[i];
  return NULL;
}

/* ---- precisions ------------------------------------------------------------------------------ */

const char *const vtb_precision_names[VTB_N_PRECISIONS] = {"fp32", "tf32", "bf16", "fp16",
                                                           "bf16-all"};

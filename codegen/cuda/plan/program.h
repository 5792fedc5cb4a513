/* Between the files of codegen/cuda: the program under construction. Emitters include cuda.h
 * only. */
#ifndef VTB_CODEGEN_CUDA_PROGRAM_H
#define VTB_CODEGEN_CUDA_PROGRAM_H

#include "codegen/body/body.h"
#include "codegen/codegen.h"
#include "codegen/cuda/compile/text.h"
#include "codegen/cuda/cuda.h"
#include "ir/narrow.h"
#include "passes/cost/gpu.h"
#include "codegen/steps.h"

/* Where a pointer points, as far as a function knows: its arguments and frame are placed when it is
 * called. */
typedef enum vtb_cuda_place {
  VTB_CUDA_ARG,   /* argument `index` of the function, then its returns */
  VTB_CUDA_FRAME, /* the function's frame: planned values */
  VTB_CUDA_TAIL,  /* behind it: copies of call operands, temporaries of one instruction */
  VTB_CUDA_CONSTANT,
  VTB_CUDA_STATE
} vtb_cuda_place;

typedef struct vtb_cuda_ref {
  vtb_cuda_place place;
  int index, value; /* value: id in the function; negative for constants */
  int access;
  int element; /* bytes of one; 0: 4 */
  int64_t offset, bytes;
  int64_t touched;           /* of `bytes`; 0: all */
  const vtb_launch_map *map; /* NULL: a pointer */
} vtb_cuda_ref;

/* A launch of `kernel`, a call of `callee`, a sum over ranks of its one tensor, the beginning of
 * `times` turns or the end of one, or else a product by the library. */
typedef struct vtb_cuda_step {
  vtb_cuda_kernel *kernel;
  const struct vtb_cuda_func *callee;
  bool sum, ends_turn;
  int64_t times;
  int gemm;
  int64_t frame; /* of a call: bytes behind the tail's beginning */
  int64_t grid;
  int n_refs;
  vtb_cuda_ref *refs; /* in the program's arena */
} vtb_cuda_step;

typedef struct vtb_cuda_func {
  const vtb_func_steps *steps_of;
  int n_values; /* ids given, temporaries included */
  int64_t tail_bytes, total_bytes;
  VTB_VEC(vtb_cuda_step) steps;
  size_t n_prepared; /* of the steps, the first */
  int64_t turn;      /* bytes of the tail behind the temporaries of the last instruction */
} vtb_cuda_func;

typedef struct vtb_cuda_param { /* of a kernel under construction */
  const char *name;
  vtb_cuda_ref ref;
} vtb_cuda_param;

/* A piece of a result that a kernel under construction writes. */
typedef struct vtb_cuda_stored {
  const char *param;
  const vtb_value *value;
  int64_t offset;
} vtb_cuda_stored;

struct vtb_cuda_kernel {
  vtb_cuda *c;
  const char *kind;
  int threads, indent;
  int64_t shared_bytes;
  vtb__text of; /* the text whose holes are being filled; without a file: the body is written */
  vtb_strbuf shared, body;
  VTB_VEC(vtb_cuda_param) params;
  VTB_VEC(vtb_cuda_stored) stored;
  vtb_strbuf signature; /* "VTB_IN(float) a0, VTB_OUT(float) r0" */
  vtb_work work;        /* of a launch (cost.h) */
  bool spent;           /* something was said of it */
  /* once finished */
  const char *label; /* of all steps that it serves */
  const char *text;  /* arguments and body */
  int number, n_args, launches;
  int arch, cluster; /* as in vtb_launch_kernel */
  int together;
  const char *ops;
  char origin[160];
  double flops;
};

/* The instruction being emitted. */
typedef struct vtb_cuda_unit {
  const vtb_inst *inst; /* NULL: no instruction, but: */
  bool copies;          /* an operand of it, into another order */
  const char *what, *label;
  int n_operands, n_results;
  vtb_cuda_tensor *t;
  vtb_cuda_ref *ref;
  VTB_VEC(vtb_cuda_ref) temps;
  int64_t tail_bytes; /* of the tail, with those of temps */
} vtb_cuda_unit;

struct vtb_cuda {
  const vtb_codegen_options *options;
  vtb_steps steps;
  VTB_VEC(vtb_cuda_func) funcs;
  vtb_cuda_func *func; /* under construction */
  vtb_cuda_unit unit;
  vtb_map kernels; /* kind, threads and text -> vtb_cuda_kernel */
  VTB_VEC(vtb_cuda_kernel *) kernel_list;
  VTB_VEC(vtb_launch_gemm) gemms;
  vtb_map includes; /* file -> its text, in the order they were asked for */
  vtb_strbuf constants;
  vtb_map constant_at;                  /* bytes as hexadecimal text -> offset + 1 */
  struct vtb_cuda_update_group *groups; /* update.h; NULL: the plan only computes */
  int64_t state_bytes;                  /* theirs */
  vtb_error *err;
  bool failed;
  vtb_arena arena;
};

const char *vtb__cuda_type_name(vtb_dtype d); /* of an element in memory */
/* How the products of the instruction that is emitted, or of what is inside its kernel, round. */
vtb_factors vtb__cuda_factors(const vtb_cuda *c);
/* The element type of tiles for them: 16 bits where they round so, which ldmatrix takes as they
 * are. */
const char *vtb__cuda_tile_type(const vtb_cuda *c);
/* Bytes in the program's constants, 16-byte aligned; equal ones are shared. Returns the offset. */
int64_t vtb__cuda_constant(vtb_cuda *c, const void *data, size_t n_bytes);
/* The kernel's work, when its text is whole, if it is launched with `blocks`. */
void vtb__cuda_cost(vtb_cuda_kernel *k, int64_t blocks);
/* Adds the work of w's blocks of a text, as it declares it; false: it declares nothing. */
bool vtb__cuda_add_declared(vtb_cuda *c, vtb__text *t, vtb_work *w);
/* At least so many registers of a thread. */
void vtb__cuda_registers(vtb_cuda_kernel *k, int64_t registers);
/* The kernel is given up, with its text. */
void vtb__cuda_discard(vtb_cuda_kernel *k);
/* Declares tensor `t` as argument `name` unless it is one; access READ or WRITE. */
void vtb__cuda_use(vtb_cuda_kernel *k, int t, const char *name, int access);
void vtb__cuda_use_temp(vtb_cuda_kernel *k, int temp, const char *type, const char *name,
                        int access);
void vtb__cuda_use_ref(vtb_cuda_kernel *k, vtb_cuda_ref ref, const char *type, const char *name,
                       int access);

/* The kernel touches only so many elements of parameter `name`. */
void vtb__cuda_touches(vtb_cuda_kernel *k, const char *name, int64_t elements);
/* The kernel writes `value` from element `offset` of parameter `name` on; what it writes is what it
 * touches. */
void vtb__cuda_stores(vtb_cuda_kernel *k, const char *name, const vtb_value *value, int64_t offset);

/* A unit of kernels that serve no instruction: `what` they do, for profiles. */
void vtb__cuda_begin_unit(vtb_cuda *c, const char *what);
/* The unit of a step; its instruction's tensors are the step's. */
void vtb__cuda_begin_step(vtb_cuda *c, const vtb_step *step);
void vtb__cuda_end_unit(vtb_cuda *c);
/* The function's tail has at least so many bytes. */
void vtb__cuda_take_tail(vtb_cuda *c, int64_t bytes);

/* ---- update.c: a training step's state ----------------------------------------------------- */
/* Regions for the tensors of the entry's updates. */
void vtb__cuda_update_layout(vtb_cuda *c, const vtb_func *entry);
/* Everyone's place in the state, in a plan with the entry's tensors. */
void vtb__cuda_place_tensors(const vtb_cuda *c, vtb_launch_plan *p);

/* ---- places (place.c) ------------------------------------------------------------------------ */
void vtb__cuda_refs(vtb_cuda *c, const vtb_spot *spots, int n, vtb_cuda_ref *out);
int vtb__cuda_element(const vtb_cuda_ref *r); /* bytes */
/* In elements. Arguments of functions and tensors of the program start at multiples of 16 bytes, as
 * do frames and temporaries. */
int vtb__cuda_align(const vtb_cuda_ref *r);

/* ---- steps (program.c, fold.c, fold_step.c, expand.c) ---------------------------------------- */
void vtb__cuda_emit_copy(vtb_cuda *c, const vtb_step *step);
/* With the callee's frame `frame` bytes behind the tail's beginning. */
void vtb__cuda_emit_call(vtb_cuda *c, const vtb_func *callee, int64_t frame, const vtb_spot *spots,
                         int n);
void vtb__cuda_emit_fold(vtb_cuda *c, const vtb_step *step);
/* What is between begin and end runs `times` times, at the same addresses; condition, unless NULL,
 * as of vtb_launch_loop. */
void vtb__cuda_begin_loop(vtb_cuda *c, int64_t times, const vtb_cuda_ref *condition);
void vtb__cuda_end_loop(vtb_cuda *c);
/* jobs.c: small launches of the function that do not depend on one another become one. */
void vtb__cuda_join_jobs(vtb_cuda *c, vtb_cuda_func *f);
/* Kernels that no step launches any more. */
void vtb__cuda_drop_kernels(vtb_cuda *c);
/* pixels.c: the kernel that makes the image of bytes, in a plan with the entry's tensors. */
void vtb__cuda_pixels(vtb_cuda *c, const vtb_launch_plan *p);
vtb_launch_plan *vtb__cuda_expand(vtb_cuda *c, const vtb_func *entry);

/* A kernel of an einsum and elementwise ops on it (passes/fuse/grow.c). */
void vtb__cuda_product(vtb_cuda *c, const vtb_inst *fused);

/* A product by the library: tensors[] are numbers of the unit's tensors, a, b, c and the bias (or
 * -1). */
void vtb__cuda_gemm(vtb_cuda *c, const vtb_launch_gemm *g, const int tensors[4]);

/* Emitters over a body of ops (fused.c). */
void vtb__cuda_body(vtb_cuda *c, const vtb_inst *inst);
/* Tensor `from` of the unit to tensor `to`; `value` gives the type. */
void vtb__cuda_copy(vtb_cuda *c, const vtb_value *value, int from, int to);

#endif

/* Between the files of codegen/: kernels under construction, the host program, the LLVM side. Not
 * for other folders. */
#ifndef VTB_CODEGEN_HOST_H
#define VTB_CODEGEN_HOST_H

#include "codegen/body/body.h"
#include "codegen/cpu/cpu.h"
#include "codegen/steps.h"

/* One task of a kernel, launched over [0, n). */
typedef struct vtb_cpu_step {
  LLVMValueRef fn;
  int64_t n, grain;
} vtb_cpu_step;

/* Code that equal instructions share. Its closure in memory: services, a pointer an operand and
 * result, temporaries. */
struct vtb_cpu_kernel {
  char *key;
  char *name; /* "row_12" */
  int number;
  const char *label; /* of all steps that it serves */
  char *ops;
  const vtb_inst *inst; /* the first that used it, whose names its values take; NULL: a copy */
  int n_operands, n_results;
  const vtb_type **types; /* operands, then results */
  int64_t (*stride)[VTB_MAX_RANK];
  int64_t temp_bytes;
  VTB_VEC(vtb_cpu_step) steps;
  /* for vtb_kernel_info, from the first instruction that used it */
  char origin[160];
  double flops, bytes;
  int launches;
};

/* Instructions of equal shape that share their tasks: see vtb__join_begin(). */
typedef struct vtb_cpu_joint {
  bool on;
  VTB_VEC(vtb_cpu_task *) tasks; /* all open */
  size_t next;                   /* the one that the instruction at hand takes next */
} vtb_cpu_joint;

typedef struct vtb_host_table {
  void *data;
  size_t n_bytes;
  LLVMValueRef global;
} vtb_host_table;

typedef struct vtb_host_func { /* once printed */
  LLVMValueRef fn;
  int64_t total_bytes; /* of workspace, callees included */
} vtb_host_func;

struct vtb_host {
  vtb_cpu cpu;
  const vtb_codegen_options *options;
  vtb_module *ir;
  vtb_steps steps;
  vtb_host_func *funcs; /* as the steps number them */
  LLVMTypeRef task_type, host_type;
  vtb_map kernels; /* key -> vtb_cpu_kernel */
  VTB_VEC(vtb_cpu_kernel *) kernel_list;
  VTB_VEC(vtb_host_table) tables;
  int n_texts;       /* of kernels, that have been linked */
  vtb_cpu_task task; /* the one under construction */
  vtb_cpu_joint joint;
  vtb_arena arena;
};

/* The whole program as LLVM IR; entry is an external function `vtb_entry`. */
VTB_MUST_USE vtb_status vtb__host_build(vtb_host *h, vtb_func *entry, vtb_error *err);
void vtb__host_init(vtb_host *h, vtb_module *m, const vtb_codegen_options *o, int width);
void vtb__host_free(vtb_host *h); /* the LLVM module and context too, unless taken (set NULL) */

/* Everything that decides a kernel's code, as text. */
void vtb__kernel_key(const vtb_inst *inst, const vtb_cpu_kernel *k, vtb_strbuf *out);

LLVMValueRef vtb__const_bytes(vtb_cpu *c, const void *data, size_t n_bytes);

/* Generic emitters over a body of ops (codegen/cpu/loop/fused.c). */
void vtb__cpu_body(vtb_cpu *c, const vtb_inst *inst);
/* The whole kernel is a copy of operand 0 to result 0; `value` gives the type. */
void vtb__cpu_copy(vtb_cpu *c, const vtb_value *value);

/* A function of the program alone, called and not made part of its callers, for whole vectors. */
void vtb__own_function(vtb_cpu *c, LLVMValueRef fn);
/* A task without an instruction. */
vtb_cpu_task *vtb__task_begin(vtb_cpu *c, const char *kind, int64_t n, int64_t grain);

/* Between begin and end, with next before each instruction but the first: the i-th tasks of all
 * instructions are one task, body behind body at the same index, so that what one has read the next
 * finds in the cache. They share scratch memory, not temporaries. All must begin the same tasks. */
void vtb__join_begin(vtb_cpu *c);
void vtb__join_next(vtb_cpu *c);
void vtb__join_end(vtb_cpu *c);

/* The program's tables for the runtime (codegen/describe.c). */
void vtb__describe_program(vtb_host *h, vtb_func *entry, vtb_program *p, vtb_arena *arena);

#endif

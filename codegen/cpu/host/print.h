/* Between the files that print host functions: the one under construction. */
#ifndef VTB_CODEGEN_CPU_PRINT_H
#define VTB_CODEGEN_CPU_PRINT_H

#include "codegen/cpu/host/host.h"

typedef struct vtb_host_print {
  vtb_host *h;
  const vtb_func_steps *steps;
  LLVMBuilderRef b;
  LLVMValueRef fn, args, workspace, services;
  LLVMValueRef kept;    /* of the entry: NULL where nothing is */
  LLVMValueRef closure; /* one, as large as the largest */
  int closure_slots;
  LLVMValueRef *constants; /* by value id */
  int64_t tail_bytes;      /* temporaries and callees */
} vtb_host_print;

/* ---- host.c ---------------------------------------------------------------------------------- */
LLVMValueRef vtb__host_address(vtb_host_print *f, const vtb_spot *spot);
void vtb__host_store(vtb_host_print *f, int slot, LLVMValueRef pointer); /* into the closure */
/* Calls a planned function with the closure as its arguments; its frame is `frame` bytes behind the
 * tail's beginning. */
void vtb__host_call(vtb_host_print *f, const vtb_func *callee, int64_t frame);

/* ---- fold.c ---------------------------------------------------------------------------------- */
void vtb__host_fold(vtb_host_print *f, const vtb_step *step);

/* ---- kernel.c -------------------------------------------------------------------------------- */
/* Finds or emits the kernel of a step, which `runs` more launches use; NULL with err. */
vtb_cpu_kernel *vtb__host_kernel(vtb_host *h, const vtb_step *step, int runs, vtb_error *err);

#endif

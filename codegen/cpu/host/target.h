/* The machine that code is for: LLVM target machine and vector width by cpu name. */
#ifndef VTB_CODEGEN_TARGET_H
#define VTB_CODEGEN_TARGET_H

#include <llvm-c/TargetMachine.h>

#include "codegen/codegen.h"

typedef struct vtb_target {
  LLVMTargetMachineRef machine;
  char *triple, *cpu, *features; /* LLVM messages */
  int width;                     /* f32 lanes */
  bool runs_here;                /* this machine has the instructions */
} vtb_target;

VTB_MUST_USE vtb_status vtb__target_open(const vtb_codegen_options *o, vtb_target *t,
                                         vtb_error *err);
void vtb__target_close(vtb_target *t);

#endif

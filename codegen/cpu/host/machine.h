/* The machine that code is for: LLVM target machine and vector width by cpu name. */
#ifndef VTB_CODEGEN_MACHINE_H
#define VTB_CODEGEN_MACHINE_H

#include "codegen/codegen.h"
#include "codegen/cpu/llvm.h"

typedef struct vtb_machine {
  LLVMTargetMachineRef machine;
  char *triple, *cpu, *features; /* LLVM messages */
  int width;                     /* f32 lanes */
  bool byte_dots;                /* vectors of that width of dot products of bytes (VNNI) */
  int registers;                 /* for vectors */
  bool runs_here;                /* this machine has the instructions */
  bool optimise;
} vtb_machine;

VTB_MUST_USE vtb_status vtb__machine_open(const vtb_codegen_options *o, vtb_machine *t,
                                          vtb_error *err);
void vtb__machine_close(vtb_machine *t);

#endif

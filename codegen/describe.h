/* A program's description that every target has: its tensors. */
#ifndef VTB_CODEGEN_DESCRIBE_H
#define VTB_CODEGEN_DESCRIBE_H

#include "ir/ir.h"
#include "runtime/launch/program.h"

/* Arguments, then returns, of entry `f`; also the program's batch. Texts are copied into the
 * arena. */
void vtb__describe_tensors(const vtb_func *f, vtb_program *p, vtb_arena *arena);

#endif

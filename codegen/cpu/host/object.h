/* Between object.c and jit.c: the optimised module of an entry, and what LLVM emits of it. */
#ifndef VTB_CODEGEN_OBJECT_H
#define VTB_CODEGEN_OBJECT_H

#include "codegen/cpu/host/host.h"
#include "codegen/cpu/host/machine.h"

/* Takes `e`; VTB_OK if there is none. */
VTB_MUST_USE vtb_status vtb__llvm_status(LLVMErrorRef e, const char *what, vtb_error *err);
/* The optimised LLVM module of entry `f`, in `h`, which is the caller's to free also after a
 * failure. */
VTB_MUST_USE vtb_status vtb__generate(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                                      vtb_machine *t, vtb_host *h, vtb_error *err);
VTB_MUST_USE vtb_status vtb__emit(vtb_host *h, const vtb_machine *t, LLVMCodeGenFileType kind,
                                  LLVMMemoryBufferRef *out, vtb_error *err);

#endif

/* LLVM's C API. Its library is opened when the first program for processors is compiled: most of
 * what the command does needs none, and would wait three times as long for it as for itself.
 *
 * Names stand for pointers (llvm.gen.h, of llvm.cmake), which vtb__llvm_need fills; before it only
 * types may be used. Source: the headers of LLVM 19.
 */
#ifndef VTB_CODEGEN_LLVM_H
#define VTB_CODEGEN_LLVM_H

#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "runtime/base/base.h"

typedef struct vtb_llvm {
#define FUNCTION(name) __typeof__(&name) name;
#include "codegen/cpu/llvm.gen.def"
#undef FUNCTION
} vtb_llvm;
extern vtb_llvm vtb__llvm;

/* Opens the library, once a process, by whichever thread. */
VTB_MUST_USE vtb_status vtb__llvm_need(vtb_error *err);

#ifndef VTB_LLVM_BY_NAME
#include "codegen/cpu/llvm.gen.h"
#endif

#endif

/* The library of LLVM, opened when somebody needs it: see llvm.h. */
#define VTB_LLVM_BY_NAME
#include "codegen/cpu/llvm.h"

#include "runtime/base/library.h"

vtb_llvm vtb__llvm;

static const vtb_symbol symbols[] = {
#define FUNCTION(name) {#name, offsetof(vtb_llvm, name)},
#include "codegen/cpu/llvm.gen.def"
#undef FUNCTION
};
/* A name of its own has the copy in a wheel (frontend/python/wheel.sh). */
static const vtb_library where = {.what = "LLVM",
                                  .environment = "VTB_LLVM",
                                  .remedy = "apt install libllvm19",
                                  .names =
                                      (const char *const[]){"libLLVM-vertebra" VTB_LLVM_VERSION,
                                                            "libLLVM" VTB_LLVM_VERSION, NULL},
                                  .symbols = symbols,
                                  .n_symbols = sizeof symbols / sizeof *symbols,
                                  .of_system = true};
static vtb_late_library library = {.library = &where, .table = &vtb__llvm};

vtb_status vtb__llvm_need(vtb_error *err) { return vtb_library_need(&library, err); }

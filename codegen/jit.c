/* From a module to a running program: build LLVM IR, verify, optimise, compile to an object, link it in process (ORC).
 */
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/host.h"
#include "codegen/target.h"

/* What a program owns. */
typedef struct jit_owner {
  LLVMOrcLLJITRef jit;
  vtb_arena arena;
  vtb_program program;
} jit_owner;

/* Takes `e`; VTB_OK if there is none. */
static vtb_status llvm_status(LLVMErrorRef e, const char *what, vtb_error *err) {
  if (!e) return VTB_OK;
  char *text = LLVMGetErrorMessage(e);
  vtb_status status = vtb_fail(err, VTB_E_INTERNAL, "LLVM: %s: %s", what, text);
  LLVMDisposeErrorMessage(text);
  return status;
}

/* Our loops are vectors already: the loop and SLP vectorisers would only cost compile time. */
static vtb_status optimise(vtb_host *h, const vtb_target *t, vtb_error *err) {
  const vtb_codegen_options *o = h->options;
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMPassBuilderOptionsSetLoopVectorization(options, 0);
  LLVMPassBuilderOptionsSetSLPVectorization(options, 0);
  LLVMPassBuilderOptionsSetLoopUnrolling(options, 0);
  char passes[32];
  snprintf(passes, sizeof passes, "default<O%d>", o->no_opt ? 0 : o->opt_level ? o->opt_level : 3);
  vtb_status status = llvm_status(LLVMRunPasses(h->cpu.module, passes, t->machine, options), "optimisation", err);
  LLVMDisposePassBuilderOptions(options);
  return status;
}

/* The optimised LLVM module of entry `f`, in `h`. */
static vtb_status generate(vtb_module *m, vtb_func *f, const vtb_codegen_options *o, vtb_target *t, vtb_host *h,
                           vtb_error *err) {
  vtb__host_init(h, m, o, t->width);
  LLVMSetTarget(h->cpu.module, t->triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(t->machine);
  LLVMSetModuleDataLayout(h->cpu.module, layout);
  LLVMDisposeTargetData(layout);
  vtb_status status = vtb__host_build(h, f, err);
  if (status != VTB_OK) return status;
  char *message = NULL;
  if (LLVMVerifyModule(h->cpu.module, LLVMReturnStatusAction, &message))
    status = vtb_fail(err, VTB_E_INTERNAL, "generated LLVM IR is wrong: %s", message);
  LLVMDisposeMessage(message);
  return status == VTB_OK ? optimise(h, t, err) : status;
}

/* The C library functions that LLVM may call for large copies. */
static vtb_status define_symbols(LLVMOrcLLJITRef jit, vtb_error *err) {
  static const struct {
    const char *name;
    void *at;
  } known[] = {{"memset", (void *)memset},
               {"memcpy", (void *)memcpy},
               {"memmove", (void *)memmove},
               {"fmaf", (void *)fmaf},
               {"floorf", (void *)floorf}};
  enum { N = sizeof known / sizeof *known };
  LLVMOrcCSymbolMapPair pairs[N];
  for (int i = 0; i < N; i++) {
    pairs[i].Name = LLVMOrcLLJITMangleAndIntern(jit, known[i].name);
    pairs[i].Sym.Address = (LLVMOrcExecutorAddress)(uintptr_t)known[i].at;
    pairs[i].Sym.Flags = (LLVMJITSymbolFlags){LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0};
  }
  LLVMOrcJITDylibRef main = LLVMOrcLLJITGetMainJITDylib(jit);
  return llvm_status(LLVMOrcJITDylibDefine(main, LLVMOrcAbsoluteSymbols(pairs, N)), "symbols", err);
}

static vtb_status link_object(vtb_host *h, const vtb_target *t, jit_owner *owner, vtb_entry_fn *entry, vtb_error *err) {
  LLVMMemoryBufferRef object;
  char *message = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(t->machine, h->cpu.module, LLVMObjectFile, &message, &object)) {
    vtb_status failed = vtb_fail(err, VTB_E_INTERNAL, "LLVM: code emission: %s", message);
    LLVMDisposeMessage(message);
    return failed;
  }
  vtb_status status = llvm_status(LLVMOrcCreateLLJIT(&owner->jit, NULL), "JIT", err);
  if (status != VTB_OK) {
    LLVMDisposeMemoryBuffer(object);
    return status;
  }
  status = define_symbols(owner->jit, err);
  if (status != VTB_OK) {
    LLVMDisposeMemoryBuffer(object);
    return status;
  }
  LLVMOrcJITDylibRef main = LLVMOrcLLJITGetMainJITDylib(owner->jit);
  status = llvm_status(LLVMOrcLLJITAddObjectFile(owner->jit, main, object), "linking", err);
  LLVMOrcExecutorAddress address = 0;
  if (status == VTB_OK) status = llvm_status(LLVMOrcLLJITLookup(owner->jit, &address, "vtb_entry"), "linking", err);
  *entry = (vtb_entry_fn)(uintptr_t)address;
  return status;
}

static void free_owner(void *p) {
  jit_owner *owner = p;
  if (owner->jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(owner->jit));
  vtb_arena_free(&owner->arena);
  free(owner);
}

vtb_status vtb_jit(vtb_module *m, vtb_func *f, const vtb_codegen_options *o, vtb_program **program, vtb_error *err) {
  static const vtb_codegen_options defaults = {0};
  double start = vtb_now();
  vtb_target target;
  vtb_host host;
  if (!o) o = &defaults;
  vtb_status status = vtb__target_open(o, &target, err);
  if (status != VTB_OK) return status;
  if (!target.runs_here) {
    status = vtb_fail(err, VTB_E_DEVICE, "this machine cannot run code for cpu %s", target.cpu);
    vtb__target_close(&target);
    return status;
  }
  status = generate(m, f, o, &target, &host, err);
  jit_owner *owner = vtb_xcalloc(1, sizeof *owner);
  vtb_arena_init(&owner->arena);
  vtb_entry_fn entry = NULL;
  if (status == VTB_OK) status = link_object(&host, &target, owner, &entry, err);
  if (status == VTB_OK) {
    vtb_program *p = &owner->program;
    vtb__describe_program(&host, f, p, &owner->arena);
    p->entry = entry;
    p->compile_seconds = vtb_now() - start;
    p->owner = owner;
    p->free = free_owner;
    *program = p;
  } else {
    free_owner(owner);
  }
  vtb__host_free(&host);
  vtb__target_close(&target);
  return status;
}

vtb_status vtb_codegen_text(vtb_module *m, vtb_func *f, const vtb_codegen_options *o, bool assembly, vtb_strbuf *out,
                            vtb_error *err) {
  static const vtb_codegen_options defaults = {0};
  vtb_target target;
  vtb_host host;
  if (!o) o = &defaults;
  vtb_status status = vtb__target_open(o, &target, err);
  if (status != VTB_OK) return status;
  status = generate(m, f, o, &target, &host, err);
  if (status == VTB_OK && !assembly) {
    char *text = LLVMPrintModuleToString(host.cpu.module);
    vtb_strbuf_puts(out, text);
    LLVMDisposeMessage(text);
  } else if (status == VTB_OK) {
    LLVMMemoryBufferRef text;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(target.machine, host.cpu.module, LLVMAssemblyFile, &message, &text)) {
      status = vtb_fail(err, VTB_E_INTERNAL, "LLVM: code emission: %s", message);
      LLVMDisposeMessage(message);
    } else {
      vtb_strbuf_write(out, LLVMGetBufferStart(text), LLVMGetBufferSize(text));
      LLVMDisposeMemoryBuffer(text);
    }
  }
  vtb__host_free(&host);
  vtb__target_close(&target);
  return status;
}

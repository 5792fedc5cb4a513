/* From a module to a running program: the object (object.c) linked in process (ORC). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cpu/host/object.h"

/* A program's possessions. */
typedef struct jit_owner {
  LLVMOrcLLJITRef jit;
  vtb_arena arena;
  vtb_program program;
} jit_owner;

/* The C library functions that LLVM may call: for large copies, and for the numbers of an update.
 * */
static vtb_status define_symbols(LLVMOrcLLJITRef jit, vtb_error *err) {
  static const struct {
    const char *name;
    void *at;
  } known[] = {{"memset", (void *)memset}, {"memcpy", (void *)memcpy}, {"memmove", (void *)memmove},
               {"fmaf", (void *)fmaf},     {"pow", (void *)pow},       {"exp", (void *)exp},
               {"log", (void *)log},       {"floor", (void *)floor},   {"floorf", (void *)floorf},
               {"rintf", (void *)rintf}};
  enum { N = sizeof known / sizeof *known };
  LLVMOrcCSymbolMapPair pairs[N];
  for (int i = 0; i < N; i++) {
    pairs[i].Name = LLVMOrcLLJITMangleAndIntern(jit, known[i].name);
    pairs[i].Sym.Address = (LLVMOrcExecutorAddress)(uintptr_t)known[i].at;
    pairs[i].Sym.Flags = (LLVMJITSymbolFlags){
        LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0};
  }
  LLVMOrcJITDylibRef main = LLVMOrcLLJITGetMainJITDylib(jit);
  return vtb__llvm_status(LLVMOrcJITDylibDefine(main, LLVMOrcAbsoluteSymbols(pairs, N)), "symbols",
                          err);
}

static vtb_status link_object(vtb_host *h, const vtb_machine *t, jit_owner *owner,
                              vtb_entry_fn *entry, vtb_error *err) {
  LLVMMemoryBufferRef object;
  VTB_TRY(vtb__emit(h, t, LLVMObjectFile, &object, err));
  vtb_status status = vtb__llvm_status(LLVMOrcCreateLLJIT(&owner->jit, NULL), "JIT", err);
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
  status = vtb__llvm_status(LLVMOrcLLJITAddObjectFile(owner->jit, main, object), "linking", err);
  LLVMOrcExecutorAddress address = 0;
  if (status == VTB_OK)
    status =
        vtb__llvm_status(LLVMOrcLLJITLookup(owner->jit, &address, "vtb_entry"), "linking", err);
  *entry = (vtb_entry_fn)(uintptr_t)address;
  return status;
}

static void free_code(void *p) {
  jit_owner *owner = p;
  if (owner->jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(owner->jit));
}

static void free_owner(void *p) {
  jit_owner *owner = p;
  vtb_forget(owner);
  free_code(owner);
  vtb_arena_free(&owner->arena);
  vtb_free(owner);
}

vtb_status vtb_jit(vtb_module *m, vtb_func *f, const vtb_codegen_options *o, vtb_program **program,
                   vtb_error *err) {
  static const vtb_codegen_options defaults = {0};
  double start = vtb_now();
  vtb_machine target;
  vtb_host host;
  if (!o) o = &defaults;
  vtb_status status = vtb__machine_open(o, &target, err);
  if (status != VTB_OK) return status;
  if (!target.runs_here) {
    status = vtb_fail(err, VTB_E_DEVICE, "this machine cannot run code for cpu %s", o->cpu);
    vtb__machine_close(&target);
    return status;
  }
  status = vtb__generate(m, f, o, &target, &host, err);
  jit_owner *owner = vtb_xcalloc(1, sizeof *owner);
  vtb_arena_init(&owner->arena);
  vtb_defer(free_code, owner);
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
  vtb__machine_close(&target);
  return status;
}

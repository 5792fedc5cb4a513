/* From a module to machine code: LLVM IR built, verified, optimised, emitted as an object or as
 * assembly. */
#include "codegen/cpu/host/object.h"

#include <string.h>

vtb_status vtb__llvm_status(LLVMErrorRef e, const char *what, vtb_error *err) {
  if (!e) return VTB_OK;
  char *text = LLVMGetErrorMessage(e);
  vtb_status status = vtb_fail(err, VTB_E_INTERNAL, "LLVM: %s: %s", what, text);
  LLVMDisposeErrorMessage(text);
  return status;
}

/* Our loops are vectors already: the loop and SLP vectorisers would only cost compile time. */
static vtb_status optimise(vtb_host *h, const vtb_machine *t, vtb_error *err) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMPassBuilderOptionsSetLoopVectorization(options, 0);
  LLVMPassBuilderOptionsSetSLPVectorization(options, 0);
  LLVMPassBuilderOptionsSetLoopUnrolling(options, 0);
  const char *passes = t->optimise ? "default<O3>" : "default<O0>";
  vtb_status status = vtb__llvm_status(LLVMRunPasses(h->cpu.module, passes, t->machine, options),
                                       "optimisation", err);
  LLVMDisposePassBuilderOptions(options);
  return status;
}

vtb_status vtb__generate(vtb_module *m, vtb_func *f, const vtb_codegen_options *o, vtb_machine *t,
                         vtb_host *h, vtb_error *err) {
  vtb__host_init(h, m, o, t->width);
  h->cpu.byte_dots = t->byte_dots;
  h->cpu.registers = t->registers;
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

vtb_status vtb__emit(vtb_host *h, const vtb_machine *t, LLVMCodeGenFileType kind,
                     LLVMMemoryBufferRef *out, vtb_error *err) {
  char *message = NULL;
  if (!LLVMTargetMachineEmitToMemoryBuffer(t->machine, h->cpu.module, kind, &message, out))
    return VTB_OK;
  vtb_status status = vtb_fail(err, VTB_E_INTERNAL, "LLVM: code emission: %s", message);
  LLVMDisposeMessage(message);
  return status;
}

/* ---- objects for files ----------------------------------------------------------------------- */

/* Entries of several programs are linked into one library, which shows none of them. */
static void name_entry(vtb_host *h, const char *symbol) {
  LLVMValueRef entry = LLVMGetNamedFunction(h->cpu.module, "vtb_entry");
  LLVMSetValueName2(entry, symbol, strlen(symbol));
  LLVMSetVisibility(entry, LLVMHiddenVisibility);
}

vtb_status vtb_codegen_object(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                              const char *symbol, vtb_object *out, vtb_error *err) {
  static const vtb_codegen_options defaults = {0};
  vtb_machine target;
  vtb_host host;
  LLVMMemoryBufferRef object = NULL;
  *out = (vtb_object){0};
  if (!o) o = &defaults;
  VTB_TRY(vtb__machine_open(o, &target, err));
  vtb_status status = vtb__generate(m, f, o, &target, &host, err);
  if (status == VTB_OK) {
    name_entry(&host, symbol);
    status = vtb__emit(&host, &target, LLVMObjectFile, &object, err);
  }
  if (status == VTB_OK) {
    vtb_arena_init(&out->arena);
    vtb__describe_program(&host, f, &out->about, &out->arena);
    out->n_bytes = LLVMGetBufferSize(object);
    out->data = vtb_arena_memdup(&out->arena, LLVMGetBufferStart(object), out->n_bytes);
    LLVMDisposeMemoryBuffer(object);
  }
  vtb__host_free(&host);
  vtb__machine_close(&target);
  return status;
}

void vtb_object_free(vtb_object *o) {
  vtb_arena_free(&o->arena);
  *o = (vtb_object){0};
}

/* ---- text ------------------------------------------------------------------------------------ */

vtb_status vtb_codegen_text(vtb_module *m, vtb_func *f, const vtb_codegen_options *o, bool assembly,
                            vtb_strbuf *out, vtb_error *err) {
  static const vtb_codegen_options defaults = {0};
  vtb_machine target;
  vtb_host host;
  if (!o) o = &defaults;
  VTB_TRY(vtb__machine_open(o, &target, err));
  vtb_status status = vtb__generate(m, f, o, &target, &host, err);
  if (status == VTB_OK && !assembly) {
    char *text = LLVMPrintModuleToString(host.cpu.module);
    vtb_strbuf_puts(out, text);
    LLVMDisposeMessage(text);
  }
  LLVMMemoryBufferRef text = NULL;
  if (status == VTB_OK && assembly &&
      (status = vtb__emit(&host, &target, LLVMAssemblyFile, &text, err)) == VTB_OK) {
    vtb_strbuf_write(out, LLVMGetBufferStart(text), LLVMGetBufferSize(text));
    LLVMDisposeMemoryBuffer(text);
  }
  vtb__host_free(&host);
  vtb__machine_close(&target);
  return status;
}

/* Target machines by name: this host, an x86-64 level, or AArch64. */
#include "codegen/cpu/host/machine.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cpu/text.h"

/* `feature` stands in LLVM's list as "+feature", not merely as a prefix of another. */
static bool has_feature(const char *list, const char *feature) {
  size_t n = strlen(feature);
  for (const char *at = strstr(list, feature); at; at = strstr(at + 1, feature))
    if (at > list && at[-1] == '+' && (at[n] == ',' || at[n] == '\0')) return true;
  return false;
}

static int width_of(const char *features) {
  if (has_feature(features, "avx512f") && has_feature(features, "avx512vl")) return 16;
  return has_feature(features, "avx2") && has_feature(features, "fma") ? 8 : 4;
}

/* AVX-512's instruction has the 512 bits of 16 lanes; another one those of 8. */
static bool has_byte_dots(const char *features, int width) {
  return has_feature(features, width == 16 ? "avx512vnni" : "avxvnni") && width >= 8;
}

/* Vectors of four are SSE's, or NEON's, which has twice as many. */
static int registers_of(const vtb_machine *t) {
  return t->width == 16 || vtb_starts_with(t->triple, "aarch64") ? 32 : 16;
}

typedef struct level {
  const char *name, *arch, *cpu; /* ours; LLVM's */
  int width, needs;              /* lanes of the code; of the machine */
} level;
static const level levels[] = {{"x86-64", "x86_64", "x86-64", 4, 4},
                               {"x86-64-v2", "x86_64", "x86-64-v2", 4, 4},
                               {"x86-64-v3", "x86_64", "x86-64-v3", 8, 8},
                               {"x86-64-v4", "x86_64", "x86-64-v4", 16, 16},
                               /* the code for 16 lanes, to be tested where there is no AVX-512 */
                               {"x86-64-v3-wide", "x86_64", "x86-64-v3", 16, 8},
                               {"aarch64", "aarch64", "generic", 4, 4}};

/* The triple is this host's unless the architecture is another. */
static bool choose_arch(const char *arch, vtb_machine *t) {
  if (vtb_starts_with(t->triple, arch)) return true;
  char triple[64];
  snprintf(triple, sizeof triple, "%s-unknown-linux-gnu", arch);
  LLVMDisposeMessage(t->triple);
  t->triple = LLVMCreateMessage(triple);
  return false;
}

static vtb_status choose_cpu(const char *wanted, vtb_machine *t, vtb_error *err) {
  char *features = LLVMGetHostCPUFeatures();
  int host_width = width_of(features);
  t->width = host_width;
  t->runs_here = true;
  t->triple = LLVMGetDefaultTargetTriple();
  if (!wanted || vtb_streq(wanted, "host")) {
    t->cpu = LLVMGetHostCPUName();
    t->features = features;
    t->byte_dots = has_byte_dots(features, host_width);
    return VTB_OK;
  }
  LLVMDisposeMessage(features);
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    if (!vtb_streq(levels[i].name, wanted)) continue;
    t->cpu = LLVMCreateMessage(levels[i].cpu);
    t->features = LLVMCreateMessage("");
    t->width = levels[i].width;
    t->runs_here = choose_arch(levels[i].arch, t) && levels[i].needs <= host_width;
    return VTB_OK;
  }
  return vtb_fail(
      err, VTB_E_USAGE,
      "unknown cpu \"%s\": use host, x86-64, x86-64-v2, x86-64-v3, x86-64-v4 or aarch64", wanted);
}

static vtb_status make_machine(vtb_machine *t, vtb_error *err) {
  LLVMTargetRef target;
  char *message = NULL;
  if (LLVMGetTargetFromTriple(t->triple, &target, &message)) {
    vtb_status status =
        vtb_fail(err, VTB_E_DEVICE, "LLVM has no target %s: %s", t->triple, message);
    LLVMDisposeMessage(message);
    return status;
  }
  t->machine = LLVMCreateTargetMachine(target, t->triple, t->cpu, t->features,
                                       t->optimise ? LLVMCodeGenLevelDefault : LLVMCodeGenLevelNone,
                                       LLVMRelocPIC, LLVMCodeModelDefault);
  t->registers = registers_of(t);
  if (t->machine) return VTB_OK;
  return vtb_fail(err, VTB_E_DEVICE, "LLVM cannot make a target machine for this cpu");
}

/* The functions of llvm-c/Target.h for this are inline and call others by name. */
#define GET_READY(arch)                                                                            \
  (LLVMInitialize##arch##TargetInfo(), LLVMInitialize##arch##Target(),                             \
   LLVMInitialize##arch##TargetMC(), LLVMInitialize##arch##AsmPrinter(),                           \
   LLVMInitialize##arch##AsmParser())
static void get_ready(void) {
  GET_READY(X86);
  GET_READY(AArch64);
}

static void undo_open(void *t) { vtb__machine_close(t); }

vtb_status vtb__machine_open(const vtb_codegen_options *o, vtb_machine *t, vtb_error *err) {
  vtb_status status = vtb__llvm_need(err);
  *t = (vtb_machine){.optimise = !o->no_opt && o->how.optimise != VTB_NO};
  vtb_defer(undo_open, t);
  if (status == VTB_OK) status = vtb__texts_check(err);
  if (status == VTB_OK) get_ready();
  if (status == VTB_OK) status = choose_cpu(o->cpu, t, err);
  if (status == VTB_OK) status = make_machine(t, err);
  if (status != VTB_OK) vtb__machine_close(t);
  return status;
}

void vtb__machine_close(vtb_machine *t) {
  vtb_forget(t);
  if (t->machine) LLVMDisposeTargetMachine(t->machine);
  if (t->triple) LLVMDisposeMessage(t->triple);
  if (t->cpu) LLVMDisposeMessage(t->cpu);
  if (t->features) LLVMDisposeMessage(t->features);
  *t = (vtb_machine){0};
}

vtb_status vtb_codegen_describe_host(vtb_strbuf *out, vtb_error *err) {
  VTB_TRY(vtb__llvm_need(err));
  char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  vtb_strbuf_printf(out, "%s, %d x f32", cpu, width_of(features));
  LLVMDisposeMessage(cpu);
  LLVMDisposeMessage(features);
  return VTB_OK;
}

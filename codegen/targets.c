/* The table of what makes code, a row a target. */
#include "codegen/targets.h"

#include "codegen/ask.h"
#include "codegen/cuda/compile/nvrtc.h"
#include "codegen/cuda/compile/report.h"
#include "codegen/emulator/audit.h"
#include "codegen/emulator/emulator.h"
#include "runtime/cuda/cuda.h"
#include "runtime/launch/launch_check.h"

/* ---- launch plans ---------------------------------------------------------------------------- */

/* Every plan is checked before it runs anywhere. */
static vtb_status checked_plan(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                               vtb_launch_plan **plan, vtb_error *err) {
  VTB_TRY(vtb_cuda_plan(m, f, o, plan, err));
  vtb_status status = vtb_launch_plan_check(*plan, NULL, err);
  if (status == VTB_OK) return VTB_OK;
  vtb_launch_plan_free(*plan);
  *plan = NULL;
  return status;
}

/* The plans that tests want: see docs/cuda.md. */
static vtb_codegen_options as_tests_want(const vtb_codegen_options *o) {
  vtb_codegen_options with = *o;
  with.wgmma = o->how.wgmma == VTB_YES;
  with.clusters = o->how.clusters == VTB_YES;
  with.far = o->how.wide_index == VTB_YES;
  return with;
}

static vtb_status emulate_plan(vtb_launch_plan *plan, const vtb_behaviour *how,
                               vtb_program **program, vtb_error *err) {
  vtb_emulator_options o = {.unchecked = how->emulator_checks == VTB_NO,
                            .reversed = how->emulator_reversed == VTB_YES,
                            .seed = how->emulator_seed ? (uint64_t)how->emulator_seed : 1};
  vtb_status status = vtb_emulator_program(plan, &o, program, err);
  if (status != VTB_OK) vtb_launch_plan_free(plan);
  return status;
}

/* Who asked for wgmma or clusters wherever they can be does not mean none at all. */
static vtb_status check_wishes(const vtb_launch_plan *plan, const vtb_codegen_options *o,
                               vtb_error *err) {
  int wide = 0, clustered = 0;
  for (int k = 0; k < plan->n_kernels; k++) {
    wide += plan->kernels[k].arch == 90;
    clustered += plan->kernels[k].cluster > 1;
  }
  if (o->wgmma && !wide)
    return vtb_fail(err, VTB_E_USAGE, "VTB_CUDA_WGMMA=1: no product of this plan can be by wgmma");
  if (o->clusters && !clustered)
    return vtb_fail(err, VTB_E_USAGE, "VTB_CUDA_CLUSTERS=1: no kernel of this plan has clusters");
  return VTB_OK;
}

static vtb_status emulated(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                           vtb_program **program, vtb_error *err) {
  vtb_launch_plan *plan = NULL;
  vtb_codegen_options with = as_tests_want(o);
  const char *arch = o->how.emulator_arch;
  if (arch && !vtb_arch_find(arch))
    return vtb_fail(err, VTB_E_USAGE, "VTB_EMULATOR_ARCH=%s: no such architecture", arch);
  if (arch) with.arch = arch;
  vtb_status status = checked_plan(m, f, &with, &plan, err);
  if (status == VTB_OK && (status = check_wishes(plan, &with, err)) != VTB_OK)
    vtb_launch_plan_free(plan);
  return status == VTB_OK ? emulate_plan(plan, &o->how, program, err) : status;
}

static vtb_status compile_for(vtb_cuda_device *device, vtb_launch_plan *plan,
                              const vtb_behaviour *how, vtb_program **program, vtb_error *err) {
  vtb_cuda_code *codes = vtb_xcalloc((size_t)plan->n_sources + 1, sizeof *codes);
  vtb_cuda_image *images = vtb_xcalloc((size_t)plan->n_sources + 1, sizeof *images);
  vtb_status status = vtb_cuda_compile_plan(plan, vtb_cuda_device_arch(device), how, codes, err);
  if (status == VTB_OK) {
    for (int i = 0; i < plan->n_sources; i++)
      images[i] = (vtb_cuda_image){codes[i].data, codes[i].n_bytes};
    status = vtb_cuda_program(plan, images, device, program, err);
    for (int i = 0; i < plan->n_sources; i++) vtb_cuda_code_free(&codes[i]);
  }
  vtb_free(codes);
  vtb_free(images);
  return status;
}

/* The device first: without one nothing need be compiled. */
static vtb_status on_device(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                            vtb_program **program, vtb_error *err) {
  vtb_cuda_device *device = NULL;
  vtb_launch_plan *plan = NULL; /* freeing none is fine */
  VTB_TRY(vtb_cuda_device_open(&o->how, &device, err));
  vtb_codegen_options with = as_tests_want(o);
  if (o->how.wgmma != VTB_NO) with.arch = vtb_cuda_device_arch(device);
  vtb_status status = checked_plan(m, f, &with, &plan, err);
  if (status == VTB_OK && with.clusters) status = check_wishes(plan, &with, err);
  if (status == VTB_OK) status = compile_for(device, plan, &o->how, program, err);
  if (status != VTB_OK) vtb_launch_plan_free(plan);
  if (status != VTB_OK) vtb_cuda_device_close(device);
  return status;
}

/* Generated kernels do all products as well. */
static bool cublaslt_is_there(void) {
  vtb_strbuf found = {0};
  bool there = vtb_cuda_probe_cublaslt(&found);
  vtb_log("large products: %s", there ? found.at : "generated kernels");
  vtb_strbuf_free(&found);
  return there;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static vtb_status print_llvm(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                             vtb_strbuf *out, vtb_error *err) {
  return vtb_codegen_text(m, f, o, false, out, err);
}

static vtb_status print_asm(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                            vtb_strbuf *out, vtb_error *err) {
  return vtb_codegen_text(m, f, o, true, out, err);
}

typedef vtb_status (*print_plan)(const vtb_launch_plan *plan, const vtb_codegen_options *o,
                                 vtb_strbuf *out, vtb_error *err);

static vtb_status print_with(print_plan print, vtb_module *m, vtb_func *f,
                             const vtb_codegen_options *o, vtb_strbuf *out, vtb_error *err) {
  vtb_launch_plan *plan = NULL;
  const vtb_codegen_options with = as_tests_want(o);
  vtb_status status = vtb_cuda_plan(m, f, &with, &plan, err);
  if (status == VTB_OK) status = print(plan, o, out, err);
  vtb_launch_plan_free(plan);
  return status;
}

static vtb_status put_sources(const vtb_launch_plan *plan, const vtb_codegen_options *o,
                              vtb_strbuf *out, vtb_error *err) {
  (void)o, (void)err;
  vtb_strbuf_puts(out, plan->common);
  for (int i = 0; i < plan->n_sources; i++)
    vtb_strbuf_printf(out, "%s%s", i ? "\n" : "", plan->sources[i].text);
  return VTB_OK;
}

/* Launches that move less are not run. */
enum { LEAST_AUDITED = 1 << 20 };

static vtb_status audit_with(const vtb_launch_plan *plan,
                             void (*print)(const vtb_audit *, vtb_strbuf *), vtb_strbuf *out,
                             vtb_error *err) {
  vtb_audit audit;
  VTB_TRY(vtb_audit_plan(plan, LEAST_AUDITED, false, &audit, err));
  print(&audit, out);
  vtb_audit_free(&audit);
  return VTB_OK;
}

static vtb_status put_audit(const vtb_launch_plan *plan, const vtb_codegen_options *o,
                            vtb_strbuf *out, vtb_error *err) {
  (void)o;
  return audit_with(plan, vtb_audit_print, out, err);
}

static vtb_status put_audit_json(const vtb_launch_plan *plan, const vtb_codegen_options *o,
                                 vtb_strbuf *out, vtb_error *err) {
  (void)o;
  return audit_with(plan, vtb_audit_json, out, err);
}

static vtb_status put_ptx(const vtb_launch_plan *plan, const vtb_codegen_options *o,
                          vtb_strbuf *out, vtb_error *err) {
  vtb_cuda_code *codes = vtb_xcalloc((size_t)plan->n_sources + 1, sizeof *codes);
  vtb_status status =
      vtb_cuda_compile_plan(plan, o->arch ? o->arch : "compute_80", &o->how, codes, err);
  for (int i = 0; status == VTB_OK && i < plan->n_sources; i++) {
    vtb_strbuf_puts(out, codes[i].data);
    vtb_cuda_code_free(&codes[i]);
  }
  vtb_free(codes);
  return status;
}

static vtb_status put_resources(const vtb_launch_plan *plan, const vtb_codegen_options *o,
                                vtb_strbuf *out, vtb_error *err) {
  int spilling = 0;
  vtb_status status = vtb_cuda_report(plan, o->arch, &o->how, out, &spilling, err);
  if (status == VTB_OK)
    vtb_strbuf_printf(out, "%d of %d kernels spill\n", spilling, plan->n_kernels);
  return status;
}

#define PRINTER(what)                                                                              \
  static vtb_status print_##what(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,         \
                                 vtb_strbuf *out, vtb_error *err) {                                \
    return print_with(put_##what, m, f, o, out, err);                                              \
  }
PRINTER(sources)
PRINTER(audit)
PRINTER(audit_json)
PRINTER(ptx)
PRINTER(resources)
#undef PRINTER

/* Modes and tiles depend on the machine. */
static vtb_status print_launches(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                                 vtb_strbuf *out, vtb_error *err) {
  vtb_launch_plan *plan = NULL;
  vtb_status status = vtb_cuda_plan(m, f, o, &plan, err);
  if (status == VTB_OK) {
    vtb_cuda_launches(plan, out);
    vtb_strbuf_printf(out, "chosen for %s\n", vtb_gpu_or_default(&o->gpu)->name);
  }
  vtb_launch_plan_free(plan);
  return status;
}

static vtb_asker *asker(const vtb_codegen_options *o) {
  return vtb_asker_of_plans(vtb_cuda_plan, o);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const vtb_backend_text native[] = {{"llvm", print_llvm}, {"asm", print_asm}, {0}};
static const vtb_backend_text cuda[] = {{"cuda", print_sources},
                                        {"launches", print_launches},
                                        {"audit", print_audit},
                                        {"audit-json", print_audit_json},
                                        {"ptx", print_ptx},
                                        {"resources", print_resources},
                                        {0}};

static const vtb_backend table[] = {
    {.target = "cpu", .program = vtb_jit, .object = vtb_codegen_object, .texts = native},
    {.target = "cuda",
     .library = cublaslt_is_there,
     .program = on_device,
     .plan = checked_plan,
     .asker = asker,
     .texts = cuda},
    {.target = "cuda-emulated",
     .program = emulated,
     .plan = checked_plan,
     .run_plan = emulate_plan,
     .asker = asker,
     .texts = cuda},
};
enum { N_BACKENDS = sizeof table / sizeof *table };

const vtb_backend *vtb_backend_of(const vtb_target *t) {
  for (size_t i = 0; i < N_BACKENDS; i++)
    if (t && vtb_streq(table[i].target, t->name)) return &table[i];
  return NULL;
}

vtb_asker *vtb_backend_asker(const vtb_target *t, const vtb_codegen_options *o) {
  const vtb_backend *b = vtb_backend_of(t);
  return b && b->asker ? b->asker(o) : NULL;
}

bool vtb_target_runs(const vtb_target *t) {
  const vtb_backend *b = vtb_backend_of(t);
  return !b || b->program;
}

const vtb_target *vtb_target_with_stage(const char *stage) {
  for (size_t i = 0; i < N_BACKENDS; i++)
    if (vtb_backend_text_of(&table[i], stage)) return vtb_target_find(table[i].target);
  return NULL;
}

const vtb_backend_text *vtb_backend_text_of(const vtb_backend *b, const char *stage) {
  for (const vtb_backend_text *t = b ? b->texts : NULL; t && t->stage; t++)
    if (vtb_streq(t->stage, stage)) return t;
  return NULL;
}

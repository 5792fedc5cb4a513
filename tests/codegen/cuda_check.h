/* Runs a function by the interpreter and by the CUDA-on-CPU emulator, and compares: for tests of
 * single CUDA kernels. The plan is checked; the emulator checks every access, fills the workspace
 * with NaN and shuffles threads by a seed; the opposite order must agree in every bit. With
 * VTB_CUDA_INDEX=64 that run has indices of 64 bits as well. */
#ifndef VTB_TEST_CUDA_CHECK_H
#define VTB_TEST_CUDA_CHECK_H

#include "codegen/targets.h"
#include "codegen/codegen.h"
#include "ir/interp.h"
#include "runtime/launch/launch_check.h"
#include "runtime/launch/threads.h"
#include "tests/codegen/cuda_plan.h"
#include "tests/codegen/emulate.h"

/* Of the plans that are checked; NULL: all of them. */
static const char *cuda_check_arch;

static inline vtb_program *cuda_program(vtb_module *m, vtb_func *f, uint64_t seed,
                                        const char *what) {
  vtb_error err = {0};
  vtb_launch_plan *plan = NULL;
  vtb_program *p = NULL;
  CHECK_MSG(vtb_module_verify(m, &err), "%s: %s", what, err.text);
  const vtb_codegen_options code = {.arch = cuda_check_arch,
                                    .wgmma = cuda_check_arch != NULL,
                                    .far = seed == 2 && vtb_streq(getenv("VTB_CUDA_INDEX"), "64")};
  vtb_status status = cuda_plan(m, f, &code, &plan, &err);
  const vtb_arch *arch = cuda_check_arch ? vtb_arch_find(cuda_check_arch) : NULL;
  if (status == VTB_OK) status = vtb_launch_plan_check(plan, arch, &err);
  if (status == VTB_OK) {
    const char *dump = getenv("VTB_TEST_DUMP");
    FILE *file = dump ? fopen(dump, "w") : NULL;
    if (file) {
      fputs(vtb_cuda_intrinsics(), file);
      fputs(vtb_cuda_library(), file);
      fputs(plan->common, file);
      fputs(plan->common, file);
      for (int i = 0; i < plan->n_sources; i++) fputs(plan->sources[i].text, file);
      fclose(file);
    }
    const vtb_emulator_options o = {.seed = 1, .reversed = seed == 2};
    status = vtb_emulator_program(plan, &o, &p, &err);
  }
  CHECK_MSG(status == VTB_OK, "%s: %s", what, err.text);
  return p;
}

static inline void cuda_compare(const char *what, const char *name, const float *got,
                                const vtb_tensor *want, double tol) {
  double scale = 0, worst = 0;
  int64_t at = 0, n = vtb_type_count(&want->type);
  for (int64_t i = 0; i < n; i++)
    if (isfinite(want->data[i])) scale = fmax(scale, fabs(want->data[i]));
  for (int64_t i = 0; i < n; i++) {
    double error = got[i] == (float)want->data[i] ? 0 : fabs(got[i] - want->data[i]);
    if (!(error <= worst)) worst = isnan(error) ? HUGE_VAL : error, at = i;
  }
  CHECK_MSG(worst <= tol * scale + 1e-15, "%s: %s element %lld is %.9g, want %.9g (largest %.3g)",
            what, name, (long long)at, (double)got[at], want->data[at], scale);
}

static inline void **cuda_run(const vtb_program *p, int n_args, const vtb_tensor *args) {
  void **all = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *all);
  for (int i = 0; i < p->n_tensors; i++) {
    int64_t n = vtb_tensor_info_count(&p->tensors[i]);
    float *at = vtb_aligned_alloc((size_t)n * 4 + 64);
    memset(at, 0xff, (size_t)n * 4 + 64);
    for (int64_t k = 0; i < n_args && k < n; k++) at[k] = (float)args[i].data[k];
    all[i] = at;
  }
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_services *s = vtb_services_default(1);
  vtb_error err = {0};
  CHECK_MSG(vtb_program_execute(p, all, workspace, s, &err) == VTB_OK, "%s", err.text);
  vtb_services_free(s);
  free(workspace);
  return all;
}

static inline void cuda_check(vtb_module *m, vtb_func *f, const vtb_tensor *args, double tol,
                              const char *what) {
  vtb_error err = {0};
  vtb_tensor *want = vtb_xcalloc((size_t)f->n_returns + 1, sizeof *want);
  vtb_status status = vtb_interpret(f, args, want, &(vtb_interp_options){.batch = 1}, &err);
  CHECK_MSG(status == VTB_OK, "%s: %s", what, err.text);
  void **first = NULL;
  vtb_program *p = NULL;
  for (uint64_t seed = 1; status == VTB_OK && seed <= 2 && (p = cuda_program(m, f, seed, what));
       seed++) {
    void **got = cuda_run(p, f->n_args, args);
    for (int r = 0; r < f->n_returns; r++) {
      size_t bytes = (size_t)vtb_type_count(&want[r].type) * 4;
      char name[120];
      snprintf(name, sizeof name, "%s", f->returns[r]->name ? f->returns[r]->name : "");
      if (first)
        CHECK_MSG(memcmp(got[f->n_args + r], first[f->n_args + r], bytes) == 0,
                  "%s: %s differs with the order", what, name);
      else
        cuda_compare(what, name, got[f->n_args + r], &want[r], tol);
    }
    for (int i = 0; first && i < p->n_tensors; i++) free(got[i]);
    if (!first)
      first = got;
    else
      free(got);
    if (seed == 2)
      for (int i = 0; i < p->n_tensors; i++) free(first[i]);
    vtb_program_free(p);
  }
  free(first);
  for (int r = 0; r < f->n_returns; r++)
    if (want[r].data) vtb_tensor_free(&want[r]);
  free(want);
}

/* ---- many instructions as one function, so that they are compiled together ------------------- */

typedef struct cuda_cases {
  vtb_module *m;
  vtb_func *f;
  vtb_builder b;
  unsigned long long seed;
  vtb_tensor args[512];
  vtb_value *returns[512];
  int n_returns, n_cases;
  const char *pipeline; /* passes over all of it, before code is made; or NULL */
} cuda_cases;

static inline void cuda_begin(cuda_cases *c) {
  memset(c, 0, sizeof *c);
  c->m = vtb_module_new("test");
  c->f = vtb_func_new(c->m, "cases", VTB_FUNC_PLAIN, (vtb_span){0});
  c->b = (vtb_builder){.module = c->m, .func = c->f};
  c->seed = 20240613;
}

/* An argument with values scale * [-1, 1) + shift. */
static inline vtb_value *cuda_arg(cuda_cases *c, vtb_type type, double scale, double shift) {
  char name[16];
  int n = c->f->n_args;
  snprintf(name, sizeof name, "x%d", n);
  c->args[n] = vtb_tensor_new(type);
  for (int64_t k = 0; k < vtb_type_count(&type); k++)
    c->args[n].data[k] = (float)(scale * test_random(&c->seed) + shift);
  return vtb_func_add_arg(c->f, name, type);
}

/* The results of `inst` are to be compared, as "<case>_<op>_<number among all>". */
static inline void cuda_return(cuda_cases *c, vtb_inst *inst) {
  for (int r = 0; r < inst->n_results; r++) {
    char name[80];
    snprintf(name, sizeof name, "case%d_%s_%d", c->n_cases, vtb_op_get(inst->op)->name,
             inst->results[r]->id);
    inst->results[r]->name = vtb_intern(c->m, name);
    c->returns[c->n_returns++] = inst->results[r];
  }
}

/* Fusions that kernels take are made, whatever they cost. */
static inline void cuda_passes(vtb_module *m, const char *pipeline) {
  vtb_error err = {0};
  vtb_diags d = {0};
  vtb_decisions all = {.all = true};
  vtb_codegen_options o = {0};
  vtb_pass_context c = {.module = m,
                        .diags = &d,
                        .batch = 1,
                        .target = vtb_target_find("cuda"),
                        .asker = vtb_backend_asker(vtb_target_find("cuda"), &o),
                        .decisions = &all};
  vtb_status status = vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = pipeline}, &err);
  CHECK_MSG(status == VTB_OK, "%s", err.text);
  vtb_asker_free(c.asker);
  vtb_decisions_free(&all);
  vtb_diags_free(&d);
}

static inline void cuda_end(cuda_cases *c, double tol, const char *what) {
  vtb_func_set_returns(c->f, c->returns, NULL, c->n_returns);
  c->m->entry = c->f;
  if (c->pipeline) cuda_passes(c->m, c->pipeline);
  cuda_check(c->m, c->f, c->args, tol, what);
  for (int i = 0; i < c->f->n_args; i++) vtb_tensor_free(&c->args[i]);
  vtb_module_free(c->m);
}

#endif

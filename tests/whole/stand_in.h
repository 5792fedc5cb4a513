/* A training step of which only the update is real: its gradients are inputs, and pass through. For
 * the tests of optimisers, on the CPU and on the emulated device. */
#ifndef VTB_TEST_STAND_IN_H
#define VTB_TEST_STAND_IN_H

#include "codegen/codegen.h"
#include "ir/ops.h"
#include "codegen/emulator/emulator.h"
#include "runtime/launch/launch_check.h"
#include "runtime/launch/threads.h"
#include "runtime/train/optim.h"
#include "tests/codegen/cuda_plan.h"
#include "tests/runtime/support.h"
#include "tests/whole/attach.h"

enum { MAX_PARAMS = 16 };

typedef struct parameter {
  const char *name;
  int64_t count;
  bool decay;
  double rate;
} parameter;

/* A test may have tensors of other shapes than vectors. */
#ifndef STAND_IN_TYPE
#define STAND_IN_TYPE(p) vtb_type_make(VTB_F32, 1, &(p)->count)
#endif
/* ---- a step around an update ---- */

typedef struct stand_in {
  vtb_module *module;
  vtb_program *program;
  vtb_services *services;
  void **args;
  void *workspace;
  vtb_optim *optim;
  float *value[MAX_PARAMS], *grad[MAX_PARAMS]; /* grad: an input */
} stand_in;

static inline vtb_value *input(vtb_func *f, const char *name, vtb_role role, vtb_type t,
                               bool decay) {
  vtb_value *v = vtb_func_add_arg(f, name, t);
  f->arg_info[v->index] = (vtb_arg_info){
      .role = role, .official = vtb_intern(f->module, name), .init = "zeros", .decay = decay};
  return v;
}

/* @step(logits, labels, parameters, gradients) -> (loss, logits, d:...) */
static inline vtb_module *step_module(const parameter *p, int n) {
  vtb_module *m = vtb_module_new("stand_in");
  vtb_func *f = vtb_func_new(m, "step", VTB_FUNC_PLAIN, VTB_NO_SPAN);
  vtb_value *returns[MAX_PARAMS + 2], *grads[MAX_PARAMS];
  const char *names[MAX_PARAMS + 2] = {"loss", "logits"};
  vtb_builder b = {.module = m, .func = f};
  vtb_value *scores =
      input(f, "scores", VTB_ROLE_INPUT, vtb_type_make(VTB_F32, 2, (int64_t[]){2, 3}), false);
  input(f, "labels", VTB_ROLE_INPUT, vtb_type_make(VTB_I32, 1, (int64_t[]){2}), false);
  for (int i = 0; i < n; i++) input(f, p[i].name, VTB_ROLE_PARAM, STAND_IN_TYPE(&p[i]), p[i].decay);
  for (int i = 0; i < n; i++) {
    names[2 + i] = vtb_arena_printf(&m->arena, "d:%s", p[i].name);
    grads[i] = input(f, vtb_arena_printf(&m->arena, "given:%s", p[i].name), VTB_ROLE_INPUT,
                     STAND_IN_TYPE(&p[i]), false);
  }
  const int64_t axes[] = {0, 1};
  returns[1] = vtb_b_unary(&b, VTB_OP_neg, scores);
  returns[0] = vtb_b_reduce(&b, VTB_OP_reduce_sum, scores, axes, 2, false);
  for (int i = 0; i < n; i++) returns[2 + i] = vtb_b_unary(&b, VTB_OP_neg, grads[i]);
  vtb_func_set_returns(f, returns, names, n + 2);
  m->entry = f;
  return m;
}

static inline vtb_module *updating(const char *what, const vtb_override *o, size_t n_o,
                                   bool average, const parameter *p, int n) {
  vtb_module *m = step_module(p, n);
  attach_update(m, m->entry, what, o, n_o, average);
  vtb_error broken = {0};
  CHECK_MSG(vtb_module_verify(m, &broken), "%s", broken.text);
  return m;
}

typedef vtb_status (*make_fn)(vtb_module *m, vtb_program **p, vtb_error *err);

static inline vtb_status for_cpu(vtb_module *m, vtb_program **p, vtb_error *err) {
  return vtb_jit(m, m->entry, &(vtb_codegen_options){.no_opt = test_is_quick()}, p, err);
}

static inline vtb_status for_emulator(vtb_module *m, vtb_program **p, vtb_error *err) {
  vtb_launch_plan *plan = NULL;
  vtb_status status = cuda_plan(m, m->entry, &(vtb_codegen_options){0}, &plan, err);
  if (status == VTB_OK) status = vtb_launch_plan_check(plan, NULL, err);
  return status == VTB_OK ? vtb_emulator_program(plan, &(vtb_emulator_options){.seed = 3}, p, err)
                          : status;
}

static inline void open_all(stand_in *s, const vtb_optim_config *c, const parameter *p, int n) {
  const vtb_program *g = s->program;
  s->args = vtb_xcalloc((size_t)g->n_tensors, sizeof *s->args);
  s->workspace = vtb_aligned_alloc((size_t)g->workspace_bytes + 64);
  for (int i = 0; i < g->n_tensors; i++) {
    vtb_io io = g->tensors[i].io;
    if (io == VTB_IO_STATE || io == VTB_IO_UPDATE || vtb_starts_with(g->tensors[i].name, "update."))
      continue;
    size_t bytes = (size_t)vtb_tensor_info_count(&g->tensors[i]) * 4;
    s->args[i] = vtb_aligned_alloc(bytes);
    memset(s->args[i], 0, bytes);
  }
  CHECK_OK(vtb_optim_open(g, s->args, c, &s->optim, err));
  if (!s->optim) exit(1);
  for (int i = 0; i < n; i++) {
    char name[160];
    snprintf(name, sizeof name, "given:%s", p[i].name);
    s->value[i] = s->args[vtb_program_find(g, p[i].name)];
    s->grad[i] = s->args[vtb_program_find(g, name)];
    vtb_optim_set_rate(s->optim, i, p[i].rate ? p[i].rate : 1);
  }
}

static inline stand_in open_step(make_fn make, const char *what, const vtb_override *o, size_t n_o,
                                 const vtb_optim_config *c, const parameter *p, int n,
                                 int threads) {
  stand_in s = {.services = vtb_services_default(threads)};
  s.module = updating(what, o, n_o, c->ema_decay > 0, p, n);
  vtb_pass_context pass = {.module = s.module, .batch = 2, .target = vtb_target_find("cpu")};
  CHECK_OK(vtb_run_pipeline(&pass, &(vtb_pipeline_options){.verify_each = true}, err));
  CHECK_OK(make(s.module, &s.program, err));
  if (!s.program) exit(1);
  open_all(&s, c, p, n);
  return s;
}

static inline void close_step(stand_in *s) {
  vtb_optim_free(s->optim);
  for (int i = 0; i < s->program->n_tensors; i++) free(s->args[i]);
  free(s->args);
  free(s->workspace);
  vtb_program_free(s->program);
  vtb_module_free(s->module);
  vtb_services_free(s->services);
}

/* One update; gradients are turned round, as the step turns them back. */
static inline vtb_status update(stand_in *s, double lr, double scale, double *norm, vtb_error *e) {
  const vtb_program *g = s->program;
  for (int i = 0; s->grad[i]; i++)
    for (int64_t k = 0; k < vtb_tensor_info_count(&g->tensors[2 + i]); k++)
      s->grad[i][k] = -s->grad[i][k];
  vtb_optim_prepare(s->optim, lr, scale);
  vtb_status status = vtb_program_exchange(g, s->args, true, e);
  if (status == VTB_OK) status = vtb_program_execute(g, s->args, s->workspace, s->services, e);
  if (status == VTB_OK) status = vtb_program_exchange(g, s->args, false, e);
  return status == VTB_OK ? vtb_optim_judge(s->optim, 2, norm, NULL, e) : status;
}

static inline float *average(const stand_in *s, int i) {
  return vtb_optim_average(s->optim, 2 + i);
}

#endif

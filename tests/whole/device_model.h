/* A small classifier compiled from its text for each way to run it: on the CPU, emulated, and by
 * the driver's runtime with a driver that has no GPU (fake_cuda.c), whose launches the emulator
 * does.
 */
#ifndef VTB_TEST_DEVICE_MODEL_H
#define VTB_TEST_DEVICE_MODEL_H

#include "codegen/codegen.h"
#include "codegen/emulator/emulator.h"
#include "frontend/lang/lang.h"
#include "runtime/cuda/cuda.h"
#include "runtime/launch/launch_check.h"
#include "runtime/launch/threads.h"
#include "tests/codegen/cuda_plan.h"
#include "tests/runtime/fake_program.h"
#include "tests/whole/attach.h"

static vtb_services *services;

#define MODEL(body)                                                                                \
  "use std.nn\nuse std.conv\nmodel small() {\n  input image: image[1, 6, 6]\n" body "}\n"
/* mid.weight has 151 * 113 elements: more than one piece of the update, and no whole number of
 * fours. */
static const char plain[] =
    MODEL("  x = relu(batch_norm(\"bn\", conv2d(\"conv\", image, 5, 3, pad = 1, bias = false)))\n"
          "  y = silu(linear(\"in\", mean(x, axis = \"tokens\"), 113))\n"
          "  output logits = linear(\"head\", silu(linear(\"mid\", y, 151)), 4)\n");

/* ---- the model, compiled --------------------------------------------------------------------- */

static const char *optimizer = "adamw"; /* of steps made from here on */
static int64_t bucket_bytes;            /* of plans made from here on */

static inline vtb_module *module_of(vtb_unit *u, bool training, bool scaled) {
  vtb_diags diags = {0};
  vtb_error failure = {0};
  vtb_instantiate_options o = {.training = training};
  vtb_module *m = vtb_instantiate(u, "small", &o, &diags);
  vtb_diags_print(&diags, stderr);
  vtb_pass_context c = {.module = m, .diags = &diags, .batch = FAKE_BATCH};
  vtb_func *train = NULL;
  if (!m || vtb_run_pipeline(&c, &(vtb_pipeline_options){.pipeline = vtb_pipeline_graph},
                             &failure) != VTB_OK) {
    fprintf(stderr, "no module: %s\n", failure.text);
    exit(1);
  }
  if (training)
    CHECK_OK(vtb_build_train_step(m, m->entry, &(vtb_train_step){.loss_scale = scaled}, &train,
                                  &diags, err));
  if (train) m->entry = train;
  vtb_override nesterov = {.name = "nesterov", .value = "true"};
  if (train) attach_update(m, train, optimizer, &nesterov, strcmp(optimizer, "sgd") == 0, true);
  c.target = vtb_target_find("cpu");
  CHECK_OK(vtb_run_pipeline(&c, NULL, err));
  vtb_diags_free(&diags);
  return m;
}

typedef vtb_status (*make_fn)(vtb_module *m, vtb_precision precision, vtb_program **p,
                              vtb_error *err);

static inline vtb_program *compile(const char *text, bool training, vtb_precision precision,
                                   make_fn make) {
  vtb_diags diags = {0};
  vtb_unit *u = vtb_unit_load_text("small.vtb", text, strlen(text), vtb_search_default(), &diags);
  vtb_module *m =
      module_of(u, training, precision == VTB_PRECISION_FP16); /* its spans point into the unit */
  vtb_program *p = NULL;
  CHECK_OK(make(m, precision, &p, err));
  vtb_module_free(m);
  vtb_unit_free(u);
  vtb_diags_free(&diags);
  if (!p) exit(1);
  return p;
}

static inline vtb_status for_cpu(vtb_module *m, vtb_precision precision, vtb_program **p,
                                 vtb_error *err) {
  (void)precision;
  return vtb_jit(m, m->entry, &(vtb_codegen_options){.no_opt = test_is_quick()}, p, err);
}

static inline vtb_status make_plan(vtb_module *m, vtb_precision precision, vtb_launch_plan **plan,
                                   vtb_error *err) {
  vtb_codegen_options o = {.precision = precision, .bucket_bytes = bucket_bytes};
  vtb_status status = cuda_plan(m, m->entry, &o, plan, err);
  return status == VTB_OK ? vtb_launch_plan_check(*plan, NULL, err) : status;
}

static int jobs, idle; /* kernels of the last plan: of several small ones; that nobody launches */

static inline void count_kernels(const vtb_launch_plan *p) {
  jobs = idle = 0;
  for (int k = 0; k < p->n_kernels; k++) {
    jobs += vtb_starts_with(p->kernels[k].name, "jobs_");
    idle += p->kernels[k].info.launches == 0 && !vtb_starts_with(p->kernels[k].name, "pixels_");
  }
}

/* Accesses are checked: in the runs of one program of a kind. All run often enough to be worth
 * optimising. */
static bool checked = true;

static inline vtb_status for_emulator(vtb_module *m, vtb_precision precision, vtb_program **p,
                                      vtb_error *err) {
  vtb_launch_plan *plan = NULL;
  vtb_status status = make_plan(m, precision, &plan, err);
  if (status == VTB_OK) count_kernels(plan);
  const vtb_emulator_options o = {.seed = 3, .unchecked = !checked, .optimise = true};
  return status == VTB_OK ? vtb_emulator_program(plan, &o, p, err) : status;
}

/* ---- the driver's runtime, its launches done by the emulator --------------------------------- */

static vtb_emulator *launcher;
static const vtb_launch_plan *launched;

static inline void launch(const char *kernel, unsigned blocks, unsigned threads, unsigned shared,
                          void **parameters) {
  vtb_emu_arg args[256];
  vtb_emulator_launch l = {.kernel = kernel,
                           .grid = blocks,
                           .threads = (int)threads,
                           .shared_bytes = (int)shared,
                           .args = args};
  for (int i = 0; i < launched->n_kernels; i++)
    if (strcmp(launched->kernels[i].name, kernel) == 0) l.n_args = launched->kernels[i].n_args;
  for (int i = 0; i < l.n_args; i++)
    args[i] = (vtb_emu_arg){.begin = (char *)*(uintptr_t *)parameters[i]};
  CHECK_OK(vtb_emulator_run(launcher, &l, services, err));
}

static inline vtb_status open_launcher(const vtb_launch_plan *p, vtb_error *err) {
  vtb_strbuf all = {0};
  vtb_strbuf_puts(&all, p->common);
  for (int i = 0; i < p->n_sources; i++) vtb_strbuf_printf(&all, "%s\n", p->sources[i].text);
  const char **names = vtb_xcalloc((size_t)p->n_kernels, sizeof *names);
  for (int i = 0; i < p->n_kernels; i++) names[i] = p->kernels[i].name;
  launched = p;
  const vtb_emulator_options o = {.unchecked = true, .optimise = true};
  vtb_status status = vtb_emulator_new(all.at, names, p->n_kernels, &o, &launcher, err);
  free(names);
  vtb_strbuf_free(&all);
  return status;
}

static inline vtb_status for_driver(vtb_module *m, vtb_precision precision, vtb_program **program,
                                    vtb_error *err) {
  vtb_launch_plan *plan = NULL;
  vtb_cuda_device *d = NULL;
  vtb_strbuf module = {0};
  vtb_status status = make_plan(m, precision, &plan, err);
  if (status == VTB_OK) status = open_launcher(plan, err);
  if (status == VTB_OK) status = vtb_cuda_device_open(NULL, &d, err);
  if (status != VTB_OK) return status;
  vtb_strbuf_puts(&module, "fake\n");
  for (int i = 0; i < plan->n_kernels; i++)
    vtb_strbuf_printf(&module, "%s %d\n", plan->kernels[i].name, plan->kernels[i].n_args);
  vtb_cuda_image *images = vtb_xcalloc((size_t)plan->n_sources, sizeof *images);
  for (int i = 0; i < plan->n_sources; i++) images[i] = (vtb_cuda_image){module.at, module.n + 1};
  status = vtb_cuda_program(plan, images, d, program, err);
  free(images);
  vtb_strbuf_free(&module);
  return status;
}

#endif

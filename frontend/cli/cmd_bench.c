/* vertebra bench: latency, images/s (of a training step: with its update), peak memory, and time
 * and GFLOP/s a kernel with its IR ops. */
#include "frontend/cli/cli.h"
#include "frontend/cli/bench_data.h"
#include "frontend/cli/built.h"
#include "frontend/cli/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_options {
  cli_model_options model;
  cli_data_options data; /* its loading is measured instead of a model */
  int64_t runs, top;
  double seconds;
  bool train, no_update;
  const char *optimizer;
} bench_options;

/* What a run is. */
static const char *what_is_timed(const bench_options *o) {
  return !o->train ? "forward" : o->no_update ? "forward, backward" : "forward, backward, update";
}

typedef struct timing {
  double best, median, mean;
  int64_t runs;
} timing;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* u: NULL without an update. */
static vtb_status measure(const vtb_program *p, void **buffers, void *workspace,
                          const vtb_services *s, const bench_options *o, vtb_optim *u, timing *out,
                          vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 0; i < 2 && status == VTB_OK; i++)
    status = vtb_program_execute(p, buffers, workspace, s, err);
  /* an update that was left out, since gradients were not finite, is no measure */
  if (status == VTB_OK && u) status = vtb_optim_judge(u, 0, NULL, NULL, err);
  vtb_program_keep(p, ~0u); /* a device's own time, without copies from and to the host */
  VTB_VEC(double) times = {0};
  double start = vtb_now(), sum = 0;
  while (status == VTB_OK && times.n < (size_t)(o->runs > 0 ? o->runs : 1000) &&
         (o->runs > 0 || times.n < 5 || vtb_now() - start < o->seconds)) {
    double t = vtb_now();
    status = vtb_program_execute(p, buffers, workspace, s, err);
    vtb_vec_push(&times, vtb_now() - t);
    sum += times.at[times.n - 1];
  }
  if (status == VTB_OK) {
    qsort(times.at, times.n, sizeof *times.at, by_value);
    *out = (timing){times.at[0], times.at[times.n / 2], sum / (double)times.n, (int64_t)times.n};
  }
  vtb_vec_free(&times);
  return status;
}

typedef struct row {
  const vtb_kernel_info *info;
  double seconds; /* one run */
} row;

static int by_seconds(const void *a, const void *b) {
  double x = ((const row *)a)->seconds, y = ((const row *)b)->seconds;
  return (x < y) - (x > y);
}

static double buffer_bytes(const vtb_program *p, bool params) {
  double sum = 0;
  for (int i = 0; i < p->n_tensors; i++)
    if ((p->tensors[i].io == VTB_IO_PARAM) == params)
      sum += 4 * (double)vtb_tensor_info_count(&p->tensors[i]);
  return sum;
}

static void report_head(const vtb_program *p, const timing *t, const bench_options *o,
                        double flops) {
  cli_printf(4, "batch %lld: best %.2f ms, median %.2f ms of %lld runs; %.1f img/s; %.1f GFLOP/s",
             (long long)p->batch, 1e3 * t->best, 1e3 * t->median, (long long)t->runs,
             (double)p->batch / t->best, flops / t->best * 1e-9);
  cli_printf(4,
             "timed: %s; compile %.2f s; memory: workspace %.1f MiB, parameters %.1f MiB, other "
             "buffers %.1f MiB\n",
             what_is_timed(o), p->compile_seconds,
             (double)(p->workspace_bytes + p->device_workspace_bytes) / 1048576,
             buffer_bytes(p, true) / 1048576, buffer_bytes(p, false) / 1048576);
}

/* A row of the table of kernels; what does not fit is cut from the right. */
static void print_kernel(const row *r, double covered, int wide) {
  const vtb_kernel_info *k = r->info;
  cli_line l = {.cut = true};
  cli_line_add(&l, "%7.3f", 1e3 * r->seconds);
  cli_line_add(&l, "%5.1f", 100 * r->seconds / covered);
  cli_line_add(&l, "%-*s", wide, k->what);
  cli_line_add(&l, "%7.1f", k->flops * k->launches / r->seconds * 1e-9);
  cli_line_add(&l, "%6.1f", k->bytes * k->launches / r->seconds * 1e-9);
  cli_line_add(&l, "%8d", k->launches);
  cli_line_add(&l, strlen(k->ops) > 24 ? "%.21s..." : "%-24s", k->ops);
  cli_line_add(&l, "%s", k->origin);
  cli_line_print(&l);
}

static void report_text(const vtb_program *p, const timing *t, const row *rows, int n,
                        const bench_options *o, double flops) {
  double covered = 0;
  int wide = 4, shown = n < o->top ? n : (int)o->top;
  cli_line head = {0};
  for (int i = 0; i < n; i++) covered += rows[i].seconds;
  for (int i = 0; i < shown; i++) {
    int length = (int)strlen(rows[i].info->what);
    if (length > wide) wide = length;
  }
  report_head(p, t, o, flops);
  cli_line_add(&head, "%7s", "ms");
  cli_line_add(&head, "%5s", "%");
  cli_line_add(&head, "%-*s", wide, "what");
  cli_line_add(&head, "GFLOP/s");
  cli_line_add(&head, "%6s", "GB/s");
  cli_line_add(&head, "launches");
  cli_line_add(&head, "%-24s", "ops");
  cli_line_add(&head, "from");
  cli_line_print(&head);
  for (int i = 0; i < shown; i++) print_kernel(&rows[i], covered, wide);
}

static void report_json(const vtb_program *p, const timing *t, const row *rows, int n,
                        const bench_options *o, double flops) {
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "timed", what_is_timed(o));
  cJSON_AddNumberToObject(out, "batch", (double)p->batch);
  cJSON_AddNumberToObject(out, "best_ms", 1e3 * t->best);
  cJSON_AddNumberToObject(out, "median_ms", 1e3 * t->median);
  cJSON_AddNumberToObject(out, "runs", (double)t->runs);
  cJSON_AddNumberToObject(out, "images_per_second", (double)p->batch / t->best);
  cJSON_AddNumberToObject(out, "gflop", flops * 1e-9);
  cJSON_AddNumberToObject(out, "compile_seconds", p->compile_seconds);
  cJSON_AddNumberToObject(out, "workspace_bytes",
                          (double)(p->workspace_bytes + p->device_workspace_bytes));
  cJSON_AddNumberToObject(out, "parameter_bytes", buffer_bytes(p, true));
  cJSON_AddNumberToObject(out, "buffer_bytes",
                          buffer_bytes(p, false)); /* images, results, gradients */
  cJSON *list = cJSON_AddArrayToObject(out, "kernels");
  for (int i = 0; i < n; i++) {
    cJSON *k = cJSON_CreateObject();
    cJSON_AddStringToObject(k, "name", rows[i].info->name);
    cJSON_AddStringToObject(k, "what", rows[i].info->what);
    cJSON_AddStringToObject(k, "ops", rows[i].info->ops);
    cJSON_AddStringToObject(k, "from", rows[i].info->origin);
    cJSON_AddNumberToObject(k, "ms", 1e3 * rows[i].seconds);
    cJSON_AddNumberToObject(k, "launches", rows[i].info->launches);
    cJSON_AddNumberToObject(k, "gflop", rows[i].info->flops * rows[i].info->launches * 1e-9);
    cJSON_AddNumberToObject(k, "gbyte", rows[i].info->bytes * rows[i].info->launches * 1e-9);
    cJSON_AddItemToArray(list, k);
  }
  cli_print_json(out);
}

/* Time a kernel, longest first. *rows, of *n, is the caller's to free. */
static vtb_status profile(const vtb_program *p, void **buffers, void *workspace, int64_t threads,
                          row **rows, int *n, vtb_error *err) {
  vtb_services *profiling = vtb_need(vtb_services_profiling((int)threads, p->n_kernels));
  vtb_status status = vtb_program_execute(p, buffers, workspace, profiling, err);
  vtb_services_reset_times(profiling);
  int rounds = 5;
  for (int i = 0; i < rounds && status == VTB_OK; i++)
    status = vtb_program_execute(p, buffers, workspace, profiling, err);
  const vtb_kernel_time *times = vtb_services_times(profiling, n);
  *rows = vtb_xcalloc((size_t)*n + 1, sizeof **rows);
  int timed = 0; /* kernels inside others are not launched */
  for (int i = 0; i < *n; i++)
    if (p->kernels[i].launches > 0)
      (*rows)[timed++] = (row){&p->kernels[i], times[i].seconds / rounds};
  *n = timed;
  qsort(*rows, (size_t)*n, sizeof **rows, by_seconds);
  vtb_services_free(profiling);
  return status;
}

static void report(const vtb_program *p, const timing *t, const row *rows, int n,
                   const bench_options *o) {
  double flops = 0;
  for (int i = 0; i < n; i++) flops += rows[i].info->flops * rows[i].info->launches;
  if (o->model.json)
    report_json(p, t, rows, n, o, flops);
  else
    report_text(p, t, rows, n, o, flops);
}

static vtb_status time_all(const vtb_program *p, const vtb_program *profiled, void **buffers,
                           void *workspace, const vtb_services *services, const bench_options *o,
                           vtb_error *err) {
  vtb_optim *u = NULL;
  timing t = {0};
  vtb_status status = cli_measured_update(p, buffers, &u, err);
  if (status == VTB_OK) status = measure(p, buffers, workspace, services, o, u, &t, err);
  if (status == VTB_OK && u && profiled != p)
    status = vtb_program_exchange(profiled, buffers, true, err);
  if (status == VTB_OK) {
    row *rows;
    int n;
    status = profile(profiled, buffers, workspace, o->model.threads, &rows, &n, err);
    if (status == VTB_OK) report(p, &t, rows, n, o);
    vtb_free(rows);
  }
  vtb_optim_free(u);
  return status;
}

/* profiled: the same program with calls around its kernels. */
static vtb_status bench_program(const vtb_program *p, const vtb_program *profiled,
                                const bench_options *o) {
  vtb_error err = {0};
  void **buffers = cli_make_buffers(p, &err);
  void *workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  vtb_services *services = vtb_need(vtb_services_default((int)o->model.threads));
  vtb_status status = err.text[0] ? VTB_E_MEMORY : VTB_OK;
  if (!workspace)
    status = vtb_fail(&err, VTB_E_MEMORY, "out of memory: the workspace needs %.1f MiB",
                      (double)p->workspace_bytes / 1048576);
  cli_progress_note("timing");
  if (status == VTB_OK) status = time_all(p, profiled, buffers, workspace, services, o, &err);
  cli_free_buffers(p, buffers);
  vtb_free(workspace);
  vtb_services_free(services);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

static vtb_status bench_model(const char *what, const bench_options *b) {
  vtb_compilation c;
  vtb_compile_options o = cli_compile_options(&b->model, what);
  vtb_program *program = NULL, *profiled = NULL;
  double start = vtb_now();
  int64_t batch = o.batch ? o.batch : 1;
  o.training = b->train;
  cli_progress_note("compiling %s", what);
  o.optimizer = b->no_update ? NULL : b->optimizer;
  vtb_status status = vtb_compilation_open(&c, &o, b->model.report);
  if (status == VTB_OK) status = vtb_compilation_program(&c, batch, false, &program);
  if (status == VTB_OK) program->compile_seconds = vtb_now() - start;
  if (status == VTB_OK) status = vtb_compilation_program(&c, batch, true, &profiled);
  cli_report(&b->model, status);
  if (status == VTB_OK) status = bench_program(program, profiled, b);
  vtb_program_free(program);
  vtb_program_free(profiled);
  vtb_compilation_free(&c);
  return status;
}

static vtb_status bench_built(const char *path, const bench_options *o) {
  vtb_artefact *a = NULL;
  vtb_program *program = NULL;
  double start = vtb_now();
  vtb_status status = cli_built_open("bench", path, &o->model, &a);
  if (status != VTB_OK) return status;
  vtb_artefact_role role = o->train ? VTB_ARTEFACT_STEP : VTB_ARTEFACT_INFERENCE;
  status = cli_built_program(a, role, &o->model, o->model.compile.batch, &program);
  if (status == VTB_OK && o->no_update && vtb_optim_is_inside(program))
    status = cli_usage_error(
        "bench", "the training step of %s has its update inside: leave out --no-update", path);
  if (status == VTB_OK) {
    program->compile_seconds = vtb_now() - start;
    status = bench_program(program, program, o);
  }
  vtb_program_free(program);
  vtb_artefact_close(a);
  return status;
}

vtb_status cli_cmd_bench(int argc, char **argv) {
  bench_options o = {
      .data = CLI_DATA_DEFAULTS, .seconds = 3, .top = 20, .optimizer = CLI_DEFAULT_OPTIMIZER};
  const cli_opt opts[] = {
      CLI_TARGET_OPT(o.model),
      {"--train", CLI_FLAG, &o.train, NULL,
       "a whole training step: forward, backward, clipping, the optimizer's update"},
      {"--no-update", CLI_FLAG, &o.no_update, NULL, "with --train: forward and backward alone"},
      {"--optimizer", CLI_STR, &o.optimizer, "NAME", "whose update it is (default adamw)"},
      {"--data", CLI_STR, &o.data.path, "D",
       "without a MODEL: how many images a second of a data set are decoded and prepared"},
      {"--workers", CLI_INT, &o.data.workers, "N", "with --data: threads (default: cores)"},
      {"--runs", CLI_INT, &o.runs, "N", "exactly N runs instead of --seconds"},
      {"--seconds", CLI_FLOAT, &o.seconds, "S", "time to measure for (default 3)"},
      {"--top", CLI_INT, &o.top, "N", "kernels to list (default 20)"},
      CLI_MODEL_OPTS(o.model)};
  cli_list rest = {0};
  int parsed = cli_parse("bench", opts, CLI_COUNT(opts), argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (rest.n == 0 && o.data.path)
    return bench_data(&o.data, o.model.compile.image, o.seconds, o.model.json);
  if (o.data.path) return cli_usage_error("bench", "--data is measured without a MODEL");
  if (rest.n != 1) return cli_usage_error("bench", "one MODEL or built FILE is needed");
  if (o.no_update && !o.train) return cli_usage_error("bench", "--no-update is for --train");
  cli_model_parsed(&o.model);
  vtb_status status =
      cli_is_built(rest.at[0]) ? bench_built(rest.at[0], &o) : bench_model(rest.at[0], &o);
  vtb_vec_free(&rest);
  cli_model_options_free(&o.model);
  return status;
}

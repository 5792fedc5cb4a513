#include "frontend/cli/bench/bench_output.h"
#include "frontend/cli/say/progress.h"

#include <string.h>

const char *bench_what_is_timed(const bench_options *o) {
  return !o->train ? "forward" : o->no_update ? "forward, backward" : "forward, backward, update";
}

static double buffer_bytes(const vtb_program *p, bool params) {
  double sum = 0;
  for (int i = 0; i < p->n_tensors; i++)
    if ((p->tensors[i].io == VTB_IO_PARAM) == params)
      sum += 4 * (double)vtb_tensor_info_count(&p->tensors[i]);
  return sum;
}

/* Of the peak, in percent: of a kernel's launches, or of a whole run, whose kernels run one after
 * another. */
static double kernel_percent(const bench_result *r, const bench_row *row) {
  const vtb_kernel_info *k = row->info;
  return 100 * k->launches * study_peak_seconds(&r->peak->rates, k->flops, k->bytes) / row->seconds;
}

static double percent(const bench_result *r) {
  double seconds = 0;
  for (int i = 0; i < r->n_rows; i++) {
    const vtb_kernel_info *k = r->rows[i].info;
    seconds += k->launches * study_peak_seconds(&r->peak->rates, k->flops, k->bytes);
  }
  return 100 * seconds / r->timing.best;
}

static double workspace_bytes(const vtb_program *p) {
  return (double)(p->workspace_bytes + p->device_workspace_bytes);
}

static void report_head(const bench_result *r) {
  const vtb_program *p = r->program;
  const bench_timing *t = &r->timing;
  char rounds[40] = "";
  if (r->rounds.n > 1) snprintf(rounds, sizeof rounds, " in %zu rounds", r->rounds.n);
  cli_printf(4,
             "batch %lld: best %.2f ms, median %.2f ms, spread %.0f %% (%lld runs%s); %.1f img/s; "
             "%.1f GFLOP/s",
             (long long)p->batch, 1e3 * t->best, 1e3 * t->median,
             100 * bench_spread(r->rounds.at, r->rounds.n), (long long)t->runs, rounds,
             (double)p->batch / t->best, r->flops / t->best * 1e-9);
  cli_printf(4,
             "timed: %s; compile %.2f s; memory: workspace %.1f MiB, parameters %.1f MiB, other "
             "buffers %.1f MiB; the process had %.0f MiB at most",
             bench_what_is_timed(r->options), p->compile_seconds, workspace_bytes(p) / 1048576,
             buffer_bytes(p, true) / 1048576, buffer_bytes(p, false) / 1048576,
             (double)r->watch.peak_bytes / 1048576);
  if (r->peak) {
    bench_peak_print(r->peak);
    cli_printf(4, "%.0f %% of the peak", percent(r));
  }
  if (bench_watch_is_busy(&r->watch, r->threads))
    cli_printf(4, "other programs used %.1f of %.0f cores meanwhile: these times are upper bounds",
               r->watch.others, r->watch.cores);
  printf("\n");
}

/* A row of the table of kernels; what does not fit is cut from the right. */
static void print_kernel(const bench_result *r, const bench_row *row, double covered, int wide) {
  const vtb_kernel_info *k = row->info;
  cli_line l = {.cut = true};
  cli_line_add(&l, "%7.3f", 1e3 * row->seconds);
  cli_line_add(&l, "%5.1f", 100 * row->seconds / covered);
  cli_line_add(&l, "%-*s", wide, k->what);
  cli_line_add(&l, "%7.1f", k->flops * k->launches / row->seconds * 1e-9);
  cli_line_add(&l, "%6.1f", k->bytes * k->launches / row->seconds * 1e-9);
  if (r->peak) cli_line_add(&l, "%6.0f", kernel_percent(r, row));
  cli_line_add(&l, "%8d", k->launches);
  cli_line_add(&l, strlen(k->ops) > 24 ? "%.21s..." : "%-24s", k->ops);
  cli_line_add(&l, "%s", k->origin);
  cli_line_print(&l);
}

static void report_text(const bench_result *r) {
  int n = r->n_rows, wide = 4, shown = n < r->options->top ? n : (int)r->options->top;
  double covered = 0;
  cli_line head = {0};
  for (int i = 0; i < n; i++) covered += r->rows[i].seconds;
  for (int i = 0; i < shown; i++) {
    int length = (int)strlen(r->rows[i].info->what);
    if (length > wide) wide = length;
  }
  report_head(r);
  cli_line_add(&head, "%7s", "ms");
  cli_line_add(&head, "%5s", "%");
  cli_line_add(&head, "%-*s", wide, "what");
  cli_line_add(&head, "GFLOP/s");
  cli_line_add(&head, "%6s", "GB/s");
  if (r->peak) cli_line_add(&head, "%% peak");
  cli_line_add(&head, "launches");
  cli_line_add(&head, "%-24s", "ops");
  cli_line_add(&head, "from");
  cli_line_print(&head);
  for (int i = 0; i < shown; i++) print_kernel(r, &r->rows[i], covered, wide);
}

static cJSON *kernel_json(const bench_result *r, const bench_row *row) {
  const vtb_kernel_info *info = row->info;
  cJSON *k = cJSON_CreateObject();
  cJSON_AddStringToObject(k, "name", info->name);
  cJSON_AddStringToObject(k, "what", info->what);
  cJSON_AddStringToObject(k, "ops", info->ops);
  cJSON_AddStringToObject(k, "from", info->origin);
  cJSON_AddNumberToObject(k, "ms", 1e3 * row->seconds);
  cJSON_AddNumberToObject(k, "launches", info->launches);
  cJSON_AddNumberToObject(k, "gflop", info->flops * info->launches * 1e-9);
  cJSON_AddNumberToObject(k, "gbyte", info->bytes * info->launches * 1e-9);
  if (r->peak) cJSON_AddNumberToObject(k, "percent_of_peak", kernel_percent(r, row));
  return k;
}

static void add_size(cJSON *out, const vtb_program *p) {
  vtb_error none = {0};
  int channels, height, width;
  char text[40];
  if (cli_program_image_size(p, &channels, &height, &width, &none) != VTB_OK) return;
  snprintf(text, sizeof text, "%dx%d", height, width);
  cJSON_AddStringToObject(out, "img_size", text);
}

/* What was measured. */
static void add_setting(cJSON *out, const bench_result *r) {
  const vtb_compile_options *o = &r->options->model.compile;
  cJSON_AddStringToObject(out, "model", r->facts.model);
  cJSON_AddNumberToObject(out, "param_count", (double)r->facts.params);
  if (r->facts.macs > 0) cJSON_AddNumberToObject(out, "gmacs", 1e-9 * r->facts.macs);
  add_size(out, r->program);
  cJSON_AddStringToObject(out, "target", o->target ? o->target : VTB_DEFAULT_TARGET);
  if (o->precision) cJSON_AddStringToObject(out, "precision", o->precision);
  if (o->mode || o->chunk) cJSON_AddStringToObject(out, "mode", o->mode ? o->mode : "chunkwise");
  if (o->chunk) cJSON_AddNumberToObject(out, "chunk", (double)o->chunk);
  cJSON_AddNumberToObject(out, "threads", r->threads);
  cJSON_AddStringToObject(out, "timed", bench_what_is_timed(r->options));
  cJSON_AddNumberToObject(out, "batch", (double)r->program->batch);
}

static void add_times(cJSON *out, const bench_result *r) {
  const bench_timing *t = &r->timing;
  cJSON_AddNumberToObject(out, "best_ms", 1e3 * t->best);
  cJSON_AddNumberToObject(out, "median_ms", 1e3 * t->median);
  cJSON_AddNumberToObject(out, "spread", bench_spread(r->rounds.at, r->rounds.n));
  cJSON_AddNumberToObject(out, "runs", (double)t->runs);
  cJSON_AddNumberToObject(out, "images_per_second", (double)r->program->batch / t->best);
  cJSON_AddNumberToObject(out, "gflop", r->flops * 1e-9);
  cJSON *list = cJSON_AddArrayToObject(out, "rounds");
  for (size_t i = 0; i < r->rounds.n; i++) {
    cJSON *round = cJSON_CreateObject();
    cJSON_AddNumberToObject(round, "best_ms", 1e3 * r->rounds.at[i].best);
    cJSON_AddNumberToObject(round, "median_ms", 1e3 * r->rounds.at[i].median);
    cJSON_AddItemToArray(list, round);
  }
  if (r->watch.others >= 0) cJSON_AddNumberToObject(out, "others_cores", r->watch.others);
}

static void add_memory(cJSON *out, const bench_result *r) {
  const vtb_program *p = r->program;
  cJSON_AddNumberToObject(out, "workspace_bytes", workspace_bytes(p));
  cJSON_AddNumberToObject(out, "parameter_bytes", buffer_bytes(p, true));
  cJSON_AddNumberToObject(out, "buffer_bytes",
                          buffer_bytes(p, false)); /* images, results, gradients */
  cJSON_AddNumberToObject(out, "peak_bytes", (double)r->watch.peak_bytes);
  if (r->watch.timed_peak_bytes)
    cJSON_AddNumberToObject(out, "timed_peak_bytes", (double)r->watch.timed_peak_bytes);
}

static cJSON *result_json(const bench_result *r) {
  cJSON *out = cJSON_CreateObject();
  add_setting(out, r);
  add_times(out, r);
  cJSON_AddNumberToObject(out, "compile_seconds", r->program->compile_seconds);
  add_memory(out, r);
  if (r->peak) {
    cJSON_AddNumberToObject(out, "percent_of_peak", percent(r));
    cJSON_AddItemToObject(out, "peak", bench_peak_json(r->peak));
  }
  cJSON *list = cJSON_AddArrayToObject(out, "kernels");
  for (int i = 0; i < r->n_rows; i++) cJSON_AddItemToArray(list, kernel_json(r, &r->rows[i]));
  return out;
}

bool bench_shows_text(const bench_options *o) { return !o->model.json && !vtb_streq(o->csv, "-"); }

vtb_status bench_report(const bench_result *r) {
  if (bench_shows_text(r->options)) report_text(r);
  return bench_finish(r->options, result_json(r));
}

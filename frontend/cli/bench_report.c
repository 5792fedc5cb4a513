#include "frontend/cli/bench.h"
#include "frontend/cli/progress.h"

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
  return 100 * k->launches * bench_peak_seconds(r->peak, k->flops, k->bytes) / row->seconds;
}

static double percent(const bench_result *r) {
  double seconds = 0;
  for (int i = 0; i < r->n_rows; i++) {
    const vtb_kernel_info *k = r->rows[i].info;
    seconds += k->launches * bench_peak_seconds(r->peak, k->flops, k->bytes);
  }
  return 100 * seconds / r->timing.best;
}

static void report_head(const bench_result *r) {
  const vtb_program *p = r->program;
  const bench_timing *t = &r->timing;
  cli_printf(4, "batch %lld: best %.2f ms, median %.2f ms of %lld runs; %.1f img/s; %.1f GFLOP/s",
             (long long)p->batch, 1e3 * t->best, 1e3 * t->median, (long long)t->runs,
             (double)p->batch / t->best, r->flops / t->best * 1e-9);
  cli_printf(4,
             "timed: %s; compile %.2f s; memory: workspace %.1f MiB, parameters %.1f MiB, other "
             "buffers %.1f MiB",
             bench_what_is_timed(r->options), p->compile_seconds,
             (double)(p->workspace_bytes + p->device_workspace_bytes) / 1048576,
             buffer_bytes(p, true) / 1048576, buffer_bytes(p, false) / 1048576);
  if (r->peak) {
    bench_peak_print(r->peak);
    cli_printf(4, "%.0f %% of the peak", percent(r));
  }
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

static void report_json(const bench_result *r) {
  const vtb_program *p = r->program;
  const bench_timing *t = &r->timing;
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "timed", bench_what_is_timed(r->options));
  cJSON_AddNumberToObject(out, "batch", (double)p->batch);
  cJSON_AddNumberToObject(out, "best_ms", 1e3 * t->best);
  cJSON_AddNumberToObject(out, "median_ms", 1e3 * t->median);
  cJSON_AddNumberToObject(out, "runs", (double)t->runs);
  cJSON_AddNumberToObject(out, "images_per_second", (double)p->batch / t->best);
  cJSON_AddNumberToObject(out, "gflop", r->flops * 1e-9);
  cJSON_AddNumberToObject(out, "compile_seconds", p->compile_seconds);
  cJSON_AddNumberToObject(out, "workspace_bytes",
                          (double)(p->workspace_bytes + p->device_workspace_bytes));
  cJSON_AddNumberToObject(out, "parameter_bytes", buffer_bytes(p, true));
  cJSON_AddNumberToObject(out, "buffer_bytes",
                          buffer_bytes(p, false)); /* images, results, gradients */
  if (r->peak) {
    cJSON_AddNumberToObject(out, "percent_of_peak", percent(r));
    cJSON_AddItemToObject(out, "peak", bench_peak_json(r->peak));
  }
  cJSON *list = cJSON_AddArrayToObject(out, "kernels");
  for (int i = 0; i < r->n_rows; i++) cJSON_AddItemToArray(list, kernel_json(r, &r->rows[i]));
  cli_print_json(out);
}

void bench_report(const bench_result *r) {
  if (r->options->model.json)
    report_json(r);
  else
    report_text(r);
}

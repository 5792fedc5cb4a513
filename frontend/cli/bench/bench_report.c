/* A measurement as a document. */
#include "frontend/cli/bench/bench_output.h"

#include <math.h>

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

/* The share of the peak, in percent: of a kernel's launches, or of a whole run, whose kernels run
 * one after another. */
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

/* The settings of a measurement. */
static void add_setting(cJSON *out, const bench_result *r) {
  const vtb_compile_options *o = &r->options->model.compile;
  vtb_error none = {0};
  int channels, height, width;
  char size[40];
  bool sized = cli_program_image_size(r->program, &channels, &height, &width, &none) == VTB_OK;
  if (sized) snprintf(size, sizeof size, "%dx%d", height, width);
  const char *mode = o->chunk && !o->mode ? "chunkwise" : o->mode;
  doc_put(out, F("model", r->facts.model), F("param_count", r->facts.params),
          K("gmacs", r->facts.macs > 0 ? 1e-9 * r->facts.macs : NAN),
          K("img_size", sized ? size : NULL),
          F("target", o->target ? o->target : VTB_DEFAULT_TARGET), K("precision", o->precision),
          K("mode", mode), K("chunk", o->chunk ? (double)o->chunk : NAN), F("threads", r->threads),
          F("timed", bench_what_is_timed(r->options)), F("batch", r->program->batch));
}

static void add_times(doc *d, const bench_result *r) {
  const bench_timing *t = &r->timing;
  double spread = bench_spread(r->rounds.at, r->rounds.n),
         per_second = (double)r->program->batch / t->best;
  char several[40] = "";
  cJSON *rounds = cJSON_CreateArray();
  for (size_t i = 0; i < r->rounds.n; i++)
    doc_item(rounds, F("best_ms", 1e3 * r->rounds.at[i].best),
             F("median_ms", 1e3 * r->rounds.at[i].median));
  doc_put(d->json, F("best_ms", 1e3 * t->best), F("median_ms", 1e3 * t->median),
          F("spread", spread), F("runs", t->runs), F("images_per_second", per_second),
          F("gflop", r->flops * 1e-9), F("rounds", rounds),
          K("others_cores", r->watch.others >= 0 ? r->watch.others : NAN));
  if (r->rounds.n > 1) snprintf(several, sizeof several, " in %zu rounds", r->rounds.n);
  doc_say(d, 4,
          "batch %lld: best %.2f ms, median %.2f ms, spread %.0f %% (%lld runs%s); %.1f img/s; "
          "%.1f GFLOP/s",
          (long long)r->program->batch, 1e3 * t->best, 1e3 * t->median, 100 * spread,
          (long long)t->runs, several, per_second, r->flops / t->best * 1e-9);
}

static void add_memory(doc *d, const bench_result *r) {
  const vtb_program *p = r->program;
  double workspace = (double)(p->workspace_bytes + p->device_workspace_bytes),
         params = buffer_bytes(p, true), others = buffer_bytes(p, false);
  int64_t timed = r->watch.timed_peak_bytes;
  doc_put(d->json, F("compile_seconds", p->compile_seconds), F("workspace_bytes", workspace),
          F("parameter_bytes", params), F("buffer_bytes", others), /* images, results, gradients */
          F("peak_bytes", r->watch.peak_bytes), K("timed_peak_bytes", timed ? (double)timed : NAN));
  doc_say(d, 4,
          "timed: %s; compile %.2f s; memory: workspace %.1f MiB, parameters %.1f MiB, other "
          "buffers %.1f MiB; the process had %.0f MiB at most",
          bench_what_is_timed(r->options), p->compile_seconds, workspace / 1048576,
          params / 1048576, others / 1048576, (double)r->watch.peak_bytes / 1048576);
}

static void add_kernels(doc *d, const bench_result *r) {
  static const doc_column columns[] = {
      {.key = "name"},
      {.key = "what"},
      {.key = "ops"},
      {.key = "from"},
      {"ms", "ms", .width = 7, .format = "%.3f"},
      {.heading = "%", .width = 5, .format = "%.1f"},
      {.heading = "what", .width = -4},
      {.heading = "GFLOP/s", .width = 7, .format = "%.1f"},
      {.heading = "GB/s", .width = 6, .format = "%.1f"},
      {.heading = "% peak", .width = 6},
      {"launches", "launches", .width = 8},
      {.heading = "ops", .width = -24, .most = 24},
      {.heading = "from", .width = -1},
      {.key = "gflop"},
      {.key = "gbyte"},
      {"percent_of_peak", .optional = true},
  };
  double covered = 0;
  for (int i = 0; i < r->n_rows; i++) covered += r->rows[i].seconds;
  doc_table *t = DOC_TABLE(d, cJSON_AddArrayToObject(d->json, "kernels"), columns);
  t->cut = r->peak ? 8 : 7;
  for (int i = 0; i < r->n_rows; i++) {
    const bench_row *row = &r->rows[i];
    const vtb_kernel_info *k = row->info;
    double gflop = k->flops * k->launches * 1e-9, gbyte = k->bytes * k->launches * 1e-9,
           peak = r->peak ? kernel_percent(r, row) : NAN;
    doc_row(d, t, V(k->name), V(k->what), V(k->ops), V(k->origin), V(1e3 * row->seconds),
            V(100 * row->seconds / covered), V(k->what), V(gflop / row->seconds),
            V(gbyte / row->seconds), V(peak), V(k->launches), V(k->ops), V(k->origin), V(gflop),
            V(gbyte), V(peak));
    if (i >= r->options->top) doc_hide_row(t);
  }
}

vtb_status bench_report(const bench_result *r) {
  doc *d = doc_new(cJSON_CreateObject());
  add_setting(d->json, r);
  add_times(d, r);
  add_memory(d, r);
  if (r->peak) {
    cJSON *peak = cJSON_CreateObject();
    bench_peak_tell(r->peak, d, peak);
    doc_put(d->json, F("percent_of_peak", percent(r)), F("peak", peak));
    doc_say(d, 4, "%.0f %% of the peak", percent(r));
  }
  if (bench_watch_is_busy(&r->watch, r->threads))
    doc_say(d, 4, "other programs used %.1f of %.0f cores meanwhile: these times are upper bounds",
            r->watch.others, r->watch.cores);
  doc_say(d, 0, "%s", "");
  add_kernels(d, r);
  return bench_finish(r->options, d);
}

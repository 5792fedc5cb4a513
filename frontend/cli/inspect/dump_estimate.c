/* vertebra dump --estimate: the launches of a run with what each is expected to take and why, and
 * together. docs/cuda_cost.md says how far to believe it. */
#include "frontend/cli/inspect/dump_estimate.h"

#include "frontend/compile/outline.h"

#include <stdlib.h>
#include <string.h>

enum { WORST = 12, NAME_COLUMNS = 28, WORST_COLUMNS = 39 };

/* Launches of one kernel together. */
typedef struct kernel_sum {
  const char *name;
  vtb_limit limit; /* of its longest launch */
  double seconds, longest, bytes;
  int64_t launches;
} kernel_sum;
typedef VTB_VEC(kernel_sum) kernel_sums;

static const char *name_of(const vtb_launch_estimate *l) {
  return *l->name ? l->name : "library product";
}

/* The name, its middle left out if it has more columns. */
static const char *fit(const char *name, int columns, char out[64]) {
  int n = (int)strlen(name), head = columns / 3, tail = columns - head - 2;
  if (n <= columns)
    snprintf(out, 64, "%s", name);
  else
    snprintf(out, 64, "%.*s..%s", head, name, name + n - tail);
  return out;
}

/* The architecture whose plan it is: kernels of its own make it that one's alone. */
static const char *plan_of(const vtb_outline *o) {
  for (int k = 0; k < o->plan->n_kernels; k++)
    if (o->plan->kernels[k].arch == 90) return "sm_90a";
  return "all architectures";
}

static int by_seconds(const void *a, const void *b) {
  double x = ((const kernel_sum *)a)->seconds, y = ((const kernel_sum *)b)->seconds;
  return (x < y) - (x > y);
}

static void sum_kernels(const vtb_outline *o, kernel_sums *sums) {
  vtb_map at = {0};
  for (size_t i = 0; i < o->launches.n; i++) {
    const vtb_launch_estimate *l = &o->launches.at[i];
    size_t k = (size_t)(uintptr_t)vtb_map_get(&at, name_of(l));
    if (!k) {
      vtb_vec_push(sums, ((kernel_sum){.name = name_of(l)}));
      k = sums->n;
      vtb_map_set(&at, name_of(l), (void *)(uintptr_t)k);
    }
    kernel_sum *s = &sums->at[k - 1];
    s->launches += (int64_t)l->runs;
    s->seconds += l->runs * l->time.seconds;
    s->bytes += l->runs * (l->bytes + l->l2_bytes);
    if (l->time.seconds > s->longest) {
      s->longest = l->time.seconds;
      s->limit = l->time.limit;
    }
  }
  vtb_map_free(&at);
  if (sums->n) qsort(sums->at, sums->n, sizeof *sums->at, by_seconds);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void add_launches(doc *d, const vtb_outline *o) {
  static const doc_column columns[] = {
      {"step", "step", .width = 5},
      {"runs", "runs", .width = 5},
      {.key = "kernel"},
      {.heading = "kernel", .width = -NAME_COLUMNS},
      {.key = "ops"},
      {.key = "origin"},
      {"blocks", "blocks", .width = 8},
      {.key = "threads"},
      {.key = "resident"},
      {.key = "waves"},
      {.key = "bytes"},
      {.key = "l2_bytes"},
      {.heading = "MB", .width = 8, .format = "%.2f"},
      {"us", "us", .width = 8, .format = "%.2f"},
      {.heading = "%", .width = 5, .format = "%.2f"},
      {"limit", "limit", .width = -1},
      {.key = "us_by_limit"},
  };
  doc_table *t = DOC_TABLE(d, cJSON_AddArrayToObject(d->json, "steps"), columns);
  t->gap = 1;
  for (size_t i = 0; i < o->launches.n; i++) {
    const vtb_launch_estimate *l = &o->launches.at[i];
    char name[64];
    cJSON *by = cJSON_CreateObject();
    for (int k = 0; k < VTB_N_LIMITS; k++) doc_put(by, F(vtb_limit_names[k], 1e6 * l->time.by[k]));
    doc_row(d, t, V(l->step), V(l->runs), V(l->name), V(fit(name_of(l), NAME_COLUMNS, name)),
            V(l->ops), V(l->origin), V(l->blocks), V(l->threads), V(l->time.resident),
            V(l->time.waves), V(l->bytes), V(l->l2_bytes), V(1e-6 * (l->bytes + l->l2_bytes)),
            V(1e6 * l->time.seconds), V(100 * l->runs * l->time.seconds / o->estimate.seconds),
            V(vtb_limit_names[l->time.limit]), V(by));
  }
}

static void add_worst(doc *d, const vtb_outline *o) {
  static const doc_column columns[] = {
      {.heading = "most time", .width = -WORST_COLUMNS},
      {.heading = "launches", .width = 8},
      {.heading = "MB", .width = 8, .format = "%.1f", .scale = 1e-6},
      {.heading = "ms", .width = 8, .format = "%.3f", .scale = 1e3},
      {.heading = "%", .width = 5, .format = "%.1f"},
      {.heading = "limit", .width = -1},
  };
  kernel_sums sums = {0};
  doc_say(d, 0, "%s", "");
  doc_table *t = DOC_TABLE(d, NULL, columns);
  t->gap = 1;
  sum_kernels(o, &sums);
  for (size_t i = 0; i < sums.n && i < WORST; i++) {
    const kernel_sum *s = &sums.at[i];
    char name[64];
    doc_row(d, t, V(fit(s->name, WORST_COLUMNS, name)), V(s->launches), V(s->bytes), V(s->seconds),
            V(100 * s->seconds / o->estimate.seconds), V(vtb_limit_names[s->limit]));
  }
  vtb_vec_free(&sums);
}

/* Time by what binds. */
static void say_limits(doc *d, const vtb_outline *o) {
  double by[VTB_N_LIMITS] = {0};
  vtb_strbuf text = {0};
  for (size_t i = 0; i < o->launches.n; i++)
    by[o->launches.at[i].time.limit] += o->launches.at[i].runs * o->launches.at[i].time.seconds;
  for (int l = 0; l < VTB_N_LIMITS; l++)
    if (by[l] > 0)
      vtb_strbuf_printf(&text, "%s %s %.0f %%", text.n ? "," : "", vtb_limit_names[l],
                        100 * by[l] / o->estimate.seconds);
  doc_say(d, 2, "\ntime by limit:%s", vtb_strbuf_text(&text));
  vtb_strbuf_free(&text);
}

static void tell_estimate(const vtb_outline *o, double batch) {
  const vtb_estimate *e = &o->estimate;
  doc *d = doc_new(doc_object(F("stage", "launches"), F("machine", o->gpu.name),
                              F("plan", plan_of(o)), F("batch", batch), F("launches", e->launches),
                              F("ms", 1e3 * e->seconds), F("images_per_second", batch / e->seconds),
                              F("bytes", e->bytes), F("flops", e->flops)));
  add_launches(d, o);
  add_worst(d, o);
  say_limits(d, o);
  doc_say(d, 2, "plan: for %s", plan_of(o));
  doc_say(d, 2, "%s: %lld launches, %.3f ms a run of %.0f, %.0f images/s, %.1f MB an image",
          o->gpu.name, (long long)e->launches, 1e3 * e->seconds, batch, batch / e->seconds,
          1e-6 * e->bytes / batch);
  cli_tell(d);
}

vtb_status cli_dump_estimate(const vtb_compile_options *o, const char *arch,
                             const cli_model_options *m) {
  vtb_compilation c = {0};
  vtb_outline outline = {0};
  vtb_compile_options wanted = *o;
  if (!wanted.target) wanted.target = "cuda";
  double batch = (double)(o->batch ? o->batch : 1);
  vtb_status status = vtb_compilation_open(&c, &wanted, m->report);
  if (status == VTB_OK) status = vtb_outline_make(&c, (int64_t)batch, arch, &outline);
  if (status == VTB_OK && !outline.plan)
    status = cli_usage_error("dump", "target %s launches nothing that --estimate could predict",
                             wanted.target);
  else if (status == VTB_OK)
    tell_estimate(&outline, batch);
  vtb_outline_free(&outline);
  vtb_compilation_free(&c);
  return status;
}

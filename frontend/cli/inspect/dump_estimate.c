/* vertebra dump --estimate: the launches of a run with what each is expected to take and why, and
 * together. docs/cuda_cost.md says how far to believe it. */
#include "frontend/cli/inspect/dump_estimate.h"

#include "frontend/compile/outline.h"

#include <stdlib.h>
#include <string.h>

enum { WORST = 12, NAME_COLUMNS = 33, WORST_COLUMNS = 39 };

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
    s->launches++;
    s->seconds += l->time.seconds;
    s->bytes += l->bytes + l->l2_bytes;
    if (l->time.seconds > s->longest) {
      s->longest = l->time.seconds;
      s->limit = l->time.limit;
    }
  }
  vtb_map_free(&at);
  if (sums->n) qsort(sums->at, sums->n, sizeof *sums->at, by_seconds);
}

/* ---- as text --------------------------------------------------------------------------------- */

static void print_launches(const vtb_outline *o) {
  printf("%5s %-*s %8s %8s %8s %5s %s\n", "step", NAME_COLUMNS, "kernel", "blocks", "MB", "us", "%",
         "limit");
  for (size_t i = 0; i < o->launches.n; i++) {
    const vtb_launch_estimate *l = &o->launches.at[i];
    char name[64];
    printf("%5d %-*s %8.0f %8.2f %8.2f %5.2f %s\n", l->step, NAME_COLUMNS,
           fit(name_of(l), NAME_COLUMNS, name), l->blocks, 1e-6 * (l->bytes + l->l2_bytes),
           1e6 * l->time.seconds, 100 * l->time.seconds / o->estimate.seconds,
           vtb_limit_names[l->time.limit]);
  }
}

static void print_worst(const vtb_outline *o, const kernel_sums *sums) {
  printf("\n%-*s %8s %8s %8s %5s %s\n", WORST_COLUMNS, "most time", "launches", "MB", "ms", "%",
         "limit");
  for (size_t i = 0; i < sums->n && i < WORST; i++) {
    const kernel_sum *s = &sums->at[i];
    char name[64];
    printf("%-*s %8lld %8.1f %8.3f %5.1f %s\n", WORST_COLUMNS, fit(s->name, WORST_COLUMNS, name),
           (long long)s->launches, 1e-6 * s->bytes, 1e3 * s->seconds,
           100 * s->seconds / o->estimate.seconds, vtb_limit_names[s->limit]);
  }
}

/* Time by what binds. */
static void print_limits(const vtb_outline *o) {
  double by[VTB_N_LIMITS] = {0};
  for (size_t i = 0; i < o->launches.n; i++)
    by[o->launches.at[i].time.limit] += o->launches.at[i].time.seconds;
  printf("\ntime by limit:");
  const char *comma = "";
  for (int l = 0; l < VTB_N_LIMITS; l++) {
    if (by[l] <= 0) continue;
    printf("%s %s %.0f %%", comma, vtb_limit_names[l], 100 * by[l] / o->estimate.seconds);
    comma = ",";
  }
  putchar('\n');
}

static void print_text(const vtb_outline *o, double batch) {
  kernel_sums sums = {0};
  sum_kernels(o, &sums);
  print_launches(o);
  print_worst(o, &sums);
  print_limits(o);
  printf("plan: for %s\n", plan_of(o));
  printf("%s: %lld launches, %.3f ms a run of %.0f, %.0f images/s, %.1f MB an image\n", o->gpu.name,
         (long long)o->estimate.launches, 1e3 * o->estimate.seconds, batch,
         batch / o->estimate.seconds, 1e-6 * o->estimate.bytes / batch);
  vtb_vec_free(&sums);
}

/* ---- as data --------------------------------------------------------------------------------- */

static cJSON *launch_json(const vtb_launch_estimate *l) {
  cJSON *out = cJSON_CreateObject();
  cJSON_AddNumberToObject(out, "step", l->step);
  cJSON_AddStringToObject(out, "kernel", l->name);
  cJSON_AddStringToObject(out, "ops", l->ops);
  cJSON_AddStringToObject(out, "origin", l->origin);
  cJSON_AddNumberToObject(out, "blocks", l->blocks);
  cJSON_AddNumberToObject(out, "threads", l->threads);
  cJSON_AddNumberToObject(out, "resident", l->time.resident);
  cJSON_AddNumberToObject(out, "waves", l->time.waves);
  cJSON_AddNumberToObject(out, "bytes", l->bytes);
  cJSON_AddNumberToObject(out, "l2_bytes", l->l2_bytes);
  cJSON_AddNumberToObject(out, "us", 1e6 * l->time.seconds);
  cJSON_AddStringToObject(out, "limit", vtb_limit_names[l->time.limit]);
  cJSON *by = cJSON_AddObjectToObject(out, "us_by_limit");
  for (int i = 0; i < VTB_N_LIMITS; i++)
    cJSON_AddNumberToObject(by, vtb_limit_names[i], 1e6 * l->time.by[i]);
  return out;
}

static void print_json(const vtb_outline *o, double batch) {
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "stage", "launches");
  cJSON_AddStringToObject(out, "machine", o->gpu.name);
  cJSON_AddStringToObject(out, "plan", plan_of(o));
  cJSON_AddNumberToObject(out, "batch", batch);
  cJSON_AddNumberToObject(out, "launches", (double)o->estimate.launches);
  cJSON_AddNumberToObject(out, "ms", 1e3 * o->estimate.seconds);
  cJSON_AddNumberToObject(out, "images_per_second", batch / o->estimate.seconds);
  cJSON_AddNumberToObject(out, "bytes", o->estimate.bytes);
  cJSON_AddNumberToObject(out, "flops", o->estimate.flops);
  cJSON *list = cJSON_AddArrayToObject(out, "steps");
  for (size_t i = 0; i < o->launches.n; i++)
    cJSON_AddItemToArray(list, launch_json(&o->launches.at[i]));
  cli_print_json(out);
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
    (m->json ? print_json : print_text)(&outline, batch);
  vtb_outline_free(&outline);
  vtb_compilation_free(&c);
  return status;
}

/* One run as a Chrome trace (chrome://tracing, ui.perfetto.dev): the run, its kernels in order, and
 * what each thread did of them. */
#include "frontend/cli/bench.h"
#include "runtime/launch/trace.h"

#include <string.h>

/* Rows of the picture. */
enum { TRACK_RUN, TRACK_LAUNCHES, TRACK_THREADS };

static cJSON *add_event(cJSON *list, const char *name, const char *phase, int track) {
  cJSON *e = cJSON_CreateObject();
  cJSON_AddStringToObject(e, "name", name);
  cJSON_AddStringToObject(e, "ph", phase);
  cJSON_AddNumberToObject(e, "pid", 1);
  cJSON_AddNumberToObject(e, "tid", track);
  cJSON_AddItemToArray(list, e);
  return e;
}

/* Microseconds, as the format wants them, since `start`. */
static cJSON *add_span(cJSON *list, const char *name, int track, double start, double begin,
                       double end) {
  cJSON *e = add_event(list, name, "X", track);
  cJSON_AddNumberToObject(e, "ts", 1e6 * (begin - start));
  cJSON_AddNumberToObject(e, "dur", 1e6 * (end - begin));
  return e;
}

static void name_track(cJSON *list, int track, const char *name) {
  cJSON *e = add_event(list, "thread_name", "M", track);
  cJSON_AddStringToObject(cJSON_AddObjectToObject(e, "args"), "name", name);
  e = add_event(list, "thread_sort_index", "M", track);
  cJSON_AddNumberToObject(cJSON_AddObjectToObject(e, "args"), "sort_index", track);
}

static void add_launches(cJSON *list, const vtb_program *p, const vtb_trace_list *l, double start) {
  for (size_t i = 0; i < l->n && i < l->most; i++) {
    const vtb_trace_event *at = &l->at[i];
    const vtb_kernel_info *k = &p->kernels[at->kernel];
    cJSON *e = add_span(list, k->what, TRACK_LAUNCHES, start, at->begin, at->end);
    cJSON_AddStringToObject(e, "cat", k->ops);
    cJSON *args = cJSON_AddObjectToObject(e, "args");
    cJSON_AddNumberToObject(args, "launch", (double)i);
    cJSON_AddStringToObject(args, "kernel", k->name);
    cJSON_AddStringToObject(args, "ops", k->ops);
    cJSON_AddStringToObject(args, "from", k->origin);
    cJSON_AddNumberToObject(args, "flops", k->flops);
    cJSON_AddNumberToObject(args, "bytes", k->bytes);
    cJSON_AddNumberToObject(args, "gflops", 1e-9 * k->flops / (at->end - at->begin));
  }
}

static void add_parts(cJSON *list, const vtb_program *p, const vtb_trace_list *l, int thread,
                      double start) {
  char name[32];
  snprintf(name, sizeof name, thread ? "thread %d" : "thread %d, the caller", thread);
  name_track(list, TRACK_THREADS + thread, name);
  for (size_t i = 0; i < l->n && i < l->most; i++) {
    const vtb_trace_event *at = &l->at[i];
    const char *what = at->kernel >= 0 ? p->kernels[at->kernel].what : "between kernels";
    add_span(list, what, TRACK_THREADS + thread, start, at->begin, at->end);
  }
}

static cJSON *trace_json(const bench_result *r, const vtb_program *p, const vtb_trace *t,
                         double begin, double end) {
  cJSON *out = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(out, "traceEvents");
  const char *timed = bench_what_is_timed(r->options);
  cJSON *e = add_event(list, "process_name", "M", TRACK_RUN);
  cJSON_AddStringToObject(cJSON_AddObjectToObject(e, "args"), "name", r->facts.model);
  name_track(list, TRACK_RUN, "run");
  name_track(list, TRACK_LAUNCHES, "kernels");
  add_span(list, timed, TRACK_RUN, begin, begin, end);
  add_launches(list, p, &t->launches, begin);
  for (int i = 0; i < t->n_threads; i++)
    if (t->parts[i].n) add_parts(list, p, &t->parts[i], i, begin);
  cJSON_AddStringToObject(out, "displayTimeUnit", "ms");
  cJSON *about = cJSON_AddObjectToObject(out, "otherData");
  cJSON_AddStringToObject(about, "model", r->facts.model);
  cJSON_AddStringToObject(about, "timed", timed);
  cJSON_AddNumberToObject(about, "batch", (double)p->batch);
  cJSON_AddNumberToObject(about, "threads", r->threads);
  return out;
}

/* Launches that are promised, and some that are not: a program counts what it knows. */
static size_t most_events(const vtb_program *p, int threads) {
  size_t n = 1024;
  for (int i = 0; i < p->n_kernels; i++) n += 8 * (size_t)p->kernels[i].launches;
  return n + 8 * n / (size_t)threads;
}

static size_t left_out(const vtb_trace_list *l) { return l->n > l->most ? l->n - l->most : 0; }

static void say_written(const char *path, const vtb_trace *t, double seconds) {
  size_t lost = left_out(&t->launches);
  for (int i = 0; i < t->n_threads; i++) lost += left_out(&t->parts[i]);
  cli_say("%s: a run of %.2f ms, %zu kernels launched (open it in ui.perfetto.dev or "
          "chrome://tracing)",
          path, 1e3 * seconds, t->launches.n);
  if (lost) cli_say("%s: there was no room for %zu more events", path, lost);
}

vtb_status bench_trace(const bench_result *r, const vtb_program *p, void **buffers, void *workspace,
                       vtb_error *err) {
  const char *path = r->options->trace;
  vtb_services *s = vtb_need(vtb_services_profiling(r->threads, p->n_kernels));
  vtb_trace *t = vtb_need(vtb_trace_new(s->n_threads, most_events(p, s->n_threads)));
  vtb_status status = vtb_program_execute(p, buffers, workspace, s, err);
  vtb_services_trace(s, t);
  double begin = vtb_now();
  if (status == VTB_OK) status = vtb_program_execute(p, buffers, workspace, s, err);
  double end = vtb_now();
  vtb_services_trace(s, NULL);
  if (status == VTB_OK) {
    cJSON *all = trace_json(r, p, t, begin, end);
    char *text = vtb_need(cJSON_PrintUnformatted(all));
    status = vtb_file_write_atomic(path, text, strlen(text), err);
    cJSON_free(text);
    cJSON_Delete(all);
  }
  if (status == VTB_OK) say_written(path, t, end - begin);
  vtb_trace_free(t);
  vtb_services_free(s);
  return status;
}

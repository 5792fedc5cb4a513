/* One run as a Chrome trace (chrome://tracing, ui.perfetto.dev): the run, its kernels in order, and
 * what each thread did of them. */
#include "frontend/cli/bench/bench.h"
#include "frontend/cli/trace_json.h"

#include <string.h>

static cJSON *trace_document(const bench_result *r, const vtb_program *p, const vtb_trace *t,
                             double begin, double end) {
  cJSON *out = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(out, "traceEvents");
  const char *timed = bench_what_is_timed(r->options);
  const trace_writer w = {.list = list, .process = 1, .start = begin};
  trace_name_process(&w, r->facts.model);
  trace_name_row(&w, TRACE_RUN, "run");
  trace_add_span(&w, timed, TRACE_RUN, begin, end);
  trace_add_program(&w, p, t);
  cJSON *about = doc_object(F("model", r->facts.model), F("timed", timed), F("batch", p->batch),
                            F("threads", r->threads));
  return doc_put(out, F("displayTimeUnit", "ms"), F("otherData", about));
}

static void say_written(const char *path, const vtb_trace *t, double seconds) {
  size_t lost = trace_left_out(t);
  cli_say("%s: a run of %.2f ms, %zu kernels launched (open it in ui.perfetto.dev or "
          "chrome://tracing)",
          path, 1e3 * seconds, t->launches.n);
  if (lost) cli_say("%s: there was no room for %zu more events", path, lost);
}

vtb_status bench_trace(const bench_result *r, const vtb_program *p, void **buffers, void *workspace,
                       vtb_error *err) {
  const char *path = r->options->trace;
  vtb_services *s = vtb_need(vtb_services_profiling(r->threads, p->n_kernels));
  vtb_trace *t = vtb_need(vtb_trace_new(s->n_threads, trace_room(p, s->n_threads, 1)));
  vtb_services_keep(s, true);
  vtb_status status = vtb_program_execute(p, buffers, workspace, s, err);
  vtb_services_trace(s, t);
  double begin = vtb_now();
  if (status == VTB_OK) status = vtb_program_execute(p, buffers, workspace, s, err);
  double end = vtb_now();
  vtb_services_trace(s, NULL);
  if (status == VTB_OK) {
    cJSON *all = trace_document(r, p, t, begin, end);
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

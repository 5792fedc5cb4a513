/* See train_trace.h. */
#include "frontend/cli/train/train_trace.h"
#include "frontend/cli/trace_json.h"

#include <string.h>

enum { UPDATES = 3, MOST_SPANS = 4096 };

struct train_trace {
  const vtb_program *step;
  vtb_trace *trace;
  vtb_ranks *ranks;
  vtb_ranks_span *spans;
  double start;
};

/* Launches of so many updates, so that no more of them have room. */
static size_t launches_of(const vtb_program *p) {
  size_t n = 0;
  for (int i = 0; i < p->n_kernels; i++) n += (size_t)p->kernels[i].launches;
  return UPDATES * n;
}

vtb_services *train_trace_services(const vtb_program *step, int threads, train_trace **out) {
  vtb_services *s = vtb_need(vtb_services_profiling(threads, step->n_kernels));
  train_trace *t = vtb_xcalloc(1, sizeof *t);
  t->step = step;
  t->trace = vtb_need(vtb_trace_new(s->n_threads, launches_of(step)));
  t->spans = vtb_xcalloc(MOST_SPANS, sizeof *t->spans);
  *out = t;
  return s;
}

/* Ranks leave a sum at the same time: their clocks may differ, so each begins there. */
vtb_status train_trace_begin(train_trace *t, vtb_services *s, vtb_ranks *r, vtb_error *err) {
  double nothing = 0;
  t->ranks = r;
  vtb_status status = vtb_ranks_max(r, &nothing, 1, err);
  t->start = vtb_now();
  vtb_ranks_trace(r, t->spans, MOST_SPANS);
  vtb_services_trace(s, t->trace);
  return status;
}

static double last_end(const vtb_trace_list *l) {
  size_t n = l->n < l->most ? l->n : l->most;
  return n ? l->at[n - 1].end : 0;
}

static void add_sums(const train_trace *t, const trace_writer *w, int64_t n, double end) {
  char text[48];
  if (n) trace_name_row(w, TRACE_SUMS, "sums with other ranks");
  for (int64_t i = 0; i < n; i++) {
    const vtb_ranks_span *s = &t->spans[i];
    if (s->begin > end) continue;
    snprintf(text, sizeof text, "exchange %.3g KB", 1e-3 * (double)s->bytes);
    trace_add_span(w, s->bytes < 0 ? "wait" : text, s->bytes < 0 ? TRACE_RUN : TRACE_SUMS, s->begin,
                   s->end);
  }
}

/* This rank's events as text. */
static char *events(train_trace *t, const char *model) {
  char name[160], rank[128];
  int64_t n = vtb_ranks_trace(t->ranks, NULL, 0);
  const trace_writer w = {.list = vtb_need(cJSON_CreateArray()),
                          .process = 1 + vtb_ranks_rank(t->ranks),
                          .start = t->start};
  vtb_ranks_name(t->ranks, vtb_ranks_rank(t->ranks), rank, sizeof rank);
  snprintf(name, sizeof name, "%s, %s", model, rank);
  trace_name_process(&w, name);
  trace_name_row(&w, TRACE_RUN, "waits");
  trace_add_launches(&w, t->step, &t->trace->launches);
  add_sums(t, &w, n, last_end(&t->trace->launches));
  char *text = vtb_need(cJSON_PrintUnformatted(w.list));
  cJSON_Delete(w.list);
  return text;
}

static vtb_status write_all(const train_trace *t, const char *model, const char *all, int64_t each,
                            const char *path, vtb_error *err) {
  cJSON *out = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(out, "traceEvents");
  int n = vtb_ranks_count(t->ranks);
  for (int r = 0; r < n; r++) {
    cJSON *one = cJSON_Parse(all + r * each);
    for (cJSON *e; one && (e = cJSON_DetachItemFromArray(one, 0));) cJSON_AddItemToArray(list, e);
    cJSON_Delete(one);
  }
  cJSON *about = doc_object(F("model", model), F("ranks", n), F("rank_batch", t->step->batch),
                            F("updates", UPDATES));
  doc_put(out, F("displayTimeUnit", "ms"), F("otherData", about));
  char *text = vtb_need(cJSON_PrintUnformatted(out));
  vtb_status status = vtb_file_write_atomic(path, text, strlen(text), err);
  cJSON_free(text);
  cJSON_Delete(out);
  if (status == VTB_OK)
    cli_say("%s: the first %d runs of the step (open it in ui.perfetto.dev or chrome://tracing)",
            path, UPDATES);
  return status;
}

vtb_status train_trace_end(train_trace *t, vtb_services *s, const char *model, const char *path,
                           vtb_error *err) {
  vtb_services_trace(s, NULL);
  char *mine = events(t, model), *padded = NULL, *all = NULL;
  double bytes = (double)strlen(mine) + 1;
  bool first = !vtb_ranks_rank(t->ranks);
  vtb_status status = vtb_ranks_max(t->ranks, &bytes, 1, err);
  int64_t each = (int64_t)bytes;
  if (status == VTB_OK) {
    padded = vtb_xcalloc((size_t)each, 1);
    memcpy(padded, mine, strlen(mine));
    if (first) all = vtb_xcalloc((size_t)vtb_ranks_count(t->ranks), (size_t)each);
    status = vtb_ranks_gather(t->ranks, 0, padded, each, all, err);
  }
  if (status == VTB_OK && first) status = write_all(t, model, all, each, path, err);
  cJSON_free(mine);
  vtb_free(padded);
  vtb_free(all);
  return status;
}

void train_trace_free(train_trace *t) {
  if (!t) return;
  vtb_trace_free(t->trace);
  vtb_free(t->spans);
  vtb_free(t);
}

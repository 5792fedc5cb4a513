/* See trace_json.h. */
#include "frontend/cli/trace_json.h"

static cJSON *add_event(const trace_writer *w, const char *name, const char *phase, int row) {
  return doc_item(w->list, F("name", name), F("ph", phase), F("pid", w->process), F("tid", row));
}

cJSON *trace_add_span(const trace_writer *w, const char *name, int row, double begin, double end) {
  return doc_put(add_event(w, name, "X", row), F("ts", 1e6 * (begin - w->start)),
                 F("dur", 1e6 * (end - begin)));
}

void trace_name_process(const trace_writer *w, const char *name) {
  doc_put(add_event(w, "process_name", "M", TRACE_RUN), F("args", doc_object(F("name", name))));
}

void trace_name_row(const trace_writer *w, int row, const char *name) {
  doc_put(add_event(w, "thread_name", "M", row), F("args", doc_object(F("name", name))));
  doc_put(add_event(w, "thread_sort_index", "M", row), F("args", doc_object(F("sort_index", row))));
}

void trace_add_launches(const trace_writer *w, const vtb_program *p, const vtb_trace_list *l) {
  trace_name_row(w, TRACE_LAUNCHES, "kernels");
  for (size_t i = 0; i < l->n && i < l->most; i++) {
    const vtb_trace_event *at = &l->at[i];
    const vtb_kernel_info *k = &p->kernels[at->kernel];
    cJSON *e = trace_add_span(w, k->what, TRACE_LAUNCHES, at->begin, at->end);
    cJSON *args = doc_object(F("launch", i), F("kernel", k->name), F("ops", k->ops),
                             F("from", k->origin), F("flops", k->flops), F("bytes", k->bytes),
                             F("gflops", 1e-9 * k->flops / (at->end - at->begin)));
    doc_put(e, F("cat", k->ops), F("args", args));
  }
}

static void add_parts(const trace_writer *w, const vtb_program *p, const vtb_trace_list *l,
                      int thread) {
  char name[32];
  snprintf(name, sizeof name, thread ? "thread %d" : "thread %d, the caller", thread);
  trace_name_row(w, TRACE_THREADS + thread, name);
  for (size_t i = 0; i < l->n && i < l->most; i++) {
    const vtb_trace_event *at = &l->at[i];
    const char *what = at->kernel >= 0 ? p->kernels[at->kernel].what : "between kernels";
    trace_add_span(w, what, TRACE_THREADS + thread, at->begin, at->end);
  }
}

void trace_add_program(const trace_writer *w, const vtb_program *p, const vtb_trace *t) {
  trace_add_launches(w, p, &t->launches);
  for (int i = 0; i < t->n_threads; i++)
    if (t->parts[i].n) add_parts(w, p, &t->parts[i], i);
}

size_t trace_room(const vtb_program *p, int threads, int runs) {
  size_t n = 1024;
  for (int i = 0; i < p->n_kernels; i++) n += 8 * (size_t)p->kernels[i].launches;
  return (size_t)runs * (n + 8 * n / (size_t)threads);
}

size_t trace_left_out(const vtb_trace *t) {
  size_t lost = t->launches.n > t->launches.most ? t->launches.n - t->launches.most : 0;
  for (int i = 0; i < t->n_threads; i++)
    if (t->parts[i].n > t->parts[i].most) lost += t->parts[i].n - t->parts[i].most;
  return lost;
}

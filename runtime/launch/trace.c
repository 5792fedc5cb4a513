/* A record of what ran when. */
#include "runtime/launch/trace.h"

#include <stdlib.h>

static bool allocate(vtb_trace_list *l, size_t most) {
  l->at = calloc(most ? most : 1, sizeof *l->at);
  l->most = l->at ? most : 0;
  return l->at != NULL;
}

vtb_trace *vtb_trace_new(int n_threads, size_t most) {
  vtb_trace *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->parts = calloc((size_t)n_threads, sizeof *t->parts);
  t->n_threads = t->parts ? n_threads : 0;
  bool whole = t->parts && allocate(&t->launches, most);
  for (int i = 0; i < t->n_threads && whole; i++) whole = allocate(&t->parts[i], most);
  if (whole) return t;
  vtb_trace_free(t);
  return NULL;
}

void vtb_trace_free(vtb_trace *t) {
  if (!t) return;
  free(t->launches.at);
  for (int i = 0; i < t->n_threads; i++) free(t->parts[i].at);
  free(t->parts);
  free(t);
}

void vtb_trace_add(vtb_trace_list *l, int kernel, double begin, double end) {
  if (l->n < l->most) l->at[l->n] = (vtb_trace_event){kernel, begin, end};
  l->n++;
}

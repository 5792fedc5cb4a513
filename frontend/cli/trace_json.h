/* A record of what ran when, as events of a Chrome trace (chrome://tracing, ui.perfetto.dev). */
#ifndef VTB_CLI_TRACE_JSON_H
#define VTB_CLI_TRACE_JSON_H

#include "frontend/cli/cli.h"
#include "runtime/launch/trace.h"

/* Events go to `list`, an array; times become microseconds since `start` (vtb_now()). */
typedef struct trace_writer {
  cJSON *list;
  int process; /* of the picture */
  double start;
} trace_writer;

/* Rows of a process. */
enum { TRACE_RUN, TRACE_LAUNCHES, TRACE_SUMS, TRACE_THREADS };

void trace_name_process(const trace_writer *w, const char *name);
void trace_name_row(const trace_writer *w, int row, const char *name);
/* The event, for more to be said of it. */
cJSON *trace_add_span(const trace_writer *w, const char *name, int row, double begin, double end);
void trace_add_launches(const trace_writer *w, const vtb_program *p, const vtb_trace_list *l);
/* The kernels of a program, and what each thread did of them. */
void trace_add_program(const trace_writer *w, const vtb_program *p, const vtb_trace *t);
/* Room for so many runs of it: launches that are promised, and some that are not. */
size_t trace_room(const vtb_program *p, int threads, int runs);
size_t trace_left_out(const vtb_trace *t); /* events that there was no room for */

#endif

/* A record of what ran when: the kernels of runs, and the parts of them that threads took.
 *
 * Memory for events is taken beforehand, so that nothing is allocated while they happen; events
 * beyond it are counted and left out. The caller owns the trace and keeps it until the services let
 * go of it. */
#ifndef VTB_TRACE_H
#define VTB_TRACE_H

#include "runtime/launch/threads.h"

typedef struct vtb_trace_event {
  int kernel;        /* of program->kernels; of a part -1: between kernels */
  double begin, end; /* vtb_now() */
} vtb_trace_event;

typedef struct vtb_trace_list {
  vtb_trace_event *at;
  size_t n, most; /* n may be more than most: those were left out */
} vtb_trace_list;

typedef struct vtb_trace {
  vtb_trace_list launches; /* in order; on a GPU of what the host waited for */
  int n_threads;
  vtb_trace_list *parts; /* one list a thread, the first is the caller's */
} vtb_trace;

/* For at most `most` launches, and as many parts a thread. NULL when out of memory. */
vtb_trace *vtb_trace_new(int n_threads, size_t most);
void vtb_trace_free(vtb_trace *t); /* NULL is fine */
void vtb_trace_add(vtb_trace_list *l, int kernel, double begin, double end);

/* Profiling services write what they run into `t` from now on; NULL: no longer. The trace has room
 * for their threads. Not while a program runs. */
void vtb_services_trace(vtb_services *s, vtb_trace *t);

#endif

/* Streams of the fake driver: lists of work that is done when somebody waits for it. */
#ifndef VTB_TEST_FAKE_STREAMS_H
#define VTB_TEST_FAKE_STREAMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*fake_hook)(const char *kernel, unsigned blocks, unsigned threads, unsigned shared,
                          void **parameters);
extern fake_hook fake_cuda_hook;
extern int fake_cuda_faults;

enum { MAX_BLOCKS = 512, MAX_LAUNCHES = 512, MAX_PARAMETERS = 256 };
typedef struct launch {
  char kernel[64];
  unsigned blocks, threads, shared, cluster;
  uint64_t values[MAX_PARAMETERS];
} launch;
typedef struct graph {
  launch list[MAX_LAUNCHES];
  int n;
} graph;
/* Records and waits have numbers: an event is there for a wait when it has come to its number. */
typedef struct event {
  int recorded, done, clock;
} event;
typedef struct work {
  enum { COPY_IN, COPY_OUT, SET, LAUNCH, RECORD, WAIT, CALL } kind;
  void (*call)(void *);
  launch launch;
  uint64_t at;
  void *host, *bytes; /* bytes: what was copied at once */
  size_t n;
  event *event;
  int number;
  pthread_t by; /* who asked for it */
} work;
enum { MAX_STREAMS = 24 };
typedef struct stream {
  bool is_open;
  int number;
  void *context;
  work *list;
  int n, next, room;
} stream;
static stream streams[MAX_STREAMS + 1]; /* the last is the default one, number 0 */
/* NULL: out of memory. */
static work *put(stream *s) {
  if (s->n == s->room) {
    int room = s->room ? 2 * s->room : 64;
    work *list = realloc(s->list, (size_t)room * sizeof *list);
    if (!list) return NULL;
    s->list = list;
    s->room = room;
  }
  work *w = memset(&s->list[s->n++], 0, sizeof *s->list);
  w->by = pthread_self();
  return w;
}

static void call_hook(launch *l) {
  void *parameters[MAX_PARAMETERS];
  for (int i = 0; i < MAX_PARAMETERS; i++) parameters[i] = &l->values[i];
  if (fake_cuda_hook) fake_cuda_hook(l->kernel, l->blocks, l->threads, l->shared, parameters);
}

/* The stream's next piece of work; false: there is none, or it waits. */
static bool advance(stream *s) {
  if (s->next == s->n) return false;
  work *w = &s->list[s->next];
  void *device = (void *)(uintptr_t)w->at;
  switch (w->kind) {
  case COPY_IN:
    if (w->n) memcpy(device, w->bytes ? w->bytes : w->host, w->n);
    free(w->bytes);
    break;
  case COPY_OUT:
    if (w->n) memcpy(w->host, device, w->n);
    break;
  case SET:
    memset(device, w->number, w->n);
    break;
  case LAUNCH:
    call_hook(&w->launch);
    break;
  case RECORD:
    w->event->done = w->number;
    break;
  case WAIT:
    if (w->event->done < w->number) return false;
    break;
  case CALL:
    w->call(w->host);
  }
  if (++s->next == s->n) s->next = s->n = 0;
  return true;
}

static bool advance_another(const stream *s) {
  for (int i = 0; i <= MAX_STREAMS; i++)
    if (&streams[i] != s && advance(&streams[i])) return true;
  return false;
}

/* Whether a copy to or from these bytes of the host is still to come. */
static bool is_copied(const char *at, size_t n) {
  for (int i = 0; i <= MAX_STREAMS; i++)
    for (int k = streams[i].next; k < streams[i].n; k++) {
      const char *host = streams[i].list[k].host;
      if (host && host >= at && host < at + n) return true;
    }
  return false;
}

/* Whether a launch of the caller's is: another thread's is of another program. */
static bool is_launched(void) {
  for (int i = 0; i <= MAX_STREAMS; i++)
    for (int k = streams[i].next; k < streams[i].n; k++) {
      const work *w = &streams[i].list[k];
      if (w->kind == LAUNCH && pthread_equal(w->by, pthread_self())) return true;
    }
  return false;
}

static void finish(stream *s) {
  while (s->next < s->n)
    if (!advance(s) && !advance_another(s)) {
      fake_cuda_faults++; /* streams that wait for each other */
      return;
    }
}

static void finish_all(void) {
  for (int i = 0; i <= MAX_STREAMS; i++) finish(&streams[i]);
}

#endif

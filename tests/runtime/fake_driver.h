/* What the functions of the fake driver share: what there is of a device, and which call is to
 * fail. Calls of several threads come one after another. */
#ifndef VTB_TEST_FAKE_DRIVER_H
#define VTB_TEST_FAKE_DRIVER_H

#include "tests/runtime/fake_streams.h"

#include <pthread.h>
#include <stdio.h>

fake_hook fake_cuda_hook;
const char *fake_cuda_fail;
int fake_cuda_allocations, fake_cuda_launches, fake_cuda_graph_launches, fake_cuda_devices = 1;
int fake_cuda_fail_number, fake_cuda_alive, fake_cuda_faults; /* alive: all but memory */
const char *fake_cuda_failed;                                 /* the call that failed by number */
char fake_cuda_trace[1 << 16];
bool fake_cuda_quiet; /* launches are not written down */

enum {
  OK = 0,
  INVALID = 1,
  NO_MEMORY = 2,
  NO_DEVICE = 100,
  NO_BINARY = 209,
  NOT_FOUND = 500,
  NOT_READY = 600,
  IN_CAPTURE = 900
};

static struct {
  char *at;
  size_t n;
  int device;
} memory[MAX_BLOCKS];

static _Thread_local graph *capturing;
static stream *capturing_on; /* by the caller, fake_cuda_capture() */
static int opt_in;           /* bytes of shared memory that were asked for */

static bool is_to_fail(const char *name) {
  if (fake_cuda_fail && strcmp(fake_cuda_fail, name) == 0) return true;
  if (!fake_cuda_fail_number || --fake_cuda_fail_number) return false;
  fake_cuda_failed = name;
  return true;
}
#define FAIL_IF_ASKED(name)                                                                        \
  if (is_to_fail(name)) return NO_MEMORY
/* Of what gives back: it does so and may still fail, with what runs before it has failed. */
#define GIVEN_BACK(name) is_to_fail(name) ? NO_MEMORY : OK

/* ---- threads --------------------------------------------------------------------------------- */

static pthread_mutex_t one_at_a_time = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int take_lock(void) { return pthread_mutex_lock(&one_at_a_time); }
static void give_lock(const int *taken) {
  (void)taken;
  pthread_mutex_unlock(&one_at_a_time);
}
#define LOCK __attribute__((cleanup(give_lock), unused)) const int locked = take_lock()

/* ---- contexts: a primary one a device, and a stack of current ones a thread ------------------ */

enum { MAX_DEVICES = 4, MAX_DEPTH = 16 };
static char primary[MAX_DEVICES];
static _Thread_local void *contexts[MAX_DEPTH];
static _Thread_local int depth;
static int device_of(const void *context) {
  return context ? (int)((const char *)context - primary) : 0;
}
static void *current(void) { return depth ? contexts[depth - 1] : NULL; }
static int current_device(void) { return device_of(current()); }

/* A default stream is refused unless the test says that it is the caller's. */
bool fake_cuda_default;
static stream *stream_of(void *given) {
  return (uintptr_t)given > 2 ? given : fake_cuda_default ? &streams[MAX_STREAMS] : NULL;
}

static void note(const stream *s, const char *what, const char *name, size_t n) {
  size_t at = strlen(fake_cuda_trace);
  char number[16] = "", tail[96] = "";
  if (s && s->number != 1) snprintf(number, sizeof number, "%d:", s->number);
  if (n)
    snprintf(tail, sizeof tail, " %zu", n);
  else
    snprintf(tail, sizeof tail, "%s%s", *name ? " " : "", name);
  snprintf(fake_cuda_trace + at, sizeof fake_cuda_trace - at, "%s%s%s;", number, what, tail);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool is_device(uint64_t address, size_t n_bytes) {
  for (int i = 0; i < MAX_BLOCKS; i++) {
    uint64_t begin = (uint64_t)(uintptr_t)memory[i].at;
    if (memory[i].at && address >= begin && address + n_bytes <= begin + memory[i].n) return true;
  }
  return false;
}

/* Host memory that the device reaches by itself. */
static struct {
  char *at;
  size_t n;
} pinned[MAX_BLOCKS];

static bool is_pinned(const void *at, size_t n_bytes) {
  for (int i = 0; i < MAX_BLOCKS; i++)
    if (pinned[i].at && (const char *)at >= pinned[i].at &&
        (const char *)at + n_bytes <= pinned[i].at + pinned[i].n)
      return true;
  return false;
}

#endif

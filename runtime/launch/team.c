/* A team of threads and its jobs. */
#include "runtime/launch/team.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#define RELAX() _mm_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void)0)
#endif

enum {
  CHUNKS_PER_THREAD = 4,
  /* some 100 microseconds: longer than the serial gaps between kernels */
  SPINS_BEFORE_SLEEP = 20000,
  SPINS_BEFORE_YIELD = 2000,
  SPINS_PER_YIELD = 128
};

typedef struct helper {
  vtb_team *team;
  int number;
  pthread_t thread;
} helper;

/* `ticket` is the job's number in the high half and its next chunk in the low half: taking a chunk
 * is one compare and swap that fails if the job has changed. The job's fields change only between
 * jobs, when every chunk of the old one is done and the ticket is closed: its low half is
 * NO_CHUNKS, which no job has. */
#define NO_CHUNKS UINT64_C(0xffffffff)
struct vtb_team {
  int n_threads;
  _Atomic uint64_t ticket;
  _Atomic int64_t done; /* chunks of the current job */
  _Atomic(vtb_task_fn) fn;
  _Atomic(void *) closure;
  _Atomic int64_t n, grain, units, n_chunks;
  _Atomic uint32_t job; /* futex word, counts jobs */
  _Atomic int sleepers;
  _Atomic bool quit;
  void (*begin)(void *user, int number);
  void *user;
  pid_t process;   /* where the helpers are: in a child of it there are none */
  helper *helpers; /* n_threads - 1 of them run */
};

/* Chunk c of the units: sizes differ by one at most, the larger first. */
static void run_chunk(vtb_task_fn fn, void *closure, int64_t n, int64_t grain, int64_t units,
                      int64_t chunks, int64_t c) {
  int64_t q = units / chunks, rest = units % chunks;
  int64_t begin = c * q + (c < rest ? c : rest), end = begin + q + (c < rest);
  fn(closure, begin * grain, end * grain < n ? end * grain : n);
}

/* Takes and runs chunks of the current job until none is left; returns the job's number. */
static uint32_t help(vtb_team *t) {
  for (;;) {
    uint64_t ticket = atomic_load_explicit(&t->ticket, memory_order_acquire);
    vtb_task_fn fn = atomic_load_explicit(&t->fn, memory_order_relaxed);
    void *closure = atomic_load_explicit(&t->closure, memory_order_relaxed);
    int64_t n = atomic_load_explicit(&t->n, memory_order_relaxed);
    int64_t grain = atomic_load_explicit(&t->grain, memory_order_relaxed);
    int64_t units = atomic_load_explicit(&t->units, memory_order_relaxed);
    int64_t chunks = atomic_load_explicit(&t->n_chunks, memory_order_relaxed);
    int64_t c = (int64_t)(ticket & UINT32_MAX);
    if (c >= chunks) return (uint32_t)(ticket >> 32);
    /* fields of a newer job come with a ticket that is closed, or newer */
    atomic_thread_fence(memory_order_acquire);
    if (!atomic_compare_exchange_weak_explicit(&t->ticket, &ticket, ticket + 1,
                                               memory_order_acq_rel, memory_order_relaxed))
      continue;
    run_chunk(fn, closure, n, grain, units, chunks, c);
    atomic_fetch_add_explicit(&t->done, 1, memory_order_release);
  }
}

static void sleep_until_new_job(vtb_team *t, uint32_t seen) {
  for (int spin = 0; spin < SPINS_BEFORE_SLEEP; spin++) {
    if (atomic_load_explicit(&t->job, memory_order_acquire) != seen) return;
    RELAX();
    if (spin % SPINS_PER_YIELD == SPINS_PER_YIELD - 1)
      sched_yield(); /* the thread with the work may share this core */
  }
  atomic_fetch_add(&t->sleepers, 1);
  if (atomic_load(&t->job) == seen)
    syscall(SYS_futex, &t->job, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
  atomic_fetch_sub(&t->sleepers, 1);
}

static void announce(vtb_team *t) {
  atomic_fetch_add(&t->job, 1);
  if (atomic_load(&t->sleepers) > 0)
    syscall(SYS_futex, &t->job, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void *work(void *arg) {
  helper *h = arg;
  vtb_team *t = h->team;
  t->begin(t->user, h->number);
  while (!atomic_load_explicit(&t->quit, memory_order_acquire)) {
    uint32_t seen = help(t);
    sleep_until_new_job(t, seen);
  }
  return NULL;
}

void vtb_team_parallel(vtb_team *t, vtb_task_fn fn, void *closure, int64_t n, int64_t grain) {
  int64_t units = n / grain + (n % grain != 0);
  int64_t chunks = (int64_t)t->n_threads * CHUNKS_PER_THREAD;
  if (chunks > units) chunks = units;
  uint64_t old = atomic_load_explicit(&t->ticket, memory_order_relaxed);
  /* nobody takes half of the new job's fields */
  atomic_store_explicit(&t->ticket, old | NO_CHUNKS, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&t->fn, fn, memory_order_relaxed);
  atomic_store_explicit(&t->closure, closure, memory_order_relaxed);
  atomic_store_explicit(&t->n, n, memory_order_relaxed);
  atomic_store_explicit(&t->grain, grain, memory_order_relaxed);
  atomic_store_explicit(&t->units, units, memory_order_relaxed);
  atomic_store_explicit(&t->n_chunks, chunks, memory_order_relaxed);
  atomic_store_explicit(&t->done, 0, memory_order_relaxed);
  atomic_store_explicit(&t->ticket, ((old >> 32) + 1) << 32, memory_order_release);
  announce(t);
  help(t);
  for (int spin = 0; atomic_load_explicit(&t->done, memory_order_acquire) < chunks; spin++) {
    RELAX();
    if (spin > SPINS_BEFORE_YIELD) sched_yield();
  }
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Signals are for the threads of the process that the team lives in. */
static void start_helpers(vtb_team *t, int n_threads) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (int i = 1; i < n_threads; i++) {
    helper *h = &t->helpers[i - 1];
    *h = (helper){.team = t, .number = i};
    if (pthread_create(&h->thread, NULL, work, h) != 0) break;
    t->n_threads++;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

vtb_team *vtb_team_new(int n_threads, void (*begin)(void *user, int number), void *user) {
  vtb_team *t = calloc(1, sizeof *t);
  helper *helpers = calloc((size_t)n_threads, sizeof *helpers);
  if (!t || !helpers) {
    free(t);
    free(helpers);
    return NULL;
  }
  t->n_threads = 1;
  t->begin = begin;
  t->user = user;
  t->helpers = helpers;
  t->process = getpid();
  start_helpers(t, n_threads);
  return t;
}

void vtb_team_free(vtb_team *t) {
  if (!t) return;
  atomic_store_explicit(&t->quit, true, memory_order_release);
  announce(t);
  for (int i = 1; i < t->n_threads && t->process == getpid(); i++)
    pthread_join(t->helpers[i - 1].thread, NULL);
  free(t->helpers);
  free(t);
}

int vtb_team_size(const vtb_team *t) { return t->n_threads; }

/* Services: ranges run by a team (team.h), scratch memory per thread and nesting level, kernel
 * times. */
#include "runtime/launch/threads.h"
#include "runtime/launch/team.h"
#include "runtime/launch/trace.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* A buffer a nesting level, so that a task run by the calling thread does not take the memory of
 * the code around it. A buffer that is outgrown is kept until its task returns, since the task may
 * still hold it. */
enum { SCRATCH_LEVELS = 8 };
typedef struct scratch_retired {
  struct scratch_retired *next;
  void *buffer;
} scratch_retired;
typedef struct scratch_level {
  void *buffer;
  size_t bytes;
  scratch_retired *retired;
} scratch_level;
typedef struct thread_scratch {
  scratch_level levels[SCRATCH_LEVELS];
  int depth;
} thread_scratch;

typedef struct services_state {
  vtb_team *team;   /* NULL: */
  vtb_pool_fn pool; /* the caller's threads */
  void *pool_user;
  _Atomic bool *taken;     /* one a thread: a thread of the pool has its scratch memory */
  int n_threads;           /* entries of: */
  thread_scratch *scratch; /* one a thread, the caller's first */
  _Atomic bool no_memory;  /* a task of this run had no scratch memory */
  vtb_summer summer;
  vtb_error sum_error; /* of this run; of the caller's thread */
  bool keeps;
  const vtb_program *prepared; /* while it keeps: whose steps have been, and in which workspace */
  const void *prepared_in;
  vtb_kernel_time *times; /* NULL unless profiling */
  double *started;
  int n_kernels;
  vtb_trace *trace; /* NULL: nobody wants one */
  int kernel;       /* that runs, -1: none; changes between jobs of the team */
} services_state;

/* ---- denormals ------------------------------------------------------------------------------- */

unsigned vtb_denormals_flush(void) {
#if defined(__SSE__)
  unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040u); /* bit 15 flush to zero, bit 6 denormals are zero */
  return mode;
#elif defined(__aarch64__)
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  vtb_denormals_restore((unsigned)mode | 1u << 24); /* FZ: of operands and results */
  return (unsigned)mode;
#else
  return 0;
#endif
}

void vtb_denormals_restore(unsigned mode) {
#if defined(__SSE__)
  _mm_setcsr(mode);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
#else
  (void)mode;
#endif
}

/* ---- scratch --------------------------------------------------------------------------------- */

/* In the static block: a lazily made thread-local variable would end the process without memory. */
static _Thread_local thread_scratch *my_scratch __attribute__((tls_model("initial-exec")));

static void begin_helper(void *user, int number) {
  my_scratch = &((services_state *)user)->scratch[number];
}

/* The calling thread's among these services: a helper's own, else that of whoever uses them. */
static thread_scratch *scratch_of_thread(services_state *st) {
  bool own = my_scratch >= st->scratch && my_scratch < st->scratch + st->n_threads;
  return own ? my_scratch : &st->scratch[0];
}

static void drop_retired(scratch_level *l) {
  for (scratch_retired *r = l->retired, *next; r; r = next) {
    next = r->next;
    free(r->buffer);
    free(r);
  }
  l->retired = NULL;
}

static bool grow_scratch(scratch_level *l, size_t bytes) {
  void *buffer = vtb_aligned_alloc(bytes);
  scratch_retired *r = l->buffer ? malloc(sizeof *r) : NULL;
  if (!buffer || (l->buffer && !r)) {
    free(buffer);
    free(r);
    return false;
  }
  if (r) {
    *r = (scratch_retired){l->retired, l->buffer};
    l->retired = r;
  }
  l->buffer = buffer;
  l->bytes = bytes;
  return true;
}

static void *scratch(const vtb_services *s, int64_t bytes) {
  services_state *st = s->user;
  thread_scratch *t = scratch_of_thread(st);
  scratch_level *l = &t->levels[t->depth];
  size_t need = bytes > 0 ? (size_t)bytes : 1;
  if (l->bytes >= need || grow_scratch(l, need + need / 4)) return l->buffer;
  atomic_store(&st->no_memory, true);
  return NULL;
}

static void free_scratch(services_state *st) {
  for (int i = 0; st->scratch && i < st->n_threads; i++)
    for (int k = 0; k < SCRATCH_LEVELS; k++) {
      drop_retired(&st->scratch[i].levels[k]);
      free(st->scratch[i].levels[k].buffer);
    }
  free(st->scratch);
}

/* ---- running a program ----------------------------------------------------------------------- */

static vtb_status run_native(const vtb_program *p, void *const *args, void *workspace,
                             const vtb_services *s, vtb_error *err) {
  services_state *st = s->user;
  if (p->ranks > 1 && !(s->sum_begin && s->sum_wait))
    return vtb_fail(err, VTB_E_USAGE,
                    "the program is made for %d processes that run it together, and here is one",
                    p->ranks);
  p->entry(args, workspace, s);
  if (atomic_exchange(&st->no_memory, false)) return vtb_no_memory(err, "the scratch of a kernel");
  if (st->sum_error.status != VTB_OK) {
    vtb_error sum_error = st->sum_error;
    st->sum_error = (vtb_error){0};
    return vtb_fail(err, sum_error.status, "%s", sum_error.text);
  }
  return VTB_OK;
}

static vtb_status execute(const vtb_program *p, void *const *args, void *workspace,
                          const vtb_services *s, vtb_error *err) {
  unsigned mode = vtb_denormals_flush();
  vtb_status status =
      p->run ? p->run(p->owner, args, s, err) : run_native(p, args, workspace, s, err);
  vtb_denormals_restore(mode);
  return status;
}

vtb_status vtb_program_execute_part(const vtb_program *p, void *const *args, void *workspace,
                                    void *kept, vtb_part part, const vtb_services *s,
                                    vtb_error *err) {
  vtb_services with = *s;
  with.kept = kept;
  with.part = part;
  return execute(p, args, workspace, &with, err);
}

vtb_status vtb_program_execute(const vtb_program *p, void *const *args, void *workspace,
                               const vtb_services *s, vtb_error *err) {
  services_state *st = s->user;
  bool ready = st->prepared == p && st->prepared_in == workspace;
  st->prepared = NULL; /* until nothing has failed */
  VTB_TRY(vtb_program_execute_part(p, args, workspace, NULL,
                                   ready ? VTB_OTHER_STEPS : VTB_ALL_STEPS, s, err));
  if (st->keeps && p->kept_bytes) st->prepared = p, st->prepared_in = workspace;
  return VTB_OK;
}

void vtb_services_keep(const vtb_services *s, bool on) {
  services_state *st = s->user;
  st->keeps = on;
  st->prepared = NULL;
}

/* ---- parallel ranges ------------------------------------------------------------------------- */

/* The task with this thread's scratch level and denormal mode around it. */
typedef struct wrapped_task {
  services_state *state;
  vtb_task_fn fn;
  void *closure;
} wrapped_task;

static void run_range(void *closure, int64_t begin, int64_t end) {
  const wrapped_task *w = closure;
  thread_scratch *t = scratch_of_thread(w->state);
  assert(t->depth + 1 < SCRATCH_LEVELS);
  unsigned mode = vtb_denormals_flush();
  /* what is nested in a task is part of it */
  vtb_trace *trace = t->depth == 0 ? w->state->trace : NULL;
  double start = trace ? vtb_now() : 0;
  t->depth++;
  w->fn(w->closure, begin, end);
  drop_retired(&t->levels[t->depth]);
  t->depth--;
  if (trace)
    vtb_trace_add(&trace->parts[t - w->state->scratch], w->state->kernel, start, vtb_now());
  vtb_denormals_restore(mode);
}

/* On a thread of the caller's, which takes scratch memory that nobody has for as long as that. */
static void run_pooled(void *closure, int64_t begin, int64_t end) {
  services_state *st = ((const wrapped_task *)closure)->state;
  thread_scratch *before = my_scratch;
  int i = 1;
  if (begin >= end) return;
  while (atomic_exchange_explicit(&st->taken[i], true, memory_order_acquire))
    if (++i == st->n_threads) i = 1, sched_yield();
  my_scratch = &st->scratch[i];
  run_range(closure, begin, end);
  my_scratch = before;
  atomic_store_explicit(&st->taken[i], false, memory_order_release);
}

/* Inside a task it runs as it is. */
static void parallel(const vtb_services *s, vtb_task_fn fn, void *closure, int64_t n,
                     int64_t grain) {
  services_state *st = s->user;
  wrapped_task task = {st, fn, closure};
  if (grain < 1) grain = 1;
  if (n <= 0) return;
  if (s->n_threads <= 1 || n <= grain || scratch_of_thread(st)->depth > 0)
    run_range(&task, 0, n);
  else if (st->pool)
    st->pool(st->pool_user, run_pooled, &task, n, grain);
  else
    vtb_team_parallel(st->team, run_range, &task, n, grain);
}

/* ---- sums over processes --------------------------------------------------------------------- */

static void sum_begin(const vtb_services *s, float *at, int64_t n) {
  services_state *st = s->user;
  if (st->sum_error.status == VTB_OK)
    (void)st->summer.begin(st->summer.user, at, n, &st->sum_error);
}

static void sum_wait(const vtb_services *s) {
  services_state *st = s->user;
  if (st->sum_error.status == VTB_OK) (void)st->summer.wait(st->summer.user, &st->sum_error);
}

void vtb_services_sums(vtb_services *s, const vtb_summer *summer) {
  services_state *st = s->user;
  st->summer = summer ? *summer : (vtb_summer){0};
  s->sum_begin = summer ? sum_begin : NULL;
  s->sum_wait = summer ? sum_wait : NULL;
}

/* ---- kernel times ---------------------------------------------------------------------------- */

static void kernel_begin(const vtb_services *s, int kernel) {
  services_state *st = s->user;
  if (kernel < 0 || kernel >= st->n_kernels) return;
  st->kernel = kernel;
  st->started[kernel] = vtb_now();
}

static void kernel_took(const vtb_services *s, int kernel, double begin, double end) {
  services_state *st = s->user;
  if (kernel < 0 || kernel >= st->n_kernels) return;
  st->times[kernel].seconds += end - begin;
  st->times[kernel].launches++;
  if (st->trace) vtb_trace_add(&st->trace->launches, kernel, begin, end);
}

static void kernel_end(const vtb_services *s, int kernel) {
  services_state *st = s->user;
  if (kernel < 0 || kernel >= st->n_kernels) return;
  kernel_took(s, kernel, st->started[kernel], vtb_now());
  st->kernel = -1;
}

void vtb_services_trace(vtb_services *s, vtb_trace *t) {
  services_state *st = s->user;
  assert(!t || t->n_threads >= s->n_threads);
  st->trace = st->times ? t : NULL;
}

const vtb_kernel_time *vtb_services_times(const vtb_services *s, int *n_kernels) {
  const services_state *st = s->user;
  if (n_kernels) *n_kernels = st->n_kernels;
  return st->times;
}

void vtb_services_reset_times(vtb_services *s) {
  services_state *st = s->user;
  for (int i = 0; i < st->n_kernels; i++) st->times[i] = (vtb_kernel_time){0};
}

/* ---- making ---------------------------------------------------------------------------------- */

static atomic_int wanted_threads; /* of the process; 0: as many as there are cores */

void vtb_set_default_threads(int n) { atomic_store(&wanted_threads, n); }

int vtb_default_threads(void) {
  int n = atomic_load(&wanted_threads);
  if (!n) {
    cpu_set_t set;
    CPU_ZERO(&set);
    n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                    : (int)sysconf(_SC_NPROCESSORS_ONLN);
  }
  return n > 0 ? n : 1;
}

static bool allocate(services_state *st) {
  st->scratch = calloc((size_t)st->n_threads, sizeof *st->scratch);
  st->times = st->n_kernels ? calloc((size_t)st->n_kernels, sizeof *st->times) : NULL;
  st->started = st->n_kernels ? calloc((size_t)st->n_kernels, sizeof *st->started) : NULL;
  if (!st->scratch || (st->n_kernels && (!st->times || !st->started))) return false;
  if (st->pool) {
    st->taken = calloc((size_t)st->n_threads, sizeof *st->taken);
    return st->taken != NULL;
  }
  st->team = vtb_team_new(st->n_threads, begin_helper, st);
  return st->team != NULL;
}

static vtb_services *make(int n_threads, int n_kernels, vtb_pool_fn pool, void *pool_user) {
  vtb_services *s = calloc(1, sizeof *s);
  services_state *st = calloc(1, sizeof *st);
  if (!s || !st) {
    free(s);
    free(st);
    return NULL;
  }
  *s = (vtb_services){.size = sizeof *s, .parallel = parallel, .scratch = scratch};
  s->user = st;
  st->n_threads = n_threads > 0 ? n_threads : vtb_default_threads();
  if (st->n_threads > VTB_MOST_THREADS) st->n_threads = VTB_MOST_THREADS;
  st->n_threads += pool != NULL; /* and the one that runs the program */
  st->pool = pool;
  st->pool_user = pool_user;
  st->n_kernels = n_kernels;
  st->kernel = -1;
  if (!allocate(st)) {
    vtb_services_free(s);
    return NULL;
  }
  s->n_threads = pool ? st->n_threads - 1 : vtb_team_size(st->team);
  return s;
}

vtb_services *vtb_services_default(int n_threads) { return make(n_threads, 0, NULL, NULL); }

vtb_services *vtb_services_pooled(int n_threads, vtb_pool_fn pool, void *user) {
  return make(n_threads, 0, pool, user);
}

vtb_services *vtb_services_profiling(int n_threads, int n_kernels) {
  vtb_services *s = make(n_threads, n_kernels > 0 ? n_kernels : 0, NULL, NULL);
  if (!s) return NULL;
  s->kernel_begin = kernel_begin;
  s->kernel_end = kernel_end;
  s->kernel_took = kernel_took;
  return s;
}

void vtb_services_free(vtb_services *s) {
  if (!s) return;
  services_state *st = s->user;
  vtb_team_free(st->team);
  free_scratch(st);
  free(st->taken);
  free(st->times);
  free(st->started);
  free(st);
  free(s);
}

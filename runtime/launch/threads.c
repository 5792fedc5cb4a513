/* Services: ranges run by a team (team.h), OpenBLAS, scratch memory per thread and nesting level,
 * kernel times. */
#include "runtime/launch/threads.h"
#include "runtime/launch/team.h"

#include <cblas.h>
#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

typedef struct services_state {
  vtb_team *team;         /* while a program runs */
  vtb_kernel_time *times; /* NULL unless profiling */
  double *started;
  int n_kernels;
} services_state;

/* ---- denormals ------------------------------------------------------------------------------- */

unsigned vtb_denormals_flush(void) {
#if defined(__SSE__)
  unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040u); /* bit 15 flush to zero, bit 6 denormals are zero */
  return mode;
#else
  return 0;
#endif
}

void vtb_denormals_restore(unsigned mode) {
#if defined(__SSE__)
  _mm_setcsr(mode);
#else
  (void)mode;
#endif
}

typedef struct run_request {
  const vtb_program *program;
  void *const *args;
  void *workspace;
  const vtb_services *services;
  vtb_status status;
  vtb_error *err;
} run_request;

static void run_entry(vtb_team *team, void *arg) {
  run_request *r = arg;
  services_state *st = r->services->user;
  unsigned mode = vtb_denormals_flush();
  st->team = team;
  if (r->program->run)
    r->status = r->program->run(r->program->owner, r->args, r->services, r->err);
  else
    r->program->entry(r->args, r->workspace, r->services);
  st->team = NULL;
  vtb_denormals_restore(mode);
}

vtb_status vtb_program_execute(const vtb_program *p, void *const *args, void *workspace,
                               const vtb_services *s, vtb_error *err) {
  run_request request = {p, args, workspace, s, VTB_OK, err};
  vtb_team_run(s->n_threads, run_entry, &request);
  return request.status;
}

void vtb_program_run(const vtb_program *p, void *const *args, void *workspace,
                     const vtb_services *s) {
  vtb_error err = {0};
  vtb_status status = vtb_program_execute(p, args, workspace, s, &err);
  if (status == VTB_OK) return;
  fprintf(stderr, "vertebra: %s\n", err.text);
  exit((int)status);
}

/* ---- scratch --------------------------------------------------------------------------------- */

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

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static _Thread_local thread_scratch *my_scratch;

static void drop_retired(scratch_level *l) {
  for (scratch_retired *r = l->retired, *next; r; r = next) {
    next = r->next;
    free(r->buffer);
    free(r);
  }
  l->retired = NULL;
}

static void free_scratch(void *p) {
  thread_scratch *t = p;
  for (int i = 0; i < SCRATCH_LEVELS; i++) {
    drop_retired(&t->levels[i]);
    free(t->levels[i].buffer);
  }
  free(t);
  my_scratch = NULL;
}

/* Thread exit frees a worker's scratch through the key; exit() frees the main thread's. */
static void free_own_scratch(void) {
  if (my_scratch) {
    pthread_setspecific(scratch_key, NULL);
    free_scratch(my_scratch);
  }
}

static void make_scratch_key(void) {
  vtb_check(pthread_key_create(&scratch_key, free_scratch) == 0, "no thread-specific key left");
  atexit(free_own_scratch);
}

static thread_scratch *scratch_of_thread(void) {
  if (!my_scratch) {
    pthread_once(&scratch_once, make_scratch_key);
    my_scratch = vtb_xcalloc(1, sizeof *my_scratch);
    pthread_setspecific(scratch_key, my_scratch);
  }
  return my_scratch;
}

static void *scratch(const vtb_services *s, int64_t bytes) {
  (void)s;
  thread_scratch *t = scratch_of_thread();
  scratch_level *l = &t->levels[t->depth];
  size_t need = bytes > 0 ? (size_t)bytes : 1;
  if (l->bytes >= need) return l->buffer;
  if (l->buffer) {
    scratch_retired *r = vtb_xmalloc(sizeof *r);
    *r = (scratch_retired){l->retired, l->buffer};
    l->retired = r;
  }
  size_t grown = need + need / 4;
  l->buffer = vtb_aligned_alloc(grown);
  if (!l->buffer) {
    fprintf(stderr, "vertebra: out of memory (scratch of %zu bytes)\n", grown);
    exit(VTB_E_MEMORY);
  }
  l->bytes = grown;
  return l->buffer;
}

/* ---- parallel ranges ------------------------------------------------------------------------- */

static void run_range(vtb_task_fn fn, void *closure, int64_t begin, int64_t end) {
  if (begin >= end) return;
  thread_scratch *t = scratch_of_thread();
  vtb_check(t->depth + 1 < SCRATCH_LEVELS, "tasks nested more than %d deep", SCRATCH_LEVELS);
  unsigned mode = vtb_denormals_flush();
  t->depth++;
  fn(closure, begin, end);
  drop_retired(&t->levels[t->depth]);
  t->depth--;
  vtb_denormals_restore(mode);
}

/* A job as the team sees it: the task with this thread's scratch level and denormal mode around
 * it. */
typedef struct wrapped_task {
  vtb_task_fn fn;
  void *closure;
} wrapped_task;

static void run_wrapped(void *closure, int64_t begin, int64_t end) {
  const wrapped_task *w = closure;
  run_range(w->fn, w->closure, begin, end);
}

typedef struct lone_job {
  wrapped_task *task;
  int64_t n, grain;
} lone_job;

static void run_lone(vtb_team *team, void *arg) {
  const lone_job *job = arg;
  vtb_team_parallel(team, run_wrapped, job->task, job->n, job->grain);
}

/* Inside a program the running team takes the job; outside, a team is made for it; inside a task it
 * runs as it is. */
static void parallel(const vtb_services *s, vtb_task_fn fn, void *closure, int64_t n,
                     int64_t grain) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  services_state *st = s->user;
  wrapped_task task = {fn, closure};
  if (s->n_threads <= 1 || n <= grain || scratch_of_thread()->depth > 0) {
    run_range(fn, closure, 0, n);
  } else if (st->team) {
    vtb_team_parallel(st->team, run_wrapped, &task, n, grain);
  } else {
    lone_job job = {&task, n, grain};
    vtb_team_run(s->n_threads, run_lone, &job);
  }
}

/* ---- BLAS ------------------------------------------------------------------------------------ */

static int blas_int(int64_t v) {
  vtb_check(v >= 0 && v <= INT_MAX, "sgemm size %lld does not fit the BLAS interface",
            (long long)v);
  return (int)v;
}

static void sgemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                  const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc) {
  if (m == 0 || n == 0) return;
  cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
              trans_b ? CblasTrans : CblasNoTrans, blas_int(m), blas_int(n), blas_int(k), alpha, a,
              blas_int(lda), b, blas_int(ldb), beta, c, blas_int(ldc));
}

/* ---- kernel times ---------------------------------------------------------------------------- */

static void kernel_begin(const vtb_services *s, int kernel) {
  services_state *st = s->user;
  if (kernel >= 0 && kernel < st->n_kernels) st->started[kernel] = vtb_now();
}

static void kernel_end(const vtb_services *s, int kernel) {
  services_state *st = s->user;
  if (kernel < 0 || kernel >= st->n_kernels) return;
  st->times[kernel].seconds += vtb_now() - st->started[kernel];
  st->times[kernel].launches++;
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

static int positive_env(const char *name) {
  const char *text = getenv(name);
  if (!text) return 0;
  char *end;
  long v = strtol(text, &end, 10); /* OMP_NUM_THREADS may be a list: its first number counts */
  return end != text && v > 0 && v <= 4096 ? (int)v : 0;
}

int vtb_default_threads(void) {
  int n = positive_env("VTB_THREADS");
  if (!n) n = positive_env("OMP_NUM_THREADS");
  if (!n) {
    cpu_set_t set;
    CPU_ZERO(&set);
    n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : omp_get_num_procs();
  }
  return n > 0 ? n : 1;
}

vtb_services *vtb_services_default(int n_threads) {
  openblas_set_num_threads(1); /* the program splits the work itself */
  vtb_services *s = vtb_xmalloc(sizeof *s);
  *s = (vtb_services){.size = sizeof *s,
                      .n_threads = n_threads > 0 ? n_threads : vtb_default_threads(),
                      .parallel = parallel,
                      .sgemm = sgemm,
                      .scratch = scratch,
                      .user = vtb_xcalloc(1, sizeof(services_state))};
  return s;
}

vtb_services *vtb_services_profiling(int n_threads, int n_kernels) {
  vtb_services *s = vtb_services_default(n_threads);
  services_state *st = s->user;
  st->n_kernels = n_kernels > 0 ? n_kernels : 0;
  st->times = vtb_xcalloc((size_t)st->n_kernels, sizeof *st->times);
  st->started = vtb_xcalloc((size_t)st->n_kernels, sizeof *st->started);
  s->kernel_begin = kernel_begin;
  s->kernel_end = kernel_end;
  return s;
}

void vtb_services_free(vtb_services *s) {
  if (!s) return;
  services_state *st = s->user;
  free(st->times);
  free(st->started);
  free(st);
  free(s);
}

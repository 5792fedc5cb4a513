/* See plan_rehearse.h. */
#include "frontend/cli/train/plan_rehearse.h"

#include "runtime/ranks/ranks.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { STEPS = 9, LEAST_STEPS = 3, BUCKET_BYTES = 1 << 20 };
static const double BUDGET = 6; /* seconds */

/* ---- notes ----------------------------------------------------------------------------------- */

typedef struct sum_note {
  double at, bytes;
  bool wait; /* waited for behind it */
} sum_note;

typedef struct step_notes {
  VTB_VEC(sum_note) sums;
  double waited, seconds; /* the last wait's end, and the step's, from its beginning */
} step_notes;

typedef struct rehearsal {
  const vtb_program *program;
  pthread_mutex_t gate; /* closed until all ranks are there, or `stop` is set */
  pthread_barrier_t all;
  bool stop; /* set by the first rank, read behind a barrier */
  step_notes steps[STEPS];
  int n_steps;
} rehearsal;

/* A rank; what it needs is there before any of them begins, as each waits for all others. */
typedef struct actor {
  rehearsal *of;
  bool first;
  vtb_services *services;
  vtb_optim *update;
  void **buffers, *workspace;
  double begin;
  step_notes *notes; /* of the first rank; NULL while it warms up */
  vtb_error err;
  pthread_t thread;
} actor;

static _Thread_local actor *current; /* services have no room for whoever runs them */

static void note_sum(const vtb_services *s, float *at, int64_t n) {
  (void)s, (void)at;
  if (!current->notes) return;
  const sum_note note = {.at = vtb_now() - current->begin, .bytes = 4 * (double)n};
  vtb_vec_push(&current->notes->sums, note);
}

static void note_wait(const vtb_services *s) {
  (void)s;
  pthread_barrier_wait(&current->of->all);
  if (!current->notes) return;
  current->notes->waited = vtb_now() - current->begin;
  if (current->notes->sums.n) current->notes->sums.at[current->notes->sums.n - 1].wait = true;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void run_step(actor *a, step_notes *notes) {
  a->notes = notes;
  a->begin = vtb_now();
  vtb_status status =
      vtb_program_execute(a->of->program, a->buffers, a->workspace, a->services, &a->err);
  if (notes && status == VTB_OK) notes->seconds = vtb_now() - a->begin;
}

static void *act(void *user) {
  actor *a = user;
  rehearsal *r = a->of;
  pthread_mutex_lock(&r->gate);
  pthread_mutex_unlock(&r->gate);
  if (r->stop) return NULL;
  double began = vtb_now();
  current = a;
  run_step(a, NULL);
  for (int i = 0; i < STEPS; i++) {
    if (a->first) r->stop = i >= LEAST_STEPS && vtb_now() - began > BUDGET;
    pthread_barrier_wait(&r->all);
    if (r->stop) break;
    run_step(a, a->first ? &r->steps[r->n_steps++] : NULL);
    pthread_barrier_wait(&r->all);
  }
  return NULL;
}

static vtb_status open_actor(actor *a, rehearsal *r, int threads, vtb_error *err) {
  const vtb_program *p = r->program;
  a->of = r;
  a->services = vtb_services_default(threads);
  a->workspace = vtb_aligned_alloc((size_t)p->workspace_bytes + 64);
  a->buffers = cli_make_buffers(p, err);
  if (!a->services || !a->workspace) return vtb_no_memory(err, "rehearsing a step");
  a->services->sum_begin = note_sum;
  a->services->sum_wait = note_wait;
  return err->status == VTB_OK ? cli_measured_update(p, a->buffers, &a->update, err) : err->status;
}

static void close_actor(actor *a, const vtb_program *p) {
  vtb_optim_free(a->update);
  if (a->buffers) cli_free_buffers(p, a->buffers);
  vtb_free(a->workspace);
  vtb_services_free(a->services);
}

/* The last of them is the calling thread. */
static vtb_status run_all(rehearsal *r, actor *actors, int n, vtb_error *err) {
  int begun = 0;
  pthread_mutex_lock(&r->gate);
  while (begun < n - 1 && !pthread_create(&actors[begun].thread, NULL, act, &actors[begun]))
    begun++;
  r->stop = begun < n - 1;
  pthread_mutex_unlock(&r->gate);
  if (!r->stop) act(&actors[n - 1]);
  for (int i = 0; i < begun; i++) pthread_join(actors[i].thread, NULL);
  if (begun < n - 1)
    return vtb_fail(err, VTB_E_MEMORY, "no threads are left to rehearse %d ranks", n);
  for (int i = 0; i < n; i++)
    if (actors[i].err.status != VTB_OK)
      return vtb_fail(err, actors[i].err.status, "%s", actors[i].err.text);
  return VTB_OK;
}

/* ---- what was noted -------------------------------------------------------------------------- */

static int by_seconds(const void *a, const void *b) {
  double x = ((const step_notes *)a)->seconds, y = ((const step_notes *)b)->seconds;
  return (x > y) - (x < y);
}

/* Sums go together as ranks send them (runtime/ranks): up to a bucket's bytes, and up to a wait. */
static void take_median(rehearsal *r, plan_step *out) {
  qsort(r->steps, (size_t)r->n_steps, sizeof *r->steps, by_seconds);
  const step_notes *m = &r->steps[r->n_steps / 2];
  size_t n = m->sums.n;
  out->buckets = vtb_xcalloc(n + 1, sizeof *out->buckets);
  int k = 0;
  for (size_t i = 0; i < n; i++) {
    vtb_scaling_bucket *b = &out->buckets[k];
    b->ready = m->sums.at[i].at;
    b->bytes += m->sums.at[i].bytes;
    b->wait = m->sums.at[i].wait && i + 1 < n;
    if (b->wait || i + 1 == n || b->bytes >= BUCKET_BYTES) k++;
  }
  out->step = (vtb_scaling_step){.images = (double)r->program->batch,
                                 .work = m->waited,
                                 .rest = m->seconds - m->waited,
                                 .buckets = out->buckets,
                                 .n_buckets = k};
}

vtb_status plan_rehearse(const vtb_program *p, int threads, int together, plan_step *out,
                         vtb_error *err) {
  rehearsal r = {.program = p};
  actor *actors = vtb_xcalloc((size_t)together, sizeof *actors);
  vtb_status status = VTB_OK;
  if (pthread_mutex_init(&r.gate, NULL) || pthread_barrier_init(&r.all, NULL, (unsigned)together))
    status = vtb_no_memory(err, "rehearsing a step");
  for (int i = 0; i < together && status == VTB_OK; i++)
    status = open_actor(&actors[i], &r, threads, err);
  actors[together - 1].first = true;
  if (status == VTB_OK) status = run_all(&r, actors, together, err);
  if (status == VTB_OK) take_median(&r, out);
  for (int i = 0; i < together; i++) close_actor(&actors[i], p);
  for (int i = 0; i < STEPS; i++) vtb_vec_free(&r.steps[i].sums);
  pthread_barrier_destroy(&r.all);
  pthread_mutex_destroy(&r.gate);
  vtb_free(actors);
  return status;
}

/* ---- links ----------------------------------------------------------------------------------- */

enum { SMALL = 1024, LARGE = 4 << 20, SMALL_SUMS = 50, LARGE_SUMS = 4 }; /* floats; how often */

typedef struct link_end {
  vtb_ranks *ranks;
  float *at;
  double small, large; /* seconds of a sum */
  vtb_error err;
  pthread_t thread;
  bool begun;
} link_end;

static double time_sums(link_end *e, int64_t n, int times) {
  double began = vtb_now();
  for (int i = 0; i < times; i++)
    if (vtb_ranks_sum_begin(e->ranks, e->at, n, &e->err) != VTB_OK ||
        vtb_ranks_sum_wait(e->ranks, &e->err) != VTB_OK)
      break;
  return (vtb_now() - began) / times;
}

static void *measure_end(void *user) {
  link_end *e = user;
  e->at = vtb_aligned_alloc(sizeof(float) * LARGE);
  if (e->at)
    for (int i = 0; i < LARGE; i++) e->at[i] = 0;
  else
    vtb_ranks_fail(e->ranks, VTB_E_MEMORY, "out of memory");
  (void)time_sums(e, e->at ? LARGE : 0, 1);
  e->small = time_sums(e, e->at ? SMALL : 0, SMALL_SUMS);
  e->large = time_sums(e, e->at ? LARGE : 0, LARGE_SUMS);
  vtb_free(e->at);
  vtb_ranks_close(e->ranks);
  return NULL;
}

static vtb_status measure_ends(link_end *ends, int n, vtb_error *err) {
  vtb_status status = VTB_OK;
  for (int i = 1; i < n; i++) {
    ends[i].begun = !pthread_create(&ends[i].thread, NULL, measure_end, &ends[i]);
    if (!ends[i].begun) vtb_ranks_fail(ends[i].ranks, VTB_E_MEMORY, "no threads are left");
  }
  measure_end(&ends[0]);
  for (int i = 1; i < n; i++) {
    if (ends[i].begun) pthread_join(ends[i].thread, NULL);
    if (!ends[i].begun) vtb_ranks_close(ends[i].ranks);
  }
  for (int i = 0; i < n && status == VTB_OK; i++)
    if (ends[i].err.status != VTB_OK)
      status = vtb_fail(err, ends[i].err.status, "%s", ends[i].err.text);
  return status;
}

/* Where ranks have no core to spare, what sums take is taken from the work. */
static double share_of(int ranks, int threads) {
  double cores = vtb_default_threads(), wanted = (double)ranks * (threads + 1);
  return fmin(1, fmax(0, (wanted - cores) / ranks));
}

vtb_status plan_measure_links(int ranks, int threads, vtb_links *out, vtb_error *err) {
  vtb_ranks **all = vtb_xcalloc((size_t)ranks, sizeof *all);
  link_end *ends = vtb_xcalloc((size_t)ranks, sizeof *ends);
  vtb_status status = vtb_ranks_open_threads(ranks, NULL, all, err);
  for (int i = 0; i < ranks && status == VTB_OK; i++) ends[i].ranks = all[i];
  if (status == VTB_OK) status = measure_ends(ends, ranks, err);
  if (status == VTB_OK) {
    double hops = ceil(log2(ranks)), bytes = sizeof(float) * (double)(LARGE - SMALL);
    out->near_latency = ends[0].small / (2 * hops);
    out->near_bytes = 2 * (ranks - 1.0) / ranks * bytes / (ends[0].large - ends[0].small);
    out->share = share_of(ranks, threads);
    if (!(out->near_bytes > 0)) out->near_bytes = 1e12;
  }
  vtb_free(ends);
  vtb_free(all);
  return status;
}

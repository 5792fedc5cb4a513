/* How many trainings run at a time. */
#include "frontend/study/runner.h"

#include <math.h>

/* Up to so many operations an image one thread a training is faster than all threads for one: its
 * kernels are too small to be divided. */
static const double small_flops = 1e8;
/* The batch of trainings whose study names none. */
static const double usual_batch = 64;

/* The largest of the cells: of operations, and of bytes that a training holds (weights, gradients,
 * two moments, the workspace). */
static void largest(const study_work *w, double *flops, double *bytes) {
  *flops = *bytes = 0;
  for (size_t i = 0; i < w->tasks.n; i++) {
    const study_task *t = &w->tasks.at[i];
    if (t->step != STUDY_CHECK || !t->known || !study_record_ok(&t->record)) continue;
    const cJSON *d = t->record.document;
    double own = 16 * study_number(d, "parameters"), f = study_number(d, "flops");
    double train = study_number(d, "train.workspace_bytes");
    if (!isfinite(train) || train <= 0) train = 4 * study_number(d, "workspace_bytes");
    if (!(study_number(d, "batch") > 1)) train *= usual_batch; /* the recipe's, not the study's */
    if (f > *flops) *flops = f;
    if (own + train > *bytes) *bytes = own + train;
  }
}

/* As many as the memory has room for, with a quarter to spare. */
static size_t fit(const study_runner *r, size_t jobs, double bytes) {
  double room = 0.75 * study_machine_memory() / r->options->launch.here;
  double base = 100e6; /* of the program and its data */
  if (room <= 0 || jobs * (bytes + base) <= room) return jobs;
  size_t fits = (size_t)(room / (bytes + base));
  return fits ? fits : 1;
}

size_t study_choose_jobs(const study_runner *r, int64_t *threads) {
  const study *s = r->work->study;
  double flops, bytes;
  int cores = study_machine_cores() / r->options->launch.here;
  if (cores < 1) cores = 1;
  largest(r->work, &flops, &bytes);
  bool told = s->jobs > 0;
  size_t all = told                   ? (size_t)s->jobs
               : s->threads > 0       ? (size_t)(cores / s->threads > 1 ? cores / s->threads : 1)
               : flops <= small_flops ? (size_t)cores
                                      : 1;
  size_t jobs = told ? all : fit(r, all, bytes);
  *threads = s->threads > 0 ? s->threads : cores / (int64_t)jobs > 1 ? cores / (int64_t)jobs : 1;
  if (told || r->options->launch.rank) return jobs;
  if (jobs < all)
    study_says(r, "%zu at a time: more of them have no room in memory", jobs);
  else
    study_says(r, "%zu training%s at a time, %lld thread%s each%s (--jobs, --threads)", jobs,
               jobs > 1 ? "s" : "", (long long)*threads, *threads > 1 ? "s" : "",
               jobs > 1 ? ": small models do not share cores well" : "");
  return jobs;
}

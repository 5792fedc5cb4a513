/* The state that study_run() and its phases share. */
#ifndef VTB_STUDY_RUNNER_H
#define VTB_STUDY_RUNNER_H

#include "frontend/study/claim.h"
#include "frontend/study/run.h"
#include "frontend/study/worker.h"

enum { STUDY_MOST_JOBS = 256 };

/* A step that is being done. */
typedef struct study_slot {
  size_t task;
  study_claim claim;
  char began[32];
  study_texts words;
  bool resumed;
} study_slot;

typedef struct study_runner {
  study_work *work;
  const study_run_options *options;
  size_t n; /* slots */
  study_worker workers[STUDY_MOST_JOBS];
  study_slot slots[STUDY_MOST_JOBS];
  bool told; /* the workers, to end */
  char *host;
  double seconds[STUDY_PEAK + 1]; /* of steps that have ended, by kind */
  int ended[STUDY_PEAK + 1];
} study_runner;

/* One step, alone. */
VTB_MUST_USE vtb_status study_run_one(study_runner *r, size_t task, vtb_error *err);
bool study_stops(const study_runner *r);
VTB_MUST_USE vtb_status study_stopped(const study_runner *r);
void study_says(const study_runner *r, const char *fmt, ...) VTB_PRINTF(2, 3);

/* ---- jobs.c ---------------------------------------------------------------------------------- */

/* How many trainings at a time, and with how many threads each; says why where it was not told. */
size_t study_choose_jobs(const study_runner *r, int64_t *threads);

/* ---- timing.c -------------------------------------------------------------------------------- */

/* All rounds, one step at a time. */
VTB_MUST_USE vtb_status study_run_rounds(study_runner *r, vtb_error *err);

#endif

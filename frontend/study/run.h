/* Running the work of a study: its steps in processes, several at a time where only results count,
 * one at a time where time does. A step that fails is recorded and stops nothing but what builds on
 * it; an interrupted run goes on when it is begun again. */
#ifndef VTB_STUDY_RUN_H
#define VTB_STUDY_RUN_H

#include "frontend/study/launcher.h"
#include "frontend/study/work.h"

typedef enum study_event_kind {
  STUDY_BEGAN, /* a step */
  STUDY_ENDED, /* a step; its record is there */
  STUDY_TICK,  /* half a second has passed */
  STUDY_SAYS   /* what was decided, skipped, or found: `text` */
} study_event_kind;

typedef struct study_event {
  study_event_kind kind;
  const study_task *task; /* of STUDY_BEGAN and STUDY_ENDED; of STUDY_TICK one that runs, or NULL */
  const char *text;
  bool resumed;    /* of STUDY_BEGAN: a training that was interrupted goes on */
  int done, total; /* steps */
  double left;     /* seconds, by the steps that have ended; below 0: not known */
} study_event;

typedef struct study_run_options {
  study_launch launch;
  bool retry;               /* steps that have failed are done again */
  const volatile int *stop; /* not 0: the signal that asks to end; NULL: nothing does */
  void (*on_event)(void *user, const study_event *e);
  /* After steps have ended: the report may be written. */
  vtb_status (*on_results)(void *user, const study_work *w, bool last, vtb_error *err);
  void *user;
} study_run_options;

/* Does what is not done. VTB_OK: all steps have ended, whatever came of them; 128 + the signal: it
 * was asked to end, running steps were told and have ended, and what they had is kept. */
VTB_MUST_USE vtb_status study_run(study_work *w, const study_run_options *o, vtb_error *err);

#endif

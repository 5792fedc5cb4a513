/* Reading what a run has logged (log.jsonl): epochs, ends, windows of updates, plans. */
#ifndef VTB_STUDY_RUN_LOG_H
#define VTB_STUDY_RUN_LOG_H

#include "runtime/base/base.h"

#include <cjson/cJSON.h>

typedef struct run_log {
  VTB_VEC(cJSON *) events; /* all but those of single updates */
  bool cut;                /* the last line is not whole: a writer was killed */
  int broken;              /* the first line that is no JSON; 0: none */
} run_log;

/* Reads the log of the run's folder. A last line that is cut off is left out; one before it that is
 * no JSON is an error with its line. */
VTB_MUST_USE vtb_status run_log_read(const char *folder, run_log *out, vtb_error *err);
/* The same without the lines that are no JSON: `broken` says whether there are any. */
VTB_MUST_USE vtb_status run_log_read_rest(const char *folder, run_log *out, vtb_error *err);
void run_log_free(run_log *l);

bool run_event_is(const cJSON *event, const char *kind);
double run_event_number(const cJSON *event, const char *name);    /* NaN: none, or null */
const char *run_event_text(const cJSON *event, const char *name); /* NULL: none */
/* The score of an evaluation, by what its run is compared: "top1" unless the model says. */
typedef struct run_score {
  const char *name; /* borrowed of the event */
  bool lower;       /* is better */
  double value;     /* NaN: it was not evaluated */
} run_score;
run_score run_event_score(const cJSON *event);
bool run_score_beats(const run_score *s, double best); /* any does NaN */
/* The last event of the kind; NULL if there is none. */
const cJSON *run_log_last(const run_log *l, const char *kind);

#endif

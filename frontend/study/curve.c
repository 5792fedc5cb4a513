/* See curve.h. */
#include "frontend/study/curve.h"
#include "frontend/study/json.h"
#include "frontend/study/run_log.h"

#include <math.h>

/* True if it was evaluated. */
static bool add_point(const cJSON *line, study_curve *c) {
  cJSON *point = cJSON_CreateObject();
  run_score score = run_event_score(line);
  snprintf(c->score, sizeof c->score, "%s", score.name);
  c->lower = score.lower;
  study_add_number(point, "epoch", study_number(line, "epoch"));
  study_add_number(point, "seconds", study_number(line, "seconds"));
  /* of the epoch so far: not beside what is of the last updates alone */
  if (!c->windows) study_add_number(point, "loss", study_number(line, "loss"));
  study_add_number(point, "val", score.value);
  cJSON_AddItemToArray(c->points, point);
  if (run_score_beats(&score, c->best)) c->best = score.value;
  return !isnan(score.value);
}

/* The training loss between evaluations. */
static void add_window(const cJSON *line, study_curve *c) {
  double epoch = study_number(line, "epoch");
  if (!isfinite(epoch)) return; /* of an earlier version */
  cJSON *point = cJSON_CreateObject();
  study_add_number(point, "epoch", epoch);
  study_add_number(point, "loss", study_number(line, "loss"));
  c->windows = true;
  cJSON_AddItemToArray(c->points, point);
}

void study_curve_read(const char *run_folder, study_curve *out) {
  run_log log;
  double last = -1;
  *out = (study_curve){.points = cJSON_CreateArray(), .score = "top1", .best = (double)NAN};
  if (run_log_read_rest(run_folder, &log, NULL) != VTB_OK) return;
  for (size_t i = 0; i < log.events.n; i++) {
    const cJSON *event = log.events.at[i];
    double step = run_event_number(event, "step");
    bool valued = false, epoch = run_event_is(event, "epoch");
    /* the end of a run counts where it is not also the end of an epoch that was evaluated */
    if (epoch || run_event_is(event, "eval") || (run_event_is(event, "end") && step > last))
      valued = add_point(event, out);
    else if (run_event_is(event, "window"))
      add_window(event, out);
    if (epoch && valued) last = step;
  }
  run_log_free(&log);
}

void study_curve_free(study_curve *c) {
  cJSON_Delete(c->points);
  c->points = NULL;
}

#include "frontend/study/curve.h"

#include "frontend/study/json.h"

#include <math.h>
#include <string.h>

enum { MOST_BYTES = 1 << 30 };

static bool is_event(const cJSON *line, const char *kind) {
  return strcmp(study_text_of(line, "event"), kind) == 0;
}

/* A model that declares what it is measured by says so; a classifier has top1. */
static void learn_score(const cJSON *line, study_curve *c) {
  const char *score = study_text_of(line, "score");
  snprintf(c->score, sizeof c->score, "%s", *score ? score : "top1");
  c->lower = strcmp(study_text_of(line, "better"), "lower") == 0;
}

/* Whether it was evaluated. */
static bool add_point(const cJSON *line, study_curve *c) {
  char name[96];
  cJSON *point = cJSON_CreateObject();
  learn_score(line, c);
  snprintf(name, sizeof name, "eval_%s", c->score);
  double val = study_number(line, name);
  study_add_number(point, "epoch", study_number(line, "epoch"));
  study_add_number(point, "seconds", study_number(line, "seconds"));
  /* of the epoch so far: not beside what is of the last updates alone */
  if (!c->windows) study_add_number(point, "loss", study_number(line, "loss"));
  study_add_number(point, "val", val);
  cJSON_AddItemToArray(c->points, point);
  bool better = c->lower ? val < c->best : val > c->best;
  if (isfinite(val) && (!isfinite(c->best) || better)) c->best = val;
  return isfinite(val);
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
  char *text = NULL, *end;
  size_t n;
  vtb_strbuf path = {0};
  double last = -1;
  *out = (study_curve){.points = cJSON_CreateArray(), .score = "top1", .best = (double)NAN};
  vtb_strbuf_printf(&path, "%s/log.jsonl", run_folder);
  if (vtb_file_read(path.at, MOST_BYTES, &text, &n, NULL) != VTB_OK) text = NULL;
  for (char *line = text; line && (end = strchr(line, '\n')); line = end + 1) {
    *end = 0;
    if (!strstr(line, "\"epoch\"")) continue;
    cJSON *event = cJSON_Parse(line);
    double step = study_number(event, "step");
    /* the end of a run counts where it is not also the end of an epoch that was evaluated */
    bool valued = false;
    if (is_event(event, "epoch") || is_event(event, "eval") ||
        (is_event(event, "end") && step > last))
      valued = add_point(event, out);
    else if (is_event(event, "window"))
      add_window(event, out);
    if (is_event(event, "epoch") && valued) last = step;
    cJSON_Delete(event);
  }
  vtb_free(text);
  vtb_strbuf_free(&path);
}

void study_curve_free(study_curve *c) {
  cJSON_Delete(c->points);
  c->points = NULL;
}

/* Findings in the numbers of a study: which cell is best and which cannot be told from it, by
 * accuracy and by speed, and what each axis does on its own. */
#include "frontend/document/document.h"
#include "frontend/study/results.h"
#include "frontend/study/scores.h"

#include <math.h>
#include <string.h>

static bool lower_is_better(const cJSON *train) {
  return strcmp(study_text_of(train, "better"), "lower") == 0;
}

/* A cell is chosen by val, where there is one. */
static double choice_of(const cJSON *cell) {
  const cJSON *train = study_member(cell, "train");
  double val = study_number(train, "val_mean");
  return isfinite(val) ? val : study_number(train, "mean");
}

static bool scores_are_tied(const cJSON *a, const cJSON *b, double margin) {
  (void)margin;
  return isfinite(study_score_of(a).mean) && isfinite(study_score_of(b).mean) &&
         !study_cells_differ_in_score(a, b);
}

static bool times_are_tied(const cJSON *a, const cJSON *b, double margin) {
  return !study_cells_differ_in_speed(a, b, margin);
}

static double speed_of(const cJSON *cell) { return study_number(cell, "bench.samples_per_sec"); }

/* "rank": "best" or "tied", of the cells that have the part. */
static void rank(cJSON *cells, const char *part, double (*value)(const cJSON *),
                 bool (*tied)(const cJSON *, const cJSON *, double), double margin) {
  const cJSON *best = NULL;
  cJSON *cell;
  cJSON_ArrayForEach(cell, cells) {
    bool lower = lower_is_better(study_member(cell, "train")) && strcmp(part, "train") == 0;
    double x = value(cell), b = best ? value(best) : (double)NAN;
    if (isfinite(x) && (!best || (lower ? x < b : x > b))) best = cell;
  }
  cJSON_ArrayForEach(cell, cells) {
    cJSON *own = cJSON_GetObjectItemCaseSensitive(cell, part);
    if (!own || !best || !isfinite(value(cell))) continue;
    if (cell == best)
      cJSON_AddStringToObject(own, "rank", "best");
    else if (tied(cell, best, margin))
      cJSON_AddStringToObject(own, "rank", "tied");
  }
}

/* ---- main effects ---------------------------------------------------------------------------- */

static double mean_score(const cJSON *cell) { return study_score_of(cell).mean; }

/* True if the cell has the value for the axis; an axis of several names is found by its values in
 * order. */
static bool has_value(const cJSON *cell, const char *axis, const char *value) {
  const cJSON *settings = study_member(cell, "settings");
  size_t n = strcspn(axis, ",");
  while (*axis) {
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)n, axis);
    bool last = !axis[n];
    size_t width = last ? strlen(value) : strcspn(value, ":");
    const char *own = study_text_of(settings, name);
    if (strlen(own) != width || strncmp(own, value, width) != 0) return false;
    axis += n + !last;
    value += width + (value[width] != 0);
    n = strcspn(axis, ",");
  }
  return true;
}

static cJSON *effect_of_value(const cJSON *cells, const char *axis, const char *value,
                              double (*score)(const cJSON *)) {
  const cJSON *cell;
  double low = (double)NAN, high = (double)NAN, sum = 0;
  int n = 0;
  cJSON_ArrayForEach(cell, cells) {
    double x = score(cell);
    if (!isfinite(x) || !has_value(cell, axis, value)) continue;
    low = n ? fmin(low, x) : x;
    high = n ? fmax(high, x) : x;
    sum += x;
    n++;
  }
  if (!n) return NULL;
  return doc_object(F("value", value), F("cells", n), F("mean", sum / n), F("low", low),
                    F("high", high));
}

/* The mean over all other axes, a value; nothing where no value has a cell. */
static void add_effect(cJSON *effects, const cJSON *axis, const cJSON *cells, const char *of,
                       double (*score)(const cJSON *)) {
  const cJSON *value;
  cJSON *list = cJSON_CreateArray();
  cJSON_ArrayForEach(value, study_member(axis, "values")) {
    cJSON *one = cJSON_IsString(value) ? effect_of_value(cells, study_text_of(axis, "name"),
                                                         value->valuestring, score)
                                       : NULL;
    if (one) cJSON_AddItemToArray(list, one);
  }
  if (cJSON_GetArraySize(list))
    doc_item(effects, F("axis", study_text_of(axis, "name")), F("of", of), F("values", list));
  else
    cJSON_Delete(list);
}

void study_findings(cJSON *results) {
  cJSON *cells = cJSON_GetObjectItemCaseSensitive(results, "cells");
  const cJSON *axis;
  double margin = study_margin_of(cells, "bench.rounds");
  rank(cells, "train", choice_of, scores_are_tied, margin);
  rank(cells, "bench", speed_of, times_are_tied, margin);
  study_add_number(results, "speed_margin", margin);
  cJSON *effects = cJSON_AddArrayToObject(results, "effects");
  cJSON_ArrayForEach(axis, study_member(results, "study.axes")) {
    add_effect(effects, axis, cells, "score", mean_score);
    add_effect(effects, axis, cells, "samples_per_sec", speed_of);
  }
}

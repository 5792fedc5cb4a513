/* Two reports, cell by cell. */
#include "frontend/study/against.h"

#include "frontend/document/document.h"
#include "frontend/study/scores.h"

#include <math.h>
#include <string.h>

/* The cell with the same settings. */
static const cJSON *same_cell(const cJSON *cell, const cJSON *results) {
  const cJSON *other, *settings = study_member(cell, "settings");
  cJSON_ArrayForEach(other, study_member(results, "cells")) {
    if (cJSON_Compare(study_member(other, "settings"), settings, true)) return other;
  }
  return NULL;
}

static bool has_numbers(const cJSON *cell) {
  return study_member(cell, "train") || study_member(cell, "bench") || study_member(cell, "model");
}

/* {"old", "new", "difference", "significant"}; nothing where one of them is not known. */
static void add_pair(cJSON *to, const char *name, double was, double is, double difference,
                     bool significant) {
  if (!isfinite(was) || !isfinite(is)) return;
  doc_put(to, F(name, doc_object(F("old", was), F("new", is), F("difference", difference),
                                 F("significant", significant))));
}

static double number_in(const cJSON *cell, const char *part, const char *name) {
  return study_number(study_member(cell, part), name);
}

/* Accuracies by difference; speeds and sizes by the part by which they changed. */
static cJSON *compare(const cJSON *was, const cJSON *is, double margin) {
  cJSON *out = doc_object(F("id", study_text_of(is, "id")), F("label", study_text_of(is, "label")));
  double a = study_score_of(was).mean, b = study_score_of(is).mean;
  add_pair(out, "score", a, b, b - a, study_cells_differ_in_score(was, is));
  a = number_in(was, "bench", "samples_per_sec"), b = number_in(is, "bench", "samples_per_sec");
  add_pair(out, "samples_per_sec", a, b, b / a - 1, study_cells_differ_in_speed(was, is, margin));
  a = number_in(was, "bench", "peak_bytes"), b = number_in(is, "bench", "peak_bytes");
  add_pair(out, "peak_bytes", a, b, b / a - 1, fabs(b / a - 1) > 0.05);
  a = number_in(was, "model", "param_count"), b = number_in(is, "model", "param_count");
  add_pair(out, "param_count", a, b, b / a - 1, a != b);
  const char *before = study_text_of(was, "status"), *now = study_text_of(is, "status");
  if (strcmp(before, now) != 0)
    doc_put(out, F("status", doc_object(F("old", before), F("new", now))));
  return out;
}

/* Labels of the cells that the other report has not. */
static void add_alone(cJSON *to, const char *name, const cJSON *results, const cJSON *other) {
  const cJSON *cell;
  cJSON *list = cJSON_AddArrayToObject(to, name);
  cJSON_ArrayForEach(cell, study_member(results, "cells")) {
    if (!same_cell(cell, other))
      cJSON_AddItemToArray(list, cJSON_CreateString(study_text_of(cell, "label")));
  }
}

cJSON *study_against(const cJSON *results, const cJSON *old, const char *name) {
  const cJSON *cell, *machine = study_member(results, "machine"),
                     *before = study_member(old, "machine");
  /* the two were not measured in turns: each may be off by its own margin */
  double margin = study_margin_of(study_member(results, "cells"), "bench.rounds") +
                  study_margin_of(study_member(old, "cells"), "bench.rounds");
  cJSON *out = doc_object(F("report", name), F("vertebra", study_text_of(old, "vertebra")),
                          F("ended", study_text_of(old, "ended")),
                          F("same_machine", (bool)cJSON_Compare(machine, before, true)));
  cJSON *cells = cJSON_AddArrayToObject(out, "cells");
  cJSON_ArrayForEach(cell, study_member(results, "cells")) {
    const cJSON *was = same_cell(cell, old);
    if (was && (has_numbers(was) || has_numbers(cell)))
      cJSON_AddItemToArray(cells, compare(was, cell, margin));
  }
  add_alone(out, "only_new", results, old);
  add_alone(out, "only_old", old, results);
  return out;
}

/* The comparison of two reports on the terminal. */
#include "frontend/cli/ablate/ablate_table.h"
#include "frontend/study/record.h"
#include "frontend/study/scores.h"

#include <math.h>
#include <string.h>

/* "% 88.12 -> 88.40  +0.28  *": the star where the difference is more than chance. NULL: there is
 * no pair. */
static const char *pair_text(doc *d, const cJSON *pair, double scale, const char *as,
                             bool relative) {
  double difference = study_number(pair, "difference");
  char was[32], is[32], change[32];
  if (!pair) return NULL;
  snprintf(was, sizeof was, "%.*f", scale == 100 ? 2 : 1, scale * study_number(pair, "old"));
  snprintf(is, sizeof is, "%.*f", scale == 100 ? 2 : 1, scale * study_number(pair, "new"));
  snprintf(change, sizeof change, relative ? "%+6.1f %%" : "%+7.2f",
           (relative ? 100 : scale) * difference);
  return vtb_arena_printf(&d->arena, "%s %8s -> %-8s  %s  %s", as, was, is, change,
                          cJSON_IsTrue(study_member(pair, "significant")) ? "*" : " ");
}

static void add_cell(doc *d, doc_table *t, const cJSON *cell, bool top1) {
  const cJSON *status = study_member(cell, "status"), *params = study_member(cell, "param_count");
  const char *change = vtb_arena_printf(&d->arena, "%s -> %s", study_text_of(status, "old"),
                                        study_text_of(status, "new"));
  if (!cJSON_IsTrue(study_member(params, "significant"))) params = NULL;
  doc_row(d, t, V(study_text_of(cell, "label")),
          V(pair_text(d, study_member(cell, "score"), top1 ? 100 : 1, top1 ? "%" : "", false)),
          V(pair_text(d, study_member(cell, "samples_per_sec"), 1, "img/s", true)),
          V(pair_text(d, params, 1, "params", true)), V(status ? change : NULL));
}

static void say_alone(doc *d, const cJSON *against, const char *name, const char *where) {
  const cJSON *label;
  vtb_strbuf text = {0};
  cJSON_ArrayForEach(label, study_member(against, name)) {
    if (cJSON_IsString(label))
      vtb_strbuf_printf(&text, "%s%s", text.n ? "; " : "", label->valuestring);
  }
  if (text.n) doc_say(d, 4, "only %s: %s", where, text.at);
  vtb_strbuf_free(&text);
}

void ablate_print_against(const cJSON *results) {
  static const doc_column columns[] = {
      {.heading = "cell", .width = -4, .most = 28},
      {.heading = "score", .width = -1},
      {.heading = "speed", .width = -1},
      {.heading = "parameters", .width = -1},
      {.heading = "status", .width = -1},
  };
  const cJSON *cell, *against = study_member(results, "against");
  bool top1 = false;
  if (!against) return;
  cJSON_ArrayForEach(cell, study_member(results, "cells")) {
    top1 |= strcmp(study_text_of(study_member(cell, "train"), "score"), "top1") == 0;
  }
  doc *d = doc_new(NULL);
  doc_say(d, 4, "against %s%s:", study_text_of(against, "report"),
          cJSON_IsTrue(study_member(against, "same_machine"))
              ? ""
              : ", of another machine or with other threads");
  doc_table *t = DOC_TABLE(d, NULL, columns);
  t->headless = true, t->cut = 1;
  cJSON_ArrayForEach(cell, study_member(against, "cells")) add_cell(d, t, cell, top1);
  if (t->rows.n) doc_say(d, 0, "* more than chance (accuracy) or than both margins (speed)");
  say_alone(d, against, "only_new", "here");
  say_alone(d, against, "only_old", "there");
  cli_tell(d);
}

/* The comparison of two reports on the terminal. */
#include "frontend/cli/ablate/ablate_table.h"
#include "frontend/cli/say/progress.h"
#include "frontend/study/record.h"
#include "frontend/study/scores.h"

#include <math.h>
#include <string.h>

/* "88.12 -> 88.40", and a star where the difference is more than chance. */
static void add_pair(cli_line *l, const cJSON *pair, double scale, const char *as, bool relative) {
  char was[32], is[32];
  double difference = study_number(pair, "difference");
  if (!pair) return;
  snprintf(was, sizeof was, "%.*f", scale == 100 ? 2 : 1, scale * study_number(pair, "old"));
  snprintf(is, sizeof is, "%.*f", scale == 100 ? 2 : 1, scale * study_number(pair, "new"));
  cli_line_add(l, "%s %8s -> %-8s", as, was, is);
  if (relative)
    cli_line_add(l, "%+6.1f %%", 100 * difference);
  else
    cli_line_add(l, "%+7.2f", scale * difference);
  cli_line_add(l, "%s", cJSON_IsTrue(study_member(pair, "significant")) ? "*" : " ");
}

static void print_cell(const cJSON *cell, int label, bool top1) {
  cli_line l = {.cut = true};
  const cJSON *status = study_member(cell, "status");
  cli_line_add(&l, "%-*.*s", label, label, study_text_of(cell, "label"));
  add_pair(&l, study_member(cell, "score"), top1 ? 100 : 1, top1 ? "%" : "", false);
  add_pair(&l, study_member(cell, "samples_per_sec"), 1, "img/s", true);
  if (cJSON_IsTrue(study_member(study_member(cell, "param_count"), "significant")))
    add_pair(&l, study_member(cell, "param_count"), 1, "params", true);
  if (status)
    cli_line_add(&l, "%s -> %s", study_text_of(status, "old"), study_text_of(status, "new"));
  cli_line_print(&l);
}

static void print_alone(const cJSON *against, const char *name, const char *where) {
  const cJSON *label;
  vtb_strbuf text = {0};
  cJSON_ArrayForEach(label, study_member(against, name)) {
    if (cJSON_IsString(label))
      vtb_strbuf_printf(&text, "%s%s", text.n ? "; " : "", label->valuestring);
  }
  if (text.n) cli_printf(4, "only %s: %s", where, text.at);
  vtb_strbuf_free(&text);
}

void ablate_print_against(const cJSON *results) {
  enum { MOST_LABEL = 28 };
  const cJSON *cell, *against = study_member(results, "against");
  int label = 4;
  bool top1 = false;
  if (!against) return;
  cJSON_ArrayForEach(cell, study_member(against, "cells")) {
    int n = (int)strlen(study_text_of(cell, "label"));
    if (n > label) label = n < MOST_LABEL ? n : MOST_LABEL;
  }
  cJSON_ArrayForEach(cell, study_member(results, "cells")) {
    top1 |= strcmp(study_text_of(study_member(cell, "train"), "score"), "top1") == 0;
  }
  cli_printf(4, "against %s%s:", study_text_of(against, "report"),
             cJSON_IsTrue(study_member(against, "same_machine"))
                 ? ""
                 : ", of another machine or with other threads");
  cJSON_ArrayForEach(cell, study_member(against, "cells")) print_cell(cell, label, top1);
  if (cJSON_GetArraySize(study_member(against, "cells")))
    puts("* more than chance (accuracy) or than both margins (speed)");
  print_alone(against, "only_new", "here");
  print_alone(against, "only_old", "there");
}

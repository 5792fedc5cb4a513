#include "frontend/cli/ablate/ablate_table.h"

#include "frontend/cli/say/progress.h"
#include "frontend/study/record.h"
#include "frontend/study/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef VTB_VEC(const cJSON *) cell_list;

static double score_of(const cJSON *cell) {
  double x = study_score_of(cell).mean;
  return strcmp(study_text_of(study_member(cell, "train"), "better"), "lower") == 0 ? -x : x;
}

static double speed_of(const cJSON *cell) {
  return study_number(study_member(cell, "bench"), "samples_per_sec");
}

/* Larger first; what is not known last. */
static int compare(double a, double b) {
  if (isfinite(a) != isfinite(b)) return isfinite(a) ? -1 : 1;
  return isfinite(a) && a != b ? (a < b) - (a > b) : 0;
}

static bool is_best(const cJSON *cell) {
  return strcmp(study_text_of(study_member(cell, "train"), "rank"), "best") == 0;
}

static int by_score(const void *a, const void *b) {
  const cJSON *x = *(const cJSON *const *)a, *y = *(const cJSON *const *)b;
  int order = compare(score_of(x), score_of(y));
  if (!order) order = (int)is_best(y) - (int)is_best(x);
  if (!order) order = compare(speed_of(x), speed_of(y));
  return order ? order : strcmp(study_text_of(x, "id"), study_text_of(y, "id"));
}

/* ---- columns --------------------------------------------------------------------------------- */

typedef struct table {
  cell_list done;
  bool trained, timed;
  bool top1; /* the score is an accuracy, shown in percent */
  bool tested;
  int label;
} table;

static void add_cell(table *t, const cJSON *cell) {
  int n = (int)strlen(study_text_of(cell, "label"));
  const cJSON *train = study_member(cell, "train");
  if (!train && !study_member(cell, "bench")) return;
  vtb_vec_push(&t->done, cell);
  t->trained |= train != NULL;
  t->tested |= isfinite(study_number(train, "mean"));
  t->timed |= study_member(cell, "bench") != NULL;
  t->top1 |= strcmp(study_text_of(train, "score"), "top1") == 0;
  if (n > t->label) t->label = n;
}

/* "88.12 ± 0.31", in percent if it is an accuracy; then the mark, if there is one. */
static void add_score(cli_line *l, const table *t, const cJSON *train, const char *mean,
                      const char *spread, const char *mark) {
  double x = study_number(train, mean), s = study_number(train, spread);
  double scale = t->top1 ? 100 : 1;
  int digits = t->top1 ? 2 : 4;
  char text[48] = "";
  if (isfinite(x) && isfinite(s))
    snprintf(text, sizeof text, "%.*f +-%.*f", digits, scale * x, digits, scale * s);
  else if (isfinite(x))
    snprintf(text, sizeof text, "%.*f", digits, scale * x);
  cli_line_add(l, mark ? "%13s %s" : "%13s", text, mark);
}

/* "802", "4.80 k", "5.37 M" */
static void add_parameters(cli_line *l, double n) {
  char text[32] = "?";
  if (n < 1000) snprintf(text, sizeof text, "%.0f", n);
  if (n >= 1000) snprintf(text, sizeof text, "%.*f k", n < 1e5 ? 2 : 0, 1e-3 * n);
  if (n >= 1e6) snprintf(text, sizeof text, "%.*f M", n < 1e8 ? 2 : 1, 1e-6 * n);
  cli_line_add(l, "%7s", text);
}

/* A star: best, or not to be told from it. */
static const char *mark(const cJSON *of) {
  const char *rank = study_text_of(of, "rank");
  return strcmp(rank, "best") == 0 ? "*" : strcmp(rank, "tied") == 0 ? "=" : " ";
}

static void print_row(const table *t, const cJSON *cell) {
  const cJSON *train = study_member(cell, "train"), *bench = study_member(cell, "bench");
  const char *label = study_text_of(cell, "label");
  cli_line l = {0};
  bool long_one = (int)strlen(label) > t->label; /* has a line of its own */
  if (long_one) cli_printf(2, "%s", label);
  cli_line_add(&l, "%-*s", t->label, long_one ? "" : label);
  add_parameters(&l, study_number(study_member(cell, "model"), "param_count"));
  if (t->trained)
    add_score(&l, t, train, t->tested ? "mean" : "val_mean", t->tested ? "spread" : "val_spread",
              mark(train));
  if (t->timed && bench) {
    double ms = study_number(bench, "best_ms"), rate = study_number(bench, "samples_per_sec");
    cli_line_add(&l, "%7.*f ms", ms < 0.1 ? 5 : ms < 10 ? 3 : 1, ms);
    cli_line_add(&l, "%7.*f %s", rate < 100 ? 1 : 0, rate, mark(bench));
    double spread = study_number(bench, "spread");
    if (isfinite(spread))
      cli_line_add(&l, "%4.1f %%", 100 * spread);
    else
      cli_line_add(&l, "%6s", "");
  }
  if (t->tested) add_score(&l, t, train, "val_mean", "val_spread", NULL);
  cli_line_print(&l);
}

static void print_head(const table *t, const char *score) {
  cli_line l = {0};
  char name[48];
  cli_line_add(&l, "%-*s", t->label, "cell");
  cli_line_add(&l, "%7s", "params");
  if (t->trained) {
    snprintf(name, sizeof name, "%s %.24s%s", t->tested ? "test" : "val", score,
             t->top1 ? " %" : "");
    cli_line_add(&l, "%13s  ", name);
  }
  if (t->timed) {
    cli_line_add(&l, "%10s", "time");
    cli_line_add(&l, "%7s  ", "img/s");
    cli_line_add(&l, "spread");
  }
  if (t->tested) cli_line_add(&l, "%13s", "val");
  cli_line_print(&l);
}

/* Cells without numbers: how many, and each one's reason. */
static void print_others(const cJSON *cells) {
  static const char *const kinds[] = {"failed", "impossible", "excluded", "pending"};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    const cJSON *cell;
    int n = 0;
    cJSON_ArrayForEach(cell, cells) {
      if (strcmp(study_text_of(cell, "status"), kinds[k]) != 0) continue;
      n++;
      if (k < 2)
        cli_printf(4, "%s: %s: %s", study_text_of(cell, "label"), kinds[k],
                   study_text_of(cell, "message"));
    }
    if (n && k >= 2) cli_printf(4, "%d cell%s %s", n, n > 1 ? "s" : "", kinds[k]);
  }
}

void ablate_print_table(const cJSON *results) {
  enum { MOST_LABEL = 24 };
  const cJSON *cell, *cells = study_member(results, "cells");
  const char *score = "top1";
  table t = {.label = 4};
  cJSON_ArrayForEach(cell, cells) {
    add_cell(&t, cell);
    if (*study_text_of(study_member(cell, "train"), "score"))
      score = study_text_of(study_member(cell, "train"), "score");
  }
  if (t.label > MOST_LABEL) t.label = MOST_LABEL;
  if (t.done.n) {
    qsort(t.done.at, t.done.n, sizeof *t.done.at, by_score);
    print_head(&t, score);
  }
  for (size_t i = 0; i < t.done.n; i++) print_row(&t, t.done.at[i]);
  if (t.done.n > 1) puts("* best; = cannot be told from the best by these repetitions");
  print_others(cells);
  vtb_vec_free(&t.done);
}

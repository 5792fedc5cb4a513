/* The results of a study as a table. */
#include "frontend/cli/ablate/ablate_table.h"

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
  bool top1; /* the score is an accuracy, shown in percent */
  bool tested;
} table;

static void add_cell(table *t, const cJSON *cell) {
  const cJSON *train = study_member(cell, "train");
  if (!train && !study_member(cell, "bench")) return;
  vtb_vec_push(&t->done, cell);
  t->tested |= isfinite(study_number(train, "mean"));
  t->top1 |= strcmp(study_text_of(train, "score"), "top1") == 0;
}

/* "88.12 +-0.31", in percent if it is an accuracy, then the mark; NULL: not trained. */
static const char *score_text(doc *d, const table *t, const cJSON *train, const char *mean,
                              const char *spread, const char *mark) {
  double x = study_number(train, mean), s = study_number(train, spread);
  double scale = t->top1 ? 100 : 1;
  int digits = t->top1 ? 2 : 4;
  char some[32] = "";
  if (!isfinite(x)) return NULL;
  if (isfinite(s)) snprintf(some, sizeof some, " +-%.*f", digits, scale * s);
  return vtb_arena_printf(&d->arena, "%.*f%s%s", digits, scale * x, some, mark);
}

/* "802", "4.80 k", "5.37 M" */
static const char *write_parameters(double n, char *buf, size_t size) {
  if (n < 1000)
    snprintf(buf, size, "%.0f", n);
  else if (n < 1e6)
    snprintf(buf, size, "%.*f k", n < 1e5 ? 2 : 0, 1e-3 * n);
  else
    snprintf(buf, size, "%.*f M", n < 1e8 ? 2 : 1, 1e-6 * n);
  return buf;
}

static const char *write_ms(double ms, char *buf, size_t size) {
  snprintf(buf, size, "%.*f ms", ms < 0.1 ? 5 : ms < 10 ? 3 : 1, ms);
  return buf;
}

/* A star: best, or not to be told from it. */
static const char *mark(const cJSON *of) {
  const char *rank = study_text_of(of, "rank");
  return strcmp(rank, "best") == 0 ? " *" : strcmp(rank, "tied") == 0 ? " =" : "  ";
}

static void add_row(doc *d, doc_table *to, const table *t, const cJSON *cell) {
  const cJSON *train = study_member(cell, "train"), *bench = study_member(cell, "bench");
  double rate = study_number(bench, "samples_per_sec");
  const char *per_second =
      vtb_arena_printf(&d->arena, "%.*f%s", rate < 100 ? 1 : 0, rate, mark(bench));
  doc_row(d, to, V(study_text_of(cell, "label")),
          V(study_number(study_member(cell, "model"), "param_count")),
          V(score_text(d, t, train, t->tested ? "mean" : "val_mean",
                       t->tested ? "spread" : "val_spread", mark(train))),
          V(study_number(bench, "best_ms")), V(bench ? per_second : NULL),
          V(study_number(bench, "spread")),
          V(t->tested ? score_text(d, t, train, "val_mean", "val_spread", "") : NULL));
}

static void add_table(doc *d, const table *t, const char *score) {
  static const doc_column columns[] = {
      {.heading = "cell", .width = -4, .most = -24},
      {.heading = "params", .width = 7, .write = write_parameters, .none = "?"},
      {.heading = "score", .width = 15},
      {.heading = "time", .width = 10, .write = write_ms},
      {.heading = "img/s  ", .width = 9},
      {.heading = "spread", .width = 6, .format = "%.1f %%", .scale = 100},
      {.heading = "val", .width = 13},
  };
  enum { SCORE = 2 };
  doc_table *to = DOC_TABLE(d, NULL, columns);
  to->columns[SCORE].heading = vtb_arena_printf(
      &d->arena, "%s %.24s%s  ", t->tested ? "test" : "val", score, t->top1 ? " %" : "");
  for (size_t i = 0; i < t->done.n; i++) add_row(d, to, t, t->done.at[i]);
  if (t->done.n > 1) doc_say(d, 0, "* best; = cannot be told from the best by these repetitions");
}

/* Cells without numbers: how many, and each one's reason. */
static void say_others(doc *d, const cJSON *cells) {
  static const char *const kinds[] = {"failed", "impossible", "excluded", "pending"};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    const cJSON *cell;
    int n = 0;
    cJSON_ArrayForEach(cell, cells) {
      if (strcmp(study_text_of(cell, "status"), kinds[k]) != 0) continue;
      n++;
      if (k < 2)
        doc_say(d, 4, "%s: %s: %s", study_text_of(cell, "label"), kinds[k],
                study_text_of(cell, "message"));
    }
    if (n && k >= 2) doc_say(d, 4, "%d cell%s %s", n, n > 1 ? "s" : "", kinds[k]);
  }
}

void ablate_print_table(const cJSON *results) {
  const cJSON *cell, *cells = study_member(results, "cells");
  const char *score = "top1";
  table t = {.top1 = false};
  cJSON_ArrayForEach(cell, cells) {
    add_cell(&t, cell);
    if (*study_text_of(study_member(cell, "train"), "score"))
      score = study_text_of(study_member(cell, "train"), "score");
  }
  if (t.done.n) qsort(t.done.at, t.done.n, sizeof *t.done.at, by_score);
  doc *d = doc_new(NULL);
  add_table(d, &t, score);
  say_others(d, cells);
  cli_tell(d);
  vtb_vec_free(&t.done);
}

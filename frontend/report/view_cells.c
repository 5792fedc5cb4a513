/* The axes and cells as the page's tables show them, what was repeated, and the older report. */
#include "frontend/draw/number.h"
#include "frontend/report/view.h"

#include <math.h>
#include <string.h>

enum { MOST_CHIPS = 24, MOST_WHY = 140 };

/* ---- a measure of a cell --------------------------------------------------------------------- */

static bool all_equal(const rp_report *r, rp_measure m) {
  double first = (double)NAN;
  for (size_t i = 0; i < r->cells.n; i++) {
    double x = r->cells.at[i].mean[m];
    if (isnan(first)) first = x;
    if (!isnan(x) && x != first) return false;
  }
  return true;
}

/* Bold is the best where it beats all others; what the best does not beat is marked as near. */
static const char *standing(const rp_report *r, rp_measure m, const rp_cell *c) {
  const rp_cell *best = rp_direction(r, m) ? rp_best(r, m, c) : NULL;
  if (!best || isnan(c->mean[m]) || all_equal(r, m)) return "";
  if (isnan(best->spread[m]) && m != RP_TEST && m != RP_VAL) return ""; /* measured once */
  if (rp_clear_winner(r, m, best)) return c == best ? " best" : "";
  return c == best || (!isnan(best->spread[m]) && !rp_beats(r, m, best, c)) ? " near" : "";
}

static void add_column(const rp_report *r, rp_measure m, const rp_cell *c, cJSON *list) {
  cJSON *x = view_item(list);
  double mean = c->mean[m], spread = c->spread[m];
  view_text(x, "name", rp_name(r, m));
  view_text(x, "standing", standing(r, m, c));
  view_number(x, "sort", mean);
  view_measure(x, "text", r, m, mean);
  if (isnan(mean)) return;
  if (spread > 0) view_measure(x, "spread", r, m, spread);
  if (m == RP_VAL || m == RP_TEST) view_measure(x, "beside", r, m, spread);
  if (m == RP_MS && spread > 0.005 * mean) view_number(x, "percent", round(100 * spread / mean));
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* The first line of the message, or its beginning. */
static void add_why(const rp_cell *c, cJSON *to) {
  char line[MOST_WHY + 1];
  size_t n = strcspn(c->message, "\n");
  if (n > MOST_WHY) n = MOST_WHY;
  snprintf(line, sizeof line, "%.*s", (int)n, c->message);
  view_text(to, "why", line);
  view_flag(to, "longer", n && c->message[n]);
}

static void add_values(const rp_report *r, const rp_cell *c, cJSON *to) {
  cJSON *values = view_list(to, "values");
  for (size_t i = 0; i < r->axes.n; i++) {
    const rp_axis *a = &r->axes.at[i];
    cJSON *value = view_item(values);
    view_number(value, "index", c->value[i]);
    if (c->value[i] < 0) continue;
    view_text(value, "axis", a->name);
    view_text(value, "text", a->values.at[c->value[i]]);
    view_text(value, "label", a->labels.at[c->value[i]]);
  }
}

static void add_cell(const rp_report *r, const rp_cell *c, cJSON *list) {
  cJSON *out = view_item(list), *columns;
  cJSON_AddItemReferenceToObject(out, "doc", (cJSON *)(uintptr_t)c->json);
  view_number(out, "number", c->number);
  view_number(out, "n", c->number + 1);
  view_text(out, "label", c->label);
  view_text(out, "message", c->message);
  add_why(c, out);
  view_number(out, "status_order", c->status);
  view_text(out, "status", c->status_text);
  view_flag(out, "done", c->status == RP_DONE);
  view_number(out, "tokens", c->tokens);
  view_measure(out, "test", r, RP_TEST, c->mean[RP_TEST]);
  view_measure(out, "ms", r, RP_MS, c->mean[RP_MS]);
  view_measure(out, "parameters", r, RP_PARAMS, c->mean[RP_PARAMS]);
  bool step = strncmp(study_text_of(c->json, "bench.timed"), "train", 5) == 0;
  view_measure(out, "predicted", r, RP_MS,
               study_number(c->json, step ? "model.train_predicted_ms" : "model.predicted_ms"));
  add_values(r, c, out);
  columns = view_list(out, "columns");
  for (int m = 0; m < RP_MEASURES; m++)
    if (rp_has(r, (rp_measure)m)) add_column(r, (rp_measure)m, c, columns);
}

static void add_axes(const rp_report *r, cJSON *view) {
  cJSON *axes = view_list(view, "axes"), *varied = view_list(view, "varied");
  for (size_t i = 0; i < r->axes.n; i++) {
    const rp_axis *a = &r->axes.at[i];
    cJSON *axis = view_item(axes), *values = view_list(axis, "values");
    view_text(axis, "name", a->name);
    view_number(axis, "index", (double)i);
    view_number(axis, "n", (double)a->values.n);
    view_flag(axis, "chips", a->values.n <= MOST_CHIPS);
    for (size_t k = 0; k < a->values.n; k++) {
      cJSON *value = view_item(values);
      view_number(value, "index", (double)k);
      view_text(value, "label", a->labels.at[k]);
    }
    if (a->varies) cJSON_AddItemReferenceToArray(varied, axis);
  }
}

static void add_measures(const rp_report *r, cJSON *view) {
  cJSON *measures = view_list(view, "measures");
  for (int m = 0; m < RP_MEASURES; m++) {
    if (!rp_has(r, (rp_measure)m)) continue;
    cJSON *measure = view_item(measures);
    view_text(measure, "name", rp_name(r, (rp_measure)m));
    view_flag(measure, "higher", rp_direction(r, (rp_measure)m) > 0);
  }
}

/* ---- what was repeated, and what was beside -------------------------------------------------- */

static void add_repetitions(const rp_report *r, cJSON *view) {
  double seeds = 0, rounds = 0, busiest = 0;
  bool images = false;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    const cJSON *list = study_member(c->json, "bench.rounds"), *round;
    seeds = fmax(seeds, cJSON_GetArraySize(study_member(c->json, "train.seeds")));
    rounds = fmax(rounds, cJSON_GetArraySize(list));
    images |= !isnan(c->images);
    cJSON_ArrayForEach(round, list) busiest = fmax(busiest, study_number(round, "others"));
  }
  view_number(view, "seeds", seeds);
  view_number(view, "rounds", rounds);
  view_number(view, "busiest", busiest);
  view_flag(view, "images", images);
  view_number(view, "margin", 100 * r->margin);
  view_flag(view, "trained_once", rp_has(r, RP_TRAIN_RATE));
  view_flag(view, "chosen", rp_has(r, RP_VAL) && rp_has(r, RP_TEST));
}

void view_cells(const rp_report *r, cJSON *view) {
  cJSON *cells = view_list(view, "cells");
  view_number(view, "n_cells", (double)r->cells.n);
  view_flag(view, "all_done", r->n_of[RP_DONE] == (int)r->cells.n);
  view_flag(view, "trained", rp_quality(r) != RP_MEASURES);
  view_flag(view, "tested", rp_quality(r) == RP_TEST);
  view_flag(view, "timed", rp_has(r, RP_MS));
  view_flag(view, "percent", r->percent);
  add_axes(r, view);
  add_measures(r, view);
  add_repetitions(r, view);
  for (size_t i = 0; i < r->cells.n; i++) add_cell(r, &r->cells.at[i], cells);
}

/* ---- the older report ------------------------------------------------------------------------ */

static const struct {
  const char *member, *name;
  rp_measure format;
  bool relative; /* the difference is a part of the old value */
  int direction; /* 0: the score's own, or none */
} compared[] = {
    {"score", "score", RP_TEST, false, 0},
    {"samples_per_sec", "images/s", RP_RATE, true, 1},
    {"peak_bytes", "peak memory", RP_PEAK, true, -1},
    {"param_count", "parameters", RP_PARAMS, true, 0},
};
enum { N_COMPARED = sizeof compared / sizeof *compared };

/* Parameters only where they changed. */
static bool is_shown(const cJSON *cells, const char *member) {
  const cJSON *cell;
  bool changes_only = strcmp(member, "param_count") == 0;
  cJSON_ArrayForEach(cell, cells) {
    const cJSON *pair = study_member(cell, member);
    if (cJSON_IsObject(pair) && (!changes_only || study_number(pair, "difference") != 0))
      return true;
  }
  return false;
}

/* Before, now, and the difference, told where it counts. */
static void add_pair(const rp_report *r, int i, const cJSON *pair, cJSON *list) {
  cJSON *out = view_item(list);
  rp_measure m = compared[i].format;
  double by = study_number(pair, "difference");
  int direction = m == RP_TEST ? rp_direction(r, m) : compared[i].direction;
  view_measure(out, "old", r, m, study_number(pair, "old"));
  view_measure(out, "new", r, m, study_number(pair, "new"));
  if (isnan(by)) return;
  view_flag(out, "less", by < 0);
  char text[40];
  if (compared[i].relative)
    strcat(strcpy(text, nr_fixed(100 * fabs(by), 1, (char[32]){0})), " %");
  else
    rp_format(r, m, fabs(by), text);
  view_text(out, "by", text);
  if (cJSON_IsTrue(study_member(pair, "significant")) && direction)
    view_text(out, "how", by * direction > 0 ? "better" : "worse");
}

void view_against(const rp_report *r, cJSON *view) {
  const cJSON *cells = study_member(r->json, "against.cells"), *cell;
  if (!cJSON_IsObject(study_member(r->json, "against"))) return;
  cJSON *out = view_object(view, "against"), *columns = view_list(out, "columns");
  cJSON *rows = view_list(out, "rows");
  view_flag(out, "elsewhere", cJSON_IsFalse(study_member(r->json, "against.same_machine")));
  view_flag(out, "statuses", is_shown(cells, "status"));
  for (int i = 0; i < N_COMPARED; i++)
    if (is_shown(cells, compared[i].member))
      view_text(view_item(columns), "name", compared[i].name);
  cJSON_ArrayForEach(cell, cells) {
    cJSON *row = view_item(rows), *pairs = view_list(row, "pairs");
    cJSON_AddItemReferenceToObject(row, "doc", (cJSON *)(uintptr_t)cell);
    for (int i = 0; i < N_COMPARED; i++)
      if (is_shown(cells, compared[i].member))
        add_pair(r, i, study_member(cell, compared[i].member), pairs);
  }
}

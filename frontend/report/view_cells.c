/* The axes and cells as the page's tables show them, what was repeated, and the older report. */
#include "frontend/report/view.h"

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
  double mean = c->mean[m], spread = isnan(mean) ? mean : c->spread[m];
  bool score = m == RP_VAL || m == RP_TEST, wide = m == RP_MS && spread > 0.005 * mean;
  doc_item(list, F("name", rp_name(r, m)), F("standing", standing(r, m, c)), K("sort", mean),
           K("text", SHOWN(r, m, mean)), K("spread", spread > 0 ? SHOWN(r, m, spread) : NULL),
           K("beside", score ? SHOWN(r, m, spread) : NULL),
           K("percent", wide ? round(100 * spread / mean) : (double)NAN));
}

/* ---- cells ----------------------------------------------------------------------------------- */

static cJSON *values_of(const rp_report *r, const rp_cell *c) {
  cJSON *values = cJSON_CreateArray();
  for (size_t i = 0; i < r->axes.n; i++) {
    const rp_axis *a = &r->axes.at[i];
    cJSON *value = doc_item(values, F("index", c->value[i]));
    if (c->value[i] >= 0)
      doc_put(value, F("axis", a->name), F("text", a->values.at[c->value[i]]),
              F("label", a->labels.at[c->value[i]]));
  }
  return values;
}

static void add_cell(const rp_report *r, const rp_cell *c, cJSON *list) {
  char why[MOST_WHY + 1]; /* the first line of the message, or its beginning */
  size_t n = strcspn(c->message, "\n");
  if (n > MOST_WHY) n = MOST_WHY;
  snprintf(why, sizeof why, "%.*s", (int)n, c->message);
  cJSON *out = doc_item(
      list, F("number", c->number), F("n", c->number + 1), F("label", c->label),
      F("message", c->message), F("why", why), F("longer", (bool)(n && c->message[n])),
      F("status_order", (int)c->status), F("status", c->status_text),
      F("done", (bool)(c->status == RP_DONE)), K("tokens", c->tokens),
      K("test", SHOWN(r, RP_TEST, c->mean[RP_TEST])), K("ms", SHOWN(r, RP_MS, c->mean[RP_MS])),
      K("parameters", SHOWN(r, RP_PARAMS, c->mean[RP_PARAMS])),
      K("predicted", SHOWN(r, RP_MS, c->predicted)), F("values", values_of(r, c)));
  cJSON_AddItemReferenceToObject(out, "doc", (cJSON *)(uintptr_t)c->json);
  cJSON *columns = view_list(out, "columns");
  for (int m = 0; m < RP_MEASURES; m++)
    if (rp_has(r, (rp_measure)m)) add_column(r, (rp_measure)m, c, columns);
}

static void add_axes(const rp_report *r, cJSON *view) {
  cJSON *axes = view_list(view, "axes"), *varied = view_list(view, "varied");
  for (size_t i = 0; i < r->axes.n; i++) {
    const rp_axis *a = &r->axes.at[i];
    cJSON *values = cJSON_CreateArray();
    for (size_t k = 0; k < a->values.n; k++)
      doc_item(values, F("index", k), F("label", a->labels.at[k]));
    cJSON *axis = doc_item(axes, F("name", a->name), F("index", i), F("n", a->values.n),
                           F("chips", (bool)(a->values.n <= MOST_CHIPS)), F("values", values));
    if (a->varies) cJSON_AddItemReferenceToArray(varied, axis);
  }
}

static void add_measures(const rp_report *r, cJSON *view) {
  cJSON *measures = view_list(view, "measures");
  for (int m = 0; m < RP_MEASURES; m++)
    if (rp_has(r, (rp_measure)m))
      doc_item(measures, F("name", rp_name(r, (rp_measure)m)),
               F("higher", (bool)(rp_direction(r, (rp_measure)m) > 0)));
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
  doc_put(view, F("seeds", seeds), F("rounds", rounds), F("busiest", busiest), F("images", images),
          K("margin", 100 * r->margin), F("trained_once", rp_has(r, RP_TRAIN_RATE)),
          F("chosen", (bool)(rp_has(r, RP_VAL) && rp_has(r, RP_TEST))));
}

void view_cells(const rp_report *r, cJSON *view) {
  rp_measure quality = rp_quality(r);
  doc_put(view, F("n_cells", r->cells.n), F("percent", r->percent), F("timed", rp_has(r, RP_MS)),
          F("all_done", (bool)(r->n_of[RP_DONE] == (int)r->cells.n)),
          F("trained", (bool)(quality != RP_MEASURES)), F("tested", (bool)(quality == RP_TEST)));
  add_axes(r, view);
  add_measures(r, view);
  add_repetitions(r, view);
  cJSON *cells = view_list(view, "cells");
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
  rp_measure m = compared[i].format;
  double by = study_number(pair, "difference"), old = study_number(pair, "old"),
         now = study_number(pair, "new");
  int direction = m == RP_TEST ? rp_direction(r, m) : compared[i].direction;
  bool told = cJSON_IsTrue(study_member(pair, "significant")) && direction && !isnan(by);
  char text[40] = "";
  if (compared[i].relative)
    strcat(strcpy(text, nr_fixed(100 * fabs(by), 1, (char[32]){0})), " %");
  else
    rp_format(r, m, fabs(by), text);
  doc_item(list, K("old", SHOWN(r, m, old)), K("new", SHOWN(r, m, now)), F("less", (bool)(by < 0)),
           K("by", isnan(by) ? NULL : text),
           K("how", !told                ? NULL
                    : by * direction > 0 ? "better"
                                         : "worse"));
}

void view_against(const rp_report *r, cJSON *view) {
  const cJSON *cells = study_member(r->json, "against.cells"), *cell;
  if (!cJSON_IsObject(study_member(r->json, "against"))) return;
  cJSON *columns = cJSON_CreateArray(), *rows = cJSON_CreateArray();
  for (int i = 0; i < N_COMPARED; i++)
    if (is_shown(cells, compared[i].member)) doc_item(columns, F("name", compared[i].name));
  cJSON_ArrayForEach(cell, cells) {
    cJSON *pairs = cJSON_CreateArray();
    for (int i = 0; i < N_COMPARED; i++)
      if (is_shown(cells, compared[i].member))
        add_pair(r, i, study_member(cell, compared[i].member), pairs);
    cJSON_AddItemReferenceToObject(doc_item(rows, F("pairs", pairs)), "doc",
                                   (cJSON *)(uintptr_t)cell);
  }
  bool elsewhere = cJSON_IsFalse(study_member(r->json, "against.same_machine"));
  doc_put(view_object(view, "against"), F("columns", columns), F("rows", rows),
          F("elsewhere", elsewhere), F("statuses", is_shown(cells, "status")));
}

/* The first findings of the page: what a reader would say who looked at the numbers once, and no
 * more than they bear. The sentences are the template's. */
#include "frontend/report/effects.h"
#include "frontend/report/view.h"

#include <string.h>

/* ---- the best cell --------------------------------------------------------------------------- */

/* The nearest rival by the measure. */
static const rp_cell *second(const rp_report *r, rp_measure m, const rp_cell *best) {
  const rp_cell *next = NULL;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (c == best || isnan(c->mean[m])) continue;
    if (!next || rp_direction(r, m) * (c->mean[m] - next->mean[m]) > 0) next = c;
  }
  return next;
}

static void add_best(const rp_report *r, cJSON *out) {
  rp_measure m = rp_quality(r);
  const rp_cell *best = m == RP_MEASURES ? NULL : rp_best(r, m, NULL);
  if (!best) return;
  const rp_cell *next = second(r, m, best);
  double spread = best->spread[m];
  cJSON *one = view_object(out, "best");
  doc_put(one, F("cell", view_cell(best)), F("score", SHOWN(r, m, best->mean[m])),
          K("spread", spread > 0 ? SHOWN(r, m, spread) : NULL));
  if (!next) return;
  double lead = rp_direction(r, m) * (best->mean[m] - next->mean[m]);
  bool told = rp_beats(r, m, best, next) || rp_beats(r, m, next, best);
  doc_put(one, F("next", view_cell(next)), F("lead", lead), F("by", SHOWN(r, m, fabs(lead))),
          F("spreads", (bool)(!isnan(spread) && !isnan(next->spread[m]))), F("told", told));
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool several_sizes(const rp_report *r) {
  for (size_t i = 0; i < r->axes.n; i++)
    if (r->axes.at[i].resizes) return true;
  return false;
}

/* Which line is fastest, and from how many tokens on; then which takes least memory. */
static void add_lines(const rp_report *r, cJSON *out) {
  static const rp_measure measures[] = {RP_MS, RP_WORKSPACE};
  cJSON *list = view_list(out, "lines");
  for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
    ln_lines lines = {0};
    ln_crossings found = {0};
    size_t first;
    ln_collect(r, LN_TOKENS, measures[i], &lines);
    if (ln_cross(r, LN_TOKENS, measures[i], &lines, &found, &first))
      doc_append(list, view_lines(r, LN_TOKENS, measures[i], &lines, &found, first));
    ln_free(&lines);
    vtb_vec_free(&found);
  }
}

/* ---- auto ------------------------------------------------------------------------------------ */

/* The best time among cells that differ from this one in the mode alone; NAN: there is none. */
static double best_mode(const rp_report *r, const rp_cell *c) {
  double best = (double)NAN;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *d = &r->cells.at[i];
    bool rival = d != c && !isnan(d->mean[RP_MS]);
    for (size_t k = 0; k < r->axes.n; k++)
      rival &= d->value[k] == c->value[k] || strcmp(r->axes.at[k].name, "mode") == 0;
    if (rival && !(best <= d->mean[RP_MS])) best = d->mean[RP_MS];
  }
  return best;
}

static void add_auto(const rp_report *r, cJSON *out) {
  const rp_cell *worst = NULL;
  double most = 0;
  int n = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    double behind = ln_is_auto(r, c) ? c->mean[RP_MS] / best_mode(r, c) - 1 : (double)NAN;
    if (isnan(behind)) continue;
    n++;
    if (worst && behind <= most) continue;
    most = behind;
    worst = c;
  }
  if (!worst || isnan(r->margin)) return;
  bool behind = most > fmax(0.05, r->margin);
  double percent = behind ? 100 * most : ceil(fmax(5, 100 * r->margin));
  doc_put(view_object(out, "auto"), F("rows", n), F("percent", DIGITS_OF(percent, 2)),
          K("behind", behind ? view_cell(worst) : NULL));
}

/* ---- the fastest ----------------------------------------------------------------------------- */

/* Nothing where too little was repeated to tell two cells apart. */
static void add_fastest(const rp_report *r, cJSON *out) {
  enum { MOST_NAMED = 3 };
  rp_measure m = rp_speed(r);
  const rp_cell *best = m == RP_MEASURES ? NULL : rp_best(r, m, NULL), *slowest = best;
  if (!best || !second(r, m, best) || isnan(r->margin)) return;
  cJSON *one = view_object(out, "fastest"), *level = view_list(one, "level");
  int n = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (c->mean[m] < slowest->mean[m]) slowest = c;
    if (isnan(c->mean[m]) || rp_beats(r, m, best, c)) continue;
    if (n++ < MOST_NAMED) doc_append(level, view_cell(c));
  }
  double factor = best->mean[m] / slowest->mean[m];
  doc_put(one, F("percent", DIGITS_OF(100 * r->margin, 2)));
  if (rp_beats(r, m, best, slowest))
    doc_put(one, F("slowest", view_cell(slowest)), F("n", n),
            F("others", n > MOST_NAMED ? n - MOST_NAMED : 0), F("unit", rp_name(r, m)),
            F("rate", SHOWN(r, m, best->mean[m])), F("factor", DIGITS_OF(factor, n == 1 ? 3 : 2)));
}

/* ---- the largest effect ---------------------------------------------------------------------- */

static void add_effect(const rp_report *r, rp_measure m, size_t axis, cJSON *list) {
  const rp_axis *a = &r->axes.at[axis];
  fx_axis f = fx_main(r, m, axis);
  bool score = m == rp_quality(r);
  double reach = fx_reach(&f, !score), usual = score ? rp_usual_spread(r, m) : (double)NAN;
  doc_item(list, F("axis", a->name), F("score", score), F("best", a->labels.at[f.best]),
           F("worst", a->labels.at[f.worst]), F("averaged", (bool)(r->axes.n > 1)),
           F("reach", score ? SHOWN(r, m, reach) : DIGITS_OF(reach, 3)),
           K("usual", SHOWN(r, m, usual)), F("chance", (bool)(reach <= usual)));
  fx_free(&f);
}

static void add_largest_effect(const rp_report *r, rp_measure m, cJSON *list) {
  int largest = -1, varied = 0;
  double most = 0;
  for (size_t i = 0; m != RP_MEASURES && i < r->axes.n; i++) {
    fx_axis f = fx_main(r, m, i);
    double reach = m == rp_quality(r) ? fx_reach(&f, false) : fx_reach(&f, true) - 1;
    bool counts = f.matched && (m == rp_quality(r) || !r->axes.at[i].resizes);
    varied += f.measured > 1 && counts;
    if (reach > most && counts) most = reach, largest = (int)i;
    fx_free(&f);
  }
  /* what is less than a cell's own spread is not worth a sentence, and of speeds what is told from
   * nothing is none */
  bool matters = m == rp_quality(r) ? !(most <= rp_usual_spread(r, m)) : most > r->margin;
  if (largest >= 0 && varied > 1 && matters) add_effect(r, m, (size_t)largest, list);
}

/* ---- what is missing ------------------------------------------------------------------------- */

static void add_missing(const rp_report *r, cJSON *out) {
  static const char *const what[] = {[RP_FAILED] = "failed",
                                     [RP_IMPOSSIBLE] = "cannot be compiled",
                                     [RP_EXCLUDED] = "left out by a condition",
                                     [RP_PENDING] = "not run yet"};
  cJSON *list = view_list(out, "missing");
  for (int s = RP_FAILED; s <= RP_PENDING; s++)
    if (r->n_of[s]) doc_item(list, F("n", r->n_of[s]), F("what", what[s]));
}

void view_findings(const rp_report *r, cJSON *view) {
  cJSON *out = view_object(view, "findings"), *effects = view_list(out, "effects");
  add_best(r, out);
  if (rp_quality(r) == RP_MEASURES && several_sizes(r))
    add_lines(r, out);
  else
    add_fastest(r, out);
  add_auto(r, out);
  add_largest_effect(r, rp_quality(r), effects);
  add_largest_effect(r, rp_speed(r), effects);
  add_missing(r, out);
}

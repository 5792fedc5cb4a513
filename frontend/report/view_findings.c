/* The first findings of the page: what a reader would say who looked at the numbers once, and no
 * more than they bear. The sentences are the template's. */
#include "frontend/report/effects.h"
#include "frontend/report/view.h"

#include <math.h>
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
  cJSON *one = view_object(out, "best");
  view_cell(one, "cell", best);
  view_measure(one, "score", r, m, best->mean[m]);
  if (best->spread[m] > 0) view_measure(one, "spread", r, m, best->spread[m]);
  if (!next) return;
  double lead = rp_direction(r, m) * (best->mean[m] - next->mean[m]);
  view_cell(one, "next", next);
  view_number(one, "lead", lead);
  view_measure(one, "by", r, m, fabs(lead));
  view_flag(one, "spreads", !isnan(best->spread[m]) && !isnan(next->spread[m]));
  view_flag(one, "told", rp_beats(r, m, best, next) || rp_beats(r, m, next, best));
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
      view_lines(view_item(list), r, LN_TOKENS, measures[i], &lines, &found, first);
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
  cJSON *one = view_object(out, "auto");
  view_number(one, "rows", n);
  view_digits(one, "percent", behind ? 100 * most : ceil(fmax(5, 100 * r->margin)), 2);
  if (behind) view_cell(one, "behind", worst);
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
    if (n++ < MOST_NAMED) view_cell(view_item(level), "cell", c);
  }
  view_digits(one, "percent", 100 * r->margin, 2);
  if (!rp_beats(r, m, best, slowest)) return;
  view_cell(one, "slowest", slowest);
  view_number(one, "n", n);
  if (n > MOST_NAMED) view_number(one, "others", n - MOST_NAMED);
  view_measure(one, "rate", r, m, best->mean[m]);
  view_text(one, "unit", rp_name(r, m));
  view_digits(one, "factor", best->mean[m] / slowest->mean[m], n == 1 ? 3 : 2);
}

/* ---- the largest effect ---------------------------------------------------------------------- */

static void add_effect(const rp_report *r, rp_measure m, size_t axis, cJSON *list) {
  const rp_axis *a = &r->axes.at[axis];
  fx_axis f = fx_main(r, m, axis);
  bool score = m == rp_quality(r);
  double reach = fx_reach(&f, !score), usual = score ? rp_usual_spread(r, m) : (double)NAN;
  cJSON *one = view_item(list);
  view_text(one, "axis", a->name);
  view_flag(one, "score", score);
  view_text(one, "best", a->labels.at[f.best]);
  view_text(one, "worst", a->labels.at[f.worst]);
  if (score)
    view_measure(one, "reach", r, m, reach);
  else
    view_digits(one, "reach", reach, 3);
  view_flag(one, "averaged", r->axes.n > 1);
  view_measure(one, "usual", r, m, usual);
  view_flag(one, "chance", reach <= usual);
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
  for (int s = RP_FAILED; s <= RP_PENDING; s++) {
    cJSON *one = r->n_of[s] ? view_item(list) : NULL;
    if (!one) continue;
    view_number(one, "n", r->n_of[s]);
    view_text(one, "what", what[s]);
  }
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

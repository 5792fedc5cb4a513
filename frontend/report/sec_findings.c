/* The first sentences of the page: what a reader would say who looked at the numbers once, and no
 * more than they bear. */
#include "frontend/report/effects.h"
#include "frontend/report/lines.h"
#include "frontend/report/markup.h"
#include "frontend/report/number.h"
#include "frontend/report/sections.h"

#include <math.h>
#include <string.h>

/* ---- the best cell --------------------------------------------------------------------------- */

static const char *with_unit(const rp_report *r, double x, char text[32]) {
  rp_format(r, RP_TEST, x, text);
  if (r->percent && !isnan(x)) strcat(text, "\xC2\xA0%");
  return text;
}

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

static void cell_link(const rp_cell *c, vtb_strbuf *out) {
  mk(out, "<a href=\"#cell-%d\"><b>%s</b></a>", c->number, c->label);
}

static void compare_scores(const rp_report *r, rp_measure m, const rp_cell *best,
                           const rp_cell *next, vtb_strbuf *out) {
  char text[32], unit[32];
  double lead = rp_direction(r, m) * (best->mean[m] - next->mean[m]);
  snprintf(unit, sizeof unit, "%s%s", rp_format(r, m, fabs(lead), text),
           r->percent ? " points" : "");
  if (lead == 0) {
    vtb_strbuf_puts(out, ", as does ");
    cell_link(next, out);
    vtb_strbuf_putc(out, '.');
    return;
  }
  if (lead < 0) {
    mk(out, ". It was chosen on val; on test ");
    cell_link(next, out);
    mk(out, " is ahead by %s", unit);
  } else {
    mk(out, ", %s ahead of ", unit);
    cell_link(next, out);
  }
  bool spread = !isnan(best->spread[m]) && !isnan(next->spread[m]);
  bool told = rp_beats(r, m, best, next) || rp_beats(r, m, next, best);
  vtb_strbuf_puts(out, told && spread ? ", which is more than the spread between seeds."
                       : told   ? ": more than the choice of test images explains, but of one seed."
                       : spread ? ", within the spread between seeds: the two are not told apart."
                                : ". Of one seed no spread is known: the lead may be chance.");
}

static void best_cell(const rp_report *r, vtb_strbuf *out) {
  rp_measure m = rp_quality(r);
  const rp_cell *best = m == RP_MEASURES ? NULL : rp_best(r, m, NULL);
  if (!best) return;
  char text[32];
  vtb_strbuf_puts(out, "<li>");
  cell_link(best, out);
  mk(out, " scores best: %s on %s", with_unit(r, best->mean[m], text),
     m == RP_TEST ? "test" : "val");
  if (best->spread[m] > 0) mk(out, " \xC2\xB1 %s", rp_format(r, m, best->spread[m], text));
  const rp_cell *next = second(r, m, best);
  if (next)
    compare_scores(r, m, best, next, out);
  else
    vtb_strbuf_putc(out, '.');
  vtb_strbuf_puts(out, "</li>\n");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool several_sizes(const rp_report *r) {
  for (size_t i = 0; i < r->axes.n; i++)
    if (r->axes.at[i].resizes) return true;
  return false;
}

/* What a line is that no other one overtakes. */
static void one_leads(const rp_report *r, rp_measure m, const ln_lines *lines, size_t best,
                      vtb_strbuf *out) {
  const char *label = lines->at[best].label;
  bool time = m == RP_MS;
  switch (ln_lead_of(r, LN_TOKENS, m, lines, best)) {
  case LN_LEVEL:
    mk(out,
       time ? "<li>No line is told from the others in time." : "<li>All take the same memory.");
    break;
  case LN_SHARES:
    mk(out, "<li><b>%s</b> %s at every size.", label,
       time ? "is fastest, or as fast as any," : "takes least memory, or as little as any,");
    break;
  case LN_LEADS:
    mk(out, "<li><b>%s</b> %s at every size.", label, time ? "is fastest" : "takes least memory");
  }
  vtb_strbuf_puts(out, "</li>\n");
}

static void overtaken(rp_measure m, const ln_lines *lines, const ln_crossings *found, size_t first,
                      vtb_strbuf *out) {
  mk(out, "<li><b>%s</b> %s", lines->at[first].label,
     m == RP_MS ? "is fastest" : "takes least memory");
  for (size_t k = 0; k < found->n; k++) {
    char x[32];
    mk(out, "%s to about %s tokens, then <b>%s</b>", k ? "" : " up",
       nr_digits(found->at[k].x, 2, x), lines->at[found->at[k].to].label);
  }
  vtb_strbuf_puts(out, ".</li>\n");
}

/* Which line is fastest, and from how many tokens on. */
static void crossovers(const rp_report *r, vtb_strbuf *out) {
  static const rp_measure measures[] = {RP_MS, RP_WORKSPACE};
  for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
    ln_lines lines = {0};
    ln_crossings found = {0};
    size_t first;
    ln_collect(r, LN_TOKENS, measures[i], &lines);
    bool compared = ln_cross(r, LN_TOKENS, measures[i], &lines, &found, &first);
    if (compared && found.n) overtaken(measures[i], &lines, &found, first, out);
    if (compared && !found.n) one_leads(r, measures[i], &lines, first, out);
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

static void automatic(const rp_report *r, vtb_strbuf *out) {
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
  char percent[32];
  if (most > fmax(0.05, r->margin))
    mk(out,
       "<li><b>auto</b> is up to %s %% slower than the best mode, in <a href=\"#cell-%d\">%s"
       "</a>.</li>\n",
       nr_digits(100 * most, 2, percent), worst->number, worst->label);
  else
    mk(out, "<li><b>auto</b> is within %s %% of the best mode asked for in all %d rows.</li>\n",
       nr_digits(ceil(fmax(5, 100 * r->margin)), 2, percent), n);
}

/* ---- the fastest ----------------------------------------------------------------------------- */

static const rp_cell *slowest_of(const rp_report *r, rp_measure m) {
  const rp_cell *slowest = NULL;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (!isnan(c->mean[m]) && (!slowest || c->mean[m] < slowest->mean[m])) slowest = c;
  }
  return slowest;
}

/* The cells that the best one does not beat, in the table's order; how many. */
static int name_as_fast(const rp_report *r, rp_measure m, const rp_cell *best, vtb_strbuf *out) {
  enum { MOST_NAMED = 3 };
  int n = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (isnan(c->mean[m]) || rp_beats(r, m, best, c)) continue;
    if (n < MOST_NAMED) {
      vtb_strbuf_puts(out, n ? ", " : "");
      cell_link(c, out);
    }
    n++;
  }
  if (n > MOST_NAMED) mk(out, " and %d others", n - MOST_NAMED);
  return n;
}

/* Nothing where too little was repeated to tell two cells apart. */
static void fastest(const rp_report *r, vtb_strbuf *out) {
  rp_measure m = rp_speed(r);
  const rp_cell *best = m == RP_MEASURES ? NULL : rp_best(r, m, NULL);
  const rp_cell *slowest = best ? slowest_of(r, m) : NULL;
  if (!best || !second(r, m, best) || isnan(r->margin)) return;
  char rate[32], factor[32], percent[32];
  nr_digits(100 * r->margin, 2, percent);
  if (!rp_beats(r, m, best, slowest)) {
    mk(out, "<li>No cell is told from another in speed: less than %s %% is not.</li>\n", percent);
    return;
  }
  vtb_strbuf_puts(out, "<li>");
  int n = name_as_fast(r, m, best, out);
  if (n == 1)
    mk(out, " is fastest: %s %s, %s times ", rp_format(r, m, best->mean[m], rate), rp_name(r, m),
       nr_digits(best->mean[m] / slowest->mean[m], 3, factor));
  else
    mk(out, " are fastest and not told apart, being within %s %%: up to %s times ", percent,
       nr_digits(best->mean[m] / slowest->mean[m], 2, factor));
  cell_link(slowest, out);
  vtb_strbuf_puts(out, ".</li>\n");
}

/* ---- the largest effect ---------------------------------------------------------------------- */

static void say_effect(const rp_report *r, rp_measure m, size_t axis, vtb_strbuf *out) {
  const rp_axis *a = &r->axes.at[axis];
  fx_axis f = fx_main(r, m, axis);
  bool score = m == rp_quality(r);
  char reach[32], spread[32];
  mk(out, "<li><code>%s</code> matters most for %s: <code>%s</code> ", a->name,
     score ? "the score" : "speed", a->labels.at[f.best]);
  if (score)
    mk(out, "is %s%s better than", rp_format(r, m, fx_reach(&f, false), reach),
       r->percent ? " points" : "");
  else
    mk(out, "is %s times as fast as", nr_digits(fx_reach(&f, true), 3, reach));
  mk(out, " <code>%s</code>%s", a->labels.at[f.worst],
     r->axes.n > 1 ? ", on average over the rest" : "");
  double usual = score ? rp_usual_spread(r, m) : (double)NAN;
  if (score && isnan(usual))
    vtb_strbuf_puts(out, "; of one seed no spread is known, and it may be chance");
  else if (score && fx_reach(&f, false) <= usual)
    mk(out, ", less than a cell's own spread of %s: it may be chance",
       rp_format(r, m, usual, spread));
  else if (score)
    mk(out, " (a cell's own spread: %s)", rp_format(r, m, usual, spread));
  vtb_strbuf_puts(out, ".</li>\n");
  fx_free(&f);
}

static void largest_effect(const rp_report *r, rp_measure m, vtb_strbuf *out) {
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
  if (largest >= 0 && varied > 1 && matters) say_effect(r, m, (size_t)largest, out);
}

/* ---- what is missing ------------------------------------------------------------------------- */

static void missing(const rp_report *r, vtb_strbuf *out) {
  static const char *const what[] = {[RP_FAILED] = "failed",
                                     [RP_IMPOSSIBLE] = "cannot be compiled",
                                     [RP_EXCLUDED] = "left out by a condition",
                                     [RP_PENDING] = "not run yet"};
  int n = 0;
  for (int s = RP_FAILED; s <= RP_PENDING; s++) {
    if (!r->n_of[s]) continue;
    if (n++)
      mk(out, ", %d %s", r->n_of[s], what[s]);
    else
      mk(out, "<li>Of %d cells, %d %s", (int)r->cells.n, r->n_of[s], what[s]);
  }
  if (n) vtb_strbuf_puts(out, ": the table says why.</li>\n");
}

void sec_findings(const rp_report *r, vtb_strbuf *out) {
  vtb_strbuf list = {0};
  best_cell(r, &list);
  if (rp_quality(r) == RP_MEASURES && several_sizes(r))
    crossovers(r, &list);
  else
    fastest(r, &list);
  automatic(r, &list);
  largest_effect(r, rp_quality(r), &list);
  largest_effect(r, rp_speed(r), &list);
  missing(r, &list);
  if (list.n) {
    vtb_strbuf_puts(out, "<ul class=\"findings\">\n");
    vtb_strbuf_write(out, list.at, list.n);
    vtb_strbuf_puts(out, "</ul>\n");
  }
  vtb_strbuf_free(&list);
}

/* The first sentences of the page: what a reader would say who looked at the numbers once, and no
 * more than they bear. */
#include "frontend/report/effects.h"
#include "frontend/report/markup.h"
#include "frontend/report/number.h"
#include "frontend/report/sections.h"

#include <math.h>
#include <string.h>

/* ---- the best cell --------------------------------------------------------------------------- */

static const char *with_unit(const rp_report *r, double x, char text[32]) {
  rp_format(r, RP_TEST, x, text);
  if (r->percent && !isnan(x)) strcat(text, " %");
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
  if (lead < 0) {
    mk(out, ". It was chosen on val; on test ");
    cell_link(next, out);
    mk(out, " is ahead by %s", unit);
  } else {
    mk(out, ", %s ahead of ", unit);
    cell_link(next, out);
  }
  bool known = !isnan(best->spread[m]) && !isnan(next->spread[m]);
  if (!known)
    vtb_strbuf_puts(out, ". No spread is known for one seed: the lead may be chance.");
  else if (rp_beats(r, m, best, next) || rp_beats(r, m, next, best))
    vtb_strbuf_puts(out, ", which is more than the spread between seeds.");
  else
    vtb_strbuf_puts(out, ", which is within the spread between seeds: the two are not told apart.");
}

static void best_cell(const rp_report *r, vtb_strbuf *out) {
  rp_measure m = rp_quality(r);
  const rp_cell *best = m == RP_MEASURES ? NULL : rp_best(r, m);
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

/* ---- the fastest ----------------------------------------------------------------------------- */

static void fastest(const rp_report *r, vtb_strbuf *out) {
  rp_measure m = rp_speed(r);
  const rp_cell *best = m == RP_MEASURES ? NULL : rp_best(r, m), *slowest = NULL;
  for (size_t i = 0; best && i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (!isnan(c->mean[m]) && (!slowest || c->mean[m] < slowest->mean[m])) slowest = c;
  }
  if (!best || slowest == best) return;
  char rate[32], factor[32];
  vtb_strbuf_puts(out, "<li>");
  cell_link(best, out);
  mk(out, " is fastest: %s %s, %s times ", rp_format(r, m, best->mean[m], rate), rp_name(r, m),
     nr_digits(best->mean[m] / slowest->mean[m], 2, factor));
  cell_link(slowest, out);
  const rp_cell *next = second(r, m, best);
  if (next != slowest && !isnan(best->spread[m]) && !rp_beats(r, m, best, next)) {
    vtb_strbuf_puts(out, "; ");
    cell_link(next, out);
    vtb_strbuf_puts(out, " is as fast, within the spread between rounds");
  }
  vtb_strbuf_puts(out, ".</li>\n");
}

/* ---- the largest effect ---------------------------------------------------------------------- */

static double usual_spread(const rp_report *r, rp_measure m) {
  double sum = 0;
  int n = 0;
  for (size_t i = 0; i < r->cells.n; i++)
    if (!isnan(r->cells.at[i].spread[m])) sum += r->cells.at[i].spread[m], n++;
  return n ? sum / n : (double)NAN;
}

static void say_effect(const rp_report *r, rp_measure m, size_t axis, vtb_strbuf *out) {
  const rp_axis *a = &r->axes.at[axis];
  fx_axis f = fx_main(r, m, axis);
  bool score = m == rp_quality(r);
  char reach[32], spread[32];
  mk(out, "<li><code>%s</code> matters most for %s: <code>%s</code> ", a->name,
     score ? "the score" : "speed", a->values.at[f.best]);
  if (score)
    mk(out, "is %s%s better than", rp_format(r, m, fx_reach(&f, false), reach),
       r->percent ? " points" : "");
  else
    mk(out, "is %s times as fast as", nr_digits(fx_reach(&f, true), 2, reach));
  mk(out, " <code>%s</code>%s", a->values.at[f.worst],
     r->axes.n > 1 ? ", on average over the rest" : "");
  double usual = usual_spread(r, m);
  if (score && !isnan(usual)) mk(out, " (a cell's own spread: %s)", rp_format(r, m, usual, spread));
  vtb_strbuf_puts(out, ".</li>\n");
  fx_free(&f);
}

static void largest_effect(const rp_report *r, rp_measure m, vtb_strbuf *out) {
  int largest = -1, varied = 0;
  double most = 0;
  for (size_t i = 0; m != RP_MEASURES && i < r->axes.n; i++) {
    fx_axis f = fx_main(r, m, i);
    double reach = fx_reach(&f, m != rp_quality(r));
    varied += f.measured > 1;
    if (reach > most && f.matched) most = reach, largest = (int)i;
    fx_free(&f);
  }
  if (largest >= 0 && varied > 1) say_effect(r, m, (size_t)largest, out);
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
  fastest(r, &list);
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

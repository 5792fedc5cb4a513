/* The table of all cells. Everything that sorting and filtering needs is in attributes; the page's
 * script makes buttons of the headings. */
#include "frontend/report/markup.h"
#include "frontend/report/sections.h"

#include <math.h>
#include <string.h>

enum { MOST_CHIPS = 24, MOST_WHY = 140 };

/* ---- controls -------------------------------------------------------------------------------- */

static void chips(const rp_report *r, vtb_strbuf *out) {
  for (size_t i = 0; i < r->axes.n; i++) {
    const rp_axis *a = &r->axes.at[i];
    if (!a->varies || a->values.n > MOST_CHIPS) continue;
    mk(out, "<fieldset class=\"chips\" data-axis=\"%d\"><legend>%s</legend>", (int)i, a->name);
    for (size_t k = 0; k < a->values.n; k++)
      mk(out, "<button type=\"button\" data-value=\"%d\" aria-pressed=\"false\">%s</button>",
         (int)k, a->labels.at[k]);
    vtb_strbuf_puts(out, "</fieldset>\n");
  }
}

static void controls(const rp_report *r, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "<div class=\"controls script\">\n<label class=\"search\">Filter <input "
                       "type=\"search\" id=\"filter\" placeholder=\"words, in any order\" "
                       "autocomplete=\"off\" spellcheck=\"false\"/></label>\n");
  chips(r, out);
  mk(out, "<output id=\"count\">%d cells</output>\n</div>\n", (int)r->cells.n);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void heading(vtb_strbuf *out, const char *name, const char *class_name, bool higher) {
  mk(out, "<th scope=\"col\" class=\"%s\" data-better=\"%s\">%s</th>", class_name,
     higher ? "higher" : "", name);
}

static void head(const rp_report *r, bool statuses, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "<thead><tr>");
  heading(out, "#", "num", false);
  for (size_t i = 0; i < r->axes.n; i++) heading(out, r->axes.at[i].name, "", false);
  for (int m = 0; m < RP_MEASURES; m++)
    if (rp_has(r, (rp_measure)m))
      heading(out, rp_name(r, (rp_measure)m), "num", rp_direction(r, (rp_measure)m) > 0);
  if (statuses) heading(out, "status", "", false);
  vtb_strbuf_puts(out, "</tr></thead>\n");
}

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

static void number_cell(const rp_report *r, rp_measure m, const rp_cell *c, vtb_strbuf *out) {
  char text[32];
  mk(out, "<td class=\"num%s\" data-sort=\"", standing(r, m, c));
  if (!isnan(c->mean[m])) mk(out, "%.9g", c->mean[m]);
  mk(out, "\"><span>%s</span>", rp_format(r, m, c->mean[m], text));
  bool score = m == RP_VAL || m == RP_TEST;
  if (score && !isnan(c->spread[m]) && !isnan(c->mean[m]))
    mk(out, " <small>\xC2\xB1 %s</small>", rp_format(r, m, c->spread[m], text));
  else if (m == RP_MS && c->spread[m] > 0.005 * c->mean[m])
    mk(out, " <small>\xC2\xB1 %.0f %%</small>", 100 * c->spread[m] / c->mean[m]);
  vtb_strbuf_puts(out, "</td>");
}

static void status_cell(const rp_cell *c, vtb_strbuf *out) {
  mk(out, "<td data-sort=\"%d\" class=\"status\"><span class=\"%s\">%s</span>", (int)c->status,
     c->status == RP_DONE ? "done" : "other", c->status_text);
  size_t n = strcspn(c->message, "\n");
  if (n > MOST_WHY) n = MOST_WHY;
  char line[MOST_WHY + 1];
  snprintf(line, sizeof line, "%.*s", (int)n, c->message);
  if (n) mk(out, " <small>%s%s</small>", line, c->message[n] ? "\xE2\x80\xA6" : "");
  vtb_strbuf_puts(out, "</td>");
}

static void row(const rp_report *r, const rp_cell *c, bool statuses, vtb_strbuf *out) {
  mk(out, "<tr data-cell=\"%d\" data-values=\"", c->number);
  for (size_t i = 0; i < r->axes.n; i++) mk(out, "%s%d", i ? " " : "", c->value[i]);
  mk(out,
     "\" class=\"%s\"><td class=\"num\" data-sort=\"%d\"><a href=\"#cell-%d\" "
     "title=\"%s\">%d</a></td>",
     c->status == RP_DONE ? "" : "undone", c->number, c->number, c->label, c->number + 1);
  for (size_t i = 0; i < r->axes.n; i++) {
    int v = c->value[i];
    mk(out, "<td class=\"value\" data-sort=\"%d\">%s</td>", v,
       v < 0 ? "" : r->axes.at[i].labels.at[v]);
  }
  for (int m = 0; m < RP_MEASURES; m++)
    if (rp_has(r, (rp_measure)m)) number_cell(r, (rp_measure)m, c, out);
  if (statuses) status_cell(c, out);
  vtb_strbuf_puts(out, "</tr>\n");
}

/* ---- what the marks say ---------------------------------------------------------------------- */

static int most_of(const rp_report *r, const char *list) {
  int most = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    int n = cJSON_GetArraySize(rp_get(r->cells.at[i].json, list));
    if (n > most) most = n;
  }
  return most;
}

/* The most cores that other programs kept busy while something was timed. */
static double busiest(const rp_report *r) {
  double most = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    const cJSON *round;
    cJSON_ArrayForEach(round, rp_get(r->cells.at[i].json, "bench.rounds")) {
      double x = rp_number(round, "others");
      if (x > most) most = x;
    }
  }
  return most;
}

static bool images_known(const rp_report *r) {
  for (size_t i = 0; i < r->cells.n; i++)
    if (!isnan(r->cells.at[i].images)) return true;
  return false;
}

static void legend(const rp_report *r, vtb_strbuf *out) {
  int seeds = most_of(r, "train.seeds"), rounds = most_of(r, "bench.rounds");
  vtb_strbuf_puts(out, "<p class=\"note\"><b class=\"best\">Bold</b>: the best, by more than the "
                       "spread. <span class=\"near\">Dotted</span>: the best, or not to be told "
                       "from it.");
  if (seeds > 1) mk(out, " Scores are means over %d seeds, \xC2\xB1 their spread.", seeds);
  if (seeds == 1 && images_known(r))
    vtb_strbuf_puts(out, " Scores are of one seed: a lead counts where the choice of test images "
                         "does not explain it, but another seed may change more.");
  else if (seeds == 1)
    vtb_strbuf_puts(out, " Scores are of one seed: no spread is known, so none is bold.");
  if (rounds > 1)
    mk(out, " Times are the best of up to %d rounds, \xC2\xB1 the spread between rounds.", rounds);
  if (rounds > 1 && !isnan(r->margin))
    mk(out, " Speeds less than %.0f %% apart are not told apart.", 100 * r->margin);
  if (rounds == 1) vtb_strbuf_puts(out, " Times are of one round: their spread is not known.");
  if (rp_has(r, RP_TRAIN_RATE))
    vtb_strbuf_puts(out, " Training images/s are of one training each, beside what else ran: no "
                         "measurement, and nothing is concluded of them; --bench measures.");
  if (busiest(r) >= 0.2)
    mk(out, " Other programs kept up to %.1f cores busy meanwhile: times are upper bounds.",
       busiest(r));
  if (rp_has(r, RP_VAL) && rp_has(r, RP_TEST))
    vtb_strbuf_puts(out, " Weights, and the best cell, are chosen on val; test is looked at once.");
  vtb_strbuf_puts(out, "</p>\n");
}

bool sec_table(const rp_report *r, vtb_strbuf *out) {
  bool statuses = r->n_of[RP_DONE] != (int)r->cells.n;
  vtb_strbuf_puts(out, "<section id=\"results\">\n<h2>Results</h2>\n");
  if (!r->cells.n) {
    vtb_strbuf_puts(out, "<p>The study has no cells.</p>\n</section>\n");
    return true;
  }
  controls(r, out);
  vtb_strbuf_puts(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"all "
                       "cells\"><table id=\"table\">\n");
  head(r, statuses, out);
  vtb_strbuf_puts(out, "<tbody>\n");
  for (size_t i = 0; i < r->cells.n; i++) row(r, &r->cells.at[i], statuses, out);
  vtb_strbuf_puts(out, "</tbody></table></div>\n");
  legend(r, out);
  vtb_strbuf_puts(out, "</section>\n");
  return true;
}

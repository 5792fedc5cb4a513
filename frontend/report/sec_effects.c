/* Main effects: a row of dots an axis, all axes on one scale; and two axes at a time as a table
 * shaded by value. */
#include "frontend/report/chart.h"
#include "frontend/report/effects.h"
#include "frontend/report/markup.h"
#include "frontend/report/number.h"
#include "frontend/report/sections.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 340, ROW = 24, MOST_VALUES = 24, MOST_PAIRS = 6, MOST_COLUMNS = 12, LABEL = 18 };

/* ---- one axis -------------------------------------------------------------------------------- */

static double label_width(const rp_axis *a) {
  vtb_strbuf room = {0};
  double most = 0;
  for (size_t i = 0; i < a->values.n; i++) {
    double w = ch_text_width(ch_short(a->labels.at[i], LABEL, &room));
    if (w > most) most = w;
  }
  vtb_strbuf_free(&room);
  return most;
}

static void value_row(const rp_report *r, rp_measure m, chart *c, const fx_value *v,
                      const char *name, double y) {
  vtb_strbuf room = {0};
  char mean[32], low[32], high[32];
  mk(c->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", c->left - 10, y + 4,
     ch_short(name, LABEL, &room));
  vtb_strbuf_free(&room);
  if (v->n == 0) return;
  rp_format(r, m, v->mean, mean);
  mk(c->out, "<g class=\"mark s0\"><title>%s\nmean %s over %d cells\nfrom %s to %s</title>", name,
     mean, v->n, rp_format(r, m, v->low, low), rp_format(r, m, v->high, high));
  mk(c->out, "<path class=\"range\" d=\"M%.1f %.1fH%.1f\"/>",
     sc_at(&c->x, rp_in_unit(r, m, v->low)), y, sc_at(&c->x, rp_in_unit(r, m, v->high)));
  ch_mark(c, 0, sc_at(&c->x, rp_in_unit(r, m, v->mean)), y, 5);
  mk(c->out, "</g><text class=\"strong\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
     c->width - 2, y + 4, mean);
}

static void panel(const rp_report *r, rp_measure m, size_t axis, const fx_axis *f, sc_scale scale,
                  double left, vtb_strbuf *out) {
  const rp_axis *a = &r->axes.at[axis];
  chart c = ch_new(out, WIDTH, 62 + ROW * (double)a->values.n);
  c.left = left;
  c.right = 66;
  c.top = 24;
  c.bottom = 38;
  c.x = scale;
  ch_begin(&c, a->name);
  mk(out, "<text class=\"title strong\" x=\"4\" y=\"14\">%s</text>", a->name);
  ch_x_axis(&c, rp_unit_name(r, m), NULL, 0);
  for (size_t i = 0; i < f->values.n; i++)
    value_row(r, m, &c, &f->values.at[i], a->labels.at[i], c.top + ROW * ((double)i + 0.5));
  ch_end(&c);
}

static bool shown(const rp_axis *a) { return a->varies && a->values.n <= MOST_VALUES; }

/* All panels of a measure have one scale. */
static sc_scale common_scale(const rp_report *r, rp_measure m, const fx_axis *f) {
  sc_scale s = {.log = true};
  for (size_t i = 0; i < r->axes.n; i++)
    for (size_t k = 0; shown(&r->axes.at[i]) && k < f[i].values.n; k++) {
      sc_take(&s, rp_in_unit(r, m, f[i].values.at[k].low));
      sc_take(&s, rp_in_unit(r, m, f[i].values.at[k].high));
    }
  s.log = s.any && s.high / s.low > 3;
  return s;
}

static void own_spread(const rp_report *r, rp_measure m, vtb_strbuf *out) {
  char text[32];
  double usual = m == rp_quality(r) ? rp_usual_spread(r, m) : (double)NAN;
  if (usual > 0)
    mk(out,
       "<p class=\"note\">A cell's own spread is \xC2\xB1 %s on average: what differs by less "
       "is not told apart.</p>\n",
       rp_format(r, m, usual, text));
  else if (m != rp_quality(r) && !isnan(r->margin))
    mk(out, "<p class=\"note\">What differs by less than %s %% is not told apart.</p>\n",
       nr_digits(100 * r->margin, 2, text));
  else if (m != rp_quality(r))
    vtb_strbuf_puts(out, "<p class=\"note\">Too few rounds to tell speeds apart.</p>\n");
}

static void measure_panels(const rp_report *r, rp_measure m, const fx_axis *f, vtb_strbuf *out) {
  sc_scale scale = common_scale(r, m, f);
  bool matched = true;
  double left = 40;
  for (size_t i = 0; i < r->axes.n; i++) {
    if (!shown(&r->axes.at[i])) continue;
    matched &= f[i].matched;
    if (label_width(&r->axes.at[i]) + 16 > left) left = label_width(&r->axes.at[i]) + 16;
  }
  mk(out, "<figure><h3>%s</h3>\n", rp_name(r, m));
  own_spread(r, m, out);
  vtb_strbuf_puts(out, "<div class=\"panels\">\n");
  for (size_t i = 0; i < r->axes.n; i++)
    if (shown(&r->axes.at[i])) panel(r, m, i, &f[i], scale, left, out);
  vtb_strbuf_puts(out, "</div>\n");
  if (!matched)
    vtb_strbuf_puts(out, "<figcaption>Not every combination was measured: of an axis without a "
                         "complete set the means are over different cells.</figcaption>\n");
  vtb_strbuf_puts(out, "</figure>\n");
}

/* ---- two axes -------------------------------------------------------------------------------- */

/* Of the column or the row alone where its axis is one of sizes, which are no rivals in speed. */
static sc_scale shades(const rp_report *r, rp_measure m, size_t a, int a_value, size_t b,
                       int b_value) {
  sc_scale s = {.from = 0, .to = 1};
  bool timed = fx_geometric(m);
  for (int i = 0; i < (int)r->axes.at[a].values.n; i++)
    for (int k = 0; k < (int)r->axes.at[b].values.n; k++) {
      bool other =
          (r->axes.at[a].resizes && i != a_value) || (r->axes.at[b].resizes && k != b_value);
      if (!timed || !other) sc_take(&s, fx_pair(r, m, a, i, b, k));
    }
  return s;
}

static void pair_table(const rp_report *r, rp_measure m, size_t a, size_t b, vtb_strbuf *out) {
  const rp_axis *rows = &r->axes.at[a], *columns = &r->axes.at[b];
  mk(out, "<div class=\"scroll\"><table class=\"heat\"><caption>%s</caption>\n", rp_name(r, m));
  mk(out, "<thead><tr><th scope=\"col\">%s \\ %s</th>", rows->name, columns->name);
  for (size_t k = 0; k < columns->values.n; k++)
    mk(out, "<th scope=\"col\" class=\"num\">%s</th>", columns->labels.at[k]);
  vtb_strbuf_puts(out, "</tr></thead><tbody>\n");
  for (int i = 0; i < (int)rows->values.n; i++) {
    mk(out, "<tr><th scope=\"row\">%s</th>", rows->labels.at[i]);
    for (int k = 0; k < (int)columns->values.n; k++) {
      char text[32];
      sc_scale s = shades(r, m, a, i, b, k);
      double x = fx_pair(r, m, a, i, b, k), part = s.high > s.low ? sc_at(&s, x) : 0.5;
      if (rp_direction(r, m) < 0) part = 1 - part;
      mk(out, "<td class=\"num\" style=\"--part:%.3f\">%s</td>", isnan(x) ? 0 : part,
         rp_format(r, m, x, text));
    }
    vtb_strbuf_puts(out, "</tr>\n");
  }
  vtb_strbuf_puts(out, "</tbody></table></div>\n");
}

static void pairs(const rp_report *r, const rp_measure *measures, int n_measures, vtb_strbuf *out) {
  int n = 0;
  for (size_t a = 0; a < r->axes.n; a++)
    for (size_t b = a + 1; b < r->axes.n && n < MOST_PAIRS; b++) {
      const rp_axis *x = &r->axes.at[a], *y = &r->axes.at[b];
      if (!shown(x) || !shown(y)) continue;
      if (n++ == 0) vtb_strbuf_puts(out, "<h3>Two at a time</h3>\n<div class=\"panels\">\n");
      bool wide = y->values.n > MOST_COLUMNS || y->values.n > x->values.n;
      for (int i = 0; i < n_measures; i++)
        pair_table(r, measures[i], wide ? b : a, wide ? a : b, out);
    }
  if (n)
    vtb_strbuf_puts(out, "</div>\n<p class=\"note\">Means over the other axes; the stronger "
                         "the colour, the better.</p>\n");
}

/* ---- the section ----------------------------------------------------------------------------- */

static int chosen(const rp_report *r, rp_measure m[2]) {
  int n = 0;
  if (rp_quality(r) != RP_MEASURES) m[n++] = rp_quality(r);
  if (rp_speed(r) != RP_MEASURES) m[n++] = rp_speed(r);
  return n;
}

bool sec_effects(const rp_report *r, vtb_strbuf *out) {
  rp_measure m[2];
  int n = chosen(r, m), axes = 0;
  for (size_t i = 0; i < r->axes.n; i++) axes += shown(&r->axes.at[i]);
  if (!n || !axes) return false;
  vtb_strbuf_puts(out, "<section id=\"effects\">\n<h2>What each axis does</h2>\n<p>Dots are means "
                       "over the other axes (of speeds, geometric ones), bars reach from the "
                       "lowest to the highest cell.</p>\n");
  for (int i = 0; i < n; i++) {
    fx_axis *f = vtb_xcalloc(r->axes.n, sizeof *f);
    for (size_t k = 0; k < r->axes.n; k++) f[k] = fx_main(r, m[i], k);
    measure_panels(r, m[i], f, out);
    for (size_t k = 0; k < r->axes.n; k++) fx_free(&f[k]);
    vtb_free(f);
  }
  pairs(r, m, n, out);
  vtb_strbuf_puts(out, "</section>\n");
  return true;
}

/* Training: the score on val and the loss by epoch, every seed thin and their mean thick. */
#include "frontend/report/chart.h"
#include "frontend/report/encode.h"
#include "frontend/report/markup.h"
#include "frontend/report/sections.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 520, HEIGHT = 330, MOST_CELLS = 64, MOST_DOTS = 12 };

typedef struct plot {
  const rp_report *r;
  const char *member; /* "val", "loss" */
  const char *title;
  rp_measure format; /* RP_MEASURES: a number as it is */
  en_code code;
  chart chart;
} plot;

/* ---- numbers --------------------------------------------------------------------------------- */

static double value(const plot *p, const cJSON *point) {
  double x = rp_number(point, p->member);
  return p->format == RP_MEASURES ? x : rp_in_unit(p->r, p->format, x);
}

/* The mean over the seeds of their n-th points; NAN past the last, the epoch in *epoch. */
static double mean_at(const plot *p, const rp_cell *c, int n, double *epoch) {
  const cJSON *seed;
  double sum = 0;
  int count = 0;
  *epoch = (double)NAN;
  cJSON_ArrayForEach(seed, rp_get(c->json, "train.seeds")) {
    const cJSON *point = cJSON_GetArrayItem(rp_get(seed, "curve"), n);
    double y = value(p, point);
    if (isnan(y)) continue;
    if (isnan(*epoch)) *epoch = rp_number(point, "epoch");
    sum += y;
    count++;
  }
  return count ? sum / count : (double)NAN;
}

static int n_points(const rp_cell *c) {
  const cJSON *seed;
  int most = 0;
  cJSON_ArrayForEach(seed, rp_get(c->json, "train.seeds")) {
    int n = cJSON_GetArraySize(rp_get(seed, "curve"));
    if (n > most) most = n;
  }
  return most;
}

static bool take_all(plot *p) {
  for (size_t i = 0; i < p->r->cells.n; i++) {
    const cJSON *seed, *point;
    cJSON_ArrayForEach(seed, rp_get(p->r->cells.at[i].json, "train.seeds"))
        cJSON_ArrayForEach(point, rp_get(seed, "curve")) {
      sc_take(&p->chart.x, rp_number(point, "epoch")); /* both charts reach as far */
      sc_take(&p->chart.y, value(p, point));
    }
  }
  return p->chart.y.any;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int dash_of(const plot *p, const rp_cell *c) {
  return p->code.colour_axis < 0 ? c->number / CH_COLOURS % CH_DASHES
                                 : en_shape(p->code, c) % CH_DASHES;
}

static int colour_of(const plot *p, const rp_cell *c) {
  return p->code.colour_axis < 0 ? c->number % CH_COLOURS : en_colour(p->code, c);
}

static void step(plot *p, bool first, double epoch, double y) {
  mk(p->chart.out, "%c%.1f %.1f", first ? 'M' : 'L', sc_at(&p->chart.x, epoch),
     sc_at(&p->chart.y, y));
}

static void seed_line(plot *p, const rp_cell *c, const cJSON *seed) {
  const cJSON *point;
  bool first = true;
  mk(p->chart.out, "<path class=\"line thin d%d\" d=\"", dash_of(p, c));
  cJSON_ArrayForEach(point, rp_get(seed, "curve")) {
    double y = value(p, point), epoch = rp_number(point, "epoch");
    if (isnan(y) || isnan(epoch)) continue;
    step(p, first, epoch, y);
    first = false;
  }
  vtb_strbuf_puts(p->chart.out, first ? "M0 0\"/>" : "\"/>");
}

static void mean_line(plot *p, const rp_cell *c) {
  int n = n_points(c);
  bool first = true;
  double epoch, y;
  mk(p->chart.out, "<path class=\"line d%d\" d=\"", dash_of(p, c));
  for (int i = 0; i < n; i++) {
    y = mean_at(p, c, i, &epoch);
    if (isnan(y) || isnan(epoch)) continue;
    step(p, first, epoch, y);
    first = false;
  }
  vtb_strbuf_puts(p->chart.out, first ? "M0 0\"/>" : "\"/>");
}

static void dots(plot *p, const rp_cell *c) {
  int n = n_points(c), known = 0;
  double epoch;
  for (int i = 0; i < n; i++) known += !isnan(mean_at(p, c, i, &epoch));
  for (int i = 0; i < n && known <= MOST_DOTS; i++) {
    double y = mean_at(p, c, i, &epoch);
    if (isnan(y) || isnan(epoch)) continue;
    mk(p->chart.out, "<g class=\"mark s%d\"><title>%s\nepoch %.3g: %.4g</title>", colour_of(p, c),
       c->label, epoch, y);
    ch_mark(&p->chart, en_shape(p->code, c), sc_at(&p->chart.x, epoch), sc_at(&p->chart.y, y), 3);
    vtb_strbuf_puts(p->chart.out, "</g>");
  }
}

static void cell_lines(plot *p, const rp_cell *c) {
  const cJSON *seeds = rp_get(c->json, "train.seeds"), *seed;
  if (n_points(c) == 0) return;
  mk(p->chart.out, "<g class=\"curve s%d\" data-cell=\"%d\"><title>%s</title>", colour_of(p, c),
     c->number, c->label);
  if (cJSON_GetArraySize(seeds) > 1) cJSON_ArrayForEach(seed, seeds) seed_line(p, c, seed);
  mean_line(p, c);
  dots(p, c);
  vtb_strbuf_puts(p->chart.out, "</g>\n");
}

/* Epochs are whole, where there are some. */
static int whole_ticks(const sc_scale *s, double tick[SC_MOST_TICKS]) {
  int n = 0;
  double step = 1;
  for (int i = 0; (s->high - s->low) / step > SC_MOST_TICKS - 2; i++) step *= i % 3 == 1 ? 2.5 : 2;
  for (double x = step == 1 ? ceil(s->low) : ceil(s->low / step) * step;
       n < SC_MOST_TICKS && x <= s->high; x += step)
    tick[n++] = x;
  return n;
}

static bool draw(plot *p, vtb_strbuf *out) {
  p->chart = ch_new(out, WIDTH, HEIGHT);
  if (!take_all(p)) return false;
  vtb_strbuf_puts(out, "<figure><div class=\"scroll\">");
  ch_begin(&p->chart, p->title);
  double tick[SC_MOST_TICKS];
  int n = whole_ticks(&p->chart.x, tick);
  bool few = p->chart.x.high - p->chart.x.low < 1.5;
  ch_x_axis(&p->chart, "epochs", few ? NULL : tick, n);
  ch_y_axis(&p->chart, p->title);
  for (size_t i = 0; i < p->r->cells.n; i++) cell_lines(p, &p->r->cells.at[i]);
  ch_end(&p->chart);
  vtb_strbuf_puts(out, "</div></figure>\n");
  return true;
}

/* ---- the section ----------------------------------------------------------------------------- */

/* A box to tick before each, if there is a script that sees it. */
static void legend(const plot *p, vtb_strbuf *out) {
  vtb_strbuf_puts(out, "<ul class=\"legend\">\n");
  for (size_t i = 0; i < p->r->cells.n; i++) {
    const rp_cell *c = &p->r->cells.at[i];
    if (n_points(c) == 0) continue;
    mk(out,
       "<li><label><input class=\"script\" type=\"checkbox\" checked=\"checked\" "
       "data-curve=\"%d\"/><svg class=\"key s%d\" viewBox=\"0 0 28 12\" width=\"28\" "
       "height=\"12\" aria-hidden=\"true\"><path class=\"line d%d\" d=\"M1 6H27\"/></svg>"
       "<span>%s</span></label></li>\n",
       c->number, colour_of(p, c), dash_of(p, c), c->label);
  }
  vtb_strbuf_puts(out, "</ul>\n");
}

bool sec_curves(const rp_report *r, vtb_strbuf *out) {
  plot plots[] = {{.r = r, .member = "val", .title = rp_name(r, RP_VAL), .format = RP_VAL},
                  {.r = r, .member = "loss", .title = "training loss", .format = RP_MEASURES}};
  vtb_strbuf charts = {0};
  bool any = false;
  if (r->cells.n > MOST_CELLS) return false;
  for (size_t i = 0; i < 2; i++) {
    plots[i].code = en_choose(r);
    any |= draw(&plots[i], &charts);
  }
  if (any) {
    vtb_strbuf_puts(out, "<section id=\"curves\">\n<h2>Training</h2>\n<p>Seeds are thin, their "
                         "mean is thick.</p>\n");
    legend(&plots[0], out);
    vtb_strbuf_puts(out, "<div class=\"panels\">\n");
    vtb_strbuf_write(out, charts.at, charts.n);
    vtb_strbuf_puts(out, "</div>\n</section>\n");
  }
  vtb_strbuf_free(&charts);
  return any;
}

/* Training: the score on val and the loss by epoch, every seed thin and their mean thick. */
#include "frontend/report/view.h"

enum { WIDTH = 520, HEIGHT = 330, MOST_CELLS = 64, MOST_DOTS = 12 };

typedef struct curves {
  const rp_report *r;
  const char *member; /* "val", "loss" */
  const char *title;
  rp_measure format; /* RP_MEASURES: a number as it is */
  chart chart;
} curves;

typedef VTB_VEC(draw_point) points;

/* Epoch and value; NAN where there is none. */
static draw_point read_point(const curves *p, const cJSON *point) {
  double x = study_number(point, p->member), epoch = study_number(point, "epoch");
  if (p->format != RP_MEASURES) x = rp_in_unit(p->r, p->format, x);
  return (draw_point){epoch, isnan(epoch) ? epoch : x};
}

static void read_curve(const curves *p, const cJSON *seed, points *out) {
  const cJSON *point;
  out->n = 0;
  cJSON_ArrayForEach(point, study_member(seed, "curve")) vtb_vec_push(out, read_point(p, point));
}

/* The mean over the seeds of their n-th points that have a value; false past the last of all. */
static bool mean_at(const curves *p, const rp_cell *c, int n, draw_point *out) {
  const cJSON *seed;
  bool any = false;
  int count = 0;
  *out = (draw_point){(double)NAN, 0};
  cJSON_ArrayForEach(seed, study_member(c->json, "train.seeds")) {
    const cJSON *item = cJSON_GetArrayItem(study_member(seed, "curve"), n);
    draw_point one = read_point(p, item);
    any |= item != NULL;
    if (isnan(one.y)) continue;
    if (!count++) out->x = one.x;
    out->y += one.y;
  }
  out->y /= count; /* NAN of none */
  return any;
}

static void read_mean(const curves *p, const rp_cell *c, points *out) {
  draw_point one;
  for (int n = 0; mean_at(p, c, n, &one); n++)
    if (!isnan(one.y)) vtb_vec_push(out, one);
}

static bool has_curve(const rp_cell *c) {
  const cJSON *seed;
  cJSON_ArrayForEach(seed, study_member(c->json, "train.seeds")) {
    if (cJSON_GetArraySize(study_member(seed, "curve"))) return true;
  }
  return false;
}

static ch_sign sign_of(const rp_report *r, const rp_cell *c) {
  return view_has_signs(r) ? view_sign(r, c) : (ch_sign){c->number, 0, c->number / DRAW_N_SERIES};
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void draw_dots(curves *p, const rp_cell *c, const points *mean) {
  vtb_strbuf tip = {0};
  for (size_t i = 0; mean->n <= MOST_DOTS && i < mean->n; i++) {
    vtb_strbuf_format(&tip, "%s\nepoch %.3g: %.4g", c->label, mean->at[i].x, mean->at[i].y);
    ch_dot(&p->chart, sign_of(p->r, c), 3, mean->at[i], 0, (grouping){tip.at, .cell = -1});
  }
  vtb_strbuf_free(&tip);
}

static void draw_cell(curves *p, const rp_cell *c) {
  const cJSON *seeds = study_member(c->json, "train.seeds"), *seed;
  ch_sign sign = sign_of(p->r, c);
  points at = {0}, mean = {0};
  if (!has_curve(c)) return;
  picture_begin(p->chart.to, (grouping){c->label, "curve", .cell = c->number});
  cJSON_ArrayForEach(seed, seeds) {
    read_curve(p, seed, &at);
    if (seeds->child->next) ch_line(&p->chart, sign, 1, at.at, at.n);
  }
  read_mean(p, c, &mean);
  ch_line(&p->chart, sign, 2.2, mean.at, mean.n);
  draw_dots(p, c, &mean);
  picture_end(p->chart.to);
  vtb_vec_free(&at);
  vtb_vec_free(&mean);
}

static void take_all(curves *p) {
  points at = {0};
  for (size_t i = 0; i < p->r->cells.n; i++) {
    const cJSON *seed;
    cJSON_ArrayForEach(seed, study_member(p->r->cells.at[i].json, "train.seeds")) {
      read_curve(p, seed, &at);
      for (size_t k = 0; k < at.n; k++) {
        sc_take(&p->chart.x, at.at[k].x); /* both charts reach as far */
        sc_take(&p->chart.y, at.at[k].y);
      }
    }
  }
  vtb_vec_free(&at);
}

/* Epochs are whole, where there are some. */
static int whole_ticks(const sc_scale *s, double tick[SC_MOST_TICKS]) {
  int n = 0;
  double step = 1;
  for (int i = 0; (s->high - s->low) / step > SC_MOST_TICKS - 2; i++) step *= i % 3 == 1 ? 2.5 : 2;
  for (double x = ceil(s->low / step) * step; n < SC_MOST_TICKS && x <= s->high; x += step)
    tick[n++] = x;
  return n;
}

static void add_chart(curves p, cJSON *list) {
  picture out = {0};
  double tick[SC_MOST_TICKS];
  p.chart = ch_new(&out, WIDTH, HEIGHT);
  take_all(&p);
  if (!p.chart.y.any) return;
  ch_begin(&p.chart);
  bool few = p.chart.x.high - p.chart.x.low < 1.5;
  int n = few ? 0 : whole_ticks(&p.chart.x, tick);
  ch_x_axis(&p.chart, "epochs", few ? NULL : tick, n);
  ch_y_axis(&p.chart, p.title);
  for (size_t i = 0; i < p.r->cells.n; i++) draw_cell(&p, &p.r->cells.at[i]);
  doc_item(list, {"chart", view_picture(&out, "chart", p.title)});
}

static void add_key(const rp_report *r, const rp_cell *c, cJSON *list) {
  picture key = {.width = 28, .height = 12};
  chart line = {.to = &key, .x = {0, 28, 0, 28, false, true}, .y = {0, 12, 0, 12, false, true}};
  ch_line(&line, sign_of(r, c), 2.2, (draw_point[]){{1, 6}, {27, 6}}, 2);
  doc_item(list, F("number", c->number), F("label", c->label),
           {"key", view_picture(&key, "key", NULL)});
}

void view_curves(const rp_report *r, cJSON *view) {
  cJSON *out = r->cells.n <= MOST_CELLS ? view_object(view, "curves") : NULL;
  if (!out) return;
  cJSON *charts = view_list(out, "charts"), *cells = view_list(out, "cells");
  add_chart((curves){.r = r, .member = "val", .title = rp_name(r, RP_VAL), .format = RP_VAL},
            charts);
  add_chart((curves){.r = r, .member = "loss", .title = "training loss", .format = RP_MEASURES},
            charts);
  for (size_t i = 0; i < r->cells.n; i++)
    if (has_curve(&r->cells.at[i])) add_key(r, &r->cells.at[i], cells);
}

/* Quality against speed, with the cells that none beats in both: the Pareto front. */
#include "frontend/report/view.h"

#include <stdlib.h>

enum { WIDTH = 700, HEIGHT = 420, MOST_LABEL = 30, MOST_STOPS = 60, MOST_NAMED = 40 };

typedef struct spot {
  const rp_cell *cell;
  draw_point at; /* in the chart's numbers */
  double spread, x, y;
  bool front;
} spot;

typedef struct scatter {
  const rp_report *r;
  rp_measure across, up;
  chart chart;
  VTB_VEC(spot) spots;
} scatter;

/* ---- the front ------------------------------------------------------------------------------- */

static bool is_ahead(const scatter *s, rp_measure m, const rp_cell *a, const rp_cell *b) {
  return m == RP_GMACS ? a->mean[m] < b->mean[m] : rp_beats(s->r, m, a, b);
}

/* By more than chance in one, and not behind by more than chance in the other: what is chance puts
 * no cell on the front and takes none away. */
static bool dominates(const scatter *s, const rp_cell *a, const rp_cell *b) {
  return (is_ahead(s, s->across, a, b) && !is_ahead(s, s->up, b, a)) ||
         (is_ahead(s, s->up, a, b) && !is_ahead(s, s->across, b, a));
}

static bool on_front(const scatter *s, const rp_cell *c) {
  for (size_t i = 0; i < s->spots.n; i++)
    if (dominates(s, s->spots.at[i].cell, c)) return false;
  return true;
}

static int by_place(const void *a, const void *b) {
  const spot *x = a, *y = b;
  return x->x != y->x ? (x->x > y->x) - (x->x < y->x) : x->cell->number - y->cell->number;
}

/* ---- places ---------------------------------------------------------------------------------- */

static void collect_points(scatter *s) {
  for (size_t i = 0; i < s->r->cells.n; i++) {
    const rp_cell *c = &s->r->cells.at[i];
    double spread = rp_in_unit(s->r, s->up, c->spread[s->up]);
    spot p = {.cell = c, .spread = spread > 0 ? spread : 0};
    p.at.x = rp_in_unit(s->r, s->across, c->mean[s->across]);
    p.at.y = rp_in_unit(s->r, s->up, c->mean[s->up]);
    if (!(p.at.x > 0) || isnan(p.at.y)) continue;
    vtb_vec_push(&s->spots, p);
    sc_take(&s->chart.x, p.at.x);
    sc_take(&s->chart.y, p.at.y - p.spread);
    sc_take(&s->chart.y, p.at.y + p.spread);
  }
  for (size_t i = 0; i < s->spots.n; i++) s->spots.at[i].front = on_front(s, s->spots.at[i].cell);
}

static void place_points(scatter *s) {
  for (size_t i = 0; i < s->spots.n; i++) {
    spot *p = &s->spots.at[i];
    const sc_scale *y = &s->chart.y;
    p->x = sc_at(&s->chart.x, p->at.x);
    p->y = sc_at(y, p->at.y);
    ch_take(&s->chart, p->x - 6, p->y - 6, 12, 12);
    if (p->spread > 0)
      ch_take_line(&s->chart, p->x, sc_at(y, p->at.y - p->spread), p->x,
                   sc_at(y, p->at.y + p->spread));
  }
  if (s->spots.n) qsort(s->spots.at, s->spots.n, sizeof *s->spots.at, by_place);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void draw_front(scatter *s) {
  VTB_VEC(draw_point) at = {0};
  for (size_t i = 0; i < s->spots.n; i++) {
    const spot *p = &s->spots.at[i];
    if (!p->front) continue;
    const draw_point *last = at.n ? &at.at[at.n - 1] : NULL;
    if (last) ch_take_line(&s->chart, last->x, last->y, p->x, p->y);
    vtb_vec_push(&at, ((draw_point){p->x, p->y}));
  }
  if (at.n > 1) picture_path(s->chart.to, at.at, at.n, (pen){DRAW_INK, 1.5, DASH_DOTS, 0.75});
  vtb_vec_free(&at);
}

static void draw_spot(scatter *s, const spot *p) {
  const rp_measure both[] = {s->up, s->across};
  vtb_strbuf tip = {0};
  char text[32];
  vtb_strbuf_puts(&tip, p->cell->label);
  for (int i = 0; i < 2; i++) {
    double mean = p->cell->mean[both[i]], spread = p->cell->spread[both[i]];
    vtb_strbuf_printf(&tip, "\n%s: %s", rp_name(s->r, both[i]),
                      rp_format(s->r, both[i], mean, text));
    if (spread > 0) vtb_strbuf_printf(&tip, " \xC2\xB1 %s", rp_format(s->r, both[i], spread, text));
  }
  ch_dot(&s->chart, view_sign(s->r, p->cell), p->front ? 6 : 5, p->at, p->spread,
         (grouping){tip.at, .cell = p->cell->number, .stop = s->spots.n <= MOST_STOPS});
  vtb_strbuf_free(&tip);
}

/* The front's names first; of few cells also the others', where there is room left. */
static void draw_labels(scatter *s) {
  vtb_strbuf room = {0};
  for (int front = 1; front >= (s->spots.n > MOST_NAMED); front--)
    for (size_t i = 0; i < s->spots.n; i++) {
      const spot *p = &s->spots.at[i];
      if (p->front != (front == 1)) continue;
      picture_begin(s->chart.to, (grouping){.name = "label", .cell = p->cell->number});
      ch_label(&s->chart, p->x, p->y, ch_short(p->cell->label, MOST_LABEL, &room), front);
      picture_end(s->chart.to);
    }
  vtb_strbuf_free(&room);
}

static void draw(scatter *s) {
  ch_begin(&s->chart);
  ch_x_axis(&s->chart, rp_unit_name(s->r, s->across), NULL, 0);
  ch_y_axis(&s->chart, rp_unit_name(s->r, s->up));
  place_points(s);
  draw_front(s);
  for (int front = 0; front < 2; front++)
    for (size_t i = 0; i < s->spots.n; i++)
      if (s->spots.at[i].front == (front == 1)) draw_spot(s, &s->spots.at[i]);
  draw_labels(s);
}

static void add_points(scatter *s, bool scored, bool timed, cJSON *view) {
  cJSON *list = cJSON_CreateArray();
  draw(s);
  for (size_t i = 0; i < s->spots.n; i++)
    if (s->spots.at[i].front) doc_append(list, view_cell(s->spots.at[i].cell));
  doc_put(view_object(view, "front"), F("scored", scored), F("timed", timed), F("cells", list),
          {"chart", view_picture(s->chart.to, "chart", rp_name(s->r, s->up))});
}

void view_front(const rp_report *r, cJSON *view) {
  picture p = {0};
  scatter s = {.r = r, .across = rp_speed(r), .up = rp_quality(r)};
  bool scored = s.up != RP_MEASURES, timed = s.across != RP_MEASURES && !isnan(r->margin);
  if (!timed) s.across = RP_GMACS; /* exact, where speeds tell nothing */
  if (!scored) s.up = rp_has(r, RP_WORKSPACE) ? RP_WORKSPACE : RP_PEAK;
  if (!rp_has(r, s.across) || !rp_has(r, s.up) || (!timed && !scored)) return;
  for (size_t i = 0; !scored && i < r->axes.n; i++)
    if (r->axes.at[i].resizes) return; /* small images beat large ones at nothing */
  s.chart = ch_new(&p, WIDTH, HEIGHT);
  s.chart.x.log = true;
  s.chart.y.log = !scored;
  collect_points(&s);
  if (s.spots.n > 1 && (scored || s.chart.y.high > s.chart.y.low) &&
      (timed || s.chart.x.high > s.chart.x.low))
    add_points(&s, scored, timed, view);
  vtb_vec_free(&s.spots);
  ch_free(&s.chart);
  picture_free(&p);
}

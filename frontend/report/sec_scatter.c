/* Quality against speed, with the cells that none beats in both: the Pareto front. */
#include "frontend/report/chart.h"
#include "frontend/report/encode.h"
#include "frontend/report/markup.h"
#include "frontend/report/sections.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 700, HEIGHT = 420, MOST_LABEL = 30, MOST_STOPS = 60, MOST_NAMED = 40 };

typedef struct spot {
  const rp_cell *cell;
  double x, y; /* in the picture */
  bool front;
} spot;

typedef struct scatter {
  const rp_report *r;
  rp_measure across, up;
  en_code code;
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

static void collect(scatter *s) {
  for (size_t i = 0; i < s->r->cells.n; i++) {
    const rp_cell *c = &s->r->cells.at[i];
    bool placed = c->mean[s->across] > 0 && !isnan(c->mean[s->up]);
    if (!placed) continue;
    spot p = {.cell = c};
    vtb_vec_push(&s->spots, p);
    sc_take(&s->chart.x, rp_in_unit(s->r, s->across, c->mean[s->across]));
    double y = rp_in_unit(s->r, s->up, c->mean[s->up]);
    double spread = isnan(c->spread[s->up]) ? 0 : rp_in_unit(s->r, s->up, c->spread[s->up]);
    sc_take(&s->chart.y, y - spread);
    sc_take(&s->chart.y, y + spread);
  }
  for (size_t i = 0; i < s->spots.n; i++) s->spots.at[i].front = on_front(s, s->spots.at[i].cell);
}

static void place(scatter *s) {
  for (size_t i = 0; i < s->spots.n; i++) {
    spot *p = &s->spots.at[i];
    p->x = sc_at(&s->chart.x, rp_in_unit(s->r, s->across, p->cell->mean[s->across]));
    p->y = sc_at(&s->chart.y, rp_in_unit(s->r, s->up, p->cell->mean[s->up]));
    ch_take(&s->chart, p->x - 6, p->y - 6, 12, 12);
    double spread = rp_in_unit(s->r, s->up, p->cell->spread[s->up]);
    double mean = rp_in_unit(s->r, s->up, p->cell->mean[s->up]);
    if (spread > 0)
      ch_take_line(&s->chart, p->x, sc_at(&s->chart.y, mean - spread), p->x,
                   sc_at(&s->chart.y, mean + spread));
  }
  if (s->spots.n) qsort(s->spots.at, s->spots.n, sizeof *s->spots.at, by_place);
}

static void draw_front(scatter *s) {
  int n = 0;
  for (size_t i = 0; i < s->spots.n; i++) n += s->spots.at[i].front;
  if (n < 2) return;
  const spot *last = NULL;
  vtb_strbuf_puts(s->chart.out, "<path class=\"front\" d=\"");
  for (size_t i = 0; i < s->spots.n; i++)
    if (s->spots.at[i].front) {
      const spot *p = &s->spots.at[i];
      mk(s->chart.out, "%c%.1f %.1f", last ? 'L' : 'M', p->x, p->y);
      if (last) ch_take_line(&s->chart, last->x, last->y, p->x, p->y);
      last = p;
    }
  vtb_strbuf_puts(s->chart.out, "\"/>\n");
}

/* ---- marks ----------------------------------------------------------------------------------- */

static void tip(const scatter *s, const rp_cell *c, vtb_strbuf *out) {
  char text[32];
  const rp_measure both[] = {s->up, s->across};
  mk(out, "<title>%s", c->label);
  for (int i = 0; i < 2; i++) {
    mk(out, "\n%s: %s", rp_name(s->r, both[i]), rp_format(s->r, both[i], c->mean[both[i]], text));
    if (c->spread[both[i]] > 0)
      mk(out, " \xC2\xB1 %s", rp_format(s->r, both[i], c->spread[both[i]], text));
  }
  vtb_strbuf_puts(out, "</title>");
}

static void draw_spot(scatter *s, const spot *p) {
  vtb_strbuf *out = s->chart.out;
  mk(out, "<g class=\"mark s%d%s\" data-cell=\"%d\"", en_colour(s->code, p->cell),
     p->front ? " on-front" : "", p->cell->number);
  if (s->spots.n <= MOST_STOPS) vtb_strbuf_puts(out, " tabindex=\"0\"");
  vtb_strbuf_puts(out, ">");
  tip(s, p->cell, out);
  double spread = rp_in_unit(s->r, s->up, p->cell->spread[s->up]);
  if (spread > 0) {
    double mean = rp_in_unit(s->r, s->up, p->cell->mean[s->up]);
    mk(out, "<path class=\"whisker\" d=\"M%.1f %.1fV%.1f\"/>", p->x,
       sc_at(&s->chart.y, mean - spread), sc_at(&s->chart.y, mean + spread));
  }
  ch_mark(&s->chart, en_shape(s->code, p->cell), p->x, p->y, p->front ? 6 : 5);
  vtb_strbuf_puts(out, "</g>\n");
}

/* The front's names first; of few cells also the others', where there is room left. */
static void draw_labels(scatter *s) {
  vtb_strbuf room = {0};
  for (int front = 1; front >= (s->spots.n > MOST_NAMED); front--)
    for (size_t i = 0; i < s->spots.n; i++) {
      const spot *p = &s->spots.at[i];
      if (p->front != (front == 1)) continue;
      mk(s->chart.out, "<g data-cell=\"%d\">", p->cell->number);
      ch_label(&s->chart, p->x, p->y, ch_short(p->cell->label, MOST_LABEL, &room),
               front ? "name strong" : "name");
      vtb_strbuf_puts(s->chart.out, "</g>");
    }
  vtb_strbuf_free(&room);
}

static void say_front(const scatter *s, vtb_strbuf *out) {
  int n = 0;
  vtb_strbuf_puts(out, "<figcaption>On the Pareto front, beaten by none in both: ");
  for (size_t i = 0; i < s->spots.n; i++)
    if (s->spots.at[i].front)
      mk(out, "%s<a href=\"#cell-%d\">%s</a>", n++ ? "; " : "", s->spots.at[i].cell->number,
         s->spots.at[i].cell->label);
  vtb_strbuf_puts(out, ", by more than chance. Bars are the spread.</figcaption>\n");
}

static void draw(scatter *s, vtb_strbuf *out) {
  ch_begin(&s->chart, rp_name(s->r, s->up));
  ch_x_axis(&s->chart, rp_unit_name(s->r, s->across), NULL, 0);
  ch_y_axis(&s->chart, rp_unit_name(s->r, s->up));
  place(s);
  draw_front(s);
  for (int front = 0; front < 2; front++)
    for (size_t i = 0; i < s->spots.n; i++)
      if (s->spots.at[i].front == (front == 1)) draw_spot(s, &s->spots.at[i]);
  draw_labels(s);
  ch_end(&s->chart);
  vtb_strbuf_puts(out, "</div>\n");
  say_front(s, out);
}

bool sec_scatter(const rp_report *r, vtb_strbuf *out) {
  scatter s = {.r = r, .across = rp_speed(r), .up = rp_quality(r), .code = en_choose(r)};
  bool scored = s.up != RP_MEASURES, timed = s.across != RP_MEASURES && !isnan(r->margin);
  if (!timed) s.across = RP_GMACS; /* exact, where speeds tell nothing */
  if (!scored) s.up = rp_has(r, RP_WORKSPACE) ? RP_WORKSPACE : RP_PEAK;
  if (!rp_has(r, s.across) || !rp_has(r, s.up) || (!timed && !scored)) return false;
  for (size_t i = 0; !scored && i < r->axes.n; i++)
    if (r->axes.at[i].resizes) return false; /* small images beat large ones at nothing */
  s.chart = ch_new(out, WIDTH, HEIGHT);
  s.chart.x.log = true;
  s.chart.y.log = !scored;
  collect(&s);
  bool any = s.spots.n > 1 && (scored || s.chart.y.high > s.chart.y.low) &&
             (timed || s.chart.x.high > s.chart.x.low);
  if (any) {
    mk(out, "<section id=\"front\">\n<h2>%s against %s</h2>\n<figure>\n",
       scored ? "Quality" : "Memory", timed ? "throughput" : "work");
    en_legend(r, s.code, out);
    vtb_strbuf_puts(out, "<div class=\"scroll\">");
    draw(&s, out);
    vtb_strbuf_puts(out, "</figure>\n</section>\n");
  }
  vtb_vec_free(&s.spots);
  return any;
}

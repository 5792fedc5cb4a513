/* See plot.h. */
#include "frontend/draw/plot.h"

#include "frontend/draw/chart.h"

#include <math.h>

enum { WIDTH = 640, HEIGHT = 400, MOST_MARKS = 60 }; /* of more points the line is enough */

/* A point, NAN in y where it is not drawn. */
static draw_point point_of(const plot *p, const plot_series *s, size_t i) {
  bool is = isfinite(s->x[i]) && isfinite(s->y[i]) && !(p->log_y && s->y[i] <= 0);
  return (draw_point){s->x[i], is ? s->y[i] : (double)NAN};
}

static void draw_series(const plot *p, chart *c, size_t number) {
  const plot_series *s = &p->series[number];
  ch_sign sign = {.colour = (int)number};
  draw_point *at = vtb_xcalloc(s->n + 1, sizeof *at);
  for (size_t i = 0; i < s->n; i++) at[i] = point_of(p, s, i);
  ch_line(c, sign, 1.8, at, s->n);
  for (size_t i = 0; s->n <= MOST_MARKS && i < s->n; i++) /* a run of one epoch is seen, too */
    if (!isnan(at[i].y)) ch_dot(c, sign, 3, at[i], 0, (grouping){.cell = -1});
  vtb_free(at);
}

/* Points in the right two fifths, above the middle less those below. */
static int64_t crowd(const plot *p, const chart *c) {
  int64_t above = 0;
  for (size_t s = 0; s < p->n_series; s++)
    for (size_t i = 0; i < p->series[s].n; i++) {
      draw_point at = point_of(p, &p->series[s], i);
      if (isnan(at.y) || sc_at(&c->x, at.x) < c->x.from + 0.6 * (c->x.to - c->x.from)) continue;
      above += sc_at(&c->y, at.y) < (c->y.from + c->y.to) / 2 ? 1 : -1;
    }
  return above;
}

void plot_draw(const plot *p, picture *out) {
  chart c = ch_new(out, WIDTH, HEIGHT);
  c.left = 64;
  c.top = 46;
  c.y.log = p->log_y;
  for (size_t s = 0; s < p->n_series; s++)
    for (size_t i = 0; i < p->series[s].n; i++) {
      draw_point at = point_of(p, &p->series[s], i);
      if (isnan(at.y)) continue;
      sc_take(&c.x, at.x);
      sc_take(&c.y, at.y);
    }
  ch_begin(&c);
  ch_x_axis(&c, p->x_label ? p->x_label : "", NULL, 0);
  ch_y_axis(&c, p->y_label ? p->y_label : "");
  ch_name *names = vtb_xcalloc(p->n_series + 1, sizeof *names);
  for (size_t i = 0; i < p->n_series; i++) {
    names[i] = (ch_name){.text = p->series[i].name, .sign = {.colour = (int)i}};
    draw_series(p, &c, i);
  }
  if (p->n_series > 1) ch_legend(&c, names, p->n_series, crowd(p, &c));
  picture_text(out, WIDTH / 2.0, 20, LETTERS(10.2, DRAW_INK, ANCHOR_MIDDLE, true), p->title);
  vtb_free(names);
  ch_free(&c);
}

vtb_status plot_save(const plot *p, const char *path, vtb_error *err) {
  picture out = {0};
  plot_draw(p, &out);
  vtb_status status = picture_write(&out, path, err);
  picture_free(&out);
  return status;
}

/* See chart.h. */
#include "frontend/draw/chart.h"

#include "frontend/draw/number.h"
#include "runtime/base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BOLD 1.14  /* wider */
#define LETTER 6.6 /* pixels, of the 12 of the text */
enum { LINE = 14, LEGEND_LINE = 17, TICK_SPACE = 8, NAME = 22 };

draw_colour ch_colour(int number) { return DRAW_SERIES + (draw_colour)number % DRAW_N_SERIES; }

chart ch_new(picture *to, double width, double height) {
  to->width = (int)width;
  to->height = (int)height;
  return (chart){.to = to, .left = 52, .right = 16, .top = 30, .bottom = 42};
}

void ch_begin(chart *c) {
  sc_pad(&c->x);
  sc_pad(&c->y);
  c->x.from = c->left;
  c->x.to = c->to->width - c->right;
  c->y.from = c->to->height - c->bottom;
  c->y.to = c->top;
}

void ch_free(chart *c) { vtb_vec_free(&c->taken); }

/* ---- axes ------------------------------------------------------------------------------------ */

static void soft_text(const chart *c, double x, double y, int anchor, const char *text) {
  picture_text(c->to, x, y, CH_LETTERS(DRAW_SOFT, anchor, false), text);
}

void ch_x_axis(chart *c, const char *title, const double *ticks, int n) {
  double round[SC_MOST_TICKS], free_from = -INFINITY;
  char text[32];
  if (!ticks) {
    int want = (int)((c->x.to - c->x.from) / 60);
    n = sc_ticks(&c->x, want < 3 ? 3 : want, round);
    ticks = round;
  }
  for (int i = 0; i < n; i++) {
    double x = sc_at(&c->x, ticks[i]), half = ch_text_width(nr_tick(ticks[i], text)) / 2;
    picture_line(c->to, x, c->y.to, x, c->y.from, PEN(DRAW_GRID, 1));
    if (x - half < free_from) continue;
    soft_text(c, x, c->y.from + 17, ANCHOR_MIDDLE, text);
    free_from = x + half + TICK_SPACE;
  }
  soft_text(c, c->x.to, c->to->height - 6, ANCHOR_END, title);
}

void ch_y_axis(chart *c, const char *title) {
  double tick[SC_MOST_TICKS];
  int n = sc_ticks(&c->y, (int)((c->y.from - c->y.to) / 45), tick);
  char text[32];
  for (int i = 0; i < n; i++) {
    double y = sc_at(&c->y, tick[i]);
    picture_line(c->to, c->left, y, c->x.to, y, PEN(DRAW_GRID, 1));
    soft_text(c, c->left - 7, y + 4, ANCHOR_END, nr_tick(tick[i], text));
  }
  soft_text(c, 4, c->top - 16, ANCHOR_START, title);
}

/* ---- lines and marks ------------------------------------------------------------------------- */

void ch_line(chart *c, ch_sign s, double size, const draw_point *at, size_t n) {
  draw_point *place = vtb_xcalloc(n + 1, sizeof *place);
  for (size_t i = 0; i < n; i++) {
    bool is = isfinite(at[i].x) && isfinite(at[i].y);
    place[i] = is ? (draw_point){sc_at(&c->x, at[i].x), sc_at(&c->y, at[i].y)} : at[i];
  }
  pen line = {ch_colour(s.colour), size, (pen_dash)(s.dash % CH_DASHES), size < 1.5 ? 0.45 : 0};
  picture_path(c->to, place, n, line);
  vtb_free(place);
}

void ch_mark(picture *to, ch_sign s, draw_colour colour, double x, double y, double radius) {
  static const struct {
    double scale;
    size_t n;
    draw_point at[4];
  } forms[] = {{1, 0, {{0, 0}}},
               {0.89, 4, {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}}},
               {1.2, 3, {{0, -1}, {1, 0.8}, {-1, 0.8}}},
               {1.2, 4, {{0, -1}, {1, 0}, {0, 1}, {-1, 0}}},
               {1.2, 3, {{0, 1}, {1, -0.8}, {-1, -0.8}}}};
  size_t form = (size_t)s.shape % CH_SHAPES, n_forms = sizeof forms / sizeof *forms;
  if (!colour) colour = ch_colour(s.colour);
  if (form == n_forms) { /* a cross */
    double r = 0.89 * radius;
    picture_line(to, x - r, y - r, x + r, y + r, PEN(colour, 2.6));
    picture_line(to, x + r, y - r, x - r, y + r, PEN(colour, 2.6));
    return;
  }
  draw_point at[4];
  for (size_t i = 0; i < forms[form].n; i++) {
    at[i].x = x + forms[form].scale * radius * forms[form].at[i].x;
    at[i].y = y + forms[form].scale * radius * forms[form].at[i].y;
  }
  pen edge = PEN(DRAW_PAPER, 1.2);
  if (forms[form].n)
    picture_area(to, at, forms[form].n, colour, edge);
  else
    picture_disc(to, x, y, radius, colour, edge);
}

void ch_ring(chart *c, double x, double y, double radius) {
  picture_disc(c->to, x, y, radius, DRAW_NONE, PEN(DRAW_INK, 1.6));
}

void ch_dot(chart *c, ch_sign s, double size, draw_point at, double spread, grouping g) {
  double x = sc_at(&c->x, at.x), low = sc_at(&c->y, at.y - spread),
         high = sc_at(&c->y, at.y + spread);
  picture_begin(c->to, g);
  if (spread > 0) picture_line(c->to, x, low, x, high, PEN(ch_colour(s.colour), 1.6));
  ch_mark(c->to, s, DRAW_NONE, x, sc_at(&c->y, at.y), size);
  picture_end(c->to);
}

/* ---- names ----------------------------------------------------------------------------------- */

double ch_text_width(const char *text) { return LETTER * vtb_text_columns(text, strlen(text)); }

const char *ch_short(const char *text, int columns, vtb_strbuf *room) {
  size_t n = strlen(text), fits = vtb_text_fit(text, n, columns);
  if (fits == n) return text;
  fits = vtb_text_fit(text, n, columns - 1);
  return vtb_strbuf_format(room, "%.*s\xE2\x80\xA6", (int)fits, text);
}

void ch_take(chart *c, double x, double y, double width, double height) {
  ch_box b = {x, y, width, height, false};
  vtb_vec_push(&c->taken, b);
}

void ch_take_line(chart *c, double x, double y, double x2, double y2) {
  int n = 1 + (int)(hypot(x2 - x, y2 - y) / 5);
  for (int i = 0; i <= n && n < 1000; i++) {
    ch_box b = {x + (x2 - x) * i / n - 1, y + (y2 - y) * i / n - 1, 2, 2, true};
    vtb_vec_push(&c->taken, b);
  }
}

static bool is_free(const chart *c, ch_box b, bool crossing) {
  if (b.x < c->left || b.x + b.width > c->to->width - 2) return false;
  if (b.y < c->top - LINE || b.y + b.height > c->y.from) return false;
  for (size_t i = 0; i < c->taken.n; i++) {
    const ch_box *t = &c->taken.at[i];
    if (crossing && t->crossable) continue;
    if (b.x < t->x + t->width && t->x < b.x + b.width && b.y < t->y + t->height &&
        t->y < b.y + b.height)
      return false;
  }
  return true;
}

void ch_label(chart *c, double x, double y, const char *text, bool strong) {
  static const struct {
    double x, y; /* of the text's middle: widths and lines away, and pixels */
    double x_off;
  } places[] = {{0.5, 0, 9},  {-0.5, 0, -9},  {0, -1.15, 0}, {0, 1.15, 0},
                {0.5, -1, 4}, {-0.5, -1, -4}, {0.5, 1, 4},   {-0.5, 1, -4}};
  enum { PLACES = sizeof places / sizeof *places };
  double width = ch_text_width(text) * (strong ? BOLD : 1);
  for (size_t i = 0; i < 2 * (size_t)PLACES; i++) {
    double middle = x + places[i % PLACES].x * width + places[i % PLACES].x_off;
    double line = y + places[i % PLACES].y * LINE;
    ch_box b = {middle - width / 2, line - LINE / 2.0, width, LINE, false};
    if (!is_free(c, b, i >= PLACES)) continue;
    lettering l = {.size = CH_TEXT, .colour = DRAW_INK, .bold = strong, .haloed = true};
    picture_text(c->to, b.x, line + 4, l, text);
    vtb_vec_push(&c->taken, b);
    return;
  }
}

static int by_height(const void *a, const void *b) {
  const ch_name *x = a, *y = b;
  return (x->y > y->y) - (x->y < y->y);
}

/* They push each other apart, from the top down and then back up. */
static void spread_names(ch_name *e, size_t n, double lowest) {
  qsort(e, n, sizeof *e, by_height);
  for (size_t i = 0; i < n; i++) {
    e[i].at = e[i].y;
    if (i && e[i].at < e[i - 1].at + LINE) e[i].at = e[i - 1].at + LINE;
  }
  for (size_t i = n; i-- > 0;) {
    double most = i + 1 < n ? e[i + 1].at - LINE : lowest;
    if (e[i].at > most) e[i].at = most;
  }
}

void ch_end_names(chart *c, ch_name *names, size_t n) {
  vtb_strbuf room = {0};
  if (n) spread_names(names, n, c->y.from + 8);
  for (size_t i = 0; i < n; i++) {
    draw_colour colour = ch_colour(names[i].sign.colour);
    picture_line(c->to, names[i].x + 5, names[i].y, c->x.to + 6, names[i].at, PEN(colour, 0.8));
    picture_text(c->to, c->x.to + 9, names[i].at + 4, CH_LETTERS(colour, ANCHOR_START, true),
                 ch_short(names[i].text, NAME, &room));
  }
  vtb_strbuf_free(&room);
}

double ch_end_names_width(const ch_name *names, size_t n) {
  vtb_strbuf room = {0};
  double most = 0;
  for (size_t i = 0; i < n; i++)
    most = fmax(most, BOLD * ch_text_width(ch_short(names[i].text, NAME, &room)));
  vtb_strbuf_free(&room);
  return most;
}

void ch_legend(chart *c, const ch_name *names, size_t n, int64_t crowd) {
  double top = crowd > 0 ? c->y.from - LEGEND_LINE * (double)n - 8 : c->y.to, to = c->x.to - 12;
  for (size_t i = 0; i < n; i++) {
    double y = top + 16 + LEGEND_LINE * (double)i;
    picture_line(c->to, to - 22, y - 4, to, y - 4, PEN(ch_colour(names[i].sign.colour), 1.8));
    picture_text(c->to, to - 28, y, CH_LETTERS(DRAW_INK, ANCHOR_END, false), names[i].text);
  }
}

#include "frontend/report/chart.h"
#include "frontend/report/markup.h"
#include "frontend/report/number.h"
#include "runtime/base/utf8.h"

#include <math.h>
#include <string.h>

#define BOLD 1.12  /* wider */
#define LETTER 6.6 /* pixels, of the 12 of the charts' text */
enum { LINE = 14, TICK_SPACE = 8 };

chart ch_new(vtb_strbuf *out, double width, double height) {
  return (chart){.out = out,
                 .width = width,
                 .height = height,
                 .left = 52,
                 .right = 16,
                 .top = 30,
                 .bottom = 42};
}

void ch_begin(chart *c, const char *what) {
  sc_pad(&c->x);
  sc_pad(&c->y);
  c->x.from = c->left;
  c->x.to = c->width - c->right;
  c->y.from = c->height - c->bottom;
  c->y.to = c->top;
  mk(c->out, "<svg class=\"chart\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" ",
     c->width, c->height, c->width, c->height);
  mk(c->out, "role=\"group\" aria-label=\"%s\">\n", what);
}

void ch_end(chart *c) {
  vtb_strbuf_puts(c->out, "</svg>\n");
  vtb_vec_free(&c->taken);
}

/* ---- axes ------------------------------------------------------------------------------------ */

void ch_x_axis(chart *c, const char *title, const double *ticks, int n) {
  double round[SC_MOST_TICKS], free_from = -INFINITY;
  if (!ticks) {
    int want = (int)((c->width - c->left - c->right) / 60);
    n = sc_ticks(&c->x, want < 3 ? 3 : want, round);
    ticks = round;
  }
  vtb_strbuf_puts(c->out, "<g class=\"axis\">\n");
  for (int i = 0; i < n; i++) {
    char text[32];
    double x = sc_at(&c->x, ticks[i]), half = ch_text_width(nr_tick(ticks[i], text)) / 2;
    mk(c->out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, c->y.to, c->y.from);
    if (x - half < free_from) continue;
    mk(c->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x, c->y.from + 17,
       text);
    free_from = x + half + TICK_SPACE;
  }
  mk(c->out, "<text class=\"title\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n</g>\n",
     c->width - c->right, c->height - 6, title);
}

void ch_y_axis(chart *c, const char *title) {
  double tick[SC_MOST_TICKS];
  int n = sc_ticks(&c->y, (int)((c->height - c->top - c->bottom) / 45), tick);
  vtb_strbuf_puts(c->out, "<g class=\"axis\">\n");
  for (int i = 0; i < n; i++) {
    char text[32];
    double y = sc_at(&c->y, tick[i]);
    mk(c->out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", c->x.from, y, c->x.to);
    mk(c->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", c->left - 7, y + 4,
       nr_tick(tick[i], text));
  }
  mk(c->out, "<text class=\"title\" x=\"4\" y=\"14\">%s</text>\n</g>\n", title);
}

/* ---- marks ----------------------------------------------------------------------------------- */

void ch_mark(chart *c, int shape, double x, double y, double radius) {
  double r = radius, s = r * 0.89, t = r * 1.2;
  switch (shape % CH_SHAPES) {
  case 0:
    mk(c->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", x, y, r);
    break;
  case 1:
    mk(c->out, "<path d=\"M%.1f %.1fh%.1fv%.1fh%.1fz\"/>", x - s, y - s, 2 * s, 2 * s, -2 * s);
    break;
  case 2:
    mk(c->out, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"/>", x, y - t, t, 1.8 * t, -2 * t);
    break;
  case 3:
    mk(c->out, "<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\"/>", x, y - t, t, t, -t, t, -t,
       -t);
    break;
  case 4:
    mk(c->out, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"/>", x, y + t, t, -1.8 * t, -2 * t);
    break;
  default:
    mk(c->out, "<path class=\"open\" d=\"M%.1f %.1fl%.1f %.1fM%.1f %.1fl%.1f %.1f\"/>", x - s,
       y - s, 2 * s, 2 * s, x + s, y - s, -2 * s, 2 * s);
  }
}

/* ---- labels ---------------------------------------------------------------------------------- */

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
  if (b.x < c->left || b.x + b.width > c->width - 2) return false;
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

bool ch_label(chart *c, double x, double y, const char *text, const char *class_name) {
  static const struct {
    double x, y; /* of the text's middle: widths and lines away, and pixels */
    double x_off;
  } places[] = {{0.5, 0, 9},  {-0.5, 0, -9},  {0, -1.15, 0}, {0, 1.15, 0},
                {0.5, -1, 4}, {-0.5, -1, -4}, {0.5, 1, 4},   {-0.5, 1, -4}};
  enum { PLACES = sizeof places / sizeof *places };
  double width = ch_text_width(text) * (strstr(class_name, "strong") ? BOLD : 1);
  for (size_t i = 0; i < 2 * (size_t)PLACES; i++) {
    double middle = x + places[i % PLACES].x * width + places[i % PLACES].x_off;
    double line = y + places[i % PLACES].y * LINE;
    ch_box b = {middle - width / 2, line - LINE / 2.0, width, LINE, false};
    if (!is_free(c, b, i >= PLACES)) continue;
    mk(c->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class_name, b.x, line + 4,
       text);
    vtb_vec_push(&c->taken, b);
    return true;
  }
  return false;
}

/* SVG line plots: limits from the data, ticks at 1, 2 or 5 times a power of ten. */
#include "runtime/train/plot.h"

#include <math.h>
#include <stdlib.h>

static const char *const colours[] = {"#1f6fb4", "#d1495b", "#2e933c", "#8e5ba6",
                                      "#d98e04", "#4a4e69", "#00798c", "#a44a3f"};
enum { N_COLOURS = sizeof colours / sizeof *colours, LEFT = 64, RIGHT = 20, TOP = 34, BOTTOM = 48 };

typedef struct axis {
  double lo, hi, step;
  int from, to; /* pixels at lo and hi */
} axis;

static double usable_y(const vtb_plot *p, double y) {
  if (!p->log_y) return y;
  return y > 0 ? log10(y) : NAN;
}

static double round_step(double span) {
  double raw = span / 5, power = pow(10, floor(log10(raw))), r = raw / power;
  return power * (r < 1.5 ? 1 : r < 3.5 ? 2 : r < 7.5 ? 5 : 10);
}

static axis make_axis(double lo, double hi, int from, int to, bool snap) {
  if (!(lo <= hi)) lo = 0, hi = 1; /* no points */
  if (hi - lo < 1e-12 * fmax(1, fabs(hi))) lo -= 0.5, hi += 0.5;
  axis a = {lo, hi, round_step(hi - lo), from, to};
  if (snap) {
    a.lo = floor(lo / a.step + 1e-9) * a.step;
    a.hi = ceil(hi / a.step - 1e-9) * a.step;
  }
  return a;
}

static double place(const axis *a, double v) {
  return a->from + (v - a->lo) / (a->hi - a->lo) * (a->to - a->from);
}

static void find_limits(const vtb_plot *p, double *x, double *y) {
  x[0] = y[0] = HUGE_VAL;
  x[1] = y[1] = -HUGE_VAL;
  for (size_t s = 0; s < p->n_series; s++)
    for (size_t i = 0; i < p->series[s].n; i++) {
      double px = p->series[s].x[i], py = usable_y(p, p->series[s].y[i]);
      if (!isfinite(px) || !isfinite(py)) continue;
      x[0] = fmin(x[0], px), x[1] = fmax(x[1], px);
      y[0] = fmin(y[0], py), y[1] = fmax(y[1], py);
    }
}

static void put_text(vtb_strbuf *out, double x, double y, const char *anchor, const char *extra,
                     const char *text) {
  vtb_strbuf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, extra);
  vtb_strbuf_xml(out, text ? text : "");
  vtb_strbuf_puts(out, "</text>\n");
}

static void put_ticks(vtb_strbuf *out, const axis *a, const axis *other, bool vertical,
                      bool log_scale) {
  int n = (int)floor((a->hi - a->lo) / a->step + 1e-9);
  double first = ceil(a->lo / a->step - 1e-9) * a->step;
  for (int i = 0; i <= n + 1; i++) {
    double v = first + i * a->step, at = place(a, v);
    if (v > a->hi + 1e-9 * a->step) break;
    if (fabs(v) < 1e-9 * a->step) v = 0;
    char label[32];
    snprintf(label, sizeof label, "%.6g", log_scale ? pow(10, v) : v);
    if (vertical) {
      vtb_strbuf_printf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", other->from, at,
                        other->to);
      put_text(out, other->from - 6, at + 4, "end", "", label);
    } else {
      vtb_strbuf_printf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>\n", at, other->from,
                        other->to);
      put_text(out, at, other->from + 17, "middle", "", label);
    }
  }
}

enum { MOST_MARKERS = 60 }; /* of more points the line is enough */

/* A dot a point, so that a run of one epoch is seen. */
static void put_markers(vtb_strbuf *out, const vtb_plot *p, const vtb_plot_series *s, const axis *x,
                        const axis *y, const char *colour) {
  for (size_t i = 0; s->n <= MOST_MARKERS && i < s->n; i++) {
    double py = usable_y(p, s->y[i]);
    if (isfinite(s->x[i]) && isfinite(py))
      vtb_strbuf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"%s\"/>\n",
                        place(x, s->x[i]), place(y, py), colour);
  }
}

static void put_series(vtb_strbuf *out, const vtb_plot *p, const vtb_plot_series *s, const axis *x,
                       const axis *y, const char *colour) {
  vtb_strbuf_printf(out, "<path class=\"line\" stroke=\"%s\" d=\"", colour);
  bool pen_down = false;
  for (size_t i = 0; i < s->n; i++) {
    double py = usable_y(p, s->y[i]);
    bool usable = isfinite(s->x[i]) && isfinite(py);
    if (usable)
      vtb_strbuf_printf(out, "%c%.1f %.1f", pen_down ? 'L' : 'M', place(x, s->x[i]), place(y, py));
    pen_down = usable;
  }
  vtb_strbuf_puts(out, "\"/>\n");
  put_markers(out, p, s, x, y, colour);
}

/* Points in the right two fifths, above the middle less those below: the legend takes the emptier
 * corner. */
static int64_t crowd(const vtb_plot *p, const axis *x, const axis *y) {
  int64_t above = 0;
  for (size_t s = 0; s < p->n_series; s++)
    for (size_t i = 0; i < p->series[s].n; i++) {
      double py = usable_y(p, p->series[s].y[i]);
      if (!isfinite(p->series[s].x[i]) || !isfinite(py)) continue;
      if (p->series[s].x[i] < x->lo + 0.6 * (x->hi - x->lo)) continue;
      above += py > (y->lo + y->hi) / 2 ? 1 : -1;
    }
  return above;
}

static void put_legend(vtb_strbuf *out, const vtb_plot *p, const axis *x, const axis *y) {
  if (p->n_series < 2) return;
  double top = crowd(p, x, y) > 0 ? y->from - 17 * (double)p->n_series - 8 : y->to;
  for (size_t s = 0; s < p->n_series; s++) {
    double at = top + 16 + 17 * (double)s;
    vtb_strbuf_printf(out, "<path class=\"line\" stroke=\"%s\" d=\"M%d %.1fh22\"/>\n",
                      colours[s % N_COLOURS], x->to - 34, at - 4);
    put_text(out, x->to - 40, at, "end", "", p->series[s].name);
  }
}

void vtb_plot_svg(const vtb_plot *p, vtb_strbuf *out) {
  int width = p->width > 0 ? p->width : 640, height = p->height > 0 ? p->height : 400;
  double xl[2], yl[2];
  find_limits(p, xl, yl);
  axis x = make_axis(xl[0], xl[1], LEFT, width - RIGHT, false);
  axis y = make_axis(yl[0], yl[1], height - BOTTOM, TOP, true);
  vtb_strbuf_printf(
      out,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
      "%d\">\n"
      "<style>text{font:12px sans-serif;fill:#333}.title{font-size:14px;font-weight:bold}"
      ".grid{stroke:#ddd;fill:none}.frame{stroke:#666;fill:none}"
      ".line{fill:none;stroke-width:1.8;stroke-linejoin:round}</style>\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      width, height, width, height);
  put_ticks(out, &x, &y, false, false);
  put_ticks(out, &y, &x, true, p->log_y);
  vtb_strbuf_printf(out, "<path class=\"frame\" d=\"M%d %dV%dH%d\"/>\n", x.from, y.to, y.from,
                    x.to);
  for (size_t s = 0; s < p->n_series; s++)
    put_series(out, p, &p->series[s], &x, &y, colours[s % N_COLOURS]);
  put_legend(out, p, &x, &y);
  put_text(out, width / 2.0, 20, "middle", " class=\"title\"", p->title);
  put_text(out, (x.from + x.to) / 2.0, height - 12, "middle", "", p->x_label);
  char turn[64];
  snprintf(turn, sizeof turn, " transform=\"rotate(-90 16 %d)\"", (y.from + y.to) / 2);
  put_text(out, 16, (y.from + y.to) / 2.0, "middle", turn, p->y_label);
  vtb_strbuf_puts(out, "</svg>\n");
}

vtb_status vtb_plot_save(const vtb_plot *p, const char *path, vtb_error *err) {
  vtb_strbuf out = VTB_CHECKED_STRBUF;
  vtb_plot_svg(p, &out);
  vtb_status status = vtb_strbuf_check(&out, err);
  if (status == VTB_OK) status = vtb_file_write_atomic(path, out.at, out.n, err);
  vtb_strbuf_free(&out);
  return status;
}

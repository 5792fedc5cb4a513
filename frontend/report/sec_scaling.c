/* Time and memory against tokens and against the size of a chunk, on logarithmic axes, where the
 * best line changes, and the same numbers as a table. */
#include "frontend/report/chart.h"
#include "frontend/report/lines.h"
#include "frontend/report/markup.h"
#include "frontend/report/number.h"
#include "frontend/report/sections.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BOLD 1.15 /* wider */
enum { WIDTH = 520, HEIGHT = 360, MOST_LINES = 32, MOST_X = 24, LABEL = 22, SPACE = 14 };

typedef struct scaling {
  const rp_report *r;
  ln_across across;
  rp_measure m;
  ln_lines lines;
  ln_crossings crossings;
  size_t first; /* the best line at the smallest x */
  bool crosses; /* two lines or more, so that there is a best one */
  double x[MOST_X];
  int n_x;
} scaling;

static const char *across_name(ln_across a) { return a == LN_TOKENS ? "tokens" : "chunk size"; }

/* ---- reading --------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void note_x(scaling *s, double x) {
  for (int i = 0; i < s->n_x; i++)
    if (s->x[i] == x) return;
  if (s->n_x < MOST_X) s->x[s->n_x++] = x;
}

static bool scaling_read(scaling *s) {
  ln_collect(s->r, s->across, s->m, &s->lines);
  if (s->lines.n == 0 || s->lines.n > MOST_LINES) return false;
  for (size_t i = 0; i < s->lines.n; i++)
    for (size_t k = 0; k < s->lines.at[i].cells.n; k++)
      note_x(s, ln_x(s->lines.at[i].cells.at[k], s->across));
  qsort(s->x, (size_t)s->n_x, sizeof *s->x, by_size);
  s->crosses = ln_cross(s->r, s->across, s->m, &s->lines, &s->crossings, &s->first);
  return true;
}

/* A measure that is the same everywhere is no chart. */
static bool differs(const scaling *s) {
  double first = s->lines.at[0].cells.at[0]->mean[s->m];
  for (size_t i = 0; i < s->lines.n; i++)
    for (size_t k = 0; k < s->lines.at[i].cells.n; k++)
      if (s->lines.at[i].cells.at[k]->mean[s->m] != first) return true;
  return false;
}

static void scaling_free(scaling *s) {
  ln_free(&s->lines);
  vtb_vec_free(&s->crossings);
}

/* ---- the chart ------------------------------------------------------------------------------- */

static double place_y(const chart *c, const scaling *s, double value) {
  return sc_at(&c->y, rp_in_unit(s->r, s->m, value));
}

static void draw_line(chart *c, const scaling *s, size_t number) {
  const ln_line *l = &s->lines.at[number];
  mk(c->out, "<g class=\"s%d\"><path class=\"line d%d\" d=\"", (int)(number % CH_COLOURS),
     (int)(number / CH_COLOURS % CH_DASHES));
  for (size_t i = 0; i < l->cells.n; i++)
    mk(c->out, "%c%.1f %.1f", i ? 'L' : 'M', sc_at(&c->x, ln_x(l->cells.at[i], s->across)),
       place_y(c, s, l->cells.at[i]->mean[s->m]));
  vtb_strbuf_puts(c->out, "\"/></g>\n");
  for (size_t i = 0; i < l->cells.n; i++) {
    const rp_cell *cell = l->cells.at[i];
    char text[32], x[32];
    mk(c->out, "<g class=\"mark s%d\" data-cell=\"%d\"><title>%s\n%s %s\n%s: %s</title>",
       (int)(number % CH_COLOURS), cell->number, l->label, nr_tick(ln_x(cell, s->across), x),
       across_name(s->across), rp_name(s->r, s->m), rp_format(s->r, s->m, cell->mean[s->m], text));
    ch_mark(c, (int)(number % CH_SHAPES), sc_at(&c->x, ln_x(cell, s->across)),
            place_y(c, s, cell->mean[s->m]), 3.6);
    vtb_strbuf_puts(c->out, "</g>\n");
  }
}

static void draw_crossings(chart *c, const scaling *s) {
  for (size_t i = 0; i < s->crossings.n; i++) {
    const ln_crossing *k = &s->crossings.at[i];
    char text[32], label[48];
    double x = sc_at(&c->x, k->x), y = place_y(c, s, k->y);
    mk(c->out, "<circle class=\"cross\" cx=\"%.1f\" cy=\"%.1f\" r=\"8\"/>", x, y);
    ch_take(c, x - 8, y - 8, 16, 16);
    snprintf(label, sizeof label, "\xE2\x89\x88 %s", nr_digits(k->x, 2, text));
    ch_label(c, x + 3, y, label, "strong");
  }
}

/* Across chunks: a ring at each line's best. */
static const rp_cell *best_of_line(const scaling *s, const ln_line *l) {
  const rp_cell *best = l->cells.at[0];
  for (size_t i = 1; i < l->cells.n; i++)
    if (l->cells.at[i]->mean[s->m] < best->mean[s->m]) best = l->cells.at[i];
  return best;
}

static void draw_best(chart *c, const scaling *s) {
  for (size_t i = 0; i < s->lines.n; i++) {
    const rp_cell *best = best_of_line(s, &s->lines.at[i]);
    mk(c->out, "<circle class=\"cross\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\"/>\n",
       sc_at(&c->x, ln_x(best, s->across)), place_y(c, s, best->mean[s->m]));
  }
}

/* ---- names at the lines' ends ---------------------------------------------------------------- */

typedef struct end_name {
  size_t line;
  double y, at; /* of the line's end, of its name */
} end_name;

static int by_height(const void *a, const void *b) {
  const end_name *x = a, *y = b;
  return (x->y > y->y) - (x->y < y->y);
}

/* Names keep the lines' order and push each other apart, from the top down and then back up. */
static void spread_names(end_name *e, size_t n, double lowest) {
  qsort(e, n, sizeof *e, by_height);
  for (size_t i = 0; i < n; i++) {
    e[i].at = e[i].y;
    if (i && e[i].at < e[i - 1].at + SPACE) e[i].at = e[i - 1].at + SPACE;
  }
  for (size_t i = n; i-- > 0;) {
    double most = i + 1 < n ? e[i + 1].at - SPACE : lowest;
    if (e[i].at > most) e[i].at = most;
  }
}

static void draw_names(chart *c, const scaling *s) {
  end_name e[MOST_LINES];
  vtb_strbuf room = {0};
  for (size_t i = 0; i < s->lines.n; i++) {
    const ln_line *l = &s->lines.at[i];
    e[i] = (end_name){.line = i, .y = place_y(c, s, l->cells.at[l->cells.n - 1]->mean[s->m])};
  }
  spread_names(e, s->lines.n, c->y.from + 8);
  for (size_t i = 0; i < s->lines.n; i++) {
    const ln_line *l = &s->lines.at[e[i].line];
    double from = sc_at(&c->x, ln_x(l->cells.at[l->cells.n - 1], s->across)) + 5;
    mk(c->out, "<g class=\"s%d\"><path class=\"lead\" d=\"M%.1f %.1fL%.1f %.1f\"/>",
       (int)(e[i].line % CH_COLOURS), from, e[i].y, c->x.to + 6, e[i].at);
    mk(c->out, "<text class=\"own\" x=\"%.1f\" y=\"%.1f\">%s</text></g>\n", c->x.to + 9,
       e[i].at + 4, ch_short(l->label, LABEL, &room));
  }
  vtb_strbuf_free(&room);
}

static double names_width(const scaling *s) {
  vtb_strbuf room = {0};
  double most = 0;
  for (size_t i = 0; i < s->lines.n; i++) {
    double w = BOLD * ch_text_width(ch_short(s->lines.at[i].label, LABEL, &room));
    if (w > most) most = w;
  }
  vtb_strbuf_free(&room);
  return most;
}

static void take_all(chart *c, const scaling *s) {
  for (size_t i = 0; i < s->lines.n; i++)
    for (size_t k = 0; k < s->lines.at[i].cells.n; k++) {
      sc_take(&c->x, ln_x(s->lines.at[i].cells.at[k], s->across));
      sc_take(&c->y, rp_in_unit(s->r, s->m, s->lines.at[i].cells.at[k]->mean[s->m]));
    }
}

static void draw(const scaling *s, vtb_strbuf *out) {
  double tall = 72 + SPACE * (double)s->lines.n;
  chart c = ch_new(out, WIDTH, tall > HEIGHT ? tall : HEIGHT);
  c.right = 18 + names_width(s);
  c.x.log = c.y.log = true;
  take_all(&c, s);
  ch_begin(&c, rp_name(s->r, s->m));
  ch_x_axis(&c, across_name(s->across), s->x, s->n_x);
  ch_y_axis(&c, rp_unit_name(s->r, s->m));
  for (size_t i = 0; i < s->lines.n; i++) draw_line(&c, s, i);
  draw_names(&c, s);
  if (s->across == LN_CHUNK)
    draw_best(&c, s);
  else
    draw_crossings(&c, s);
  ch_end(&c);
}

/* ---- in words -------------------------------------------------------------------------------- */

/* "a chunk of 64: image 448, image 640; 32: image 224". */
static void say_best(const scaling *s, vtb_strbuf *out) {
  int n = 0;
  mk(out, "<figcaption>%s at a chunk of ", s->m == RP_MS ? "Fastest" : "Least");
  for (int k = 0; k < s->n_x; k++) {
    int of_x = 0;
    for (size_t i = 0; i < s->lines.n; i++) {
      if (ln_x(best_of_line(s, &s->lines.at[i]), s->across) != s->x[k]) continue;
      if (of_x++ == 0) mk(out, "%s<b>%.0f</b> for ", n++ ? "; of " : "", s->x[k]);
      mk(out, "%s<code>%s</code>", of_x > 1 ? ", " : "", s->lines.at[i].label);
    }
  }
  vtb_strbuf_puts(out, ".</figcaption>\n");
}

static void say(const scaling *s, vtb_strbuf *out) {
  if (s->across == LN_CHUNK) {
    say_best(s, out);
    return;
  }
  if (!s->crosses) return;
  const char *least = s->m == RP_MS ? "is fastest" : "takes least";
  ln_lead lead = s->crossings.n ? LN_LEADS : ln_lead_of(s->r, s->across, s->m, &s->lines, s->first);
  if (lead == LN_LEVEL) {
    vtb_strbuf_puts(out, "<figcaption>No line is told from the others.</figcaption>\n");
    return;
  }
  mk(out, "<figcaption><code>%s</code> %s", s->lines.at[s->first].label, least);
  if (s->crossings.n == 0)
    mk(out, lead == LN_SHARES ? " throughout, alone or with others" : " throughout");
  for (size_t i = 0; i < s->crossings.n; i++) {
    char x[32];
    mk(out, "%s to about %s %s, then <code>%s</code>", i ? "" : " up",
       nr_digits(s->crossings.at[i].x, 2, x), across_name(s->across),
       s->lines.at[s->crossings.at[i].to].label);
  }
  vtb_strbuf_puts(out, ".</figcaption>\n");
}

/* ---- as a table ------------------------------------------------------------------------------ */

static const rp_cell *cell_at(const scaling *s, const ln_line *l, double x) {
  for (size_t i = 0; i < l->cells.n; i++)
    if (ln_x(l->cells.at[i], s->across) == x) return l->cells.at[i];
  return NULL;
}

/* Whether two cells are compared: those of a column, but across chunks those of a line. */
static bool compared(const scaling *s, size_t line, double x, size_t other, const rp_cell *d) {
  if (s->across == LN_CHUNK) return line == other;
  return !s->lines.at[other].chooses && ln_x(d, s->across) == x;
}

static const rp_cell *best_for(const scaling *s, size_t line, double x) {
  const rp_cell *best = NULL;
  for (size_t i = 0; i < s->lines.n; i++)
    for (size_t k = 0; k < s->lines.at[i].cells.n; k++) {
      const rp_cell *d = s->lines.at[i].cells.at[k];
      if (!compared(s, line, x, i, d)) continue;
      if (!best || rp_direction(s->r, s->m) * (d->mean[s->m] - best->mean[s->m]) > 0) best = d;
    }
  return best;
}

/* Bold is what beats all it is compared with; what the best does not beat is near. */
static const char *standing(const scaling *s, size_t line, double x, const rp_cell *c) {
  const rp_cell *best = c ? best_for(s, line, x) : NULL;
  bool alone = true;
  if (!best) return "num";
  for (size_t i = 0; i < s->lines.n; i++)
    for (size_t k = 0; k < s->lines.at[i].cells.n; k++) {
      const rp_cell *d = s->lines.at[i].cells.at[k];
      if (d != best && compared(s, line, x, i, d) && !rp_beats(s->r, s->m, best, d)) alone = false;
    }
  if (c == best) return alone ? "num best" : "num near";
  bool known = !isnan(c->spread[s->m]) && !isnan(best->spread[s->m]);
  return known && !rp_beats(s->r, s->m, best, c) ? "num near" : "num";
}

static void as_table(const scaling *s, vtb_strbuf *out) {
  mk(out, "<div class=\"scroll\"><table><caption>%s</caption><thead><tr><th scope=\"col\">%s</th>",
     rp_name(s->r, s->m), across_name(s->across));
  for (int i = 0; i < s->n_x; i++) mk(out, "<th scope=\"col\" class=\"num\">%.0f</th>", s->x[i]);
  vtb_strbuf_puts(out, "</tr></thead><tbody>\n");
  for (size_t i = 0; i < s->lines.n; i++) {
    mk(out, "<tr><th scope=\"row\">%s</th>", s->lines.at[i].label);
    for (int k = 0; k < s->n_x; k++) {
      const rp_cell *c = cell_at(s, &s->lines.at[i], s->x[k]);
      char text[32];
      mk(out, "<td class=\"%s\"><span>%s</span></td>", standing(s, i, s->x[k], c),
         rp_format(s->r, s->m, c ? c->mean[s->m] : (double)NAN, text));
    }
    vtb_strbuf_puts(out, "</tr>\n");
  }
  vtb_strbuf_puts(out, "</tbody></table></div>\n");
}

/* ---- the section ----------------------------------------------------------------------------- */

static bool across(const rp_report *r, ln_across a, vtb_strbuf *out) {
  const rp_measure measures[] = {RP_MS, rp_has(r, RP_WORKSPACE) ? RP_WORKSPACE : RP_PEAK};
  vtb_strbuf tables = {0};
  int n = 0;
  for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
    scaling s = {.r = r, .across = a, .m = measures[i]};
    if (scaling_read(&s) && differs(&s)) {
      if (n++ == 0)
        mk(out, "<h3>Against %s</h3>\n<div class=\"panels\">\n",
           a == LN_TOKENS ? "tokens" : "chunk size");
      vtb_strbuf_puts(out, "<figure><div class=\"scroll\">");
      draw(&s, out);
      vtb_strbuf_puts(out, "</div>");
      say(&s, out);
      vtb_strbuf_puts(out, "</figure>\n");
      as_table(&s, &tables);
    }
    scaling_free(&s);
  }
  if (n) {
    vtb_strbuf_puts(out, "</div>\n<h3>The same as numbers</h3>\n<div class=\"panels\">\n");
    vtb_strbuf_write(out, tables.at, tables.n);
    vtb_strbuf_puts(out, "</div>\n");
  }
  vtb_strbuf_free(&tables);
  return n > 0;
}

bool sec_scaling(const rp_report *r, vtb_strbuf *out) {
  vtb_strbuf body = {0};
  bool any = across(r, LN_TOKENS, &body);
  any |= across(r, LN_CHUNK, &body);
  if (any) {
    vtb_strbuf_puts(out,
                    "<section id=\"scaling\">\n<h2>How it grows</h2>\n<p>Both axes are "
                    "logarithmic. A ring is where the best line changes, or a line's best chunk; "
                    "a line that is ahead by less than the spread does not take over.</p>\n");
    vtb_strbuf_write(out, body.at, body.n);
    vtb_strbuf_puts(out, "</section>\n");
  }
  vtb_strbuf_free(&body);
  return any;
}

/* Time and memory against tokens and against the size of a chunk, on logarithmic axes, where the
 * best line changes, and the same numbers as a table. */
#include "frontend/report/view.h"

#include <stdlib.h>

enum { WIDTH = 520, HEIGHT = 360, MOST_LINES = 32, MOST_X = 24, SPACE = 14 };

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

/* False where there is nothing to draw; a measure that is the same everywhere is no chart. */
static bool read_lines(scaling *s) {
  bool differs = false;
  ln_collect(s->r, s->across, s->m, &s->lines);
  if (s->lines.n == 0 || s->lines.n > MOST_LINES) return false;
  double first = s->lines.at[0].cells.at[0]->mean[s->m];
  for (size_t i = 0; i < s->lines.n; i++)
    for (size_t k = 0; k < s->lines.at[i].cells.n; k++) {
      note_x(s, ln_x(s->lines.at[i].cells.at[k], s->across));
      differs |= s->lines.at[i].cells.at[k]->mean[s->m] != first;
    }
  qsort(s->x, (size_t)s->n_x, sizeof *s->x, by_size);
  s->crosses = ln_cross(s->r, s->across, s->m, &s->lines, &s->crossings, &s->first);
  return differs;
}

/* ---- the chart ------------------------------------------------------------------------------- */

static draw_point point_of(const scaling *s, const rp_cell *c) {
  return (draw_point){ln_x(c, s->across), rp_in_unit(s->r, s->m, c->mean[s->m])};
}

static ch_sign sign_of(size_t line) {
  return (ch_sign){(int)line, (int)line, (int)(line / DRAW_N_SERIES)};
}

static void draw_line(chart *c, const scaling *s, size_t number) {
  const ln_line *l = &s->lines.at[number];
  vtb_strbuf tip = {0};
  draw_point *at = vtb_xcalloc(l->cells.n + 1, sizeof *at);
  for (size_t i = 0; i < l->cells.n; i++) at[i] = point_of(s, l->cells.at[i]);
  ch_line(c, sign_of(number), 2.2, at, l->cells.n);
  for (size_t i = 0; i < l->cells.n; i++) {
    char text[32], x[32];
    vtb_strbuf_format(&tip, "%s\n%s %s\n%s: %s", l->label, nr_tick(at[i].x, x),
                      across_name(s->across), rp_name(s->r, s->m),
                      rp_format(s->r, s->m, l->cells.at[i]->mean[s->m], text));
    ch_dot(c, sign_of(number), 3.6, at[i], 0, (grouping){tip.at, .cell = l->cells.at[i]->number});
  }
  vtb_strbuf_free(&tip);
  vtb_free(at);
}

/* Across chunks. */
static const rp_cell *best_of_line(const scaling *s, const ln_line *l) {
  const rp_cell *best = l->cells.at[0];
  for (size_t i = 1; i < l->cells.n; i++)
    if (l->cells.at[i]->mean[s->m] < best->mean[s->m]) best = l->cells.at[i];
  return best;
}

/* At each line's best chunk, or where the best line changes. */
static void draw_rings(chart *c, const scaling *s) {
  for (size_t i = 0; s->across == LN_CHUNK && i < s->lines.n; i++) {
    draw_point at = point_of(s, best_of_line(s, &s->lines.at[i]));
    ch_ring(c, sc_at(&c->x, at.x), sc_at(&c->y, at.y), 7);
  }
  for (size_t i = 0; s->across == LN_TOKENS && i < s->crossings.n; i++) {
    const ln_crossing *k = &s->crossings.at[i];
    char text[32], label[48];
    double x = sc_at(&c->x, k->x), y = sc_at(&c->y, rp_in_unit(s->r, s->m, k->y));
    ch_ring(c, x, y, 8);
    ch_take(c, x - 8, y - 8, 16, 16);
    snprintf(label, sizeof label, "\xE2\x89\x88 %s", nr_digits(k->x, 2, text));
    ch_label(c, x + 3, y, label, true);
  }
}

static void draw(const scaling *s, picture *p) {
  double tall = 72 + SPACE * (double)s->lines.n;
  ch_name names[MOST_LINES];
  chart c = ch_new(p, WIDTH, tall > HEIGHT ? tall : HEIGHT);
  c.x.log = c.y.log = true;
  for (size_t i = 0; i < s->lines.n; i++) {
    const ln_line *l = &s->lines.at[i];
    names[i] = (ch_name){.text = l->label, .sign = sign_of(i)};
    for (size_t k = 0; k < l->cells.n; k++) {
      sc_take(&c.x, point_of(s, l->cells.at[k]).x);
      sc_take(&c.y, point_of(s, l->cells.at[k]).y);
    }
  }
  c.right = 18 + ch_end_names_width(names, s->lines.n);
  ch_begin(&c);
  ch_x_axis(&c, across_name(s->across), s->x, s->n_x);
  ch_y_axis(&c, rp_unit_name(s->r, s->m));
  for (size_t i = 0; i < s->lines.n; i++) {
    const ln_line *l = &s->lines.at[i];
    draw_point end = point_of(s, l->cells.at[l->cells.n - 1]);
    names[i].x = sc_at(&c.x, end.x);
    names[i].y = sc_at(&c.y, end.y);
    draw_line(&c, s, i);
  }
  ch_end_names(&c, names, s->lines.n);
  draw_rings(&c, s);
  ch_free(&c);
}

/* ---- in words -------------------------------------------------------------------------------- */

/* "chunks": of each size the lines that are best with it. */
static void add_chunks(const scaling *s, cJSON *to) {
  cJSON *list = view_list(to, "chunks");
  for (int k = 0; k < s->n_x; k++) {
    cJSON *of_x = NULL;
    for (size_t i = 0; i < s->lines.n; i++) {
      if (ln_x(best_of_line(s, &s->lines.at[i]), s->across) != s->x[k]) continue;
      if (!of_x) of_x = view_list(doc_item(list, F("chunk", s->x[k])), "lines");
      doc_item(of_x, F("label", s->lines.at[i].label));
    }
  }
}

/* ---- as a table ------------------------------------------------------------------------------ */

static const rp_cell *cell_at(const scaling *s, const ln_line *l, double x) {
  for (size_t i = 0; i < l->cells.n; i++)
    if (ln_x(l->cells.at[i], s->across) == x) return l->cells.at[i];
  return NULL;
}

/* True if two cells are compared: those of a column, but across chunks those of a line. */
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
  if (!best) return "";
  for (size_t i = 0; i < s->lines.n; i++)
    for (size_t k = 0; k < s->lines.at[i].cells.n; k++) {
      const rp_cell *d = s->lines.at[i].cells.at[k];
      if (d != best && compared(s, line, x, i, d) && !rp_beats(s->r, s->m, best, d)) alone = false;
    }
  if (c == best) return alone ? " best" : " near";
  bool known = !isnan(c->spread[s->m]) && !isnan(best->spread[s->m]);
  return known && !rp_beats(s->r, s->m, best, c) ? " near" : "";
}

static void add_table(const scaling *s, cJSON *to) {
  cJSON *columns = view_list(to, "columns"), *rows = view_list(to, "rows");
  for (int i = 0; i < s->n_x; i++) doc_item(columns, F("x", s->x[i]));
  for (size_t i = 0; i < s->lines.n; i++) {
    cJSON *cells = cJSON_CreateArray();
    for (int k = 0; k < s->n_x; k++) {
      const rp_cell *c = cell_at(s, &s->lines.at[i], s->x[k]);
      doc_item(cells, F("standing", standing(s, i, s->x[k], c)),
               K("text", c ? SHOWN(s->r, s->m, c->mean[s->m]) : NULL));
    }
    doc_item(rows, F("label", s->lines.at[i].label), F("cells", cells));
  }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void add_measure(const rp_report *r, ln_across across, rp_measure m, cJSON *list) {
  scaling s = {.r = r, .across = across, .m = m};
  picture p = {0};
  if (read_lines(&s)) {
    draw(&s, &p);
    cJSON *out = doc_item(list, F("name", rp_name(r, m)), F("time", (bool)(m == RP_MS)),
                          {"chart", view_picture(&p, "chart", rp_name(r, m))});
    add_table(&s, out);
    if (across == LN_CHUNK)
      add_chunks(&s, out);
    else if (s.crosses)
      doc_put(out, F("lines", view_lines(r, across, m, &s.lines, &s.crossings, s.first)));
  }
  ln_free(&s.lines);
  vtb_vec_free(&s.crossings);
}

void view_scaling(const rp_report *r, cJSON *view) {
  cJSON *list = view_list(view, "scaling");
  for (ln_across a = LN_TOKENS; a <= LN_CHUNK; a++) {
    cJSON *measures = cJSON_CreateArray();
    add_measure(r, a, RP_MS, measures);
    add_measure(r, a, rp_has(r, RP_WORKSPACE) ? RP_WORKSPACE : RP_PEAK, measures);
    if (cJSON_GetArraySize(measures))
      doc_item(list, F("name", across_name(a)), F("measures", measures));
    else
      cJSON_Delete(measures);
  }
}

/* Main effects: a row of dots an axis, all axes on one scale; and two axes at a time as a table
 * shaded by value. */
#include "frontend/report/effects.h"
#include "frontend/report/view.h"

enum { WIDTH = 340, ROW = 24, MOST_VALUES = 24, MOST_PAIRS = 6, MOST_COLUMNS = 12, LABEL = 18 };

/* ---- one axis -------------------------------------------------------------------------------- */

static double label_width(const rp_axis *a) {
  vtb_strbuf room = {0};
  double most = 0;
  for (size_t i = 0; i < a->values.n; i++)
    most = fmax(most, ch_text_width(ch_short(a->labels.at[i], LABEL, &room)));
  vtb_strbuf_free(&room);
  return most;
}

static void draw_value(const rp_report *r, rp_measure m, chart *c, const fx_value *v,
                       const char *name, double y) {
  vtb_strbuf text = {0};
  char mean[32], low[32], high[32];
  picture_text(c->to, c->left - 10, y + 4, CH_LETTERS(DRAW_SOFT, ANCHOR_END, false),
               ch_short(name, LABEL, &text));
  if (v->n) {
    vtb_strbuf_format(&text, "%s\nmean %s over %d cells\nfrom %s to %s", name,
                      rp_format(r, m, v->mean, mean), v->n, rp_format(r, m, v->low, low),
                      rp_format(r, m, v->high, high));
    picture_begin(c->to, (grouping){.tip = text.at, .cell = -1});
    picture_line(c->to, sc_at(&c->x, rp_in_unit(r, m, v->low)), y,
                 sc_at(&c->x, rp_in_unit(r, m, v->high)), y,
                 (pen){.colour = ch_colour(0), .size = 7, .opacity = 0.3});
    ch_mark(c->to, (ch_sign){0}, DRAW_NONE, sc_at(&c->x, rp_in_unit(r, m, v->mean)), y, 5);
    picture_end(c->to);
    picture_text(c->to, c->to->width - 2, y + 4, CH_LETTERS(DRAW_INK, ANCHOR_END, true), mean);
  }
  vtb_strbuf_free(&text);
}

static void add_panel(const rp_report *r, rp_measure m, size_t axis, const fx_axis *f,
                      sc_scale scale, double left, cJSON *list) {
  const rp_axis *a = &r->axes.at[axis];
  picture p = {0};
  chart c = ch_new(&p, WIDTH, 62 + ROW * (double)a->values.n);
  c.left = left;
  c.right = 66;
  c.top = 24;
  c.bottom = 38;
  c.x = scale;
  ch_begin(&c);
  picture_text(&p, 4, 14, CH_LETTERS(DRAW_INK, ANCHOR_START, true), a->name);
  ch_x_axis(&c, rp_unit_name(r, m), NULL, 0);
  for (size_t i = 0; i < f->values.n; i++)
    draw_value(r, m, &c, &f->values.at[i], a->labels.at[i], c.top + ROW * ((double)i + 0.5));
  doc_item(list, {"chart", view_picture(&p, "chart", a->name)});
}

static bool shown(const rp_axis *a) { return a->varies && a->values.n <= MOST_VALUES; }

/* All panels of a measure have one scale. */
static sc_scale common_scale(const rp_report *r, rp_measure m, const fx_axis *f) {
  sc_scale s = {.log = true};
  for (size_t i = 0; i < r->axes.n; i++)
    for (size_t k = 0; shown(&r->axes.at[i]) && k < f[i].values.n; k++) {
      sc_take(&s, rp_in_unit(r, m, f[i].values.at[k].low));
      sc_take(&s, rp_in_unit(r, m, f[i].values.at[k].high));
    }
  s.log = s.any && s.high / s.low > 3;
  return s;
}

static void add_measure(const rp_report *r, rp_measure m, const fx_axis *f, cJSON *list) {
  cJSON *panels = cJSON_CreateArray();
  sc_scale scale = common_scale(r, m, f);
  bool matched = true;
  double left = 40;
  for (size_t i = 0; i < r->axes.n; i++) {
    if (!shown(&r->axes.at[i])) continue;
    matched &= f[i].matched;
    left = fmax(left, label_width(&r->axes.at[i]) + 16);
  }
  for (size_t i = 0; i < r->axes.n; i++)
    if (shown(&r->axes.at[i])) add_panel(r, m, i, &f[i], scale, left, panels);
  double usual = m == rp_quality(r) ? rp_usual_spread(r, m) : 0;
  doc_item(list, F("name", rp_name(r, m)), F("speed", (bool)(m != rp_quality(r))),
           K("usual", usual > 0 ? SHOWN(r, m, usual) : NULL),
           K("margin", DIGITS_OF(100 * r->margin, 2)), F("unmatched", (bool)!matched),
           F("panels", panels));
}

/* ---- two axes -------------------------------------------------------------------------------- */

/* The scale of shades: of the column or the row alone where its axis is one of sizes, which are no
 * rivals in speed. */
static sc_scale shades(const rp_report *r, rp_measure m, size_t a, int a_value, size_t b,
                       int b_value) {
  sc_scale s = {.from = 0, .to = 1};
  bool timed = fx_geometric(m);
  for (int i = 0; i < (int)r->axes.at[a].values.n; i++)
    for (int k = 0; k < (int)r->axes.at[b].values.n; k++) {
      bool other =
          (r->axes.at[a].resizes && i != a_value) || (r->axes.at[b].resizes && k != b_value);
      if (!timed || !other) sc_take(&s, fx_pair(r, m, a, i, b, k));
    }
  return s;
}

static void add_pair(const rp_report *r, rp_measure m, size_t a, size_t b, cJSON *list) {
  const rp_axis *rows = &r->axes.at[a], *columns = &r->axes.at[b];
  cJSON *heads = cJSON_CreateArray(), *lines = cJSON_CreateArray();
  for (size_t k = 0; k < columns->values.n; k++) doc_item(heads, F("label", columns->labels.at[k]));
  for (int i = 0; i < (int)rows->values.n; i++) {
    cJSON *cells = cJSON_CreateArray();
    for (int k = 0; k < (int)columns->values.n; k++) {
      sc_scale s = shades(r, m, a, i, b, k);
      double x = fx_pair(r, m, a, i, b, k), part = s.high > s.low ? sc_at(&s, x) : 0.5;
      if (rp_direction(r, m) < 0) part = 1 - part;
      doc_item(cells, F("part", isnan(x) ? 0 : part), K("text", SHOWN(r, m, x)));
    }
    doc_item(lines, F("label", rows->labels.at[i]), F("cells", cells));
  }
  doc_item(list, F("name", rp_name(r, m)), F("down", rows->name), F("across", columns->name),
           F("columns", heads), F("rows", lines));
}

static void add_pairs(const rp_report *r, const rp_measure *measures, int n_measures, cJSON *list) {
  int n = 0;
  for (size_t a = 0; a < r->axes.n; a++)
    for (size_t b = a + 1; b < r->axes.n && n < MOST_PAIRS; b++) {
      const rp_axis *x = &r->axes.at[a], *y = &r->axes.at[b];
      if (!shown(x) || !shown(y)) continue;
      bool wide = y->values.n > MOST_COLUMNS || y->values.n > x->values.n;
      for (int i = 0; i < n_measures; i++)
        add_pair(r, measures[i], wide ? b : a, wide ? a : b, list);
      n++;
    }
}

/* ---- both ------------------------------------------------------------------------------------ */

void view_effects(const rp_report *r, cJSON *view) {
  rp_measure m[2];
  int n = 0, axes = 0;
  if (rp_quality(r) != RP_MEASURES) m[n++] = rp_quality(r);
  if (rp_speed(r) != RP_MEASURES) m[n++] = rp_speed(r);
  for (size_t i = 0; i < r->axes.n; i++) axes += shown(&r->axes.at[i]);
  if (!n || !axes) return;
  cJSON *out = view_object(view, "effects"), *list = view_list(out, "measures");
  for (int i = 0; i < n; i++) {
    fx_axis *f = vtb_xcalloc(r->axes.n, sizeof *f);
    for (size_t k = 0; k < r->axes.n; k++) f[k] = fx_main(r, m[i], k);
    add_measure(r, m[i], f, list);
    for (size_t k = 0; k < r->axes.n; k++) fx_free(&f[k]);
    vtb_free(f);
  }
  add_pairs(r, m, n, view_list(out, "pairs"));
}

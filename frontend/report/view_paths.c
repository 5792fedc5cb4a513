/* The traversals, a picture for all the cells that share it; and predicted against measured
 * times. */
#include "frontend/report/view.h"

#include <string.h>

/* ---- traversals ------------------------------------------------------------------------------ */

/* The cell's own text, or one of the document's; "" if it has none. */
static const char *picture_of(const rp_report *r, size_t cell) {
  const cJSON *own = study_member(r->cells.at[cell].json, "paths");
  if (cJSON_IsNumber(own) && own->valuedouble >= 0 && own->valuedouble < 1e6)
    own = cJSON_GetArrayItem(study_member(r->json, "pictures"), (int)own->valuedouble);
  const char *text = cJSON_GetStringValue(own);
  return text ? text : "";
}

static bool drawn_before(const rp_report *r, size_t number, const char *svg) {
  for (size_t i = 0; i < number; i++)
    if (strcmp(picture_of(r, i), svg) == 0) return true;
  return false;
}

/* The value of an axis that all cells with the picture share and others have not; -1: none. */
static int own_value(const rp_report *r, size_t axis, const char *svg) {
  int value = -1;
  bool first = true, others = false;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (strcmp(picture_of(r, i), svg) != 0) continue;
    if (!first && c->value[axis] != value) return -1;
    value = c->value[axis];
    first = false;
  }
  for (size_t i = 0; i < r->cells.n; i++) others |= r->cells.at[i].value[axis] != value;
  return others ? value : -1;
}

static void add_picture(const rp_report *r, size_t number, cJSON *list) {
  enum { MOST_NAMED = 8 };
  const char *svg = picture_of(r, number);
  cJSON *values = cJSON_CreateArray(), *cells = cJSON_CreateArray();
  int n = 0;
  for (size_t i = 0; i < r->axes.n; i++) {
    int v = own_value(r, i, svg);
    if (v >= 0)
      doc_item(values, F("axis", r->axes.at[i].name), F("text", r->axes.at[i].values.at[v]));
  }
  for (size_t i = 0; i < r->cells.n; i++)
    if (strcmp(picture_of(r, i), svg) == 0 && n++ < MOST_NAMED)
      doc_item(cells, F("number", i), F("n", i + 1));
  doc_item(list, F("label", r->cells.at[number].label), F("svg", svg), F("values", values),
           F("cells", cells), F("more", n > MOST_NAMED ? n - MOST_NAMED : 0));
}

void view_paths(const rp_report *r, cJSON *view) {
  cJSON *list = view_list(view, "paths");
  int large = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    large += cJSON_IsNumber(study_member(r->cells.at[i].json, "paths_bytes"));
    const char *svg = picture_of(r, i);
    if (strstr(svg, "<svg") && !drawn_before(r, i, svg)) add_picture(r, i, list);
  }
  doc_put(view, F("too_large", large));
}

/* ---- the compiler's view --------------------------------------------------------------------- */

static bool both(const rp_cell *c) { return c->predicted > 0 && c->mean[RP_MS] > 0; }

static void draw_cell(const rp_report *r, chart *c, const rp_cell *cell) {
  vtb_strbuf tip = {0};
  char a[32], b[32];
  vtb_strbuf_format(&tip, "%s\npredicted %s ms\nmeasured %s ms", cell->label,
                    nr_digits(cell->predicted, 3, a), nr_digits(cell->mean[RP_MS], 3, b));
  ch_dot(c, view_sign(r, cell), 5, (draw_point){cell->predicted, cell->mean[RP_MS]}, 0,
         (grouping){tip.at, .cell = cell->number});
  vtb_strbuf_free(&tip);
}

static void add_prediction(const rp_report *r, cJSON *to) {
  picture p = {0};
  chart c = ch_new(&p, 420, 340);
  int n = 0;
  c.x.log = true;
  for (size_t i = 0; i < r->cells.n; i++) {
    if (!both(&r->cells.at[i])) continue;
    sc_take(&c.x, r->cells.at[i].predicted);
    sc_take(&c.x, r->cells.at[i].mean[RP_MS]);
    n++;
  }
  if (n < 3) return;
  c.y = c.x; /* one scale, so that the diagonal is where both agree */
  ch_begin(&c);
  ch_x_axis(&c, "predicted, ms", NULL, 0);
  ch_y_axis(&c, "measured, ms");
  picture_line(&p, c.x.from, c.y.from, c.x.to, c.y.to, (pen){DRAW_SOFT, 1, DASH_EVEN, 0});
  for (size_t i = 0; i < r->cells.n; i++)
    if (both(&r->cells.at[i])) draw_cell(r, &c, &r->cells.at[i]);
  doc_put(to, {"prediction", view_picture(&p, "chart", "measured against predicted time")});
}

void view_compiler(const rp_report *r, cJSON *view) {
  bool any = false;
  for (size_t i = 0; i < r->cells.n; i++)
    any |= cJSON_IsObject(study_member(r->cells.at[i].json, "compiler"));
  doc_put(view, F("compiled", any));
  if (any) add_prediction(r, view);
}

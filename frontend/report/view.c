/* See view.h: building the tree. */
#include "frontend/report/view.h"

#include "frontend/draw/number.h"

#include <math.h>

cJSON *view_object(cJSON *to, const char *name) { return cJSON_AddObjectToObject(to, name); }

cJSON *view_list(cJSON *to, const char *name) { return cJSON_AddArrayToObject(to, name); }

cJSON *view_item(cJSON *list) {
  cJSON *item = cJSON_CreateObject();
  cJSON_AddItemToArray(list, item);
  return item;
}

void view_text(cJSON *to, const char *name, const char *text) {
  if (*text) cJSON_AddStringToObject(to, name, text);
}

void view_number(cJSON *to, const char *name, double x) {
  if (!isnan(x)) cJSON_AddNumberToObject(to, name, x);
}

void view_flag(cJSON *to, const char *name, bool holds) {
  if (holds) cJSON_AddTrueToObject(to, name);
}

void view_measure(cJSON *to, const char *name, const rp_report *r, rp_measure m, double x) {
  char text[32];
  if (!isnan(x)) view_text(to, name, rp_format(r, m, x, text));
}

void view_digits(cJSON *to, const char *name, double x, int digits) {
  char text[32];
  if (!isnan(x)) view_text(to, name, nr_digits(x, digits, text));
}

void view_cell(cJSON *to, const char *name, const rp_cell *c) {
  cJSON *cell = c ? view_object(to, name) : NULL;
  if (!c) return;
  view_number(cell, "number", c->number);
  view_text(cell, "label", c->label);
}

void view_picture(cJSON *to, const char *name, picture *p, const char *class_name,
                  const char *what) {
  vtb_strbuf svg = {0};
  p->of_page = true;
  p->class_name = class_name;
  p->what = what;
  picture_svg(p, &svg);
  view_text(to, name, svg.at);
  vtb_strbuf_free(&svg);
  picture_free(p);
}

void view_lines(cJSON *to, const rp_report *r, ln_across across, rp_measure m,
                const ln_lines *lines, const ln_crossings *found, size_t first) {
  ln_lead lead = found->n ? LN_LEADS : ln_lead_of(r, across, m, lines, first);
  view_flag(to, "time", m == RP_MS);
  view_flag(to, "level", lead == LN_LEVEL);
  view_flag(to, "shares", lead == LN_SHARES);
  view_text(to, "first", lines->at[first].label);
  cJSON *moves = view_list(to, "moves");
  for (size_t i = 0; i < found->n; i++) {
    cJSON *move = view_item(moves);
    view_digits(move, "at", found->at[i].x, 2);
    view_text(move, "to", lines->at[found->at[i].to].label);
  }
}

/* ---- signs ----------------------------------------------------------------------------------- */

/* The first axis that varies, is not `taken` and whose values have a sign each; -1: none. */
static int axis_for(const rp_report *r, size_t most, int taken) {
  for (size_t i = 0; i < r->axes.n; i++)
    if ((int)i != taken && r->axes.at[i].varies && r->axes.at[i].values.n <= most) return (int)i;
  return -1;
}

static int colour_axis(const rp_report *r) { return axis_for(r, DRAW_N_SERIES, -1); }

static int shape_axis(const rp_report *r) {
  int colours = colour_axis(r);
  return colours < 0 ? -1 : axis_for(r, CH_SHAPES, colours);
}

static int value_of(const rp_cell *c, int axis) {
  return axis < 0 || c->value[axis] < 0 ? 0 : c->value[axis];
}

ch_sign view_sign(const rp_report *r, const rp_cell *c) {
  int colour = value_of(c, colour_axis(r)), form = value_of(c, shape_axis(r));
  return (ch_sign){colour, form, form};
}

bool view_has_signs(const rp_report *r) { return colour_axis(r) >= 0; }

static void add_axis(const rp_report *r, int axis, bool colours, cJSON *list) {
  const rp_axis *a = &r->axes.at[axis];
  cJSON *out = view_item(list), *values;
  view_text(out, "name", a->name);
  values = view_list(out, "values");
  for (int i = 0; i < (int)a->values.n; i++) {
    cJSON *value = view_item(values);
    picture key = {.width = 16, .height = 16};
    ch_mark(&key, (ch_sign){i, colours ? 0 : i, 0}, colours ? DRAW_NONE : DRAW_SOFT, 8, 8, 5);
    view_picture(value, "key", &key, "key", NULL);
    view_text(value, "label", a->labels.at[i]);
  }
}

void view_signs(const rp_report *r, cJSON *view) {
  int colours = colour_axis(r), shapes = shape_axis(r);
  cJSON *list = view_list(view, "signs");
  if (colours >= 0) add_axis(r, colours, true, list);
  if (shapes >= 0) add_axis(r, shapes, false, list);
}

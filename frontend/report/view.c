/* See view.h: building the tree. */
#include "frontend/report/view.h"

cJSON *view_object(cJSON *to, const char *name) { return cJSON_AddObjectToObject(to, name); }

cJSON *view_list(cJSON *to, const char *name) { return cJSON_AddArrayToObject(to, name); }

cJSON *view_cell(const rp_cell *c) {
  return doc_object(F("number", c->number), F("label", c->label));
}

doc_value view_picture(picture *p, const char *class_name, const char *what) {
  vtb_strbuf svg = {0};
  p->of_page = true;
  p->class_name = class_name;
  p->what = what;
  picture_svg(p, &svg);
  cJSON *text = cJSON_CreateString(svg.at);
  vtb_strbuf_free(&svg);
  picture_free(p);
  return V(text);
}

cJSON *view_lines(const rp_report *r, ln_across across, rp_measure m, const ln_lines *lines,
                  const ln_crossings *found, size_t first) {
  ln_lead lead = found->n ? LN_LEADS : ln_lead_of(r, across, m, lines, first);
  cJSON *moves = cJSON_CreateArray();
  for (size_t i = 0; i < found->n; i++)
    doc_item(moves, F("at", DIGITS_OF(found->at[i].x, 2)),
             F("to", lines->at[found->at[i].to].label));
  return doc_object(F("time", (bool)(m == RP_MS)), F("level", (bool)(lead == LN_LEVEL)),
                    F("shares", (bool)(lead == LN_SHARES)), F("first", lines->at[first].label),
                    F("moves", moves));
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
  cJSON *values = cJSON_CreateArray();
  for (int i = 0; i < (int)a->values.n; i++) {
    picture key = {.width = 16, .height = 16};
    ch_mark(&key, (ch_sign){i, colours ? 0 : i, 0}, colours ? DRAW_NONE : DRAW_SOFT, 8, 8, 5);
    doc_item(values, {"key", view_picture(&key, "key", NULL)}, F("label", a->labels.at[i]));
  }
  doc_item(list, F("name", a->name), F("values", values));
}

void view_signs(const rp_report *r, cJSON *view) {
  int colours = colour_axis(r), shapes = shape_axis(r);
  cJSON *list = view_list(view, "signs");
  if (colours >= 0) add_axis(r, colours, true, list);
  if (shapes >= 0) add_axis(r, shapes, false, list);
}

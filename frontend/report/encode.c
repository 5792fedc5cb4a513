#include "frontend/report/encode.h"
#include "frontend/report/chart.h"
#include "frontend/report/markup.h"

/* The first axis that varies, is not `taken` and whose values have a sign each. */
static int axis_for(const rp_report *r, size_t most, int taken) {
  for (size_t i = 0; i < r->axes.n; i++)
    if ((int)i != taken && r->axes.at[i].varies && r->axes.at[i].values.n <= most) return (int)i;
  return -1;
}

en_code en_choose(const rp_report *r) {
  en_code e = {.colour_axis = axis_for(r, CH_COLOURS, -1), .shape_axis = -1};
  if (e.colour_axis >= 0) e.shape_axis = axis_for(r, CH_SHAPES, e.colour_axis);
  return e;
}

static int value_of(const rp_cell *c, int axis) {
  return axis < 0 || c->value[axis] < 0 ? 0 : c->value[axis];
}

int en_colour(en_code e, const rp_cell *c) { return value_of(c, e.colour_axis) % CH_COLOURS; }

int en_shape(en_code e, const rp_cell *c) { return value_of(c, e.shape_axis) % CH_SHAPES; }

static void sign(vtb_strbuf *out, int colour, int shape) {
  chart c = {.out = out};
  vtb_strbuf_puts(out, "<svg class=\"key\" viewBox=\"0 0 16 16\" width=\"16\" height=\"16\" "
                       "aria-hidden=\"true\">");
  if (colour < 0)
    vtb_strbuf_puts(out, "<g class=\"mark plain\">");
  else
    mk(out, "<g class=\"mark s%d\">", colour);
  ch_mark(&c, shape, 8, 8, 5);
  vtb_strbuf_puts(out, "</g></svg>");
}

static void legend_of(const rp_report *r, int axis, bool colours, vtb_strbuf *out) {
  const rp_axis *a = &r->axes.at[axis];
  mk(out, "<li class=\"head\">%s</li>", a->name);
  for (int i = 0; i < (int)a->values.n; i++) {
    vtb_strbuf_puts(out, "<li>");
    sign(out, colours ? i : -1, colours ? 0 : i);
    mk(out, "%s</li>", a->labels.at[i]);
  }
}

void en_legend(const rp_report *r, en_code e, vtb_strbuf *out) {
  if (e.colour_axis < 0) return;
  vtb_strbuf_puts(out, "<ul class=\"legend\">");
  legend_of(r, e.colour_axis, true, out);
  if (e.shape_axis >= 0) legend_of(r, e.shape_axis, false, out);
  vtb_strbuf_puts(out, "</ul>\n");
}

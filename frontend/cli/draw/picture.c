/* Pictures as SVG, whose texts stay texts that can be searched and copied, and as PNG by cairo. */
#include "frontend/cli/draw/picture.h"

#include "frontend/cli/draw/canvas.h"
#include "runtime/base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIDE = 32767 }; /* of cairo's images */

void picture_add(picture *p, shape s) {
  if (s.text) s.text = vtb_xstrdup(s.text);
  vtb_vec_push(&p->shapes, s);
}

void picture_free(picture *p) {
  for (size_t i = 0; i < p->shapes.n; i++) vtb_free(p->shapes.at[i].text);
  vtb_vec_free(&p->shapes);
  *p = (picture){0};
}

double picture_text_width(const char *text, double size) { return canvas_text_width(text, size); }

/* ---- arrow heads ----------------------------------------------------------------------------- */

/* Tip, then the two corners behind it. */
static void head_corners(const shape *s, double at[3][2]) {
  double dx = s->x2 - s->x, dy = s->y2 - s->y, d = hypot(dx, dy);
  if (d < 1e-9) dx = 1, dy = 0, d = 1;
  dx /= d, dy /= d;
  at[0][0] = s->x2, at[0][1] = s->y2;
  for (int i = 1; i <= 2; i++) {
    double side = (i == 1 ? 0.5 : -0.5) * s->size;
    at[i][0] = s->x2 - dx * s->size - dy * side;
    at[i][1] = s->y2 - dy * s->size + dx * side;
  }
}

/* ---- SVG ------------------------------------------------------------------------------------- */

static void escaped(const char *text, vtb_strbuf *out) {
  vtb_strbuf visible = {0};
  vtb_text_visible(&visible, text, strlen(text));
  vtb_strbuf_xml(out, vtb_strbuf_text(&visible));
  vtb_strbuf_free(&visible);
}

static void svg_shape(const shape *s, vtb_strbuf *out) {
  double c[3][2];
  switch (s->kind) {
  case SHAPE_LINE:
    vtb_strbuf_printf(out,
                      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#%06x\" "
                      "stroke-width=\"%.1f\"",
                      s->x, s->y, s->x2, s->y2, (unsigned)s->colour, s->size);
    if (s->dash > 0) vtb_strbuf_printf(out, " stroke-dasharray=\"%.1f\"", s->dash);
    vtb_strbuf_puts(out, "/>\n");
    break;
  case SHAPE_RECT:
    vtb_strbuf_printf(
        out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#%06x\"/>\n", s->x,
        s->y, s->x2 - s->x, s->y2 - s->y, (unsigned)s->colour);
    break;
  case SHAPE_DISC:
    vtb_strbuf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#%06x\"/>\n", s->x,
                      s->y, s->size, (unsigned)s->colour);
    break;
  case SHAPE_ARROW:
    head_corners(s, c);
    vtb_strbuf_printf(out, "<polygon points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\" fill=\"#%06x\"/>\n",
                      c[0][0], c[0][1], c[1][0], c[1][1], c[2][0], c[2][1], (unsigned)s->colour);
    break;
  case SHAPE_TEXT:
    vtb_strbuf_printf(
        out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" textLength=\"%.1f\" fill=\"#%06x\">",
        s->x, s->y, s->size * 1.37, picture_text_width(s->text, s->size), (unsigned)s->colour);
    escaped(s->text, out);
    vtb_strbuf_puts(out, "</text>\n");
    break;
  }
}

vtb_status picture_write_svg(const picture *p, const char *path, vtb_error *err) {
  vtb_strbuf out = {0};
  vtb_strbuf_printf(
      &out,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
      "font-family=\"DejaVu Sans, Verdana, sans-serif\">\n<rect width=\"100%%\" height=\"100%%\" "
      "fill=\"#ffffff\"/>\n",
      p->width, p->height, p->width, p->height);
  for (size_t i = 0; i < p->shapes.n; i++) svg_shape(&p->shapes.at[i], &out);
  vtb_strbuf_puts(&out, "</svg>\n");
  vtb_status status = vtb_file_write_atomic(path, out.at, out.n, err);
  vtb_strbuf_free(&out);
  return status;
}

/* ---- PNG ------------------------------------------------------------------------------------- */

static void draw(canvas *c, const shape *s) {
  double corners[3][2];
  switch (s->kind) {
  case SHAPE_LINE:
    canvas_line(c, s->x, s->y, s->x2, s->y2, s->size, s->dash, s->colour);
    break;
  case SHAPE_RECT:
    canvas_rectangle(c, s->x, s->y, s->x2 - s->x, s->y2 - s->y, s->colour);
    break;
  case SHAPE_DISC:
    canvas_disc(c, s->x, s->y, s->size, s->colour);
    break;
  case SHAPE_ARROW:
    head_corners(s, corners);
    canvas_polygon(c, corners, 3, s->colour);
    break;
  case SHAPE_TEXT:
    canvas_text(c, s->x, s->y, s->size, s->colour, s->text);
    break;
  }
}

vtb_status picture_write_png(const picture *p, const char *path, vtb_error *err) {
  if (p->width < 1 || p->height < 1 || p->width > MOST_SIDE || p->height > MOST_SIDE)
    return vtb_fail(err, VTB_E_INPUT, "a picture of %dx%d pixels is too large for PNG; write SVG",
                    p->width, p->height);
  canvas *c = canvas_new(p->width, p->height);
  for (size_t i = 0; i < p->shapes.n; i++) draw(c, &p->shapes.at[i]);
  vtb_status status = canvas_save_png(c, path, err);
  canvas_free(c);
  return status;
}

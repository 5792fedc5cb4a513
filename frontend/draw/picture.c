/* See picture.h: the list of shapes, and its SVG. */
#include "frontend/draw/picture.h"
#include "frontend/draw/canvas.h"
#include "runtime/base/utf8.h"

#include <math.h>
#include <string.h>

static void add_shape(picture *p, shape s, const draw_point *at, size_t n, const char *text) {
  s.at = vtb_xcalloc(n + 1, sizeof *s.at);
  s.n = n;
  if (n) memcpy(s.at, at, n * sizeof *at);
  if (text) s.text = vtb_xstrdup(text);
  vtb_vec_push(&p->shapes, s);
}

void picture_path(picture *p, const draw_point *at, size_t n, pen line) {
  add_shape(p, (shape){.kind = SHAPE_PATH, .edge = line}, at, n, NULL);
}

void picture_area(picture *p, const draw_point *at, size_t n, draw_colour fill, pen edge) {
  add_shape(p, (shape){.kind = SHAPE_PATH, .closed = true, .fill = fill, .edge = edge}, at, n,
            NULL);
}

void picture_line(picture *p, double x, double y, double x2, double y2, pen line) {
  picture_path(p, (draw_point[]){{x, y}, {x2, y2}}, 2, line);
}

void picture_rect(picture *p, double x, double y, double x2, double y2, draw_colour fill) {
  picture_area(p, (draw_point[]){{x, y}, {x2, y}, {x2, y2}, {x, y2}}, 4, fill, (pen){0});
}

void picture_disc(picture *p, double x, double y, double radius, draw_colour fill, pen edge) {
  add_shape(p, (shape){.kind = SHAPE_DISC, .radius = radius, .fill = fill, .edge = edge},
            &(draw_point){x, y}, 1, NULL);
}

void picture_text(picture *p, double x, double y, lettering l, const char *text) {
  shape s = {.kind = SHAPE_TEXT, .letters = l, .fill = l.colour};
  if (l.haloed) s.edge = PEN(DRAW_PAPER, 3);
  add_shape(p, s, &(draw_point){x, y}, 1, text ? text : "");
}

void picture_begin(picture *p, grouping g) {
  add_shape(p, (shape){.kind = SHAPE_GROUP, .group = g}, NULL, 0, g.tip);
}

void picture_end(picture *p) { add_shape(p, (shape){.kind = SHAPE_END}, NULL, 0, NULL); }

void picture_free(picture *p) {
  for (size_t i = 0; i < p->shapes.n; i++) {
    vtb_free(p->shapes.at[i].text);
    vtb_free(p->shapes.at[i].at);
  }
  vtb_vec_free(&p->shapes);
  *p = (picture){0};
}

int pen_dashes(pen_dash d, double length[4]) {
  static const double lengths[][4] = {[DASH_NONE] = {0},
                                      [DASH_LONG] = {7, 4},
                                      [DASH_DOTS] = {2, 4},
                                      [DASH_MIXED] = {9, 3, 2, 3},
                                      [DASH_EVEN] = {3, 3}};
  int n = 0;
  for (; n < 4 && lengths[d][n] > 0; n++) length[n] = lengths[d][n];
  return n;
}

/* ---- SVG ------------------------------------------------------------------------------------- */

/* U+FFFE and U+FFFF are characters of UTF-8 and none of XML. */
static bool no_character(const char *s) {
  return (unsigned char)s[0] == 0xEF && (unsigned char)s[1] == 0xBF &&
         ((unsigned char)s[2] & 0xFE) == 0xBE;
}

void picture_put_text(vtb_strbuf *out, const char *text) {
  vtb_strbuf visible = {0};
  vtb_lines_visible(&visible, text ? text : "");
  for (char *s = visible.at; s && *s; s++)
    if (no_character(s)) memcpy(s, "\xEF\xBF\xBD", 3);
  vtb_strbuf_xml(out, vtb_strbuf_text(&visible));
  vtb_strbuf_free(&visible);
}

/* How it is filled and edged. */
static void put_style(const shape *s, bool of_page, vtb_strbuf *out) {
  double dash[4];
  int n = pen_dashes(s->edge.dash, dash);
  vtb_strbuf_puts(out, " fill=\"");
  draw_put_colour(out, s->fill, of_page);
  if (s->edge.colour) {
    vtb_strbuf_puts(out, "\" stroke=\"");
    draw_put_colour(out, s->edge.colour, of_page);
    vtb_strbuf_printf(out, "\" stroke-width=\"%.3g", s->edge.size);
  }
  for (int i = 0; i < n; i++)
    vtb_strbuf_printf(out, "%s%g", i ? " " : "\" stroke-dasharray=\"", dash[i]);
  if (s->edge.opacity > 0) vtb_strbuf_printf(out, "\" opacity=\"%.3g", s->edge.opacity);
  vtb_strbuf_putc(out, '"');
}

static void put_path(const shape *s, vtb_strbuf *out) {
  bool down = false;
  vtb_strbuf_puts(out, "<path d=\"");
  for (size_t i = 0; i < s->n; i++) {
    bool usable = isfinite(s->at[i].x) && isfinite(s->at[i].y);
    if (usable) vtb_strbuf_printf(out, "%c%.1f %.1f", down ? 'L' : 'M', s->at[i].x, s->at[i].y);
    down = usable;
  }
  vtb_strbuf_puts(out, s->closed ? "z\"" : "\"");
}

static void put_letters(const shape *s, vtb_strbuf *out) {
  static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  const lettering *l = &s->letters;
  vtb_strbuf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.3g\"%s", s->at[0].x, s->at[0].y,
                    CANVAS_EM * l->size, anchors[l->anchor]);
  if (l->fitted)
    vtb_strbuf_printf(out, " textLength=\"%.1f\"", canvas_text_width(s->text, l->size));
  if (l->bold) vtb_strbuf_puts(out, " font-weight=\"600\"");
  if (l->haloed) vtb_strbuf_puts(out, " paint-order=\"stroke\"");
}

static void put_group(const shape *s, vtb_strbuf *out) {
  const grouping *g = &s->group;
  vtb_strbuf_printf(out, "<g class=\"%s\"", g->name ? g->name : "mark");
  if (g->cell >= 0) vtb_strbuf_printf(out, " data-cell=\"%d\"", g->cell);
  if (g->stop) vtb_strbuf_puts(out, " tabindex=\"0\"");
  vtb_strbuf_putc(out, '>');
  if (!s->text) return;
  vtb_strbuf_puts(out, "<title>");
  picture_put_text(out, s->text);
  vtb_strbuf_puts(out, "</title>");
}

static void put_shape(const shape *s, bool of_page, vtb_strbuf *out) {
  if (s->kind == SHAPE_GROUP || s->kind == SHAPE_END) {
    if (of_page && s->kind == SHAPE_GROUP) put_group(s, out);
    if (of_page && s->kind == SHAPE_END) vtb_strbuf_puts(out, "</g>\n");
    return;
  }
  if (s->kind == SHAPE_PATH)
    put_path(s, out);
  else if (s->kind == SHAPE_TEXT)
    put_letters(s, out);
  else
    vtb_strbuf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", s->at[0].x, s->at[0].y,
                      s->radius);
  put_style(s, of_page, out);
  vtb_strbuf_putc(out, '>');
  if (s->kind == SHAPE_TEXT) picture_put_text(out, s->text);
  vtb_strbuf_puts(out, s->kind == SHAPE_PATH   ? "</path>\n"
                       : s->kind == SHAPE_TEXT ? "</text>\n"
                                               : "</circle>\n");
}

void picture_svg(const picture *p, vtb_strbuf *out) {
  vtb_strbuf_printf(out,
                    "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                    "stroke-linejoin=\"round\" stroke-linecap=\"round\" ",
                    p->width, p->height, p->width, p->height);
  if (!p->of_page) {
    vtb_strbuf_puts(out,
                    "xmlns=\"http://www.w3.org/2000/svg\" font-family=\"DejaVu Sans, Verdana, "
                    "sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
  } else {
    vtb_strbuf_printf(out, "class=\"%s\" ", p->class_name);
    vtb_strbuf_puts(out, p->what ? "role=\"group\" aria-label=\"" : "aria-hidden=\"true");
    picture_put_text(out, p->what);
    vtb_strbuf_puts(out, "\">\n");
  }
  for (size_t i = 0; i < p->shapes.n; i++) put_shape(&p->shapes.at[i], p->of_page, out);
  vtb_strbuf_puts(out, "</svg>\n");
}

vtb_status picture_write(const picture *p, const char *path, vtb_error *err) {
  vtb_strbuf out = {0};
  vtb_status status = VTB_OK;
  if (vtb_ends_with(path, ".png") || vtb_ends_with(path, ".pdf"))
    status = canvas_picture(p, path, &out, err);
  else
    picture_svg(p, &out);
  if (status == VTB_OK) status = vtb_file_write_atomic(path, out.at, out.n, err);
  vtb_strbuf_free(&out);
  return status;
}

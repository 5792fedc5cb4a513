/* See picture.h: the list of shapes, and its SVG. */
#include "frontend/draw/picture.h"
#include "frontend/draw/canvas.h"
#include "runtime/base/utf8.h"

#include <math.h>
#include <string.h>

void picture_add(picture *p, shape s) {
  if (s.text) s.text = vtb_xstrdup(s.text);
  if (s.n) {
    shape_point *at = vtb_xcalloc(s.n, sizeof *at);
    memcpy(at, s.at, s.n * sizeof *at);
    s.at = at;
  }
  vtb_vec_push(&p->shapes, s);
}

void picture_free(picture *p) {
  for (size_t i = 0; i < p->shapes.n; i++) {
    vtb_free((void *)(uintptr_t)p->shapes.at[i].text);
    if (p->shapes.at[i].n) vtb_free((void *)(uintptr_t)p->shapes.at[i].at);
  }
  vtb_vec_free(&p->shapes);
  *p = (picture){0};
}

void picture_line(picture *p, double x, double y, double x2, double y2, double size,
                  draw_colour colour) {
  picture_add(
      p,
      (shape){
          .kind = SHAPE_LINE, .x = x, .y = y, .x2 = x2, .y2 = y2, .size = size, .colour = colour});
}

void picture_rect(picture *p, double x, double y, double x2, double y2, draw_colour colour) {
  picture_add(p, (shape){.kind = SHAPE_RECT, .x = x, .y = y, .x2 = x2, .y2 = y2, .colour = colour});
}

void picture_disc(picture *p, double x, double y, double radius, draw_colour colour) {
  picture_add(p, (shape){.kind = SHAPE_DISC, .x = x, .y = y, .size = radius, .colour = colour});
}

void picture_text(picture *p, double x, double y, double size, draw_colour colour,
                  text_anchor anchor, bool bold, const char *text) {
  picture_add(p, (shape){.kind = SHAPE_TEXT,
                         .x = x,
                         .y = y,
                         .size = size,
                         .colour = colour,
                         .anchor = anchor,
                         .bold = bold,
                         .text = text});
}

int shape_dashes(shape_dash d, double length[4]) {
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

typedef struct writer {
  vtb_strbuf *out;
  bool of_page;
} writer;

static void colour(const writer *w, const char *name, draw_colour c) {
  vtb_strbuf_printf(w->out, " %s=\"", name);
  draw_put_colour(w->out, c, w->of_page);
  vtb_strbuf_putc(w->out, '"');
}

static void filled(const writer *w, const shape *s) {
  colour(w, "fill", s->colour);
  if (s->edge) colour(w, "stroke", s->edge);
  if (s->edge) vtb_strbuf_printf(w->out, " stroke-width=\"%.3g\"", s->edge_size);
  if (s->opacity > 0) vtb_strbuf_printf(w->out, " opacity=\"%.3g\"", s->opacity);
}

static void points(const writer *w, const shape *s) {
  bool down = false;
  vtb_strbuf_puts(w->out, "<path d=\"");
  for (size_t i = 0; i < s->n; i++) {
    bool usable = isfinite(s->at[i].x) && isfinite(s->at[i].y);
    if (usable) vtb_strbuf_printf(w->out, "%c%.1f %.1f", down ? 'L' : 'M', s->at[i].x, s->at[i].y);
    down = usable;
  }
  vtb_strbuf_putc(w->out, '"');
}

static void polygon(const writer *w, const shape *s) {
  vtb_strbuf_puts(w->out, "<polygon points=\"");
  for (size_t i = 0; i < s->n; i++)
    vtb_strbuf_printf(w->out, "%s%.1f,%.1f", i ? " " : "", s->at[i].x, s->at[i].y);
  vtb_strbuf_putc(w->out, '"');
  filled(w, s);
}

static void line(const writer *w, const shape *s) {
  double dash[4];
  int n = shape_dashes(s->dash, dash);
  if (s->n)
    points(w, s);
  else
    vtb_strbuf_printf(w->out, "<path d=\"M%.1f %.1fL%.1f %.1f\"", s->x, s->y, s->x2, s->y2);
  vtb_strbuf_puts(w->out, " fill=\"none\"");
  colour(w, "stroke", s->colour);
  vtb_strbuf_printf(w->out, " stroke-width=\"%.3g\"", s->size);
  for (int i = 0; i < n; i++)
    vtb_strbuf_printf(w->out, "%s%g", i ? " " : " stroke-dasharray=\"", dash[i]);
  if (n) vtb_strbuf_putc(w->out, '"');
  if (s->opacity > 0) vtb_strbuf_printf(w->out, " opacity=\"%.3g\"", s->opacity);
}

static void text(const writer *w, const shape *s) {
  static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  vtb_strbuf_printf(w->out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.3g\"%s", s->x, s->y,
                    CANVAS_EM * s->size, anchors[s->anchor]);
  if (s->fitted)
    vtb_strbuf_printf(w->out, " textLength=\"%.1f\"", canvas_text_width(s->text, s->size));
  if (s->turned) vtb_strbuf_printf(w->out, " transform=\"rotate(-90 %.1f %.1f)\"", s->x, s->y);
  if (s->bold) vtb_strbuf_puts(w->out, " font-weight=\"600\"");
  filled(w, s);
  if (s->edge) vtb_strbuf_puts(w->out, " paint-order=\"stroke\"");
  vtb_strbuf_putc(w->out, '>');
  picture_put_text(w->out, s->text);
  vtb_strbuf_puts(w->out, "</text");
}

static void group(const writer *w, const shape *s) {
  vtb_strbuf_puts(w->out, "<g");
  if (s->name) vtb_strbuf_printf(w->out, " class=\"%s\"", s->name);
  if (s->cell >= 0) vtb_strbuf_printf(w->out, " data-cell=\"%d\"", s->cell);
  if (s->stop) vtb_strbuf_puts(w->out, " tabindex=\"0\"");
  if (!s->text) return;
  vtb_strbuf_puts(w->out, "><title>");
  picture_put_text(w->out, s->text);
  vtb_strbuf_puts(w->out, "</title");
}

static void put(const writer *w, const shape *s) {
  switch (s->kind) {
  case SHAPE_LINE:
    line(w, s);
    break;
  case SHAPE_RECT:
    vtb_strbuf_printf(w->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", s->x,
                      s->y, s->x2 - s->x, s->y2 - s->y);
    filled(w, s);
    break;
  case SHAPE_DISC:
    vtb_strbuf_printf(w->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", s->x, s->y, s->size);
    filled(w, s);
    break;
  case SHAPE_AREA:
    polygon(w, s);
    break;
  case SHAPE_TEXT:
    text(w, s);
    break;
  case SHAPE_GROUP:
    if (w->of_page) group(w, s);
    break;
  case SHAPE_END:
    break;
  }
}

/* What has no text in it or behind it ends at once. */
static void put_whole(const writer *w, const shape *s) {
  bool grouping = s->kind == SHAPE_GROUP || s->kind == SHAPE_END;
  if (grouping && !w->of_page) return;
  put(w, s);
  vtb_strbuf_puts(w->out, s->kind == SHAPE_END                              ? "</g>\n"
                          : s->kind == SHAPE_GROUP || s->kind == SHAPE_TEXT ? ">"
                                                                            : "/>");
  if (!grouping) vtb_strbuf_putc(w->out, '\n');
}

void picture_svg(const picture *p, vtb_strbuf *out) {
  writer w = {out, p->of_page};
  vtb_strbuf_printf(out, "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" ", p->width,
                    p->height, p->width, p->height);
  if (!p->of_page) {
    vtb_strbuf_puts(out, "xmlns=\"http://www.w3.org/2000/svg\" font-family=\"DejaVu Sans, Verdana, "
                         "sans-serif\" stroke-linejoin=\"round\" "
                         "stroke-linecap=\"round\">\n"
                         "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
  } else {
    vtb_strbuf_printf(out, "class=\"%s\" stroke-linejoin=\"round\" stroke-linecap=\"round\" ",
                      p->class_name);
    vtb_strbuf_puts(out, p->what ? "role=\"group\" aria-label=\"" : "aria-hidden=\"true");
    picture_put_text(out, p->what);
    vtb_strbuf_puts(out, "\">\n");
  }
  for (size_t i = 0; i < p->shapes.n; i++) put_whole(&w, &p->shapes.at[i]);
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

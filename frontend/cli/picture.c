/* Pictures as SVG text, and as PNG: every shape is a distance to its outline, from which a pixel's
 * share follows. */
#include "frontend/cli/picture.h"

#include "runtime/image/image.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void picture_add(picture *p, shape s) {
  if (s.text) s.text = vtb_xstrdup(s.text);
  vtb_vec_push(&p->shapes, s);
}

void picture_free(picture *p) {
  for (size_t i = 0; i < p->shapes.n; i++) vtb_free(p->shapes.at[i].text);
  vtb_vec_free(&p->shapes);
  *p = (picture){0};
}

/* Both outputs use a fixed pitch of six sevenths of the height of capitals. */
double picture_text_width(const char *text, double size) {
  return (double)strlen(text) * size * 6 / 7;
}

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
  for (const char *c = text; *c; c++) {
    const char *entity = *c == '<'   ? "&lt;"
                         : *c == '>' ? "&gt;"
                         : *c == '&' ? "&amp;"
                         : *c == '"' ? "&quot;"
                                     : NULL;
    if (entity)
      vtb_strbuf_puts(out, entity);
    else
      vtb_strbuf_putc(out, *c);
  }
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
        s->x, s->y, s->size * 1.42, picture_text_width(s->text, s->size), (unsigned)s->colour);
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
      "font-family=\"monospace\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
      p->width, p->height, p->width, p->height);
  for (size_t i = 0; i < p->shapes.n; i++) svg_shape(&p->shapes.at[i], &out);
  vtb_strbuf_puts(&out, "</svg>\n");
  vtb_status status = vtb_file_write_atomic(path, out.at, out.n, err);
  vtb_strbuf_free(&out);
  return status;
}

/* ---- PNG: letters ---------------------------------------------------------------------------- */

/* Five columns a letter, the lowest bit on top. Capitals are drawn as small letters are. */
static const struct glyph {
  char c;
  uint8_t column[5];
} glyphs[] = {{'0', {0x3e, 0x51, 0x49, 0x45, 0x3e}}, {'1', {0x00, 0x42, 0x7f, 0x40, 0x00}},
              {'2', {0x62, 0x51, 0x49, 0x49, 0x46}}, {'3', {0x22, 0x41, 0x49, 0x49, 0x36}},
              {'4', {0x18, 0x14, 0x12, 0x7f, 0x10}}, {'5', {0x27, 0x45, 0x45, 0x45, 0x39}},
              {'6', {0x3e, 0x49, 0x49, 0x49, 0x32}}, {'7', {0x01, 0x71, 0x09, 0x05, 0x03}},
              {'8', {0x36, 0x49, 0x49, 0x49, 0x36}}, {'9', {0x26, 0x49, 0x49, 0x49, 0x3e}},
              {'a', {0x20, 0x54, 0x54, 0x54, 0x78}}, {'b', {0x7f, 0x44, 0x44, 0x44, 0x38}},
              {'c', {0x38, 0x44, 0x44, 0x44, 0x28}}, {'d', {0x38, 0x44, 0x44, 0x44, 0x7f}},
              {'e', {0x38, 0x54, 0x54, 0x54, 0x18}}, {'f', {0x04, 0x7e, 0x05, 0x01, 0x02}},
              {'g', {0x08, 0x54, 0x54, 0x54, 0x3c}}, {'h', {0x7f, 0x04, 0x04, 0x04, 0x78}},
              {'i', {0x00, 0x44, 0x7d, 0x40, 0x00}}, {'j', {0x20, 0x40, 0x44, 0x3d, 0x00}},
              {'k', {0x7f, 0x10, 0x10, 0x28, 0x44}}, {'l', {0x00, 0x41, 0x7f, 0x40, 0x00}},
              {'m', {0x7c, 0x04, 0x38, 0x04, 0x78}}, {'n', {0x7c, 0x04, 0x04, 0x04, 0x78}},
              {'o', {0x38, 0x44, 0x44, 0x44, 0x38}}, {'p', {0x7c, 0x14, 0x14, 0x14, 0x08}},
              {'q', {0x08, 0x14, 0x14, 0x14, 0x7c}}, {'r', {0x7c, 0x08, 0x04, 0x04, 0x08}},
              {'s', {0x48, 0x54, 0x54, 0x54, 0x24}}, {'t', {0x04, 0x3f, 0x44, 0x40, 0x20}},
              {'u', {0x3c, 0x40, 0x40, 0x20, 0x7c}}, {'v', {0x1c, 0x20, 0x40, 0x20, 0x1c}},
              {'w', {0x3c, 0x40, 0x30, 0x40, 0x3c}}, {'x', {0x44, 0x28, 0x10, 0x28, 0x44}},
              {'y', {0x0c, 0x50, 0x50, 0x50, 0x3c}}, {'z', {0x44, 0x64, 0x54, 0x4c, 0x44}},
              {'.', {0x00, 0x60, 0x60, 0x00, 0x00}}, {',', {0x00, 0x50, 0x30, 0x00, 0x00}},
              {':', {0x00, 0x36, 0x36, 0x00, 0x00}}, {'-', {0x08, 0x08, 0x08, 0x08, 0x08}},
              {'_', {0x40, 0x40, 0x40, 0x40, 0x40}}, {'~', {0x08, 0x04, 0x08, 0x10, 0x08}},
              {'+', {0x08, 0x08, 0x3e, 0x08, 0x08}}, {'=', {0x14, 0x14, 0x14, 0x14, 0x14}},
              {'/', {0x20, 0x10, 0x08, 0x04, 0x02}}, {'(', {0x00, 0x1c, 0x22, 0x41, 0x00}},
              {')', {0x00, 0x41, 0x22, 0x1c, 0x00}}, {'[', {0x00, 0x7f, 0x41, 0x41, 0x00}},
              {']', {0x00, 0x41, 0x41, 0x7f, 0x00}}, {'*', {0x14, 0x08, 0x3e, 0x08, 0x14}}};

static const uint8_t *columns_of(char c) {
  static const uint8_t blank[5] = {0}, unknown[5] = {0x7f, 0x41, 0x41, 0x41, 0x7f};
  if (c == ' ') return blank;
  for (size_t i = 0; i < sizeof glyphs / sizeof *glyphs; i++)
    if (glyphs[i].c == tolower((unsigned char)c)) return glyphs[i].column;
  return unknown;
}

/* ---- PNG: pixels ----------------------------------------------------------------------------- */

static void blend(vtb_image *im, int x, int y, uint32_t colour, double share) {
  if (x < 0 || y < 0 || x >= im->width || y >= im->height || share <= 0) return;
  if (share > 1) share = 1;
  uint8_t *at = im->pixels + 3 * ((size_t)y * (size_t)im->width + (size_t)x);
  for (int k = 0; k < 3; k++) {
    double want = (double)(colour >> (16 - 8 * k) & 255);
    at[k] = (uint8_t)lround(at[k] + (want - at[k]) * share);
  }
}

static double segment_distance(double px, double py, double x, double y, double x2, double y2) {
  double dx = x2 - x, dy = y2 - y, n = dx * dx + dy * dy,
         t = n > 0 ? ((px - x) * dx + (py - y) * dy) / n : 0;
  t = t < 0 ? 0 : t > 1 ? 1 : t;
  return hypot(px - x - t * dx, py - y - t * dy);
}

/* Negative inside. */
static double triangle_distance(double px, double py, const double c[3][2]) {
  double area =
             (c[1][0] - c[0][0]) * (c[2][1] - c[0][1]) - (c[1][1] - c[0][1]) * (c[2][0] - c[0][0]),
         worst = -1e9;
  for (int i = 0; i < 3; i++) {
    const double *a = c[i], *b = c[(i + 1) % 3];
    double d = hypot(b[0] - a[0], b[1] - a[1]);
    double side = ((b[0] - a[0]) * (py - a[1]) - (b[1] - a[1]) * (px - a[0])) / (d > 0 ? d : 1);
    worst = fmax(worst, area > 0 ? -side : side);
  }
  return worst;
}

/* Distance of a pixel's centre to the shape's outline, negative inside; dashes are cut out of
 * lines. */
static double distance(const shape *s, double px, double py, const double head[3][2]) {
  switch (s->kind) {
  case SHAPE_LINE: {
    double d = segment_distance(px, py, s->x, s->y, s->x2, s->y2) - s->size / 2,
           n = hypot(s->x2 - s->x, s->y2 - s->y);
    if (s->dash <= 0 || n <= 0) return d;
    double along = ((px - s->x) * (s->x2 - s->x) + (py - s->y) * (s->y2 - s->y)) / n;
    return fmod(fmax(along, 0), 2 * s->dash) < s->dash ? d : 1e9;
  }
  case SHAPE_RECT:
    return fmax(fmax(s->x - px, px - s->x2), fmax(s->y - py, py - s->y2));
  case SHAPE_DISC:
    return hypot(px - s->x, py - s->y) - s->size;
  case SHAPE_ARROW:
    return triangle_distance(px, py, head);
  case SHAPE_TEXT:
    break;
  }
  return 1e9;
}

static void draw_text(vtb_image *im, const shape *s) {
  double dot = s->size / 7;
  for (size_t i = 0; s->text[i]; i++) {
    const uint8_t *column = columns_of(s->text[i]);
    for (int k = 0; k < 35; k++) {
      if (!(column[k / 7] >> (k % 7) & 1)) continue;
      double x0 = s->x + ((double)i * 6 + k / 7) * dot, y0 = s->y - s->size + (k % 7) * dot;
      for (int y = (int)floor(y0); y < y0 + dot; y++)
        for (int x = (int)floor(x0); x < x0 + dot; x++) {
          double w = fmin(x + 1, x0 + dot) - fmax(x, x0), h = fmin(y + 1, y0 + dot) - fmax(y, y0);
          blend(im, x, y, s->colour, w * h);
        }
    }
  }
}

static void draw(vtb_image *im, const shape *s) {
  if (s->kind == SHAPE_TEXT) {
    draw_text(im, s);
    return;
  }
  double c[3][2] = {{0}}, reach = s->kind == SHAPE_RECT ? 1 : s->size + 1;
  if (s->kind == SHAPE_ARROW) head_corners(s, c);
  double x2 = s->kind == SHAPE_DISC ? s->x : s->x2, y2 = s->kind == SHAPE_DISC ? s->y : s->y2;
  double x1 = s->kind == SHAPE_ARROW ? x2 : s->x, y1 = s->kind == SHAPE_ARROW ? y2 : s->y;
  int left = (int)fmax(0, floor(fmin(x1, x2) - reach)),
      right = (int)fmin(im->width - 1, ceil(fmax(x1, x2) + reach));
  int top = (int)fmax(0, floor(fmin(y1, y2) - reach)),
      bottom = (int)fmin(im->height - 1, ceil(fmax(y1, y2) + reach));
  for (int y = top; y <= bottom; y++)
    for (int x = left; x <= right; x++)
      blend(im, x, y, s->colour, 0.5 - distance(s, x + 0.5, y + 0.5, c));
}

vtb_status picture_write_png(const picture *p, const char *path, vtb_error *err) {
  if (p->width < 1 || p->height < 1 || p->width > VTB_IMAGE_MAX_SIDE ||
      p->height > VTB_IMAGE_MAX_SIDE || (int64_t)p->width * p->height > VTB_IMAGE_MAX_PIXELS)
    return vtb_fail(err, VTB_E_INPUT, "a picture of %dx%d pixels is too large for PNG; write SVG",
                    p->width, p->height);
  vtb_image im = vtb_image_new(p->width, p->height, 3);
  (void)vtb_need(im.pixels);
  memset(im.pixels, 255, 3 * (size_t)p->width * (size_t)p->height);
  for (size_t i = 0; i < p->shapes.n; i++) draw(&im, &p->shapes.at[i]);
  vtb_status status = vtb_image_save_png(path, &im, err);
  vtb_image_free(&im);
  return status;
}

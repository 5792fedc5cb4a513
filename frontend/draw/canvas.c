/* See canvas.h. */
#include "frontend/draw/canvas.h"

#include "runtime/base/utf8.h"

#include <cairo-pdf.h>
#include <cairo.h>
#include <math.h>
#include <string.h>

enum { MOST_SIDE = 32767 }; /* of cairo's images */

struct canvas {
  int width, height;
  cairo_surface_t *surface;
  cairo_t *at;
};

static void set_colour(canvas *c, draw_colour colour, double opacity) {
  uint32_t rgb = draw_rgb(colour);
  cairo_set_source_rgba(c->at, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0,
                        (rgb & 255) / 255.0, opacity > 0 ? opacity : 1);
}

static void set_font(cairo_t *at, double size, bool bold) {
  cairo_select_font_face(at, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(at, CANVAS_EM * size);
}

/* cairo reports what goes wrong through the status of its objects, at the end. */
static canvas *canvas_on(cairo_surface_t *surface, int width, int height) {
  canvas *c = vtb_xcalloc(1, sizeof *c);
  *c = (canvas){width, height, surface, cairo_create(surface)};
  cairo_set_line_join(c->at, CAIRO_LINE_JOIN_ROUND);
  cairo_set_line_cap(c->at, CAIRO_LINE_CAP_ROUND);
  set_colour(c, DRAW_PAPER, 1);
  cairo_paint(c->at);
  return c;
}

canvas *canvas_new(int width, int height) {
  return canvas_on(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height), width, height);
}

void canvas_free(canvas *c) {
  if (!c) return;
  cairo_destroy(c->at);
  cairo_surface_destroy(c->surface);
  vtb_free(c);
}

static cairo_status_t take_bytes(void *text, const unsigned char *bytes, unsigned n) {
  vtb_strbuf_write(text, (const char *)bytes, n);
  return CAIRO_STATUS_SUCCESS;
}

static vtb_status status_of(const canvas *c, cairo_status_t drawn, const char *path,
                            vtb_error *err) {
  if (drawn == CAIRO_STATUS_SUCCESS) return VTB_OK;
  if (drawn == CAIRO_STATUS_NO_MEMORY) return vtb_no_memory(err, path);
  return vtb_fail(err, VTB_E_INPUT, "%s: a picture of %d x %d pixels cannot be drawn: %s", path,
                  c->width, c->height, cairo_status_to_string(drawn));
}

static vtb_status to_png(canvas *c, const char *path, vtb_strbuf *out, vtb_error *err) {
  cairo_surface_flush(c->surface);
  cairo_status_t drawn = cairo_status(c->at);
  if (drawn == CAIRO_STATUS_SUCCESS)
    drawn = cairo_surface_write_to_png_stream(c->surface, take_bytes, out);
  return status_of(c, drawn, path, err);
}

vtb_status canvas_save_png(canvas *c, const char *path, vtb_error *err) {
  vtb_strbuf bytes = {0};
  vtb_status status = to_png(c, path, &bytes, err);
  if (status == VTB_OK) status = vtb_file_write_atomic(path, bytes.at, bytes.n, err);
  vtb_strbuf_free(&bytes);
  return status;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Fills and edges the path that stands. */
static void paint(canvas *c, draw_colour fill, const pen *edge) {
  double dash[4];
  if (fill) {
    set_colour(c, fill, edge->opacity);
    cairo_fill_preserve(c->at);
  }
  if (edge->colour) {
    set_colour(c, edge->colour, edge->opacity);
    cairo_set_line_width(c->at, edge->size);
    cairo_set_dash(c->at, dash, pen_dashes(edge->dash, dash), 0);
    cairo_stroke_preserve(c->at);
  }
  cairo_new_path(c->at);
}

static void draw_path(canvas *c, const shape *s) {
  bool down = false;
  for (size_t i = 0; i < s->n; i++) {
    bool usable = isfinite(s->at[i].x) && isfinite(s->at[i].y);
    if (usable) (down ? cairo_line_to : cairo_move_to)(c->at, s->at[i].x, s->at[i].y);
    down = usable;
  }
  if (s->closed) cairo_close_path(c->at);
  paint(c, s->fill, &s->edge);
}

static double advance(cairo_t *at, const char *text, size_t n) {
  vtb_strbuf visible = {0};
  cairo_text_extents_t extents = {0};
  vtb_text_visible(&visible, text, n);
  cairo_text_extents(at, vtb_strbuf_text(&visible), &extents);
  vtb_strbuf_free(&visible);
  return extents.x_advance;
}

/* A text, its halo first. */
static void draw_text(canvas *c, const shape *s) {
  static const double before[] = {[ANCHOR_START] = 0, [ANCHOR_MIDDLE] = 0.5, [ANCHOR_END] = 1};
  vtb_strbuf visible = {0};
  vtb_text_visible(&visible, s->text, strlen(s->text));
  set_font(c->at, s->letters.size, s->letters.bold);
  double x = s->at[0].x - before[s->letters.anchor] * advance(c->at, s->text, strlen(s->text));
  cairo_move_to(c->at, x, s->at[0].y);
  if (s->edge.colour) cairo_text_path(c->at, vtb_strbuf_text(&visible));
  paint(c, DRAW_NONE, &s->edge);
  cairo_move_to(c->at, x, s->at[0].y);
  set_colour(c, s->fill, 1);
  cairo_show_text(c->at, vtb_strbuf_text(&visible));
  vtb_strbuf_free(&visible);
}

static void draw_shapes(canvas *c, const picture *p) {
  for (size_t i = 0; i < p->shapes.n; i++) {
    const shape *s = &p->shapes.at[i];
    if (s->kind == SHAPE_PATH) draw_path(c, s);
    if (s->kind == SHAPE_TEXT) draw_text(c, s);
    if (s->kind != SHAPE_DISC) continue;
    cairo_arc(c->at, s->at[0].x, s->at[0].y, s->radius, 0, 2 * M_PI);
    paint(c, s->fill, &s->edge);
  }
}

vtb_status canvas_picture(const picture *p, const char *path, vtb_strbuf *out, vtb_error *err) {
  bool pdf = vtb_ends_with(path, ".pdf");
  if (!pdf && (p->width < 1 || p->height < 1 || p->width > MOST_SIDE || p->height > MOST_SIDE))
    return vtb_fail(err, VTB_E_INPUT, "a picture of %dx%d pixels is too large for PNG; write SVG",
                    p->width, p->height);
  canvas *c =
      pdf ? canvas_on(cairo_pdf_surface_create_for_stream(take_bytes, out, p->width, p->height),
                      p->width, p->height)
          : canvas_new(p->width, p->height);
  vtb_status status;
  draw_shapes(c, p);
  if (pdf) {
    cairo_surface_finish(c->surface);
    status = status_of(c, cairo_surface_status(c->surface), path, err);
  } else {
    status = to_png(c, path, out, err);
  }
  canvas_free(c);
  return status;
}

void canvas_take(canvas *c, picture *p) {
  draw_shapes(c, p);
  picture_free(p);
}

/* cairo's own format of 32 bits a pixel. */
static cairo_surface_t *surface_of(const vtb_image *im) {
  cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_RGB24, im->width, im->height);
  if (cairo_surface_status(s) != CAIRO_STATUS_SUCCESS) return s;
  cairo_surface_flush(s);
  unsigned char *to = cairo_image_surface_get_data(s);
  int stride = cairo_image_surface_get_stride(s), k = im->channels;
  for (int y = 0; y < im->height; y++)
    for (int x = 0; x < im->width; x++) {
      const uint8_t *p = im->pixels + ((size_t)y * (size_t)im->width + (size_t)x) * (size_t)k;
      uint32_t pixel = (uint32_t)p[0] << 16 | (uint32_t)p[k > 2 ? 1 : 0] << 8 | p[k > 2 ? 2 : 0];
      memcpy(to + (ptrdiff_t)y * stride + 4 * (ptrdiff_t)x, &pixel, sizeof pixel);
    }
  cairo_surface_mark_dirty(s);
  return s;
}

void canvas_image(canvas *c, double x, double y, double width, double height, const vtb_image *im) {
  cairo_surface_t *s = surface_of(im);
  cairo_save(c->at);
  cairo_translate(c->at, x, y);
  cairo_scale(c->at, width / im->width, height / im->height);
  cairo_set_source_surface(c->at, s, 0, 0);
  cairo_pattern_set_extend(cairo_get_source(c->at), CAIRO_EXTEND_PAD);
  cairo_pattern_set_filter(cairo_get_source(c->at), CAIRO_FILTER_GOOD);
  cairo_rectangle(c->at, 0, 0, im->width, im->height);
  cairo_fill(c->at);
  cairo_restore(c->at);
  cairo_surface_destroy(s);
}

/* ---- the size of texts ----------------------------------------------------------------------- */

/* A context to measure with. */
static cairo_t *ruler(double size) {
  cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_A1, 1, 1);
  cairo_t *at = cairo_create(s);
  cairo_surface_destroy(s);
  set_font(at, size, false);
  return at;
}

double canvas_text_width(const char *text, double size) {
  cairo_t *at = ruler(size);
  double width = advance(at, text, strlen(text));
  cairo_destroy(at);
  return width;
}

size_t canvas_text_fit(const char *text, double size, double width) {
  cairo_t *at = ruler(size);
  size_t n = strlen(text), fits = 0;
  while (fits < n) {
    size_t length = vtb_utf8_decode(text + fits, n - fits, NULL);
    if (!length) length = 1;
    if (advance(at, text, fits + length) > width) break;
    fits += length;
  }
  cairo_destroy(at);
  return fits;
}

#include "frontend/cli/draw/canvas.h"

#include "runtime/base/utf8.h"

#include <cairo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Size of a font whose capitals are 1 high: of DejaVu Sans, nearly so of others. */
static const double em = 1.37;

struct canvas {
  int width, height;
  cairo_surface_t *surface;
  cairo_t *at;
};

static void set_colour(canvas *c, uint32_t colour) {
  cairo_set_source_rgb(c->at, (colour >> 16 & 255) / 255.0, (colour >> 8 & 255) / 255.0,
                       (colour & 255) / 255.0);
}

static void set_font(cairo_t *at, double size) {
  cairo_select_font_face(at, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(at, em * size);
}

/* cairo reports what goes wrong through the status of its objects, at the end. */
canvas *canvas_new(int width, int height) {
  canvas *c = vtb_xcalloc(1, sizeof *c);
  *c = (canvas){.width = width, .height = height};
  c->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  c->at = cairo_create(c->surface);
  set_colour(c, 0xffffff);
  cairo_paint(c->at);
  return c;
}

void canvas_free(canvas *c) {
  if (!c) return;
  cairo_destroy(c->at);
  cairo_surface_destroy(c->surface);
  vtb_free(c);
}

static cairo_status_t take(void *text, const unsigned char *bytes, unsigned n) {
  vtb_strbuf_write(text, (const char *)bytes, n);
  return CAIRO_STATUS_SUCCESS;
}

vtb_status canvas_save_png(canvas *c, const char *path, vtb_error *err) {
  vtb_strbuf bytes = {0};
  cairo_surface_flush(c->surface);
  cairo_status_t drawn = cairo_status(c->at);
  if (drawn == CAIRO_STATUS_SUCCESS)
    drawn = cairo_surface_write_to_png_stream(c->surface, take, &bytes);
  vtb_status status = VTB_OK;
  if (drawn == CAIRO_STATUS_NO_MEMORY)
    status = vtb_no_memory(err, path);
  else if (drawn != CAIRO_STATUS_SUCCESS)
    status = vtb_fail(err, VTB_E_INPUT, "%s: a picture of %d x %d pixels cannot be drawn: %s", path,
                      c->width, c->height, cairo_status_to_string(drawn));
  if (status == VTB_OK) status = vtb_file_write_atomic(path, bytes.at, bytes.n, err);
  vtb_strbuf_free(&bytes);
  return status;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

void canvas_line(canvas *c, double x, double y, double x2, double y2, double width, double dash,
                 uint32_t colour) {
  set_colour(c, colour);
  cairo_set_line_width(c->at, width);
  cairo_set_dash(c->at, &dash, dash > 0, 0);
  cairo_move_to(c->at, x, y);
  cairo_line_to(c->at, x2, y2);
  cairo_stroke(c->at);
}

void canvas_rectangle(canvas *c, double x, double y, double width, double height, uint32_t colour) {
  set_colour(c, colour);
  cairo_rectangle(c->at, x, y, width, height);
  cairo_fill(c->at);
}

void canvas_disc(canvas *c, double x, double y, double radius, uint32_t colour) {
  set_colour(c, colour);
  cairo_arc(c->at, x, y, radius, 0, 2 * M_PI);
  cairo_fill(c->at);
}

void canvas_polygon(canvas *c, const double (*corners)[2], int n, uint32_t colour) {
  set_colour(c, colour);
  for (int i = 0; i < n; i++) cairo_line_to(c->at, corners[i][0], corners[i][1]);
  cairo_close_path(c->at);
  cairo_fill(c->at);
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

/* ---- text ------------------------------------------------------------------------------------ */

void canvas_text(canvas *c, double x, double y, double size, uint32_t colour, const char *text) {
  vtb_strbuf visible = {0};
  vtb_text_visible(&visible, text, strlen(text));
  set_colour(c, colour);
  set_font(c->at, size);
  cairo_move_to(c->at, x, y);
  cairo_show_text(c->at, vtb_strbuf_text(&visible));
  vtb_strbuf_free(&visible);
}

static double advance(cairo_t *at, const char *text, size_t n) {
  vtb_strbuf visible = {0};
  cairo_text_extents_t extents = {0};
  vtb_text_visible(&visible, text, n);
  cairo_text_extents(at, vtb_strbuf_text(&visible), &extents);
  vtb_strbuf_free(&visible);
  return extents.x_advance;
}

/* A context to measure with. */
static cairo_t *ruler(double size) {
  cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_A1, 1, 1);
  cairo_t *at = cairo_create(s);
  cairo_surface_destroy(s);
  set_font(at, size);
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

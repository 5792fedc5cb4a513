/* PNG and JPEG. Both libraries report errors by a callback that must not return: here it keeps the
 * message and jumps back, so everything allocated lives in a context that outlives the jump. */
#include "runtime/image/image.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* jpeglib.h needs FILE and size_t declared before it. */
#include <jpeglib.h>
/* After jpeglib.h. */
#include <jerror.h>

typedef struct codec {
  const char *name;
  const unsigned char *data;
  size_t n, at;
  vtb_image image; /* pixels may be half filled */
  uint8_t *row;    /* one row as decoded, when it needs conversion */
  int channels;    /* of the result */
  bool classes;    /* numbers as they are stored: palette entries, grey values of few bits */
  jmp_buf escape;
  char message[256];
  bool no_memory; /* why it failed */
} codec;

static vtb_status decode_error(const codec *c, const char *format, vtb_error *err) {
  if (c->no_memory) return vtb_fail(err, VTB_E_MEMORY, "%s: out of memory while decoding", c->name);
  return vtb_fail(err, VTB_E_INPUT, "%s: damaged %s: %s", c->name, format, c->message);
}

static vtb_status size_error(const codec *c, int64_t w, int64_t h, vtb_error *err) {
  return vtb_fail(err, VTB_E_INPUT, "%s: image of %lld x %lld pixels is empty or beyond the limit",
                  c->name, (long long)w, (long long)h);
}

static bool size_is_fine(int64_t w, int64_t h) {
  return w > 0 && h > 0 && w <= VTB_IMAGE_MAX_SIDE && h <= VTB_IMAGE_MAX_SIDE &&
         w * h <= VTB_IMAGE_MAX_PIXELS;
}

/* ---- PNG ------------------------------------------------------------------------------------- */

static void png_fail(png_structp png, png_const_charp text) {
  codec *c = png_get_error_ptr(png);
  snprintf(c->message, sizeof c->message, "%s", text);
  longjmp(c->escape, 1);
}

static void png_ignore(png_structp png, png_const_charp text) {
  (void)png;
  (void)text;
}

static void png_take(png_structp png, png_bytep to, png_size_t n) {
  codec *c = png_get_io_ptr(png);
  if (n > c->n - c->at) png_error(png, "the file ends too early");
  memcpy(to, c->data + c->at, n);
  c->at += n;
}

/* libpng says no more than that something is wrong. */
static png_voidp png_take_memory(png_structp png, png_alloc_size_t n) {
  codec *c = png_get_mem_ptr(png);
  void *p = malloc(n);
  if (!p) c->no_memory = true;
  return p;
}

static void png_give_memory(png_structp png, png_voidp p) {
  (void)png;
  free(p);
}

/* Everything libpng converts: palettes, few bits, 16 bits, alpha; what remains is 1 or 3 channels
 * of 8 bits. */
static void png_make_plain(png_structp png, png_infop info, bool classes) {
  if (classes)
    png_set_packing(png);
  else
    png_set_expand(png);
  if (!classes) png_set_strip_16(png);
  png_set_strip_alpha(png);
  (void)png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

typedef struct png_reading {
  png_structp png;
  png_infop info;
  png_bytep *rows;
} png_reading;

/* Runs under setjmp: only *c and *r are written. */
static vtb_status png_read_all(codec *c, png_reading *r, vtb_error *err) {
  png_set_read_fn(r->png, c, png_take);
  png_set_user_limits(r->png, VTB_IMAGE_MAX_SIDE, VTB_IMAGE_MAX_SIDE);
  png_set_chunk_malloc_max(r->png, 64u << 20);
  png_read_info(r->png, r->info);
  int64_t w = png_get_image_width(r->png, r->info), h = png_get_image_height(r->png, r->info);
  if (!size_is_fine(w, h)) return size_error(c, w, h, err);
  png_make_plain(r->png, r->info, c->classes);
  int channels = png_get_channels(r->png, r->info);
  if (c->classes && (channels != 1 || png_get_bit_depth(r->png, r->info) != 8))
    return vtb_fail(err, VTB_E_INPUT,
                    "%s: classes of pixels are a PNG with a palette or 8-bit grey values, not "
                    "colours",
                    c->name);
  if ((channels != 1 && channels != 3) || png_get_bit_depth(r->png, r->info) != 8)
    return vtb_fail(err, VTB_E_INPUT, "%s: PNG pixel format is not supported", c->name);
  c->image = vtb_image_new((int)w, (int)h, channels);
  r->rows = calloc((size_t)h, sizeof *r->rows);
  c->no_memory = !c->image.pixels || !r->rows;
  if (c->no_memory) return decode_error(c, "PNG", err);
  for (int64_t y = 0; y < h; y++) r->rows[y] = c->image.pixels + (size_t)(y * w) * (size_t)channels;
  png_read_image(r->png, r->rows);
  png_read_end(r->png, NULL);
  return VTB_OK;
}

static vtb_status decode_png(codec *c, vtb_error *err) {
  png_reading r = {0};
  r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, c, png_fail, png_ignore, c,
                                   png_take_memory, png_give_memory);
  r.info = r.png ? png_create_info_struct(r.png) : NULL;
  if (!r.info) {
    png_destroy_read_struct(&r.png, NULL, NULL);
    return vtb_fail(err, VTB_E_MEMORY, "%s: out of memory while decoding", c->name);
  }
  volatile vtb_status status = VTB_OK;
  png_reading *volatile kept = &r;
  if (setjmp(c->escape) == 0)
    status = png_read_all(c, kept, err);
  else
    status = decode_error(c, "PNG", err);
  png_destroy_read_struct(&kept->png, &kept->info, NULL);
  free(kept->rows);
  return status;
}

/* ---- JPEG ------------------------------------------------------------------------------------ */

typedef struct jpeg_errors {
  struct jpeg_error_mgr base; /* first: libjpeg hands back a pointer to it */
  codec *c;
} jpeg_errors;

static void jpeg_fail(j_common_ptr jpeg) {
  codec *c = ((jpeg_errors *)jpeg->err)->c;
  char text[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, text);
  snprintf(c->message, sizeof c->message, "%s", text);
  c->no_memory = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
  longjmp(c->escape, 1);
}

/* libjpeg fills what is missing with gray and only warns; a data set with such files should hear of
 * it. Warnings about bytes that do no harm are ignored. */
static void jpeg_warn(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
  case JWRN_EXTRANEOUS_DATA:
  case JWRN_ADOBE_XFORM:
  case JWRN_JFIF_MAJOR:
  case JWRN_BOGUS_PROGRESSION:
    return;
  default:
    jpeg_fail(jpeg);
  }
}

static void jpeg_quiet(j_common_ptr jpeg) { (void)jpeg; }

/* CMYK as stored by common software: inverted, 255 means no ink. */
static void cmyk_to_rgb(const uint8_t *from, uint8_t *to, size_t n, bool inverted) {
  for (size_t i = 0; i < n; i++) {
    unsigned k = inverted ? from[4 * i + 3] : 255u - from[4 * i + 3];
    for (int j = 0; j < 3; j++) {
      unsigned v = inverted ? from[4 * i + (size_t)j] : 255u - from[4 * i + (size_t)j];
      to[3 * i + (size_t)j] = (uint8_t)((v * k + 127) / 255);
    }
  }
}

static void jpeg_choose_space(struct jpeg_decompress_struct *j) {
  switch (j->jpeg_color_space) {
  case JCS_GRAYSCALE:
    j->out_color_space = JCS_GRAYSCALE;
    break;
  case JCS_CMYK:
  case JCS_YCCK:
    j->out_color_space = JCS_CMYK;
    break;
  default:
    j->out_color_space = JCS_RGB;
    break;
  }
}

static vtb_status jpeg_read_all(codec *c, struct jpeg_decompress_struct *j, vtb_error *err) {
  jpeg_create_decompress(j);
  j->mem->max_memory_to_use = 1L << 30;
  jpeg_mem_src(j, c->data, (unsigned long)c->n);
  (void)jpeg_read_header(j, TRUE);
  if (!size_is_fine(j->image_width, j->image_height))
    return size_error(c, j->image_width, j->image_height, err);
  jpeg_choose_space(j);
  (void)jpeg_start_decompress(j);
  bool cmyk = j->out_color_space == JCS_CMYK;
  int channels = cmyk ? 3 : j->output_components;
  c->image = vtb_image_new((int)j->output_width, (int)j->output_height, channels);
  if (cmyk) c->row = malloc((size_t)j->output_width * 4);
  c->no_memory = !c->image.pixels || (cmyk && !c->row);
  if (c->no_memory) return decode_error(c, "JPEG", err);
  while (j->output_scanline < j->output_height) {
    uint8_t *to = c->image.pixels + (size_t)j->output_scanline * j->output_width * (size_t)channels;
    JSAMPROW row = cmyk ? c->row : to;
    (void)jpeg_read_scanlines(j, &row, 1);
    if (cmyk) cmyk_to_rgb(c->row, to, j->output_width, j->saw_Adobe_marker);
  }
  (void)jpeg_finish_decompress(j);
  return VTB_OK;
}

static vtb_status decode_jpeg(codec *c, vtb_error *err) {
  struct jpeg_decompress_struct j = {0};
  jpeg_errors errors = {.c = c};
  j.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = jpeg_fail;
  errors.base.emit_message = jpeg_warn;
  errors.base.output_message = jpeg_quiet;
  volatile vtb_status status = VTB_OK;
  struct jpeg_decompress_struct *volatile kept = &j;
  if (setjmp(c->escape) == 0)
    status = jpeg_read_all(c, kept, err);
  else
    status = decode_error(c, "JPEG", err);
  jpeg_destroy_decompress(kept);
  free(c->row);
  c->row = NULL;
  return status;
}

/* ---- either ---------------------------------------------------------------------------------- */

vtb_status vtb_image_decode(const char *name, const void *data, size_t n, int channels,
                            vtb_image *out, vtb_error *err) {
  static const unsigned char png_start[8] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10};
  codec *c = calloc(1, sizeof *c); /* on the heap: its fields must survive longjmp */
  if (!c) return vtb_no_memory(err, name);
  c->name = name;
  c->data = data;
  c->n = n;
  vtb_status status;
  if (n >= 8 && memcmp(data, png_start, 8) == 0)
    status = decode_png(c, err);
  else if (n >= 3 && c->data[0] == 0xff && c->data[1] == 0xd8 && c->data[2] == 0xff)
    status = decode_jpeg(c, err);
  else if (n == 0)
    status = vtb_fail(err, VTB_E_INPUT, "%s: the file is empty", name);
  else
    status = vtb_fail(err, VTB_E_INPUT, "%s: neither a PNG nor a JPEG file", name);
  if (status != VTB_OK) {
    vtb_image_free(&c->image);
  } else if (channels && channels != c->image.channels) {
    vtb_image converted = vtb_image_convert(&c->image, channels);
    vtb_image_free(&c->image);
    if (converted.pixels)
      *out = converted;
    else
      status = vtb_no_memory(err, name);
  } else {
    *out = c->image;
  }
  free(c);
  return status;
}

vtb_status vtb_image_load(const char *path, int channels, vtb_image *out, vtb_error *err) {
  char *data;
  size_t n;
  vtb_status status = vtb_file_read(path, (size_t)1 << 30, &data, &n, err);
  if (status != VTB_OK) return status;
  status = vtb_image_decode(path, data, n, channels, out, err);
  free(data);
  return status;
}

vtb_status vtb_image_load_classes(const char *path, vtb_image *out, vtb_error *err) {
  static const unsigned char png_start[8] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10};
  char *data;
  size_t n;
  vtb_status status = vtb_file_read(path, (size_t)1 << 30, &data, &n, err);
  if (status != VTB_OK) return status;
  codec *c = calloc(1, sizeof *c);
  if (!c) {
    status = vtb_no_memory(err, path);
  } else if (n < 8 || memcmp(data, png_start, 8) != 0) {
    status = vtb_fail(err, VTB_E_INPUT, "%s: classes of pixels are a PNG file", path);
  } else {
    *c = (codec){.name = path, .data = (unsigned char *)data, .n = n, .classes = true};
    status = decode_png(c, err);
    if (status == VTB_OK)
      *out = c->image;
    else
      vtb_image_free(&c->image);
  }
  free(c);
  free(data);
  return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void encode_png(png_structp png, png_infop info, const vtb_image *im, FILE *file) {
  png_init_io(png, file);
  png_set_IHDR(png, info, (png_uint_32)im->width, (png_uint_32)im->height, 8,
               im->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (int y = 0; y < im->height; y++)
    png_write_row(png, im->pixels + (size_t)y * (size_t)im->width * (size_t)im->channels);
  png_write_end(png, NULL);
}

vtb_status vtb_image_save_png(const char *path, const vtb_image *im, vtb_error *err) {
  vtb_atomic_file file;
  vtb_status status = vtb_atomic_begin(&file, path, err);
  if (status != VTB_OK) return status;
  codec *c = calloc(1, sizeof *c);
  png_structp png = NULL;
  if (c)
    png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, c, png_fail, png_ignore, c,
                                    png_take_memory, png_give_memory);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  volatile bool good = info != NULL;
  if (good) {
    if (setjmp(c->escape) == 0)
      encode_png(png, info, im, file.file);
    else
      good = false;
  }
  png_destroy_write_struct(&png, &info);
  if (good)
    status = vtb_atomic_commit(&file, err);
  else {
    bool enough = c && c->message[0] && !c->no_memory;
    status = enough ? vtb_fail(err, VTB_E_INPUT, "cannot write %s: %s", path, c->message)
                    : vtb_no_memory(err, path);
    vtb_atomic_abort(&file);
  }
  free(c);
  return status;
}

/* JPEG: baseline, progressive, arithmetic; gray, colour, CMYK and YCCK. */
#include "runtime/base/library.h"
#include "runtime/image/codec.h"

#include <stdlib.h>
#include <string.h>
/* jpeglib.h needs FILE and size_t declared before it. */
#include <stdio.h>
/* After stdio.h. */
#include <jpeglib.h>
/* After jpeglib.h. */
#include <jerror.h>

/* ---- the library, opened with the first image ------------------------------------------------ */

#if JPEG_LIB_VERSION >= 80
#define JPEG_FILE "libjpeg.so.8"
#else
#define JPEG_FILE "libjpeg.so.62"
#endif

typedef struct jpeg_functions {
#define FUNCTION(name) __typeof__(&name) name;
#include "runtime/image/codec_jpeg.def"
#undef FUNCTION
} jpeg_functions;
static const vtb_symbol symbols[] = {
#define FUNCTION(name) {#name, offsetof(jpeg_functions, name)},
#include "runtime/image/codec_jpeg.def"
#undef FUNCTION
};
static const vtb_library where = {.what = "libjpeg",
                                  .environment = "VTB_LIBJPEG",
                                  .remedy = "apt install libjpeg62-turbo",
                                  .names = (const char *const[]){JPEG_FILE, NULL},
                                  .symbols = symbols,
                                  .n_symbols = sizeof symbols / sizeof *symbols,
                                  .of_system = true};
static jpeg_functions lib;
static vtb_late_library library = {.library = &where, .table = &lib};

/* ---- what libjpeg calls ---------------------------------------------------------------------- */

typedef struct jpeg_errors {
  struct jpeg_error_mgr base; /* first: libjpeg hands back a pointer to it */
  vtb_codec *c;
} jpeg_errors;

static void jpeg_fail(j_common_ptr jpeg) {
  vtb_codec *c = ((jpeg_errors *)jpeg->err)->c;
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

/* Product of fractions of 255, rounded. */
static unsigned times(unsigned a, unsigned b) {
  unsigned t = a * b + 128;
  return ((t >> 8) + t) >> 8;
}

/* CMYK as all common software stores it, inverted: 255 means no ink. To RGB as Pillow makes it. */
static void cmyk_to_rgb(const uint8_t *from, uint8_t *to, size_t n) {
  for (size_t i = 0; i < n; i++, from += 4, to += 3)
    for (int j = 0; j < 3; j++) to[j] = (uint8_t)(from[3] - times(255u - from[j], from[3]));
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

static void read_orientation(vtb_codec *c, const struct jpeg_decompress_struct *j) {
  for (jpeg_saved_marker_ptr m = j->marker_list; m && !c->orientation; m = m->next)
    if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 && memcmp(m->data, "Exif", 5) == 0)
      c->orientation = vtb__exif_orientation(m->data, m->data_length);
}

static vtb_status jpeg_read_all(vtb_codec *c, struct jpeg_decompress_struct *j, vtb_error *err) {
  lib.jpeg_CreateDecompress(j, JPEG_LIB_VERSION, sizeof *j);
  j->mem->max_memory_to_use = 1L << 30;
  lib.jpeg_mem_src(j, c->data, (unsigned long)c->n);
  lib.jpeg_save_markers(j, JPEG_APP0 + 1, 0xffff); /* EXIF */
  (void)lib.jpeg_read_header(j, TRUE);
  VTB_TRY(vtb__codec_size(c, j->image_width, j->image_height, err));
  read_orientation(c, j);
  jpeg_choose_space(j);
  (void)lib.jpeg_start_decompress(j);
  bool cmyk = j->out_color_space == JCS_CMYK;
  int channels = cmyk ? 3 : j->output_components;
  c->image = vtb_image_new((int)j->output_width, (int)j->output_height, channels);
  if (cmyk) c->row = malloc((size_t)j->output_width * 4);
  c->no_memory = !c->image.pixels || (cmyk && !c->row);
  if (c->no_memory) return vtb__codec_error(c, "JPEG", err);
  while (j->output_scanline < j->output_height) {
    uint8_t *to = c->image.pixels + (size_t)j->output_scanline * j->output_width * (size_t)channels;
    JSAMPROW row = cmyk ? c->row : to;
    (void)lib.jpeg_read_scanlines(j, &row, 1);
    if (cmyk) cmyk_to_rgb(c->row, to, j->output_width);
  }
  (void)lib.jpeg_finish_decompress(j);
  return VTB_OK;
}

vtb_status vtb__decode_jpeg(vtb_codec *c, vtb_error *err) {
  struct jpeg_decompress_struct j = {0};
  jpeg_errors errors = {.c = c};
  VTB_TRY(vtb_library_need(&library, err));
  j.err = lib.jpeg_std_error(&errors.base);
  errors.base.error_exit = jpeg_fail;
  errors.base.emit_message = jpeg_warn;
  errors.base.output_message = jpeg_quiet;
  volatile vtb_status status = VTB_OK;
  struct jpeg_decompress_struct *volatile kept = &j;
  if (setjmp(c->escape) == 0)
    status = jpeg_read_all(c, kept, err);
  else
    status = vtb__codec_error(c, "JPEG", err);
  lib.jpeg_destroy_decompress(kept);
  free(c->row);
  c->row = NULL;
  return status;
}

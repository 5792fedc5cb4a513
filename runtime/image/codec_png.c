/* PNG, read and written. */
#include "runtime/base/library.h"
#include "runtime/image/codec.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library, opened with the first image ------------------------------------------------ */

typedef struct png_functions {
#define FUNCTION(name) __typeof__(&name) name;
#include "runtime/image/codec_png.def"
#undef FUNCTION
} png_functions;
static const vtb_symbol symbols[] = {
#define FUNCTION(name) {#name, offsetof(png_functions, name)},
#include "runtime/image/codec_png.def"
#undef FUNCTION
};
static const vtb_library where = {.what = "libpng",
                                  .environment = "VTB_LIBPNG",
                                  .remedy = "apt install libpng16-16",
                                  .names = (const char *const[]){"libpng16.so.16", NULL},
                                  .symbols = symbols,
                                  .n_symbols = sizeof symbols / sizeof *symbols,
                                  .of_system = true};
static png_functions lib;
static vtb_late_library library = {.library = &where, .table = &lib};

/* ---- what libpng calls ----------------------------------------------------------------------- */

static void png_fail(png_structp png, png_const_charp text) {
  vtb_codec *c = lib.png_get_error_ptr(png);
  snprintf(c->message, sizeof c->message, "%s", text);
  longjmp(c->escape, 1);
}

static void png_ignore(png_structp png, png_const_charp text) {
  (void)png;
  (void)text;
}

static void png_take(png_structp png, png_bytep to, png_size_t n) {
  vtb_codec *c = lib.png_get_io_ptr(png);
  if (n > c->n - c->at) lib.png_error(png, "the file ends too early");
  memcpy(to, c->data + c->at, n);
  c->at += n;
}

/* libpng says no more than that something is wrong. */
static png_voidp png_take_memory(png_structp png, png_alloc_size_t n) {
  vtb_codec *c = lib.png_get_mem_ptr(png);
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
    lib.png_set_packing(png);
  else
    lib.png_set_expand(png);
  if (!classes) lib.png_set_strip_16(png);
  lib.png_set_strip_alpha(png);
  (void)lib.png_set_interlace_handling(png);
  lib.png_read_update_info(png, info);
}

typedef struct png_reading {
  png_structp png;
  png_infop info;
  png_bytep *rows;
} png_reading;

static void read_orientation(vtb_codec *c, png_reading *r) {
#ifdef PNG_eXIf_SUPPORTED
  png_bytep exif = NULL;
  png_uint_32 n = 0;
  if (lib.png_get_eXIf_1(r->png, r->info, &n, &exif) && exif)
    c->orientation = vtb__exif_orientation(exif, n);
#else
  (void)c;
  (void)r;
#endif
}

/* Runs under setjmp: only *c and *r are written. */
static vtb_status png_read_all(vtb_codec *c, png_reading *r, vtb_error *err) {
  lib.png_set_read_fn(r->png, c, png_take);
  lib.png_set_user_limits(r->png, VTB_IMAGE_MAX_SIDE, VTB_IMAGE_MAX_SIDE);
  lib.png_set_chunk_malloc_max(r->png, 64u << 20);
  lib.png_read_info(r->png, r->info);
  int64_t w = lib.png_get_image_width(r->png, r->info),
          h = lib.png_get_image_height(r->png, r->info);
  VTB_TRY(vtb__codec_size(c, w, h, err));
  png_make_plain(r->png, r->info, c->classes);
  int channels = lib.png_get_channels(r->png, r->info);
  if (c->classes && (channels != 1 || lib.png_get_bit_depth(r->png, r->info) != 8))
    return vtb_fail(err, VTB_E_INPUT,
                    "%s: classes of pixels are a PNG with a palette or 8-bit grey values, not "
                    "colours",
                    c->name);
  if ((channels != 1 && channels != 3) || lib.png_get_bit_depth(r->png, r->info) != 8)
    return vtb_fail(err, VTB_E_INPUT, "%s: PNG pixel format is not supported", c->name);
  c->image = vtb_image_new((int)w, (int)h, channels);
  r->rows = calloc((size_t)h, sizeof *r->rows);
  c->no_memory = !c->image.pixels || !r->rows;
  if (c->no_memory) return vtb__codec_error(c, "PNG", err);
  for (int64_t y = 0; y < h; y++) r->rows[y] = c->image.pixels + (size_t)(y * w) * (size_t)channels;
  lib.png_read_image(r->png, r->rows);
  lib.png_read_end(r->png, r->info);
  read_orientation(c, r);
  return VTB_OK;
}

vtb_status vtb__decode_png(vtb_codec *c, vtb_error *err) {
  png_reading r = {0};
  VTB_TRY(vtb_library_need(&library, err));
  r.png = lib.png_create_read_struct_2(PNG_LIBPNG_VER_STRING, c, png_fail, png_ignore, c,
                                       png_take_memory, png_give_memory);
  r.info = r.png ? lib.png_create_info_struct(r.png) : NULL;
  if (!r.info) {
    lib.png_destroy_read_struct(&r.png, NULL, NULL);
    return vtb_fail(err, VTB_E_MEMORY, "%s: out of memory while decoding", c->name);
  }
  volatile vtb_status status = VTB_OK;
  png_reading *volatile kept = &r;
  if (setjmp(c->escape) == 0)
    status = png_read_all(c, kept, err);
  else
    status = vtb__codec_error(c, "PNG", err);
  lib.png_destroy_read_struct(&kept->png, &kept->info, NULL);
  free(kept->rows);
  return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void encode_png(png_structp png, png_infop info, const vtb_image *im, FILE *file) {
  lib.png_init_io(png, file);
  lib.png_set_IHDR(png, info, (png_uint_32)im->width, (png_uint_32)im->height, 8,
                   im->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                   PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  lib.png_write_info(png, info);
  for (int y = 0; y < im->height; y++)
    lib.png_write_row(png, im->pixels + (size_t)y * (size_t)im->width * (size_t)im->channels);
  lib.png_write_end(png, NULL);
}

vtb_status vtb_image_save_png(const char *path, const vtb_image *im, vtb_error *err) {
  vtb_atomic_file file;
  vtb_status status = vtb_library_need(&library, err);
  if (status == VTB_OK) status = vtb_atomic_begin(&file, path, err);
  if (status != VTB_OK) return status;
  vtb_codec *c = calloc(1, sizeof *c);
  png_structp png = NULL;
  if (c)
    png = lib.png_create_write_struct_2(PNG_LIBPNG_VER_STRING, c, png_fail, png_ignore, c,
                                        png_take_memory, png_give_memory);
  png_infop info = png ? lib.png_create_info_struct(png) : NULL;
  volatile bool good = info != NULL;
  if (good) {
    if (setjmp(c->escape) == 0)
      encode_png(png, info, im, file.file);
    else
      good = false;
  }
  lib.png_destroy_write_struct(&png, &info);
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

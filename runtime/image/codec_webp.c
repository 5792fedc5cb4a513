/* WebP: lossy and lossless; alpha is dropped, animations are refused. */
#include "runtime/base/library.h"
#include "runtime/image/codec.h"

#include <string.h>
#include <webp/decode.h>

/* The library, opened with the first image. */

typedef struct webp_functions {
#define FUNCTION(name) __typeof__(&name) name;
#include "runtime/image/codec_webp.def"
#undef FUNCTION
} webp_functions;
static const vtb_symbol symbols[] = {
#define FUNCTION(name) {#name, offsetof(webp_functions, name)},
#include "runtime/image/codec_webp.def"
#undef FUNCTION
};
static const vtb_library where = {.what = "libwebp",
                                  .environment = "VTB_LIBWEBP",
                                  .remedy = "apt install libwebp7",
                                  .names = (const char *const[]){"libwebp.so.7", NULL},
                                  .symbols = symbols,
                                  .n_symbols = sizeof symbols / sizeof *symbols,
                                  .of_system = true};
static webp_functions lib;
static vtb_late_library library = {.library = &where, .table = &lib};

static const char *reason(VP8StatusCode code) {
  switch (code) {
  case VP8_STATUS_NOT_ENOUGH_DATA:
  case VP8_STATUS_SUSPENDED:
    return "the file ends too early";
  case VP8_STATUS_UNSUPPORTED_FEATURE:
    return "it has a feature that the library does not know";
  default:
    return "its data is not what it should be";
  }
}

/* Chunks of a RIFF file: a name, a length, data padded to an even number of bytes. */
static void read_orientation(vtb_codec *c) {
  size_t at = 12;
  while (c->n - at >= 8) {
    const unsigned char *p = c->data + at;
    size_t n = (size_t)p[4] | (size_t)p[5] << 8 | (size_t)p[6] << 16 | (size_t)p[7] << 24;
    if (n > c->n - at - 8) return;
    if (memcmp(p, "EXIF", 4) == 0) c->orientation = vtb__exif_orientation(p + 8, n);
    at += 8 + n + (n & 1);
    if (at > c->n) return;
  }
}

/* The file must be as long as its header says: a cut one decodes to a gray rest otherwise. */
static bool is_whole(const vtb_codec *c) {
  const unsigned char *p = c->data + 4;
  size_t n = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
  return n <= c->n - 8;
}

vtb_status vtb__decode_webp(vtb_codec *c, vtb_error *err) {
  WebPDecoderConfig config;
  VTB_TRY(vtb_library_need(&library, err));
  if (!lib.WebPInitDecoderConfigInternal(&config, WEBP_DECODER_ABI_VERSION))
    return vtb_fail(err, VTB_E_INTERNAL, "%s: libwebp is of another version than its header",
                    c->name);
  VP8StatusCode code = is_whole(c) ? lib.WebPGetFeaturesInternal(c->data, c->n, &config.input,
                                                                 WEBP_DECODER_ABI_VERSION)
                                   : VP8_STATUS_NOT_ENOUGH_DATA;
  if (code == VP8_STATUS_OK && config.input.has_animation)
    return vtb_fail(err, VTB_E_INPUT, "%s: animated WebP is not read: save one of its images",
                    c->name);
  if (code == VP8_STATUS_OK) {
    int w = config.input.width, h = config.input.height;
    VTB_TRY(vtb__codec_size(c, w, h, err));
    c->image = vtb_image_new(w, h, 3);
    c->no_memory = !c->image.pixels;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = c->image.pixels;
    config.output.u.RGBA.stride = 3 * w;
    config.output.u.RGBA.size = (size_t)3 * (size_t)w * (size_t)h;
    if (!c->no_memory) code = lib.WebPDecode(c->data, c->n, &config);
  }
  c->no_memory |= code == VP8_STATUS_OUT_OF_MEMORY;
  if (!c->no_memory && code == VP8_STATUS_OK) {
    read_orientation(c);
    return VTB_OK;
  }
  snprintf(c->message, sizeof c->message, "%s", reason(code));
  return vtb__codec_error(c, "WebP", err);
}

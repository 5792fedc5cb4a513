/* Image files: which format it is, and what is the same for all. */
#include "runtime/image/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

vtb_status vtb__codec_error(const vtb_codec *c, const char *format, vtb_error *err) {
  if (c->no_memory) return vtb_fail(err, VTB_E_MEMORY, "%s: out of memory while decoding", c->name);
  return vtb_fail(err, VTB_E_INPUT, "%s: damaged %s: %s", c->name, format, c->message);
}

vtb_status vtb__codec_size(const vtb_codec *c, int64_t w, int64_t h, vtb_error *err) {
  if (w > 0 && h > 0 && w <= VTB_IMAGE_MAX_SIDE && h <= VTB_IMAGE_MAX_SIDE &&
      w * h <= VTB_IMAGE_MAX_PIXELS)
    return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "%s: image of %lld x %lld pixels is empty or beyond the limit",
                  c->name, (long long)w, (long long)h);
}

static const unsigned char png_start[8] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10};

static bool is_png(const void *data, size_t n) { return n >= 8 && memcmp(data, png_start, 8) == 0; }

/* Formats that people have and that are not read, by their first bytes. */
static const struct {
  size_t at;
  const char *bytes;
  size_t n;
  const char *what;
} others[] = {{0, "GIF8", 4, "a GIF"},         {0, "BM", 2, "a BMP"},
              {0, "II*\0", 4, "a TIFF"},       {0, "MM\0*", 4, "a TIFF"},
              {4, "ftypheic", 8, "a HEIC"},    {4, "ftypavif", 8, "an AVIF"},
              {0, "\xff\x0a", 2, "a JPEG XL"}, {0, "%PDF", 4, "a PDF"},
              {0, "<svg", 4, "an SVG"},        {0, "\x93NUMPY", 6, "a NumPy"}};

static vtb_status refuse_format(const vtb_codec *c, vtb_error *err) {
  if (!c->n) return vtb_fail(err, VTB_E_INPUT, "%s: the file is empty", c->name);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (c->n >= others[i].at + others[i].n &&
        memcmp(c->data + others[i].at, others[i].bytes, others[i].n) == 0)
      return vtb_fail(err, VTB_E_INPUT,
                      "%s: neither a PNG, a JPEG nor a WebP file: it is %s file; save it as one of "
                      "these",
                      c->name, others[i].what);
  return vtb_fail(err, VTB_E_INPUT, "%s: neither a PNG, a JPEG nor a WebP file", c->name);
}

static vtb_status decode(vtb_codec *c, vtb_error *err) {
  if (is_png(c->data, c->n)) return vtb__decode_png(c, err);
  if (c->n >= 3 && c->data[0] == 0xff && c->data[1] == 0xd8 && c->data[2] == 0xff)
    return vtb__decode_jpeg(c, err);
  if (c->n >= 16 && memcmp(c->data, "RIFF", 4) == 0 && memcmp(c->data + 8, "WEBP", 4) == 0)
    return vtb__decode_webp(c, err);
  return refuse_format(c, err);
}

/* Right side up, and in the channels that are wanted. */
static vtb_status finish(vtb_codec *c, int channels, vtb_image *out, vtb_error *err) {
  if (!vtb__orient(&c->image, c->orientation)) return vtb_no_memory(err, c->name);
  if (channels && channels != c->image.channels) {
    vtb_image converted = vtb_image_convert(&c->image, channels);
    if (!converted.pixels) return vtb_no_memory(err, c->name);
    vtb_image_free(&c->image);
    c->image = converted;
  }
  *out = c->image;
  return VTB_OK;
}

vtb_status vtb_image_decode(const char *name, const void *data, size_t n, int channels,
                            vtb_image *out, vtb_error *err) {
  vtb_codec *c = calloc(1, sizeof *c); /* on the heap: its fields must survive longjmp */
  if (!c) return vtb_no_memory(err, name);
  c->name = name;
  c->data = data;
  c->n = n;
  vtb_status status = decode(c, err);
  if (status == VTB_OK) status = finish(c, channels, out, err);
  if (status != VTB_OK) vtb_image_free(&c->image);
  free(c);
  return status;
}

/* Who opens a pipe waits for its other end. */
static vtb_status read_whole(const char *path, char **data, size_t *n, vtb_error *err) {
  struct stat st;
  if (stat(path, &st) != 0)
    return vtb_fail(err, VTB_E_INPUT, "cannot open %s: %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode))
    return vtb_fail(err, VTB_E_INPUT, "%s is not a regular file: images are read from files", path);
  return vtb_file_read(path, (size_t)1 << 30, data, n, err);
}

vtb_status vtb_image_load(const char *path, int channels, vtb_image *out, vtb_error *err) {
  char *data;
  size_t n;
  VTB_TRY(read_whole(path, &data, &n, err));
  vtb_status status = vtb_image_decode(path, data, n, channels, out, err);
  free(data);
  return status;
}

vtb_status vtb_image_load_classes(const char *path, vtb_image *out, vtb_error *err) {
  char *data;
  size_t n;
  vtb_status status = read_whole(path, &data, &n, err);
  if (status != VTB_OK) return status;
  vtb_codec *c = calloc(1, sizeof *c);
  if (!c) {
    status = vtb_no_memory(err, path);
  } else if (!is_png(data, n)) {
    status = vtb_fail(err, VTB_E_INPUT, "%s: classes of pixels are a PNG file", path);
  } else {
    *c = (vtb_codec){.name = path, .data = (unsigned char *)data, .n = n, .classes = true};
    status = vtb__decode_png(c, err);
    if (status == VTB_OK)
      *out = c->image;
    else
      vtb_image_free(&c->image);
  }
  free(c);
  free(data);
  return status;
}

/* 8-bit images: decoding, PNG encoding, cropping, conversion to numbers. Resizing is resize.h, what
 * a model takes of an image prepare.h.
 *
 * Pixels are interleaved, row-major (H, W, C), C = 1 (gray) or 3 (RGB). An image owns its pixels
 * (malloc), freed by vtb_image_free(). Functions are reentrant. On failure outputs are untouched.
 * Functions that return an image give one without pixels, {0}, when there is no memory, and make
 * such a one of such a one, so that the last of several steps is the one to be looked at.
 */
#ifndef VTB_IMAGE_H
#define VTB_IMAGE_H

#include "runtime/base/base.h"

#define VTB_IMAGE_MAX_SIDE 65535
#define VTB_IMAGE_MAX_PIXELS (INT64_C(1) << 26) /* 8192 x 8192: decoded in half a gigabyte */

typedef struct vtb_image {
  int width, height, channels;
  uint8_t *pixels;
} vtb_image;

void vtb_image_free(vtb_image *im); /* leaves {0} */
/* Contents undefined. Sides must be within the limits. */
vtb_image vtb_image_new(int width, int height, int channels);

/* A PNG, a JPEG or a WebP file, told by its content. channels 1 or 3 converts; 0 keeps gray or
 * colour as stored. Turned as its EXIF orientation says. Alpha is dropped, 16 bits are cut to 8,
 * palettes are expanded, CMYK and YCCK become RGB; colour profiles and gamma are ignored.
 * Truncated or corrupt data, animations, and what is no regular file are an error naming the
 * file. */
VTB_MUST_USE vtb_status vtb_image_load(const char *path, int channels, vtb_image *out,
                                       vtb_error *err);
VTB_MUST_USE vtb_status vtb_image_decode(const char *name, const void *data, size_t n, int channels,
                                         vtb_image *out, vtb_error *err);
/* The class of each pixel: palette entries or grey values of a PNG as they are stored, in one
 * channel; PNGs of colours or 16 bits, and other files, are an error. */
VTB_MUST_USE vtb_status vtb_image_load_classes(const char *path, vtb_image *out, vtb_error *err);
/* Replaces `path` atomically. */
VTB_MUST_USE vtb_status vtb_image_save_png(const char *path, const vtb_image *im, vtb_error *err);

/* Luma 0.299 R + 0.587 G + 0.114 B, or gray copied three times. */
vtb_image vtb_image_convert(const vtb_image *im, int channels);

/* A copy of the source rectangle [x, x+w) x [y, y+h), which must lie inside. */
vtb_image vtb_image_crop(const vtb_image *im, int x, int y, int w, int h);
/* Centred; a smaller image is first padded with `fill`, a number a channel. */
vtb_image vtb_image_center_crop(const vtb_image *im, int width, int height, const uint8_t *fill);
/* Where the middle `part` of `size` pixels begins. */
int vtb_image_center(int size, int part);

/* out[c][y][x] = (pixel / 255 - mean[c]) / std[c] */
void vtb_image_to_chw(const vtb_image *im, const float *mean, const float *std, float *out);
/* The numbers that the pixels of a channel become so. */
void vtb_image_values(float mean, float std, float values[256]);
/* out[c][y][x] = pixel */
void vtb_image_to_planes(const vtb_image *im, uint8_t *out);

#endif

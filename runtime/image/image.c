/* Pixel operations: conversion, antialiased resizing, cropping, normalising. Decoding is in
 * image_codec.c. */
#include "runtime/image/image.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void vtb_image_free(vtb_image *im) {
  free(im->pixels);
  *im = (vtb_image){0};
}

vtb_image vtb_image_new(int width, int height, int channels) {
  assert(width > 0 && height > 0 && (channels == 1 || channels == 3));
  assert((int64_t)width * height <= VTB_IMAGE_MAX_PIXELS);
  uint8_t *pixels = malloc((size_t)width * (size_t)height * (size_t)channels);
  return pixels ? (vtb_image){width, height, channels, pixels} : (vtb_image){0};
}

vtb_image vtb_image_convert(const vtb_image *im, int channels) {
  if (!im->pixels) return *im;
  vtb_image out = vtb_image_new(im->width, im->height, channels);
  if (!out.pixels) return out;
  size_t n = (size_t)im->width * (size_t)im->height;
  if (im->channels == channels) {
    memcpy(out.pixels, im->pixels, n * (size_t)channels);
  } else if (channels == 3) {
    for (size_t i = 0; i < n; i++) memset(out.pixels + 3 * i, im->pixels[i], 3);
  } else {
    for (size_t i = 0; i < n; i++) {
      const uint8_t *p = im->pixels + 3 * i;
      out.pixels[i] = (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
    }
  }
  return out;
}

/* ---- resizing -------------------------------------------------------------------------------- */

enum {
  COEFF_BITS = 22
}; /* 8-bit pixels, sums of weights up to about 2 in magnitude, 32-bit accumulator */

static double bicubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

static double triangle(double x) {
  x = fabs(x);
  return x < 1 ? 1 - x : 0;
}

/* Output i is the sum over k < count[i] of coeff[i * taps + k] * input[first[i] + k]. */
typedef struct resample {
  int taps;
  int *first, *count;
  int32_t *coeff;
} resample;

static void resample_free(resample *r) {
  free(r->first);
  free(r->count);
  free(r->coeff);
}

static void make_taps(resample *r, int i, double center, double support, double shrink, int n_in,
                      vtb_filter filter, double *weights) {
  int lo = (int)(center - support + 0.5), hi = (int)(center + support + 0.5);
  if (lo < 0) lo = 0;
  if (hi > n_in) hi = n_in;
  double sum = 0;
  for (int k = 0; k < hi - lo; k++) {
    double x = (k + lo - center + 0.5) / shrink;
    weights[k] = filter == VTB_FILTER_BICUBIC ? bicubic(x) : triangle(x);
    sum += weights[k];
  }
  r->first[i] = lo;
  r->count[i] = hi - lo;
  for (int k = 0; k < hi - lo; k++) {
    double w = sum != 0 ? weights[k] / sum : weights[k];
    r->coeff[(size_t)i * (size_t)r->taps + (size_t)k] =
        (int32_t)(w * (1 << COEFF_BITS) + (w < 0 ? -0.5 : 0.5));
  }
}

/* False when out of memory; to be freed in any case. */
static bool make_resample(resample *r, int n_in, int n_out, vtb_filter filter) {
  double scale = (double)n_in / n_out, shrink = scale > 1 ? scale : 1;
  double support = (filter == VTB_FILTER_BICUBIC ? 2 : 1) * shrink;
  *r = (resample){.taps = (int)ceil(support) * 2 + 1};
  r->first = calloc((size_t)n_out, sizeof *r->first);
  r->count = calloc((size_t)n_out, sizeof *r->count);
  r->coeff = calloc((size_t)n_out * (size_t)r->taps, sizeof *r->coeff);
  double *weights = calloc((size_t)r->taps, sizeof *weights);
  bool enough = r->first && r->count && r->coeff && weights;
  for (int i = 0; enough && i < n_out; i++)
    make_taps(r, i, (i + 0.5) * scale, support, shrink, n_in, filter, weights);
  free(weights);
  return enough;
}

static uint8_t to_pixel(int32_t sum) {
  sum >>= COEFF_BITS;
  return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* What was to become of an image for which there is no memory. */
static vtb_image give_up(vtb_image im) {
  vtb_image_free(&im);
  return im;
}

static vtb_image resize_rows(const vtb_image *im, int width, vtb_filter filter) {
  vtb_image out = vtb_image_new(width, im->height, im->channels);
  resample r;
  bool enough = make_resample(&r, im->width, width, filter) && out.pixels;
  int c = im->channels;
  for (int y = 0; enough && y < im->height; y++) {
    const uint8_t *row = im->pixels + (size_t)y * (size_t)im->width * (size_t)c;
    uint8_t *to = out.pixels + (size_t)y * (size_t)width * (size_t)c;
    for (int x = 0; x < width; x++) {
      const int32_t *w = r.coeff + (size_t)x * (size_t)r.taps;
      int32_t sum[3] = {1 << (COEFF_BITS - 1), 1 << (COEFF_BITS - 1), 1 << (COEFF_BITS - 1)};
      for (int k = 0; k < r.count[x]; k++)
        for (int j = 0; j < c; j++)
          sum[j] += w[k] * row[(size_t)(r.first[x] + k) * (size_t)c + (size_t)j];
      for (int j = 0; j < c; j++) *to++ = to_pixel(sum[j]);
    }
  }
  resample_free(&r);
  return enough ? out : give_up(out);
}

static vtb_image resize_columns(const vtb_image *im, int height, vtb_filter filter) {
  vtb_image out = vtb_image_new(im->width, height, im->channels);
  resample r;
  size_t n = (size_t)im->width * (size_t)im->channels;
  int32_t *sum = calloc(n, sizeof *sum);
  bool enough = make_resample(&r, im->height, height, filter) && out.pixels && sum;
  for (int y = 0; enough && y < height; y++) {
    for (size_t i = 0; i < n; i++) sum[i] = 1 << (COEFF_BITS - 1);
    for (int k = 0; k < r.count[y]; k++) {
      int32_t w = r.coeff[(size_t)y * (size_t)r.taps + (size_t)k];
      const uint8_t *row = im->pixels + (size_t)(r.first[y] + k) * n;
      for (size_t i = 0; i < n; i++) sum[i] += w * row[i];
    }
    for (size_t i = 0; i < n; i++) out.pixels[(size_t)y * n + i] = to_pixel(sum[i]);
  }
  free(sum);
  resample_free(&r);
  return enough ? out : give_up(out);
}

vtb_image vtb_image_resize(const vtb_image *im, int width, int height, vtb_filter filter) {
  if (!im->pixels) return *im;
  if (im->width == width && im->height == height) return vtb_image_convert(im, im->channels);
  if (im->width == width) return resize_columns(im, height, filter);
  vtb_image rows = resize_rows(im, width, filter);
  if (im->height == height || !rows.pixels) return rows;
  vtb_image out = resize_columns(&rows, height, filter);
  vtb_image_free(&rows);
  return out;
}

vtb_image vtb_image_resize_short(const vtb_image *im, int side, vtb_filter filter) {
  int64_t w = side, h = side;
  if (!im->pixels) return *im;
  if (im->width <= im->height)
    h = (int64_t)side * im->height / im->width;
  else
    w = (int64_t)side * im->width / im->height;
  /* A strip one pixel high would grow without bound: beyond the limit the proportion gives way. */
  if (w > VTB_IMAGE_MAX_SIDE) w = VTB_IMAGE_MAX_SIDE;
  if (h > VTB_IMAGE_MAX_SIDE) h = VTB_IMAGE_MAX_SIDE;
  return vtb_image_resize(im, (int)w, (int)h, filter);
}

vtb_image vtb_image_resize_nearest(const vtb_image *im, int width, int height) {
  if (!im->pixels || width < 1 || height < 1) return (vtb_image){0};
  vtb_image out = vtb_image_new(width, height, im->channels);
  if (!out.pixels) return out;
  size_t c = (size_t)im->channels;
  for (int y = 0; y < height; y++) {
    size_t row = (size_t)((2 * (int64_t)y + 1) * im->height / (2 * (int64_t)height));
    for (int x = 0; x < width; x++) {
      size_t column = (size_t)((2 * (int64_t)x + 1) * im->width / (2 * (int64_t)width));
      memcpy(out.pixels + ((size_t)y * (size_t)width + (size_t)x) * c,
             im->pixels + (row * (size_t)im->width + column) * c, c);
    }
  }
  return out;
}

/* ---- cropping -------------------------------------------------------------------------------- */

vtb_image vtb_image_crop(const vtb_image *im, int x, int y, int w, int h) {
  if (!im->pixels) return *im;
  assert(x >= 0 && y >= 0 && w <= im->width - x && h <= im->height - y);
  vtb_image out = vtb_image_new(w, h, im->channels);
  if (!out.pixels) return out;
  size_t c = (size_t)im->channels, row = (size_t)w * c;
  for (int i = 0; i < h; i++)
    memcpy(out.pixels + (size_t)i * row,
           im->pixels + ((size_t)(y + i) * (size_t)im->width + (size_t)x) * c, row);
  return out;
}

static vtb_image pad_to(const vtb_image *im, int width, int height) {
  vtb_image out = vtb_image_new(width, height, im->channels);
  if (!out.pixels) return out;
  size_t c = (size_t)im->channels;
  int left = (width - im->width) / 2, top = (height - im->height) / 2;
  memset(out.pixels, 0, (size_t)width * (size_t)height * c);
  for (int y = 0; y < im->height; y++)
    memcpy(out.pixels + ((size_t)(y + top) * (size_t)width + (size_t)left) * c,
           im->pixels + (size_t)y * (size_t)im->width * c, (size_t)im->width * c);
  return out;
}

vtb_image vtb_image_center_crop(const vtb_image *im, int width, int height) {
  if (!im->pixels) return *im;
  if (im->width < width || im->height < height) {
    vtb_image padded = pad_to(im, im->width < width ? width : im->width,
                              im->height < height ? height : im->height);
    vtb_image out = vtb_image_center_crop(&padded, width, height);
    vtb_image_free(&padded);
    return out;
  }
  /* lrint rounds halves to even, as the usual preprocessing does. */
  return vtb_image_crop(im, (int)lrint((im->width - width) / 2.0),
                        (int)lrint((im->height - height) / 2.0), width, height);
}

void vtb_image_to_chw(const vtb_image *im, const float *mean, const float *std, float *out) {
  size_t n = (size_t)im->width * (size_t)im->height, c = (size_t)im->channels;
  for (size_t j = 0; j < c; j++) {
    float value[256];
    for (int v = 0; v < 256; v++) value[v] = ((float)v / 255.0f - mean[j]) / std[j];
    for (size_t i = 0; i < n; i++) out[j * n + i] = value[im->pixels[i * c + j]];
  }
}

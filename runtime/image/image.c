/* Pixel operations: conversion, cropping, normalising. Decoding is in codec.c. */
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

static void fill_with(vtb_image *im, const uint8_t *fill) {
  size_t n = (size_t)im->width * (size_t)im->height, c = (size_t)im->channels;
  for (size_t i = 0; i < n; i++) memcpy(im->pixels + i * c, fill, c);
}

static vtb_image pad_to(const vtb_image *im, int width, int height, const uint8_t *fill) {
  vtb_image out = vtb_image_new(width, height, im->channels);
  if (!out.pixels) return out;
  size_t c = (size_t)im->channels;
  int left = (width - im->width) / 2, top = (height - im->height) / 2;
  fill_with(&out, fill);
  for (int y = 0; y < im->height; y++)
    memcpy(out.pixels + ((size_t)(y + top) * (size_t)width + (size_t)left) * c,
           im->pixels + (size_t)y * (size_t)im->width * c, (size_t)im->width * c);
  return out;
}

int vtb_image_center(int size, int part) {
  /* lrint rounds halves to even, as the usual preprocessing does. */
  return part >= size ? 0 : (int)lrint((size - part) / 2.0);
}

vtb_image vtb_image_center_crop(const vtb_image *im, int width, int height, const uint8_t *fill) {
  if (!im->pixels) return *im;
  if (im->width < width || im->height < height) {
    vtb_image padded = pad_to(im, im->width < width ? width : im->width,
                              im->height < height ? height : im->height, fill);
    vtb_image out = vtb_image_center_crop(&padded, width, height, fill);
    vtb_image_free(&padded);
    return out;
  }
  return vtb_image_crop(im, vtb_image_center(im->width, width),
                        vtb_image_center(im->height, height), width, height);
}

void vtb_image_values(float mean, float std, float values[256]) {
  for (int v = 0; v < 256; v++) values[v] = ((float)v / 255.0f - mean) / std;
}

void vtb_image_to_chw(const vtb_image *im, const float *mean, const float *std, float *out) {
  size_t n = (size_t)im->width * (size_t)im->height, c = (size_t)im->channels;
  for (size_t j = 0; j < c; j++) {
    float value[256];
    vtb_image_values(mean[j], std[j], value);
    for (size_t i = 0; i < n; i++) out[j * n + i] = value[im->pixels[i * c + j]];
  }
}

void vtb_image_to_planes(const vtb_image *im, uint8_t *out) {
  size_t n = (size_t)im->width * (size_t)im->height, c = (size_t)im->channels;
  for (size_t j = 0; j < c; j++)
    for (size_t i = 0; i < n; i++) out[j * n + i] = im->pixels[i * c + j];
}

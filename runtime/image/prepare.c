/* See prepare.h. */
#include "runtime/image/prepare.h"

#include "runtime/base/prepare.h"

#include <math.h>
#include <string.h>

static const char *const modes[VTB_RESIZE_MODES] = {VTB_RESIZE_WORDS};

const char *vtb_resize_mode_name(vtb_resize_mode m) { return modes[m]; }

bool vtb_resize_mode_find(const char *name, vtb_resize_mode *out) {
  for (int m = 0; m < VTB_RESIZE_MODES; m++)
    if (vtb_streq(name, modes[m])) {
      *out = (vtb_resize_mode)m;
      return true;
    }
  return false;
}

vtb_preparation vtb_preparation_default(int channels, int height, int width) {
  vtb_preparation p = {.channels = channels,
                       .height = height,
                       .width = width,
                       .crop = 1,
                       .mean = {0.485f, 0.456f, 0.406f},
                       .std = {0.229f, 0.224f, 0.225f}};
  if (channels == 1) p.mean[0] = 0.449f, p.std[0] = 0.226f;
  return p;
}

static vtb_status check_numbers(const vtb_preparation *p, vtb_error *err) {
  if (!(p->crop > 0 && p->crop <= 1))
    return vtb_fail(err, VTB_E_INPUT, "crop is %g: it is above 0 and at most 1", p->crop);
  for (int c = 0; c < p->channels && c < 3; c++) {
    if (!isfinite(p->mean[c]))
      return vtb_fail(err, VTB_E_INPUT, "mean has %g: it is a finite number", (double)p->mean[c]);
    if (!isfinite(p->std[c]) || !(p->std[c] > 0))
      return vtb_fail(err, VTB_E_INPUT, "std has %g: it is a number above 0", (double)p->std[c]);
  }
  return VTB_OK;
}

vtb_status vtb_preparation_check(const vtb_preparation *p, vtb_error *err) {
  if ((p->channels != 1 && p->channels != 3) || p->height < 1 || p->width < 1 ||
      p->height > VTB_IMAGE_MAX_SIDE || p->width > VTB_IMAGE_MAX_SIDE)
    return vtb_fail(err, VTB_E_INPUT,
                    "the model's input of %d channels, %d x %d pixels cannot be made from images",
                    p->channels, p->height, p->width);
  return check_numbers(p, err);
}

/* ---- the part of the image ------------------------------------------------------------------- */

typedef struct extent {
  int w, h;
} extent;

/* Beyond the limit, which only strips of a pixel reach, the proportion gives way. */
static int limited(double side) {
  const double most = 1 << 28;
  return side < 1 ? 1 : side > most ? (int)most : (int)side;
}

/* The size that the whole image is resized to. A square target's long side is rounded down, as
 * torchvision does it, sides by the ratio of another to the nearest, halves to even, as timm
 * does. */
static extent resized_extent(const vtb_preparation *p, const vtb_image *im) {
  int w = limited(floor(p->width / p->crop)), h = limited(floor(p->height / p->crop));
  if (p->resize == VTB_RESIZE_SQUASH) return (extent){w, h};
  if (p->resize == VTB_RESIZE_CROP && w == h) {
    int64_t side = w, shorter = im->width < im->height ? im->width : im->height;
    return (extent){limited((double)(side * im->width / shorter)),
                    limited((double)(side * im->height / shorter))};
  }
  double by_w = (double)im->width / w, by_h = (double)im->height / h;
  double ratio = p->resize == VTB_RESIZE_PAD ? fmax(by_w, by_h) : fmin(by_w, by_h);
  return (extent){limited(nearbyint(im->width / ratio)), limited(nearbyint(im->height / ratio))};
}

/* The mean, so that it becomes 0. */
static void choose_fill(const vtb_preparation *p, int channels, bool classes, uint8_t fill[3]) {
  memset(fill, classes ? 255 : 0, 3);
  for (int c = 0; c < channels && p->resize == VTB_RESIZE_PAD && !classes; c++) {
    double v = nearbyint(255 * (double)p->mean[c]);
    fill[c] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
  }
}

vtb_image vtb_image_fit(const vtb_preparation *p, const vtb_image *im, bool classes) {
  if (!im->pixels) return *im;
  extent all = resized_extent(p, im);
  int w = all.w < p->width ? all.w : p->width, h = all.h < p->height ? all.h : p->height;
  vtb_image part =
      vtb_image_resize_part(im, all.w, all.h, classes ? VTB_FILTER_NEAREST : p->filter,
                            vtb_image_center(all.w, w), vtb_image_center(all.h, h), w, h);
  if ((w == p->width && h == p->height) || !part.pixels) return part;
  uint8_t fill[3];
  choose_fill(p, im->channels, classes, fill);
  vtb_image out = vtb_image_center_crop(&part, p->width, p->height, fill);
  vtb_image_free(&part);
  return out;
}

vtb_status vtb_image_prepare(const vtb_preparation *p, const vtb_image *im, float *out,
                             vtb_error *err) {
  VTB_TRY(vtb_preparation_check(p, err));
  vtb_image converted = {0};
  if (im->channels != p->channels) converted = vtb_image_convert(im, p->channels);
  const vtb_image *from = im->channels == p->channels ? im : &converted;
  vtb_image fitted = vtb_image_fit(p, from, false);
  vtb_image_free(&converted);
  if (!fitted.pixels) return vtb_no_memory(err, "an image");
  vtb_image_to_chw(&fitted, p->mean, p->std, out);
  vtb_image_free(&fitted);
  return VTB_OK;
}

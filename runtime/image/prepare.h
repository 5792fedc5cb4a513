/* Preparing: what becomes of an image before a model sees it. A model is trained with one way to do
 * it and is worse with any other, so it belongs to the model: `prepare(...)` of the language, the
 * metadata "prepare" of weights and built files.
 *
 * An image becomes gray or RGB, is resized and cut to the model's input, and its numbers, from 0 to
 * 1, become (number - mean) / std. (A range from -1 to 1 is mean 0.5, std 0.5.) The steps, their
 * rounding and order are those of timm's and torchvision's transforms on Pillow's images. */
#ifndef VTB_PREPARE_H
#define VTB_PREPARE_H

#include "runtime/image/resize.h"

typedef enum vtb_resize_mode {
  VTB_RESIZE_CROP,   /* the short side to size / crop, then the middle */
  VTB_RESIZE_SQUASH, /* both sides to size / crop, whatever the proportions, then the middle */
  VTB_RESIZE_PAD,    /* the long side to size / crop, then the middle, filled up with the mean */
  VTB_RESIZE_MODES
} vtb_resize_mode;
const char *vtb_resize_mode_name(vtb_resize_mode m); /* "crop" "squash" "pad" */
bool vtb_resize_mode_find(const char *name, vtb_resize_mode *out);

/* Fields that somebody said, the rest being defaults. */
enum {
  VTB_PREPARE_CROP = 1,
  VTB_PREPARE_RESIZE = 2,
  VTB_PREPARE_FILTER = 4,
  VTB_PREPARE_MEAN = 8,
  VTB_PREPARE_STD = 16,
  VTB_PREPARE_ALL = 31
};

typedef struct vtb_preparation {
  int channels, height, width; /* the model's input: 1 (gray) or 3 (RGB) channels */
  double crop;                 /* part of the resized image's side that is kept, above 0 to 1 */
  vtb_resize_mode resize;
  vtb_filter filter;
  float mean[3], std[3]; /* a channel; of gray input the first */
  unsigned given;        /* VTB_PREPARE_..., or-ed */
} vtb_preparation;

/* crop 1, bicubic, ImageNet's mean and std (of gray input their averages), nothing given. */
vtb_preparation vtb_preparation_default(int channels, int height, int width);
/* Sides and channels that images can have, 0 < crop <= 1, finite means, finite positive stds. */
VTB_MUST_USE vtb_status vtb_preparation_check(const vtb_preparation *p, vtb_error *err);
/* Takes over what JSON text says, {"crop": 0.9, "resize": "crop", "filter": "bicubic",
 * "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}, every field optional; mean and std have one
 * number, or three, of which gray input takes the average. VTB_E_INPUT with p untouched if it is no
 * such text or does not pass vtb_preparation_check(). `from` says in messages where it stood. */
VTB_MUST_USE vtb_status vtb_preparation_read(vtb_preparation *p, const char *text, const char *from,
                                             vtb_error *err);
/* The same from the metadata of weights or a built file: "prepare", or of older ones, which knew
 * neither crop nor filter, "mean" and "std" ("0.5,0.5,0.5", a number a channel): crop 1, bicubic.
 * NULL is not there. */
VTB_MUST_USE vtb_status vtb_preparation_read_meta(vtb_preparation *p, const char *prepare,
                                                  const char *mean, const char *std,
                                                  const char *from, vtb_error *err);
/* The fields of `which` as such text, appended. */
void vtb_preparation_write(const vtb_preparation *p, unsigned which, vtb_strbuf *out);

/* The part of an image that the model sees, resized, in the image's channels. Numbers that cannot
 * be mixed (classes) take the nearest pixel, and 255 where there is none. {0} without memory. */
vtb_image vtb_image_fit(const vtb_preparation *p, const vtb_image *im, bool classes);
/* All of it: out (C, H, W). VTB_E_MEMORY, or what vtb_preparation_check() says; out may then be
 * half filled. */
VTB_MUST_USE vtb_status vtb_image_prepare(const vtb_preparation *p, const vtb_image *im, float *out,
                                          vtb_error *err);

#endif

/* Resizing, as the usual image libraries do it. */
#ifndef VTB_RESIZE_H
#define VTB_RESIZE_H

#include "runtime/image/image.h"

/* Supports of 0.5 (box), 1 (bilinear, hamming), 2 (bicubic) and 3 (lanczos) pixels. */
typedef enum vtb_filter {
  VTB_FILTER_BICUBIC,
  VTB_FILTER_BILINEAR,
  VTB_FILTER_NEAREST, /* the pixel that covers the middle */
  VTB_FILTER_BOX,
  VTB_FILTER_HAMMING,
  VTB_FILTER_LANCZOS,
  VTB_FILTERS
} vtb_filter;
/* "bicubic", "bilinear", ... */
const char *vtb_filter_name(vtb_filter f);
bool vtb_filter_find(const char *name, vtb_filter *out);

/* Separable with the filter's support widened when shrinking (antialiased), half-pixel centres,
 * edge weights renormalised; bicubic has a = -0.5. Rounded to 8 bits between the two passes, in
 * fixed point: the arithmetic of Pillow, so that published preprocessing is met bit by bit. Its
 * order of passes is that of version 13. */
vtb_image vtb_image_resize(const vtb_image *im, int width, int height, vtb_filter filter);
/* The rectangle [x, x+w) x [y, y+h), which must lie inside, of what vtb_image_resize() would give:
 * the rest is not computed. */
vtb_image vtb_image_resize_part(const vtb_image *im, int width, int height, vtb_filter filter,
                                int x, int y, int w, int h);

#endif

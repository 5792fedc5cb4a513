/* A line plot: axes with round ticks, a legend, one line a series. */
#ifndef VTB_DRAW_PLOT_H
#define VTB_DRAW_PLOT_H

#include "frontend/draw/picture.h"

typedef struct plot_series {
  const char *name;
  const double *x, *y; /* points that are not finite break the line */
  size_t n;
} plot_series;

typedef struct plot {
  const char *title, *x_label, *y_label;
  const plot_series *series;
  size_t n_series;
  bool log_y; /* points with y <= 0 are left out */
} plot;

void plot_draw(const plot *p, picture *out);
/* As picture_write(). */
VTB_MUST_USE vtb_status plot_save(const plot *p, const char *path, vtb_error *err);

#endif

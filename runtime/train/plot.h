/* A small line plot as SVG: axes with round ticks, a legend, one polyline a series. */
#ifndef VTB_PLOT_H
#define VTB_PLOT_H

#include "runtime/base/base.h"

typedef struct vtb_plot_series {
  const char *name;
  const double *x, *y; /* points that are not finite break the line */
  size_t n;
} vtb_plot_series;

typedef struct vtb_plot {
  const char *title, *x_label, *y_label;
  const vtb_plot_series *series;
  size_t n_series;
  int width, height; /* 0: 640 x 400 */
  bool log_y;        /* points with y <= 0 are left out */
} vtb_plot;

void vtb_plot_svg(const vtb_plot *p, vtb_strbuf *out);
VTB_MUST_USE vtb_status vtb_plot_save(const vtb_plot *p, const char *path, vtb_error *err);

#endif

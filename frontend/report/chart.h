/* A chart: a frame with two scales, marks, and labels that keep off each other. Colours are classes
 * of the page's style (s0 to s7), so that they follow light and dark. */
#ifndef VTB_REPORT_CHART_H
#define VTB_REPORT_CHART_H

#include "frontend/report/scale.h"

enum { CH_COLOURS = 8, CH_SHAPES = 6, CH_DASHES = 4 };

typedef struct ch_box {
  double x, y, width, height;
  bool crossable; /* by a name that finds no other place */
} ch_box;

typedef struct chart {
  vtb_strbuf *out;
  double width, height, left, right, top, bottom; /* of the picture, and its margins */
  sc_scale x, y;
  VTB_VEC(ch_box) taken; /* by marks and labels */
} chart;

/* A chart of this size with the usual margins. */
chart ch_new(vtb_strbuf *out, double width, double height);
/* Once both scales hold their numbers: the picture begins, what it is said to screen readers. */
void ch_begin(chart *c, const char *what);
void ch_end(chart *c);
/* Grid lines and numbers. ticks NULL: round numbers. */
void ch_x_axis(chart *c, const char *title, const double *ticks, int n);
void ch_y_axis(chart *c, const char *title);

/* One mark of a shape from 0 to CH_SHAPES - 1 at a place of the picture. */
void ch_mark(chart *c, int shape, double x, double y, double radius);
void ch_take(chart *c, double x, double y, double width, double height);
/* Names keep off the line where they can. */
void ch_take_line(chart *c, double x, double y, double x2, double y2);
/* Writes the text beside (x, y) where it meets nothing; false, and nothing written, if it would
 * everywhere. */
bool ch_label(chart *c, double x, double y, const char *text, const char *class_name);
/* Pixels, about. */
double ch_text_width(const char *text);
/* The text, or its beginning and an ellipsis, within so many columns. */
const char *ch_short(const char *text, int columns, vtb_strbuf *room);

#endif

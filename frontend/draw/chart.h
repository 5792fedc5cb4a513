/* A chart: a frame with two scales in a picture, ticks, lines, marks, names that keep off each
 * other, and keys of what stands for what. */
#ifndef VTB_DRAW_CHART_H
#define VTB_DRAW_CHART_H

#include "frontend/draw/picture.h"
#include "frontend/draw/scale.h"

/* Letters of 12 pixels of font, whose capitals are CH_TEXT high. */
#define CH_TEXT 8.76
#define CH_LETTERS(colour, anchor, bold) LETTERS(CH_TEXT, colour, anchor, bold)
enum { CH_SHAPES = 6, CH_DASHES = 4 };

typedef struct ch_box {
  double x, y, width, height;
  bool crossable; /* by a name that finds no other place */
} ch_box;

typedef struct chart {
  picture *to;
  double left, right, top, bottom; /* margins */
  sc_scale x, y;
  VTB_VEC(ch_box) taken; /* by marks and names */
} chart;

/* The sign that stands for a series: numbers from 0, taken modulo what there is. */
typedef struct ch_sign {
  int colour, shape, dash;
} ch_sign;
draw_colour ch_colour(int number);

/* A chart that fills a new picture of this size, with the usual margins. */
chart ch_new(picture *to, double width, double height);
/* Once both scales hold their numbers and the margins are as they shall be. */
void ch_begin(chart *c);
void ch_free(chart *c);
/* Grid lines and numbers, and a title at their end. ticks NULL: round numbers. */
void ch_x_axis(chart *c, const char *title, const double *ticks, int n);
void ch_y_axis(chart *c, const char *title);

/* Through points in the chart's numbers, broken where one is none. */
void ch_line(chart *c, ch_sign s, double size, const draw_point *at, size_t n);
/* At a place of the picture; colour 0: that of the sign. */
void ch_mark(picture *to, ch_sign s, draw_colour colour, double x, double y, double radius);
void ch_ring(chart *c, double x, double y, double radius);
/* A mark at a point in the chart's numbers, with a bar of y minus to y plus the spread. */
void ch_dot(chart *c, ch_sign s, double size, draw_point at, double spread, grouping g);

void ch_take(chart *c, double x, double y, double width, double height);
/* Names keep off the line where they can. */
void ch_take_line(chart *c, double x, double y, double x2, double y2);
/* Writes the text beside (x, y) where it meets nothing; nothing if it would everywhere. */
void ch_label(chart *c, double x, double y, const char *text, bool strong);

typedef struct ch_name {
  const char *text;
  ch_sign sign;
  double x, y, at; /* of the line's end; of its name, set when it is drawn */
} ch_name;
/* Names right of the frame, in the order of the lines' ends, led to by thin lines; they change
 * places in `names`. Their width, for the margin. */
void ch_end_names(chart *c, ch_name *names, size_t n);
double ch_end_names_width(const ch_name *names, size_t n);
/* Lines with their names within the frame, at the right: below, or above where it is emptier.
 * crowd: points there that are above the middle less those below. */
void ch_legend(chart *c, const ch_name *names, size_t n, int64_t crowd);

/* Pixels, about. */
double ch_text_width(const char *text);
/* The text, or its beginning and an ellipsis, within so many columns. */
const char *ch_short(const char *text, int columns, vtb_strbuf *room);

#endif

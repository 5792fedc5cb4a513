/* A picture: a list of shapes, written as SVG, whose texts can be searched and copied, or drawn by
 * cairo (canvas.h) as PNG or PDF. Coordinates are pixels, y down; later shapes lie on top.
 * The picture owns copies of its texts and points; free with picture_free(). */
#ifndef VTB_DRAW_PICTURE_H
#define VTB_DRAW_PICTURE_H

#include "frontend/draw/colours.h"

typedef enum pen_dash { DASH_NONE, DASH_LONG, DASH_DOTS, DASH_MIXED, DASH_EVEN } pen_dash;

typedef struct pen {
  draw_colour colour; /* DRAW_NONE: it draws nothing */
  double size;        /* width of the line */
  pen_dash dash;
  double opacity; /* 0: 1 */
} pen;
#define PEN(of_colour, of_size) ((pen){.colour = (of_colour), .size = (of_size)})

typedef struct lettering {
  double size; /* height of capitals */
  draw_colour colour;
  enum { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END } anchor;
  bool bold;
  bool haloed; /* paper around it */
  bool fitted; /* as wide as cairo measures it, whatever font shows it */
} lettering;
#define LETTERS(of_size, of_colour, at, is_bold)                                                   \
  ((lettering){.size = (of_size), .colour = (of_colour), .anchor = (at), .bold = (is_bold)})

typedef struct draw_point {
  double x, y;
} draw_point;

/* Shapes that belong together in a page, which shows the tip. */
typedef struct grouping {
  const char *tip, *name; /* NULL: nothing; the class "mark" */
  int cell;               /* below 0: of none */
  bool stop;              /* can have the focus */
} grouping;

typedef struct shape {
  enum { SHAPE_PATH, SHAPE_DISC, SHAPE_TEXT, SHAPE_GROUP, SHAPE_END } kind;
  draw_point *at; /* of a PATH, broken where a point is not finite; others stand at the first */
  size_t n;
  bool closed;
  double radius;
  draw_colour fill;
  pen edge;
  char *text; /* or the tip */
  lettering letters;
  grouping group;
} shape;

typedef struct picture {
  int width, height;
  /* of a page: colours are its variables, `class_name` is its class there, and `what` is told to
   * those who do not see it; NULL: hidden from them */
  bool of_page;
  const char *class_name, *what;
  VTB_VEC(shape) shapes;
} picture;

void picture_path(picture *p, const draw_point *at, size_t n, pen line);
void picture_area(picture *p, const draw_point *at, size_t n, draw_colour fill, pen edge);
void picture_line(picture *p, double x, double y, double x2, double y2, pen line);
void picture_rect(picture *p, double x, double y, double x2, double y2, draw_colour fill);
void picture_disc(picture *p, double x, double y, double radius, draw_colour fill, pen edge);
/* (x, y) is on the baseline. */
void picture_text(picture *p, double x, double y, lettering l, const char *text);
void picture_begin(picture *p, grouping g);
void picture_end(picture *p);
void picture_free(picture *p);

/* The picture in a page: as an element of HTML and of XML. */
void picture_svg(const picture *p, vtb_strbuf *out);
/* As what the name ends with. Replaces `path` atomically. */
VTB_MUST_USE vtb_status picture_write(const picture *p, const char *path, vtb_error *err);
#define PICTURE_FILE "FILE.svg|.png|.pdf"

/* The lengths of a dash and of the gaps behind its parts; how many. */
int pen_dashes(pen_dash d, double length[4]);
/* Text of an element or an attribute of XML and HTML. What is not UTF-8 or no character, control
 * characters and marks that turn the direction of text show as \x1b; lines may end. NULL is
 * nothing. */
void picture_put_text(vtb_strbuf *out, const char *text);

#endif

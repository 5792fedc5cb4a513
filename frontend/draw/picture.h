/* A picture: a list of shapes, written as SVG, whose texts can be searched and copied, or drawn by
 * cairo (canvas.h) as PNG or PDF. Coordinates are pixels, y down; later shapes lie on top.
 * The picture owns copies of its texts and points; free with picture_free(). */
#ifndef VTB_DRAW_PICTURE_H
#define VTB_DRAW_PICTURE_H

#include "frontend/draw/colours.h"

typedef enum shape_kind {
  SHAPE_LINE,
  SHAPE_RECT,
  SHAPE_DISC,
  SHAPE_AREA,
  SHAPE_TEXT,
  SHAPE_GROUP,
  SHAPE_END
} shape_kind;
typedef enum shape_dash { DASH_NONE, DASH_LONG, DASH_DOTS, DASH_MIXED, DASH_EVEN } shape_dash;
typedef enum text_anchor { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END } text_anchor;

typedef struct shape_point {
  double x, y;
} shape_point;

/* LINE through `at`, broken where a point is not finite, or from (x, y) to (x2, y2) if there are
 * none; RECT with corners (x, y), (x2, y2); DISC around (x, y); AREA within `at`; TEXT at (x, y),
 * on its baseline. What stands between a GROUP and its END belongs together: its text is what a
 * page shows of it, other outputs draw what is in it. */
typedef struct shape {
  shape_kind kind;
  double x, y, x2, y2;
  double size; /* width of a line, radius of a disc, height of a text's capitals */
  const shape_point *at;
  size_t n;
  draw_colour colour, edge; /* edge: around a RECT, DISC or AREA, behind a TEXT */
  double edge_size;
  double opacity; /* 0: 1 */
  shape_dash dash;
  const char *text;
  /* texts */
  text_anchor anchor;
  bool bold, turned; /* turned: reads upwards */
  bool fitted;       /* as wide as cairo measures it, whatever font shows it */
  /* groups, for a page */
  const char *name; /* its class */
  int cell;         /* below 0: of none */
  bool stop;        /* can have the focus */
} shape;

typedef struct picture {
  int width, height;
  /* of a page: colours are its variables, `class_name` is its class there, and `what` is told to
   * those who do not see it; NULL: hidden from them */
  bool of_page;
  const char *class_name, *what;
  VTB_VEC(shape) shapes;
} picture;

void picture_add(picture *p, shape s);
void picture_free(picture *p);
/* Of a page: as an element of HTML and of XML. */
void picture_svg(const picture *p, vtb_strbuf *out);
/* As what the name ends with: ".svg", ".png" or ".pdf". Replaces `path` atomically. */
VTB_MUST_USE vtb_status picture_write(const picture *p, const char *path, vtb_error *err);
#define PICTURE_ENDINGS ".svg .png .pdf"

/* What is drawn most. */
void picture_line(picture *p, double x, double y, double x2, double y2, double size,
                  draw_colour colour);
void picture_rect(picture *p, double x, double y, double x2, double y2, draw_colour colour);
void picture_disc(picture *p, double x, double y, double radius, draw_colour colour);
void picture_text(picture *p, double x, double y, double size, draw_colour colour,
                  text_anchor anchor, bool bold, const char *text);

/* The lengths of a dash and of the gaps behind its parts; how many. */
int shape_dashes(shape_dash d, double length[4]);
/* Text of an element or an attribute of XML and HTML. What is not UTF-8 or no character, control
 * characters and marks that turn the direction of text show as \x1b; lines may end. NULL is
 * nothing. */
void picture_put_text(vtb_strbuf *out, const char *text);

#endif

/* A list of shapes, written as SVG or drawn as PNG (canvas.h). Coordinates are pixels, y down;
 * later shapes lie on top.
 * The picture owns copies of its texts; free with picture_free(). */
#ifndef VTB_CLI_PICTURE_H
#define VTB_CLI_PICTURE_H

#include "runtime/base/base.h"

typedef enum shape_kind { SHAPE_LINE, SHAPE_RECT, SHAPE_DISC, SHAPE_ARROW, SHAPE_TEXT } shape_kind;

/* LINE from (x, y) to (x2, y2), dashed if dash > 0 (length of a dash); RECT with corners (x, y),
 * (x2, y2), filled; DISC around (x, y), filled; ARROW head with its tip at (x2, y2), pointing away
 * from (x, y), filled; TEXT beginning at (x, y), its baseline. size: width of a line, radius of a
 * disc, length of a head, height of capitals. */
typedef struct shape {
  shape_kind kind;
  double x, y, x2, y2, size, dash;
  uint32_t colour; /* 0xrrggbb */
  char *text;
} shape;

typedef struct picture {
  int width, height;
  VTB_VEC(shape) shapes;
} picture;

void picture_add(picture *p, shape s); /* text is copied */
void picture_free(picture *p);
/* Width of a text of this height of capitals, in both outputs. */
double picture_text_width(const char *text, double size);
VTB_MUST_USE vtb_status picture_write_svg(const picture *p, const char *path, vtb_error *err);
VTB_MUST_USE vtb_status picture_write_png(const picture *p, const char *path, vtb_error *err);

#endif

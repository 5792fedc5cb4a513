/* Drawing on cairo. Coordinates are pixels, y down; colours 0xrrggbb; what is drawn later lies on
 * top. The paper is white.
 *
 * Text is in the font that fontconfig calls "sans-serif"; bytes that are not UTF-8 and control
 * characters show as \x1b. A canvas that could not be made, or whose memory ran out, takes what is
 * drawn without a word; canvas_save_png() says so.
 */
#ifndef VTB_CLI_CANVAS_H
#define VTB_CLI_CANVAS_H

#include "runtime/image/image.h"

typedef struct canvas canvas;

canvas *canvas_new(int width, int height);
void canvas_free(canvas *c); /* NULL is fine */
/* Replaces `path` atomically. */
VTB_MUST_USE vtb_status canvas_save_png(canvas *c, const char *path, vtb_error *err);

/* dash: length of a dash and of the gap behind it, 0: a whole line. */
void canvas_line(canvas *c, double x, double y, double x2, double y2, double width, double dash,
                 uint32_t colour);
void canvas_rectangle(canvas *c, double x, double y, double width, double height, uint32_t colour);
void canvas_disc(canvas *c, double x, double y, double radius, uint32_t colour);
void canvas_polygon(canvas *c, const double (*corners)[2], int n, uint32_t colour);
/* Begins at (x, y), on its baseline; size: height of capitals. */
void canvas_text(canvas *c, double x, double y, double size, uint32_t colour, const char *text);
/* Scaled to width x height. */
void canvas_image(canvas *c, double x, double y, double width, double height, const vtb_image *im);

/* Pixels that a text of this size is wide. */
double canvas_text_width(const char *text, double size);
/* Bytes of the longest beginning of the text, of whole characters, that is no wider. */
size_t canvas_text_fit(const char *text, double size, double width);

#endif

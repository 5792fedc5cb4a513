/* Drawing on cairo: shapes one after the other, on white paper, into pixels or a page of PDF.
 *
 * Text is in the font that fontconfig calls "sans-serif". A canvas that could not be made, or whose
 * memory ran out, takes what is drawn without a word; its end says so.
 */
#ifndef VTB_DRAW_CANVAS_H
#define VTB_DRAW_CANVAS_H

#include "frontend/draw/picture.h"
#include "runtime/image/image.h"

/* Size of a font whose capitals are 1 high: of DejaVu Sans, nearly so of others. */
#define CANVAS_EM 1.37

typedef struct canvas canvas;

canvas *canvas_new(int width, int height);
void canvas_free(canvas *c); /* NULL is fine */
/* Draws its shapes, of which the picture is rid then. */
void canvas_take(canvas *c, picture *p);
/* Scaled to width x height. */
void canvas_image(canvas *c, double x, double y, double width, double height, const vtb_image *im);
/* Replaces `path` atomically. */
VTB_MUST_USE vtb_status canvas_save_png(canvas *c, const char *path, vtb_error *err);

/* The bytes of a picture as PNG or PDF, as `path` ends. */
VTB_MUST_USE vtb_status canvas_picture(const picture *p, const char *path, vtb_strbuf *out,
                                       vtb_error *err);

/* Pixels that a text of this height of capitals is wide. */
double canvas_text_width(const char *text, double size);
/* Bytes of the longest beginning of the text, of whole characters, that is no wider. */
size_t canvas_text_fit(const char *text, double size, double width);

#endif

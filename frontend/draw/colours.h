/* The colours of all that is drawn and of the page, by name: one for paper that is white, one for a
 * page that is dark. */
#ifndef VTB_DRAW_COLOURS_H
#define VTB_DRAW_COLOURS_H

#include "runtime/base/base.h"

/* A name of the table, or DRAW_RGB(0xrrggbb). */
typedef uint32_t draw_colour;
enum {
  DRAW_NONE,
  DRAW_PAPER,
  DRAW_INK,
  DRAW_SOFT, /* numbers at ticks, what stands back */
  DRAW_GRID,
  DRAW_SERIES, /* the first of DRAW_N_SERIES */
  DRAW_N_SERIES = 8
};
#define DRAW_RGB(rgb) (0xff000000U | (rgb))

typedef struct draw_named {
  const char *name;
  uint32_t light, dark, print; /* 0xrrggbb */
} draw_named;
extern const draw_named draw_colours[];
extern const int draw_n_colours;

/* On white paper, 0xrrggbb. */
uint32_t draw_rgb(draw_colour c);
/* "#0a6bb0", or as a variable of the page's style: "var(--c0)". */
void draw_put_colour(vtb_strbuf *out, draw_colour c, bool of_page);

#endif

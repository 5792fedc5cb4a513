/* See colours.h. Every text has a contrast of 4.5 or more to its paper. */
#include "frontend/draw/colours.h"

/* The first rows are those of the names of colours.h; the others are the page's alone. */
const draw_named draw_colours[] = {
    {"none", 0, 0, 0},
    {"paper", 0xffffff, 0x15171a, 0xffffff},
    {"ink", 0x1c1d1f, 0xe9e9e6, 0x000000},
    {"soft", 0x5c6066, 0xa5a9b0, 0x444444},
    {"grid", 0xececea, 0x282c32, 0xdddddd},
    {"c0", 0x0a6bb0, 0x56b4e9, 0x0a6bb0},
    {"c1", 0xcc4b00, 0xff8a4a, 0xcc4b00},
    {"c2", 0x00805c, 0x2fc596, 0x00805c},
    {"c3", 0xa2407c, 0xe58cc2, 0xa2407c},
    {"c4", 0x8a6a00, 0xe3bf3c, 0x8a6a00},
    {"c5", 0x5b54c9, 0xa9a3ff, 0x5b54c9},
    {"c6", 0x4a4d52, 0xb9bdc4, 0x4a4d52},
    {"c7", 0x007f8f, 0x45c8d6, 0x007f8f},
    {"panel", 0xf6f6f3, 0x1d2024, 0xf4f4f1},
    {"line", 0xdcdcd6, 0x363a41, 0xbbbbbb},
    {"link", 0x0a5a96, 0x7cc0f5, 0x000000},
    {"warn", 0xa83a00, 0xff9a5c, 0x8a2f00},
    {"good", 0x1c6b45, 0x6fd3a2, 0x14532d},
};
const int draw_n_colours = sizeof draw_colours / sizeof *draw_colours;

uint32_t draw_rgb(draw_colour c) {
  return c < (draw_colour)draw_n_colours ? draw_colours[c].light : c & 0xffffff;
}

void draw_put_colour(vtb_strbuf *out, draw_colour c, bool of_page) {
  if (c == DRAW_NONE)
    vtb_strbuf_puts(out, "none");
  else if (of_page && c < (draw_colour)draw_n_colours)
    vtb_strbuf_printf(out, "var(--%s)", draw_colours[c].name);
  else
    vtb_strbuf_printf(out, "#%06x", (unsigned)draw_rgb(c));
}

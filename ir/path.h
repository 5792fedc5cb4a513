/* Grids of one to three axes and the orders in which their tokens are visited.
 *
 * Text form, as carried by the `path` attribute of IR ops:   ORDER '@' LAYOUT
 *   LAYOUT  GRID [ '+' EXTRAS ]
 *   GRID    W | H 'x' W | T 'x' H 'x' W : a series, an image, a video
 *   ORDER   rows | cols | frames | snake | diagonal | hilbert | LETTERS | [i,j,...]
 *           followed by any of  ~ | .hflip | .vflip | .tflip | .snake , left to right
 *   LETTERS the axes t, h, w from the outermost to the innermost: "wht"
 *   EXTRAS  head=a,mid=b,tail=c,at=p : extra tokens standing before the grid, after `at` grid
 *           tokens, and after it in raster (storage) order.
 * Examples: "rows@14x14", "cols~@3x5", "frames@8x14x14", "wth.snake@4x4x4", "rows~@784",
 * "rows~@14x14+mid=1,at=98", "[2,0,1]@3".
 *
 * Meaning: perm[t] is the storage position visited at step t.
 *   rows      storage order: columns innermost, then rows, then frames
 *   cols      down the columns, left to right, frame by frame
 *   frames    through time at each place, places in storage order
 *   snake     rows.snake; .snake turns round at the end of each line, and of each plane
 *   diagonal  anti-diagonals from the top left: by the sum of the coordinates
 *   hilbert   the generalised Hilbert curve for any grid
 *   .hflip    mirrors columns (j -> w-1-j)
 *   .vflip    mirrors rows
 *   .tflip    mirrors frames
 *   ~         reverses the whole order
 * Axes that a grid does not have are one long, so that an order has a meaning on every grid.
 * Extra tokens: `~` reverses the whole sequence, extras included; the other orders keep extra
 * tokens at the same step as their storage place (head first, mid after `at` visited grid tokens,
 * tail last). An explicit list orders all positions, extras too.
 *
 * The `layout` attribute is a LAYOUT alone, "14x14+mid=1,at=98": how the tokens of a sequence stand
 * in storage order, whatever order the op reads them in. It changes nothing that is computed.
 *
 * The `windows` attribute of attention, GRID '/' GRID [ '-' GRID ], "7x7/14x14-3x3": its tokens are
 * the places of a window of 7x7, its heads windows of a grid of 14x14 times heads; windows begin 3
 * places later than at the grid's corner, round its ends. It changes nothing that is computed.
 */
#ifndef VTB_PATH_H
#define VTB_PATH_H

#include "runtime/base/base.h"

/* The extents of a grid, row-major: frames of rows of columns. Axes it does not have are 1. */
typedef struct vtb_grid {
  int rank; /* 1: w; 2: h x w; 3: t x h x w */
  int64_t t, h, w;
} vtb_grid;

enum { VTB_GRID_AXES = 3 };
vtb_grid vtb_grid_series(int64_t w);
vtb_grid vtb_grid_image(int64_t h, int64_t w);
/* The grid of `rank` extents, the outermost first. */
vtb_grid vtb_grid_of(int rank, const int64_t *side);
/* The `rank` extents, the outermost first. */
void vtb_grid_sides(const vtb_grid *g, int64_t *side);
int64_t vtb_grid_cells(const vtb_grid *g);
bool vtb_grid_equal(const vtb_grid *a, const vtb_grid *b);
void vtb_grid_print(const vtb_grid *g, vtb_strbuf *out); /* "8x14x14" */

/* NEST: loops over the axes, one in the other. */
typedef enum vtb_path_order {
  VTB_PATH_NEST,
  VTB_PATH_DIAGONAL,
  VTB_PATH_HILBERT,
  VTB_PATH_LIST
} vtb_path_order;

typedef struct vtb_path {
  vtb_path_order order;
  /* NEST: the innermost axes, of "thw", the innermost last; those not named stand outside in
   * storage order. "" is rows, "h" cols, "t" frames. As short as can be. */
  char nest[VTB_GRID_AXES + 1];
  bool snake, reversed, hflip, vflip, tflip;
  vtb_grid grid;
  int64_t head, mid, at, tail;
  int64_t *list; /* malloc'd; n entries if order is LIST, before reversal */
  int64_t n;     /* sequence length: cells + head + mid + tail */
} vtb_path;

VTB_MUST_USE vtb_status vtb_path_parse(const char *text, vtb_path *p, vtb_error *err);
/* A LAYOUT as the path that visits it in storage order; owns nothing. */
VTB_MUST_USE vtb_status vtb_layout_parse(const char *text, vtb_path *p, vtb_error *err);
/* Storage order of a sequence without extra tokens. */
vtb_path vtb_path_rows(vtb_grid grid);
/* Sets the order to loops over the axes `letters`, the innermost last; false if they are not
 * some of "thw", each at most once. */
bool vtb_path_nest(vtb_path *p, const char *letters);
/* The axes of a NEST from the outermost: 0 frames, 1 rows, 2 columns. */
void vtb_path_axes(const vtb_path *p, int axes[VTB_GRID_AXES]);
void vtb_path_free(vtb_path *p);
void vtb_path_print(const vtb_path *p, vtb_strbuf *out); /* canonical */
/* The text before the '@', without a list: "cols.hflip~" ("list" for one). */
void vtb_path_print_order(const vtb_path *p, vtb_strbuf *out);
void vtb_layout_print(const vtb_path *p, vtb_strbuf *out); /* what follows the '@' */
void vtb_path_indices(const vtb_path *p, int64_t *perm);   /* n entries */
bool vtb_path_is_rows(const vtb_path *p);     /* storage order by its name, whatever the grid */
bool vtb_path_is_identity(const vtb_path *p); /* visits storage order */
/* True if the two visit the same order. */
bool vtb_path_equal(const vtb_path *a, const vtb_path *b);
/* Cells of the grid in the order of the generalised Hilbert curve. */
void vtb__path_hilbert(const vtb_grid *g, int64_t *at);

typedef struct vtb_windows {
  vtb_grid window, grid;
  int64_t shift[VTB_GRID_AXES]; /* frames, rows, columns */
} vtb_windows;
VTB_MUST_USE vtb_status vtb_windows_parse(const char *text, vtb_windows *w, vtb_error *err);
void vtb_windows_print(const vtb_windows *w, vtb_strbuf *out);

/* An order that is affine on the grid, with no extras: storage index of step t = base + (t / inner)
 * * outer_step + (t % inner) * inner_step. Covers loops that are two or fewer once those that
 * continue each other are joined: rows, cols, frames, with reversal and mirrors. */
typedef struct vtb_path_affine {
  int64_t base, inner, outer_step, inner_step;
} vtb_path_affine;
bool vtb_path_get_affine(const vtb_path *p, vtb_path_affine *a);

#endif

/* Traversal orders of a token sequence.
 *
 * Text form, as carried by the `path` attribute of IR ops:   ORDER '@' LAYOUT
 *   LAYOUT  H 'x' W [ '+' EXTRAS ]
 *   ORDER   rows | cols | snake | diagonal | hilbert | [i,j,...]
 *           followed by any of  ~ | .hflip | .vflip , left to right
 *   EXTRAS  head=a,mid=b,tail=c,at=p : extra tokens standing before the grid, after `at` grid
 *           tokens, and after it in raster (storage) order.
 * Examples: "rows@14x14", "cols~@3x5", "rows.hflip@4x4", "rows~@14x14+mid=1,at=98", "[2,0,1]@1x3".
 *
 * Meaning: perm[t] is the storage position visited at step t.
 *   rows      storage order
 *   cols      down the columns, left to right
 *   snake     rows, every other one reversed
 *   diagonal  anti-diagonals from the top left
 *   hilbert   the generalised Hilbert curve for any h x w
 *   .hflip    mirrors columns (j -> w-1-j)
 *   .vflip    mirrors rows
 *   ~         reverses the whole order
 * Extra tokens: `~` reverses the whole sequence, extras included; the other orders keep extra
 * tokens at the same step as their storage place (head first, mid after `at` visited grid tokens,
 * tail last). An explicit list orders all positions, extras too.
 *
 * The `layout` attribute is a LAYOUT alone, "14x14+mid=1,at=98": how the tokens of a sequence stand
 * in storage order, whatever order the op reads them in. It changes nothing that is computed.
 */
#ifndef VTB_PATH_H
#define VTB_PATH_H

#include "runtime/base/base.h"

typedef enum vtb_path_order {
  VTB_PATH_ROWS,
  VTB_PATH_COLS,
  VTB_PATH_SNAKE,
  VTB_PATH_DIAGONAL,
  VTB_PATH_HILBERT,
  VTB_PATH_LIST
} vtb_path_order;

typedef struct vtb_path {
  vtb_path_order order;
  bool reversed, hflip, vflip;
  int64_t h, w;
  int64_t head, mid, at, tail;
  int64_t *list; /* malloc'd; n entries if order is LIST, before reversal */
  int64_t n;     /* sequence length: h*w + head + mid + tail */
} vtb_path;

VTB_MUST_USE vtb_status vtb_path_parse(const char *text, vtb_path *p, vtb_error *err);
/* A LAYOUT as the path that visits it in storage order; owns nothing. */
VTB_MUST_USE vtb_status vtb_layout_parse(const char *text, vtb_path *p, vtb_error *err);
void vtb_path_free(vtb_path *p);
void vtb_path_print(const vtb_path *p, vtb_strbuf *out);   /* canonical */
void vtb_layout_print(const vtb_path *p, vtb_strbuf *out); /* what follows the '@' */
void vtb_path_indices(const vtb_path *p, int64_t *perm);   /* n entries */
bool vtb_path_is_identity(const vtb_path *p);              /* visits storage order */
/* True if the two visit the same order. */
bool vtb_path_equal(const vtb_path *a, const vtb_path *b);

/* Whether order is affine on the grid with no extras: storage index of step t = base + (t / inner)
 * * outer_step + (t % inner) * inner_step. Covers rows and cols with reversal and mirrors. */
typedef struct vtb_path_affine {
  int64_t base, inner, outer_step, inner_step;
} vtb_path_affine;
bool vtb_path_get_affine(const vtb_path *p, vtb_path_affine *a);

#endif

/* Traversal orders: from a path to the permutation it stands for, and to an affine form where there
 * is one.
 *
 * Steps of `cols`, `snake`, `diagonal` and `hilbert` are given as (row, column); anti-diagonals run
 * from their top right end down to the left. Mirrors act on the (row, column) visited, reversal on
 * the finished sequence, so their order in the text does not matter.
 */
#include "ir/path.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void vtb_path_free(vtb_path *p) {
  vtb_free(p->list);
  p->list = NULL;
}

/* ---- orders of the grid: at[t] = row * w + column -------------------------------------------- */

static void order_rows(int64_t h, int64_t w, int64_t *at) {
  for (int64_t t = 0; t < h * w; t++) at[t] = t;
}

static void order_cols(int64_t h, int64_t w, int64_t *at) {
  for (int64_t j = 0; j < w; j++)
    for (int64_t i = 0; i < h; i++) *at++ = i * w + j;
}

static void order_snake(int64_t h, int64_t w, int64_t *at) {
  for (int64_t i = 0; i < h; i++)
    for (int64_t j = 0; j < w; j++) *at++ = i * w + (i % 2 ? w - 1 - j : j);
}

static void order_diagonal(int64_t h, int64_t w, int64_t *at) {
  for (int64_t s = 0; s < h + w - 1; s++)
    for (int64_t i = s < w ? 0 : s - w + 1; i < h && i <= s; i++) *at++ = i * w + (s - i);
}

static int64_t sign(int64_t x) { return (x > 0) - (x < 0); }
static int64_t half(int64_t x) {
  return x < 0 ? -(-x / 2) - (-x % 2) : x / 2;
} /* toward minus infinity */

typedef struct curve {
  int64_t w, *at;
} curve;

/* The block spanned from (x, y) by the major vector a and the minor vector b, entered at its corner
 * and left at the end of a.
 * source  the generalised Hilbert curve for rectangles (J. Cerveny, "gilbert"): halve the longer
 *         side when the block is much longer than wide, else cut it in three: up along b, across
 *         along a, back down. */
static void hilbert(curve *c, int64_t x, int64_t y, int64_t ax, int64_t ay, int64_t bx,
                    int64_t by) {
  int64_t len_a = llabs(ax + ay), len_b = llabs(bx + by);
  int64_t dax = sign(ax), day = sign(ay), dbx = sign(bx), dby = sign(by);
  if (len_a == 1 || len_b == 1) {
    int64_t n = len_b == 1 ? len_a : len_b, sx = len_b == 1 ? dax : dbx,
            sy = len_b == 1 ? day : dby;
    for (int64_t i = 0; i < n; i++) *c->at++ = (y + i * sy) * c->w + x + i * sx;
    return;
  }
  int64_t ax2 = half(ax), ay2 = half(ay), bx2 = half(bx), by2 = half(by);
  if (2 * len_a > 3 * len_b) {
    if (llabs(ax2 + ay2) % 2 && len_a > 2)
      ax2 += dax, ay2 += day; /* even steps meet without a diagonal */
    hilbert(c, x, y, ax2, ay2, bx, by);
    hilbert(c, x + ax2, y + ay2, ax - ax2, ay - ay2, bx, by);
    return;
  }
  if (llabs(bx2 + by2) % 2 && len_b > 2) bx2 += dbx, by2 += dby;
  hilbert(c, x, y, bx2, by2, ax2, ay2);
  hilbert(c, x + bx2, y + by2, ax, ay, bx - bx2, by - by2);
  hilbert(c, x + (ax - dax) + (bx2 - dbx), y + (ay - day) + (by2 - dby), -bx2, -by2, -(ax - ax2),
          -(ay - ay2));
}

static void order_hilbert(int64_t h, int64_t w, int64_t *at) {
  curve c = {w, at};
  if (w >= h)
    hilbert(&c, 0, 0, w, 0, 0, h);
  else
    hilbert(&c, 0, 0, 0, h, w, 0);
}

/* ---- the whole sequence ---------------------------------------------------------------------- */

static int64_t mirror(const vtb_path *p, int64_t cell) {
  int64_t i = cell / p->w, j = cell % p->w;
  return (p->vflip ? p->h - 1 - i : i) * p->w + (p->hflip ? p->w - 1 - j : j);
}

/* Storage position of a grid cell: head tokens stand before, mid tokens after `at` cells. */
static int64_t stored(const vtb_path *p, int64_t cell) {
  return p->head + cell + (cell >= p->at ? p->mid : 0);
}

static void list_indices(const vtb_path *p, int64_t *perm) {
  for (int64_t t = 0; t < p->n; t++) {
    int64_t s = p->list[t], cell = s - p->head;
    assert(s >= 0 && s < p->n);
    bool mid = cell >= p->at && cell < p->at + p->mid;
    if (cell >= p->at + p->mid) cell -= p->mid;
    bool grid = s >= p->head && !mid && cell < p->h * p->w;
    perm[t] = grid ? stored(p, mirror(p, cell)) : s;
  }
}

static void grid_indices(const vtb_path *p, int64_t *perm) {
  int64_t cells = p->h * p->w, t = 0;
  int64_t *at = vtb_xmalloc((size_t)cells * sizeof *at);
  switch (p->order) {
  case VTB_PATH_COLS:
    order_cols(p->h, p->w, at);
    break;
  case VTB_PATH_SNAKE:
    order_snake(p->h, p->w, at);
    break;
  case VTB_PATH_DIAGONAL:
    order_diagonal(p->h, p->w, at);
    break;
  case VTB_PATH_HILBERT:
    order_hilbert(p->h, p->w, at);
    break;
  default:
    order_rows(p->h, p->w, at);
    break;
  }
  for (int64_t i = 0; i < p->head; i++) perm[t++] = i;
  for (int64_t i = 0; i <= cells; i++) {
    if (i == p->at)
      for (int64_t k = 0; k < p->mid; k++) perm[t++] = p->head + p->at + k;
    if (i < cells) perm[t++] = stored(p, mirror(p, at[i]));
  }
  for (int64_t i = 0; i < p->tail; i++) perm[t++] = p->n - p->tail + i;
  assert(t == p->n); /* every position is visited, and once */
  vtb_free(at);
}

void vtb_path_indices(const vtb_path *p, int64_t *perm) {
  if (p->order == VTB_PATH_LIST)
    list_indices(p, perm);
  else
    grid_indices(p, perm);
  for (int64_t a = 0, b = p->n - 1; p->reversed && a < b; a++, b--) {
    int64_t swap = perm[a];
    perm[a] = perm[b];
    perm[b] = swap;
  }
}

static int64_t *indices_of(const vtb_path *p) {
  int64_t *perm = vtb_xmalloc((size_t)p->n * sizeof *perm);
  vtb_path_indices(p, perm);
  return perm;
}

bool vtb_path_is_identity(const vtb_path *p) {
  if (p->order == VTB_PATH_ROWS && !p->reversed && !p->hflip && !p->vflip) return true;
  int64_t *perm = indices_of(p);
  bool identity = true;
  for (int64_t t = 0; t < p->n && identity; t++) identity = perm[t] == t;
  vtb_free(perm);
  return identity;
}

bool vtb_path_equal(const vtb_path *a, const vtb_path *b) {
  if (a->n != b->n) return false;
  int64_t *pa = indices_of(a), *pb = indices_of(b);
  bool equal = memcmp(pa, pb, (size_t)a->n * sizeof *pa) == 0;
  vtb_free(pa);
  vtb_free(pb);
  return equal;
}

/* ---- affine form ----------------------------------------------------------------------------- */

bool vtb_path_get_affine(const vtb_path *p, vtb_path_affine *a) {
  if (p->order != VTB_PATH_ROWS && p->order != VTB_PATH_COLS) return false;
  bool extras = p->head || p->mid || p->tail;
  if (p->order == VTB_PATH_ROWS && !p->hflip &&
      !p->vflip) { /* storage order, extras and all, or its reversal */
    *a = (vtb_path_affine){p->reversed ? p->n - 1 : 0, p->n, 0, p->reversed ? -1 : 1};
    return true;
  }
  if (extras) return false;
  int64_t row = p->vflip ? -p->w : p->w, col = p->hflip ? -1 : 1;
  int64_t base = (p->vflip ? (p->h - 1) * p->w : 0) + (p->hflip ? p->w - 1 : 0);
  bool cols = p->order == VTB_PATH_COLS;
  *a = (vtb_path_affine){base, cols ? p->h : p->w, cols ? col : row, cols ? row : col};
  if (!p->reversed) return true;
  int64_t outer = cols ? p->w : p->h;
  a->base += (outer - 1) * a->outer_step + (a->inner - 1) * a->inner_step;
  a->outer_step = -a->outer_step;
  a->inner_step = -a->inner_step;
  return true;
}

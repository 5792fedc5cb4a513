/* Traversal orders: from a path to the permutation it stands for, and to an affine form where there
 * is one.
 *
 * Anti-diagonals run from their top right end down to the left. Mirrors act on the cell visited,
 * reversal on the finished sequence, so their order in the text does not matter.
 */
#include "ir/path.h"

#include <assert.h>
#include <string.h>

void vtb_path_free(vtb_path *p) {
  vtb_free(p->list);
  p->list = NULL;
}

/* ---- grids ----------------------------------------------------------------------------------- */

vtb_grid vtb_grid_series(int64_t w) { return (vtb_grid){1, 1, 1, w}; }
vtb_grid vtb_grid_image(int64_t h, int64_t w) { return (vtb_grid){2, 1, h, w}; }

vtb_grid vtb_grid_of(int rank, const int64_t *side) {
  return (vtb_grid){rank, rank > 2 ? side[rank - 3] : 1, rank > 1 ? side[rank - 2] : 1,
                    side[rank - 1]};
}

void vtb_grid_sides(const vtb_grid *g, int64_t *side) {
  const int64_t all[VTB_GRID_AXES] = {g->t, g->h, g->w};
  for (int k = 0; k < g->rank; k++) side[k] = all[VTB_GRID_AXES - g->rank + k];
}

int64_t vtb_grid_cells(const vtb_grid *g) { return g->t * g->h * g->w; }

bool vtb_grid_equal(const vtb_grid *a, const vtb_grid *b) {
  return a->rank == b->rank && a->t == b->t && a->h == b->h && a->w == b->w;
}

void vtb_grid_print(const vtb_grid *g, vtb_strbuf *out) {
  int64_t side[VTB_GRID_AXES];
  vtb_grid_sides(g, side);
  for (int k = 0; k < g->rank; k++)
    vtb_strbuf_printf(out, k ? "x%lld" : "%lld", (long long)side[k]);
}

vtb_path vtb_path_rows(vtb_grid grid) {
  return (vtb_path){.grid = grid, .n = vtb_grid_cells(&grid)};
}

/* ---- loops over the axes --------------------------------------------------------------------- */

static const char letters[] = "thw";

static int axis_of(char letter) {
  const char *at = letter ? strchr(letters, letter) : NULL;
  return at ? (int)(at - letters) : -1;
}

void vtb_path_axes(const vtb_path *p, int axes[VTB_GRID_AXES]) {
  int n = 0;
  for (int a = 0; a < VTB_GRID_AXES; a++)
    if (!strchr(p->nest, letters[a])) axes[n++] = a;
  for (const char *c = p->nest; *c; c++) axes[n++] = axis_of(*c);
}

bool vtb_path_nest(vtb_path *p, const char *text) {
  size_t n = strlen(text);
  if (n > VTB_GRID_AXES) return false;
  for (size_t i = 0; i < n; i++)
    if (axis_of(text[i]) < 0 || strchr(text + i + 1, text[i])) return false;
  int want[VTB_GRID_AXES], axes[VTB_GRID_AXES];
  p->order = VTB_PATH_NEST;
  memcpy(p->nest, text, n + 1);
  vtb_path_axes(p, want);
  for (size_t drop = n + 1; drop-- > 0;) { /* the shortest end that says as much */
    memcpy(p->nest, text + drop, n - drop + 1);
    vtb_path_axes(p, axes);
    if (memcmp(axes, want, sizeof want) == 0) break;
  }
  return true;
}

/* ---- orders of the grid: at[t] = the cell's number in storage order -------------------------- */

/* A snake turns at the end of each line, and of each plane. */
static void order_nest(const vtb_path *p, int64_t *at) {
  const vtb_grid *g = &p->grid;
  const int64_t side[VTB_GRID_AXES] = {g->t, g->h, g->w},
                step[VTB_GRID_AXES] = {g->h * g->w, g->w, 1};
  int axes[VTB_GRID_AXES];
  vtb_path_axes(p, axes);
  int64_t n0 = side[axes[0]], n1 = side[axes[1]], n2 = side[axes[2]], line = 0;
  for (int64_t i = 0; i < n0; i++)
    for (int64_t j = 0; j < n1; j++, line++)
      for (int64_t k = 0; k < n2; k++) {
        int64_t y = p->snake && i % 2 ? n1 - 1 - j : j, x = p->snake && line % 2 ? n2 - 1 - k : k;
        *at++ = i * step[axes[0]] + y * step[axes[1]] + x * step[axes[2]];
      }
}

static void order_diagonal(const vtb_grid *g, int64_t *at) {
  for (int64_t s = 0; s < g->t + g->h + g->w - 2; s++)
    for (int64_t t = 0; t < g->t && t <= s; t++)
      for (int64_t i = s - t < g->w ? 0 : s - t - g->w + 1; i < g->h && i <= s - t; i++)
        *at++ = (t * g->h + i) * g->w + (s - t - i);
}

/* ---- the whole sequence ---------------------------------------------------------------------- */

static int64_t mirror(const vtb_path *p, int64_t cell) {
  const vtb_grid *g = &p->grid;
  int64_t j = cell % g->w, i = cell / g->w % g->h, t = cell / g->w / g->h;
  if (p->tflip) t = g->t - 1 - t;
  if (p->vflip) i = g->h - 1 - i;
  return (t * g->h + i) * g->w + (p->hflip ? g->w - 1 - j : j);
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
    bool grid = s >= p->head && !mid && cell < vtb_grid_cells(&p->grid);
    perm[t] = grid ? stored(p, mirror(p, cell)) : s;
  }
}

static void grid_indices(const vtb_path *p, int64_t *perm) {
  int64_t cells = vtb_grid_cells(&p->grid), t = 0;
  int64_t *at = vtb_xmalloc((size_t)cells * sizeof *at);
  if (p->order == VTB_PATH_HILBERT)
    vtb__path_hilbert(&p->grid, at);
  else if (p->order == VTB_PATH_DIAGONAL)
    order_diagonal(&p->grid, at);
  else
    order_nest(p, at);
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

bool vtb_path_is_rows(const vtb_path *p) {
  return p->order == VTB_PATH_NEST && !*p->nest && !p->snake && !p->reversed && !p->hflip &&
         !p->vflip && !p->tflip;
}

bool vtb_path_is_identity(const vtb_path *p) {
  if (vtb_path_is_rows(p)) return true;
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

typedef struct loops {
  int n;
  int64_t base, size[VTB_GRID_AXES], step[VTB_GRID_AXES]; /* the outermost first */
} loops;

/* The loops of a NEST on its mirrored grid, those joined that continue each other. */
static loops joined_loops(const vtb_path *p) {
  const vtb_grid *g = &p->grid;
  const int64_t side[VTB_GRID_AXES] = {g->t, g->h, g->w},
                step[VTB_GRID_AXES] = {g->h * g->w, g->w, 1};
  const bool flip[VTB_GRID_AXES] = {p->tflip, p->vflip, p->hflip};
  loops l = {0};
  int axes[VTB_GRID_AXES];
  vtb_path_axes(p, axes);
  for (int k = 0; k < VTB_GRID_AXES; k++) {
    int a = axes[k];
    int64_t by = flip[a] ? -step[a] : step[a];
    if (flip[a]) l.base += (side[a] - 1) * step[a];
    if (side[a] == 1) continue;
    if (l.n && l.step[l.n - 1] == by * side[a])
      l.size[l.n - 1] *= side[a], l.step[l.n - 1] = by;
    else
      l.size[l.n] = side[a], l.step[l.n++] = by;
  }
  return l;
}

bool vtb_path_get_affine(const vtb_path *p, vtb_path_affine *a) {
  if (p->order != VTB_PATH_NEST || p->snake) return false;
  vtb_path forward = *p;
  forward.reversed = false;
  if (vtb_path_is_rows(&forward)) { /* storage order, extras and all, or its reversal */
    *a = (vtb_path_affine){p->reversed ? p->n - 1 : 0, p->n, 0, p->reversed ? -1 : 1};
    return true;
  }
  loops l = joined_loops(p);
  if (p->head || p->mid || p->tail || l.n > 2) return false;
  bool two = l.n == 2;
  int64_t outer = two ? l.size[0] : 1, inner = l.n ? l.size[l.n - 1] : 1;
  *a = (vtb_path_affine){l.base, inner, two ? l.step[0] : 0, l.n ? l.step[l.n - 1] : 1};
  if (!p->reversed) return true;
  a->base += (outer - 1) * a->outer_step + (inner - 1) * a->inner_step;
  a->outer_step = -a->outer_step;
  a->inner_step = -a->inner_step;
  return true;
}

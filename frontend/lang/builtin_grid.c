/* Builtins that move tokens on their grid, of one to three axes: windows, rolls, pixel shuffles;
 * and what is known of a grid when compiling: coordinates, masks. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

#include <math.h>

enum { MAX_AXES = 2 * VTB_GRID_AXES + 2 }; /* batch, a grid of grids, channels */

/* A tensor while its grid is taken apart; NULL after an error. */
typedef struct mover {
  vtb__eval *e;
  vtb_span span;
  vtb_value *v;
} mover;

static bool is_grid(vtb__eval *e, const vtb__args *a, vtb__val x) {
  const vtb__layout *l = x.u.t.layout;
  if (l->kind == VTB__TOKENS && !vtb__layout_extra(l) && !l->via && x.u.t.v->type.rank == 3)
    return true;
  vtb__report(e, l->kind == VTB__TOKENS ? VTB_DIAG_NEEDS_GRID : VTB_DIAG_NEEDS_TOKENS, a->span,
              "%s takes tokens [B, N, C] of a complete grid in storage order, not %s", a->name,
              vtb__describe(e, x));
  if (l->kind == VTB__IMAGE) vtb__help(e, "pixels(x) of std.conv makes tokens of an image");
  return false;
}

static vtb_value *take_grid(vtb__eval *e, const vtb__args *a, vtb__val *x) {
  *x = vtb__arg(a, "x");
  return is_grid(e, a, *x) ? x->u.t.v : NULL;
}

static const char *sides_text(vtb__eval *e, const int64_t *side, int rank) {
  vtb_grid g = vtb_grid_of(rank, side);
  return vtb__grid_text(e, &g);
}

/* [B, sizes...] */
static void reshape(mover *m, const int64_t *sizes, int rank) {
  if (!m->v) return;
  vtb_type t = {.dtype = m->v->type.dtype, .rank = rank + 1, .dim = {m->v->type.dim[0]}};
  for (int i = 0; i < rank; i++) t.dim[i + 1] = (vtb_dim){sizes[i], NULL};
  if (rank == 2)
    t.dim[1].name = vtb_intern(m->e->module, "N"), t.dim[2].name = vtb_intern(m->e->module, "C");
  m->v = vtb_b_reshape(vtb__at(m->e, m->span), m->v, &t);
}

static void transpose(mover *m, const int64_t *perm) {
  m->v = vtb_b_transpose(vtb__at(m->e, m->span), m->v, perm);
}

static void pad_end(mover *m, int64_t axis, int64_t n) {
  if (!n || !m->v) return;
  vtb_attr attrs[] = {VTB_A_INT("axis", axis), VTB_A_INT("low", 0), VTB_A_INT("high", n)};
  m->v = vtb_b_op(vtb__at(m->e, m->span), VTB_OP_pad, &m->v, 1, attrs, 3);
}

static vtb_value *cut(mover *m, int axis, int64_t from, int64_t to) {
  return vtb_b_slice(vtb__at(m->e, m->span), m->v, axis, from, to, 1);
}

/* Tokens of a grid of these sides, from [B, sides..., c]; `like` says what was rolled. */
static vtb__val tokens_like(mover *m, const vtb__layout *like, const int64_t *side, int rank,
                            int64_t c) {
  vtb__layout l = {.kind = VTB__TOKENS, .grid = vtb_grid_of(rank, side)};
  if (like) memcpy(l.rolled, like->rolled, sizeof l.rolled), l.windows_of = like->windows_of;
  reshape(m, (int64_t[]){vtb_grid_cells(&l.grid), c}, 2);
  return vtb__tensor(m->v, vtb__layout_new(m->e, l));
}

static vtb__val as_tokens(mover *m, const int64_t *side, int rank, int64_t c) {
  return tokens_like(m, NULL, side, rank, c);
}

/* [B, N, c] as [B, sides..., c] */
static void open_grid(mover *m, const int64_t *side, int rank, int64_t c) {
  int64_t sizes[VTB_GRID_AXES + 1];
  for (int k = 0; k < rank; k++) sizes[k] = side[k];
  sizes[rank] = c;
  reshape(m, sizes, rank + 1);
}

/* Along an axis, what leaves at the end comes back at the beginning. */
static void roll_axis(mover *m, int axis, int64_t by) {
  int64_t n = m->v ? m->v->type.dim[axis].size : 0;
  by = n ? (by % n + n) % n : 0;
  if (!by) return;
  vtb_value *parts[2] = {cut(m, axis, n - by, n), cut(m, axis, 0, n - by)};
  m->v = vtb_b_concat(vtb__at(m->e, m->span), parts, 2, axis);
}

/* ---- windows --------------------------------------------------------------------------------- */

static int64_t windows_along(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Places that windows begin later, below their extents. */
static bool take_shift(vtb__eval *e, const vtb__args *a, int rank, const int64_t *w,
                       int64_t *shift) {
  if (!vtb__sides(e, a, "shift", rank, shift)) return false;
  for (int k = 0; k < rank; k++) {
    if (shift[k] >= 0 && shift[k] < w[k]) continue;
    vtb__report(e, VTB_DIAG_BAD_SIZE, a->span,
                "%s shifts windows of %lld by %lld; a shift is at least 0 and below the window",
                a->name, (long long)w[k], (long long)shift[k]);
    return false;
  }
  return true;
}

/* window_partition(x, 7x7, shift = 0): the grid, zeros added behind each axis, in windows, which
 * begin `shift` places later, round its ends. Tokens of the result are the places of a window; each
 * holds the channels of all windows side by side, windows row by row: [B, 7*7, windows*C]. */
vtb__val vtb__b_window_partition(vtb__eval *e, const vtb__args *a) {
  vtb__val x;
  mover m = {e, a->span, take_grid(e, a, &x)};
  int64_t w[VTB_GRID_AXES], side[VTB_GRID_AXES], cuts[MAX_AXES], perm[MAX_AXES] = {0}, windows = 1;
  int64_t shift[VTB_GRID_AXES];
  if (!m.v) return VTB__ERR;
  const vtb_grid *g = &x.u.t.layout->grid;
  int r = g->rank;
  if (!vtb__sides(e, a, "size", r, w)) return VTB__ERR;
  for (int k = 0; k < r; k++)
    if (w[k] < 1 || w[k] > VTB__MAX_LIST)
      return vtb__report(e, VTB_DIAG_BAD_SIZE, a->span,
                         "window_partition needs the size of a window");
  if (!take_shift(e, a, r, w, shift)) return VTB__ERR;
  int64_t c = m.v->type.dim[2].size;
  vtb__layout rolled = *x.u.t.layout;
  rolled.windows_of = *g;
  vtb_grid_sides(g, side);
  open_grid(&m, side, r, c);
  for (int k = 0; k < r; k++) {
    int64_t n = windows_along(side[k], w[k]);
    pad_end(&m, 1 + k, n * w[k] - side[k]);
    roll_axis(&m, 1 + k, -shift[k]);
    rolled.rolled[VTB_GRID_AXES - r + k] -= shift[k];
    cuts[2 * k] = n, cuts[2 * k + 1] = w[k], windows *= n;
    perm[1 + k] = 2 + 2 * k, perm[1 + r + k] = 1 + 2 * k;
  }
  cuts[2 * r] = c, perm[1 + 2 * r] = 1 + 2 * r;
  reshape(&m, cuts, 2 * r + 1);
  transpose(&m, perm);
  return tokens_like(&m, &rolled, w, r, windows * c);
}

/* window_merge(x, grid, shift = 0): the reverse, cropped to the grid. */
vtb__val vtb__b_window_merge(vtb__eval *e, const vtb__args *a) {
  vtb__val x;
  mover m = {e, a->span, take_grid(e, a, &x)};
  int64_t w[VTB_GRID_AXES], side[VTB_GRID_AXES], whole[VTB_GRID_AXES], cuts[MAX_AXES],
      perm[MAX_AXES] = {0}, windows = 1, shift[VTB_GRID_AXES];
  if (!m.v) return VTB__ERR;
  const vtb_grid *g = &x.u.t.layout->grid;
  int r = g->rank;
  if (!vtb__sides(e, a, "grid", r, side)) return VTB__ERR;
  vtb_grid_sides(g, w);
  if (!take_shift(e, a, r, w, shift)) return VTB__ERR;
  vtb__layout rolled = *x.u.t.layout;
  rolled.windows_of = (vtb_grid){0};
  for (int k = 0; k < r; k++) {
    if (side[k] < 1)
      return vtb__report(e, VTB_DIAG_BAD_SIZE, a->span, "window_merge needs the size of the grid");
    int64_t n = windows_along(side[k], w[k]);
    windows *= n, whole[k] = n * w[k];
    cuts[k] = w[k], cuts[r + k] = n;
    perm[1 + 2 * k] = 1 + r + k, perm[2 + 2 * k] = 1 + k;
  }
  int64_t channels = m.v->type.dim[2].size, c = channels / windows;
  if (c * windows != channels || c == 0)
    return vtb__report(e, VTB_DIAG_NOT_DIVISIBLE, a->span,
                       "%s does not hold the %lld windows of %s that cover a grid of %s",
                       vtb__describe(e, x), (long long)windows, vtb__grid_text(e, g),
                       sides_text(e, side, r));
  cuts[2 * r] = c, perm[1 + 2 * r] = 1 + 2 * r;
  reshape(&m, cuts, 2 * r + 1);
  transpose(&m, perm);
  open_grid(&m, whole, r, c);
  for (int k = 0; k < r; k++) {
    roll_axis(&m, 1 + k, shift[k]);
    if (whole[k] != side[k]) m.v = cut(&m, 1 + k, 0, side[k]);
    rolled.rolled[VTB_GRID_AXES - r + k] += shift[k];
  }
  return tokens_like(&m, &rolled, side, r, c);
}

/* ---- rolls and shuffles ---------------------------------------------------------------------- */

/* One step an axis; steps may be negative. */
static bool take_steps(vtb__eval *e, const vtb__args *a, vtb__val v, const vtb_grid *g,
                       int64_t *by) {
  if (v.kind == VTB__SIZE && v.u.size.rank == g->rank) {
    vtb_grid_sides(&v.u.size, by);
    return true;
  }
  bool good = v.kind == VTB__LIST && v.u.list.n == (size_t)g->rank;
  for (int k = 0; k < g->rank && good; k++) {
    good = v.u.list.at[k].kind == VTB__INT;
    by[k] = v.u.list.at[k].u.i;
  }
  if (!good)
    vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span,
                "%s takes a list of %d int%s on a grid of %s, not %s", a->name, g->rank,
                g->rank == 1 ? "" : "s", vtb__grid_text(e, g), vtb__describe(e, v));
  return good;
}

vtb__val vtb__roll_grid(vtb__eval *e, const vtb__args *a, vtb__val x, vtb__val steps) {
  int64_t side[VTB_GRID_AXES], by[VTB_GRID_AXES];
  const vtb_grid *g = &x.u.t.layout->grid;
  if (!is_grid(e, a, x) || !take_steps(e, a, steps, g, by)) return VTB__ERR;
  mover m = {e, a->span, x.u.t.v};
  int64_t c = m.v->type.dim[2].size;
  vtb_grid_sides(g, side);
  open_grid(&m, side, g->rank, c);
  vtb__layout l = *x.u.t.layout;
  for (int k = 0; k < g->rank; k++) {
    int axis = VTB_GRID_AXES - g->rank + k;
    roll_axis(&m, 1 + k, by[k]);
    l.rolled[axis] = ((l.rolled[axis] + by[k]) % side[k] + side[k]) % side[k];
  }
  return tokens_like(&m, &l, side, g->rank, c);
}

static bool take_factor(vtb__eval *e, const vtb__args *a, int rank, int64_t *r, int64_t *all) {
  *all = 1;
  if (!vtb__sides(e, a, "factor", rank, r)) return false;
  for (int k = 0; k < rank; k++) {
    if (r[k] < 1 || r[k] > VTB__MAX_LIST) {
      vtb__report(e, VTB_DIAG_BAD_SIZE, a->span, "%s needs the factor of the grid's sides",
                  a->name);
      return false;
    }
    *all *= r[k];
  }
  return true;
}

/* pixel_shuffle(x, 2): channels [c, r...] of a token become r... tokens of c channels. */
vtb__val vtb__b_pixel_shuffle(vtb__eval *e, const vtb__args *a) {
  vtb__val x;
  mover m = {e, a->span, take_grid(e, a, &x)};
  int64_t side[VTB_GRID_AXES], r[VTB_GRID_AXES], cuts[MAX_AXES], perm[MAX_AXES] = {0}, all;
  if (!m.v) return VTB__ERR;
  const vtb_grid *g = &x.u.t.layout->grid;
  int n = g->rank;
  if (!take_factor(e, a, n, r, &all)) return VTB__ERR;
  int64_t channels = m.v->type.dim[2].size, c = channels / all;
  if (c * all != channels)
    return vtb__report(e, VTB_DIAG_NOT_DIVISIBLE, a->span,
                       "pixel_shuffle by %s needs channels that %lld divides, not %s",
                       sides_text(e, r, n), (long long)all, vtb__describe(e, x));
  vtb_grid_sides(g, side);
  for (int k = 0; k < n; k++) {
    cuts[k] = side[k], cuts[n + 1 + k] = r[k];
    perm[1 + 2 * k] = 1 + k, perm[2 + 2 * k] = 2 + n + k;
    side[k] *= r[k];
  }
  cuts[n] = c, perm[1 + 2 * n] = 1 + n;
  reshape(&m, cuts, 2 * n + 1);
  transpose(&m, perm);
  return as_tokens(&m, side, n, c);
}

/* pixel_unshuffle(x, 2): the reverse; neighbours become channels [c, r...] of one token. */
vtb__val vtb__b_pixel_unshuffle(vtb__eval *e, const vtb__args *a) {
  vtb__val x;
  mover m = {e, a->span, take_grid(e, a, &x)};
  int64_t side[VTB_GRID_AXES], r[VTB_GRID_AXES], cuts[MAX_AXES], perm[MAX_AXES] = {0}, all;
  if (!m.v) return VTB__ERR;
  const vtb_grid *g = &x.u.t.layout->grid;
  int n = g->rank;
  if (!take_factor(e, a, n, r, &all)) return VTB__ERR;
  int64_t c = m.v->type.dim[2].size;
  vtb_grid_sides(g, side);
  for (int k = 0; k < n; k++) {
    if (side[k] % r[k])
      return vtb__report(e, VTB_DIAG_NOT_DIVISIBLE, a->span,
                         "pixel_unshuffle by %lld does not divide a grid of %s", (long long)r[k],
                         vtb__grid_text(e, g));
    side[k] /= r[k];
    cuts[2 * k] = side[k], cuts[2 * k + 1] = r[k];
    perm[1 + k] = 1 + 2 * k, perm[2 + n + k] = 2 + 2 * k;
  }
  cuts[2 * n] = c, perm[1 + n] = 1 + 2 * n;
  reshape(&m, cuts, 2 * n + 1);
  transpose(&m, perm);
  return as_tokens(&m, side, n, c * all);
}

/* ---- what is known when compiling ------------------------------------------------------------ */

static vtb__val constant(vtb__eval *e, const double *data, int rank, const int64_t *sizes,
                         vtb_span span) {
  vtb_type t = {.dtype = VTB_F32, .rank = rank};
  for (int k = 0; k < rank; k++) t.dim[k] = (vtb_dim){sizes[k], NULL};
  return vtb__tensor(vtb_b_data(vtb__at(e, span), data, &t), NULL);
}

/* The coordinates of the cells of a grid, a tensor an axis: columns, rows, frames. */
static vtb__val places(vtb__eval *e, const vtb_grid *g, vtb__kind kind, vtb_span span) {
  int64_t n = vtb_grid_cells(g), below = 1, side[VTB_GRID_AXES];
  vtb__val *out = VTB_NEW_ARRAY(&e->arena, vtb__val, g->rank);
  vtb_grid_sides(g, side);
  for (int k = 0; k < g->rank; k++) {
    int64_t s = side[g->rank - 1 - k];
    double *data = VTB_NEW_ARRAY(&e->arena, double, n);
    for (int64_t i = 0; i < n; i++) data[i] = (double)(i / below % s);
    below *= s;
    out[k] = constant(e, data, 1, &n, span);
    if (out[k].kind == VTB__ERROR) return VTB__ERR;
  }
  return (vtb__val){.kind = kind, .u.list = {out, (size_t)g->rank}};
}

/* coordinates(n, width): the columns and the rows of n tokens that stand row by row, `width` a row.
 * coordinates(grid): a list of one tensor an axis, the innermost first. */
vtb__val vtb__b_coordinates(vtb__eval *e, const vtb__args *a) {
  if (a->n == 1) {
    vtb_grid g = vtb__arg(a, "grid").u.size;
    if (!g.rank) g = vtb_grid_series(g.w);
    if ((double)g.t * (double)g.h * (double)g.w > VTB__MAX_DATA || vtb_grid_cells(&g) < 1)
      return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span, "coordinates of a grid of %s",
                         vtb__grid_text(e, &g));
    return places(e, &g, VTB__LIST, a->span);
  }
  int64_t n = vtb__arg(a, "n").u.i, width = vtb__arg(a, "width").u.i;
  if (n < 1 || n > VTB__MAX_DATA || width < 1)
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span, "coordinates of %lld tokens, %lld a row",
                       (long long)n, (long long)width);
  double *columns = VTB_NEW_ARRAY(&e->arena, double, n),
         *rows = VTB_NEW_ARRAY(&e->arena, double, n);
  for (int64_t i = 0; i < n; i++) {
    columns[i] = (double)(i % width);
    rows[i] = (double)(i / width);
  }
  vtb__val *out = VTB_NEW_ARRAY(&e->arena, vtb__val, 2);
  out[0] = constant(e, columns, 1, &n, a->span);
  out[1] = constant(e, rows, 1, &n, a->span);
  if (out[0].kind == VTB__ERROR || out[1].kind == VTB__ERROR) return VTB__ERR;
  return (vtb__val){.kind = VTB__TUPLE, .u.list = {out, 2}};
}

/* size_on(x, 3): a size with an extent for each axis of x's grid. */
vtb__val vtb__b_size_on(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  int64_t side[VTB_GRID_AXES];
  if (x.u.t.layout->kind == VTB__PLAIN) {
    vtb__report(e, VTB_DIAG_NEEDS_TOKENS, a->span, "size_on takes tokens or an image, not %s",
                vtb__describe(e, x));
    if (x.u.t.v->type.rank == 3)
      vtb__help(e, "one channel of an image is an image as x[:, 0:1]; as_tokens makes tokens of a "
                   "grid [B, h, w, C]");
    return VTB__ERR;
  }
  int rank = x.u.t.layout->grid.rank;
  if (!vtb__sides(e, a, "size", rank, side)) return VTB__ERR;
  return (vtb__val){.kind = VTB__SIZE, .u.size = vtb_grid_of(rank, side)};
}

/* The kind of place p of an axis of windows: the grid's inside, its beginning, padding. Places of a
 * window that are not alike were not neighbours. */
static int64_t region(int64_t p, int64_t side, int64_t padded, int64_t shift) {
  return (p + shift) % padded >= side ? 2 : p + shift >= padded;
}

/* The regions of the n places of window i. */
static void regions(const int64_t *side, const int64_t *w, const int64_t *shift, int rank,
                    int64_t i, int64_t n, int64_t *of) {
  for (int64_t j = 0; j < n; j++) {
    int64_t win = i, at = j;
    of[j] = 0;
    for (int k = rank - 1; k >= 0; k--) { /* the innermost first */
      int64_t count = windows_along(side[k], w[k]), p = win % count * w[k] + at % w[k];
      of[j] = of[j] * 3 + region(p, side[k], count * w[k], shift[k]);
      win /= count, at /= w[k];
    }
  }
}

/* window_mask(grid, size, shift = 0): what attention in windows may see, [windows, N, N]: 0 for
 * places that are together in the grid, -inf where a shift brought them together, or padding. */
vtb__val vtb__b_window_mask(vtb__eval *e, const vtb__args *a) {
  int64_t side[VTB_GRID_AXES], w[VTB_GRID_AXES], shift[VTB_GRID_AXES], windows = 1, n = 1;
  int r = vtb__arg(a, "grid").u.size.rank;
  if (!r) r = 2;
  if (!vtb__sides(e, a, "grid", r, side) || !vtb__sides(e, a, "size", r, w) ||
      !take_shift(e, a, r, w, shift))
    return VTB__ERR;
  for (int k = 0; k < r; k++) {
    if (side[k] < 1 || w[k] < 1 || w[k] > VTB__MAX_LIST)
      return vtb__report(e, VTB_DIAG_BAD_SIZE, a->span,
                         "window_mask takes a grid and the size of its windows");
    windows *= windows_along(side[k], w[k]), n *= w[k];
  }
  if ((double)windows * (double)n * (double)n > VTB__MAX_DATA)
    return vtb__report(e, VTB_DIAG_TOO_LARGE, a->span, "a mask of %lld windows of %lld tokens",
                       (long long)windows, (long long)n);
  int64_t *of = VTB_NEW_ARRAY(&e->arena, int64_t, n);
  double *data = VTB_NEW_ARRAY(&e->arena, double, windows *n *n);
  for (int64_t i = 0; i < windows; i++) {
    regions(side, w, shift, r, i, n, of);
    for (int64_t j = 0; j < n * n; j++)
      data[i * n * n + j] = of[j / n] == of[j % n] ? 0 : -HUGE_VAL;
  }
  return constant(e, data, 3, (int64_t[]){windows, n, n}, a->span);
}

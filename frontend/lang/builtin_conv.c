/* Builtins of convolutions, on grids of one to three axes: patches and the way back, depthwise
 * convolutions. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

/* Kernel, stride and pad of patches, an entry an axis. */
typedef struct window {
  int rank;
  int64_t size[VTB_GRID_AXES]; /* of the image */
  int64_t kernel[VTB_GRID_AXES], stride[VTB_GRID_AXES];
  int64_t pad[2 * VTB_GRID_AXES]; /* before each axis, then behind */
  vtb_grid out;                   /* the grid of patches */
} window;

static const char *sides_text(vtb__eval *e, const int64_t *side, int rank) {
  vtb_grid g = vtb_grid_of(rank, side);
  return vtb__grid_text(e, &g);
}

static bool options(vtb__eval *e, const vtb__args *a, window *w) {
  const char *stride = vtb__arg_of(a, "stride")->given ? "stride" : "kernel";
  if (!vtb__sides(e, a, "kernel", w->rank, w->kernel) ||
      !vtb__sides(e, a, stride, w->rank, w->stride) || !vtb__sides(e, a, "pad", w->rank, w->pad))
    return false;
  for (int k = 0; k < w->rank; k++) {
    w->pad[w->rank + k] = w->pad[k];
    if (w->kernel[k] >= 1 && w->stride[k] >= 1 && w->pad[k] >= 0 && w->pad[k] <= 4096) continue;
    vtb__report(e, VTB_DIAG_BAD_VALUE, a->span, "kernel and stride are at least 1, pad at least 0");
    return false;
  }
  return true;
}

/* The grid of patches. Without padding they have to end with the image, unless what is behind the
 * last one may be left out (`cut`). */
static bool fit(vtb__eval *e, const vtb__args *a, window *w, bool cut) {
  int64_t side[VTB_GRID_AXES];
  bool padded = false, fits = true;
  for (int k = 0; k < w->rank; k++) padded |= w->pad[k] > 0 || cut;
  for (int k = 0; k < w->rank; k++) {
    int64_t room = w->size[k] + 2 * w->pad[k] - w->kernel[k];
    fits = fits && room >= 0 && (padded || room % w->stride[k] == 0);
    side[k] = room / w->stride[k] + 1;
  }
  if (fits) {
    w->out = vtb_grid_of(w->rank, side);
    return true;
  }
  vtb__report(e, VTB_DIAG_PATCH_FIT, a->span, "patches of %s, stride %s, do not fit %s of %s",
              sides_text(e, w->kernel, w->rank), sides_text(e, w->stride, w->rank),
              w->rank == 1   ? "a series"
              : w->rank == 2 ? "an image"
                             : "a video",
              sides_text(e, w->size, w->rank));
  vtb__help(e,
            "cut = true leaves out what is behind the last whole one, pad = n puts zeros around");
  return false;
}

/* An image, series or video [B, C, grid...]; tokens of a complete grid as one. */
static vtb_value *take_image(vtb__eval *e, const vtb__args *a, const char *name, vtb_grid *g) {
  vtb__val x = vtb__arg(a, name);
  const vtb__layout *l = x.u.t.layout;
  *g = l->grid;
  if (l->kind == VTB__IMAGE) return x.u.t.v;
  if (l->kind == VTB__TOKENS) return vtb__grid_as_image(e, a, x);
  vtb__report(e, VTB_DIAG_WRONG_RANK, a->span, "%s takes an image, not %s", a->name,
              vtb__describe(e, x));
  return NULL;
}

/* Says which part of a model's input no patch reads. */
static void warn_of_rest(vtb__eval *e, const window *w) {
  int64_t out[VTB_GRID_AXES], covered[VTB_GRID_AXES];
  bool rest = false;
  vtb_grid_sides(&w->out, out);
  for (int k = 0; k < w->rank; k++) {
    int64_t end = (out[k] - 1) * w->stride[k] + w->kernel[k] - w->pad[k];
    covered[k] = end < w->size[k] ? end : w->size[k];
    rest |= covered[k] < w->size[k];
  }
  if (rest)
    vtb_diag_warning(e->diags, VTB_DIAG_PATCH_CUT, (vtb_span){0},
                     "patches of %s read %s of the input's %s; the rest, behind, is left out",
                     sides_text(e, w->kernel, w->rank), sides_text(e, covered, w->rank),
                     sides_text(e, w->size, w->rank));
}

/* A patch is one place. */
static bool is_place(const window *w) {
  bool one = true;
  for (int k = 0; k < w->rank; k++)
    one = one && w->kernel[k] == 1 && w->stride[k] == 1 && w->pad[k] == 0;
  return one;
}

/* patches(image, kernel, stride = kernel, pad = 0, cut = false): [B, N, C*kernel...] on the grid of
 * patches. */
vtb__val vtb__b_patches(vtb__eval *e, const vtb__args *a) {
  vtb_grid g;
  window w;
  bool cut = vtb__arg(a, "cut").u.b;
  vtb_value *v = take_image(e, a, "image", &g);
  if (!v) return VTB__ERR;
  w.rank = g.rank;
  vtb_grid_sides(&g, w.size);
  if (!options(e, a, &w) || !fit(e, a, &w, cut)) return VTB__ERR;
  if (cut && !v->def) warn_of_rest(e, &w);
  vtb__val x = vtb__arg(a, "image");
  if (x.u.t.layout->kind == VTB__TOKENS && is_place(&w)) return x;
  vtb_attr attrs[] = {VTB_A_INTS("kernel", w.kernel, w.rank),
                      VTB_A_INTS("stride", w.stride, w.rank), VTB_A_INTS("pad", w.pad, 2 * w.rank)};
  if (!(v = vtb_b_op(vtb__at(e, a->span), VTB_OP_im2col, &v, 1, attrs, 3))) return VTB__ERR;
  vtb_dim *d = v->type.dim;
  d[1].name = vtb_intern(e->module, "N");
  d[2].name = vtb_intern(e->module, "C");
  return vtb__tensor(v, vtb__layout_new(e, (vtb__layout){.kind = VTB__TOKENS, .grid = w.out}));
}

/* True if a tap of a patch lies on the image. */
static bool on_image(const window *w, int64_t patch, int64_t tap) {
  int64_t out[VTB_GRID_AXES];
  vtb_grid_sides(&w->out, out);
  for (int k = w->rank - 1; k >= 0; k--) { /* the innermost first */
    int64_t at = patch % out[k] * w->stride[k] + tap % w->kernel[k] - w->pad[k];
    if (at < 0 || at >= w->size[k]) return false;
    patch /= out[k], tap /= w->kernel[k];
  }
  return true;
}

/* patch_mask(x, kernel, stride = kernel, pad = 0): [N, kernel...], 1 where a patch of x lies on it
 * and 0 on the zeros around it. */
vtb__val vtb__b_patch_mask(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  window w;
  const vtb__layout *l = x.u.t.layout;
  if (l->kind == VTB__PLAIN)
    return vtb__report(e, VTB_DIAG_NEEDS_TOKENS, a->span,
                       "patch_mask takes tokens or an image, not %s", vtb__describe(e, x));
  w.rank = l->grid.rank;
  vtb_grid_sides(&l->grid, w.size);
  if (!options(e, a, &w) || !fit(e, a, &w, false)) return VTB__ERR;
  int64_t n = vtb_grid_cells(&w.out), taps = 1;
  for (int k = 0; k < w.rank; k++) taps *= w.kernel[k];
  if ((double)n * (double)taps > VTB__MAX_DATA)
    return vtb__report(e, VTB_DIAG_TOO_LARGE, a->span, "a mask of %lld patches", (long long)n);
  double *data = VTB_NEW_ARRAY(&e->arena, double, n *taps);
  for (int64_t i = 0; i < n * taps; i++) data[i] = on_image(&w, i / taps, i % taps);
  vtb_type t = {.dtype = VTB_F32, .rank = 2, .dim = {{n, NULL}, {taps, NULL}}};
  return vtb__tensor(vtb_b_data(vtb__at(e, a->span), data, &t), NULL);
}

/* fold(x, size, kernel, stride = kernel, pad = 0, cut = false): patches [B, N, C*kernel...] added
 * up where they stand on an image of that size: the adjoint of patches. */
vtb__val vtb__b_fold(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v;
  window w;
  if (!vtb__needs_grid(e, a, x, true)) return VTB__ERR;
  const vtb_grid *g = &x.u.t.layout->grid;
  w.rank = g->rank;
  if (!vtb__sides(e, a, "size", w.rank, w.size) || !options(e, a, &w)) return VTB__ERR;
  int64_t taps = 1, image[1 + VTB_GRID_AXES];
  for (int k = 0; k < w.rank; k++) {
    taps *= w.kernel[k], image[1 + k] = w.size[k];
    if (w.size[k] < 1)
      return vtb__report(e, VTB_DIAG_BAD_SIZE, a->span, "fold needs the size of the image");
  }
  if (!fit(e, a, &w, vtb__arg(a, "cut").u.b)) return VTB__ERR;
  int64_t width = v->type.dim[2].size;
  if (!vtb_grid_equal(&w.out, g) || width % taps)
    return vtb__report(e, VTB_DIAG_PATCH_FIT, a->span,
                       "%s on a grid of %s are not the patches of %s, %s in number, whose channels "
                       "are a multiple of %lld",
                       vtb__describe(e, x), vtb__grid_text(e, g), sides_text(e, w.size, w.rank),
                       vtb__grid_text(e, &w.out), (long long)taps);
  image[0] = width / taps;
  vtb_attr attrs[] = {VTB_A_INTS("kernel", w.kernel, w.rank),
                      VTB_A_INTS("stride", w.stride, w.rank), VTB_A_INTS("pad", w.pad, 2 * w.rank),
                      VTB_A_INTS("image", image, 1 + w.rank)};
  vtb__layout l = {.kind = VTB__IMAGE, .grid = vtb_grid_of(w.rank, w.size)};
  return vtb__tensor(vtb_b_op(vtb__at(e, a->span), VTB_OP_col2im, &v, 1, attrs, 4),
                     vtb__layout_new(e, l));
}

/* ---- depthwise convolutions ------------------------------------------------------------------ */

/* [C, 1, kernel...] or [C, kernel...] as [C, kernel...] with `spatial` axes; a sequence's as a row
 * of an image. */
static vtb_value *depthwise_weight(vtb__eval *e, const vtb__args *a, vtb__val x, vtb_value *w,
                                   int spatial) {
  static const char *const forms[] = {"k", "kh, kw", "kt, kh, kw"};
  const vtb_type *t = &w->type;
  int64_t c = x.u.t.v->type.dim[2].size;
  bool with_one = t->rank == spatial + 2 && t->dim[1].size == 1;
  if ((!with_one && t->rank != spatial + 1) || t->dim[0].size != c) {
    vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, a->span, "%s of %s takes a weight [%lld, 1, %s], not %s",
                a->name, vtb__describe(e, x), (long long)c, forms[spatial - 1],
                vtb__type_string(e, t));
    return NULL;
  }
  if (!with_one && spatial > 1) return w;
  int axes = spatial > 1 ? spatial : 2;
  vtb_type shape = {.dtype = VTB_F32, .rank = 1 + axes, .dim = {{c, "C"}, {1, NULL}}};
  for (int k = 0; k < spatial; k++)
    shape.dim[1 + axes - spatial + k] = t->dim[t->rank - spatial + k];
  return vtb_b_reshape(vtb__at(e, a->span), w, &shape);
}

static vtb_value *dwconv(vtb__eval *e, vtb_value *x, vtb_value *w, const int64_t *grid,
                         const int64_t *pad, vtb_span span) {
  int n = w->type.rank - 1;
  vtb_attr attrs[] = {VTB_A_INTS("grid", grid, n), VTB_A_INTS("pad", pad, n)};
  return vtb_b_op(vtb__at(e, span), VTB_OP_dwconv, (vtb_value *[]){x, w}, 2, attrs, 2);
}

/* Centred on the grid g. */
static vtb_value *on_grid(vtb__eval *e, vtb_value *x, vtb_value *w, const vtb_grid *g,
                          vtb_span span) {
  int64_t side[VTB_GRID_AXES], pad[VTB_GRID_AXES];
  vtb_grid_sides(g, side);
  for (int k = 0; k < g->rank; k++) pad[k] = w->type.dim[1 + k].size / 2;
  return dwconv(e, x, w, side, pad, span);
}

static bool kernel_fits(vtb__eval *e, const vtb__args *a, vtb__val x, vtb_value *w, int spatial) {
  const vtb_grid *g = &x.u.t.layout->grid;
  if (g->rank != spatial) {
    vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span, "%s needs a grid of %d axes, and %s stand on %s",
                a->name, spatial, vtb__describe(e, x), vtb__grid_text(e, g));
    if (!e->stopped && g->rank == 1)
      vtb_diag_help(e->diags, "depthwise1d convolves along this sequence");
    else if (!e->stopped)
      vtb_diag_help(e->diags, "depthwise%dd convolves on this grid, depthwise1d along the sequence",
                    g->rank);
    return false;
  }
  int64_t side[VTB_GRID_AXES];
  bool odd = true;
  for (int k = 0; k < spatial; k++) {
    side[k] = w->type.dim[1 + k].size;
    odd = odd && side[k] % 2;
  }
  if (!odd)
    vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, a->span, "%s needs an odd kernel, not %s", a->name,
                sides_text(e, side, spatial));
  return odd;
}

/* On the grid of the sequence as it is traversed; orders that make no grid are left for the image's
 * own grid. */
vtb__val vtb__b_depthwise(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v, *w = vtb__arg(a, "w").u.t.v;
  int spatial = strcmp(a->name, "depthwise3d") == 0 ? 3 : 2;
  if (!vtb__needs_grid(e, a, x, false)) return VTB__ERR;
  if (!(w = depthwise_weight(e, a, x, w, spatial)) || !kernel_fits(e, a, x, w, spatial))
    return VTB__ERR;
  const vtb__layout *l = x.u.t.layout;
  if (!l->via || l->via->grid) return vtb__tensor(on_grid(e, v, w, &l->grid, a->span), l);
  const vtb__layout *at = l;
  while (at->via && !at->via->grid) {
    v = vtb_b_permute(vtb__at(e, a->span), v, 1, at->via->path, true);
    at = at->via->outer;
  }
  if (!(v = on_grid(e, v, w, &at->grid, a->span))) return VTB__ERR;
  const char *paths[VTB_MAX_NESTING];
  int n = 0;
  for (const vtb__layout *k = l; k != at && n < VTB_MAX_NESTING; k = k->via->outer)
    paths[n++] = k->via->path;
  while (n-- > 0) v = vtb_b_permute(vtb__at(e, a->span), v, 1, paths[n], false);
  return vtb__tensor(v, l);
}

vtb__val vtb__b_depthwise1d(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v, *w = vtb__arg(a, "w").u.t.v;
  bool causal = vtb__arg(a, "causal").u.b;
  if (v->type.rank != 3)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "depthwise1d takes tokens [B, N, C], not %s", vtb__describe(e, x));
  if (!(w = depthwise_weight(e, a, x, w, 1))) return VTB__ERR;
  int64_t k = w->type.dim[2].size;
  if (!causal && k % 2 == 0)
    return vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, a->span,
                       "depthwise1d needs an odd kernel unless it is causal, not %lld",
                       (long long)k);
  int64_t grid[] = {1, v->type.dim[1].size}, pad[] = {0, causal ? k - 1 : k / 2};
  return vtb__tensor(dwconv(e, v, w, grid, pad, a->span), x.u.t.layout);
}

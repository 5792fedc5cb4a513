/* Builtins that know where tokens stand: patches, convolutions on the grid, extra tokens, pooling,
 * images, tables. */
#include "frontend/lang/value.h"

static vtb_value *take_tokens(vtb__eval *e, vtb__args *a, vtb__val *x) {
  vtb_value *v = vtb__take_tensor(e, a, "x", x);
  if (!v) return NULL;
  if (x->u.t.layout->kind == VTB__TOKENS) return v;
  vtb__report(e, VTB_DIAG_NEEDS_TOKENS, a->span, "%s takes tokens, not %s", a->name,
              vtb__describe(e, *x));
  return NULL;
}

/* Tokens of a complete grid, nothing else. */
static bool needs_grid(vtb__eval *e, vtb__args *a, vtb__val x, bool storage) {
  const vtb__layout *l = x.u.t.layout;
  if (x.u.t.v->type.rank != 3) {
    vtb__report(e, VTB_DIAG_WRONG_RANK, a->span, "%s takes tokens [B, N, C], not %s", a->name,
                vtb__describe(e, x));
    return false;
  }
  if (vtb__layout_extra(l)) {
    vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span,
                "%s needs the complete grid, and %s holds %lld extra token%s", a->name,
                vtb__describe(e, x), (long long)vtb__layout_extra(l),
                vtb__layout_extra(l) == 1 ? "" : "s");
    return false;
  }
  if (!storage || !l->via) return true;
  vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span,
              "%s needs tokens in storage order, and these are in the order %s", a->name,
              l->via->path);
  return false;
}

static vtb_value *slice_tokens(vtb__eval *e, vtb_value *v, int64_t from, int64_t to,
                               vtb_span span) {
  vtb_builder *b = vtb__at(e, span);
  return b ? vtb_b_slice(b, v, 1, from, to, 1) : NULL;
}

/* ---- patches and convolutions ---------------------------------------------------------------- */

static vtb__val b_patches(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = vtb__take_tensor(e, a, "image", &x);
  int64_t kh = 0, kw = 0, sh = 0, sw = 0, ph = 0, pw = 0;
  if (!v) return VTB__ERR;
  if (!vtb__option_size(e, a, "kernel", &kh, &kw) || !vtb__option_size(e, a, "stride", &sh, &sw) ||
      !vtb__option_size(e, a, "pad", &ph, &pw))
    return VTB__ERR;
  if (!kh)
    return vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, a->span,
                       "patches needs kernel, the size of a patch");
  if (!sh) sh = kh, sw = kw;
  const vtb__layout *l = x.u.t.layout;
  if (l->kind != VTB__IMAGE)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span, "patches takes an image, not %s",
                       vtb__describe(e, x));
  if (kh < 1 || kw < 1 || sh < 1 || sw < 1 || ph < 0 || pw < 0 || ph > 4096 || pw > 4096)
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span,
                       "kernel and stride are at least 1, pad at least 0");
  int64_t rh = l->h + 2 * ph - kh, rw = l->w + 2 * pw - kw;
  if (rh < 0 || rw < 0 || (!ph && !pw && (rh % sh || rw % sw)))
    return vtb__report(e, VTB_DIAG_PATCH_FIT, a->span,
                       "patches of %lldx%lld, stride %lldx%lld, do not fit an image of %lldx%lld",
                       (long long)kh, (long long)kw, (long long)sh, (long long)sw, (long long)l->h,
                       (long long)l->w);
  int64_t kernel[] = {kh, kw}, stride[] = {sh, sw}, pad[] = {ph, pw, ph, pw};
  vtb_attr attrs[] = {VTB_A_INTS("kernel", kernel, 2), VTB_A_INTS("stride", stride, 2),
                      VTB_A_INTS("pad", pad, 4)};
  vtb_builder *b = vtb__at(e, a->span);
  vtb_inst *i = b ? vtb_build(b, VTB_OP_im2col, &v, 1, attrs, 3) : NULL;
  if (!i) return VTB__ERR;
  vtb_dim *d = i->results[0]->type.dim;
  d[1].name = vtb_intern(e->module, "N");
  d[2].name = vtb_intern(e->module, "C");
  return vtb__tensor(
      i->results[0],
      vtb__layout_new(e, (vtb__layout){.kind = VTB__TOKENS, .h = rh / sh + 1, .w = rw / sw + 1}));
}

/* [C, 1, kh, kw] or [C, kh, kw] as [C, kh, kw]; one axis less for a sequence. */
static vtb_value *depthwise_weight(vtb__eval *e, vtb__args *a, vtb__val x, vtb_value *w,
                                   bool sequence) {
  const vtb_type *t = &w->type;
  int64_t c = x.u.t.v->type.dim[2].size;
  int spatial = sequence ? 1 : 2;
  bool with_one = t->rank == spatial + 2 && t->dim[1].size == 1;
  if ((!with_one && t->rank != spatial + 1) || t->dim[0].size != c) {
    vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, a->span, "%s of %s takes a weight [%lld, 1, %s], not %s",
                a->name, vtb__describe(e, x), (long long)c, sequence ? "k" : "kh, kw",
                vtb__type_string(e, t));
    return NULL;
  }
  vtb_type shape = {.dtype = VTB_F32, .rank = 3, .dim = {{c, "C"}, {1, NULL}, t->dim[t->rank - 1]}};
  if (!sequence) shape.dim[1] = t->dim[t->rank - 2];
  if (t->rank == 3 && !sequence) return w;
  vtb_builder *b = vtb__at(e, a->span);
  return b ? vtb_b_reshape(b, w, &shape) : NULL;
}

static vtb_value *dwconv(vtb__eval *e, vtb_value *x, vtb_value *w, int64_t gh, int64_t gw,
                         int64_t top, int64_t left, vtb_span span) {
  int64_t grid[] = {gh, gw}, pad[] = {top, left};
  vtb_attr attrs[] = {VTB_A_INTS("grid", grid, 2), VTB_A_INTS("pad", pad, 2)};
  vtb_builder *b = vtb__at(e, span);
  vtb_inst *i = b ? vtb_build(b, VTB_OP_dwconv, (vtb_value *[]){x, w}, 2, attrs, 2) : NULL;
  return i ? i->results[0] : NULL;
}

/* On the grid of the sequence as it is traversed; orders that make no grid are left for the image's
 * own grid. */
static vtb__val b_depthwise2d(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = take_tokens(e, a, &x), *w = vtb__take_tensor(e, a, "w", NULL);
  if (!v || !w || !needs_grid(e, a, x, false)) return VTB__ERR;
  if (!(w = depthwise_weight(e, a, x, w, false))) return VTB__ERR;
  int64_t kh = w->type.dim[1].size, kw = w->type.dim[2].size;
  if (kh % 2 == 0 || kw % 2 == 0)
    return vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, a->span,
                       "depthwise2d needs an odd kernel, not %lldx%lld", (long long)kh,
                       (long long)kw);
  const vtb__layout *l = x.u.t.layout;
  if (!l->via || l->via->grid)
    return vtb__tensor(dwconv(e, v, w, l->h, l->w, kh / 2, kw / 2, a->span), l);
  const vtb__layout *at = l;
  while (at->via && !at->via->grid) {
    vtb_builder *b = vtb__at(e, a->span);
    if (!b) return VTB__ERR;
    v = vtb_b_permute(b, v, 1, at->via->path, true);
    at = at->via->outer;
  }
  v = dwconv(e, v, w, at->h, at->w, kh / 2, kw / 2, a->span);
  const char *paths[VTB_MAX_NESTING];
  int n = 0;
  for (const vtb__layout *k = l; k != at && n < VTB_MAX_NESTING; k = k->via->outer)
    paths[n++] = k->via->path;
  while (n-- > 0) {
    vtb_builder *b = vtb__at(e, a->span);
    if (!b || !v) return VTB__ERR;
    v = vtb_b_permute(b, v, 1, paths[n], false);
  }
  return vtb__tensor(v, l);
}

static vtb__val b_depthwise1d(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = take_tokens(e, a, &x), *w = vtb__take_tensor(e, a, "w", NULL);
  bool causal = false;
  if (!v || !w || !vtb__option_bool(e, a, "causal", &causal)) return VTB__ERR;
  if (v->type.rank != 3)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "depthwise1d takes tokens [B, N, C], not %s", vtb__describe(e, x));
  if (!(w = depthwise_weight(e, a, x, w, true))) return VTB__ERR;
  int64_t k = w->type.dim[2].size;
  if (!causal && k % 2 == 0)
    return vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, a->span,
                       "depthwise1d needs an odd kernel unless it is causal, not %lld",
                       (long long)k);
  return vtb__tensor(dwconv(e, v, w, 1, v->type.dim[1].size, 0, causal ? k - 1 : k / 2, a->span),
                     x.u.t.layout);
}

/* ---- extra tokens ---------------------------------------------------------------------------- */

static vtb_value *row(vtb__eval *e, vtb_value *t, int64_t i, int64_t n, vtb_span span) {
  vtb_builder *b = vtb__at(e, span);
  return b ? vtb_b_slice(b, t, 1, i, i + n, 1) : NULL;
}

/* Where n tokens go: how many before, in the middle, behind. */
static bool place(vtb__eval *e, vtb__args *a, const char *at, int64_t n, int64_t *head,
                  int64_t *mid, int64_t *tail) {
  *head = *mid = *tail = 0;
  int64_t want = n;
  if (strcmp(at, "head") == 0)
    *head = n;
  else if (strcmp(at, "tail") == 0)
    *tail = n;
  else if (strcmp(at, "middle") == 0)
    *mid = n;
  else if (strcmp(at, "ends") == 0)
    *head = *tail = 1, want = 2;
  else if (strcmp(at, "mid_ends") == 0)
    *head = *mid = *tail = 1, want = 3;
  else {
    vtb__report(e, VTB_DIAG_BAD_VALUE, a->span,
                "tokens are inserted at \"head\", \"tail\", \"middle\", \"ends\" or \"mid_ends\", "
                "not \"%s\"",
                at);
    return false;
  }
  if (n == want) return true;
  vtb__report(e, VTB_DIAG_VALUE_COUNT, a->span, "at = \"%s\" takes %lld tokens, not %lld", at,
              (long long)want, (long long)n);
  return false;
}

static vtb__val b_insert_tokens(vtb__eval *e, vtb__args *a) {
  vtb__val x, t;
  vtb_value *v = take_tokens(e, a, &x), *w = vtb__take_tensor(e, a, "tokens", &t);
  const char *where = "head";
  /* grid tokens before the middle ones; half of them, the odd one included, if not given */
  double after = -1;
  if (!v || !w || !vtb__option_string(e, a, "at", &where) ||
      !vtb__option_number(e, a, "after", &after) || !needs_grid(e, a, x, true))
    return VTB__ERR;
  if (w->type.rank != 3 || w->type.dim[0].size != 1 || w->type.dim[2].size != v->type.dim[2].size)
    return vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, a->span,
                       "tokens to insert into %s are [1, n, %lld], not %s", vtb__describe(e, x),
                       (long long)v->type.dim[2].size, vtb__describe(e, t));
  vtb__layout l = *x.u.t.layout;
  if (!place(e, a, where, w->type.dim[1].size, &l.head, &l.mid, &l.tail)) return VTB__ERR;
  int64_t n = l.h * l.w;
  if (after > (double)n || (after >= 0 && after != (double)(int64_t)after))
    return vtb__report(e, VTB_DIAG_TOKEN_INDEX, a->span, "%s has no place after %g of its tokens",
                       vtb__describe(e, x), after);
  l.at = !l.mid ? 0 : after >= 0 ? (int64_t)after : (n + 1) / 2;
  vtb_type full = v->type;
  full.dim[1].size = w->type.dim[1].size;
  vtb_builder *b = vtb__at(e, a->span);
  if (!b) return VTB__ERR;
  w = vtb_b_broadcast(b, w, &full);
  vtb_value *parts[5];
  int k = 0;
  if (l.head) parts[k++] = row(e, w, 0, l.head, a->span);
  if (l.mid) {
    if (l.at) parts[k++] = slice_tokens(e, v, 0, l.at, a->span);
    parts[k++] = row(e, w, l.head, l.mid, a->span);
    if (l.at < n) parts[k++] = slice_tokens(e, v, l.at, n, a->span);
  } else {
    parts[k++] = v;
  }
  if (l.tail) parts[k++] = row(e, w, l.head + l.mid, l.tail, a->span);
  if (!(b = vtb__at(e, a->span))) return VTB__ERR;
  vtb_value *all = vtb_b_concat(b, parts, k, 1);
  if (all) all->type.dim[1].name = v->type.dim[1].name;
  return vtb__tensor(all, vtb__layout_new(e, l));
}

/* Pieces of the sequence along axis 1, joined along it again. */
static vtb_value *pieces(vtb__eval *e, vtb_value *v, const int64_t (*range)[2], int n,
                         vtb_span span) {
  vtb_value *parts[3];
  int k = 0;
  for (int i = 0; i < n; i++)
    if (range[i][0] < range[i][1]) parts[k++] = slice_tokens(e, v, range[i][0], range[i][1], span);
  if (k == 1) return parts[0];
  vtb_builder *b = vtb__at(e, span);
  return b ? vtb_b_concat(b, parts, k, 1) : NULL;
}

static vtb__val b_extra_tokens(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = take_tokens(e, a, &x);
  if (!v) return VTB__ERR;
  const vtb__layout *l = x.u.t.layout;
  if (!vtb__layout_extra(l))
    return vtb__report(e, VTB_DIAG_NO_EXTRA_TOKENS, a->span,
                       "%s holds only the patches of its grid", vtb__describe(e, x));
  if (v->type.rank != 3)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "extra_tokens takes tokens [B, N, C], not %s", vtb__describe(e, x));
  int64_t n = vtb__layout_tokens(l), m = l->head + l->at;
  int64_t range[3][2] = {{0, l->head}, {m, m + l->mid}, {n - l->tail, n}};
  vtb_value *t = pieces(e, v, range, 3, a->span);
  vtb_builder *b = t ? vtb__at(e, a->span) : NULL;
  if (!b) return VTB__ERR;
  vtb_type flat = {.dtype = VTB_F32,
                   .rank = 2,
                   .dim = {v->type.dim[0], {vtb__layout_extra(l) * v->type.dim[2].size, "C"}}};
  return vtb__tensor(vtb_b_reshape(b, t, &flat), NULL);
}

static vtb_value *without_extra(vtb__eval *e, vtb__val x, vtb_span span) {
  const vtb__layout *l = x.u.t.layout;
  if (!vtb__layout_extra(l)) return x.u.t.v;
  int64_t n = l->h * l->w, at = l->mid ? l->at : n, m = l->head + at;
  int64_t range[2][2] = {{l->head, m}, {m + l->mid, l->head + l->mid + n}};
  return pieces(e, x.u.t.v, range, 2, span);
}

static const vtb__layout *grid_layout(vtb__eval *e, const vtb__layout *l) {
  vtb__layout g = *l;
  g.head = g.mid = g.tail = g.at = 0;
  return vtb__layout_new(e, g);
}

static vtb__val b_grid_tokens(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = take_tokens(e, a, &x);
  if (!v) return VTB__ERR;
  if (!vtb__layout_extra(x.u.t.layout)) return x;
  if (x.u.t.layout->via)
    return vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span,
                       "grid_tokens needs tokens in storage order");
  return vtb__tensor(without_extra(e, x, a->span), grid_layout(e, x.u.t.layout));
}

/* ---- pooling --------------------------------------------------------------------------------- */

static vtb__val one_token(vtb__eval *e, vtb__args *a, vtb__val x, int64_t i) {
  vtb_value *v = x.u.t.v;
  int64_t n = v->type.dim[1].size;
  if (i < 0) i += n;
  if (i < 0 || i >= n)
    return vtb__report(e, VTB_DIAG_TOKEN_INDEX, a->span, "%s has no token %lld",
                       vtb__describe(e, x), (long long)i);
  vtb_type t = v->type;
  t.rank--;
  for (int k = 1; k < t.rank; k++) t.dim[k] = v->type.dim[k + 1];
  v = slice_tokens(e, v, i, i + 1, a->span);
  vtb_builder *b = v ? vtb__at(e, a->span) : NULL;
  return b ? vtb__tensor(vtb_b_reshape(b, v, &t), NULL) : VTB__ERR;
}

static vtb__val b_first(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  return take_tokens(e, a, &x) ? one_token(e, a, x, 0) : VTB__ERR;
}

static vtb__val b_last(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  return take_tokens(e, a, &x) ? one_token(e, a, x, -1) : VTB__ERR;
}

static vtb__val b_token(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  int64_t i;
  if (!take_tokens(e, a, &x) || !vtb__take_int(e, a, "index", &i)) return VTB__ERR;
  return one_token(e, a, x, i);
}

/* The mean of the patches in the middle rows and columns: two of each where the side is even, one
 * where it is odd. */
static vtb__val b_center_mean(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = take_tokens(e, a, &x);
  if (!v) return VTB__ERR;
  const vtb__layout *l = x.u.t.layout;
  if (l->via || v->type.rank != 3)
    return vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span,
                       "center_mean needs tokens [B, N, C] in storage order");
  v = without_extra(e, x, a->span);
  int64_t r0 = (l->h - 1) / 2, r1 = l->h / 2 + 1, c0 = (l->w - 1) / 2, c1 = l->w / 2 + 1,
          axes[] = {1, 2};
  vtb_type grid = {.dtype = VTB_F32,
                   .rank = 4,
                   .dim = {x.u.t.v->type.dim[0], {l->h, "H"}, {l->w, "W"}, x.u.t.v->type.dim[2]}};
  vtb_builder *b = v ? vtb__at(e, a->span) : NULL;
  if (!b) return VTB__ERR;
  v = vtb_b_reshape(b, v, &grid);
  v = vtb_b_slice(b, v, 1, r0, r1, 1);
  v = vtb_b_slice(b, v, 2, c0, c1, 1);
  v = vtb_b_reduce(b, VTB_OP_reduce_sum, v, axes, 2, false);
  return vtb__elementwise2(e, VTB_OP_mul, vtb__tensor(v, NULL),
                           vtb__float(1.0 / (double)((r1 - r0) * (c1 - c0))), a->span);
}

/* ---- images and tables ----------------------------------------------------------------------- */

static vtb_value *as_grid(vtb__eval *e, vtb__args *a, vtb__val *x) {
  vtb_value *v = take_tokens(e, a, x);
  if (!v || !needs_grid(e, a, *x, true)) return NULL;
  const vtb__layout *l = x->u.t.layout;
  vtb_type t = {.dtype = VTB_F32,
                .rank = 4,
                .dim = {v->type.dim[0], {l->h, "H"}, {l->w, "W"}, v->type.dim[2]}};
  vtb_builder *b = vtb__at(e, a->span);
  return b ? vtb_b_reshape(b, v, &t) : NULL;
}

static vtb__val b_as_grid(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  return vtb__tensor(as_grid(e, a, &x), NULL);
}

static vtb__val b_to_image(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = as_grid(e, a, &x);
  vtb_builder *b = v ? vtb__at(e, a->span) : NULL;
  if (!b) return VTB__ERR;
  vtb__layout l = {.kind = VTB__IMAGE, .h = x.u.t.layout->h, .w = x.u.t.layout->w};
  return vtb__tensor(vtb_b_transpose(b, v, (int64_t[]){0, 3, 1, 2}), vtb__layout_new(e, l));
}

/* [n, H, W, C] as tokens of that grid. */
static vtb__val b_as_tokens(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = vtb__take_tensor(e, a, "table", &x);
  if (!v) return VTB__ERR;
  if (v->type.rank != 4 || x.u.t.layout->kind != VTB__PLAIN)
    return vtb__report(e, VTB_DIAG_TABLE_SHAPE, a->span,
                       "as_tokens takes a table [n, H, W, C], not %s", vtb__describe(e, x));
  const vtb_dim *d = v->type.dim;
  vtb_type t = {.dtype = v->type.dtype,
                .rank = 3,
                .dim = {d[0], {d[1].size * d[2].size, "N"}, {d[3].size, "C"}}};
  vtb_builder *b = vtb__at(e, a->span);
  vtb__layout l = {.kind = VTB__TOKENS, .h = d[1].size, .w = d[2].size};
  return b ? vtb__tensor(vtb_b_reshape(b, v, &t), vtb__layout_new(e, l)) : VTB__ERR;
}

static vtb_value *weights(vtb__eval *e, const double *data, int64_t rows, int64_t cols,
                          vtb_span span) {
  vtb_builder *b = data ? vtb__at(e, span) : NULL;
  if (!b) return NULL;
  vtb_type t = {.dtype = VTB_F32, .rank = 2, .dim = {{rows, NULL}, {cols, NULL}}};
  vtb_attr attr = VTB_A_FLOATS("data", data, (int)(rows * cols));
  vtb_inst *i = vtb_build_typed(b, VTB_OP_constant, NULL, 0, &attr, 1, &t, 1);
  return i ? i->results[0] : NULL;
}

static vtb__val b_resample(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = vtb__take_tensor(e, a, "table", &x);
  int64_t h = 0, w = 0;
  const char *filter = "bicubic";
  bool antialias = false, corners = false;
  double coefficient = -0.75;
  if (!v || !vtb__option_size(e, a, "size", &h, &w) ||
      !vtb__option_string(e, a, "filter", &filter) ||
      !vtb__option_bool(e, a, "antialias", &antialias) ||
      !vtb__option_bool(e, a, "align_corners", &corners) ||
      !vtb__option_number(e, a, "coefficient", &coefficient))
    return VTB__ERR;
  if (v->type.rank != 4)
    return vtb__report(e, VTB_DIAG_TABLE_SHAPE, a->span,
                       "resample takes a table [n, H, W, C], not %s", vtb__describe(e, x));
  if (h < 1 || w < 1)
    return vtb__report(e, VTB_DIAG_BAD_SIZE, a->span, "resample needs the size of the result");
  if (!vtb__resample_knows(filter))
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span,
                       "resample knows the filters \"bicubic\", \"bilinear\", \"nearest\" and "
                       "\"average\", not \"%s\"",
                       filter);
  int64_t h0 = v->type.dim[1].size, w0 = v->type.dim[2].size;
  if (h0 == h && w0 == w) return x;
  if ((double)h * (double)h0 > VTB__MAX_DATA || (double)w * (double)w0 > VTB__MAX_DATA)
    return vtb__report(e, VTB_DIAG_TOO_LARGE, a->span, "resampling %lldx%lld to %lldx%lld",
                       (long long)h0, (long long)w0, (long long)h, (long long)w);
  vtb_value *rows = weights(
      e, vtb__resample_weights(e, h0, h, filter, antialias, corners, coefficient), h, h0, a->span);
  vtb_value *cols = weights(
      e, vtb__resample_weights(e, w0, w, filter, antialias, corners, coefficient), w, w0, a->span);
  vtb_builder *b = vtb__at(e, a->span);
  if (!b || !rows || !cols) return VTB__ERR;
  v = vtb_b_einsum(b, "bhwc,ih->biwc", v, rows);
  v = v && (b = vtb__at(e, a->span)) ? vtb_b_einsum(b, "biwc,jw->bijc", v, cols) : NULL;
  return vtb__tensor(v, NULL);
}

const vtb__builtin vtb__token_builtins[] = {{"patches", b_patches},
                                            {"depthwise2d", b_depthwise2d},
                                            {"depthwise1d", b_depthwise1d},
                                            {"insert_tokens", b_insert_tokens},
                                            {"extra_tokens", b_extra_tokens},
                                            {"grid_tokens", b_grid_tokens},
                                            {"first", b_first},
                                            {"last", b_last},
                                            {"token", b_token},
                                            {"center_mean", b_center_mean},
                                            {"to_image", b_to_image},
                                            {"as_grid", b_as_grid},
                                            {"as_tokens", b_as_tokens},
                                            {"resample", b_resample},
                                            {NULL, NULL}};
const size_t vtb__n_token_builtins = sizeof vtb__token_builtins / sizeof *vtb__token_builtins;

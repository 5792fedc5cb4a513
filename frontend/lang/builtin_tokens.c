/* Builtins that know where tokens stand: pooling, images, tables. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

/* Tokens of a complete grid, nothing else. */
bool vtb__needs_grid(vtb__eval *e, const vtb__args *a, vtb__val x, bool storage) {
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
    vtb__help(e, "grid_tokens(x) are the patches alone, with_grid_tokens(x, y) puts them back");
    return false;
  }
  if (!storage || !l->via) return true;
  vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span,
              "%s needs tokens in storage order, and these are in the order %s", a->name,
              l->via->path);
  return false;
}

vtb_type vtb__grid_type(const vtb_type *tokens, const vtb_grid *g) {
  static const char *const names[] = {"T", "H", "W"};
  int64_t side[VTB_GRID_AXES];
  vtb_type t = {.dtype = tokens->dtype, .rank = g->rank + 2, .dim = {tokens->dim[0]}};
  vtb_grid_sides(g, side);
  for (int k = 0; k < g->rank; k++)
    t.dim[1 + k] = (vtb_dim){side[k], names[VTB_GRID_AXES - g->rank + k]};
  t.dim[1 + g->rank] = tokens->dim[2];
  return t;
}

vtb_value *vtb__grid_as_image(vtb__eval *e, const vtb__args *a, vtb__val x) {
  if (!vtb__needs_grid(e, a, x, true)) return NULL;
  const vtb_grid *g = &x.u.t.layout->grid;
  vtb_type t = vtb__grid_type(&x.u.t.v->type, g);
  int64_t perm[2 + VTB_GRID_AXES] = {0, t.rank - 1};
  for (int k = 0; k < g->rank; k++) perm[2 + k] = 1 + k;
  vtb_builder *b = vtb__at(e, a->span);
  return vtb_b_transpose(b, vtb_b_reshape(b, x.u.t.v, &t), perm);
}

/* ---- pooling --------------------------------------------------------------------------------- */

static vtb__val one_token(vtb__eval *e, const vtb__args *a, vtb__val x, int64_t i) {
  vtb_value *v = x.u.t.v;
  int64_t n = v->type.dim[1].size;
  if (i < 0) i += n;
  if (i < 0 || i >= n)
    return vtb__report(e, VTB_DIAG_TOKEN_INDEX, a->span, "%s has no token %lld",
                       vtb__describe(e, x), (long long)i);
  vtb_type t = vtb_type_without_axis(&v->type, 1);
  v = vtb__slice_tokens(e, v, i, i + 1, a->span);
  return vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), v, &t), NULL);
}

vtb__val vtb__b_first(vtb__eval *e, const vtb__args *a) {
  return one_token(e, a, vtb__arg(a, "x"), 0);
}

vtb__val vtb__b_last(vtb__eval *e, const vtb__args *a) {
  return one_token(e, a, vtb__arg(a, "x"), -1);
}

vtb__val vtb__b_token(vtb__eval *e, const vtb__args *a) {
  return one_token(e, a, vtb__arg(a, "x"), vtb__arg(a, "index").u.i);
}

/* The mean of the patches in the middle along each axis: two places where the side is even, one
 * where it is odd. */
vtb__val vtb__b_center_mean(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v;
  const vtb__layout *l = x.u.t.layout;
  if (l->via || v->type.rank != 3)
    return vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span,
                       "center_mean needs tokens [B, N, C] in storage order");
  v = vtb__without_extra(e, x, a->span);
  vtb_type grid = vtb__grid_type(&x.u.t.v->type, &l->grid);
  vtb_builder *b = vtb__at(e, a->span);
  v = vtb_b_reshape(b, v, &grid);
  int64_t axes[VTB_GRID_AXES], n = 1;
  for (int k = 0; k < l->grid.rank; k++) {
    int64_t side = grid.dim[1 + k].size, from = (side - 1) / 2, to = side / 2 + 1;
    axes[k] = 1 + k, n *= to - from;
    v = vtb_b_slice(b, v, 1 + k, from, to, 1);
  }
  v = vtb_b_reduce(b, VTB_OP_reduce_sum, v, axes, l->grid.rank, false);
  return vtb__elementwise2(e, VTB_OP_mul, vtb__tensor(v, NULL), vtb__float(1.0 / (double)n),
                           a->span);
}

/* ---- images and tables ----------------------------------------------------------------------- */

vtb__val vtb__b_as_grid(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  if (!vtb__needs_grid(e, a, x, true)) return VTB__ERR;
  vtb_type t = vtb__grid_type(&x.u.t.v->type, &x.u.t.layout->grid);
  return vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), x.u.t.v, &t), NULL);
}

vtb__val vtb__b_to_image(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v;
  if (!v || !(v = vtb__grid_as_image(e, a, x))) return VTB__ERR;
  vtb__layout l = {.kind = VTB__IMAGE, .grid = x.u.t.layout->grid};
  return vtb__tensor(v, vtb__layout_new(e, l));
}

/* A table [n, W, C], [n, H, W, C] or [n, T, H, W, C] as tokens of that grid. */
vtb__val vtb__b_as_tokens(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "table");
  vtb_value *v = x.u.t.v;
  int rank = v->type.rank - 2;
  if (rank < 1 || rank > VTB_GRID_AXES || x.u.t.layout->kind != VTB__PLAIN)
    return vtb__report(e, VTB_DIAG_TABLE_SHAPE, a->span,
                       "as_tokens takes a table [n, H, W, C], not %s", vtb__describe(e, x));
  const vtb_dim *d = v->type.dim;
  int64_t side[VTB_GRID_AXES];
  for (int k = 0; k < rank; k++) side[k] = d[1 + k].size;
  vtb__layout l = {.kind = VTB__TOKENS, .grid = vtb_grid_of(rank, side)};
  vtb_type t = {.dtype = v->type.dtype,
                .rank = 3,
                .dim = {d[0], {vtb_grid_cells(&l.grid), "N"}, {d[1 + rank].size, "C"}}};
  return vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), v, &t), vtb__layout_new(e, l));
}

static vtb_value *weights(vtb__eval *e, const double *data, int64_t rows, int64_t cols,
                          vtb_span span) {
  if (!data) return NULL;
  vtb_type t = {.dtype = VTB_F32, .rank = 2, .dim = {{rows, NULL}, {cols, NULL}}};
  return vtb_b_data(vtb__at(e, span), data, &t);
}

typedef struct filter {
  const char *name;
  bool antialias, corners;
  double coefficient;
} filter;

static bool take_filter(vtb__eval *e, const vtb__args *a, filter *f) {
  *f = (filter){vtb__arg(a, "filter").u.str.s, vtb__arg(a, "antialias").u.b,
                vtb__arg(a, "align_corners").u.b, vtb__arg(a, "coefficient").u.f};
  if (vtb__resample_knows(f->name)) return true;
  vtb__report(e, VTB_DIAG_BAD_VALUE, a->span,
              "resample knows the filters \"bicubic\", \"bilinear\", \"nearest\" and "
              "\"average\", not \"%s\"",
              f->name);
  return false;
}

/* Axis 1 + k of a table [n, grid..., C] at another extent. */
static vtb_value *resample_axis(vtb__eval *e, vtb_value *v, int k, int64_t to, const filter *f,
                                vtb_span span) {
  static const char *const specs[VTB_GRID_AXES][VTB_GRID_AXES] = {
      {"bwc,iw->bic"},
      {"bhwc,ih->biwc", "biwc,jw->bijc"},
      {"bthwc,it->bihwc", "bihwc,jh->bijwc", "bijwc,kw->bijkc"}};
  int64_t from = v->type.dim[1 + k].size;
  if ((double)to * (double)from > VTB__MAX_DATA) {
    vtb__report(e, VTB_DIAG_TOO_LARGE, span, "resampling %lld places to %lld", (long long)from,
                (long long)to);
    return NULL;
  }
  vtb_value *w = weights(
      e, vtb__resample_weights(e, from, to, f->name, f->antialias, f->corners, f->coefficient), to,
      from, span);
  return vtb_b_einsum(vtb__at(e, span), specs[v->type.rank - 3][k], v, w);
}

/* resample(table, size, filter...): a table [n, grid..., C] at another size, axis by axis. */
vtb__val vtb__b_resample(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "table");
  vtb_value *v = x.u.t.v;
  filter f;
  int64_t side[VTB_GRID_AXES];
  if (!take_filter(e, a, &f) || !vtb__channels_last(e, a, x)) return VTB__ERR;
  int rank = v->type.rank - 2;
  if (x.u.t.layout->kind == VTB__TOKENS && x.u.t.layout->grid.rank > 1) {
    vtb__report(e, VTB_DIAG_TABLE_SHAPE, a->span, "resample takes a table [n, H, W, C], not %s",
                vtb__describe(e, x));
    vtb__help(e, "as_grid(x) is the table of tokens, as_tokens(t) the way back");
    return VTB__ERR;
  }
  if (rank < 1 || rank > VTB_GRID_AXES)
    return vtb__report(e, VTB_DIAG_TABLE_SHAPE, a->span,
                       "resample takes a table [n, H, W, C], not %s", vtb__describe(e, x));
  if (!vtb__sides(e, a, "size", rank, side)) return VTB__ERR;
  bool same = true;
  for (int k = 0; k < rank; k++) {
    if (side[k] < 1)
      return vtb__report(e, VTB_DIAG_BAD_SIZE, a->span, "resample needs the size of the result");
    same = same && side[k] == v->type.dim[1 + k].size;
  }
  if (same) return x;
  for (int k = 0; k < rank && v; k++) v = resample_axis(e, v, k, side[k], &f, a->span);
  return vtb__tensor(v, NULL);
}

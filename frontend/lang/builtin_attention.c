/* Builtins around attention: the op itself, windows of the grid, and where tokens stand. */
#include "frontend/lang/value.h"

#include <math.h>

/* Tokens [B, N, heads, width] in q's order. */
static vtb_value *take_heads(vtb__eval *e, vtb__args *a, const char *name, vtb__val *x) {
  vtb_value *v = vtb__take_tensor(e, a, name, x);
  if (!v || v->type.rank == 4) return v;
  vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
              "attention takes %s with a head axis, [B, N, heads, width], not %s: use group", name,
              vtb__describe(e, *x));
  a->failed = true;
  return NULL;
}

/* attention(q, k, v, bias = none, scale = 1 / sqrt(width), causal = false): see ir/attention.h. */
static vtb__val b_attention(vtb__eval *e, vtb__args *a) {
  vtb__val q, k, v, bias;
  vtb_value *operands[4];
  int n = 3;
  if (!(operands[0] = take_heads(e, a, "q", &q)) || !(operands[1] = take_heads(e, a, "k", &k)) ||
      !(operands[2] = take_heads(e, a, "v", &v)))
    return VTB__ERR;
  bool causal = false;
  double scale = 1 / sqrt((double)operands[0]->type.dim[3].size);
  if (vtb__take_optional(e, a, "bias", &bias) && bias.kind != VTB__NONE) {
    if (bias.kind == VTB__ERROR) return bias;
    if (!(operands[n++] = vtb__as_tensor(e, bias, a->span))) return VTB__ERR;
  }
  if (!vtb__option_number(e, a, "scale", &scale) || !vtb__option_bool(e, a, "causal", &causal))
    return VTB__ERR;
  if (!vtb__layout_merge(e, (vtb__val){.kind = VTB__TENSOR, .u.t = {k.u.t.v, k.u.t.layout}}, v,
                         a->span))
    return VTB__ERR;
  vtb_attr attrs[2] = {VTB_A_FLOAT("scale", scale), VTB_A_INT("causal", 1)};
  vtb_builder *b = vtb__at(e, a->span);
  vtb_inst *i = b ? vtb_build(b, VTB_OP_attention, operands, n, attrs, 1 + causal) : NULL;
  return vtb__tensor(i ? i->results[0] : NULL, q.u.t.layout);
}

/* ---- windows --------------------------------------------------------------------------------- */

static vtb_value *take_grid(vtb__eval *e, vtb__args *a, vtb__val *x) {
  vtb_value *v = vtb__take_tensor(e, a, "x", x);
  if (!v) return NULL;
  const vtb__layout *l = x->u.t.layout;
  if (l->kind == VTB__TOKENS && !vtb__layout_extra(l) && !l->via && v->type.rank == 3) return v;
  vtb__report(e, l->kind == VTB__TOKENS ? VTB_DIAG_NEEDS_GRID : VTB_DIAG_NEEDS_TOKENS, a->span,
              "%s takes tokens [B, N, C] of a complete grid in storage order, not %s", a->name,
              vtb__describe(e, *x));
  return NULL;
}

static vtb_value *reshape(vtb__eval *e, vtb_value *v, const int64_t *sizes, int rank,
                          vtb_span span) {
  vtb_builder *b = v ? vtb__at(e, span) : NULL;
  if (!b) return NULL;
  vtb_type t = {.dtype = v->type.dtype, .rank = rank + 1, .dim = {v->type.dim[0]}};
  for (int i = 0; i < rank; i++) t.dim[i + 1] = (vtb_dim){sizes[i], NULL};
  if (rank == 2)
    t.dim[1].name = vtb_intern(e->module, "N"), t.dim[2].name = vtb_intern(e->module, "C");
  return vtb_b_reshape(b, v, &t);
}

static vtb_value *transpose(vtb__eval *e, vtb_value *v, const int64_t *perm, vtb_span span) {
  vtb_builder *b = v ? vtb__at(e, span) : NULL;
  return b ? vtb_b_transpose(b, v, perm) : NULL;
}

static vtb_value *pad_end(vtb__eval *e, vtb_value *v, int64_t axis, int64_t n, vtb_span span) {
  if (!n || !v) return v;
  vtb_attr attrs[] = {VTB_A_INT("axis", axis), VTB_A_INT("low", 0), VTB_A_INT("high", n)};
  vtb_builder *b = vtb__at(e, span);
  vtb_inst *i = b ? vtb_build(b, VTB_OP_pad, &v, 1, attrs, 3) : NULL;
  return i ? i->results[0] : NULL;
}

static vtb__val grid_tokens(vtb__eval *e, vtb_value *v, int64_t h, int64_t w) {
  return vtb__tensor(v, vtb__layout_new(e, (vtb__layout){.kind = VTB__TOKENS, .h = h, .w = w}));
}

static int64_t windows_along(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* window_partition(x, 7x7): the grid, zeros added at the right and the bottom, in windows. Tokens
 * of the result are the places of a window; each holds the channels of all windows side by side,
 * windows row by row: [B, 7*7, windows*C]. */
static vtb__val b_window_partition(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = take_grid(e, a, &x);
  int64_t wh = 0, ww = 0;
  if (!v || !vtb__option_size(e, a, "size", &wh, &ww)) return VTB__ERR;
  if (wh < 1 || ww < 1 || wh > VTB__MAX_LIST || ww > VTB__MAX_LIST)
    return vtb__report(e, VTB_DIAG_BAD_SIZE, a->span,
                       "window_partition needs the size of a window");
  int64_t h = x.u.t.layout->h, w = x.u.t.layout->w, c = v->type.dim[2].size;
  int64_t nh = windows_along(h, wh), nw = windows_along(w, ww);
  v = reshape(e, v, (int64_t[]){h, w, c}, 3, a->span);
  v = pad_end(e, v, 1, nh * wh - h, a->span);
  v = pad_end(e, v, 2, nw * ww - w, a->span);
  v = reshape(e, v, (int64_t[]){nh, wh, nw, ww, c}, 5, a->span);
  v = transpose(e, v, (int64_t[]){0, 2, 4, 1, 3, 5}, a->span);
  v = reshape(e, v, (int64_t[]){wh * ww, nh * nw * c}, 2, a->span);
  return grid_tokens(e, v, wh, ww);
}

/* window_merge(x, grid): the reverse, cropped to the grid. */
static vtb__val b_window_merge(vtb__eval *e, vtb__args *a) {
  vtb__val x;
  vtb_value *v = take_grid(e, a, &x);
  int64_t h = 0, w = 0;
  if (!v || !vtb__option_size(e, a, "grid", &h, &w)) return VTB__ERR;
  int64_t wh = x.u.t.layout->h, ww = x.u.t.layout->w, channels = v->type.dim[2].size;
  if (h < 1 || w < 1)
    return vtb__report(e, VTB_DIAG_BAD_SIZE, a->span, "window_merge needs the size of the grid");
  int64_t nh = windows_along(h, wh), nw = windows_along(w, ww), c = channels / (nh * nw);
  if (c * nh * nw != channels || c == 0)
    return vtb__report(
        e, VTB_DIAG_NOT_DIVISIBLE, a->span,
        "%s does not hold the %lld windows of %lldx%lld that cover a grid of %lldx%lld",
        vtb__describe(e, x), (long long)(nh * nw), (long long)wh, (long long)ww, (long long)h,
        (long long)w);
  v = reshape(e, v, (int64_t[]){wh, ww, nh, nw, c}, 5, a->span);
  v = transpose(e, v, (int64_t[]){0, 3, 1, 4, 2, 5}, a->span);
  v = reshape(e, v, (int64_t[]){nh * wh, nw * ww, c}, 3, a->span);
  vtb_builder *b = v ? vtb__at(e, a->span) : NULL;
  if (b && nh * wh != h) v = vtb_b_slice(b, v, 1, 0, h, 1);
  if (b && v && nw * ww != w) v = vtb_b_slice(b, v, 2, 0, w, 1);
  v = reshape(e, v, (int64_t[]){h * w, c}, 2, a->span);
  return grid_tokens(e, v, h, w);
}

/* ---- places ---------------------------------------------------------------------------------- */

static vtb__val constant(vtb__eval *e, const double *data, int64_t n, vtb_span span) {
  vtb_type t = {.dtype = VTB_F32, .rank = 1, .dim = {{n, NULL}}};
  vtb_attr attr = VTB_A_FLOATS("data", data, (int)n);
  vtb_builder *b = vtb__at(e, span);
  vtb_inst *i = b ? vtb_build_typed(b, VTB_OP_constant, NULL, 0, &attr, 1, &t, 1) : NULL;
  return vtb__tensor(i ? i->results[0] : NULL, NULL);
}

/* coordinates(n, width): the columns and the rows of n tokens that stand row by row, `width` a
 * row. */
static vtb__val b_coordinates(vtb__eval *e, vtb__args *a) {
  int64_t n, width;
  if (!vtb__take_int(e, a, "n", &n) || !vtb__take_int(e, a, "width", &width)) return VTB__ERR;
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
  out[0] = constant(e, columns, n, a->span);
  out[1] = constant(e, rows, n, a->span);
  if (out[0].kind == VTB__ERROR || out[1].kind == VTB__ERROR) return VTB__ERR;
  return (vtb__val){.kind = VTB__TUPLE, .u.list = {out, 2}};
}

const vtb__builtin vtb__attention_builtins[] = {{"attention", b_attention},
                                                {"window_partition", b_window_partition},
                                                {"window_merge", b_window_merge},
                                                {"coordinates", b_coordinates},
                                                {NULL, NULL}};

/* Builtins that make sequences and tables: joining and reordering tokens for good, stacking,
 * constants from lists. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

/* A plain sequence: one row of n tokens. */
static vtb__val as_sequence(vtb__eval *e, vtb_value *v) {
  if (!v) return VTB__ERR;
  v->type.dim[1].name = vtb_intern(e->module, "N");
  vtb__layout l = {.kind = VTB__TOKENS, .grid = vtb_grid_series(v->type.dim[1].size)};
  return vtb__tensor(v, vtb__layout_new(e, l));
}

/* sequence(a, b, ...): [B, N, ...] end to end along axis 1, as tokens without a grid. */
vtb__val vtb__b_sequence(vtb__eval *e, const vtb__args *a) {
  vtb_value **at = VTB_NEW_ARRAY(&e->arena, vtb_value *, a->n + 1);
  vtb__val first = VTB__NIL, x;
  if (!a->n) return vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, a->span, "sequence of nothing");
  for (size_t i = 0; i < a->n; i++) {
    x = a->at[i].value, at[i] = x.u.t.v;
    if (i == 0) first = x;
    const vtb_type *t = &at[i]->type, *f = &at[0]->type;
    bool fits = t->rank >= 2 && t->rank == f->rank && !vtb_is_batch(t->dim[1].size);
    for (int k = 0; fits && k < t->rank; k++) fits = k == 1 || t->dim[k].size == f->dim[k].size;
    if (!fits) {
      vtb__report(e, VTB_DIAG_CONCAT_SHAPES, a->at[i].span,
                  "%s joins tensors [B, N, ...] that differ only in N, not %s and %s", a->name,
                  vtb__describe(e, first), vtb__describe(e, x));
      if (t->rank && f->rank && t->dim[0].size != f->dim[0].size)
        vtb__help(e, "insert_tokens(x, t) gives each sample the same tokens t [1, n, C]");
      else if (t->rank == 2 || f->rank == 2)
        vtb__help(e, "unsqueeze(t, 1) makes one token of a tensor [B, C]");
      return VTB__ERR;
    }
  }
  if (first.u.t.layout->via)
    return vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span, "sequence needs tokens in storage order");
  if (a->n > 1) {
    vtb__val y = as_sequence(e, vtb_b_concat(vtb__at(e, a->span), at, (int)a->n, 1));
    if (y.kind != VTB__TENSOR) return y;
    vtb__layout l = *y.u.t.layout;
    l.joined = true;
    return vtb__tensor(y.u.t.v, vtb__layout_new(e, l));
  }
  return as_sequence(e, vtb_b_reshape(vtb__at(e, a->span), at[0], &at[0]->type));
}

/* Tokens x in storage order and a path, seen along it; VTB__ERROR after a message. */
static vtb__val take_along(vtb__eval *e, const vtb__args *a, const vtb__path **path) {
  vtb__val x = vtb__arg(a, "x"), p = vtb__arg(a, "path");
  if (p.kind != VTB__PATH)
    return vtb__report(e, VTB_DIAG_BAD_PATH, a->span, "%s needs a path, not %s", a->name,
                       vtb__describe(e, p));
  if (x.u.t.layout->via)
    return vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span, "%s needs tokens in storage order",
                       a->name);
  *path = p.u.path;
  return vtb__enter_path(e, x, p.u.path, a->span);
}

/* reorder(x, path): the tokens in the order of the path, and no longer where they stood. */
vtb__val vtb__b_reorder(vtb__eval *e, const vtb__args *a) {
  const vtb__path *p = NULL;
  vtb__val y = take_along(e, a, &p);
  return y.kind == VTB__TENSOR ? as_sequence(e, y.u.t.v) : y;
}

/* regrid(x, path): the grid mirrored, or its axes exchanged, for good. */
vtb__val vtb__b_regrid(vtb__eval *e, const vtb__args *a) {
  const vtb__path *p = NULL;
  vtb__val y = take_along(e, a, &p);
  if (y.kind != VTB__TENSOR) return y;
  if (p->order.order != VTB_PATH_NEST || p->order.snake)
    return vtb__report(e, VTB_DIAG_BAD_PATH, a->span,
                       "regrid needs loops over the axes, rows, cols, frames and their mirrors, "
                       "which leave a grid; reorder takes any path");
  vtb__layout l = *y.u.t.layout;
  l.via = NULL;
  return vtb__tensor(y.u.t.v, vtb__layout_new(e, l));
}

/* stack(a, b, ...) or stack(list): tensors of one type under a new first axis. */
vtb__val vtb__b_stack(vtb__eval *e, const vtb__args *a) {
  size_t n = a->n;
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, n + 1);
  for (size_t i = 0; i < n; i++) at[i] = a->at[i].value;
  if (n == 1 && at[0].kind == VTB__LIST) {
    n = at[0].u.list.n;
    at = at[0].u.list.at;
  }
  vtb_value **rows = VTB_NEW_ARRAY(&e->arena, vtb_value *, n + 1);
  for (size_t i = 0; i < n; i++) {
    if (at[i].kind != VTB__TENSOR)
      return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "stack takes tensors, not %s",
                         vtb__describe(e, at[i]));
    vtb_type t = at[i].u.t.v->type;
    if (t.rank == VTB_MAX_RANK || !vtb_type_equal(&t, &at[0].u.t.v->type))
      return vtb__report(e, VTB_DIAG_CONCAT_SHAPES, a->span, "stack of %s and %s",
                         vtb__describe(e, at[0]), vtb__describe(e, at[i]));
    t = vtb_type_with_axis(&t, 0, (vtb_dim){1, NULL});
    if (!(rows[i] = vtb_b_reshape(vtb__at(e, a->span), at[i].u.t.v, &t))) return VTB__ERR;
  }
  if (!n) return vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, a->span, "stack of nothing");
  return vtb__tensor(vtb_b_concat(vtb__at(e, a->span), rows, (int)n, 0), NULL);
}

/* vector([1, 0.5]): a constant tensor of one axis. */
vtb__val vtb__b_vector(vtb__eval *e, const vtb__args *a) {
  vtb__val v = vtb__arg(a, "list");
  if (v.kind == VTB__ERROR) return v;
  if (v.kind != VTB__LIST || !v.u.list.n)
    return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "vector takes a list of numbers, not %s",
                       vtb__describe(e, v));
  size_t n = v.u.list.n;
  double *data = VTB_NEW_ARRAY(&e->arena, double, n);
  for (size_t i = 0; i < n; i++) {
    if (!vtb__is_number(v.u.list.at[i]))
      return vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span, "vector takes numbers, not %s",
                         vtb__describe(e, v.u.list.at[i]));
    data[i] = vtb__val_number(v.u.list.at[i]);
  }
  vtb_type t = {.dtype = VTB_F32, .rank = 1, .dim = {{(int64_t)n, NULL}}};
  return vtb__tensor(vtb_b_data(vtb__at(e, a->span), data, &t), NULL);
}

/* range(n): 0, 1, ..., n - 1 as a tensor; range(batch): the number of each sample. */
vtb__val vtb__b_range(vtb__eval *e, const vtb__args *a) {
  vtb__val n = vtb__arg(a, "n");
  int64_t batches = vtb__batches_meant(n);
  if (batches) return vtb__tensor(vtb__sample_numbers(e, batches, a->span), NULL);
  if (n.kind != VTB__INT)
    return vtb__report(e,
                       n.kind == VTB__TENSOR ? VTB_DIAG_NOT_COMPILE_TIME : VTB_DIAG_TYPE_MISMATCH,
                       a->span, "range takes an int or `batch`, not %s", vtb__describe(e, n));
  if (n.u.i < 1 || n.u.i > VTB__MAX_DATA)
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span, "range of %lld numbers", (long long)n.u.i);
  vtb_type t = {.dtype = VTB_F32, .rank = 1, .dim = {{n.u.i, NULL}}};
  return vtb__tensor(vtb_b_iota(vtb__at(e, a->span), 0, &t), NULL);
}

/* Builtins that pick and order: gather(x, indices), scatter(x, indices, n), argsort(x), ranks(x),
 * inverse(order).
 *
 * gather is an op, which reads the rows that it takes, and so is its adjoint, scatter. The others
 * are comparisons of what the language has, n^2 numbers a row of n: made for tokens and classes,
 * not for millions. Nothing depends on the order in which threads run.
 */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

/* 1 where index = 0 .. n - 1, along a new last axis. */
vtb_value *vtb__index_table(vtb__eval *e, vtb_value *idx, int64_t n, const char *name,
                            vtb_span span) {
  vtb_type t = idx->type;
  if (t.dtype != VTB_I32) idx = vtb_b_cast(vtb__at(e, span), idx, VTB_I32);
  t.dtype = VTB_I32;
  t.dim[t.rank++] = (vtb_dim){1, NULL};
  vtb_builder *b = vtb__at(e, span);
  vtb_value *column = vtb_b_reshape(b, idx, &t);
  t.dim[t.rank - 1] = (vtb_dim){n, name};
  vtb_type row = {.dtype = VTB_I32, .rank = 1, .dim = {{n, name}}};
  int64_t batches = vtb__batches_of(e, row.dim[0]);
  vtb_value *numbers = batches > 1 ? vtb_b_cast(b, vtb__sample_numbers(e, batches, span), VTB_I32)
                                   : vtb_b_iota(b, 0, &row);
  return vtb_b_binary(b, VTB_OP_eq, column, numbers);
}

/* ---- gather ---------------------------------------------------------------------------------- */

static bool of_batch(const vtb__eval *e, const vtb_type *t) {
  return t->rank > 0 && t->dim[0].size == e->batch && vtb_streq(t->dim[0].name, "B");
}

static const vtb__layout *sequence_of(vtb__eval *e, const vtb_value *y) {
  return vtb__layout_new(
      e, (vtb__layout){.kind = VTB__TOKENS, .grid = vtb_grid_series(y->type.dim[1].size)});
}

/* An index that is known when compiling and none of n places; -1 < it < n: there is none. */
static double known_outside(const vtb_value *indices, int64_t n) {
  const vtb_inst *i = indices->def;
  const vtb_attr *data = i && i->op == VTB_OP_constant ? vtb_attr_find(i, "data") : NULL;
  for (int k = 0; data && k < data->n; k++)
    if (data->floats[k] <= -1 || data->floats[k] >= (double)n) return data->floats[k];
  if (!i || i->op != VTB_OP_iota) return 0;
  int64_t last = indices->type.dim[vtb_attr_int(i, "axis", 0)].size - 1;
  return last >= n ? (double)last : 0;
}

/* gather(x, indices): of x [B, N, ...] and indices [B, M] the elements x[b, indices[b, m]]; of a
 * table x [n, ...] and indices of any shape the rows x[indices]. */
vtb__val vtb__b_gather(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), i = vtb__arg(a, "indices");
  vtb_value *v = x.u.t.v, *idx = i.u.t.v;
  const char *axis = vtb__arg(a, "axis").u.str.s;
  if (vtb_streq(axis, "B")) return vtb__gather_batch(e, a);
  if (axis)
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span,
                       "gather picks tokens of x [B, N, ...], rows of a table [n, ...], or with "
                       "axis = \"B\" samples, and has no axis '%s'",
                       axis);
  bool batch = of_batch(e, &v->type);
  int lead = batch ? 1 : 0, rest = v->type.rank - lead - 1, m = idx->type.rank - lead;
  if (rest < 0 || (batch && (idx->type.rank != 2 || !of_batch(e, &idx->type))) ||
      m + lead + rest > VTB_MAX_RANK || vtb_is_batch(v->type.dim[lead].size) || x.u.t.layout->via) {
    vtb__report(
        e, VTB_DIAG_WRONG_RANK, a->span,
        "gather takes x [B, N, ...] with indices [B, M], or a table [n, ...] with indices of "
        "any shape, not %s and %s",
        vtb__describe(e, x), vtb__describe(e, i));
    if (batch && idx->type.rank == 1)
      vtb__help(e, of_batch(e, &idx->type)
                       ? "axis = \"B\" takes samples of those numbers, unsqueeze(i, 1) one element "
                         "of each sample"
                       : "places that are known when compiling are parts, x[:, 1:3]");
    return VTB__ERR;
  }
  double far = known_outside(idx, v->type.dim[lead].size);
  if (far <= -1 || far >= (double)v->type.dim[lead].size)
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span,
                       "index %g of gather is none of the places 0 to %lld of %s: places count "
                       "from the front",
                       far, (long long)v->type.dim[lead].size - 1, vtb__describe(e, x));
  if (idx->type.dtype != VTB_I32) idx = vtb_b_cast(vtb__at(e, a->span), idx, VTB_I32);
  vtb_value *y = vtb_b_gather(vtb__at(e, a->span), v, idx, lead);
  if (y && batch) y->type.dim[1].name = vtb_intern(e->module, "N");
  bool tokens = y && batch && x.u.t.layout->kind == VTB__TOKENS;
  return vtb__tensor(y, tokens ? sequence_of(e, y) : NULL);
}

/* scatter(x, indices, n): of n places each the sum of the elements that were sent to it, x [B, M,
 * ...] with indices [B, M]; without a batch x [m, ...] with indices [m]. */
vtb__val vtb__b_scatter(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), i = vtb__arg(a, "indices");
  vtb_value *v = x.u.t.v, *idx = i.u.t.v;
  int64_t n = vtb__arg(a, "n").u.i;
  bool batch = of_batch(e, &v->type);
  if (idx->type.rank != 1 + batch || v->type.rank < 1 + batch || of_batch(e, &idx->type) != batch ||
      v->type.dim[batch].size != idx->type.dim[batch].size || x.u.t.layout->via)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "scatter takes x [B, M, ...] with indices [B, M], or x [m, ...] with "
                       "indices [m], not %s and %s",
                       vtb__describe(e, x), vtb__describe(e, i));
  if (n < 1)
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span,
                       "scatter sends to one place at least, not to %lld", (long long)n);
  vtb_type t = v->type;
  t.dim[batch] = (vtb_dim){n, NULL};
  if (idx->type.dtype != VTB_I32) idx = vtb_b_cast(vtb__at(e, a->span), idx, VTB_I32);
  vtb_attr attrs[] = {VTB_A_INT("axis", batch), VTB_A_INT("size", n)};
  vtb_inst *made = vtb_build_typed(vtb__at(e, a->span), VTB_OP_scatter_sum, (vtb_value *[]){v, idx},
                                   2, attrs, 2, &t, 1);
  return vtb__tensor(made ? made->results[0] : NULL, NULL);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* x with one more axis at `at`, of size 1. */
static vtb_value *spread(vtb__eval *e, vtb_value *x, int at, vtb_span span) {
  vtb_type t = vtb_type_with_axis(&x->type, at, (vtb_dim){1, NULL});
  return vtb_b_reshape(vtb__at(e, span), x, &t);
}

/* 0, 1 ... n - 1 as f32 [n], or [n, 1] of a column. */
static vtb_value *numbers(vtb__eval *e, vtb_dim n, bool column, vtb_span span) {
  vtb_type t = {.dtype = VTB_F32, .rank = 1 + column, .dim = {n, {1, NULL}}};
  return vtb_b_iota(vtb__at(e, span), 0, &t);
}

static vtb_value *sum_last(vtb__eval *e, vtb_value *x, vtb_span span) {
  if (!x) return NULL;
  const int64_t axis = x->type.rank - 1;
  return vtb_b_reduce(vtb__at(e, span), VTB_OP_reduce_sum, x, &axis, 1, false);
}

/* rank_i = how many j have x_j < x_i, or x_j = x_i and j < i: the place of element i in the order,
 * equal ones as they stand. */
static vtb_value *ranks(vtb__eval *e, vtb_value *x, vtb_span span) {
  int r = x->type.rank;
  vtb_dim n = x->type.dim[r - 1];
  if (!(x = vtb_b_unary(vtb__at(e, span), VTB_OP_stop_gradient, x))) return NULL;
  vtb_value *here = spread(e, x, r, span), *there = spread(e, x, r - 1, span),
            *i = numbers(e, n, true, span), *j = numbers(e, n, false, span);
  vtb_builder *b = vtb__at(e, span);
  vtb_value *below = vtb_b_binary(b, VTB_OP_gt, here, there),
            *tied = vtb_b_binary(b, VTB_OP_mul, vtb_b_binary(b, VTB_OP_eq, here, there),
                                 vtb_b_binary(b, VTB_OP_gt, i, j));
  return sum_last(e, vtb_b_binary(b, VTB_OP_add, below, tied), span);
}

/* The permutation that undoes one, n^2 comparisons: at each place where it stands in the other,
 * sum_i i [p_i = place]. Ranks are undone by the order that they are places of. */
static vtb_value *inverse(vtb__eval *e, vtb_value *p, vtb_span span) {
  int r = p->type.rank;
  vtb_dim n = p->type.dim[r - 1];
  if (!(p = vtb_b_unary(vtb__at(e, span), VTB_OP_stop_gradient, p))) return NULL;
  vtb_value *row = spread(e, p, r - 1, span), *place = numbers(e, n, true, span),
            *i = numbers(e, n, false, span);
  vtb_builder *b = vtb__at(e, span);
  vtb_value *here = vtb_b_binary(b, VTB_OP_eq, row, place);
  return sum_last(e, vtb_b_binary(b, VTB_OP_mul, here, i), span);
}

enum { MOST = 8192 }; /* elements of an axis: n^2 comparisons */

static vtb_value *argsort(vtb__eval *e, vtb_value *x, vtb_span span) {
  vtb_value *rank = ranks(e, x, span);
  return rank ? inverse(e, rank, span) : NULL;
}

/* argsort(x), ranks(x), inverse(order): along the last axis; of [..., n, 1], as
 * random(mean(tokens)), along n; of [B] along the batch. */
vtb__val vtb__b_argsort(vtb__eval *e, const vtb__args *a) {
  vtb__val x = a->at[0].value;
  vtb_value *v = x.u.t.v;
  vtb_type t = v->type;
  if (!vtb__channels_last(e, a, x)) return VTB__ERR;
  if (t.rank > 1 && t.dim[t.rank - 1].size == 1) {
    t.rank--;
    if (!(v = vtb_b_reshape(vtb__at(e, a->span), v, &t))) return VTB__ERR;
  }
  bool of_samples = t.rank == 1 && t.dim[0].size == VTB_DYN;
  if (t.rank < 1 || t.rank >= VTB_MAX_RANK || t.dtype != VTB_F32 ||
      (vtb_is_batch(t.dim[t.rank - 1].size) && !of_samples)) {
    vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                "%s orders numbers along the last axis, and %s has none that it could", a->name,
                vtb__describe(e, x));
    if (t.rank > 1 && t.dtype == VTB_F32)
      vtb__help(e, "of a table of pairs the nearest k come one by one: repeat k { hit = "
                   "one_hot(argmax(x), batch); ...; x -= 1e9 * hit }");
    return VTB__ERR;
  }
  if (t.dim[t.rank - 1].size > MOST)
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span,
                       "%s compares each with each: an axis of %lld is too long, the most is %d",
                       a->name, (long long)t.dim[t.rank - 1].size, MOST);
  v = strcmp(a->name, "inverse") == 0 ? inverse(e, v, a->span)
      : strcmp(a->name, "ranks") == 0 ? ranks(e, v, a->span)
                                      : argsort(e, v, a->span);
  return vtb__tensor(v, NULL);
}

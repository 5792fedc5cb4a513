/* Builtins that pick and order: gather(x, indices), argsort(x), ranks(x), inverse(order).
 *
 * All of them are comparisons and products of what the language has, n^2 numbers a row of n: made
 * for tokens and classes, not for millions. Nothing depends on the order in which threads run, and
 * the adjoint of a gather is the product the other way round: a sum over all who took an element.
 */
#include "frontend/lang/value.h"
#include "ir/ops.h"

/* 1 where index = 0 .. n - 1, along a new last axis. */
vtb_value *vtb__index_table(vtb__eval *e, vtb_value *idx, int64_t n, const char *name,
                            vtb_span span) {
  vtb_type t = idx->type;
  if (t.dtype != VTB_I32) {
    vtb_builder *b = vtb__at(e, span);
    vtb_attr to = VTB_A_STR("to", "i32");
    vtb_inst *cast = b ? vtb_build(b, VTB_OP_cast, &idx, 1, &to, 1) : NULL;
    if (!cast) return NULL;
    idx = cast->results[0];
  }
  t.dtype = VTB_I32;
  t.dim[t.rank++] = (vtb_dim){1, NULL};
  vtb_builder *b = vtb__at(e, span);
  if (!b) return NULL;
  vtb_value *column = vtb_b_reshape(b, idx, &t);
  t.dim[t.rank - 1] = (vtb_dim){n, name};
  vtb_type row = {.dtype = VTB_I32, .rank = 1, .dim = {{n, name}}};
  vtb_attr axis = VTB_A_INT("axis", 0);
  vtb_inst *iota = vtb_build_typed(b, VTB_OP_iota, NULL, 0, &axis, 1, &row, 1);
  return iota ? vtb_b_binary(b, VTB_OP_eq, column, iota->results[0]) : NULL;
}

/* ---- gather ---------------------------------------------------------------------------------- */

static bool of_batch(const vtb__eval *e, const vtb_type *t) {
  return t->rank > 0 && t->dim[0].size == e->batch && vtb_streq(t->dim[0].name, "B");
}

static const vtb__layout *sequence_of(vtb__eval *e, const vtb_value *y) {
  return vtb__layout_new(
      e, (vtb__layout){.kind = VTB__TOKENS, .grid = vtb_grid_series(y->type.dim[1].size)});
}

/* gather(x, indices): of x [B, N, ...] and indices [B, M] the elements x[b, indices[b, m]]; of a
 * table x [n, ...] and indices of any shape the rows x[indices]. */
static vtb__val b_gather(vtb__eval *e, vtb__args *a) {
  vtb__val x, i;
  vtb_value *v = vtb__take_tensor(e, a, "x", &x), *idx = vtb__take_tensor(e, a, "indices", &i);
  if (!v || !idx) return VTB__ERR;
  bool batch = of_batch(e, &v->type);
  int lead = batch ? 1 : 0, rest = v->type.rank - lead - 1, m = idx->type.rank - lead;
  if (rest < 0 || (batch && (idx->type.rank != 2 || !of_batch(e, &idx->type))) ||
      m + lead + 1 > VTB_MAX_RANK || m + lead + rest > VTB_MAX_RANK ||
      v->type.dim[lead].size == VTB_DYN || x.u.t.layout->via)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "gather takes x [B, N, ...] with indices [B, M], or a table [n, ...] with "
                       "indices of any shape, not %s and %s",
                       vtb__describe(e, x), vtb__describe(e, i));
  vtb_value *table = vtb__index_table(e, idx, v->type.dim[lead].size, NULL, a->span);
  if (!table) return VTB__ERR;
  char in[VTB_MAX_RANK + 1], other[VTB_MAX_RANK + 1], used[2 * VTB_MAX_RANK + 2];
  vtb__axis_letters(&table->type, table->type.rank, "", in);
  vtb_type tail = {.dtype = VTB_F32, .rank = rest};
  for (int k = 0; k < rest; k++) tail.dim[k] = v->type.dim[lead + 1 + k];
  snprintf(used, sizeof used, "%s", in);
  vtb__axis_letters(&tail, rest, used, other);
  int last = table->type.rank - 1;
  const char *spec = vtb_arena_printf(&e->arena, "%s,%.*s%c%s->%.*s%s", in, lead, in, in[last],
                                      other, last, in, other);
  vtb_builder *b = vtb__at(e, a->span);
  vtb_value *y = b ? vtb_b_einsum(b, spec, table, v) : NULL;
  if (y && batch) y->type.dim[1].name = vtb_intern(e->module, "N");
  bool tokens = y && batch && x.u.t.layout->kind == VTB__TOKENS;
  return vtb__tensor(y, tokens ? sequence_of(e, y) : NULL);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* x with one more axis at `at`, of size 1. */
static vtb_value *spread(vtb__eval *e, vtb_value *x, int at, vtb_span span) {
  vtb_type t = x->type;
  for (int k = t.rank++; k > at; k--) t.dim[k] = t.dim[k - 1];
  t.dim[at] = (vtb_dim){1, NULL};
  vtb_builder *b = vtb__at(e, span);
  return b ? vtb_b_reshape(b, x, &t) : NULL;
}

/* 0, 1 ... n - 1 as f32 [n], or [n, 1] of a column. */
static vtb_value *numbers(vtb__eval *e, int64_t n, bool column, vtb_span span) {
  vtb_type t = {.dtype = VTB_F32, .rank = 1 + column, .dim = {{n, NULL}, {1, NULL}}};
  vtb_attr axis = VTB_A_INT("axis", 0);
  vtb_builder *b = vtb__at(e, span);
  vtb_inst *i = b ? vtb_build_typed(b, VTB_OP_iota, NULL, 0, &axis, 1, &t, 1) : NULL;
  return i ? i->results[0] : NULL;
}

static vtb_value *sum_last(vtb__eval *e, vtb_value *x, vtb_span span) {
  vtb_builder *b = vtb__at(e, span);
  if (!b || !x) return NULL;
  const int64_t axis = x->type.rank - 1;
  return vtb_b_reduce(b, VTB_OP_reduce_sum, x, &axis, 1, false);
}

/* rank_i = how many j have x_j < x_i, or x_j = x_i and j < i: the place of element i in the order,
 * equal ones as they stand. */
static vtb_value *ranks(vtb__eval *e, vtb_value *x, vtb_span span) {
  int r = x->type.rank;
  int64_t n = x->type.dim[r - 1].size;
  vtb_builder *b = vtb__at(e, span);
  if (!b) return NULL;
  x = vtb_b_unary(b, VTB_OP_stop_gradient, x);
  vtb_value *here = spread(e, x, r, span), *there = spread(e, x, r - 1, span),
            *i = numbers(e, n, true, span), *j = numbers(e, n, false, span);
  if (!here || !there || !i || !j || !(b = vtb__at(e, span))) return NULL;
  vtb_value *below = vtb_b_binary(b, VTB_OP_gt, here, there),
            *tied = vtb_b_binary(b, VTB_OP_mul, vtb_b_binary(b, VTB_OP_eq, here, there),
                                 vtb_b_binary(b, VTB_OP_gt, i, j));
  return sum_last(e, vtb_b_binary(b, VTB_OP_add, below, tied), span);
}

/* The permutation that undoes one, n^2 comparisons: at each place where it stands in the other,
 * sum_i i [p_i = place]. Ranks are undone by the order that they are places of. */
static vtb_value *inverse(vtb__eval *e, vtb_value *p, vtb_span span) {
  int r = p->type.rank;
  int64_t n = p->type.dim[r - 1].size;
  vtb_builder *b = vtb__at(e, span);
  if (!b) return NULL;
  p = vtb_b_unary(b, VTB_OP_stop_gradient, p);
  vtb_value *row = spread(e, p, r - 1, span), *place = numbers(e, n, true, span),
            *i = numbers(e, n, false, span);
  if (!row || !place || !i || !(b = vtb__at(e, span))) return NULL;
  vtb_value *here = vtb_b_binary(b, VTB_OP_eq, row, place);
  return sum_last(e, vtb_b_binary(b, VTB_OP_mul, here, i), span);
}

enum { MOST = 8192 }; /* elements of an axis: n^2 comparisons */

static vtb_value *argsort(vtb__eval *e, vtb_value *x, vtb_span span) {
  vtb_value *rank = ranks(e, x, span);
  return rank ? inverse(e, rank, span) : NULL;
}

/* argsort(x), ranks(x), inverse(order): along the last axis; of [..., n, 1], as
 * random(mean(tokens)), along n. */
static vtb__val ordered(vtb__eval *e, vtb__args *a, const char *what,
                        vtb_value *make(vtb__eval *e, vtb_value *x, vtb_span span)) {
  vtb__val x;
  vtb_value *v = vtb__take_tensor(e, a, what, &x);
  if (!v) return VTB__ERR;
  vtb_type t = v->type;
  if (t.rank > 1 && t.dim[t.rank - 1].size == 1) {
    t.rank--;
    vtb_builder *b = vtb__at(e, a->span);
    if (!b || !(v = vtb_b_reshape(b, v, &t))) return VTB__ERR;
  }
  if (t.rank < 1 || t.rank >= VTB_MAX_RANK || t.dtype != VTB_F32 ||
      t.dim[t.rank - 1].size == VTB_DYN)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "%s orders numbers along the last axis, and %s has none that it could",
                       a->name, vtb__describe(e, x));
  if (t.dim[t.rank - 1].size > MOST)
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span,
                       "%s compares each with each: an axis of %lld is too long, the most is %d",
                       a->name, (long long)t.dim[t.rank - 1].size, MOST);
  return vtb__tensor(make(e, v, a->span), NULL);
}

static vtb__val b_argsort(vtb__eval *e, vtb__args *a) { return ordered(e, a, "x", argsort); }

static vtb__val b_ranks(vtb__eval *e, vtb__args *a) { return ordered(e, a, "x", ranks); }

static vtb__val b_inverse(vtb__eval *e, vtb__args *a) { return ordered(e, a, "order", inverse); }

const vtb__builtin vtb__order_builtins[] = {{"gather", b_gather},
                                            {"argsort", b_argsort},
                                            {"ranks", b_ranks},
                                            {"inverse", b_inverse},
                                            {NULL, NULL}};

/* Builtins along the batch, whose size the program does not know: joining and taking apart, moving,
 * picking, pairing.
 *
 *   z = concat(a, b, axis = "B")      [B, C] and [B, C]: [2*B, C], the rows of a, then of b
 *   a, b = split(z, 2, axis = "B")
 *   l == across(l)                    [B] beside [1, B]: [B, B], each sample with each
 *
 * Joined batches are several end to end (ir.h); every batch keeps its own order in them.
 */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

/* [k*B, ...] as [k, B, ...], and back. */
static vtb_value *apart(vtb__eval *e, vtb_value *x, vtb_span span) {
  vtb_dim first = {vtb__batches_of(e, x->type.dim[0]), NULL};
  vtb_type t = vtb_type_with_axis(&x->type, 0, first);
  t.dim[1].size = e->batch;
  return vtb_b_reshape(vtb__at(e, span), x, &t);
}

static vtb_value *end_to_end(vtb__eval *e, vtb_value *x, vtb_span span) {
  if (!x) return NULL;
  vtb_type t = vtb_type_without_axis(&x->type, 0);
  t.dim[0] = (vtb_dim){x->type.dim[0].size * e->batch, "B"};
  return vtb_b_reshape(vtb__at(e, span), x, &t);
}

static bool has_batch(vtb__eval *e, const vtb__args *a, vtb__val x) {
  const vtb_type *t = &x.u.t.v->type;
  if (t->rank && t->rank < VTB_MAX_RANK && vtb__batches_of(e, t->dim[0])) return true;
  vtb__report(e, VTB_DIAG_WRONG_RANK, a->span, "the first axis of %s is not the batch",
              vtb__describe(e, x));
  return false;
}

vtb__val vtb__concat_batches(vtb__eval *e, const vtb__args *a, size_t n) {
  vtb_value **at = VTB_NEW_ARRAY(&e->arena, vtb_value *, n + 1);
  vtb__val first = a->at[0].value;
  for (size_t i = 0; i < n; i++) {
    vtb__val x = a->at[i].value;
    if (!has_batch(e, a, x)) return VTB__ERR;
    vtb_type rest = vtb_type_without_axis(&x.u.t.v->type, 0),
             like = vtb_type_without_axis(&first.u.t.v->type, 0);
    if (!vtb_type_equal(&rest, &like))
      return vtb__report(e, VTB_DIAG_CONCAT_SHAPES, a->at[i].span,
                         "concat of %s and %s: axes behind the batch differ",
                         vtb__describe(e, first), vtb__describe(e, x));
    if (!vtb__layout_equal(x.u.t.layout, first.u.t.layout))
      return vtb__report(e, VTB_DIAG_LAYOUT_MISMATCH, a->at[i].span,
                         "concat of %s and %s, whose tokens stand in different places",
                         vtb__describe(e, first), vtb__describe(e, x));
    if (!(at[i] = apart(e, x.u.t.v, a->span))) return VTB__ERR;
  }
  vtb_value *y = vtb_b_concat(vtb__at(e, a->span), at, (int)n, 0);
  return vtb__tensor(end_to_end(e, y, a->span), first.u.t.layout);
}

/* How many batches each part has; 0 after a message. */
static size_t part_sizes(vtb__eval *e, const vtb__args *a, vtb__val parts, int64_t batches,
                         int64_t *sizes) {
  size_t n = 0;
  int64_t sum = 0;
  if (parts.kind == VTB__INT && parts.u.i > 0 && batches % parts.u.i == 0)
    for (; sum < batches; sum += sizes[n++]) sizes[n] = batches / parts.u.i;
  for (size_t i = 0; parts.kind == VTB__LIST && i < parts.u.list.n && sum < batches; i++) {
    vtb__val size = parts.u.list.at[i];
    if (size.kind != VTB__INT || size.u.i < 1) break;
    sum += sizes[n++] = size.u.i;
  }
  if (sum == batches && (parts.kind == VTB__INT || n == parts.u.list.n)) return n;
  vtb__report(e, VTB_DIAG_SPLIT_SIZES, a->span,
              "%s has %lld batch%s, and %s is no way to part them",
              vtb__describe(e, vtb__arg(a, "x")), (long long)batches, batches > 1 ? "es" : "",
              vtb__describe(e, parts));
  vtb__help(e, "only what concat(.., axis = \"B\") joined comes apart; how many samples one batch "
               "has is known when the program runs");
  return 0;
}

vtb__val vtb__split_batches(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), parts = vtb__arg(a, "parts");
  if (!has_batch(e, a, x)) return VTB__ERR;
  int64_t batches = vtb__batches_of(e, x.u.t.v->type.dim[0]), from = 0;
  int64_t *sizes = VTB_NEW_ARRAY(&e->arena, int64_t, (size_t)batches + 1);
  size_t n = part_sizes(e, a, parts, batches, sizes);
  if (!n) return VTB__ERR;
  vtb__val *out = VTB_NEW_ARRAY(&e->arena, vtb__val, n);
  vtb_value *rows = apart(e, x.u.t.v, a->span);
  for (size_t i = 0; i < n; from += sizes[i++]) {
    vtb_value *part = vtb_b_slice(vtb__at(e, a->span), rows, 0, from, from + sizes[i], 1);
    out[i] = vtb__tensor(end_to_end(e, part, a->span), x.u.t.layout);
    if (out[i].kind == VTB__ERROR) return VTB__ERR;
  }
  return (vtb__val){.kind = VTB__LIST, .u.list = {out, n}};
}

/* across(x): [B, ...] as [1, B, ...], which meets another's batch as columns meet rows. */
vtb__val vtb__b_across(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  if (!has_batch(e, a, x)) return VTB__ERR;
  vtb_type t = vtb_type_with_axis(&x.u.t.v->type, 0, (vtb_dim){1, VTB__ACROSS});
  vtb_value *y = vtb_b_reshape(vtb__at(e, a->span), x.u.t.v, &t);
  if (y) y->type.dim[0].name = vtb_intern(e->module, VTB__ACROSS);
  return vtb__tensor(y, NULL);
}

/* ---- rows by their number -------------------------------------------------------------------- */

/* One batch, as the first axis; false after a message. */
static bool one_batch(vtb__eval *e, const vtb__args *a, vtb__val x) {
  const vtb_type *t = &x.u.t.v->type;
  if (t->rank && vtb__batches_of(e, t->dim[0]) == 1) return true;
  vtb__report(e, VTB_DIAG_WRONG_RANK, a->span, "%s is along one batch, the first axis, not %s",
              a->name, vtb__describe(e, x));
  if (t->rank && vtb__batches_of(e, t->dim[0]))
    vtb__help(e, "split(x, n, axis = \"B\") takes joined batches apart");
  return false;
}

static vtb_value *rows_at(vtb__eval *e, vtb_value *x, vtb_value *indices, vtb_span span) {
  vtb_builder *b = vtb__at(e, span);
  return vtb_b_gather(b, x, indices ? vtb_b_cast(b, indices, VTB_I32) : NULL, 0);
}

static vtb_value *numbered(vtb__eval *e, vtb_span span) {
  vtb_type t = {.dtype = VTB_F32, .rank = 1, .dim = {{e->batch, "B"}}};
  return vtb_b_iota(vtb__at(e, span), 0, &t);
}

/* Rows that only fill the batch up are none of its samples (passes/train/padding.c). */
vtb_value *vtb__n_samples(vtb__eval *e, vtb_span span) {
  vtb_type t = {.dtype = VTB_F32, .rank = 1, .dim = {{e->batch, "B"}}};
  vtb_builder *b = vtb__at(e, span);
  return vtb_b_reduce(b, VTB_OP_reduce_sum, vtb_b_splat(b, 1, &t), (int64_t[]){0}, 1, false);
}

vtb_value *vtb__sample_numbers(vtb__eval *e, int64_t n, vtb_span span) {
  vtb_builder *b = vtb__at(e, span);
  if (n == 1) return numbered(e, span);
  vtb_value **at = VTB_NEW_ARRAY(&e->arena, vtb_value *, (size_t)n),
            *samples = vtb__n_samples(e, span);
  for (int64_t k = 0; k < n; k++) {
    vtb_value *before = vtb_b_binary(b, VTB_OP_mul, samples, vtb_b_constant(b, (double)k));
    at[k] = apart(e, vtb_b_binary(b, VTB_OP_add, numbered(e, span), before), span);
    if (!at[k]) return NULL;
  }
  return end_to_end(e, vtb_b_concat(b, at, (int)n, 0), span);
}

/* Row i is that of sample i - by, round the end: i - by - n floor((i - by + 1/2) / n), whose half
 * keeps the quotient away from whole numbers, where a target's division may be an ulp off. */
vtb__val vtb__roll_batch(vtb__eval *e, const vtb__args *a, vtb__val x, int64_t by) {
  if (!one_batch(e, a, x)) return VTB__ERR;
  vtb_builder *b = vtb__at(e, a->span);
  vtb_value *n = vtb__n_samples(e, a->span), *i = numbered(e, a->span);
  i = vtb_b_binary(b, VTB_OP_sub, i, vtb_b_constant(b, (double)by));
  vtb_value *half = vtb_b_binary(b, VTB_OP_add, i, vtb_b_constant(b, 0.5));
  vtb_value *turns = vtb_b_unary(b, VTB_OP_floor, vtb_b_binary(b, VTB_OP_div, half, n));
  i = vtb_b_binary(b, VTB_OP_sub, i, vtb_b_binary(b, VTB_OP_mul, turns, n));
  return vtb__tensor(rows_at(e, x.u.t.v, i, a->span), x.u.t.layout);
}

vtb__val vtb__reverse_batch(vtb__eval *e, const vtb__args *a, vtb__val x) {
  if (!one_batch(e, a, x)) return VTB__ERR;
  vtb_builder *b = vtb__at(e, a->span);
  vtb_value *last = vtb_b_binary(b, VTB_OP_sub, vtb__n_samples(e, a->span), vtb_b_constant(b, 1));
  vtb_value *i = vtb_b_binary(b, VTB_OP_sub, last, numbered(e, a->span));
  return vtb__tensor(rows_at(e, x.u.t.v, i, a->span), x.u.t.layout);
}

/* gather(x, indices, axis = "B"): the samples that indices of any shape number. */
vtb__val vtb__gather_batch(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), indices = vtb__arg(a, "indices");
  vtb_value *i = indices.u.t.v;
  if (!one_batch(e, a, x)) return VTB__ERR;
  if (i->type.rank + x.u.t.v->type.rank - 1 > VTB_MAX_RANK)
    return vtb__report(e, VTB_DIAG_TOO_MANY_AXES, a->span, "samples of %s at %s have too many axes",
                       vtb__describe(e, x), vtb__describe(e, indices));
  vtb_value *y = rows_at(e, x.u.t.v, i, a->span);
  return vtb__tensor(y, i->type.rank == 1 ? x.u.t.layout : NULL);
}

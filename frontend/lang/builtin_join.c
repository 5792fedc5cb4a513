/* Builtins that move, join and take apart along one axis, and that add axes and take them away. */
#include "frontend/lang/builtin.h"
#include "ir/ops.h"

static vtb_value *part(vtb__eval *e, const vtb__axis *w, int64_t from, int64_t to) {
  return vtb_b_slice(vtb__at(e, w->span), w->x.u.t.v, (int)w->axis, from, to, 1);
}

static bool is_batch(const vtb__axis *w) {
  return vtb_is_batch(w->x.u.t.v->type.dim[w->axis].size);
}

static bool along(const vtb__args *a, const char *axis) {
  return vtb_streq(vtb__arg(a, "axis").u.str.s, axis);
}

/* ---- concat and split ------------------------------------------------------------------------ */

/* Labels beside other numbers become such by themselves. */
static void make_alike(vtb__eval *e, const vtb__args *a, size_t n) {
  size_t floats = 0;
  for (size_t i = 0; i < n; i++) floats += a->at[i].value.u.t.v->type.dtype == VTB_F32;
  for (size_t i = 0; i < n && floats > 0; i++) {
    vtb_value **v = &a->at[i].value.u.t.v;
    if ((*v)->type.dtype == VTB_I32) *v = vtb_b_cast(vtb__at(e, a->span), *v, VTB_F32);
  }
}

/* The axis of operand i, which fits those before it; false after a message. */
static bool take_operand(vtb__eval *e, const vtb__args *a, size_t i, vtb__axis *w, vtb_value **at,
                         const vtb__layout **l) {
  vtb__val x = a->at[i].value;
  if (!vtb__take_axis(e, a, x, &w[i])) return false;
  at[i] = w[i].x.u.t.v;
  const vtb_type *t = &at[i]->type, *f = &at[0]->type;
  bool fits = t->rank == f->rank && w[i].axis == w[0].axis && w[i].opened == w[0].opened &&
              w[i].of_grid == w[0].of_grid;
  for (int k = 0; fits && k < t->rank; k++)
    fits = k == w[0].axis || t->dim[k].size == f->dim[k].size;
  if (!fits) {
    const char *word = vtb__arg(a, "axis").u.str.s;
    vtb__report(e, VTB_DIAG_CONCAT_SHAPES, a->at[i].span, "concat of %s and %s: axes %s differ",
                vtb__describe(e, a->at[0].value), vtb__describe(e, x),
                word ? vtb_arena_printf(&e->arena, "other than \"%s\"", word) : "before the last");
    if (!word)
      vtb__help(e,
                "concat joins channels; axis = \"tokens\", \"height\" or \"width\" joins others, "
                "insert_tokens adds extra tokens");
    return false;
  }
  return w[0].of_grid || (*l = vtb__layout_merge(
                              e, (vtb__val){.kind = VTB__TENSOR, .u.t = {at[i], *l}}, x, a->span));
}

/* Tables of pairs, [B, B], are made of what was joined or split. */
static vtb__val pairs(vtb__eval *e, const vtb__args *a, const char *remedy) {
  vtb__report(e, VTB_DIAG_CONCAT_SHAPES, a->span, "the last axis of %s is the batch",
              vtb__describe(e, a->at[0].value));
  vtb__help(e, "%s", remedy);
  return VTB__ERR;
}

/* concat(x, y, ..., axis): along the tokens it is `sequence`. */
vtb__val vtb__b_concat(vtb__eval *e, const vtb__args *a) {
  const vtb__layout *l = &vtb__plain;
  size_t n = a->n - 1; /* the last argument is the axis */
  if (!n) return vtb__report(e, VTB_DIAG_MISSING_ARGUMENT, a->span, "concat of nothing");
  make_alike(e, a, n);
  if (along(a, "B")) return vtb__concat_batches(e, a, n);
  if (along(a, "tokens")) {
    vtb__args joined = *a;
    joined.n = n;
    return vtb__b_sequence(e, &joined);
  }
  vtb__axis *w = VTB_NEW_ARRAY(&e->arena, vtb__axis, n);
  vtb_value **at = VTB_NEW_ARRAY(&e->arena, vtb_value *, n);
  for (size_t i = 0; i < n; i++)
    if (!take_operand(e, a, i, w, at, &l)) return VTB__ERR;
  if (w[0].axis && is_batch(&w[0]))
    return pairs(e, a,
                 "join before the product: einsum(\"ic,jc->ij\", a, concat(b, c, axis = \"B\")) "
                 "is [B, 2*B]; axis = \"B\" joins the first axes");
  if (!w[0].of_grid) w[0].x.u.t.layout = l;
  return vtb__along_axis(e, &w[0], vtb_b_concat(vtb__at(e, a->span), at, (int)n, (int)w[0].axis));
}

static const char *which_axis(vtb__eval *e, const vtb__args *a) {
  const char *word = vtb__arg(a, "axis").u.str.s;
  return word ? vtb_arena_printf(&e->arena, "the axis \"%s\"", word) : "the last axis";
}

static bool equal_parts(vtb__eval *e, const vtb__args *a, int64_t total, int64_t parts,
                        int64_t **sizes, size_t *n) {
  if (parts < 1 || parts > 4096 || total % parts) {
    vtb__report(e, VTB_DIAG_SPLIT_SIZES, a->span, "%s of %s does not split into %lld equal parts",
                which_axis(e, a), vtb__describe(e, vtb__arg(a, "x")), (long long)parts);
    vtb__hint_call(e, "split");
    return false;
  }
  *n = (size_t)parts;
  *sizes = VTB_NEW_ARRAY(&e->arena, int64_t, *n);
  for (size_t i = 0; i < *n; i++) (*sizes)[i] = total / parts;
  return true;
}

static bool split_sizes(vtb__eval *e, const vtb__args *a, int64_t total, int64_t **sizes,
                        size_t *n) {
  vtb__val x = vtb__arg(a, "x"), parts = vtb__arg(a, "parts");
  int64_t sum = 0;
  if (parts.kind == VTB__INT) return equal_parts(e, a, total, parts.u.i, sizes, n);
  if (parts.kind != VTB__LIST || !parts.u.list.n || parts.u.list.n > 4096) {
    vtb__report(e, VTB_DIAG_TYPE_MISMATCH, a->span,
                "split takes a number of parts or a list of sizes, not %s",
                vtb__describe(e, parts));
    return false;
  }
  *n = parts.u.list.n;
  *sizes = VTB_NEW_ARRAY(&e->arena, int64_t, *n);
  for (size_t i = 0; i < *n; i++) {
    vtb__val s = parts.u.list.at[i];
    if (s.kind != VTB__INT || s.u.i < 1 || s.u.i > total) {
      vtb__report(e, VTB_DIAG_SPLIT_SIZES, a->span, "part %zu of %s is %s", i, vtb__describe(e, x),
                  vtb__describe(e, s));
      return false;
    }
    sum += (*sizes)[i] = s.u.i;
  }
  if (sum == total) return true;
  vtb__report(e, VTB_DIAG_SPLIT_SIZES, a->span, "the parts add up to %lld, and %s of %s is %lld",
              (long long)sum, which_axis(e, a), vtb__describe(e, x), (long long)total);
  return false;
}

vtb__val vtb__b_split(vtb__eval *e, const vtb__args *a) {
  vtb__axis w;
  int64_t *sizes, at = 0;
  size_t n;
  if (along(a, "B")) return vtb__split_batches(e, a);
  if (!vtb__take_axis(e, a, vtb__arg(a, "x"), &w)) return VTB__ERR;
  if (is_batch(&w))
    return pairs(e, a,
                 "split before the product: b, c = split(z, 2, axis = \"B\"), "
                 "then einsum(\"ic,jc->ij\", a, b)");
  if (!split_sizes(e, a, w.x.u.t.v->type.dim[w.axis].size, &sizes, &n)) return VTB__ERR;
  vtb__val *out = VTB_NEW_ARRAY(&e->arena, vtb__val, n);
  for (size_t i = 0; i < n; i++) {
    out[i] = vtb__along_axis(e, &w, part(e, &w, at, at + sizes[i]));
    if (out[i].kind == VTB__ERROR) return VTB__ERR;
    if (w.tokens) out[i].u.t.layout = vtb__tokens_part(e, w.x.u.t.layout, at, at + sizes[i]);
    at += sizes[i];
  }
  return (vtb__val){.kind = VTB__LIST, .u.list = {out, n}};
}

/* ---- roll and pad ---------------------------------------------------------------------------- */

/* roll(x, by, axis): element i goes to i + by, around the end; roll(x, [by...]) along each axis of
 * the grid. */
vtb__val vtb__b_roll(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), step = vtb__arg(a, "by");
  vtb__axis w;
  if (step.kind == VTB__LIST || step.kind == VTB__SIZE) return vtb__roll_grid(e, a, x, step);
  if (step.kind != VTB__INT)
    return vtb__report(
        e, VTB_DIAG_TYPE_MISMATCH, a->span,
        "roll moves by an int, or by a list of ints along the axes of a grid, not %s",
        vtb__describe(e, step));
  if (!vtb__take_axis(e, a, x, &w)) return VTB__ERR;
  if (is_batch(&w)) return vtb__roll_batch(e, a, x, step.u.i);
  if (w.opened) { /* pictures show how far a grid was moved */
    vtb__val steps[VTB_GRID_AXES] = {vtb__int(0), vtb__int(0), vtb__int(0)};
    steps[w.axis - 1] = step;
    size_t rank = (size_t)x.u.t.layout->grid.rank;
    return vtb__roll_grid(e, a, x, (vtb__val){.kind = VTB__LIST, .u.list = {steps, rank}});
  }
  int64_t n = w.x.u.t.v->type.dim[w.axis].size, by = (step.u.i % n + n) % n;
  if (!by) return x;
  vtb_value *parts[] = {part(e, &w, n - by, n), part(e, &w, 0, n - by)};
  if (!parts[0] || !parts[1]) return VTB__ERR;
  return vtb__along_axis(e, &w, vtb_b_concat(vtb__at(e, a->span), parts, 2, (int)w.axis));
}

/* reverse(x, axis): the last element first. */
vtb__val vtb__b_reverse(vtb__eval *e, const vtb__args *a) {
  vtb__axis w;
  if (!vtb__take_axis(e, a, vtb__arg(a, "x"), &w)) return VTB__ERR;
  if (is_batch(&w)) return vtb__reverse_batch(e, a, w.x);
  vtb_value *x = w.x.u.t.v;
  const char *path = vtb_arena_printf(&e->arena, "rows~@%lld", (long long)x->type.dim[w.axis].size);
  return vtb__along_axis(e, &w, vtb_b_permute(vtb__at(e, a->span), x, (int)w.axis, path, false));
}

/* pad(x, low, high, axis): zeros before and behind. Padded tokens are a plain sequence. */
vtb__val vtb__b_pad(vtb__eval *e, const vtb__args *a) {
  vtb__axis w;
  int64_t low = vtb__arg(a, "low").u.i, high = vtb__arg(a, "high").u.i;
  if (!vtb__take_axis(e, a, vtb__arg(a, "x"), &w)) return VTB__ERR;
  if (is_batch(&w))
    return vtb__report(e, VTB_DIAG_NOT_COMPILE_TIME, a->span, "the batch is not padded");
  vtb_value *v = w.x.u.t.v;
  int64_t n = v->type.dim[w.axis].size;
  if (low < 0 || high < 0 || low >= VTB__MAX_SIZE - n || high >= VTB__MAX_SIZE - n - low)
    return vtb__report(e, VTB_DIAG_BAD_VALUE, a->span, "%lld zeros before and %lld behind",
                       (long long)low, (long long)high);
  vtb_attr attrs[] = {VTB_A_INT("axis", w.axis), VTB_A_INT("low", low), VTB_A_INT("high", high)};
  return vtb__along_axis(e, &w, vtb_b_op(vtb__at(e, a->span), VTB_OP_pad, &v, 1, attrs, 3));
}

/* ---- axes of one place ----------------------------------------------------------------------- */

/* unsqueeze(x, at): an axis of 1 at that place of the result, counted from the end if negative; at
 * "tokens" behind the batch, at "channels" last. */
vtb__val vtb__b_unsqueeze(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), at = vtb__arg(a, "at");
  const vtb_type *t = &x.u.t.v->type;
  if (at.kind == VTB__STRING && strcmp(at.u.str.s, "tokens") == 0) at = vtb__int(1);
  if (at.kind == VTB__STRING && strcmp(at.u.str.s, "channels") == 0) at = vtb__int(-1);
  int64_t k = at.kind != VTB__INT ? -1 : at.u.i < 0 ? at.u.i + t->rank + 1 : at.u.i;
  if (at.kind != VTB__INT || k < 0 || k > t->rank)
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "an axis of 1 is put at one of the places 1 to %d of %s, \"tokens\" or "
                       "\"channels\", not at %s",
                       t->rank, vtb__describe(e, x), vtb__describe(e, at));
  if (k == 0 && t->rank && vtb_is_batch(t->dim[0].size))
    return vtb__report(e, VTB_DIAG_WRONG_RANK, a->span,
                       "the batch stays the first axis; unsqueeze(x, 1) puts one behind it");
  if (t->rank == VTB_MAX_RANK)
    return vtb__report(e, VTB_DIAG_TOO_MANY_AXES, a->span, "%s has no room for another axis",
                       vtb__describe(e, x));
  vtb_type wider = vtb_type_with_axis(t, (int)k, (vtb_dim){1, NULL});
  bool stays = x.u.t.layout->kind == VTB__TOKENS && k > 1;
  return vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), x.u.t.v, &wider),
                     stays ? x.u.t.layout : NULL);
}

/* squeeze(x, axis): without an axis of 1, by its place or name. */
vtb__val vtb__b_squeeze(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), axis = vtb__arg(a, "axis");
  const vtb_type *t = &x.u.t.v->type;
  vtb__axis w = {.x = x, .axis = axis.u.i < 0 ? axis.u.i + t->rank : axis.u.i};
  if (axis.kind == VTB__STRING) {
    if (!vtb__take_axis(e, a, x, &w)) return VTB__ERR;
  } else if (axis.kind != VTB__INT || w.axis < 0 || w.axis >= t->rank) {
    vtb__report(e, VTB_DIAG_WRONG_RANK, a->span, "%s has no axis %s", vtb__describe(e, x),
                axis.kind == VTB__INT ? vtb_arena_printf(&e->arena, "%lld", (long long)axis.u.i)
                                      : vtb__describe(e, axis));
    vtb__hint_axes(e, x);
    return VTB__ERR;
  }
  if (w.opened || t->dim[w.axis].size != 1) {
    vtb__report(e, VTB_DIAG_WRONG_RANK, a->span, "that axis of %s has %lld places, not 1",
                vtb__describe(e, x), (long long)w.x.u.t.v->type.dim[w.axis].size);
    vtb__help(e, "an index takes one of its places, x[:, 0]; a mean all of them");
    return VTB__ERR;
  }
  vtb_type narrow = vtb_type_without_axis(t, (int)w.axis);
  bool stays = x.u.t.layout->kind == VTB__TOKENS && w.axis > 1;
  return vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), x.u.t.v, &narrow),
                     stays ? x.u.t.layout : NULL);
}

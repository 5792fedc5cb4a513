/* Parts of lists and tensors: l[-1], l[1:], x[:, 2:9], x[.., 0].
 *
 * An index of a tensor has an entry for each axis, the batch's first; `..` stands for those that
 * are not named, and axes behind the last entry stay whole. One number takes its axis away. All is
 * known when compiling, and a part that does not lie within the axis is an error. */
#include "frontend/lang/value.h"

typedef struct part { /* of an axis: from, from + by ... below to */
  int64_t from, to, by;
  bool one; /* a single place, whose axis goes */
} part;

/* The whole that a part is taken of. */
typedef struct whole {
  int64_t n;
  bool list;
  const char *text; /* "a list of 3 elements" */
} whole;

static bool take_int(vtb__eval *e, const vtb_expr *x, int64_t *out) {
  vtb__val v = vtb__expr(e, x);
  *out = v.u.i;
  if (v.kind == VTB__INT || v.kind == VTB__ERROR) return v.kind == VTB__INT;
  bool tensor = v.kind == VTB__TENSOR;
  vtb__report(e, tensor ? VTB_DIAG_NOT_COMPILE_TIME : VTB_DIAG_TYPE_MISMATCH, x->span,
              "an index is an int, not %s", vtb__describe(e, v));
  if (v.kind == VTB__FLOAT) vtb__help(e, "int(x) of a number without a fraction, floor(x) of any");
  if (v.kind == VTB__NONE) vtb__help(e, "unsqueeze(x, 1) puts an axis of 1 behind the batch");
  if (tensor) vtb__help(e, "gather(x, i) takes the elements that a tensor of indices names");
  return false;
}

static bool outside(vtb__eval *e, const vtb_expr *x, int64_t i, const whole *w) {
  vtb__report(e, VTB_DIAG_INDEX_RANGE, x->span, "index %lld in %s", (long long)i, w->text);
  return false;
}

/* An end of a range, counted from the end of the whole if it is negative. */
static bool take_end(vtb__eval *e, const vtb_expr *x, const whole *w, int64_t *out) {
  int64_t i;
  if (!x) return true;
  if (!take_int(e, x, &i)) return false;
  *out = i < 0 ? i + w->n : i;
  if (*out >= 0 && *out <= w->n) return true;
  outside(e, x, i, w);
  vtb__help(e, "an end that is left out is that of the whole: [1:], [:-1]");
  return false;
}

static bool take_range(vtb__eval *e, const vtb_expr *x, const whole *w, part *p) {
  const vtb_expr *by = x->u.range.by;
  *p = (part){0, w->n, 1, false};
  if (!take_end(e, x->u.range.from, w, &p->from) || !take_end(e, x->u.range.to, w, &p->to) ||
      (by && !take_int(e, by, &p->by)))
    return false;
  if (p->by < 1) {
    vtb__report(e, VTB_DIAG_BAD_VALUE, by->span, "a range goes by 1 or more, not by %lld",
                (long long)p->by);
    if (p->by < 0) vtb__help(e, "reverse(x, axis = \"width\") turns that axis round, or another");
  } else if (p->from > p->to || (p->from == p->to && !w->list)) {
    vtb__report(e, VTB_DIAG_INDEX_RANGE, x->span, "nothing from %lld to %lld in %s",
                (long long)p->from, (long long)p->to, w->text);
  } else {
    return true;
  }
  return false;
}

static bool take_part(vtb__eval *e, const vtb_expr *x, const whole *w, part *p) {
  int64_t i;
  if (x->kind == VTB_EXPR_RANGE) return take_range(e, x, w, p);
  if (!take_int(e, x, &i)) return false;
  *p = (part){i < 0 ? i + w->n : i, 0, 1, true};
  p->to = p->from + 1;
  return (p->from >= 0 && p->from < w->n) || outside(e, x, i, w);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static vtb__val of_list(vtb__eval *e, const vtb_expr *x, vtb__val list) {
  const vtb_expr *entry = x->u.index.places.at[0];
  size_t n = list.u.list.n;
  part p;
  if (x->u.index.places.n > 1 || entry->kind == VTB_EXPR_REST)
    return vtb__report(e, VTB_DIAG_BAD_OPERANDS, x->span,
                       "a list has one index, l[0], or a range, l[1:]");
  if (!n && entry->kind != VTB_EXPR_RANGE && vtb__expr(e, entry).kind == VTB__ERROR)
    return VTB__ERR;
  if (!n && entry->kind != VTB_EXPR_RANGE)
    return vtb__report(e, VTB_DIAG_EMPTY_LIST, x->u.index.base->span, "the list is empty");
  whole w = {(int64_t)n, true, vtb_arena_printf(&e->arena, "a list of %zu elements", n)};
  if (!take_part(e, entry, &w, &p)) return VTB__ERR;
  if (p.one) return list.u.list.at[p.from];
  vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, n + 1);
  size_t taken = 0;
  for (int64_t i = p.from; i < p.to; i += p.by) at[taken++] = list.u.list.at[i];
  return (vtb__val){.kind = VTB__LIST, .u.list = {at, taken}};
}

/* ---- tensors: which entry is whose ----------------------------------------------------------- */

/* The entry of each axis; NULL: it stays whole. */
static bool by_axis(vtb__eval *e, const vtb_expr *x, vtb__val v, const vtb_expr **entry) {
  const vtb_expr_list *l = &x->u.index.places;
  int rank = v.u.t.v->type.rank, before = (int)l->n, after = 0;
  for (size_t i = 0; i < l->n; i++)
    if (l->at[i]->kind == VTB_EXPR_REST) before = (int)i, after = (int)(l->n - i - 1);
  for (int i = 0; i < before; i++)
    if (l->at[i]->kind == VTB_EXPR_REST)
      return vtb__report(e, VTB_DIAG_BAD_OPERANDS, x->span, "'..' stands once in an index"), false;
  if (before + after > rank) {
    vtb__report(e, VTB_DIAG_WRONG_RANK, x->span, "%d entries for the %d axes of %s", before + after,
                rank, vtb__describe(e, v));
    vtb__help(e, "an index has an entry for each axis, the batch's first; '..' stands for all that "
                 "are not named");
    return false;
  }
  for (int k = 0; k < rank; k++)
    entry[k] = k < before ? l->at[k] : k >= rank - after ? l->at[(int)l->n - (rank - k)] : NULL;
  if (v.u.t.layout->kind != VTB__IMAGE || after != 1 || before > 1) return true;
  vtb__report(e, VTB_DIAG_IMAGE_AXIS, x->span, "the last axis of %s is its width",
              vtb__describe(e, v));
  vtb__help(e, "its channels are x[:, 0:1]; of rows and columns each has an entry, x[.., 0:4, :]; "
               "reverse(x, axis = \"width\") mirrors it");
  return false;
}

static bool is_whole(const part *p, int64_t n) { return p->from == 0 && p->to == n && p->by == 1; }

/* The parts of all axes; false after a message. */
static bool take_parts(vtb__eval *e, const vtb_expr *x, vtb__val v, part *parts) {
  const vtb_type *t = &v.u.t.v->type;
  const vtb_expr *entry[VTB_MAX_RANK];
  if (!by_axis(e, x, v, entry)) return false;
  for (int k = 0; k < t->rank; k++) {
    int64_t n = t->dim[k].size;
    const vtb_expr *it = entry[k];
    parts[k] = (part){0, n, 1, false};
    bool all = !it || (it->kind == VTB_EXPR_RANGE && !it->u.range.from && !it->u.range.to &&
                       !it->u.range.by);
    if (all) continue;
    if (vtb_is_batch(n) || (k == 0 && vtb_streq(t->dim[k].name, "B"))) {
      if (it->kind != VTB_EXPR_RANGE && !take_int(e, it, &(int64_t){0})) return false;
      vtb__report(e, VTB_DIAG_NOT_COMPILE_TIME, it->span,
                  "the first entry is the batch's, whose size is not known, and stays ':'");
      vtb__help(e,
                "the axes of %s in their order: x[:, 0] is at the first place of the second, "
                "x[.., 0] of the last",
                vtb__describe(e, v));
      return false;
    }
    whole w = {n, false,
               vtb_arena_printf(&e->arena, "axis %d of %s, of size %lld", k, vtb__describe(e, v),
                                (long long)n)};
    if (!take_part(e, it, &w, &parts[k])) return false;
  }
  return true;
}

/* ---- tensors: where tokens then stand -------------------------------------------------------- */

static int64_t common(const part *p, int64_t from, int64_t n) {
  int64_t low = p->from > from ? p->from : from, high = p->to < from + n ? p->to : from + n;
  return high > low ? high - low : 0;
}

/* Tokens from .. to - 1: whole rows of a grid (frames of a video) are a grid again, extra tokens
 * around them stay known as such; everything else is a sequence. */
static vtb__layout tokens_part(const vtb__layout *l, const part *p, int64_t n) {
  int64_t cells = vtb_grid_cells(&l->grid), at = l->mid ? l->at : cells, before = l->head + at;
  int64_t first = common(p, l->head, at), rest = common(p, before + l->mid, cells - at);
  int64_t mid = common(p, before, l->mid), got = first + rest;
  const part left = {0, p->from, 1, false};
  int64_t skipped = common(&left, l->head, at) + common(&left, before + l->mid, cells - at);
  int64_t side[VTB_GRID_AXES];
  vtb_grid_sides(&l->grid, side);
  int64_t row = cells / side[0];
  vtb__layout out = {.kind = VTB__TOKENS, .grid = vtb_grid_series(n), .joined = l->joined};
  if (l->via || p->by != 1 || !got || got % row || skipped % row) {
    out.joined |= vtb__layout_extra(l) > 0;
    return out;
  }
  side[0] = got / row;
  out.grid = vtb_grid_of(l->grid.rank, side);
  out.head = common(p, 0, l->head);
  out.tail = common(p, before + l->mid + cells - at, l->tail);
  if (!first)
    out.head += mid;
  else if (!rest)
    out.tail += mid;
  else
    out.mid = mid, out.at = mid ? first : 0;
  return out;
}

const vtb__layout *vtb__tokens_part(vtb__eval *e, const vtb__layout *l, int64_t from, int64_t to) {
  return vtb__layout_new(e, tokens_part(l, &(part){from, to, 1, false}, to - from));
}

static const vtb__layout *layout_of(vtb__eval *e, vtb__val v, const part *parts) {
  const vtb__layout *l = v.u.t.layout;
  const vtb_type *t = &v.u.t.v->type;
  int last = t->rank - 1, channels = l->kind == VTB__IMAGE ? 1 : last;
  if (l->kind == VTB__PLAIN || parts[1].one) return &vtb__plain;
  vtb__layout out = *l;
  if (l->kind == VTB__TOKENS && !is_whole(&parts[1], t->dim[1].size))
    out = tokens_part(l, &parts[1], (parts[1].to - parts[1].from + parts[1].by - 1) / parts[1].by);
  if (!is_whole(&parts[channels], t->dim[channels].size)) out.windows_of = (vtb_grid){0};
  int64_t side[VTB_GRID_AXES];
  for (int k = 0; l->kind == VTB__IMAGE && k < l->grid.rank; k++) {
    const part *p = &parts[2 + k];
    if (p->one) return &vtb__plain;
    side[k] = (p->to - p->from + p->by - 1) / p->by;
  }
  if (l->kind == VTB__IMAGE) out.grid = vtb_grid_of(l->grid.rank, side);
  return vtb__layout_new(e, out);
}

static vtb__val of_tensor(vtb__eval *e, const vtb_expr *x, vtb__val v) {
  part parts[VTB_MAX_RANK];
  if (e->frame && (e->frame->step || e->frame->func->kind == VTB_FUNC_RULE))
    return vtb__report(e, VTB_DIAG_NOT_A_STEP_OPERATION, x->span,
                       "steps and optimizers have whole tensors; take the part before the call");
  if (!take_parts(e, x, v, parts)) return VTB__ERR;
  vtb_builder *b = vtb__at(e, x->span);
  vtb_value *y = v.u.t.v;
  vtb_type kept = {.dtype = y->type.dtype};
  for (int k = 0; k < v.u.t.v->type.rank && b && y; k++) {
    vtb_dim was = v.u.t.v->type.dim[k];
    if (!is_whole(&parts[k], was.size) &&
        (y = vtb_b_slice(b, y, k, parts[k].from, parts[k].to, parts[k].by)))
      y->type.dim[k].name = was.name;
    if (y && !parts[k].one) kept.dim[kept.rank++] = y->type.dim[k];
  }
  if (!b || !y) return VTB__ERR;
  if (kept.rank < y->type.rank) y = vtb_b_reshape(b, y, &kept);
  return vtb__tensor(y, layout_of(e, v, parts));
}

vtb__val vtb__index(vtb__eval *e, const vtb_expr *x) {
  vtb__val base = vtb__expr(e, x->u.index.base);
  if (base.kind == VTB__ERROR) return base;
  if (base.kind == VTB__LIST || base.kind == VTB__TUPLE) return of_list(e, x, base);
  if (base.kind == VTB__TENSOR) return of_tensor(e, x, base);
  vtb__report(e, VTB_DIAG_BAD_OPERANDS, x->u.index.base->span,
              "lists and tensors are indexed, not %s", vtb__describe(e, base));
  if (base.kind == VTB__SIZE) vtb__help(e, "the extents of a size are .h and .w, and .t");
  return VTB__ERR;
}

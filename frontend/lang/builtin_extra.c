/* Builtins of extra tokens: where they are put, taken out and left aside. */
#include "frontend/lang/builtin.h"

vtb_value *vtb__slice_tokens(vtb__eval *e, vtb_value *v, int64_t from, int64_t to, vtb_span span) {
  return vtb_b_slice(vtb__at(e, span), v, 1, from, to, 1);
}

static vtb_value *row(vtb__eval *e, vtb_value *t, int64_t i, int64_t n, vtb_span span) {
  return vtb_b_slice(vtb__at(e, span), t, 1, i, i + n, 1);
}

/* Where n tokens go: how many before, in the middle, behind. */
static bool place_tokens(vtb__eval *e, const vtb__args *a, const char *at, int64_t n, int64_t *head,
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

vtb__val vtb__b_insert_tokens(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), t = vtb__arg(a, "tokens");
  vtb_value *v = x.u.t.v, *w = t.u.t.v;
  const char *where = vtb__arg(a, "at").u.str.s;
  /* grid tokens before the middle ones; half of them, the odd one included, if not given */
  double after = vtb__arg(a, "after").u.f;
  if (!vtb__needs_grid(e, a, x, true)) return VTB__ERR;
  int64_t c = v->type.dim[2].size, batch = v->type.dim[0].size;
  if (w->type.rank != 3 || (w->type.dim[0].size != 1 && w->type.dim[0].size != batch) ||
      vtb_is_batch(w->type.dim[1].size) || w->type.dim[2].size != c) {
    vtb__report(e, VTB_DIAG_WEIGHT_SHAPE, a->span,
                "tokens to insert into %s are [1, n, %lld], or [B, n, %lld], not %s",
                vtb__describe(e, x), (long long)c, (long long)c, vtb__describe(e, t));
    if (w->type.rank == 2 && w->type.dim[1].size == c)
      vtb__help(e, "unsqueeze(t, %d) makes %s of it", w->type.dim[0].size == batch,
                w->type.dim[0].size == batch ? "one token a sample" : "the tokens of all samples");
    return VTB__ERR;
  }
  vtb__layout l = *x.u.t.layout;
  if (!place_tokens(e, a, where, w->type.dim[1].size, &l.head, &l.mid, &l.tail)) return VTB__ERR;
  int64_t n = vtb_grid_cells(&l.grid);
  if (after > (double)n || (after >= 0 && after != (double)(int64_t)after))
    return vtb__report(e, VTB_DIAG_TOKEN_INDEX, a->span, "%s has no place after %g of its tokens",
                       vtb__describe(e, x), after);
  l.at = !l.mid ? 0 : after >= 0 ? (int64_t)after : (n + 1) / 2;
  vtb_type full = v->type;
  full.dim[1].size = w->type.dim[1].size;
  w = vtb_b_broadcast(vtb__at(e, a->span), w, &full);
  vtb_value *parts[5];
  int k = 0;
  if (l.head) parts[k++] = row(e, w, 0, l.head, a->span);
  if (l.mid) {
    if (l.at) parts[k++] = vtb__slice_tokens(e, v, 0, l.at, a->span);
    parts[k++] = row(e, w, l.head, l.mid, a->span);
    if (l.at < n) parts[k++] = vtb__slice_tokens(e, v, l.at, n, a->span);
  } else {
    parts[k++] = v;
  }
  if (l.tail) parts[k++] = row(e, w, l.head + l.mid, l.tail, a->span);
  vtb_value *all = vtb_b_concat(vtb__at(e, a->span), parts, k, 1);
  if (all) all->type.dim[1].name = v->type.dim[1].name;
  return vtb__tensor(all, vtb__layout_new(e, l));
}

/* Pieces of the sequence along axis 1, joined along it again. */
static vtb_value *pieces(vtb__eval *e, vtb_value *v, const int64_t (*range)[2], int n,
                         vtb_span span) {
  vtb_value *parts[3];
  int k = 0;
  for (int i = 0; i < n; i++)
    if (range[i][0] < range[i][1])
      parts[k++] = vtb__slice_tokens(e, v, range[i][0], range[i][1], span);
  if (k == 1) return parts[0];
  return vtb_b_concat(vtb__at(e, span), parts, k, 1);
}

vtb__val vtb__b_extra_tokens(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  vtb_value *v = x.u.t.v;
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
  vtb_type flat = {.dtype = VTB_F32,
                   .rank = 2,
                   .dim = {v->type.dim[0], {vtb__layout_extra(l) * v->type.dim[2].size, "C"}}};
  return vtb__tensor(vtb_b_reshape(vtb__at(e, a->span), t, &flat), NULL);
}

vtb_value *vtb__without_extra(vtb__eval *e, vtb__val x, vtb_span span) {
  const vtb__layout *l = x.u.t.layout;
  if (!vtb__layout_extra(l)) return x.u.t.v;
  int64_t n = vtb_grid_cells(&l->grid), at = l->mid ? l->at : n, m = l->head + at;
  int64_t range[2][2] = {{l->head, m}, {m + l->mid, l->head + l->mid + n}};
  return pieces(e, x.u.t.v, range, 2, span);
}

/* ---- the grid by itself, and back ------------------------------------------------------------ */

/* True if storage position s of p's layout holds an extra token; *cell: which of the grid's it is
 * otherwise. */
static bool is_extra(const vtb_path *p, int64_t s, int64_t *cell) {
  *cell = s - p->head;
  if (s < p->head) return true;
  if (*cell >= p->at && *cell < p->at + p->mid) return true;
  if (*cell >= p->at + p->mid) *cell -= p->mid;
  return *cell >= vtb_grid_cells(&p->grid);
}

/* The list of p without its extra tokens; false if one of them is not visited where it stands. */
static bool shorten(vtb_path *p) {
  int64_t n = 0, cell;
  for (int64_t t = 0; t < p->n; t++) {
    bool extra = is_extra(p, p->list[t], &cell);
    if (extra && p->list[t] != t) return false;
    if (!extra) p->list[n++] = cell;
  }
  return true;
}

/* The text of a path on the grid alone; NULL if a list moves extra tokens. */
static const char *path_of_grid(vtb__eval *e, const char *text) {
  vtb_path p;
  vtb_error err = {0};
  if (vtb_path_parse(text, &p, &err) != VTB_OK) return NULL;
  const char *result = NULL;
  if (p.order != VTB_PATH_LIST || shorten(&p)) {
    vtb_strbuf s = {0};
    p.head = p.mid = p.tail = p.at = 0;
    p.n = vtb_grid_cells(&p.grid);
    vtb_path_print(&p, &s);
    result = vtb_arena_strndup(&e->arena, s.at, s.n);
    vtb_strbuf_free(&s);
  }
  vtb_path_free(&p);
  return result;
}

/* l without its extra tokens, in the same order; NULL if that order moves them about. */
static const vtb__layout *grid_layout(vtb__eval *e, const vtb__layout *l) {
  vtb__layout g = *l;
  g.head = g.mid = g.tail = g.at = 0;
  if (l->via) {
    vtb__traversal *via = VTB_NEW(&e->arena, vtb__traversal);
    *via = (vtb__traversal){path_of_grid(e, l->via->path), l->via->grid,
                            grid_layout(e, l->via->outer)};
    if (!via->path || !via->outer) return NULL;
    g.via = via;
  }
  return vtb__layout_new(e, g);
}

/* The same, or a message. */
static const vtb__layout *take_grid(vtb__eval *e, const vtb__args *a, const vtb__layout *l) {
  if (l->joined && !vtb__layout_extra(l)) {
    vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span,
                "%s: these tokens were joined by `sequence`, and have no grid to tell patches from "
                "extra tokens",
                a->name);
    vtb__help(e, "insert_tokens(x, t) adds extra tokens to a grid that stays known");
    return NULL;
  }
  const vtb__layout *g = vtb__layout_extra(l) ? grid_layout(e, l) : l;
  if (!g)
    vtb__report(e, VTB_DIAG_NEEDS_GRID, a->span, "%s: the order %s moves the extra tokens about",
                a->name, l->via->path);
  return g;
}

vtb__val vtb__b_grid_tokens(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x");
  const vtb__layout *g = take_grid(e, a, x.u.t.layout);
  if (g == x.u.t.layout) return x;
  return g ? vtb__tensor(vtb__without_extra(e, x, a->span), g) : VTB__ERR;
}

/* x and what is to replace its patches are tokens of one grid in one order, of one type. */
static bool replaces(vtb__eval *e, const vtb__args *a, const vtb__layout *grid, vtb__val x,
                     vtb__val y) {
  const vtb_type *tx = &x.u.t.v->type, *ty = &y.u.t.v->type;
  bool fits = vtb__layout_equal(grid, y.u.t.layout) && tx->rank == ty->rank;
  for (int k = 0; fits && k < tx->rank; k++) fits = k == 1 || tx->dim[k].size == ty->dim[k].size;
  if (!fits)
    vtb__report(e, VTB_DIAG_LAYOUT_MISMATCH, a->span,
                "the patches of %s are replaced by tokens of the same grid, order and channels, "
                "not by %s",
                vtb__describe(e, x), vtb__describe(e, y));
  return fits;
}

/* with_grid_tokens(x, y): the extra tokens of x, and y in the place of its patches. */
vtb__val vtb__b_with_grid_tokens(vtb__eval *e, const vtb__args *a) {
  vtb__val x = vtb__arg(a, "x"), y = vtb__arg(a, "y");
  vtb_value *v = x.u.t.v, *w = y.u.t.v;
  const vtb__layout *l = x.u.t.layout, *grid = take_grid(e, a, l);
  if (!grid || !replaces(e, a, grid, x, y)) return VTB__ERR;
  if (grid == l) return y;
  int64_t n = vtb_grid_cells(&l->grid), at = l->mid ? l->at : n, m = l->head + at;
  int64_t end = l->head + l->mid + n;
  vtb_value *parts[5];
  int k = 0;
  if (l->head) parts[k++] = vtb__slice_tokens(e, v, 0, l->head, a->span);
  if (at) parts[k++] = vtb__slice_tokens(e, w, 0, at, a->span);
  if (l->mid) parts[k++] = vtb__slice_tokens(e, v, m, m + l->mid, a->span);
  if (at < n) parts[k++] = vtb__slice_tokens(e, w, at, n, a->span);
  if (l->tail) parts[k++] = vtb__slice_tokens(e, v, end, end + l->tail, a->span);
  vtb_value *all = vtb_b_concat(vtb__at(e, a->span), parts, k, 1);
  if (all) all->type.dim[1].name = v->type.dim[1].name;
  return vtb__tensor(all, l);
}

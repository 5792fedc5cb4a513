/* Token layouts: which token stands where, and the orders a body may see them in (along.c).
 *
 * Entering a path permutes axis 1 and gives the sequence a new layout; leaving it permutes back.
 * After loops over the axes (rows, cols, frames), their mirrors and reversals the sequence is again
 * a grid, read row by row (columns: the transposed grid). */
#include "frontend/lang/value.h"

const vtb__layout vtb__plain = {.kind = VTB__PLAIN};

int64_t vtb__layout_extra(const vtb__layout *l) { return l->head + l->mid + l->tail; }
int64_t vtb__layout_tokens(const vtb__layout *l) {
  return vtb_grid_cells(&l->grid) + vtb__layout_extra(l);
}

bool vtb__layout_equal(const vtb__layout *a, const vtb__layout *b) {
  if (a == b) return true;
  if (a->kind != b->kind || !vtb_grid_equal(&a->grid, &b->grid) || a->head != b->head ||
      a->mid != b->mid || a->tail != b->tail || (a->mid && a->at != b->at))
    return false;
  if (!a->via || !b->via) return a->via == b->via;
  return strcmp(a->via->path, b->via->path) == 0 && vtb__layout_equal(a->via->outer, b->via->outer);
}

void vtb__layout_print(const vtb__layout *l, vtb_strbuf *out) {
  if (l->kind == VTB__PLAIN) return;
  vtb_strbuf_putc(out, l->kind == VTB__TOKENS ? '@' : '#');
  vtb_grid_print(&l->grid, out);
  if (l->joined) vtb_strbuf_puts(out, " joined");
  if (vtb__layout_extra(l))
    vtb_strbuf_printf(out, "+%lld,%lld@%lld,%lld", (long long)l->head, (long long)l->mid,
                      (long long)l->at, (long long)l->tail);
  if (l->windows_of.rank || l->rolled[0] || l->rolled[1] || l->rolled[2]) {
    vtb_strbuf_puts(out, " in ");
    vtb_grid_print(&l->windows_of, out);
    for (int k = 0; k < VTB_GRID_AXES; k++)
      vtb_strbuf_printf(out, "%+lld", (long long)l->rolled[k]);
  }
  if (l->via) {
    vtb_strbuf_printf(out, " along %s of ", l->via->path);
    vtb__layout_print(l->via->outer, out);
  }
}

const vtb__layout *vtb__layout_new(vtb__eval *e, vtb__layout l) {
  return vtb_arena_memdup(&e->arena, &l, sizeof l);
}

const char *vtb__grid_text(vtb__eval *e, const vtb_grid *g) {
  if (!g->rank) return vtb_arena_printf(&e->arena, "%lld a side", (long long)g->w);
  vtb_strbuf s = {0};
  vtb_grid_print(g, &s);
  const char *text = vtb_arena_strndup(&e->arena, s.at, s.n);
  vtb_strbuf_free(&s);
  return text;
}

static const char *order_text(vtb__eval *e, const vtb__layout *l) {
  if (!l->via)
    return vtb_arena_printf(&e->arena, "storage order, grid %s%s", vtb__grid_text(e, &l->grid),
                            vtb__layout_extra(l) ? " with extra tokens" : "");
  return vtb_arena_printf(&e->arena, "the order %s", l->via->path);
}

const vtb__layout *vtb__layout_merge(vtb__eval *e, vtb__val a, vtb__val b, vtb_span span) {
  const vtb__layout *la = a.kind == VTB__TENSOR ? a.u.t.layout : &vtb__plain;
  const vtb__layout *lb = b.kind == VTB__TENSOR ? b.u.t.layout : &vtb__plain;
  if (la->kind == VTB__PLAIN) return lb;
  if (lb->kind == VTB__PLAIN || vtb__layout_equal(la, lb)) return la;
  vtb__report(e, VTB_DIAG_LAYOUT_MISMATCH, span, "%s in %s meets %s in %s", vtb__describe(e, a),
              order_text(e, la), vtb__describe(e, b), order_text(e, lb));
  if (la->via || lb->via)
    vtb__help(e, "take both inside of one `along`, or both outside of it");
  else if (vtb__layout_tokens(la) == vtb__layout_tokens(lb))
    vtb__help(e, "sequence(x) makes x tokens without a grid; make both of one kind");
  return NULL;
}

const char *vtb__layout_attr(vtb__eval *e, const vtb__layout *l, int64_t n) {
  while (l->via) l = l->via->outer;
  vtb_path p = {.grid = l->grid, .head = l->head, .mid = l->mid, .at = l->at, .tail = l->tail};
  bool grid = l->grid.t * l->grid.h > 1 || vtb__layout_extra(l);
  if (l->kind != VTB__TOKENS || !grid || vtb__layout_tokens(l) != n) return NULL;
  vtb_strbuf s = {0};
  vtb_layout_print(&p, &s);
  const char *text = vtb_arena_strndup(&e->arena, s.at, s.n);
  vtb_strbuf_free(&s);
  return text;
}

const char *vtb__windows_attr(vtb__eval *e, const vtb__layout *l) {
  if (l->kind != VTB__TOKENS || !l->windows_of.rank) return NULL;
  const int64_t side[VTB_GRID_AXES] = {l->windows_of.t, l->windows_of.h, l->windows_of.w};
  vtb_windows w = {.window = l->grid, .grid = l->windows_of};
  for (int k = 0; k < VTB_GRID_AXES; k++)
    w.shift[k] = (-l->rolled[k] % side[k] + side[k]) % side[k];
  vtb_strbuf s = {0};
  vtb_windows_print(&w, &s);
  const char *text = vtb_arena_strndup(&e->arena, s.at, s.n);
  vtb_strbuf_free(&s);
  return text;
}

bool vtb__is_param(const vtb__eval *e, const vtb_value *v) {
  return !v->def && v->func == e->frame->func && v->func->arg_info[v->index].role == VTB_ROLE_PARAM;
}

void vtb__warn_windows(vtb__eval *e, vtb_span span, vtb__val x, const char *what) {
  const vtb__layout *l = x.kind == VTB__TENSOR ? x.u.t.layout : &vtb__plain;
  if (l->kind != VTB__TOKENS || !l->windows_of.rank || x.u.t.v->type.rank != 3 || e->stopped ||
      vtb_grid_cells(&l->windows_of) <= vtb_grid_cells(&l->grid))
    return;
  vtb_diag_warning(e->diags, VTB_DIAG_WINDOWED_WEIGHT, span,
                   "the channels of %s are those of several windows, and %s", vtb__describe(e, x),
                   what);
  vtb_diag_help(e->diags, "windows(x, 7x7) of std.attention has an axis of windows, whose layers "
                          "are the same for all");
}

/* ---- paths ----------------------------------------------------------------------------------- */

static bool grid_after(const vtb_path *p) { return p->order == VTB_PATH_NEST && !p->snake; }

vtb__val vtb__path_val(vtb__eval *e, vtb__path p) {
  return (vtb__val){.kind = VTB__PATH, .u.path = vtb_arena_memdup(&e->arena, &p, sizeof p)};
}

/* The order speaks of axes that the grid has; false after a message. */
static bool has_axes(vtb__eval *e, const vtb_path *p, const vtb_grid *g, vtb_span span) {
  const char *lacks = (strchr(p->nest, 't') || p->tflip) && g->rank < 3     ? "frames"
                      : (strpbrk(p->nest, "hw") || p->vflip) && g->rank < 2 ? "rows and columns"
                                                                            : NULL;
  if (!lacks) return true;
  vtb_strbuf s = {0};
  vtb_path_print_order(p, &s);
  vtb__report(e, VTB_DIAG_BAD_PATH, span, "the order %s speaks of %s, and the grid %s has none",
              s.at, lacks, vtb__grid_text(e, g));
  vtb_strbuf_free(&s);
  if (!e->stopped)
    vtb_diag_help(e->diags,
                  "orders of %s are rows, %ssnake, diagonal, hilbert, their reversals ~ and "
                  "mirrors %s, and path(by = ...)",
                  g->rank == 1 ? "a series" : "an image", g->rank == 1 ? "" : "cols, ",
                  g->rank == 1 ? ".hflip" : ".hflip and .vflip");
  return false;
}

/* `p` on the grid of `l`; false after a message. */
static bool path_on(vtb__eval *e, const vtb__path *path, const vtb__layout *l, vtb_path *out,
                    vtb_span span) {
  const vtb_path *p = &path->order;
  *out = *p;
  out->grid = l->grid;
  out->head = l->head, out->mid = l->mid, out->tail = l->tail;
  out->at = l->mid ? l->at : 0;
  int64_t n = vtb__layout_tokens(l);
  if (!has_axes(e, p, &l->grid, span)) return false;
  if (path->by && !(out->list = e->evaluator->sorted(e, path->by, l, span))) return false;
  if (p->order == VTB_PATH_LIST && !path->by && p->n != n) {
    vtb__report(e, VTB_DIAG_BAD_PERMUTATION, span,
                "path lists %lld tokens and the sequence has %lld", (long long)p->n, (long long)n);
    return false;
  }
  out->n = n;
  return true;
}

/* The grid as the loops of p go over it. */
static vtb_grid grid_along(const vtb_grid *g, const vtb_path *p) {
  const int64_t side[VTB_GRID_AXES] = {g->t, g->h, g->w};
  int axes[VTB_GRID_AXES];
  vtb_path_axes(p, axes);
  return (vtb_grid){g->rank, side[axes[0]], side[axes[1]], side[axes[2]]};
}

static const vtb__layout *traversed(vtb__eval *e, const vtb__layout *l, const vtb_path *p,
                                    const char *text) {
  vtb__layout r = *l;
  if (grid_after(p)) r.grid = grid_along(&l->grid, p);
  if (p->reversed) {
    r.head = l->tail, r.tail = l->head;
    r.at = l->mid ? vtb_grid_cells(&l->grid) - l->at : 0;
  }
  vtb__traversal *via = VTB_NEW(&e->arena, vtb__traversal);
  *via = (vtb__traversal){text, grid_after(p) && !(l->via && !l->via->grid), l};
  r.via = via;
  return vtb__layout_new(e, r);
}

static vtb__val permute(vtb__eval *e, vtb__val v, const vtb__path *p, bool inverse, vtb_span span) {
  const vtb__layout *l = v.u.t.layout, *outer = inverse ? l->via->outer : l;
  vtb_path full;
  if (!path_on(e, p, outer, &full, span)) return VTB__ERR;
  vtb_strbuf text = {0};
  vtb_path_print(&full, &text);
  const char *path = vtb_arena_strndup(&e->arena, text.at, text.n);
  vtb_strbuf_free(&text);
  vtb_builder *b = vtb__at(e, span);
  if (!b) return VTB__ERR;
  vtb_value *y = vtb_b_permute(b, v.u.t.v, 1, path, inverse);
  return vtb__tensor(y, inverse ? outer : traversed(e, l, &full, path));
}

vtb__val vtb__enter_path(vtb__eval *e, vtb__val v, const vtb__path *p, vtb_span span) {
  return vtb_path_is_rows(&p->order) ? v : permute(e, v, p, false, span);
}

vtb__val vtb__leave_path(vtb__eval *e, vtb__val v, const vtb__path *p, vtb_span span) {
  if (v.kind == VTB__LIST || v.kind == VTB__TUPLE) {
    vtb__val *at = VTB_NEW_ARRAY(&e->arena, vtb__val, v.u.list.n);
    for (size_t i = 0; i < v.u.list.n; i++) at[i] = vtb__leave_path(e, v.u.list.at[i], p, span);
    v.u.list.at = at;
    return v;
  }
  if (v.kind != VTB__TENSOR || v.u.t.layout->kind != VTB__TOKENS || !v.u.t.layout->via ||
      vtb_path_is_rows(&p->order))
    return v;
  return permute(e, v, p, true, span);
}

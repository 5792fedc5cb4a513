/* Orders by a key: path(by = [(h + w) % 2, h, w]) visits the cells of a grid by increasing keys,
 * equal ones in storage order.
 *
 * The key is an expression of a cell's frame t, row h and column w and of the extents T, H, W of
 * the grid; a list of numbers counts from left to right. It is evaluated cell by cell once the grid
 * is known, with the other variables as they were where the path was written. */
#include "frontend/lang/value.h"

enum { MAX_CELLS = 1 << 18, MAX_KEYS = 8, CELLS_A_STEP = 16 };

struct vtb__path_by {
  const vtb_expr *key;
  const vtb_file *file;
  vtb__env *env;
  const char *text;
};

static const char *const places[] = {"t", "h", "w", "T", "H", "W"};

static bool is_place(const char *name) {
  for (int i = 0; i < 6; i++)
    if (strcmp(name, places[i]) == 0) return true;
  return false;
}

/* ---- what a key was written with ------------------------------------------------------------- */

static bool keep_names(vtb__eval *e, const vtb_expr *x, vtb__env *env, vtb_strbuf *text);

static bool keep_list(vtb__eval *e, const vtb_expr_list *l, vtb__env *env, vtb_strbuf *text) {
  for (size_t i = 0; i < l->n; i++)
    if (!keep_names(e, l->at[i], env, text)) return false;
  return true;
}

/* The variable's value goes into env, and into the text that tells two keys apart. */
static bool keep_name(vtb__eval *e, const vtb_expr *x, vtb__env *env, vtb_strbuf *text) {
  const char *name = x->u.name;
  vtb__val v;
  if (is_place(name) || vtb__env_find_here(env, name) || !vtb__env_has(e, name)) return true;
  if (!vtb__env_get(e, name, x->span, &v)) return true;
  if (v.kind == VTB__TENSOR)
    vtb__report(e, VTB_DIAG_NOT_COMPILE_TIME, x->span,
                "an order is known when compiling, and '%s' is %s", name, vtb__describe(e, v));
  if (v.kind == VTB__TENSOR || v.kind == VTB__ERROR) return false;
  vtb__env *outside = e->env;
  e->env = env;
  vtb__env_bind(e, name, v, "a variable of an order", x->span);
  e->env = outside;
  vtb_strbuf_printf(text, ", %s = ", name);
  vtb__val_print(v, text);
  return true;
}

static bool keep_names(vtb__eval *e, const vtb_expr *x, vtb__env *env, vtb_strbuf *text) {
  switch (x->kind) {
  case VTB_EXPR_NAME:
    return keep_name(e, x, env, text);
  case VTB_EXPR_LIST:
    return keep_list(e, &x->u.list, env, text);
  case VTB_EXPR_INDEX:
    return keep_names(e, x->u.index.base, env, text) && keep_list(e, &x->u.index.places, env, text);
  case VTB_EXPR_MEMBER:
    return keep_names(e, x->u.member.base, env, text);
  case VTB_EXPR_UNARY:
    return keep_names(e, x->u.unary.operand, env, text);
  case VTB_EXPR_BINARY:
    return keep_names(e, x->u.binary.left, env, text) &&
           keep_names(e, x->u.binary.right, env, text);
  case VTB_EXPR_CONDITIONAL:
    return keep_names(e, x->u.cond.test, env, text) && keep_names(e, x->u.cond.yes, env, text) &&
           keep_names(e, x->u.cond.no, env, text);
  case VTB_EXPR_CALL:
    if (x->u.call.self && !keep_names(e, x->u.call.self, env, text)) return false;
    for (size_t i = 0; i < x->u.call.args.n; i++)
      if (!keep_names(e, x->u.call.args.at[i]->value, env, text)) return false;
    return true;
  case VTB_EXPR_INT:
  case VTB_EXPR_FLOAT:
  case VTB_EXPR_SIZE:
    return true;
  default:
    vtb__report(e, VTB_DIAG_BAD_PATH, x->span,
                "the key of an order is an expression of numbers: t, h, w of a cell, T, H, W of "
                "its grid");
    return false;
  }
}

vtb__val vtb__path_by_call(vtb__eval *e, const vtb_expr *key) {
  vtb__path_by *by = VTB_NEW(&e->arena, vtb__path_by);
  *by = (vtb__path_by){key, e->file, VTB_NEW(&e->arena, vtb__env), NULL};
  vtb_strbuf text = {0};
  vtb__expr_print(key, &text);
  bool ok = keep_names(e, key, by->env, &text);
  by->text = vtb_arena_strndup(&e->arena, text.at ? text.at : "", text.n);
  vtb_strbuf_free(&text);
  return ok ? vtb__path_val(e, (vtb__path){{.order = VTB_PATH_LIST}, by, by->text}) : VTB__ERR;
}

/* ---- the cells of a grid, sorted ------------------------------------------------------------- */

typedef struct cell {
  double key[MAX_KEYS];
  int64_t at;
} cell;

static int by_key(const void *a, const void *b) {
  const cell *x = a, *y = b;
  for (int k = 0; k < MAX_KEYS; k++)
    if (x->key[k] != y->key[k]) return x->key[k] < y->key[k] ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}

static bool take_key(vtb__eval *e, const vtb__path_by *by, vtb__val v, cell *c) {
  size_t n = v.kind == VTB__LIST ? v.u.list.n : 1;
  const vtb__val *at = v.kind == VTB__LIST ? v.u.list.at : &v;
  bool ok = n >= 1 && n <= MAX_KEYS;
  for (size_t k = 0; k < n && ok; k++) {
    ok = vtb__is_number(at[k]) || at[k].kind == VTB__BOOL;
    c->key[k] = at[k].kind == VTB__BOOL ? at[k].u.b : ok ? vtb__val_number(at[k]) : 0;
    ok &= c->key[k] == c->key[k];
  }
  if (!ok && v.kind != VTB__ERROR)
    vtb__report(e, VTB_DIAG_BAD_PATH, by->key->span,
                "the key of an order is a number or a list of up to %d, not %s", MAX_KEYS,
                vtb__describe(e, v));
  return ok;
}

/* The key of each cell, with `by`'s own variables around it. */
static bool evaluate(vtb__eval *e, const vtb__path_by *by, const vtb_grid *g, cell *cells) {
  int64_t n = vtb_grid_cells(g);
  bool ok = true;
  for (int64_t i = 0; i < n && ok; i++) {
    const int64_t value[] = {i / (g->h * g->w), i / g->w % g->h, i % g->w, g->t, g->h, g->w};
    for (int k = 0; k < 6; k++)
      vtb__env_bind(e, places[k], vtb__int(value[k]), "a coordinate of an order", by->key->span);
    cells[i].at = i;
    ok = take_key(e, by, vtb__expr(e, by->key), &cells[i]);
  }
  return ok;
}

static cell *sorted_cells(vtb__eval *e, const vtb__path_by *by, const vtb_grid *g) {
  int64_t n = vtb_grid_cells(g), steps = e->n_steps;
  cell *cells = VTB_NEW_ARRAY(&e->arena, cell, n);
  vtb__env *env = e->env;
  const vtb_file *file = e->file;
  bool inexact = e->inexact;
  e->env = by->env, e->file = by->file, e->inexact = false;
  bool ok = evaluate(e, by, g, cells);
  e->env = env, e->file = file, e->inexact = inexact;
  if (!ok) return NULL;
  e->n_steps = steps + n / CELLS_A_STEP; /* a long sequence is no long text */
  qsort(cells, (size_t)n, sizeof *cells, by_key);
  return cells;
}

int64_t *vtb__path_by_list(vtb__eval *e, const vtb__path_by *by, const vtb__layout *l,
                           vtb_span span) {
  int64_t cells = vtb_grid_cells(&l->grid), at = l->mid ? l->at : 0, t = 0;
  if (cells > MAX_CELLS) {
    vtb__report(e, VTB_DIAG_TOO_LARGE, span, "sorting the %lld cells of a grid %s",
                (long long)cells, vtb__grid_text(e, &l->grid));
    return NULL;
  }
  vtb_strbuf key = {0};
  vtb_strbuf_printf(&key, "%s on ", by->text);
  vtb__layout_print(&(vtb__layout){.kind = VTB__TOKENS,
                                   .grid = l->grid,
                                   .head = l->head,
                                   .mid = l->mid,
                                   .at = at,
                                   .tail = l->tail},
                    &key);
  int64_t *list = vtb_map_get(&e->orders, key.at);
  const cell *sorted = list ? NULL : sorted_cells(e, by, &l->grid);
  if (sorted) {
    list = VTB_NEW_ARRAY(&e->arena, int64_t, vtb__layout_tokens(l));
    for (int64_t i = 0; i < l->head; i++) list[t++] = i;
    for (int64_t i = 0; i <= cells; i++) {
      if (i == at)
        for (int64_t k = 0; k < l->mid; k++) list[t++] = l->head + at + k;
      if (i < cells) list[t++] = l->head + sorted[i].at + (sorted[i].at >= at ? l->mid : 0);
    }
    for (int64_t i = 0; i < l->tail; i++) list[t++] = l->head + l->mid + cells + i;
    vtb_map_set(&e->orders, vtb_arena_strndup(&e->arena, key.at, key.n), list);
  }
  vtb_strbuf_free(&key);
  return list;
}

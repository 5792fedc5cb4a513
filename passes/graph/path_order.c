/* Interned visiting orders. A composed order gets the text of a named path on the same grid if one
 * visits it, else an explicit list. */
#include "passes/graph/path_order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static vtb__order *find(const vtb__orders *all, const int64_t *perm, int64_t n) {
  for (size_t i = 0; i < all->list.n; i++) {
    vtb__order *o = all->list.at[i];
    if (o->n == n && memcmp(o->perm, perm, (size_t)n * sizeof *perm) == 0) return o;
  }
  return NULL;
}

static const vtb__order *add(vtb__orders *all, const int64_t *perm, int64_t n, const char *text) {
  assert(!find(all, perm, n)); /* orders are compared by address */
  vtb__order *o = VTB_NEW(&all->arena, vtb__order);
  *o = (vtb__order){.index = (int)all->list.n, .n = n, .identity = true};
  o->perm = vtb_arena_memdup(&all->arena, perm, (size_t)n * sizeof *perm);
  o->text = vtb_arena_strdup(&all->arena, text);
  for (int64_t t = 0; t < n; t++) o->identity &= perm[t] == t;
  vtb_vec_push(&all->list, o);
  return o;
}

/* The names of orders on a grid; loops over axes that it does not have would repeat others. */
static const vtb_path *names_on(const vtb_grid *g, int *n) {
  static const vtb_path names[] = {
      {.order = VTB_PATH_NEST},
      {.order = VTB_PATH_NEST, .nest = "h"},
      {.order = VTB_PATH_NEST, .snake = true},
      {.order = VTB_PATH_NEST, .nest = "h", .snake = true},
      {.order = VTB_PATH_DIAGONAL},
      {.order = VTB_PATH_HILBERT},
      {.order = VTB_PATH_NEST, .nest = "t"},
      {.order = VTB_PATH_NEST, .nest = "th"},
      {.order = VTB_PATH_NEST, .nest = "tw"},
      {.order = VTB_PATH_NEST, .nest = "ht"},
      {.order = VTB_PATH_NEST, .nest = "t", .snake = true},
      {.order = VTB_PATH_NEST, .nest = "th", .snake = true},
      {.order = VTB_PATH_NEST, .nest = "tw", .snake = true},
      {.order = VTB_PATH_NEST, .nest = "ht", .snake = true},
  };
  *n = g->rank == 3 ? (int)(sizeof names / sizeof *names) : g->rank == 2 ? 6 : 1;
  return names;
}

/* The text of the named path on p's grid that visits `perm`; malloc'd, NULL if there is none. */
static char *named_path(const vtb_path *p, const int64_t *perm) {
  int64_t *trial = vtb_xcalloc((size_t)p->n, sizeof *trial);
  char *text = NULL;
  int n, flips = 2 << p->grid.rank;
  const vtb_path *names = names_on(&p->grid, &n);
  for (int bits = 0; bits < n * flips && !text; bits++) {
    vtb_path q = *p;
    const vtb_path *name = &names[bits / flips];
    q.order = name->order, q.snake = name->snake, q.list = NULL;
    memcpy(q.nest, name->nest, sizeof q.nest);
    q.reversed = bits & 1, q.hflip = bits & 2, q.vflip = p->grid.rank > 1 && bits & 4;
    q.tflip = p->grid.rank > 2 && bits & 8;
    vtb_path_indices(&q, trial);
    if (memcmp(trial, perm, (size_t)p->n * sizeof *perm) != 0) continue;
    vtb_strbuf s = {0};
    vtb_path_print(&q, &s);
    text = s.at;
  }
  vtb_free(trial);
  return text;
}

static char *list_path(const vtb_path *p, const int64_t *perm) {
  vtb_path q = *p;
  q.order = VTB_PATH_LIST, q.reversed = q.hflip = q.vflip = q.tflip = q.snake = false;
  q.list = vtb_xcalloc((size_t)p->n, sizeof *q.list);
  memcpy(q.list, perm, (size_t)p->n * sizeof *perm);
  vtb_strbuf s = {0};
  vtb_path_print(&q, &s);
  vtb_free(q.list);
  return s.at;
}

/* The order `perm` on the grid of the path `like`. */
static const vtb__order *intern(vtb__orders *all, const int64_t *perm, int64_t n,
                                const char *like) {
  const vtb__order *o = find(all, perm, n);
  if (o) return o;
  vtb_path p;
  vtb_error err = {0};
  vtb_check(vtb_path_parse(like, &p, &err) == VTB_OK, "path \"%s\": %s", like, err.text);
  char *text = named_path(&p, perm);
  if (!text) text = list_path(&p, perm);
  o = add(all, perm, n, text);
  vtb_free(text);
  vtb_path_free(&p);
  return o;
}

const vtb__order *vtb__order_of(vtb__orders *all, const char *path, bool inverse) {
  vtb_path p;
  vtb_error err = {0};
  vtb_check(vtb_path_parse(path, &p, &err) == VTB_OK, "path \"%s\": %s", path, err.text);
  int64_t n = p.n, *perm = vtb_xcalloc((size_t)n + 1, sizeof *perm);
  vtb_path_indices(&p, perm);
  vtb_path_free(&p);
  const vtb__order *o = find(all, perm, n);
  if (!o) o = add(all, perm, n, path);
  if (inverse) {
    int64_t *back = vtb_xcalloc((size_t)n + 1, sizeof *back);
    for (int64_t t = 0; t < n; t++) back[perm[t]] = t;
    for (int64_t t = 0; t < n; t++) assert(perm[back[t]] == t); /* a permutation */
    o = intern(all, back, n, path);
    vtb_free(back);
  }
  vtb_free(perm);
  return o;
}

const vtb__order *vtb__order_compose(vtb__orders *all, const vtb__order *x, const vtb__order *y) {
  vtb_check(x->n == y->n, "paths of %lld and %lld tokens meet", (long long)x->n, (long long)y->n);
  if (x->identity) return y;
  if (y->identity) return x;
  int64_t *perm = vtb_xcalloc((size_t)x->n, sizeof *perm);
  for (int64_t t = 0; t < x->n; t++) perm[t] = x->perm[y->perm[t]];
  const vtb__order *o = intern(all, perm, x->n, x->text);
  vtb_free(perm);
  return o;
}

void vtb__orders_free(vtb__orders *all) {
  vtb_vec_free(&all->list);
  vtb_arena_free(&all->arena);
}

/* Interned visiting orders. A composed order gets the text of a named path on the same grid if one
 * visits it, else an explicit list. */
#include "passes/graph/path_order.h"

#include <assert.h>
#include <string.h>

static vtb__path_order *find(const vtb__orders *all, const int64_t *perm, int64_t n) {
  for (size_t i = 0; i < all->list.n; i++) {
    vtb__path_order *o = all->list.at[i];
    if (o->n == n && memcmp(o->perm, perm, (size_t)n * sizeof *perm) == 0) return o;
  }
  return NULL;
}

static const vtb__path_order *add(vtb__orders *all, const int64_t *perm, int64_t n,
                                  const char *text) {
  assert(!find(all, perm, n)); /* orders are compared by address */
  vtb__path_order *o = VTB_SCRATCH(all, vtb__path_order, 1);
  *o = (vtb__path_order){.index = (int)all->list.n, .n = n, .perm = perm, .identity = true};
  o->text = vtb_arena_strdup(&all->module->scratch, text);
  for (int64_t t = 0; t < n; t++) o->identity &= perm[t] == t;
  vtb__put(all, &all->list, o);
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

/* The text of the named path on p's grid that visits `perm`; NULL if there is none. */
static const char *named_path(vtb__orders *all, const vtb_path *p, const int64_t *perm) {
  int64_t *trial = VTB_SCRATCH(all, int64_t, p->n);
  int n, flips = 2 << p->grid.rank;
  const vtb_path *names = names_on(&p->grid, &n);
  for (int bits = 0; bits < n * flips; bits++) {
    vtb_path q = *p;
    const vtb_path *name = &names[bits / flips];
    q.order = name->order, q.snake = name->snake, q.list = NULL;
    memcpy(q.nest, name->nest, sizeof q.nest);
    q.reversed = bits & 1, q.hflip = bits & 2, q.vflip = p->grid.rank > 1 && bits & 4;
    q.tflip = p->grid.rank > 2 && bits & 8;
    vtb_path_indices(&q, trial);
    if (memcmp(trial, perm, (size_t)p->n * sizeof *perm) == 0)
      return vtb__path_text(all->module, &q);
  }
  return NULL;
}

static const char *list_path(vtb__orders *all, const vtb_path *p, const int64_t *perm) {
  vtb_path q = *p;
  q.order = VTB_PATH_LIST, q.reversed = q.hflip = q.vflip = q.tflip = q.snake = false;
  q.list = vtb_arena_memdup(&all->module->scratch, perm, (size_t)p->n * sizeof *perm);
  return vtb__path_text(all->module, &q);
}

/* The order `perm` on the grid of the path `like`. */
static const vtb__path_order *intern(vtb__orders *all, const int64_t *perm, int64_t n,
                                     const char *like) {
  const vtb__path_order *o = find(all, perm, n);
  if (o) return o;
  vtb_path p = vtb__path_of(like);
  const char *text = named_path(all, &p, perm);
  if (!text) text = list_path(all, &p, perm);
  vtb_path_free(&p);
  return add(all, perm, n, text);
}

const vtb__path_order *vtb__order_of(vtb__orders *all, const char *path, bool inverse) {
  vtb_path p = vtb__path_of(path);
  int64_t n = p.n, *perm = VTB_SCRATCH(all, int64_t, n);
  vtb_path_indices(&p, perm);
  vtb_path_free(&p);
  const vtb__path_order *o = find(all, perm, n);
  if (!o) o = add(all, perm, n, path);
  if (!inverse) return o;
  int64_t *back = VTB_SCRATCH(all, int64_t, n);
  for (int64_t t = 0; t < n; t++) back[perm[t]] = t;
  for (int64_t t = 0; t < n; t++) assert(perm[back[t]] == t); /* a permutation */
  return intern(all, back, n, path);
}

const vtb__path_order *vtb__order_compose(vtb__orders *all, const vtb__path_order *x,
                                          const vtb__path_order *y) {
  vtb_check(x->n == y->n, "paths of %lld and %lld tokens meet", (long long)x->n, (long long)y->n);
  if (x->identity) return y;
  if (y->identity) return x;
  int64_t *perm = VTB_SCRATCH(all, int64_t, x->n);
  for (int64_t t = 0; t < x->n; t++) perm[t] = x->perm[y->perm[t]];
  return intern(all, perm, x->n, x->text);
}

/* Loop kernels: elementwise ops and data movement over one iteration shape.
 *
 * Variables that every address has in row-major ratio are one loop; the last is vectorised, the
 * first ones are shared out to threads in pieces of a few thousand elements.
 *
 * Where reads go along another group than writes (transposes, channels that move), a task is a
 * patch: a cache line of that group by some steps of the last, so that a line that was read for one
 * element is still there for its neighbours.
 */
#include <stdlib.h>

#include "codegen/cpu/loop/expr.h"

enum {
  PIECE = 4096,
  SERIAL = 16384,
  LINE = 16,        /* floats of a cache line: what a patch is across */
  STEPS = 256,      /* and along the last group: lines that stay in the first cache */
  LEAST = 32 * 1024 /* elements of a kernel that has patches: less stays in a cache anyhow */
};                  /* elements: of one parallel index at least; below which threads do not pay */

typedef struct loop {
  const vtb_root *roots;
  int n;
  vtb_space space;
  int first_inner; /* groups from here on are loops inside a task */
  int64_t chunks;  /* pieces of the last group, if it is the only inner one; of `piece` elements */
  int64_t piece;
  int across; /* the group of patches' lines, -1: there are none */
} loop;

static void store_roots(vtb_cpu_expr *e, LLVMValueRef *carry, void *user) {
  (void)carry;
  loop *l = user;
  vtb_index index[VTB_MAX_RANK];
  vtb__space_index(&e->body, &l->space, index);
  for (int r = 0; r < l->n; r++) {
    void *v = vtb__body_eval(&e->body, l->roots[r].value, index);
    e->body.target->store(&e->body, &l->roots[r], index, v);
  }
}

static void probe_roots(vtb_body *b, vtb_space *s, void *user) {
  loop *l = user;
  l->space = *s;
  store_roots(vtb__expr_of(b), NULL, l);
}

static bool stores_are_dense(vtb_cpu_expr *e, loop *l, int group) {
  vtb_index index[VTB_MAX_RANK];
  vtb__space_index(&e->body, &l->space, index);
  for (int r = 0; r < l->n; r++)
    if (vtb__root_index(e, &l->roots[r], index).coef[e->body.groups[group].last] != 1) return false;
  return true;
}

static int64_t coef_of(const vtb_cpu_expr *e, const vtb_index *use, int group) {
  return llabs(use->coef[e->body.groups[group].last]);
}

/* The group along which something is read whose lines are far apart along the last one. */
static int find_across(const vtb_cpu_expr *e) {
  int last = e->body.n_groups - 1;
  if (e->body.groups[last].size < LINE || vtb__groups_size(e, 0, last + 1) < LEAST) return -1;
  for (size_t u = 0; u < e->body.uses.n; u++)
    for (int g = 0; g < last && coef_of(e, &e->body.uses.at[u], last) >= LINE; g++)
      if (coef_of(e, &e->body.uses.at[u], g) == 1 && e->body.groups[g].size > 1) return g;
  return -1;
}

static void choose_pieces(vtb_cpu_expr *e, loop *l) {
  int last = e->body.n_groups - 1;
  int64_t inner = e->body.groups[last].size;
  l->first_inner = last;
  l->chunks = 1;
  l->piece = PIECE;
  l->across = find_across(e);
  if (l->across >= 0) {
    l->piece = STEPS;
    l->chunks = (inner + STEPS - 1) / STEPS;
    return;
  }
  while (l->first_inner > 0 && inner < PIECE / 2) inner *= e->body.groups[--l->first_inner].size;
  if (l->first_inner == last && inner > 2 * PIECE) l->chunks = (inner + PIECE - 1) / PIECE;
}

static void emit_inner(vtb_cpu_expr *e, loop *l, LLVMValueRef chunk) {
  vtb_cpu *c = e->c;
  int last = e->body.n_groups - 1;
  vtb_cpu_for loops[VTB_NEST_MAX];
  for (int g = l->first_inner; g < last; g++) {
    loops[g] = vtb_cpu_for_begin(c, vtb_cpu_i64(c, 0), vtb_cpu_i64(c, e->body.groups[g].size),
                                 vtb_cpu_i64(c, 1));
    e->body.groups[g].value = loops[g].i;
  }
  LLVMValueRef from = vtb_cpu_i64(c, 0), to = vtb_cpu_i64(c, e->body.groups[last].size);
  if (l->chunks > 1) {
    from = vtb_cpu_mul(c, chunk, l->piece);
    to = vtb_cpu_min(c, vtb_cpu_add(c, from, vtb_cpu_i64(c, l->piece)), to);
  }
  vtb__hoist_here(e);
  vtb__vector_loop(e, from, to, e->body.groups[last].size % e->body.lanes != 0, NULL, 0,
                   store_roots, l);
  e->hoist = NULL;
  for (int g = last; g-- > l->first_inner;) vtb_cpu_for_end(c, &loops[g]);
}

/* Pieces of some thousand elements, shared out. */
static void emit_pieces(vtb_cpu_expr *e, loop *l) {
  vtb_cpu *c = e->c;
  int64_t outer = vtb__groups_size(e, 0, l->first_inner);
  int64_t inner = vtb__groups_size(e, l->first_inner, e->body.n_groups) / l->chunks;
  int64_t grain = SERIAL / (inner * e->weight);
  e->task = vtb__task_begin(c, "loop", outer * l->chunks, grain);
  vtb__decode(e, vtb_cpu_div(c, e->task->index, l->chunks), 0, l->first_inner);
  emit_inner(e, l, vtb_cpu_rem(c, e->task->index, l->chunks));
}

/* Each row of the last group's piece that the patch has; its group's value is the first of them. */
static void emit_patch(vtb_cpu_expr *e, loop *l, LLVMValueRef chunk) {
  vtb_cpu *c = e->c;
  vtb_group *g = &e->body.groups[l->across];
  LLVMValueRef end =
      vtb_cpu_min(c, vtb_cpu_add(c, g->value, vtb_cpu_i64(c, LINE)), vtb_cpu_i64(c, g->size));
  vtb_cpu_for rows = vtb_cpu_for_begin(c, g->value, end, vtb_cpu_i64(c, 1));
  g->value = rows.i;
  emit_inner(e, l, chunk);
  vtb_cpu_for_end(c, &rows);
}

/* Patches, shared out: groups before the last, the one across by its lines, and pieces of the
 * last. */
static void emit_patches(vtb_cpu_expr *e, loop *l) {
  vtb_cpu *c = e->c;
  int last = e->body.n_groups - 1;
  vtb_group *g = &e->body.groups[l->across];
  int64_t size = g->size;
  g->size = (size + LINE - 1) / LINE;
  e->task = vtb__task_begin(c, "loop", vtb__groups_size(e, 0, last) * l->chunks,
                            SERIAL / (LINE * STEPS * e->weight));
  vtb__decode(e, vtb_cpu_div(c, e->task->index, l->chunks), 0, last);
  g->size = size;
  g->value = vtb_cpu_mul(c, g->value, LINE);
  emit_patch(e, l, vtb_cpu_rem(c, e->task->index, l->chunks));
}

void vtb__emit_loop(vtb_body *b, const vtb_root *roots, int n) {
  vtb_cpu_expr *e = vtb__expr_of(b);
  vtb_cpu *c = e->c;
  loop l = {.roots = roots, .n = n};
  vtb_space space;
  vtb__space_init(b, &space, &roots[0].value->type);
  vtb__probe(b, &space, probe_roots, &l);
  if (e->body.n_groups == 0) {
    e->task = vtb__task_begin(c, "scalar", 1, 1);
    store_roots(e, NULL, &l);
  } else {
    int last = e->body.n_groups - 1;
    choose_pieces(e, &l);
    vtb__choose_lanes(e, last);
    if (!stores_are_dense(e, &l, last)) e->body.lanes = 1;
    (l.across >= 0 ? emit_patches : emit_pieces)(e, &l);
  }
  vtb_cpu_task_end(c, e->task);
  vtb__nest_end(b);
}

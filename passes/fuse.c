/* fuse: elementwise, reduction and leaf data-movement ops become kernels.
 *
 *   %s = reduce_sum %x {axes=[2], keep=1}        %y = fused @row0(%x, %w) {kind = "row"}
 *   %c = mul %x, %s                        =>
 *   %y = add %c, %w                              func kernel @row0(...) { the same ops }
 *
 * Needs a bound module. A group is a set of ops that one generated loop nest computes:
 *   row   all shapes share their leading axes; reductions run over the last axis only
 *   loop  no reduction, one iteration shape; pad, permute, shift and concat only as leaves over
 *         stored operands
 *   col   reductions over other axes with the elementwise ops that only they use
 * Groups merge along producer-consumer edges as long as the shapes agree and no cycle arises
 * through an op outside. Views that the memory plan makes free (reshape, slice, transpose,
 * broadcast) stay outside. Splat constants are copied into every kernel that reads them. Identical
 * kernel bodies are one function, so that code does not grow with depth. Declines: ops over i32
 * results other than inside a group, reductions that would store their elementwise operand as well.
 */
#include "passes/passes_internal.h"

#include "ir/kernels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct node {
  vtb_inst *inst;
  int group; /* representative's index; own index if alone */
  vtb_kernel_kind kind;
  vtb_type shape; /* iteration shape of the group (valid on representatives) */
  bool has_leaf;  /* a pad, permute, shift or concat is inside */
} node;

typedef VTB_VEC(int) int_stack;

typedef struct fuser {
  vtb_func *func;
  node *nodes;
  int n;
  int *node_of;   /* value id -> node index, or -1 for arguments */
  int **users;    /* node -> users' indices, -1 ends */
  bool *returned; /* by value id */
  int *mark;
  int mark_now;
} fuser;

static bool is_splat(const vtb_inst *i) {
  return i->op == VTB_OP_constant && !vtb_attr_find(i, "data");
}

static bool is_leaf_mover(vtb_op op) {
  return op == VTB_OP_pad || op == VTB_OP_permute || op == VTB_OP_shift || op == VTB_OP_concat;
}

static bool reduces_last_only(const vtb_inst *i) {
  int n;
  const int64_t *axes = vtb_attr_ints(i, "axes", &n);
  return n == 1 && axes[0] == i->operands[0]->type.rank - 1 && vtb_attr_int(i, "keep", 0);
}

static vtb_kernel_kind kind_of(const vtb_inst *i) {
  const vtb_op_info *info = vtb_op_get(i->op);
  if (info->klass == VTB_CLASS_ELEMENTWISE) return VTB_KERNEL_LOOP;
  if (info->klass == VTB_CLASS_REDUCE)
    return reduces_last_only(i) ? VTB_KERNEL_ROW : VTB_KERNEL_COL;
  if (i->op == VTB_OP_iota || i->op == VTB_OP_random || is_leaf_mover(i->op))
    return VTB_KERNEL_LOOP;
  return VTB_KERNEL_NONE;
}

static int find(fuser *f, int i) {
  while (f->nodes[i].group != i) i = f->nodes[i].group = f->nodes[f->nodes[i].group].group;
  return i;
}

static void push_users(fuser *f, int group, int_stack *stack) {
  for (int i = 0; i < f->n; i++)
    if (find(f, i) == group)
      for (int *u = f->users[i]; *u >= 0; u++) vtb_vec_push(stack, find(f, *u));
}

/* True if a path from group `from` to group `to` leads through a third group. */
static bool reaches_outside(fuser *f, int from, int to) {
  int_stack stack = {0};
  bool found = false;
  f->mark_now++;
  push_users(f, from, &stack);
  size_t direct = stack.n; /* edges straight to `to` do not count */
  while (stack.n && !found) {
    int g = stack.at[--stack.n];
    bool first_hop = stack.n < direct;
    if (first_hop) direct = stack.n;
    if (g == from || (first_hop && g == to)) continue;
    if (g == to) {
      found = true;
    } else if (f->mark[g] != f->mark_now) {
      f->mark[g] = f->mark_now;
      push_users(f, g, &stack);
    }
  }
  vtb_vec_free(&stack);
  return found;
}

static bool used_outside(fuser *f, int group, int except) {
  for (int i = 0; i < f->n; i++) {
    if (find(f, i) != group) continue;
    for (int r = 0; r < f->nodes[i].inst->n_results; r++)
      if (f->returned[f->nodes[i].inst->results[r]->id]) return true;
    for (int *u = f->users[i]; *u >= 0; u++) {
      int g = find(f, *u);
      if (g != group && g != except) return true;
    }
  }
  return false;
}

static bool broadcasts_into(const vtb_type *small, const vtb_type *big) {
  if (small->rank > big->rank) return false;
  for (int a = 0; a < small->rank; a++) {
    int64_t s = small->dim[a].size;
    if (s != 1 && s != big->dim[big->rank - small->rank + a].size) return false;
  }
  return true;
}

/* Same leading axes, last axis of `column` 1. */
static bool is_row_column(const vtb_type *column, const vtb_type *row) {
  if (column->rank != row->rank || row->rank == 0 || column->dim[row->rank - 1].size != 1)
    return false;
  for (int a = 0; a + 1 < row->rank; a++)
    if (column->dim[a].size != row->dim[a].size) return false;
  return true;
}

/* Whether producer group p and consumer group c may share a loop nest; *kind and *shape describe
 * the result. */
static bool compatible(fuser *f, int p, int c, vtb_kernel_kind *kind, vtb_type *shape) {
  node *np = &f->nodes[p], *nc = &f->nodes[c];
  if (np->kind == VTB_KERNEL_COL) return false;
  if (nc->kind == VTB_KERNEL_COL) {
    if (np->kind != VTB_KERNEL_LOOP || used_outside(f, p, c)) return false;
    if (!broadcasts_into(&np->shape, &nc->shape)) return false;
    *kind = VTB_KERNEL_COL;
    *shape = nc->shape;
    return true;
  }
  bool row = np->kind == VTB_KERNEL_ROW || nc->kind == VTB_KERNEL_ROW;
  if (row && (np->has_leaf || nc->has_leaf)) return false;
  *kind = row ? VTB_KERNEL_ROW : VTB_KERNEL_LOOP;
  if (vtb_type_count(&np->shape) == 0 || vtb_type_count(&nc->shape) == 0) return false;
  vtb_type a = np->shape, b = nc->shape;
  a.dtype = b.dtype = VTB_F32;
  if (vtb_type_equal(&a, &b)) {
    *shape = nc->shape;
    return true;
  }
  if (row && is_row_column(&a, &b)) {
    *shape = b;
    return true;
  }
  if (row && is_row_column(&b, &a)) {
    *shape = a;
    return true;
  }
  if (np->kind == VTB_KERNEL_LOOP && !np->has_leaf && broadcasts_into(&a, &b) &&
      !used_outside(f, p, c)) {
    *shape = b;
    return true;
  }
  return false;
}

static void merge(fuser *f, int into, int from, vtb_kernel_kind kind, const vtb_type *shape) {
  assert(into != from && find(f, into) == into && find(f, from) == from);
  f->nodes[from].group = into;
  f->nodes[into].kind = kind;
  f->nodes[into].shape = *shape;
  f->nodes[into].has_leaf |= f->nodes[from].has_leaf;
}

static bool try_merge(fuser *f, int producer, int consumer) {
  int p = find(f, producer), c = find(f, consumer);
  if (p == c) return true;
  if (f->nodes[p].kind == VTB_KERNEL_NONE || f->nodes[c].kind == VTB_KERNEL_NONE) return false;
  /* leaves read stored operands only */
  if (is_leaf_mover(f->nodes[consumer].inst->op)) return false;
  vtb_kernel_kind kind;
  vtb_type shape;
  if (!compatible(f, p, c, &kind, &shape)) return false;
  if (reaches_outside(f, p, c)) return false;
  merge(f, c, p, kind, &shape);
  return true;
}

/* ---- column sums side by side ---------------------------------------------------------------- */

static bool is_column_sum(fuser *f, int i) {
  return vtb_op_get(f->nodes[i].inst->op)->klass == VTB_CLASS_REDUCE &&
         f->nodes[find(f, i)].kind == VTB_KERNEL_COL;
}

/* Sets `reads` of every value with more than one element that an op of the group reads. */
static void mark_reads(fuser *f, int group, bool *reads) {
  for (int i = 0; i < f->n; i++) {
    const vtb_inst *inst = f->nodes[i].inst;
    if (find(f, i) != group) continue;
    for (int o = 0; o < inst->n_operands; o++)
      reads[inst->operands[o]->id] = vtb_type_count(&inst->operands[o]->type) > 1;
  }
}

static bool share_an_operand(fuser *f, int a, int b) {
  size_t n = (size_t)f->func->n_values;
  bool *by_a = vtb_xcalloc(n, sizeof *by_a), *by_b = vtb_xcalloc(n, sizeof *by_b), shared = false;
  mark_reads(f, a, by_a);
  mark_reads(f, b, by_b);
  for (size_t v = 0; v < n; v++) shared |= by_a[v] && by_b[v];
  vtb_free(by_a);
  vtb_free(by_b);
  return shared;
}

/* Does an op of group `from` feed one of group `to`? */
static bool feeds(fuser *f, int from, int to) {
  for (int i = 0; i < f->n; i++) {
    if (find(f, i) != from) continue;
    for (int *u = f->users[i]; *u >= 0; u++)
      if (find(f, *u) == to) return true;
  }
  return false;
}

static bool independent(fuser *f, int a, int b) {
  return !feeds(f, a, b) && !feeds(f, b, a) && !reaches_outside(f, a, b) &&
         !reaches_outside(f, b, a);
}

/* May the groups of column sums i and j be one kernel? They then read what they share once. */
static bool are_siblings(fuser *f, int i, int j) {
  int a = find(f, i), b = find(f, j);
  const vtb_type *x = &f->nodes[i].inst->results[0]->type, *y = &f->nodes[j].inst->results[0]->type;
  return a != b && vtb_type_equal(&f->nodes[a].shape, &f->nodes[b].shape) && vtb_type_equal(x, y) &&
         share_an_operand(f, a, b) && independent(f, a, b);
}

/* Column sums over the same space by different consumers of the same gradients read their operands
 * once. */
static void merge_sibling_columns(fuser *f) {
  for (int i = 0; i < f->n; i++) {
    if (!is_column_sum(f, i)) continue;
    for (int j = i + 1; j < f->n; j++)
      if (is_column_sum(f, j) && are_siblings(f, i, j))
        merge(f, find(f, i), find(f, j), VTB_KERNEL_COL, &f->nodes[find(f, i)].shape);
  }
}

/* ---- the graph of a function ----------------------------------------------------------------- */

static node node_new(vtb_inst *i) {
  node n = {.inst = i, .group = i->order, .kind = kind_of(i), .has_leaf = is_leaf_mover(i->op)};
  bool reduces = vtb_op_get(i->op)->klass == VTB_CLASS_REDUCE;
  if (i->n_results) n.shape = reduces ? i->operands[0]->type : i->results[0]->type;
  return n;
}

/* The node that makes a value; -1: an argument. */
static int maker(const fuser *f, const vtb_value *v) { return f->node_of[v->id]; }

/* Room for each node's users, and the -1 that ends them. */
static void reserve_users(fuser *f) {
  size_t *n_users = vtb_xcalloc((size_t)f->n, sizeof *n_users);
  for (vtb_inst *i = f->func->first; i; i = i->next)
    for (int o = 0; o < i->n_operands; o++)
      if (maker(f, i->operands[o]) >= 0) n_users[maker(f, i->operands[o])]++;
  for (int k = 0; k < f->n; k++) {
    f->users[k] = vtb_xmalloc((n_users[k] + 1) * sizeof(int));
    f->users[k][0] = -1;
  }
  vtb_free(n_users);
}

static void list_users(fuser *f) {
  int *n_users = vtb_xcalloc((size_t)f->n, sizeof *n_users);
  reserve_users(f);
  for (vtb_inst *i = f->func->first; i; i = i->next)
    for (int o = 0; o < i->n_operands; o++) {
      int p = maker(f, i->operands[o]);
      if (p < 0) continue;
      f->users[p][n_users[p]++] = i->order;
      f->users[p][n_users[p]] = -1;
    }
  vtb_free(n_users);
}

static void analyse(fuser *f) {
  vtb_func *func = f->func;
  f->n = vtb_func_number(func);
  f->nodes = vtb_xcalloc((size_t)f->n, sizeof *f->nodes);
  f->node_of = vtb_xmalloc((size_t)func->n_values * sizeof *f->node_of + 1);
  f->users = vtb_xcalloc((size_t)f->n, sizeof *f->users);
  f->returned = vtb_xcalloc((size_t)func->n_values, sizeof *f->returned);
  f->mark = vtb_xcalloc((size_t)f->n, sizeof *f->mark);
  for (int v = 0; v < func->n_values; v++) f->node_of[v] = -1;
  for (int r = 0; r < func->n_returns; r++) f->returned[func->returns[r]->id] = true;
  for (vtb_inst *i = func->first; i; i = i->next) {
    f->nodes[i->order] = node_new(i);
    for (int r = 0; r < i->n_results; r++) f->node_of[i->results[r]->id] = i->order;
  }
  list_users(f);
}

static void fuser_free(fuser *f) {
  for (int i = 0; i < f->n; i++) vtb_free(f->users[i]);
  vtb_free(f->nodes);
  vtb_free(f->node_of);
  vtb_free(f->users);
  vtb_free(f->returned);
  vtb_free(f->mark);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void form_groups(fuser *f) {
  /* column sums claim their private producers first: those would otherwise be stored by a loop
   * kernel */
  for (int pass = 0; pass < 2; pass++) {
    for (int i = f->n - 1; i >= 0; i--) {
      int g = find(f, i);
      if (f->nodes[g].kind == VTB_KERNEL_NONE ||
          (pass == 0) != (f->nodes[g].kind == VTB_KERNEL_COL))
        continue;
      vtb_inst *inst = f->nodes[i].inst;
      for (int o = 0; o < inst->n_operands; o++) {
        int p = f->node_of[inst->operands[o]->id];
        if (p >= 0) try_merge(f, p, i);
      }
    }
  }
  merge_sibling_columns(f);
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* The kernel's text with numbers for names, so that equal kernels read alike. */
static void canonical_text(vtb_func *k, vtb_strbuf *out) {
  vtb_arena arena;
  VTB_VEC(const char *) names = {0};
  int number = 0;
  vtb_arena_init(&arena);
  for (int a = 0; a < k->n_args; a++) {
    vtb_vec_push(&names, k->args[a]->name);
    k->args[a]->name = vtb_arena_printf(&arena, "a%d", a);
  }
  for (vtb_inst *i = k->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) {
      vtb_vec_push(&names, i->results[r]->name);
      i->results[r]->name = vtb_arena_printf(&arena, "v%d", number++);
    }
  vtb_func_print(k, &(vtb_print_options){0}, out);
  size_t next = 0;
  for (int a = 0; a < k->n_args; a++) k->args[a]->name = names.at[next++];
  for (vtb_inst *i = k->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) i->results[r]->name = names.at[next++];
  vtb_vec_free(&names);
  vtb_arena_free(&arena);
}

static vtb_func *same_kernel(vtb_map *kernels, vtb_func *k) {
  vtb_strbuf text = {0};
  canonical_text(k, &text);
  const char *body = strchr(text.at, '(');
  vtb_func *known = vtb_map_get(kernels, body);
  if (!known) vtb_map_set(kernels, body, k);
  vtb_strbuf_free(&text);
  return known;
}

/* A kernel under construction. */
typedef struct kernel {
  fuser *f;
  int group;
  vtb_builder b;
  vtb_value **inside; /* by id of a value outside: the one that stands for it, or NULL */
  VTB_VEC(vtb_value *) inputs;
  VTB_VEC(vtb_value *) outputs;
} kernel;

/* What stands for `v` inside: a constant is copied, any other value becomes an argument. */
static vtb_value *bring_in(kernel *k, vtb_value *v) {
  if (k->inside[v->id]) return k->inside[v->id];
  if (v->def && is_splat(v->def))
    return k->inside[v->id] = vtb_inst_clone(&k->b, v->def, NULL)->results[0];
  vtb_vec_push(&k->inputs, v);
  return k->inside[v->id] = vtb_func_add_arg(k->b.func, v->name, v->type);
}

static bool is_wanted_outside(fuser *f, int i, const vtb_value *result) {
  bool wanted = f->returned[result->id];
  for (int *u = f->users[i]; *u >= 0; u++) wanted |= find(f, *u) != find(f, i);
  return wanted;
}

static void copy_in(kernel *k, int i) {
  vtb_inst *inst = k->f->nodes[i].inst;
  vtb_value **operands = vtb_xcalloc((size_t)inst->n_operands + 1, sizeof *operands);
  for (int o = 0; o < inst->n_operands; o++) operands[o] = bring_in(k, inst->operands[o]);
  vtb_inst *copy = vtb_inst_clone(&k->b, inst, operands);
  vtb_free(operands);
  for (int r = 0; r < inst->n_results; r++) {
    k->inside[inst->results[r]->id] = copy->results[r];
    if (is_wanted_outside(k->f, i, inst->results[r])) vtb_vec_push(&k->outputs, inst->results[r]);
  }
}

static void set_returns(kernel *k) {
  vtb_value **returns = vtb_xcalloc(k->outputs.n + 1, sizeof *returns);
  for (size_t r = 0; r < k->outputs.n; r++) returns[r] = k->inside[k->outputs.at[r]->id];
  for (size_t r = 0; r < k->outputs.n; r++) assert(returns[r]);
  vtb_func_set_returns(k->b.func, returns, NULL, (int)k->outputs.n);
  vtb_free(returns);
}

static void forget_names(vtb_type *t) {
  for (int d = 0; d < t->rank; d++) t->dim[d].name = NULL;
}

/* Axes have no names in kernels, so that equal ones are one. */
static void forget_axis_names(vtb_func *k) {
  for (int a = 0; a < k->n_args; a++) forget_names(&k->args[a]->type);
  for (vtb_inst *i = k->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++) forget_names(&i->results[r]->type);
}

/* `now` takes the place of `old`, its name and the names of its axes. */
static void take_place(vtb_module *m, vtb_value *old, vtb_value *now) {
  const char *name = old->name;
  for (int d = 0; d < now->type.rank; d++) now->type.dim[d].name = old->type.dim[d].name;
  vtb_replace_all(old, now);
  old->name = vtb_arena_printf(&m->arena, "%s.dead%d", name, old->id);
  now->name = name;
}

/* One fused instruction before `before`, whose results are those of the kernel. */
static void call_kernel(kernel *k, vtb_func *callee, vtb_inst *before) {
  const node *n = &k->f->nodes[k->group];
  vtb_module *m = k->b.module;
  vtb_builder outer = {.module = m, .func = k->f->func, .before = before, .span = n->inst->span};
  vtb_attr kind = VTB_A_STR("kind", vtb_kernel_kind_name(n->kind));
  vtb_inst *fused =
      vtb_build_call(&outer, VTB_OP_fused, callee, k->inputs.at, (int)k->inputs.n, &kind, 1);
  for (size_t r = 0; r < k->outputs.n; r++) take_place(m, k->outputs.at[r], fused->results[r]);
}

/* Builds the kernel function of `group` and has one fused instruction before `before` compute what
 * its ops did. */
static void emit_group(fuser *f, int group, vtb_inst *before, vtb_map *kernels) {
  vtb_module *m = f->func->module;
  kernel k = {.f = f, .group = group, .b = {.module = m}};
  k.b.func = vtb__kernel_new(f->nodes[group].inst);
  k.inside = vtb_xcalloc((size_t)f->func->n_values, sizeof *k.inside);
  for (int i = 0; i < f->n; i++)
    if (find(f, i) == group) copy_in(&k, i);
  set_returns(&k);
  forget_axis_names(k.b.func);
  vtb_func *known = same_kernel(kernels, k.b.func);
  if (known) vtb_module_remove(m, k.b.func);
  call_kernel(&k, known ? known : k.b.func, before);
  vtb_free(k.inside);
  vtb_vec_free(&k.inputs);
  vtb_vec_free(&k.outputs);
}

/* Adds `by` to the number of unmet edges of every group that `group` feeds. */
static void count_edges(fuser *f, int group, int by, int *waiting) {
  for (int i = 0; i < f->n; i++) {
    if (find(f, i) != group) continue;
    for (int *u = f->users[i]; *u >= 0; u++)
      if (find(f, *u) != group) waiting[find(f, *u)] += by;
  }
}

/* Groups so that each comes after those it reads, into order[]; how many. Ready ones are taken in
 * the order of their first op, so the result does not depend on anything but the input's order. */
static int order_groups(fuser *f, int *order) {
  int *waiting = vtb_xcalloc((size_t)f->n, sizeof *waiting), n = 0;
  bool *done = vtb_xcalloc((size_t)f->n, sizeof *done);
  for (int i = 0; i < f->n; i++)
    if (find(f, i) == i) count_edges(f, i, 1, waiting);
  for (bool progress = true; progress;) {
    progress = false;
    for (int i = 0; i < f->n; i++) {
      int g = find(f, i);
      if (done[g] || waiting[g]) continue;
      done[g] = progress = true;
      order[n++] = g;
      count_edges(f, g, -1, waiting);
    }
  }
  for (int i = 0; i < f->n; i++)
    vtb_check(done[find(f, i)], "fusion made a cycle in @%s", f->func->name);
  vtb_free(waiting);
  vtb_free(done);
  return n;
}

/* A group of one op that may be fused is a kernel as well. */
static void rewrite_group(fuser *f, int group, vtb_map *kernels) {
  vtb_inst *last = NULL;
  if (f->nodes[group].kind == VTB_KERNEL_NONE) return;
  for (int i = 0; i < f->n; i++)
    if (find(f, i) == group) last = f->nodes[i].inst;
  assert(last); /* `group` is a representative */
  emit_group(f, group, last, kernels);
  for (int i = 0; i < f->n; i++)
    if (find(f, i) == group) vtb_inst_unlink(f->nodes[i].inst);
}

/* Reorders the function so that every group is contiguous, then replaces each by its kernel. */
static void rewrite(fuser *f, vtb_map *kernels) {
  int *order = vtb_xcalloc((size_t)f->n + 1, sizeof *order), n = order_groups(f, order);
  for (int k = 0; k < n; k++)
    for (int i = 0; i < f->n; i++)
      if (find(f, i) == order[k]) vtb_inst_move_before(f->nodes[i].inst, NULL);
  for (int k = 0; k < n; k++) rewrite_group(f, order[k], kernels);
  vtb_free(order);
}

/* A reduction that drops its axis becomes one that keeps it, and a reshape (a free view): row
 * kernels see one form. */
static void keep_reduced_axes(vtb_func *func) {
  for (vtb_inst *i = func->first, *next; i; i = next) {
    next = i->next;
    int n;
    if (i->op != VTB_OP_reduce_sum && i->op != VTB_OP_reduce_max) continue;
    const int64_t *axes = vtb_attr_ints(i, "axes", &n);
    if (vtb_attr_int(i, "keep", 0) || n != 1 || axes[0] != i->operands[0]->type.rank - 1) continue;
    vtb_builder b = {.module = func->module, .func = func, .before = i, .span = i->span};
    vtb_value *kept = vtb_b_reduce(&b, i->op, i->operands[0], axes, n, true);
    vtb_value *flat = vtb_b_reshape(&b, kept, &i->results[0]->type);
    vtb_replace_all(i->results[0], flat);
    vtb_inst_unlink(i);
  }
}

static void drop_unused_splats(vtb_func *func) {
  int *uses = vtb_count_uses(func);
  for (vtb_inst *i = func->first, *next; i; i = next) {
    next = i->next;
    if (i->op == VTB_OP_constant && !uses[i->results[0]->id]) vtb_inst_unlink(i);
  }
  vtb_free(uses);
}

vtb_status vtb__pass_fuse(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  vtb_map kernels = {0};
  for (vtb_func *func = c->module->first; func; func = func->next) {
    if (func->kind != VTB_FUNC_PLAIN || !func->first) continue;
    keep_reduced_axes(func);
    fuser f = {.func = func};
    analyse(&f);
    form_groups(&f);
    rewrite(&f, &kernels);
    drop_unused_splats(func);
    fuser_free(&f);
  }
  vtb_map_free(&kernels);
  return VTB_OK;
}

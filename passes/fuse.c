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

#include <stdlib.h>
#include <string.h>

typedef enum group_kind { GROUP_NONE, GROUP_LOOP, GROUP_ROW, GROUP_COL } group_kind;

typedef struct node {
  vtb_inst *inst;
  int group; /* representative's index; own index if alone */
  group_kind kind;
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

static group_kind kind_of(const vtb_inst *i) {
  const vtb_op_info *info = vtb_op_get(i->op);
  if (info->klass == VTB_CLASS_ELEMENTWISE) return GROUP_LOOP;
  if (info->klass == VTB_CLASS_REDUCE) return reduces_last_only(i) ? GROUP_ROW : GROUP_COL;
  if (i->op == VTB_OP_iota || i->op == VTB_OP_random || is_leaf_mover(i->op)) return GROUP_LOOP;
  return GROUP_NONE;
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
static bool compatible(fuser *f, int p, int c, group_kind *kind, vtb_type *shape) {
  node *np = &f->nodes[p], *nc = &f->nodes[c];
  if (np->kind == GROUP_COL) return false;
  if (nc->kind == GROUP_COL) {
    if (np->kind != GROUP_LOOP || used_outside(f, p, c)) return false;
    if (!broadcasts_into(&np->shape, &nc->shape)) return false;
    *kind = GROUP_COL;
    *shape = nc->shape;
    return true;
  }
  bool row = np->kind == GROUP_ROW || nc->kind == GROUP_ROW;
  if (row && (np->has_leaf || nc->has_leaf)) return false;
  *kind = row ? GROUP_ROW : GROUP_LOOP;
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
  if (np->kind == GROUP_LOOP && !np->has_leaf && broadcasts_into(&a, &b) &&
      !used_outside(f, p, c)) {
    *shape = b;
    return true;
  }
  return false;
}

static void merge(fuser *f, int into, int from, group_kind kind, const vtb_type *shape) {
  f->nodes[from].group = into;
  f->nodes[into].kind = kind;
  f->nodes[into].shape = *shape;
  f->nodes[into].has_leaf |= f->nodes[from].has_leaf;
}

static bool try_merge(fuser *f, int producer, int consumer) {
  int p = find(f, producer), c = find(f, consumer);
  if (p == c) return true;
  if (f->nodes[p].kind == GROUP_NONE || f->nodes[c].kind == GROUP_NONE) return false;
  /* leaves read stored operands only */
  if (is_leaf_mover(f->nodes[consumer].inst->op)) return false;
  group_kind kind;
  vtb_type shape;
  if (!compatible(f, p, c, &kind, &shape)) return false;
  if (reaches_outside(f, p, c)) return false;
  merge(f, c, p, kind, &shape);
  return true;
}

/* Column sums over the same space by different consumers of the same gradients read their operands
 * once. */
static void merge_sibling_columns(fuser *f) {
  for (int i = 0; i < f->n; i++) {
    int a = find(f, i);
    if (vtb_op_get(f->nodes[i].inst->op)->klass != VTB_CLASS_REDUCE ||
        f->nodes[a].kind != GROUP_COL)
      continue;
    for (int j = i + 1; j < f->n; j++) {
      int b = find(f, j);
      if (a == b || vtb_op_get(f->nodes[j].inst->op)->klass != VTB_CLASS_REDUCE ||
          f->nodes[b].kind != GROUP_COL)
        continue;
      if (!vtb_type_equal(&f->nodes[a].shape, &f->nodes[b].shape) ||
          !vtb_type_equal(&f->nodes[i].inst->results[0]->type, &f->nodes[j].inst->results[0]->type))
        continue;
      bool share = false;
      for (int x = 0; x < f->n && !share; x++)
        for (int y = 0; y < f->n && !share; y++)
          if (find(f, x) == a && find(f, y) == b)
            for (int p = 0; p < f->nodes[x].inst->n_operands; p++)
              for (int q = 0; q < f->nodes[y].inst->n_operands; q++) {
                const vtb_value *v = f->nodes[x].inst->operands[p];
                share |= v == f->nodes[y].inst->operands[q] && vtb_type_count(&v->type) > 1;
              }
      if (!share || reaches_outside(f, a, b) || reaches_outside(f, b, a)) continue;
      bool direct = false;
      for (int x = 0; x < f->n; x++)
        if (find(f, x) == a || find(f, x) == b)
          for (int *u = f->users[x]; *u >= 0; u++)
            direct |= find(f, x) != find(f, *u) && (find(f, *u) == a || find(f, *u) == b);
      if (!direct) merge(f, a, b, GROUP_COL, &f->nodes[a].shape);
    }
  }
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
  int *n_users = vtb_xcalloc((size_t)f->n, sizeof *n_users);
  for (vtb_inst *i = func->first; i; i = i->next) {
    for (int r = 0; r < i->n_results; r++) f->node_of[i->results[r]->id] = i->order;
    for (int o = 0; o < i->n_operands; o++)
      if (f->node_of[i->operands[o]->id] >= 0) n_users[f->node_of[i->operands[o]->id]]++;
  }
  for (int k = 0; k < f->n; k++) {
    f->users[k] = vtb_xmalloc(((size_t)n_users[k] + 1) * sizeof(int));
    f->users[k][0] = -1;
    n_users[k] = 0;
  }
  for (vtb_inst *i = func->first; i; i = i->next) {
    node *n = &f->nodes[i->order];
    group_kind kind = kind_of(i);
    *n = (node){.inst = i, .group = i->order, .kind = kind, .has_leaf = is_leaf_mover(i->op)};
    if (i->n_results)
      n->shape =
          vtb_op_get(i->op)->klass == VTB_CLASS_REDUCE ? i->operands[0]->type : i->results[0]->type;
    for (int o = 0; o < i->n_operands; o++) {
      int p = f->node_of[i->operands[o]->id];
      if (p < 0) continue;
      f->users[p][n_users[p]++] = i->order;
      f->users[p][n_users[p]] = -1;
    }
  }
  vtb_free(n_users);
}

static void form_groups(fuser *f) {
  /* column sums claim their private producers first: those would otherwise be stored by a loop
   * kernel */
  for (int pass = 0; pass < 2; pass++) {
    for (int i = f->n - 1; i >= 0; i--) {
      int g = find(f, i);
      if (f->nodes[g].kind == GROUP_NONE || (pass == 0) != (f->nodes[g].kind == GROUP_COL))
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

static const char *kind_name(group_kind k) {
  return k == GROUP_ROW ? "row" : k == GROUP_COL ? "col" : "loop";
}

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

/* Builds the kernel function of `group` and replaces its ops by one fused instruction before
 * `before`. */
static void emit_group(fuser *f, int group, vtb_inst *before, vtb_map *kernels) {
  vtb_func *func = f->func;
  vtb_module *m = func->module;
  group_kind kind = f->nodes[group].kind;
  VTB_VEC(vtb_value *) inputs = {0};
  VTB_VEC(vtb_value *) outputs = {0};
  vtb_value **inside = vtb_xcalloc((size_t)func->n_values, sizeof *inside);
  vtb_func *k = vtb__kernel_new(f->nodes[group].inst);
  vtb_builder b = {.module = m, .func = k};
  for (int i = 0; i < f->n; i++) {
    vtb_inst *inst = f->nodes[i].inst;
    if (find(f, i) != group) continue;
    vtb_value **operands = vtb_xcalloc((size_t)inst->n_operands + 1, sizeof *operands);
    for (int o = 0; o < inst->n_operands; o++) {
      vtb_value *v = inst->operands[o];
      if (!inside[v->id]) {
        if (v->def && is_splat(v->def)) {
          inside[v->id] = vtb_inst_clone(&b, v->def, NULL)->results[0];
        } else {
          inside[v->id] = vtb_func_add_arg(k, v->name, v->type);
          vtb_vec_push(&inputs, v);
        }
      }
      operands[o] = inside[v->id];
    }
    vtb_inst *copy = vtb_inst_clone(&b, inst, operands);
    vtb_free(operands);
    for (int r = 0; r < inst->n_results; r++) {
      vtb_value *v = inst->results[r];
      inside[v->id] = copy->results[r];
      bool out = f->returned[v->id];
      for (int *u = f->users[i]; *u >= 0; u++) out |= find(f, *u) != group;
      if (out) vtb_vec_push(&outputs, v);
    }
  }
  vtb_value **returns = vtb_xcalloc(outputs.n + 1, sizeof *returns);
  for (size_t r = 0; r < outputs.n; r++) returns[r] = inside[outputs.at[r]->id];
  vtb_func_set_returns(k, returns, NULL, (int)outputs.n);
  /* axes have no names in kernels, so that equal ones are one */
  for (int a = 0; a < k->n_args; a++)
    for (int d = 0; d < k->args[a]->type.rank; d++) k->args[a]->type.dim[d].name = NULL;
  for (vtb_inst *i = k->first; i; i = i->next)
    for (int r = 0; r < i->n_results; r++)
      for (int d = 0; d < i->results[r]->type.rank; d++) i->results[r]->type.dim[d].name = NULL;
  vtb_func *known = same_kernel(kernels, k);
  if (known) {
    vtb_module_remove(m, k);
    k = known;
  }
  vtb_builder outer = {
      .module = m, .func = func, .before = before, .span = f->nodes[group].inst->span};
  vtb_attr attr = VTB_A_STR("kind", kind_name(kind));
  vtb_inst *fused = vtb_build_call(&outer, VTB_OP_fused, k, inputs.at, (int)inputs.n, &attr, 1);
  for (size_t r = 0; r < outputs.n; r++) {
    vtb_value *old = outputs.at[r], *now = fused->results[r];
    const char *keep = old->name;
    for (int d = 0; d < now->type.rank; d++) now->type.dim[d].name = old->type.dim[d].name;
    vtb_replace_all(old, now);
    old->name = vtb_arena_printf(&m->arena, "%s.dead%d", keep, old->id);
    now->name = keep;
  }
  vtb_free(returns);
  vtb_free(inside);
  vtb_vec_free(&inputs);
  vtb_vec_free(&outputs);
}

/* Reorders the function so that every group is contiguous, then replaces each by its kernel. Ready
 * units are taken in the order of their first op, so the result does not depend on anything but the
 * input's order. */
static void rewrite(fuser *f, vtb_map *kernels) {
  int *waiting = vtb_xcalloc((size_t)f->n, sizeof *waiting); /* unmet edges into each group */
  bool *done = vtb_xcalloc((size_t)f->n, sizeof *done);
  for (int i = 0; i < f->n; i++)
    for (int *u = f->users[i]; *u >= 0; u++)
      if (find(f, i) != find(f, *u)) waiting[find(f, *u)]++;
  VTB_VEC(int) order = {0};
  for (bool progress = true; progress;) {
    progress = false;
    for (int i = 0; i < f->n; i++) {
      int g = find(f, i);
      if (done[g] || waiting[g]) continue;
      done[g] = progress = true;
      vtb_vec_push(&order, g);
      for (int j = 0; j < f->n; j++)
        if (find(f, j) == g)
          for (int *u = f->users[j]; *u >= 0; u++)
            if (find(f, *u) != g) waiting[find(f, *u)]--;
    }
  }
  for (int i = 0; i < f->n; i++)
    vtb_check(done[find(f, i)], "fusion made a cycle in @%s", f->func->name);
  for (size_t k = 0; k < order.n; k++)
    for (int i = 0; i < f->n; i++)
      if (find(f, i) == order.at[k]) vtb_inst_move_before(f->nodes[i].inst, NULL);
  for (size_t k = 0; k < order.n; k++) {
    int g = order.at[k];
    vtb_inst *last = NULL;
    bool real = false;
    for (int i = 0; i < f->n; i++) {
      if (find(f, i) != g) continue;
      last = f->nodes[i].inst;
      real |= f->nodes[i].kind != GROUP_NONE || i != g;
    }
    if (!real || f->nodes[g].kind == GROUP_NONE) continue;
    emit_group(f, g, last, kernels);
    for (int i = 0; i < f->n; i++)
      if (find(f, i) == g) vtb_inst_unlink(f->nodes[i].inst);
  }
  vtb_vec_free(&order);
  vtb_free(waiting);
  vtb_free(done);
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
    for (int i = 0; i < f.n; i++) vtb_free(f.users[i]);
    vtb_free(f.nodes);
    vtb_free(f.node_of);
    vtb_free(f.users);
    vtb_free(f.returned);
    vtb_free(f.mark);
  }
  vtb_map_free(&kernels);
  return VTB_OK;
}

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
 *
 * No row of ir/kernels.def: its groups have no anchor. They merge two by two, all of a function's
 * thousands of ops at once, and take their order from that.
 */
#include "passes/fuse/fuse.h"
#include "passes/passes_internal.h"

#include "ir/axes.h"
#include "ir/kernels.h"
#include "ir/key.h"

static bool is_leaf_mover(vtb_op op) {
  return op == VTB_OP_pad || op == VTB_OP_permute || op == VTB_OP_shift || op == VTB_OP_concat;
}

static vtb_kernel_kind kind_of(const vtb_inst *i) {
  const vtb_op_info *info = vtb_op_get(i->op);
  if (info->klass == VTB_CLASS_ELEMENTWISE) return VTB_KERNEL_LOOP;
  if (info->klass == VTB_CLASS_REDUCE)
    return vtb_reduces_last(i) && vtb_attr_int(i, "keep", 0) ? VTB_KERNEL_ROW : VTB_KERNEL_COL;
  if (i->op == VTB_OP_iota || i->op == VTB_OP_random || is_leaf_mover(i->op))
    return VTB_KERNEL_LOOP;
  return VTB_KERNEL_NONE;
}

static bool used_outside(vtb__fuser *f, int group, int except) {
  VTB__EACH_NODE(&f->groups, group, i) {
    for (int r = 0; r < f->nodes[i].inst->n_results; r++)
      if (f->returned[f->nodes[i].inst->results[r]->id]) return true;
    VTB__EACH_USER(&f->groups, i, u) {
      int g = vtb__fuse_find(f, *u);
      if (g != group && g != except) return true;
    }
  }
  return false;
}

static bool broadcasts_into(const vtb_type *small, const vtb_type *big) {
  vtb_type joined;
  return vtb_type_broadcast(small, big, &joined) && vtb_type_equal(&joined, big);
}

/* Same leading axes, last axis of `column` 1. */
static bool is_row_column(const vtb_type *column, const vtb_type *row) {
  int last = row->rank - 1;
  return last >= 0 && column->rank == row->rank && column->dim[last].size == 1 &&
         vtb_type_same_axes(column, row, last);
}

/* Producer group p and consumer group c may share a loop nest, leaving strips aside; *kind
 * and *shape describe the result. */
static bool share_a_nest(vtb__fuser *f, int p, int c, vtb_kernel_kind *kind, vtb_type *shape) {
  vtb__fuse_node *np = &f->nodes[p], *nc = &f->nodes[c];
  vtb_type a = np->shape, b = nc->shape;
  a.dtype = b.dtype = VTB_F32;
  *shape = nc->shape;
  if (np->kind == VTB_KERNEL_COL || np->ops + nc->ops > VTB__GROUP_MOST) return false;
  bool row = np->kind == VTB_KERNEL_ROW || nc->kind == VTB_KERNEL_ROW;
  *kind = nc->kind == VTB_KERNEL_COL ? VTB_KERNEL_COL : row ? VTB_KERNEL_ROW : VTB_KERNEL_LOOP;
  if (nc->kind == VTB_KERNEL_COL)
    return np->kind == VTB_KERNEL_LOOP && !used_outside(f, p, c) && broadcasts_into(&a, &b);
  if (row && (np->has_leaf || nc->has_leaf)) return false;
  if (vtb_type_count(&a) == 0 || vtb_type_count(&b) == 0) return false;
  if (vtb_type_equal(&a, &b) || (row && is_row_column(&a, &b))) return true;
  if (row && is_row_column(&b, &a)) {
    *shape = a;
    return true;
  }
  return np->kind == VTB_KERNEL_LOOP && !np->has_leaf && broadcasts_into(&a, &b) &&
         !used_outside(f, p, c);
}

/* A group with strips has the rows of the whole. */
static bool compatible(vtb__fuser *f, int p, int c, vtb_kernel_kind *kind, vtb_type *shape) {
  const vtb__fuse_node *np = &f->nodes[p], *nc = &f->nodes[c];
  if (!share_a_nest(f, p, c, kind, shape)) return false;
  if (!np->strip && !nc->strip) return true;
  vtb_type a = np->shape, b = nc->shape, whole = *shape;
  a.dtype = b.dtype = whole.dtype = VTB_F32;
  return *kind != VTB_KERNEL_COL && !np->has_leaf && !nc->has_leaf &&
         (!np->strip || vtb_type_equal(&a, &whole)) && (!nc->strip || vtb_type_equal(&b, &whole)) &&
         (!np->strip || !nc->strip || np->strip == nc->strip);
}

void vtb__fuse_merge(vtb__fuser *f, int into, int from, vtb_kernel_kind kind,
                     const vtb_type *shape) {
  vtb__groups_join(&f->groups, into, from);
  f->nodes[into].kind = kind;
  f->nodes[into].shape = *shape;
  f->nodes[into].has_leaf |= f->nodes[from].has_leaf;
  f->nodes[into].ops += f->nodes[from].ops;
  if (!f->nodes[into].strip) f->nodes[into].strip = f->nodes[from].strip;
}

/* True if they are one now and were two. */
static bool try_merge(vtb__fuser *f, int producer, int consumer) {
  int p = vtb__fuse_find(f, producer), c = vtb__fuse_find(f, consumer);
  if (p == c) return false;
  if (f->nodes[p].kind == VTB_KERNEL_NONE || f->nodes[c].kind == VTB_KERNEL_NONE) return false;
  /* leaves read stored operands only */
  if (is_leaf_mover(f->nodes[consumer].inst->op)) return false;
  vtb_kernel_kind kind;
  vtb_type shape;
  if (!compatible(f, p, c, &kind, &shape)) return false;
  if (vtb__groups_path(&f->groups, p, c, false)) return false;
  vtb__fuse_merge(f, c, p, kind, &shape);
  return true;
}

/* ---- the graph of a function ----------------------------------------------------------------- */

static vtb__fuse_node node_new(vtb_inst *i) {
  vtb__fuse_node n = {.inst = i, .kind = kind_of(i), .has_leaf = is_leaf_mover(i->op), .ops = 1};
  bool reduces = vtb_op_get(i->op)->klass == VTB_CLASS_REDUCE;
  if (i->n_results) n.shape = reduces ? i->operands[0]->type : i->results[0]->type;
  return n;
}

static void analyse(vtb__fuser *f) {
  vtb_func *func = f->func;
  f->nodes = VTB_SCRATCH(func, vtb__fuse_node, vtb_func_number(func));
  f->returned = VTB_SCRATCH(func, bool, func->n_values);
  f->reads = VTB_SCRATCH(func, int, func->n_values);
  for (int r = 0; r < func->n_returns; r++) f->returned[func->returns[r]->id] = true;
  for (vtb_inst *i = func->first; i; i = i->next) f->nodes[i->order] = node_new(i);
  vtb__groups_init(&f->groups, func);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Every op with what it reads: those in column sums, or the others. Whether a group has grown. */
static bool merge_producers(vtb__fuser *f, bool columns) {
  bool grown = false;
  for (int i = f->groups.n - 1; i >= 0; i--) {
    int g = vtb__fuse_find(f, i);
    if (f->nodes[g].kind == VTB_KERNEL_NONE || columns != (f->nodes[g].kind == VTB_KERNEL_COL))
      continue;
    vtb_inst *inst = f->nodes[i].inst;
    for (int o = 0; o < inst->n_operands; o++)
      if (inst->operands[o]->def) grown |= try_merge(f, inst->operands[o]->def->order, i);
  }
  return grown;
}

static void form_groups(vtb__fuser *f) {
  /* column sums claim their private producers first: those would otherwise be stored by a loop
   * kernel */
  merge_producers(f, true);
  /* a loop that may not join one statistic of a row may join the whole norm */
  while (merge_producers(f, false) && f->memory_bound) continue;
  for (int rule = VTB__STRIPS; rule <= VTB__NEIGHBOURS && f->memory_bound; rule++)
    if (vtb__fuse_beside(f, rule))
      while (merge_producers(f, false)) continue;
  vtb__fuse_beside(f, VTB__SIBLINGS);
  vtb__groups_sort(&f->groups);
}

/* ---- rewriting ------------------------------------------------------------------------------- */

static vtb_func *same_kernel(vtb_map *kernels, const vtb_func *k) {
  vtb_strbuf text = {0};
  vtb_key_body(k, &text);
  vtb_func *known = vtb_map_get(kernels, text.at);
  if (!known) vtb_map_set(kernels, text.at, (vtb_func *)k);
  vtb_strbuf_free(&text);
  return known;
}

/* Sums over leading axes, of groups with strips, become sums in parts: last ones first, so that
 * totals behind a group are in order. */
static void cut_sums(vtb__fuser *f) {
  for (int i = f->groups.n; i-- > 0;) {
    int group = vtb__fuse_find(f, i);
    vtb_inst *sum = f->nodes[i].inst, *last = f->nodes[f->groups.last[group]].inst;
    if (!f->nodes[group].strip || kind_of(sum) != VTB_KERNEL_COL) continue;
    f->nodes[i].inst = vtb__fuse_cut(f, sum, last->next);
    f->totals++;
  }
}

/* A group of one op that may be fused is a kernel as well. */
static void rewrite_group(vtb__fuser *f, int group, vtb_map *kernels) {
  const vtb__fuse_node *n = &f->nodes[group];
  vtb__group g = {.func = f->func, .anchor = n->inst, .loop = true};
  if (n->kind == VTB_KERNEL_NONE) return;
  VTB__EACH_NODE(&f->groups, group, i) g.at[g.n++] = f->nodes[i].inst;
  vtb_inst *fused = vtb__group_join(&g, n->strip ? VTB_KERNEL_STRIPS : n->kind);
  vtb_func *known = same_kernel(kernels, fused->callee), *own = fused->callee;
  if (!known) return;
  fused->callee = known;
  vtb_module_remove(f->func->module, own);
}

/* All that the group reads is in its place. */
static bool is_ready(vtb__fuser *f, int group, const bool *placed) {
  VTB__EACH_READ(f, group, i, v) {
    int other = (*v)->def ? vtb__fuse_find(f, (*v)->def->order) : group;
    if (other != group && !placed[other]) return false;
  }
  return true;
}

/* Reorders the function so that every group is contiguous, those that are ready in the order of
 * their ops, over and over, then replaces each by its kernel. */
static void rewrite(vtb__fuser *f, vtb_map *kernels) {
  int n = 0, *order = VTB_SCRATCH(f->func, int, f->groups.n);
  bool *placed = VTB_SCRATCH(f->func, bool, f->groups.n);
  for (int before = -1; n != before;) {
    before = n;
    for (int k = 0; k < f->groups.n; k++) {
      int group = vtb__fuse_find(f, k);
      if (placed[group] || !is_ready(f, group, placed)) continue;
      placed[order[n++] = group] = true;
      VTB__EACH_NODE(&f->groups, group, i) vtb_inst_move_before(f->nodes[i].inst, NULL);
    }
  }
  for (int k = 0; k < f->groups.n; k++)
    vtb_check(placed[vtb__fuse_find(f, k)], "fusion made a cycle in @%s", f->func->name);
  cut_sums(f);
  vtb_func_number(f->func);
  for (int k = 0; k < n; k++) rewrite_group(f, order[k], kernels);
}

/* A reduction that drops its axis becomes one that keeps it, and a reshape (a free view): row
 * kernels see one form. */
static void keep_reduced_axes(vtb_func *func) {
  VTB__EACH_INST(func, i, next) {
    if (!vtb_reduces_last(i) || vtb_attr_int(i, "keep", 0)) continue;
    int64_t last = i->operands[0]->type.rank - 1;
    vtb_builder b = vtb__before(i);
    vtb_value *kept = vtb_b_reduce(&b, i->op, i->operands[0], &last, 1, true);
    vtb_value *flat = vtb_b_reshape(&b, kept, &i->results[0]->type);
    vtb_replace_all(i->results[0], flat);
    vtb_inst_unlink(i);
  }
}

/* Sums of parts are all that is not a kernel now. */
static void fuse_totals(vtb__fuser *f, vtb_map *kernels) {
  *f = (vtb__fuser){.func = f->func};
  analyse(f);
  vtb__fuse_beside(f, VTB__TOTALS);
  vtb__groups_sort(&f->groups);
  rewrite(f, kernels);
}

/* Twice as many as there are multiprocessors, in groups that one warp adds up. */
static int strips_of(const vtb_gpu *gpu) {
  int strips = (int)(2 * gpu->processors) / 32 * 32;
  return strips ? strips : 32;
}

void vtb__change_fuse(vtb_pass_context *c) {
  vtb_map kernels = {0};
  for (vtb_func *func = c->module->first; func; func = func->next) {
    if (func->kind != VTB_FUNC_PLAIN || !func->first) continue;
    keep_reduced_axes(func);
    vtb__fuser f = {.func = func,
                    .memory_bound = c->target && c->target->memory_bound,
                    .strips = strips_of(vtb_gpu_or_default(&c->gpu))};
    analyse(&f);
    form_groups(&f);
    rewrite(&f, &kernels);
    if (f.totals) fuse_totals(&f, &kernels);
    vtb__dce_func(func); /* splats that kernels have */
  }
  vtb_map_free(&kernels);
}

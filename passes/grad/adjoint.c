/* Accumulation of adjoints in the joint function.
 *
 * Contributions to a value are kept in a list until its adjoint is asked for; then they are added
 * in the order they came, which is the reverse of the program's. Slices of one axis that do not
 * overlap become one concat instead of a sum of pads:
 *
 *   %a = slice %x {axis=2,start=0,limit=4}
 *   %b = slice %x {axis=2,start=4,limit=8}     =>     d_x = concat d_a, d_b {axis=2}
 */
#include "passes/grad/autodiff.h"

#include <assert.h>

static vtb__node *node_of(const vtb_value *v) {
  vtb_check(v->scratch, "%%%s of @%s is not a forward value", v->name, v->func->name);
  return v->scratch;
}

bool vtb__wants(const vtb_value *v) { return node_of(v)->active; }

vtb_value *vtb__build_pad(vtb_builder *b, vtb_value *x, int axis, int64_t low, int64_t high,
                          int64_t step) {
  if (low == 0 && high == 0 && step == 1) return x;
  vtb_attr attrs[] = {VTB_A_INT("axis", axis), VTB_A_INT("low", low), VTB_A_INT("high", high),
                      VTB_A_INT("step", step)};
  return vtb_build(b, VTB_OP_pad, &x, 1, attrs, step == 1 ? 3 : 4)->results[0];
}

static void append(vtb__gradient *g, vtb_value *v, vtb__gradient_part part) {
  vtb__node *n = node_of(v);
  if (!n->active) return;
  vtb_check(!n->resolved, "contribution to %%%s of @%s after its adjoint was used", v->name,
            v->func->name);
  vtb__put(g->ad, &n->parts, part);
}

void vtb__contribute(vtb__gradient *g, vtb_value *v, vtb_value *d) {
  if (!d || !vtb__wants(v)) return;
  append(g, v, (vtb__gradient_part){.value = vtb_b_reduce_to(&g->b, d, &v->type), .axis = -1});
}

void vtb__contribute_slice(vtb__gradient *g, vtb_value *v, vtb_value *d, int axis, int64_t start,
                           int64_t limit) {
  assert(!d || (0 <= start && start < limit && limit <= v->type.dim[axis].size));
  assert(!d || d->type.dim[axis].size == limit - start);
  if (!d) return;
  if (start == 0 && limit == v->type.dim[axis].size) axis = -1;
  append(g, v, (vtb__gradient_part){.value = d, .axis = axis, .start = start, .limit = limit});
}

/* Stable: equal starts keep their order. */
static void sort_by_start(vtb__gradient_part *at, int n) {
  for (int i = 1; i < n; i++) {
    vtb__gradient_part p = at[i];
    int k = i;
    for (; k > 0 &&
           (at[k - 1].start > p.start || (at[k - 1].start == p.start && at[k - 1].limit > p.limit));
         k--)
      at[k] = at[k - 1];
    at[k] = p;
  }
}

/* Adds up parts of the same range; returns how many are left. */
static int merge_equal(vtb_builder *b, vtb__gradient_part *at, int n) {
  int m = 0;
  for (int i = 0; i < n; i++) {
    if (m > 0 && at[m - 1].start == at[i].start && at[m - 1].limit == at[i].limit)
      at[m - 1].value = vtb__joined(b, VTB_OP_add, at[m - 1].value, at[i].value);
    else
      at[m++] = at[i];
  }
  return m;
}

static bool overlap(const vtb__gradient_part *at, int n) {
  for (int i = 1; i < n; i++)
    if (at[i].start < at[i - 1].limit) return true;
  return false;
}

/* Each piece takes the gap before it as its padding, the last one also the gap behind it. */
static vtb_value *join_pieces(vtb_builder *b, const vtb__gradient_part *at, int n, int axis,
                              int64_t size) {
  vtb_value **piece = VTB_SCRATCH(b, vtb_value *, n);
  for (int i = 0; i < n; i++) {
    int64_t low = at[i].start - (i > 0 ? at[i - 1].limit : 0);
    assert(low >= 0 && at[i].limit <= size); /* sorted, and no two overlap */
    piece[i] = vtb__build_pad(b, at[i].value, axis, low, i == n - 1 ? size - at[i].limit : 0, 1);
  }
  return n == 1 ? piece[0] : vtb_b_concat(b, piece, n, axis);
}

/* The sum of the parts that are slices along `axis`, as a whole tensor. */
static vtb_value *sum_slices(vtb__gradient *g, const vtb_value *v, const vtb__node *node,
                             int axis) {
  vtb__gradient_part *at = VTB_SCRATCH(&g->b, vtb__gradient_part, node->parts.n);
  int n = 0;
  for (size_t p = 0; p < node->parts.n; p++)
    if (node->parts.at[p].axis == axis) at[n++] = node->parts.at[p];
  if (n == 0) return NULL;
  sort_by_start(at, n);
  n = merge_equal(&g->b, at, n);
  int64_t size = v->type.dim[axis].size;
  vtb_value *total = NULL;
  if (!overlap(at, n))
    total = join_pieces(&g->b, at, n, axis, size);
  else
    for (int i = 0; i < n; i++)
      total = vtb__joined(&g->b, VTB_OP_add, total, join_pieces(&g->b, &at[i], 1, axis, size));
  return total;
}

/* Named once: an adjoint handed through by an add keeps the name of the value it came from. */
static void name_adjoint(vtb__gradient *g, vtb_value *d, vtb__node *node, const vtb_value *v,
                         const char *suffix) {
  if (!d || !d->def || d->scratch) return;
  d->scratch = node;
  vtb_value_rename(d, vtb__text(g->ad, "d_%s%s", v->name, suffix));
}

vtb_value *vtb__adjoint(vtb__gradient *g, vtb_value *v) {
  vtb__node *node = node_of(v);
  if (node->resolved) return node->adjoint;
  node->resolved = true;
  vtb_value *total = NULL;
  for (size_t p = 0; p < node->parts.n; p++)
    if (node->parts.at[p].axis < 0)
      total = vtb__joined(&g->b, VTB_OP_add, total, node->parts.at[p].value);
  for (int axis = 0; axis < v->type.rank; axis++)
    total = vtb__joined(&g->b, VTB_OP_add, total, sum_slices(g, v, node, axis));
  node->adjoint = total;
  for (size_t p = 0; p < node->parts.n; p++)
    if (node->parts.at[p].value != total)
      name_adjoint(g, node->parts.at[p].value, node, v, "_part");
  name_adjoint(g, total, node, v, "");
  return total;
}

vtb_value *vtb__adjoint_or_zeros(vtb__gradient *g, vtb_value *v) {
  vtb_value *d = vtb__adjoint(g, v);
  return d ? d : vtb_b_splat(&g->b, 0.0, &v->type);
}

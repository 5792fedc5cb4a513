/* fuse: sums over leading axes (gradients of weights that act on every row, and of biases).
 *
 *   %y, %g = fused @norm(%x, %dy) {kind = "row"}
 *   %s = fused @sum(%dy, %y) {kind = "col"}
 *   =>
 *   %g, %p = fused @norm(%x, %dy) {kind = "strips"}     %p: f32[256, C], a part a strip of rows
 *   %s = fused @total(%p) {kind = "col"}
 *
 * Where memory is the limit a kernel that walks the same rows keeps the sums of its columns: what
 * they read is not read again, and %y need not be stored. A strip is a block's rows; the parts are
 * added in order by one kernel for all sums of a function. Declines kernels that will be epilogues
 * of products (grow.c), which have no rows, and ops that move elements.
 *
 * Other sums that read a value in common are one kernel, and so are loops and rows, unless a later
 * pass may have better use for one of them, and those that make parts of one small value, which
 * would be a launch each: one rule over a table of kinds.
 */
#include "ir/axes.h"
#include "ir/recurrence.h"
#include "passes/fuse/fuse.h"
#include "passes/passes_internal.h"

/* ---- what later passes want ------------------------------------------------------------------ */

/* v is what a scan's adjoint that takes a body is given. */
static bool is_given_to_scan(const vtb_value *v) {
  for (vtb_inst **r = vtb__readers(v); *r; r++)
    if ((*r)->op == VTB_OP_reshape ? is_given_to_scan((*r)->results[0])
                                   : (*r)->op == VTB_OP_linscan_grad && vtb_scan_takes_body(*r) &&
                                         (*r)->operands[vtb_scan_of(*r).at.dy] == v)
      return true;
  return false;
}

/* The sums will stand beside a scan's adjoint (grow.c). */
static bool is_beside_scan(vtb__fuser *f, int group) {
  VTB__EACH_READ(f, group, i, v)
    if (is_given_to_scan(*v)) return true;
  return false;
}

/* ---- beside the rows of another kernel ------------------------------------------------------- */

/* A kernel's blocks walk strips of rows, as many as fill a GPU twice, a warp at least one row. */
enum { SMALL = 4096, LEAST_ROWS = 8, MOST_COLUMNS = 4096, MOST_PARTS = 1 << 20 };

/* How many leading axes the column sums of a group are over; 0 if they differ or have no strips. */
static int strip_of(vtb__fuser *f, int group) {
  const vtb_type *t = &f->nodes[group].shape;
  int strip = 0;
  if (t->rank < 2 || f->nodes[group].has_leaf) return 0;
  int64_t columns = t->dim[t->rank - 1].size;
  if (columns < 2 || columns > MOST_COLUMNS || vtb_type_count(t) == 0) return 0;
  VTB__EACH_NODE(&f->groups, group, i) {
    const vtb_inst *inst = f->nodes[i].inst;
    if (vtb_op_get(inst->op)->klass != VTB_CLASS_REDUCE) continue;
    int n = inst->op == VTB_OP_reduce_sum ? vtb_reduces_leading(inst) : 0;
    if (n < 1 || n >= t->rank || (strip && n != strip) ||
        !vtb_type_equal(&inst->operands[0]->type, t))
      return 0;
    strip = n;
  }
  return strip;
}

/* The group alone reads a product: it may become its epilogue. */
static bool may_be_epilogue(vtb__fuser *f, int group) {
  if (f->nodes[group].kind != VTB_KERNEL_LOOP) return false;
  VTB__EACH_READ(f, group, i, v) {
    const vtb_inst *made = (*v)->def;
    if (!made || made->op != VTB_OP_einsum) continue;
    bool alone = !f->returned[(*v)->id];
    VTB__EACH_USER(&f->groups, made->order, u) alone &= vtb__fuse_find(f, *u) == group;
    if (alone) return true;
  }
  return false;
}

/* The group reads the result of a scan that takes it in, with the sums of what it makes
 * (grow.c). */
static bool is_behind_scan(vtb__fuser *f, int group) {
  VTB__EACH_READ(f, group, i, v) {
    const vtb_inst *made = vtb_behind_reshapes(*v)->def;
    if (!made || !made->n_results) continue;
    if (made->op == VTB_OP_linscan_grad && vtb_scan_takes_body(made)) return true;
    /* or of a loop that does */
    int other = vtb__fuse_find(f, made->order);
    if (other != group && f->nodes[other].kind == VTB_KERNEL_LOOP && is_behind_scan(f, other))
      return true;
  }
  return false;
}

static bool is_read_by_scan(vtb__fuser *f, int node) {
  VTB__EACH_USER(&f->groups, node, u) {
    const vtb_inst *i = f->nodes[*u].inst;
    if (i->op == VTB_OP_reshape ? is_read_by_scan(f, *u) : vtb_scan_takes_body(i)) return true;
  }
  return false;
}

/* A later pass may have better use for a loop: products and scans take in what is elementwise
 * beside them. */
static bool is_wanted(vtb__fuser *f, int group) {
  if (may_be_epilogue(f, group) || is_behind_scan(f, group)) return true;
  if (f->nodes[group].kind != VTB_KERNEL_LOOP || f->nodes[group].strip) return false;
  VTB__EACH_NODE(&f->groups, group, i)
    if (is_read_by_scan(f, i)) return true;
  return false;
}

/* ---- the rules ------------------------------------------------------------------------------- */

/* Groups of these kinds become one kernel if they walk the same space and none waits for the
 * other. */
typedef struct rule {
  unsigned one, other; /* kinds */
  bool strips;         /* sums over leading axes stand beside the rows of the other */
  bool anywhere;       /* they need have nothing in common */
} rule;

enum { LOOPS = 1 << VTB_KERNEL_LOOP | 1 << VTB_KERNEL_ROW, SUMS = 1 << VTB_KERNEL_COL };
static const rule rules[] = {
    [VTB__STRIPS] = {.one = SUMS, .other = LOOPS, .strips = true},
    [VTB__NEIGHBOURS] = {.one = LOOPS, .other = LOOPS},
    [VTB__SIBLINGS] = {.one = SUMS, .other = SUMS},
    [VTB__TOTALS] = {.one = SUMS, .other = SUMS, .anywhere = true},
};

static bool is_of(const vtb__fuse_node *n, unsigned kinds) { return kinds >> n->kind & 1; }

/* Groups that make other parts of what the instruction is a part of, of few numbers each. */
static void list_parts(vtb__fuser *f, const vtb_inst *inst, vtb__node_list *out) {
  int g = vtb__fuse_find(f, inst->order);
  VTB__EACH_USER(&f->groups, inst->order, u) {
    const vtb_inst *whole = f->nodes[*u].inst;
    if (whole->op != VTB_OP_concat || vtb_type_count(&whole->results[0]->type) > MOST_PARTS)
      continue;
    for (int o = 0; o < whole->n_operands; o++) {
      const vtb_inst *part = whole->operands[o]->def;
      if (part && vtb__fuse_find(f, part->order) != g)
        vtb__put(f->func, out, vtb__fuse_find(f, part->order));
    }
  }
}

/* Groups that read or make a value as large as the rows of `group` (or a number, where that is a
 * launch for next to nothing: the samples that blocks drop), each as often as there are such
 * values, and those that make what is put beside few numbers of its own, each a launch; the group
 * itself and those that are no kernels are left out. */
static void list_neighbours(vtb__fuser *f, const rule *r, int group, vtb__node_list *out) {
  int64_t most = vtb_type_count(&f->nodes[group].shape);
  f->reads_now++;
  out->n = 0;
  VTB__EACH_NODE(&f->groups, group, i) {
    const vtb_inst *inst = f->nodes[i].inst;
    list_parts(f, inst, out);
    for (int o = 0; o < inst->n_operands; o++) {
      vtb_value *v = inst->operands[o];
      int64_t n_elements = vtb_type_count(&v->type);
      if (r->other == SUMS ? n_elements == 1
                           : n_elements != most && (n_elements > 1 || most > SMALL))
        continue;
      if (f->reads[v->id] == f->reads_now) continue;
      f->reads[v->id] = f->reads_now;
      size_t first = out->n;
      if (v->def) vtb__put(f->func, out, vtb__fuse_find(f, v->def->order));
      for (vtb_inst **k = vtb__readers(v); *k; k++) {
        int g = vtb__fuse_find(f, (*k)->order);
        bool known = false;
        for (size_t l = first; l < out->n; l++) known |= out->at[l] == g;
        if (!known) vtb__put(f->func, out, g);
      }
    }
  }
}

/* A group is no part of such a kernel, or somebody has better use for it. */
static bool stays_alone(vtb__fuser *f, const rule *r, int group) {
  if (is_of(&f->nodes[group], SUMS))
    return (r->strips && !strip_of(f, group)) || (!r->anywhere && is_beside_scan(f, group));
  return f->nodes[group].has_leaf || is_wanted(f, group);
}

/* Sums of a strip may read what its rows make; else neither reads the other. */
static bool wait(vtb__fuser *f, const rule *r, int a, int b) {
  return vtb__groups_path(&f->groups, a, b, !r->strips || f->groups.place[a] < f->groups.place[b]);
}

static bool fits(vtb__fuser *f, const rule *r, int a, int b) {
  const vtb__fuse_node *x = &f->nodes[a], *y = &f->nodes[b];
  vtb_type s = x->shape, t = y->shape;
  int strip = r->strips ? strip_of(f, a) : x->strip;
  s.dtype = t.dtype = VTB_F32;
  return a != b && is_of(y, r->other) && x->ops + y->ops <= VTB__GROUP_MOST &&
         vtb_type_equal(&s, &t) &&
         (!is_of(y, SUMS) ||
          vtb_type_equal(&x->inst->results[0]->type, &y->inst->results[0]->type)) &&
         (!strip || !y->strip || strip == y->strip) && !stays_alone(f, r, b) && !wait(f, r, a, b);
}

static void list_all(vtb__fuser *f, vtb__node_list *out) {
  out->n = 0;
  for (int i = 0; i < f->groups.n; i++)
    if (vtb__fuse_find(f, i) == i) vtb__put(f->func, out, i);
}

/* The group that may join a and has most in common with it, the first of these; -1: none. */
static int partner_of(vtb__fuser *f, const rule *r, int a, vtb__node_list *list) {
  int best = -1, most = 0;
  if (r->anywhere)
    list_all(f, list);
  else
    list_neighbours(f, r, a, list);
  for (size_t k = 0; k < list->n; k++) {
    int shared = r->anywhere, b = list->at[k];
    for (size_t i = k; i < list->n && !r->anywhere; i++) shared += list->at[i] == b;
    if (shared > most && fits(f, r, a, b)) best = b, most = shared;
  }
  return best;
}

static void put_beside(vtb__fuser *f, const rule *r, int a, int b) {
  const vtb__fuse_node *x = &f->nodes[a], *y = &f->nodes[b];
  int strip = r->strips ? strip_of(f, a) : 0, into = r->strips ? b : a;
  vtb_type shape = f->nodes[into].shape;
  bool waits = wait(f, r, a, b);
  vtb_check(!waits, "groups of @%s that wait for each other", f->func->name);
  vtb__fuse_merge(f, into, a + b - into, x->kind == VTB_KERNEL_ROW ? x->kind : y->kind, &shape);
  if (strip) f->nodes[into].strip = strip;
}

bool vtb__fuse_beside(vtb__fuser *f, vtb__fuse_rule which) {
  const rule *r = &rules[which];
  vtb__node_list list = {0};
  bool any = false;
  for (int i = 0; i < f->groups.n; i++) {
    if (vtb__fuse_find(f, i) != i || !is_of(&f->nodes[i], r->one) || stays_alone(f, r, i)) continue;
    for (int b; vtb__fuse_find(f, i) == i && (b = partner_of(f, r, i, &list)) >= 0; any = true)
      put_beside(f, r, i, b);
  }
  return any;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Strips that `rows` rows are cut into, where the sums are `owners` rows of columns. */
static int64_t count_parts(int64_t rows, int64_t owners, int64_t wanted) {
  int64_t want = (wanted + owners - 1) / owners, range = (rows + want - 1) / want;
  range = round_up(range, LEAST_ROWS);
  return (rows + range - 1) / range;
}

vtb_inst *vtb__fuse_cut(const vtb__fuser *f, vtb_inst *inst, vtb_inst *behind) {
  vtb_value *old = inst->results[0];
  const vtb_type *t = &inst->operands[0]->type;
  vtb_builder b = vtb__before(inst);
  int64_t rows = 1, owners = 1;
  int n;
  const int64_t *axes = vtb_attr_ints(inst, "axes", &n);
  for (int a = 0; a < t->rank - 1; a++) *(a < n ? &rows : &owners) *= t->dim[a].size;
  vtb_attr attrs[] = {VTB_A_INTS("axes", axes, n),
                      VTB_A_INT("parts", count_parts(rows, owners, f->strips))};
  vtb_inst *parts = vtb_build(&b, VTB_OP_reduce_sum, inst->operands, 1, attrs, 2);
  vtb_value *total = parts->results[0];
  b.before = behind;
  if (total->type.dim[0].size > 1)
    total = vtb_b_reduce(&b, VTB_OP_reduce_sum, total, (const int64_t[]){0}, 1, false);
  total = vtb_b_shaped(&b, total, &old->type);
  vtb__stand_in(old, total);
  vtb_inst_unlink(inst);
  return parts;
}

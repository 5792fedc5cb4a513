/* fuse_mixer: what stands around a linear recurrence by products moves into its kernel.
 *
 *   %y, %s, %z, %n = linscan %q, %k, %v, %d {class = "scalar", normalizer = 1, last = 0, ...}
 *   %bound = fused @bound(%z, %m) {kind = "loop"}
 *   %out = fused @norm(%y, %bound, %weight, %gate) {kind = "row"}
 *   =>
 *   %out = fused @norm(%q, %k, %v, %d, %m, %weight, %gate) {kind = "mixer"}
 *   func kernel @norm { the linscan, bound's ops, norm's ops }
 *
 * Blocks of such a recurrence own whole rows of y, and the normalizer of each
 * (text/linscan_tiles.cu), so that what is computed of a token and head, sums over its columns
 * among it, needs nothing else: y is stored only where others read it. After `fuse`, for factors
 * of 16 bits. Takes loops and rows that read y or the normalizer, of as many elements, and what
 * reads those; reductions go over the head's columns. Where no states are made of keys and values,
 * takes a gain of keys, small matrices a group of columns before q, k and v, and, where a block has
 * a whole sequence, what makes decays and gains of gates (fuse_mixer_gates.c). Declines several
 * directions, recurrences whose last state is wanted, and groups of nothing that is worth it.
 */
#include "passes/passes_internal.h"

#include "ir/kernels.h"
#include "ir/narrow.h"
#include "ir/product.h"
#include "ir/recurrence.h"

enum { MOST_OPS = 64, WIDEST = 768 };

typedef struct mixer {
  vtb__group of;
  vtb_func *func;
  vtb_inst *scan;
  int ops;
} mixer;

/* Products on tiles of 16 bits that own whole rows. */
static bool has_whole_rows(const vtb_inst *i) {
  if (i->op != VTB_OP_linscan || !vtb_scan_is_product(i)) return false;
  vtb_factors factors = vtb_factors_of(i);
  vtb_scan s = vtb_scan_of(i);
  return (factors == VTB_FACTORS_BF16 || factors == VTB_FACTORS_FP16) && s.K <= WIDEST &&
         s.V <= WIDEST && s.V > 1 && !s.last;
}

/* ---- what rows can compute ------------------------------------------------------------------- */

static bool has_dims(const vtb_type *t, const vtb_type *of, int n) {
  if (t->rank < n) return false;
  for (int a = 0; a < n; a++)
    if (t->dim[a].size != of->dim[a].size) return false;
  return true;
}

/* [B, N, h, V], or a number a token and head: [B, N, h] or [B, N, h, 1]. */
static bool is_row_shape(const vtb_type *t, const vtb_type *y) {
  if (!has_dims(t, y, 3) || t->rank > 4) return false;
  return t->rank == 3 || t->dim[3].size == 1 || t->dim[3].size == y->dim[3].size;
}

static bool is_of_row(const vtb_inst *x, const vtb_type *y) {
  int n;
  const int64_t *axes;
  switch (vtb_op_get(x->op)->klass) {
  case VTB_CLASS_ELEMENTWISE:
    return true;
  case VTB_CLASS_REDUCE:
    axes = vtb_attr_ints(x, "axes", &n);
    return n == 1 && axes[0] == 3 && x->operands[0]->type.rank == 4 &&
           has_dims(&x->operands[0]->type, y, 4) && !vtb_attr_find(x, "parts");
  default:
    if (x->op == VTB_OP_constant) return vtb_attr_find(x, "data") == NULL;
    return x->op == VTB_OP_broadcast ||
           (x->op == VTB_OP_reshape && is_row_shape(&x->operands[0]->type, y) &&
            is_row_shape(&x->results[0]->type, y));
  }
}

static bool is_taken(const vtb_inst *i, const vtb_type *y) {
  vtb_kernel_kind kind = vtb_kernel_kind_of(i);
  if (kind != VTB_KERNEL_LOOP && kind != VTB_KERNEL_ROW) return false;
  for (const vtb_inst *x = i->callee->first; x; x = x->next)
    if (!is_of_row(x, y)) return false;
  for (int r = 0; r < i->n_results; r++)
    if (i->results[r]->type.dtype != VTB_F32 || !is_row_shape(&i->results[r]->type, y))
      return false;
  return true;
}

/* ---- growth ---------------------------------------------------------------------------------- */

static int ops_of(const vtb_inst *i) {
  int n = 1;
  for (const vtb_inst *x = i->callee ? i->callee->first : NULL; x; x = x->next) n++;
  return n;
}

/* Readers of v, and of what they make: first those that hold up the others. */
static bool take_readers(mixer *m, const vtb_value *v) {
  const vtb_type *y = &m->scan->results[0]->type;
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  bool any = false;
  for (size_t i = 0; i < n; i++) {
    vtb_inst *r = readers[i];
    mixer before = *m;
    bool view = r->op == VTB_OP_reshape && is_row_shape(&r->results[0]->type, y);
    bool took = false;
    if (vtb__group_has(&m->of, r) || (!view && !is_taken(r, y))) continue;
    if (m->ops + ops_of(r) > MOST_OPS || !vtb__group_add(&m->of, r)) continue;
    m->ops += ops_of(r);
    took = !view && vtb__group_stands(&m->of);
    for (int k = 0; (took || view) && k < r->n_results; k++) took |= take_readers(m, r->results[k]);
    if (!took) *m = before;
    any |= took;
  }
  vtb_free(readers);
  return any;
}

/* ---- matrices before the scan ---------------------------------------------------------------- */

bool vtb__is_gain_loop(const vtb_inst *loop) {
  if (vtb_kernel_kind_of(loop) != VTB_KERNEL_LOOP || loop->n_operands != 2) return false;
  const vtb_inst *mul = loop->callee->first;
  if (mul->op != VTB_OP_mul || mul->next) return false;
  const vtb_type *r = &mul->results[0]->type, *x = &mul->operands[0]->type,
                 *y = &mul->operands[1]->type;
  return r->rank == 4 && x->rank == 4 && y->rank == 4 && vtb_type_count(x) != vtb_type_count(y) &&
         is_row_shape(x, r) && is_row_shape(y, r);
}

/* No states are made of keys and values. */
static bool is_parallel(const vtb_inst *scan) {
  vtb_scan s = vtb_scan_of(scan);
  return has_whole_rows(scan) && !s.init && s.chunk >= s.n_tokens;
}

int64_t vtb__small_map_size(const vtb_inst *i) { return i->operands[1]->type.dim[1].size; }

bool vtb__is_small_product(const vtb_inst *i) {
  enum { LARGEST = 32 };
  vtb_blocks b;
  return vtb_blocks_of(i, &b) && i->operands[0]->type.rank == 4 && b.inner == b.outer &&
         b.inner >= 2 && LARGEST % b.inner == 0 && b.at_group == 0;
}

bool vtb__is_small_map(const vtb_inst *i) {
  return vtb__is_small_product(i) && (i->n_operands == 2 || i->operands[2]->type.rank == 2);
}

bool vtb__mixer_takes(const vtb_inst *einsum) {
  if (!vtb__is_small_map(einsum)) return false;
  const vtb_inst *view = vtb_only_reader(einsum->results[0]);
  if (!view || view->op != VTB_OP_reshape) return false;
  const vtb_value *v = view->results[0];
  const vtb_inst *scan = vtb_only_reader(v);
  bool gain = scan && vtb__is_gain_loop(scan) && vtb_type_equal(&scan->results[0]->type, &v->type);
  if (gain) v = scan->results[0], scan = vtb_only_reader(v);
  if (!scan || scan->op != VTB_OP_linscan || !is_parallel(scan)) return false;
  if (v->type.rank != 4 || v->type.dim[3].size % vtb__small_map_size(einsum) != 0)
    return false; /* a head ends in a block */
  int o = 0;
  while (o < 4 && scan->operands[o] != v) o++;
  if (o > 2 || (gain && o != 1)) return false;
  for (int p = 0; p < scan->n_operands; p++)
    if (p != o && scan->operands[p] == v) return false;
  return o < 2 || einsum->n_operands == 2 || vtb_scan_of(scan).normalizer;
}

/* The maps that are in have its size: a kernel has one. */
static bool is_of_size(const vtb__group *g, const vtb_inst *map) {
  for (int i = 0; i < g->n; i++)
    if (vtb__is_small_map(g->at[i]) && vtb__small_map_size(g->at[i]) != vtb__small_map_size(map))
      return false;
  return true;
}

bool vtb__group_take_map(vtb__group *g, vtb_func *f, const vtb_inst *scan, int o,
                         bool (*takes)(const vtb_inst *)) {
  vtb__group before = *g;
  vtb_value *v = scan->operands[o];
  if (v->def && vtb__group_has(g, v->def)) /* times its gain */
    for (int k = 0; k < 2; k++)
      if (vtb_type_equal(&v->def->operands[k]->type, &scan->operands[o]->type)) {
        v = v->def->operands[k];
        break;
      }
  vtb_inst *view = v->def, *einsum = view && view->n_operands == 1 ? view->operands[0]->def : NULL;
  if (!einsum || !takes(einsum) || !is_of_size(g, einsum) || !vtb__group_add(g, view) ||
      !vtb__group_add(g, einsum) || !vtb__group_stands(g)) {
    *g = before;
    return false;
  }
  vtb_value *x = einsum->operands[0], *rows = vtb_behind_reshapes(x);
  vtb_builder b = {.module = f->module, .func = f, .before = einsum, .span = einsum->span};
  if (!vtb_type_equal(&rows->type, &v->type)) rows = vtb_b_reshape(&b, rows, &v->type);
  vtb_value *groups = vtb_b_reshape(&b, rows, &x->type);
  vtb_inst_set_operand(einsum, 0, groups);
  if (groups->def) vtb__group_add(g, groups->def);
  vtb_func_number(f);
  return true;
}

/* Keys times a number a token and head, which nothing else reads: scores are multiplied instead,
 * where no states are made of the keys. */
static bool take_gain(mixer *m) {
  vtb_inst *loop = m->scan->operands[1]->def;
  mixer before = *m;
  int first = INT32_MAX;
  if (!is_parallel(m->scan) || !loop || !vtb__is_gain_loop(loop) || !vtb__group_add(&m->of, loop))
    return false;
  if (!vtb__group_is_read(&m->of, loop->results[0], &first) && vtb__group_stands(&m->of))
    return true;
  *m = before;
  return false;
}

/* Whether y need not be stored, or not be read again. */
static bool saves(const mixer *m) {
  const vtb_value *y = m->scan->results[0];
  bool reads = false;
  for (int i = 0; i < m->of.n; i++)
    for (int o = 0; o < m->of.at[i]->n_operands; o++) reads |= m->of.at[i]->operands[o] == y;
  return reads;
}

/* Gates too, if there is a kernel that takes them. */
static bool take_gates(mixer *m, vtb_asker *asker) {
  const mixer before = *m;
  if (!is_parallel(m->scan) || !vtb__group_take_gates(&m->of, m->scan)) return false;
  const char *kind = vtb_kernel_kind_name(VTB_KERNEL_MIXER);
  if (vtb__group_ask(&m->of, m->func, m->scan, kind, false, asker).takes) return true;
  *m = before;
  return false;
}

static bool visit(vtb_func *f, vtb_inst *scan, vtb_asker *asker) {
  mixer m = {.func = f, .scan = scan};
  vtb_func_number(f);
  vtb__group_add(&m.of, scan);
  for (int again = 1; again;) { /* a row waits for the loop that bounds the normalizer */
    again = 0;
    for (int r = 0; r < scan->n_results; r += 2) again |= take_readers(&m, scan->results[r]);
  }
  bool gain = take_gain(&m);
  bool maps = false;
  for (int o = 0; o < 3; o++) maps |= vtb__group_take_map(&m.of, f, scan, o, vtb__mixer_takes);
  bool gates = take_gates(&m, asker);
  if ((!gain && !maps && !gates && !saves(&m)) || !vtb__group_stands(&m.of)) return false;
  vtb__group_join(&m.of, f, scan, vtb_kernel_kind_name(VTB_KERNEL_MIXER), false);
  return true;
}

vtb_status vtb__pass_fuse_mixer(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    for (vtb_inst *i = f->first, *next; i; i = next) {
      next = i->next;
      if (has_whole_rows(i) && visit(f, i, c->asker)) next = f->first;
    }
  }
  return VTB_OK;
}

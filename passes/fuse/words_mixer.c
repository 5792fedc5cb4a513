/* Words of linear recurrences by products, whose blocks own whole rows of the result and the
 * normalizer of each (text/linscan_tiles.cu, text/linscan_short.cu): see words.h.
 *
 * What is computed of a token and head, sums over its columns among it, needs nothing else. Where
 * no states are made of keys and values, scores can be multiplied instead of keys, and small
 * matrices before queries, keys and values be taken in; where a block has a whole sequence, so can
 * what makes decays and gains of gates. */
#include "ir/narrow.h"
#include "ir/product.h"
#include "ir/recurrence.h"
#include "passes/fuse/words.h"

/* Products on tiles of 16 bits that own whole rows. */
bool vtb__anchor_tiles(const vtb_inst *i) {
  if (i->op != VTB_OP_linscan || !vtb_scan_is_product(i)) return false;
  vtb_factors factors = vtb_factors_of(i);
  vtb_scan s = vtb_scan_of(i);
  return (factors == VTB_FACTORS_BF16 || factors == VTB_FACTORS_FP16) && s.V > 1 && !s.last;
}

/* No states are made of keys and values. */
static bool is_parallel(const vtb_inst *scan) {
  vtb_scan s = vtb_scan_of(scan);
  return vtb__anchor_tiles(scan) && !s.init && s.chunk >= s.n_tokens;
}

/* ---- rows behind ----------------------------------------------------------------------------- */

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

bool vtb__word_head_row(vtb__group *g, vtb_inst *i, const vtb_value *at, const vtb_inst *member) {
  const vtb_type *y = &g->anchor->results[0]->type;
  vtb_kernel_kind kind = vtb_kernel_kind_of(i);
  if ((kind != VTB_KERNEL_LOOP && kind != VTB_KERNEL_ROW) || !is_row_shape(&at->type, y))
    return false;
  /* nothing of what stands before the scan, and no state */
  if (vtb_behind_reshapes(at)->def == g->anchor ? vtb_behind_reshapes(at)->index % 2 != 0
                                                : member->order < g->anchor->order)
    return false;
  for (const vtb_inst *x = i->callee->first; x; x = x->next)
    if (!is_of_row(x, y)) return false;
  for (int r = 0; r < i->n_results; r++)
    if (i->results[r]->type.dtype != VTB_F32 || !is_row_shape(&i->results[r]->type, y))
      return false;
  return vtb__group_add(g, i);
}

/* ---- before: a gain of keys ------------------------------------------------------------------ */

bool vtb__is_gain_loop(const vtb_inst *loop) {
  if (vtb_kernel_kind_of(loop) != VTB_KERNEL_LOOP || loop->n_operands != 2) return false;
  const vtb_inst *mul = loop->callee->first;
  if (mul->op != VTB_OP_mul || mul->next) return false;
  const vtb_type *r = &mul->results[0]->type, *x = &mul->operands[0]->type,
                 *y = &mul->operands[1]->type;
  return r->rank == 4 && x->rank == 4 && y->rank == 4 && vtb_type_count(x) != vtb_type_count(y) &&
         is_row_shape(x, r) && is_row_shape(y, r);
}

bool vtb__word_gain(vtb__group *g, vtb_inst *i, const vtb_value *at, const vtb_inst *member) {
  return member == g->anchor && at == g->anchor->operands[1] && at->def == i &&
         is_parallel(g->anchor) && vtb__is_gain_loop(i) && vtb__group_reads_alone(g, i) &&
         vtb__group_add(g, i);
}

/* ---- before: small matrices ------------------------------------------------------------------ */

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

/* The scan whose kernel multiplies rows by the map, which nothing else reads but through a gain. */
static const vtb_inst *scan_of_map(const vtb_inst *einsum, int *operand) {
  if (!vtb__is_small_map(einsum)) return NULL;
  const vtb_inst *view = vtb_only_reader(einsum->results[0]);
  if (!view || view->op != VTB_OP_reshape) return NULL;
  const vtb_value *v = view->results[0];
  const vtb_inst *scan = vtb_only_reader(v);
  bool gain = scan && vtb__is_gain_loop(scan) && vtb_type_equal(&scan->results[0]->type, &v->type);
  if (gain) v = scan->results[0], scan = vtb_only_reader(v);
  if (!scan || scan->op != VTB_OP_linscan || !is_parallel(scan)) return NULL;
  if (v->type.rank != 4 || v->type.dim[3].size % vtb__small_map_size(einsum) != 0)
    return NULL; /* a head ends in a block */
  int o = 0;
  while (o < 4 && scan->operands[o] != v) o++;
  if (o > 2 || (gain && o != 1)) return NULL;
  for (int p = 0; p < scan->n_operands; p++)
    if (p != o && scan->operands[p] == v) return NULL;
  *operand = o;
  return o < 2 || einsum->n_operands == 2 || vtb_scan_of(scan).normalizer ? scan : NULL;
}

bool vtb__mixer_takes(const vtb_inst *einsum) {
  int o;
  return scan_of_map(einsum, &o) != NULL;
}

/* The map reads rows as the scan would have them, by a reshape of its own. */
void vtb__map_reads_rows(vtb_func *f, vtb_inst *einsum, const vtb_type *rows_type) {
  vtb_value *x = einsum->operands[0], *rows = vtb_behind_reshapes(x);
  if (x->def && x->def->op == VTB_OP_reshape && vtb_only_reader(x) &&
      vtb_type_equal(&x->def->operands[0]->type, rows_type))
    return;
  vtb_builder b = {.module = f->module, .func = f, .before = einsum, .span = einsum->span};
  if (!vtb_type_equal(&rows->type, rows_type)) rows = vtb_b_reshape(&b, rows, rows_type);
  vtb_inst_set_operand(einsum, 0, vtb_b_reshape(&b, rows, &x->type));
  vtb_func_number(f);
}

bool vtb__maps_are_alike(const vtb__group *g, const vtb_inst *map) {
  for (int i = 0; i < g->n; i++)
    if (vtb__is_small_map(g->at[i]) && vtb__small_map_size(g->at[i]) != vtb__small_map_size(map))
      return false;
  return true;
}

bool vtb__word_small_map(vtb__group *g, vtb_inst *i, const vtb_value *at, const vtb_inst *member) {
  int o;
  (void)member;
  if (scan_of_map(i, &o) != g->anchor || !vtb__maps_are_alike(g, i)) return false;
  if (at != g->anchor->operands[o] && !vtb__group_has(g, g->anchor->operands[o]->def))
    return false; /* its gain is not inside */
  vtb__map_reads_rows(g->func, i, &at->type);
  return vtb__group_add(g, i) && vtb__group_add(g, i->operands[0]->def);
}

/* ---- before: the running maximum that stabilises --------------------------------------------- */

static const char *path_of(const vtb_inst *i) { return vtb_attr_str(i, "path", ""); }

static const vtb_inst *maxplus_of(const vtb_inst *fused) {
  const vtb_inst *scan = NULL;
  if (!fused || vtb_kernel_kind_of(fused) != VTB_KERNEL_SCAN) return NULL;
  for (const vtb_inst *i = fused->callee->first; i; i = i->next) {
    if (i->op != VTB_OP_maxplus) continue;
    if (scan) return NULL;
    scan = i;
  }
  return scan && scan->n_operands == 2 ? scan : NULL;
}

/* Numbers of a token, and of the maximum before it. */
static bool is_of_token(const vtb_inst *fused, const vtb_inst *scan) {
  for (const vtb_inst *i = fused->callee->first; i; i = i->next) {
    bool before = i->op == VTB_OP_shift && i->operands[0] == scan->results[0] &&
                  vtb_streq(path_of(i), path_of(scan));
    bool simple = vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE || i->op == VTB_OP_reshape ||
                  i->op == VTB_OP_constant || i->op == VTB_OP_broadcast;
    if (i != scan && !before && !simple) return false;
  }
  return true;
}

/* All that reads result r of the kernel is inside, and where the text has its value: the maximum in
 * rows, a decay as the scan's, a gain as the keys'. */
static bool is_read_well(const vtb__group *g, const vtb_inst *gates, int r, const vtb_inst *scan) {
  const vtb_value *v = gates->results[r];
  bool maximum = gates->callee->returns[r]->def->op == VTB_OP_maxplus;
  if (vtb__group_is_read(g, v)) return false;
  for (int m = 0; m < g->n; m++) {
    const vtb_inst *i = g->at[m];
    for (int o = 0; o < i->n_operands; o++) {
      if (vtb_behind_reshapes(i->operands[o]) != v) continue;
      bool decay = i == scan && o == 3 && i->operands[o] == v;
      bool gain = scan->operands[1]->def == i && vtb__is_gain_loop(i);
      if (maximum ? i == scan || gain : !decay && !gain) return false;
    }
  }
  return true;
}

bool vtb__word_running_maximum(vtb__group *g, vtb_inst *i, const vtb_value *at,
                               const vtb_inst *member) {
  const vtb_inst *scan = g->anchor, *maximum = maxplus_of(i);
  vtb_scan s = vtb_scan_of(scan);
  if (member != scan || at != scan->operands[3] || !maximum || !is_parallel(scan) ||
      !s.decay->by_step || !vtb_streq(path_of(maximum), path_of(scan)) ||
      !is_of_token(i, maximum) ||
      !vtb_type_equal(&maximum->results[0]->type, &scan->operands[3]->type))
    return false;
  bool ok = vtb__group_add(g, i);
  for (int r = 0; ok && r < i->n_results; r++) ok = is_read_well(g, i, r, scan);
  return ok;
}

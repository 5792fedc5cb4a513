/* Words of linear recurrences by products, whose blocks own whole rows of the result and the
 * normalizer of each (text/linscan_tiles.cu, text/linscan_short.cu), and of their adjoints of few
 * tokens (text/linscan_grad_short.cu): see words.h.
 *
 * What is computed of a token and head, sums over its columns among it, needs nothing else. Where
 * no states are made of keys and values, scores can be multiplied instead of keys, and small
 * matrices before queries, keys and values be taken in; where a block has a whole sequence, so can
 * what makes decays and gains of gates. An adjoint's kernel has the sum that is the gain's beside
 * those of the decays', and what small matrices read in shared memory. */
#include "ir/axes.h"
#include "ir/narrow.h"
#include "ir/product.h"
#include "ir/recurrence.h"
#include "passes/fuse/words.h"

static bool has_half_factors(const vtb_inst *scan) {
  vtb_factors factors = vtb_factors_of(scan);
  return factors == VTB_FACTORS_BF16 || factors == VTB_FACTORS_FP16;
}

/* Products on tiles of 16 bits that own whole rows. */
bool vtb__anchor_tiles(const vtb_inst *i) {
  if (i->op != VTB_OP_linscan || !vtb_scan_is_product(i) || !has_half_factors(i)) return false;
  vtb_scan s = vtb_scan_of(i);
  return s.V > 1 && !s.last;
}

bool vtb__anchor_tiles_adjoint(const vtb_inst *i) {
  if (i->op != VTB_OP_linscan_grad || !vtb_scan_is_product(i) || !has_half_factors(i)) return false;
  vtb_scan s = vtb_scan_of(i);
  return s.K > 1 && s.chunk >= s.n_tokens && !s.init && !s.dlast && !s.recurrent;
}

/* No states are made of keys and values. */
static bool is_parallel(const vtb_inst *scan) {
  if (!vtb__anchor_tiles(scan)) return vtb__anchor_tiles_adjoint(scan);
  vtb_scan s = vtb_scan_of(scan);
  return !s.init && s.chunk >= s.n_tokens;
}

/* ---- rows behind ----------------------------------------------------------------------------- */

/* [B, N, h, V], or a number a token and head: [B, N, h] or [B, N, h, 1]. */
static bool is_row_shape(const vtb_type *t, const vtb_type *y) {
  if (!vtb_type_same_axes(t, y, 3) || t->rank > 4) return false;
  return t->rank == 3 || t->dim[3].size == 1 || t->dim[3].size == y->dim[3].size;
}

static bool is_of_row(const vtb_inst *x, const vtb_type *y) {
  switch (vtb_op_get(x->op)->klass) {
  case VTB_CLASS_ELEMENTWISE:
    return true;
  case VTB_CLASS_REDUCE:
    return vtb_reduces_last(x) && x->operands[0]->type.rank == 4 &&
           vtb_type_same_axes(&x->operands[0]->type, y, 4) && !vtb_attr_find(x, "parts");
  default:
    if (x->op == VTB_OP_constant) return vtb_attr_find(x, "data") == NULL;
    return x->op == VTB_OP_broadcast ||
           (x->op == VTB_OP_reshape && is_row_shape(&x->operands[0]->type, y) &&
            is_row_shape(&x->results[0]->type, y));
  }
}

VTB__WORD(head_row) {
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

/* A loop that multiplies rows [B, N, h, K] by a number each and nothing else. */
static bool is_gain_loop(const vtb_inst *loop) {
  if (vtb_kernel_kind_of(loop) != VTB_KERNEL_LOOP || loop->n_operands != 2) return false;
  const vtb_inst *mul = loop->callee->first;
  if (mul->op != VTB_OP_mul || mul->next) return false;
  const vtb_type *r = &mul->results[0]->type, *x = &mul->operands[0]->type,
                 *y = &mul->operands[1]->type;
  return r->rank == 4 && x->rank == 4 && y->rank == 4 && vtb_type_count(x) != vtb_type_count(y) &&
         is_row_shape(x, r) && is_row_shape(y, r);
}

VTB__WORD(gain) {
  return member == g->anchor && at == g->anchor->operands[1] && at->def == i &&
         is_parallel(g->anchor) && is_gain_loop(i) && vtb__group_reads_alone(g, i) &&
         vtb__group_add(g, i);
}

/* ---- behind an adjoint: that of the gain ----------------------------------------------------- */

static bool is_mul(const vtb_inst *i, const vtb_value *x, const vtb_value *y) {
  return i->op == VTB_OP_mul && x && y &&
         ((i->operands[0] == x && i->operands[1] == y) ||
          (i->operands[0] == y && i->operands[1] == x));
}

static const vtb_value *argument_of(const vtb_inst *fused, const vtb_value *v) {
  for (int o = 0; o < fused->n_operands; o++)
    if (fused->operands[o] == v) return fused->callee->args[o];
  return NULL;
}

/* Nothing but d gain and the sum of d keys over columns. */
static bool is_gain_adjoint(const vtb_inst *row, const vtb_value *d, const vtb_inst *loop) {
  bool first = vtb_type_count(&loop->operands[0]->type) < vtb_type_count(&d->type);
  const vtb_value *dk = argument_of(row, d), *gain = argument_of(row, loop->operands[!first]),
                  *keys = argument_of(row, loop->operands[first]);
  bool scaled = false, summed = false;
  for (const vtb_inst *x = row->callee->first; x; x = x->next) {
    const vtb_inst *from = x->operands[0]->def;
    bool sum = x->op == VTB_OP_reduce_sum && vtb_reduces_last(x) && vtb_attr_int(x, "keep", 0);
    if (is_mul(x, dk, gain))
      scaled = true;
    else if (sum && from && is_mul(from, dk, keys))
      summed = true;
    else if (!is_mul(x, dk, keys))
      return false;
  }
  return scaled && summed;
}

VTB__WORD(gain_adjoint) {
  vtb_inst *scan = g->anchor, *loop = scan->operands[1]->def;
  if (member != scan || at != scan->results[1] || !loop || !is_gain_loop(loop) ||
      vtb_kernel_kind_of(i) != VTB_KERNEL_ROW || i->n_results != 2 ||
      !is_gain_adjoint(i, at, loop) || !vtb__group_add(g, loop) || !vtb__group_add(g, i))
    return false;
  return vtb__group_reads_alone(g, loop) && !vtb__group_is_read(g, at) &&
         vtb__group_is_read(g, scan->results[0]) && vtb__group_is_read(g, scan->results[2]) &&
         vtb__group_is_read(g, i->results[0]) && vtb__group_is_read(g, i->results[1]);
}

/* ---- before: small matrices ------------------------------------------------------------------ */

static int64_t small_map_size(const vtb_inst *i) { return i->operands[1]->type.dim[1].size; }

bool vtb__is_small_product(const vtb_inst *i) {
  vtb_blocks b;
  return vtb_blocks_of(i, &b) && i->operands[0]->type.rank == 4 && b.inner == b.outer &&
         vtb_blocks_joined(b.inner) && b.at_group == 0;
}

bool vtb__is_small_map(const vtb_inst *i) {
  return vtb__is_small_product(i) && (i->n_operands == 2 || i->operands[2]->type.rank == 2);
}

/* The scan's kernel multiplies rows by the map, whose result it reads as `rows`, once, through its
 * gain or not, and nobody else does; a head ends in a block. */
static bool is_before_scan(const vtb__group *g, const vtb_inst *map, const vtb_value *rows) {
  const vtb_inst *scan = g->anchor, *view = rows->def, *gain = scan->operands[1]->def;
  if (!is_parallel(scan) || !vtb__is_small_map(map) || !view || view->op != VTB_OP_reshape ||
      vtb_only_reader(map->results[0]) != view || vtb__group_is_read(g, rows) ||
      rows->type.rank != 4 || rows->type.dim[3].size % small_map_size(map) != 0)
    return false;
  bool gained = gain && vtb__group_has(g, gain) && is_gain_loop(gain) &&
                (gain->operands[0] == rows || gain->operands[1] == rows);
  if (gained && !vtb_type_equal(&gain->results[0]->type, &rows->type)) return false;
  int times = gained, at = 1;
  for (int o = 0; o < scan->n_operands; o++)
    if (scan->operands[o] == rows) times++, at = o;
  if (times != 1 || at > 2) return false;
  return at < 2 || map->n_operands == 2 || scan->op == VTB_OP_linscan_grad ||
         vtb_scan_of(scan).normalizer;
}

bool vtb__mixer_takes(const vtb_inst *einsum) {
  const vtb_inst *view = vtb_only_reader(einsum->results[0]);
  vtb_inst *scan = view && view->op == VTB_OP_reshape ? vtb_only_reader(view->results[0]) : NULL;
  vtb_inst *gain = scan && is_gain_loop(scan) ? scan : NULL;
  if (gain) scan = vtb_only_reader(gain->results[0]);
  if (!scan || scan->op != VTB_OP_linscan) return false;
  vtb__group g = vtb__group_round(scan->func, scan);
  return (!gain || vtb__group_add(&g, gain)) && is_before_scan(&g, einsum, view->results[0]);
}

/* The map reads rows as the scan would have them, by a reshape of its own. */
static void map_reads_rows(vtb_func *f, vtb_inst *einsum, const vtb_type *rows_type) {
  vtb_value *x = einsum->operands[0], *rows = vtb_behind_reshapes(x);
  if (x->def && x->def->op == VTB_OP_reshape && vtb_only_reader(x) &&
      vtb_type_equal(&x->def->operands[0]->type, rows_type))
    return;
  vtb_builder b = vtb__before(einsum);
  rows = vtb_b_shaped(&b, rows, rows_type);
  vtb_inst_set_operand(einsum, 0, vtb_b_reshape(&b, rows, &x->type));
  vtb_func_number(f);
}

static bool maps_are_alike(const vtb__group *g, const vtb_inst *map) {
  for (int i = 0; i < g->n; i++)
    if (vtb__is_small_map(g->at[i]) && small_map_size(g->at[i]) != small_map_size(map))
      return false;
  return true;
}

VTB__WORD(small_map) {
  if (!is_before_scan(g, i, at) || !maps_are_alike(g, i)) return false;
  map_reads_rows(g->func, i, &at->type);
  return vtb__group_add(g, i) && vtb__group_add(g, i->operands[0]->def);
}

/* ---- before: the running maximum that stabilises --------------------------------------------- */

static const char *path_of(const vtb_inst *i) { return vtb_attr_str(i, "path", ""); }

/* The maximum of a kernel that has one, numbers of a token and the maximum before it; NULL: another
 * kernel. */
static const vtb_inst *maximum_of(const vtb_inst *fused) {
  if (vtb_kernel_kind_of(fused) != VTB_KERNEL_SCAN) return NULL;
  const vtb_inst *scan = vtb__op_within(fused, VTB_OP_maxplus, VTB_KERNEL_SCAN);
  for (const vtb_inst *i = fused->callee->first; i && scan; i = i->next) {
    bool before = i->op == VTB_OP_shift && i->operands[0] == scan->results[0] &&
                  vtb_streq(path_of(i), path_of(scan));
    bool simple = vtb_op_get(i->op)->klass == VTB_CLASS_ELEMENTWISE || i->op == VTB_OP_reshape ||
                  i->op == VTB_OP_constant || i->op == VTB_OP_broadcast;
    if (i != scan && !before && !simple) return NULL;
  }
  return scan && scan->n_operands == 2 ? scan : NULL;
}

/* All that reads result r of the kernel is inside, and where the text has its value: the maximum in
 * rows, a decay as the scan's, a gain as the keys'. */
static bool is_read_well(const vtb__group *g, const vtb_inst *gates, int r, const vtb_inst *scan) {
  const vtb_value *v = gates->results[r];
  bool maximum = gates->callee->returns[r]->def->op == VTB_OP_maxplus;
  if (vtb__group_is_read(g, v)) return false;
  VTB__EACH_MEMBER_READ(g, m, by) {
    const vtb_inst *i = g->at[m];
    if (vtb_behind_reshapes(*by) != v) continue;
    bool decay = i == scan && by == scan->operands + 3 && *by == v;
    bool gain = scan->operands[1]->def == i && is_gain_loop(i);
    if (maximum ? i == scan || gain : !decay && !gain) return false;
  }
  return true;
}

VTB__WORD(running_maximum) {
  const vtb_inst *scan = g->anchor, *maximum = maximum_of(i);
  vtb_scan s = vtb_scan_of(scan);
  if (member != scan || at != scan->operands[3] || !maximum || !is_parallel(scan) ||
      !s.decay->by_step || !vtb_streq(path_of(maximum), path_of(scan)) ||
      !vtb_type_equal(&maximum->results[0]->type, &scan->operands[3]->type))
    return false;
  bool ok = vtb__group_add(g, i);
  for (int r = 0; ok && r < i->n_results; r++) ok = is_read_well(g, i, r, scan);
  return ok;
}

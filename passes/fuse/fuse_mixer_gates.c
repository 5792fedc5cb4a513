/* Of fuse_mixer: the running maximum that stabilises a recurrence, and what it makes of gates, move
 * into the kernel of its products.
 *
 *   %m, %decay, %gain = fused @m(%i, %f) {kind = "scan"}       maxplus, with what is around it
 *   %out = fused @read(%q, %k, %v, %gain, %decay, %m) {kind = "mixer"}
 *   =>
 *   %out = fused @read(%q, %k, %v, %i, %f) {kind = "mixer"}
 *
 * Where a block owns a whole sequence, which it walks once for the maximum: the kernel says whether
 * it does (passes/cost/ask.h). Rows may read the maximum. Declines what others read too, as the way
 * back does, other paths, and bodies that read other tokens than the one before.
 */
#include "passes/passes_internal.h"

#include "ir/kernels.h"
#include "ir/recurrence.h"

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

/* Views of v that a member reads. */
static bool add_views(vtb__group *g, const vtb_value *v) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  bool ok = true;
  for (size_t i = 0; i < n; i++)
    if (readers[i]->op == VTB_OP_reshape) ok &= vtb__group_add(g, readers[i]);
  vtb_free(readers);
  return ok;
}

/* All that reads result r of the kernel is inside, and where the text has its value: the maximum
 * in rows, a decay as the scan's, a gain as the keys'. */
static bool is_read_well(const vtb__group *g, const vtb_inst *gates, int r, const vtb_inst *scan) {
  const vtb_value *v = gates->results[r];
  bool maximum = gates->callee->returns[r]->def->op == VTB_OP_maxplus;
  int first = INT32_MAX;
  if (vtb__group_is_read(g, v, &first)) return false;
  for (int m = 0; m < g->n; m++) {
    const vtb_inst *i = g->at[m];
    for (int o = 0; o < i->n_operands; o++) {
      const vtb_value *x = vtb_behind_reshapes(i->operands[o]);
      if (x != v || i->op == VTB_OP_reshape) continue;
      bool decay = i == scan && o == 3 && i->operands[o] == v;
      bool gain = scan->operands[1]->def == i && vtb__is_gain_loop(i);
      if (maximum ? i == scan || gain : !decay && !gain) return false;
    }
    for (int k = 0; i->op == VTB_OP_reshape && i->operands[0] == v && k < i->n_results; k++)
      if (vtb__group_is_read(g, i->results[k], &first)) return false;
  }
  return true;
}

bool vtb__group_take_gates(vtb__group *g, const vtb_inst *scan) {
  vtb__group before = *g;
  vtb_inst *gates = scan->operands[3]->def;
  const vtb_inst *maximum = maxplus_of(gates);
  vtb_scan s = vtb_scan_of(scan);
  if (!maximum || !s.decay->by_step || !vtb_streq(path_of(maximum), path_of(scan)) ||
      !is_of_token(gates, maximum) ||
      !vtb_type_equal(&maximum->results[0]->type, &scan->operands[3]->type))
    return false;
  bool ok = vtb__group_add(g, gates);
  for (int r = 0; ok && r < gates->n_results; r++) ok = add_views(g, gates->results[r]);
  for (int r = 0; ok && r < gates->n_results; r++) ok = is_read_well(g, gates, r, scan);
  if (ok && vtb__group_stands(g)) return true;
  *g = before;
  return false;
}

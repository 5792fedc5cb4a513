/* How one instruction follows the rows: which of its axes are the tokens, and what it reads beside
 * its own. */
#include "passes/strips/strips.h"

#include "ir/axes.h"
#include "ir/convolution.h"
#include "ir/fold.h"
#include "ir/product.h"
#include "ir/recurrence.h"

int64_t vtb__strips_total(const vtb__strips *s, const vtb__flow *x) {
  return x->head + s->rows * x->per_row + x->tail;
}

int64_t vtb__strips_shift(const vtb__strip_func *f, const vtb_inst *call) {
  int64_t least = INT64_MAX;
  for (int o = 0; o < call->n_operands; o++) {
    const vtb__flow *x = &f->of[call->operands[o]->id];
    if (x->when == VTB__ROWS && x->lag < least) least = x->lag;
  }
  return least;
}

/* ---- axes ------------------------------------------------------------------------------------ */

enum { TOKENS = 1 }; /* axis of sequences */

/* The operand is a sequence of a recurrence or fold; *is: inst is one of those. */
static bool is_sequence(const vtb_inst *inst, int o, bool *is) {
  *is = true;
  if (inst->op == VTB_OP_linscan) {
    vtb_scan p = vtb_scan_of(inst);
    return o < 3 || (o == 3 && p.decay->by_step);
  }
  if (inst->op == VTB_OP_delta) {
    vtb_delta p = vtb_delta_of(inst);
    return o < 3 || (o == 3 && p.decay->by_step);
  }
  if (inst->op == VTB_OP_fold) {
    vtb_fold p = vtb_fold_of(inst);
    return o >= p.states && o < p.states + p.seqs;
  }
  if (inst->op == VTB_OP_maxplus) return o < 2;
  *is = false;
  return false;
}

int vtb__strips_axis(const vtb_inst *inst, int o, int axis) {
  bool recurs, sequence = is_sequence(inst, o, &recurs);
  const vtb_type *x = &inst->operands[o]->type, *y = &inst->results[0]->type;
  if (recurs) return sequence ? TOKENS : -1;
  if (inst->op == VTB_OP_einsum && o < 2) {
    vtb_product p = vtb_product_of(inst);
    return vtb_product_at(&p, VTB_IN_RESULT, axis)->at[o];
  }
  if (inst->op == VTB_OP_shift) return o ? -1 : axis;
  if (inst->op == VTB_OP_dwconv) return o ? -1 : TOKENS;
  return axis + x->rank - y->rank;
}

int vtb__strips_after(const vtb_inst *inst, int o, int axis) {
  bool recurs, sequence = is_sequence(inst, o, &recurs);
  if (recurs) return sequence && axis == TOKENS ? TOKENS : VTB_AXIS_MIXED;
  return vtb_axis_after(inst, o, axis);
}

static int64_t count_before(const vtb_type *t, int axis) {
  int64_t count = 1;
  for (int a = 0; a < axis; a++) count *= t->dim[a].size;
  return count;
}

/* Rows lie one behind the other in both shapes. */
bool vtb__strips_reshaped(const vtb__strips *s, const vtb_type *from, const vtb_type *to,
                          vtb__flow *x) {
  int64_t before = count_before(from, x->axis), size = from->dim[x->axis].size;
  for (int a = 0; a < to->rank; a++) {
    int64_t now = to->dim[a].size;
    bool same = now == size, rows = !x->head && !x->tail && now >= s->rows && now % s->rows == 0;
    if (count_before(to, a) != before || (!same && !rows)) continue;
    x->axis = a;
    if (!same) x->per_row = now / s->rows;
    return true;
  }
  return false;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static int64_t round_up(int64_t x, int64_t by) { return (x + by - 1) / by; }

/* Of a kernel as high as it is far from its middle to its edges. */
static bool make_window(const vtb__strips *s, const vtb__flow *x, int64_t size, int64_t kernel,
                        int64_t pad, vtb__window *w) {
  if (x->head || x->tail || size % s->rows || kernel != 2 * pad + 1) return false;
  w->lines = size / s->rows;
  w->reach = pad;
  w->lag = round_up(pad, w->lines);
  return true;
}

int vtb__strips_outermost(const vtb_depthwise *d) {
  int a = VTB_GRID_AXES - d->rank;
  while (a < VTB_GRID_AXES - 1 && d->grid[a] == 1) a++;
  return a;
}

bool vtb__strips_window(const vtb__strips *s, const vtb_inst *inst, const vtb__flow *x,
                        vtb__window *w) {
  vtb_depthwise d;
  vtb_patches p;
  *w = (vtb__window){0};
  if (inst->op == VTB_OP_dwconv && vtb_depthwise_of(inst, &d)) {
    int a = vtb__strips_outermost(&d);
    if (d.n_extra || x->axis != TOKENS || vtb_attr_find(inst, "path")) return false;
    w->width = vtb_axes_product(d.grid) / d.grid[a];
    return make_window(s, x, d.grid[a], d.kernel[a], d.pad[a], w);
  }
  if (inst->op == VTB_OP_im2col && vtb_patches_of(inst, &inst->operands[0]->type, &p)) {
    int a = VTB_GRID_AXES - p.rank;
    if (x->axis != 2 || p.stride[a] != 1 || p.low[a] != p.high[a]) return false;
    w->width = vtb_axes_product(p.out) / p.out[a];
    return make_window(s, x, p.size[a], p.kernel[a], p.low[a], w);
  }
  return false;
}

int64_t vtb__strips_causal(const vtb_inst *inst) {
  vtb_depthwise d;
  if (inst->op != VTB_OP_dwconv || !vtb_depthwise_of(inst, &d) ||
      vtb__strips_outermost(&d) < VTB_GRID_AXES - 1)
    return -1;
  int64_t behind = d.pad[VTB_GRID_AXES - 1];
  return !d.n_extra && behind == d.kernel[VTB_GRID_AXES - 1] - 1 ? behind : -1;
}

/* ---- orders ---------------------------------------------------------------------------------- */

const char *vtb__strips_order(const vtb_inst *inst) {
  const char *path = vtb_attr_str(inst, "path", NULL);
  bool back = vtb_attr_int(inst, "reverse", 0) != 0;
  if (!path) return back ? "from the last one on" : NULL;
  int axis = inst->op == VTB_OP_prefix_sum || inst->op == VTB_OP_shift
                 ? (int)vtb_attr_int(inst, "axis", 0)
                 : TOKENS;
  const vtb_value *x = inst->operands[inst->op == VTB_OP_fold ? vtb_fold_of(inst).states : 0];
  int64_t n = x->type.dim[axis].size, *at = vtb__path_indices(inst->func->module, path, n);
  bool same = true, reversed = true;
  for (int64_t i = 0; i < n; i++) {
    same &= at[i] == i;
    reversed &= at[i] == n - 1 - i;
  }
  if (back ? reversed : same) return NULL;
  return (back ? same : reversed) ? "from the last one on" : "in another order than row after row";
}

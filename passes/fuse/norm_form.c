/* What a row kernel computes, if it is a layer norm or an RMS norm.
 *
 *   off = x - mean(x), or x           y = off rsqrt(mean(off off) + eps) [gain] [+ shift]
 *
 * Gains and shifts may be made of several parameters in any way, as long as they are the same for
 * all rows. The rows may be an argument of the kernel, or another result. */
#include <math.h>

#include "passes/fuse/fuse_norms.h"

/* ---- factors and terms ----------------------------------------------------------------------- */

typedef bool (*question)(const vtb_value *v, int64_t width);

static bool is_share(const vtb_value *v, int64_t width) {
  double x, share = 1.0 / (double)width;
  return vtb__splat(v, &x) && fabs(x - share) <= 1e-5 * share;
}

static bool is_number(const vtb_value *v, int64_t width) {
  double x;
  (void)width;
  return vtb__splat(v, &x);
}

static bool is_scale(const vtb_value *v, int64_t width) {
  (void)width;
  return v->def && v->def->op == VTB_OP_rsqrt;
}

/* The same for all rows. */
static bool is_fixed(const vtb_value *v, int64_t width) {
  const vtb_inst *i = v->def;
  if (v->type.rank > 1 || (v->type.rank == 1 && v->type.dim[0].size != width)) return false;
  if (!i || i->op == VTB_OP_constant) return true;
  if (vtb_op_get(i->op)->klass != VTB_CLASS_ELEMENTWISE) return false;
  for (int o = 0; o < i->n_operands; o++)
    if (!is_fixed(i->operands[o], width)) return false;
  return true;
}

/* *v is `op` of something of which the question is true, *found, and of what *v becomes. */
static bool takes_off(const vtb_value **v, vtb_op op, question is, int64_t width,
                      const vtb_value **found) {
  const vtb_inst *i = (*v)->def;
  for (int o = 0; i && i->op == op && o < 2; o++)
    if (is(i->operands[o], width)) {
      *found = i->operands[o];
      *v = i->operands[1 - o];
      return true;
    }
  return false;
}

/* Of what v is the mean over the last axis; NULL: it is none. */
static const vtb_value *mean_of(const vtb_value *v, int64_t width) {
  const vtb_value *share;
  int n;
  if (!takes_off(&v, VTB_OP_mul, is_share, width, &share) || !v->def) return NULL;
  if (v->def->op != VTB_OP_reduce_sum || !vtb_attr_int(v->def, "keep", 0)) return NULL;
  const int64_t *axes = vtb_attr_ints(v->def, "axes", &n);
  const vtb_value *of = v->def->operands[0];
  return n == 1 && axes[0] == of->type.rank - 1 ? of : NULL;
}

/* ---- norms ----------------------------------------------------------------------------------- */

static bool is_rows(const vtb_func *body, const vtb_value *x, const vtb_value *y) {
  return x != y && x->type.dtype == VTB_F32 && vtb_type_equal(&x->type, &y->type) &&
         (!x->def || vtb_is_returned(x)) && x->func == body;
}

static bool read_norm(vtb_inst *row, int which, vtb__norm *out) {
  const vtb_value *y = row->callee->returns[which], *v = y, *scale, *eps;
  vtb__norm n = {.row = row, .which = which};
  if (y->type.rank < 2) return false;
  const int64_t width = y->type.dim[y->type.rank - 1].size;
  takes_off(&v, VTB_OP_add, is_fixed, width, &n.shift);
  takes_off(&v, VTB_OP_mul, is_fixed, width, &n.gain);
  if (!takes_off(&v, VTB_OP_mul, is_scale, width, &scale)) return false;
  const vtb_value *safe = scale->def->operands[0];
  if (!takes_off(&safe, VTB_OP_add, is_number, width, &eps)) return false;
  const vtb_value *square = mean_of(safe, width);
  if (!square || !square->def || square->def->op != VTB_OP_square) return false;
  if (square->def->operands[0] != v) return false;
  n.centred = v->def && v->def->op == VTB_OP_sub &&
              mean_of(v->def->operands[1], width) == v->def->operands[0];
  n.x = n.centred ? v->def->operands[0] : v;
  *out = n;
  return vtb__splat(eps, &out->eps) && is_rows(row->callee, n.x, y);
}

bool vtb__norm_of(vtb_inst *row, vtb__norm *out) {
  if (vtb_kernel_kind_of(row) != VTB_KERNEL_ROW) return false;
  for (int r = 0; r < row->n_results; r++)
    if (read_norm(row, r, out)) return true;
  return false;
}

vtb_value *vtb__norm_rows(const vtb__norm *n) {
  return n->x->def ? n->row->results[vtb_return_of(n->x)] : n->row->operands[n->x->index];
}

/* The form of a layer norm or an RMS norm.
 *
 *   off = x - mean(x), or x           y = off rsqrt(mean(off off) + eps) [gain] [+ shift]
 *
 * Gains and shifts may be made of several parameters in any way, as long as they are the same for
 * all rows. */
#include <math.h>

#include "ir/axes.h"
#include "passes/fuse/fuse_norms.h"

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
  return v->type.rank == 0 || (v->type.rank == 1 && v->type.dim[0].size == width);
}

/* *v is `op` of something of which the question is true, *found, and of what *v becomes. */
static bool takes_off(vtb_value **v, vtb_op op, question is, int64_t width, vtb_value **found) {
  const vtb_inst *i = (*v)->def;
  for (int o = 0; i && i->op == op && o < 2; o++)
    if (is(i->operands[o], width)) {
      *found = i->operands[o];
      *v = i->operands[1 - o];
      return true;
    }
  return false;
}

/* The value whose mean over the last axis v is; NULL: it is no mean. */
static vtb_value *mean_of(vtb_value *v, int64_t width) {
  vtb_value *share;
  if (!takes_off(&v, VTB_OP_mul, is_share, width, &share) || !v->def) return NULL;
  bool sum = v->def->op == VTB_OP_reduce_sum && vtb_reduces_last(v->def);
  return sum && vtb_attr_int(v->def, "keep", 0) ? v->def->operands[0] : NULL;
}

bool vtb__norm_of(vtb_value *y, vtb__norm *out) {
  vtb_value *v = y, *scale, *eps;
  vtb__norm n = {.y = y};
  if (y->type.rank < 2) return false;
  const int64_t width = y->type.dim[y->type.rank - 1].size;
  takes_off(&v, VTB_OP_add, is_fixed, width, &n.shift);
  takes_off(&v, VTB_OP_mul, is_fixed, width, &n.gain);
  if (!takes_off(&v, VTB_OP_mul, is_scale, width, &scale)) return false;
  vtb_value *safe = scale->def->operands[0];
  if (!takes_off(&safe, VTB_OP_add, is_number, width, &eps)) return false;
  const vtb_value *square = mean_of(safe, width);
  if (!square || !square->def || square->def->op != VTB_OP_square) return false;
  if (square->def->operands[0] != v) return false;
  n.centred = v->def && v->def->op == VTB_OP_sub &&
              mean_of(v->def->operands[1], width) == v->def->operands[0];
  n.x = n.centred ? v->def->operands[0] : v;
  *out = n;
  return vtb__splat(eps, &out->eps) && n.x->type.dtype == VTB_F32 &&
         vtb_type_equal(&n.x->type, &y->type);
}

/* Adjoints of reductions and of ops that move elements. d is the adjoint of the result. */
#include "ir/axes.h"
#include "passes/grad/autodiff.h"

#include <string.h>

#define RULE(name) void vtb__grad_##name(vtb__gradient *g, vtb_inst *inst)
#define X (inst->operands[0])

static vtb_value *dr(vtb__gradient *g, vtb_inst *inst) { return vtb__adjoint(g, inst->results[0]); }

/* ---- reductions ------------------------------------------------------------------------------ */

/* v with the reduced axes of size 1. */
static vtb_value *with_kept_axes(vtb_builder *b, const vtb_inst *inst, vtb_value *v) {
  int n;
  const int64_t *axes = vtb_attr_ints(inst, "axes", &n);
  vtb_type t = inst->operands[0]->type;
  for (int i = 0; i < n; i++) t.dim[axes[i]].size = 1;
  return vtb_b_shaped(b, v, &t);
}

RULE(reduce_sum) {
  vtb_value *d = with_kept_axes(&g->b, inst, dr(g, inst));
  vtb__contribute(g, X, vtb_b_broadcast(&g->b, d, &X->type));
}

/* How many samples the batch has, as a number. */
static vtb_value *batch_size(vtb_builder *b) {
  vtb_type t = VTB__F32({VTB_DYN, NULL});
  return vtb_b_reduce(b, VTB_OP_reduce_sum, vtb_b_splat(b, 1, &t), (int64_t[]){0}, 1, false);
}

/* -(row-major index over the reduced axes), of a shape that broadcasts to x. Axes of the batch
 * count slowest. */
static vtb_value *negated_index(vtb_builder *b, const vtb_inst *inst) {
  int n;
  const int64_t *axes = vtb_attr_ints(inst, "axes", &n);
  vtb_value *total = NULL, *slow = NULL; /* slow: what an axis of the batch before multiplies */
  int64_t stride = 1;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = n - 1; i >= 0; i--) {
      vtb_dim dim = inst->operands[0]->type.dim[axes[i]];
      if (vtb_is_batch(dim.size) != (pass == 1)) continue;
      vtb_type one = VTB__F32(dim);
      vtb_type t = vtb_type_among_ones(&one, (int[]){(int)axes[i]}, inst->operands[0]->type.rank);
      vtb_value *at = vtb_b_iota(b, (int)axes[i], &t);
      at = vtb_b_binary(b, VTB_OP_mul, at, vtb_b_constant(b, (double)-stride));
      at = vtb__joined(b, VTB_OP_mul, at, slow);
      total = vtb__joined(b, VTB_OP_add, total, at);
      stride *= vtb_bound_size(dim.size, 1);
      if (vtb_is_batch(dim.size)) slow = vtb__joined(b, VTB_OP_mul, slow, batch_size(b));
    }
  }
  return total;
}

/* Elements equal to the maximum are marked with their negated index, and the largest mark is
 * kept. */
vtb_value *vtb__first_largest(vtb_builder *b, const vtb_inst *inst) {
  int n;
  const int64_t *axes = vtb_attr_ints(inst, "axes", &n);
  if (n == 0) return NULL;
  vtb_value *top = with_kept_axes(b, inst, inst->results[0]);
  vtb_value *at = negated_index(b, inst);
  vtb_value *mark =
      vtb_b_select(b, vtb_b_binary(b, VTB_OP_eq, X, top), at, vtb_b_constant(b, -3e38));
  vtb_value *first = vtb_b_reduce(b, VTB_OP_reduce_max, mark, axes, n, true);
  return vtb_b_binary(b, VTB_OP_eq, mark, first);
}

RULE(reduce_max) {
  vtb_value *d = with_kept_axes(&g->b, inst, dr(g, inst));
  vtb_value *first = vtb__first_largest(&g->b, inst);
  if (first) d = vtb_b_select(&g->b, first, d, vtb_b_constant(&g->b, 0.0));
  vtb__contribute(g, X, d);
}

/* ---- views ----------------------------------------------------------------------------------- */

RULE(reshape) { vtb__contribute(g, X, vtb_b_reshape(&g->b, dr(g, inst), &X->type)); }
RULE(broadcast) { vtb__contribute(g, X, dr(g, inst)); }
RULE(tap) { vtb__contribute(g, X, dr(g, inst)); }

RULE(transpose) {
  int n;
  const int64_t *perm = vtb_attr_ints(inst, "perm", &n);
  int64_t inverse[VTB_MAX_RANK] = {0};
  for (int a = 0; a < n; a++) inverse[perm[a]] = a;
  vtb__contribute(g, X, vtb_b_transpose(&g->b, dr(g, inst), inverse));
}

RULE(slice) {
  vtb_slice s = vtb_slice_of(inst);
  int64_t behind = s.start + (inst->results[0]->type.dim[s.axis].size - 1) * s.step + 1;
  vtb_value *d = dr(g, inst);
  if (s.step == 1)
    vtb__contribute_slice(g, X, d, s.axis, s.start, s.limit);
  else
    vtb__contribute(
        g, X, vtb__build_pad(&g->b, d, s.axis, s.start, X->type.dim[s.axis].size - behind, s.step));
}

RULE(pad) {
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  int64_t low = vtb_attr_int(inst, "low", 0), step = vtb_attr_int(inst, "step", 1);
  int64_t limit = low + (X->type.dim[axis].size - 1) * step + 1;
  vtb__contribute(g, X, vtb_b_slice(&g->b, dr(g, inst), axis, low, limit, step));
}

RULE(concat) {
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  vtb_value *d = dr(g, inst);
  int64_t at = 0;
  for (int k = 0; k < inst->n_operands; k++) {
    vtb_value *x = inst->operands[k];
    int64_t size = x->type.dim[axis].size;
    if (vtb__wants(x))
      vtb__contribute(g, x,
                      inst->n_operands == 1 ? d : vtb_b_slice(&g->b, d, axis, at, at + size, 1));
    at += size;
  }
}

RULE(permute) {
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  bool inverse = vtb_attr_int(inst, "inverse", 0) != 0;
  vtb__contribute(
      g, X, vtb_b_permute(&g->b, dr(g, inst), axis, vtb_attr_str(inst, "path", ""), !inverse));
}

/* dx is d shifted back with zeros; the operand that filled the open end gets d there. */
RULE(shift) {
  int axis = (int)vtb_attr_int(inst, "axis", 0);
  int64_t by = vtb_attr_int(inst, "by", 0);
  vtb_value *d = dr(g, inst);
  if (vtb__wants(X)) {
    vtb_attr attrs[3] = {VTB_A_INT("axis", axis), VTB_A_INT("by", -by)};
    int n = 2 + vtb_attrs_of(inst, "path", attrs + 2);
    vtb__contribute(g, X, vtb_build(&g->b, VTB_OP_shift, &d, 1, attrs, n)->results[0]);
  }
  if (inst->n_operands == 2 && by != 0 && vtb__wants(inst->operands[1])) {
    /* the step that has no predecessor, or no successor */
    int64_t at = vtb__path_end(g->ad->module, vtb_attr_str(inst, "path", NULL),
                               X->type.dim[axis].size, by < 0);
    vtb_value *end = vtb_b_slice(&g->b, d, axis, at, at + 1, 1);
    vtb__contribute(g, inst->operands[1], vtb_b_reshape(&g->b, end, &inst->operands[1]->type));
  }
}

/* ---- places that indices name ---------------------------------------------------------------- */

RULE(gather) {
  int64_t axis = vtb_attr_int(inst, "axis", 0);
  vtb_attr attrs[] = {VTB_A_INT("axis", axis), VTB_A_INT("size", X->type.dim[axis].size)};
  vtb_value *operands[] = {dr(g, inst), inst->operands[1]};
  vtb__contribute(
      g, X,
      vtb_build_typed(&g->b, VTB_OP_scatter_sum, operands, 2, attrs, 2, &X->type, 1)->results[0]);
}

RULE(scatter_sum) {
  vtb__contribute(
      g, X,
      vtb_b_gather(&g->b, dr(g, inst), inst->operands[1], (int)vtb_attr_int(inst, "axis", 0)));
}

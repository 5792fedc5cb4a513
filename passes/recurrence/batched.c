/* Batched values of a recurrence: their axes, and what is done with those alone. */
#include "passes/recurrence/recurrence.h"

/* The axes of r->batch, r->tokens, r->heads that `lead` stands for, then dims. */
vtb_type vtb__rec_type(const vtb__rec *r, int lead, const vtb_dim *dims, int rank) {
  vtb_type t = {.dtype = VTB_F32};
  if (lead >= 2) t.dim[t.rank++] = r->batch;
  if (lead == 3) t.dim[t.rank++] = r->tokens;
  if (lead >= 1) t.dim[t.rank++] = r->heads;
  for (int a = 0; a < rank; a++) t.dim[t.rank++] = dims[a];
  return t;
}

vtb_type vtb__ones_behind(const vtb_type *t, int lead) {
  vtb_type ones = *t;
  for (int a = lead; a < t->rank; a++) ones.dim[a] = (vtb_dim){.size = 1};
  return ones;
}

/* The leading axes of x as they are (the head axis may be missing its size), then dims. */
vtb_value *vtb__rec_reshape(vtb__rec *r, vtb__lifted x, const vtb_dim *dims, int rank) {
  vtb_type t = vtb_type_behind(&x.v->type, x.lead, dims, rank);
  return vtb_b_shaped(&r->b, x.v, &t);
}

/* Step axes of size 1 in front, up to `rank`. */
vtb__lifted vtb__rec_to_rank(vtb__rec *r, vtb__lifted x, int rank) {
  if (x.rank >= rank) return x;
  vtb_type step = vtb_type_behind(&x.v->type, 0, x.v->type.dim + x.lead, x.rank);
  step = vtb_type_among_ones(&step, NULL, rank);
  x.v = vtb__rec_reshape(r, x, step.dim, rank);
  x.rank = rank;
  return x;
}

vtb__lifted vtb__rec_number(vtb__rec *r, double c) {
  return (vtb__lifted){.v = vtb_b_constant(&r->b, c)};
}

vtb__lifted vtb__rec_binary(vtb__rec *r, vtb_op op, vtb__lifted x, vtb__lifted y) {
  int rank = vtb__larger(x.rank, y.rank);
  x = vtb__rec_to_rank(r, x, rank), y = vtb__rec_to_rank(r, y, rank);
  return (vtb__lifted){vtb_b_binary(&r->b, op, x.v, y.v), vtb__larger(x.lead, y.lead), rank, 0};
}

vtb_value *vtb__rec_full(vtb__rec *r, vtb__lifted x, const vtb_dim *dims, int rank) {
  x = vtb__rec_to_rank(r, x, rank);
  vtb_type t = vtb__rec_type(r, 3, dims, rank);
  return vtb_b_stretched(&r->b, x.v, &t);
}

vtb_value *vtb__rec_shift(vtb__rec *r, vtb_value *x, int by, double fill, vtb_value *first) {
  vtb_attr attrs[4] = {VTB_A_INT("axis", 1), VTB_A_INT("by", by)};
  int n = 2;
  if (!first && fill != 0) attrs[n++] = VTB_A_FLOAT("fill", fill);
  if (r->path) attrs[n++] = VTB_A_STR("path", r->path);
  vtb_value *operands[] = {x, first};
  return vtb_build(&r->b, VTB_OP_shift, operands, first ? 2 : 1, attrs, n)->results[0];
}

int vtb__rec_order(const vtb__rec *r, vtb_attr attrs[2]) {
  return vtb_attrs_of(r->inst, "path layout", attrs);
}

vtb_value *vtb__rec_largest(vtb__rec *r, vtb_value *x, int lead) {
  int64_t axes[VTB_MAX_RANK];
  int n = 0;
  for (int a = lead; a < x->type.rank; a++) axes[n++] = a;
  return n ? vtb_b_reduce(&r->b, VTB_OP_reduce_max, x, axes, n, false) : x;
}

/* A product and its sum as ops of a body: for products that are no work for a matrix kernel. */
#include "codegen/body/body.h"
#include "ir/ops.h"

#include "ir/product.h"

/* `x` with an axis for each of the first n letters of `order`, size 1 where it, factor `which`, has
 * it not. */
static vtb_value *spread(vtb_builder *b, vtb_value *x, int which, const vtb_letter *const *order,
                         int n) {
  int64_t perm[VTB_MAX_RANK];
  vtb_type shape = {.dtype = x->type.dtype, .rank = n};
  int rank = 0;
  for (int i = 0; i < n; i++) {
    int at = order[i]->at[which];
    shape.dim[i].size = at >= 0 ? x->type.dim[at].size : 1;
    if (at >= 0) perm[rank++] = at;
  }
  return vtb_b_reshape(b, vtb_b_transpose(b, x, perm), &shape);
}

static vtb_value *slice_of(vtb_builder *b, vtb_value *x, int axis, int64_t k) {
  return x->type.dim[axis].size > 1 ? vtb_b_slice(b, x, axis, k, k + 1, 1) : x;
}

/* The sum over axes from `axis` on, written out: the innermost loop runs along the result's last
 * letter. */
static vtb_value *unrolled_sum(vtb_builder *b, vtb_value *x, vtb_value *y, int axis, int n) {
  if (axis == n) return vtb_b_binary(b, VTB_OP_mul, x, y);
  int64_t size = x->type.dim[axis].size > 1 ? x->type.dim[axis].size : y->type.dim[axis].size;
  vtb_value *sum = NULL;
  for (int64_t k = 0; k < size; k++) {
    vtb_value *part =
        unrolled_sum(b, slice_of(b, x, axis, k), slice_of(b, y, axis, k), axis + 1, n);
    sum = sum ? vtb_b_binary(b, VTB_OP_add, sum, part) : part;
  }
  return sum;
}

vtb_value *vtb__einsum_sum(vtb_builder *b, const vtb_inst *inst, vtb_value *x, vtb_value *y,
                           bool unroll) {
  vtb_product p = vtb_product_of(inst);
  const vtb_letter *order[VTB_MOST_LETTERS]; /* of the loops: the result's, then the summed ones */
  int n = 0, n_out = p.rank[VTB_IN_RESULT];
  int64_t axes[VTB_MAX_RANK];
  for (int a = 0; a < n_out; a++) order[n++] = vtb_product_at(&p, VTB_IN_RESULT, a);
  for (int l = 0; l < p.n; l++)
    if (p.letters[l].at[VTB_IN_RESULT] < 0) order[n++] = &p.letters[l];
  vtb_check(n <= VTB_MAX_RANK, "einsum \"%s\" has more than %d letters", vtb_einsum_text(inst),
            VTB_MAX_RANK);
  x = spread(b, x, 0, order, n);
  y = spread(b, y, 1, order, n);
  if (unroll) return vtb_b_reshape(b, unrolled_sum(b, x, y, n_out, n), &inst->results[0]->type);
  for (int i = n_out; i < n; i++) axes[i - n_out] = i;
  vtb_value *r = vtb_b_binary(b, VTB_OP_mul, x, y);
  return n > n_out ? vtb_b_reduce(b, VTB_OP_reduce_sum, r, axes, n - n_out, false) : r;
}

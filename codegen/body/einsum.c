/* A product and its sum as ops of a body: for products that are no work for a matrix kernel. */
#include "codegen/body/body.h"

#include <string.h>

enum { MOST_LETTERS = 3 * VTB_MAX_RANK };

/* The letters in the order of the loops: the result's, then the summed ones. */
static int loop_order(const vtb_inst *inst, char *order) {
  const char *spec = vtb_attr_str(inst, "spec", ""), *out = strchr(spec, '>') + 1;
  int n = 0;
  for (; *out; out++) order[n++] = *out;
  for (const char *p = spec; *p && *p != '-'; p++)
    if (*p != ',' && !memchr(order, *p, (size_t)n)) order[n++] = *p;
  return n;
}

int vtb__einsum_letters(const vtb_inst *inst) {
  char order[MOST_LETTERS];
  return loop_order(inst, order);
}

/* `x` with one axis a letter of `order`, size 1 where x lacks it. */
static vtb_value *spread(vtb_builder *b, vtb_value *x, const char *letters, const char *order,
                         int n) {
  int64_t perm[VTB_MAX_RANK];
  vtb_type shape = {.dtype = x->type.dtype, .rank = n};
  int rank = 0;
  for (int i = 0; i < n; i++) {
    const char *at = memchr(letters, order[i], (size_t)x->type.rank);
    shape.dim[i].size = at ? x->type.dim[at - letters].size : 1;
    if (at) perm[rank++] = at - letters;
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
  char order[MOST_LETTERS];
  const char *spec = vtb_attr_str(inst, "spec", "");
  int n = loop_order(inst, order), n_out = inst->results[0]->type.rank;
  int64_t axes[VTB_MAX_RANK];
  vtb_check(n <= VTB_MAX_RANK, "einsum \"%s\" has more than %d letters", spec, VTB_MAX_RANK);
  x = spread(b, x, spec, order, n);
  y = spread(b, y, strchr(spec, ',') + 1, order, n);
  if (unroll) return vtb_b_reshape(b, unrolled_sum(b, x, y, n_out, n), &inst->results[0]->type);
  for (int i = n_out; i < n; i++) axes[i - n_out] = i;
  vtb_value *r = vtb_b_binary(b, VTB_OP_mul, x, y);
  return n > n_out ? vtb_b_reduce(b, VTB_OP_reduce_sum, r, axes, n - n_out, false) : r;
}

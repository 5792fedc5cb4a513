/* fuse_bias: gradients of a weight and of its bias become one kernel.
 *
 *   %db = reduce_sum %dy {axes = [0, 1]}
 *   %dw = dwconv_dw %x, %dy {...}
 *   =>
 *   %dw, %db = fused @dw(%x, %dy) {kind = "sums"}
 *
 * Both are sums over the rows of dy, so that it is read once; likewise behind a block-diagonal
 * projection, whose gradient is einsum "bngo,bngi->goi" of dy and x. Before `fuse`, which else puts
 * the sum beside other sums, for targets with such kernels. Declines if something between the two
 * reads the first, and convolutions with more taps than registers.
 */
#include "passes/passes_internal.h"

#include "ir/convolution.h"
#include "ir/kernels.h"
#include "ir/product.h"

#include <stdlib.h>

enum { MOST_BLOCK = 32, LEAST_ROWS = 64 };

/* Number of the operand that is dy, behind whose leading axes are `channels`; -1: none. */
static int adjoint_of(const vtb_inst *i, int64_t *channels) {
  if (i->op == VTB_OP_dwconv_dw) {
    vtb_depthwise d;
    if (!vtb_depthwise_of(i, &d)) return -1;
    *channels = d.channels;
    return d.kernel[0] * d.kernel[1] * d.kernel[2] <= VTB_MOST_TAPS ? 1 : -1;
  }
  if (!vtb_is_blocks_gradient(i) || i->n_operands != 2) return -1;
  const vtb_type *x = &i->operands[0]->type, *y = &i->operands[1]->type;
  int n = x->rank;
  int64_t size = x->dim[n - 1].size, groups = x->dim[n - 2].size;
  if (size > MOST_BLOCK || y->dim[n - 1].size > MOST_BLOCK || size < 2 || groups < 2) return -1;
  *channels = groups * size;
  return vtb_type_count(x) / *channels >= LEAST_ROWS ? 0 : -1;
}

/* Over all axes but those that make up the channels. */
static bool sums_rows(const vtb_inst *i, int64_t channels) {
  int n;
  const int64_t *axes = vtb_attr_ints(i, "axes", &n);
  if (i->op != VTB_OP_reduce_sum || vtb_type_count(&i->results[0]->type) != channels) return false;
  for (int a = 0; a < n; a++)
    if (axes[a] != a) return false;
  return true;
}

/* The sum of dy, wherever it is reshaped between. */
static vtb_inst *find_sum(vtb_value *dy, int64_t channels) {
  vtb_inst **readers, *found = NULL;
  size_t n = vtb_value_readers(dy, &readers);
  for (size_t r = 0; r < n && !found; r++) {
    if (sums_rows(readers[r], channels)) found = readers[r];
    if (readers[r]->op == VTB_OP_reshape) found = find_sum(readers[r]->results[0], channels);
  }
  vtb_free(readers);
  return found;
}

static vtb_inst *join(vtb_func *f, vtb_inst *weight, vtb_inst *sum, int dy) {
  vtb_inst *later = weight->order > sum->order ? weight : sum;
  vtb_func *k = vtb__kernel_new(weight);
  vtb_builder b = {.module = f->module, .func = k, .span = weight->span};
  vtb_value *args[2], *returns[2];
  for (int o = 0; o < 2; o++)
    args[o] = vtb_func_add_arg(k, weight->operands[o]->name, weight->operands[o]->type);
  returns[0] = vtb_inst_clone(&b, weight, args)->results[0];
  vtb_value *x = args[dy];
  if (!vtb_type_equal(&x->type, &sum->operands[0]->type))
    x = vtb_b_reshape(&b, x, &sum->operands[0]->type);
  returns[1] = vtb_inst_clone(&b, sum, &x)->results[0];
  vtb_func_set_returns(k, returns, NULL, 2);
  vtb_builder outer = {.module = f->module, .func = f, .before = later, .span = weight->span};
  vtb_attr kind = VTB_A_STR("kind", vtb_kernel_kind_name(VTB_KERNEL_SUMS));
  vtb_inst *fused = vtb_build_call(&outer, VTB_OP_fused, k, weight->operands, 2, &kind, 1);
  vtb_inst *old[] = {weight, sum};
  for (int r = 0; r < 2; r++) {
    vtb__stand_in(old[r]->results[0], fused->results[r]);
    vtb_inst_unlink(old[r]);
  }
  return fused;
}

vtb_status vtb__pass_fuse_bias(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    vtb_func_number(f);
    for (vtb_inst *i = f->first, *next; i; i = next) {
      int64_t channels;
      int dy = adjoint_of(i, &channels);
      next = i->next;
      if (dy < 0) continue;
      vtb_inst *sum = find_sum(vtb_behind_reshapes(i->operands[dy]), channels);
      if (!sum || vtb_read_by(sum->order < i->order ? sum->results[0] : i->results[0],
                              sum->order < i->order ? i : sum))
        continue;
      if (next == sum) next = sum->next;
      join(f, i, sum, dy);
      vtb_func_number(f);
    }
  }
  return VTB_OK;
}

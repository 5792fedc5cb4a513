/* factor_sums: the sum of a product's factor over the product's depth is a result of the product.
 *
 *   %b = fused @col(%dy) {kind = "col"}          func kernel @col { reduce_sum {axes = [0, 1]} }
 *   %w = einsum %dy, %x {spec = "bne,bnc->ec"}
 *   =>
 *   %w, %b = fused @product(%dy, %x) {kind = "product"}
 *   func kernel @product { einsum, reduce_sum of %dy }
 *
 * The gradient of a bias beside that of its weight: the product has the factor's tiles in shared
 * memory anyway, so that its sums are products with ones. They are rounded as the product's factors
 * are. After fuse, `precision` and `library`, for targets with tensor cores. Declines products of
 * the library, sums over other axes, and sums that are read before the product stands.
 */
#include "passes/passes_internal.h"

#include "ir/kernels.h"
#include "ir/product.h"
#include "passes/fuse/product.h"

/* The sum that is all of `i`, or NULL. */
static const vtb_inst *sum_in(const vtb_inst *i) {
  if (i->n_results != 1 || i->n_operands != 1) return NULL;
  if (i->op == VTB_OP_reduce_sum) return i;
  if (vtb_kernel_kind_of(i) != VTB_KERNEL_COL) return NULL;
  const vtb_inst *only = i->callee->first;
  return only && !only->next && only->op == VTB_OP_reduce_sum ? only : NULL;
}

static bool is_summed(const vtb_inst *sum, int axis) {
  int n;
  const int64_t *axes = vtb_attr_ints(sum, "axes", &n);
  for (int a = 0; a < n; a++)
    if (axes[a] == axis) return true;
  return false;
}

/* Whether the sum is over those axes of factor `which` that the product sums over. */
static bool over_depth(const vtb_inst *sum, const vtb_inst *einsum, int which) {
  vtb_product p = vtb_product_of(einsum);
  for (int axis = 0; axis < p.rank[which]; axis++) {
    const vtb_letter *l = vtb_product_at(&p, which, axis);
    if (l->size != 1 && is_summed(sum, axis) == (l->at[VTB_IN_RESULT] >= 0)) return false;
  }
  return true;
}

static vtb_inst *find_sum(const vtb_inst *einsum, int which) {
  vtb_inst **readers, *found = NULL;
  size_t n = vtb_value_readers(einsum->operands[which], &readers);
  for (size_t k = 0; k < n && !found; k++) {
    const vtb_inst *sum = sum_in(readers[k]);
    if (sum && over_depth(sum, einsum, which) && !vtb_read_by(readers[k]->results[0], einsum))
      found = readers[k];
  }
  vtb_free(readers);
  return found;
}

static void merge(vtb_func *f, vtb_inst *einsum, vtb_inst *whole, int which) {
  vtb_func *kernel = vtb__kernel_new(einsum);
  vtb_builder b = {.module = f->module, .func = kernel, .span = einsum->span};
  vtb_value *args[3], *returns[2];
  for (int o = 0; o < einsum->n_operands; o++)
    args[o] = vtb_func_add_arg(kernel, einsum->operands[o]->name, einsum->operands[o]->type);
  returns[0] = vtb_inst_clone(&b, einsum, args)->results[0];
  returns[1] = vtb_inst_clone(&b, (vtb_inst *)sum_in(whole), &args[which])->results[0];
  vtb_func_set_returns(kernel, returns, NULL, 2);
  vtb_builder outer = {.module = f->module, .func = f, .before = einsum, .span = einsum->span};
  vtb_attr attr = VTB_A_STR("kind", vtb_kernel_kind_name(VTB_KERNEL_PRODUCT));
  vtb_inst *fused =
      vtb_build_call(&outer, VTB_OP_fused, kernel, einsum->operands, einsum->n_operands, &attr, 1);
  fused->order = einsum->order;
  vtb__stand_in(einsum->results[0], fused->results[0]);
  vtb__stand_in(whole->results[0], fused->results[1]);
  vtb_inst_unlink(whole);
  vtb_inst_unlink(einsum);
}

vtb_status vtb__pass_factor_sums(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    vtb_func_number(f);
    for (vtb_inst *i = f->first, *next; i; i = next) {
      next = i->next;
      if (i->op != VTB_OP_einsum || vtb_attr_int(i, "library", 0) || !vtb_is_product(i)) continue;
      for (int which = 0; which < 2; which++) {
        vtb_inst *whole = find_sum(i, which);
        if (!whole) continue;
        if (next == whole) next = whole->next;
        merge(f, i, whole, which);
        break;
      }
    }
  }
  return VTB_OK;
}

/* fuse_products: an elementwise kernel that alone reads a product becomes its epilogue.
 *
 *   %p = einsum %x, %w {spec = "abc,dc->abd"}
 *   %y = fused @loop(%p, %r) {kind = "loop"}
 *   =>
 *   %y = fused @product(%x, %w, %r) {kind = "product"}
 *   func kernel @product { einsum, then the loop's ops }
 *
 * After `fuse`, for targets whose products have room for an epilogue; those of a vendor's library
 * have none. The epilogue sees an element of the product while it is in registers: all ops are
 * elementwise, all results have the product's shape. Declines otherwise.
 */
#include "passes/passes_internal.h"

#include "ir/kernels.h"

#include <stdlib.h>
#include <string.h>

static bool same_shape(const vtb_type *a, const vtb_type *b) {
  return a->dtype == VTB_F32 && b->dtype == VTB_F32 && vtb_type_equal(a, b);
}

/* The operand of `loop` that is the product, or -1 if it is none, or several. */
static int operand_of(const vtb_inst *loop, const vtb_value *product) {
  int at = -1;
  for (int o = 0; o < loop->n_operands; o++) {
    if (loop->operands[o] != product) continue;
    if (at >= 0) return -1;
    at = o;
  }
  return at;
}

static bool is_epilogue(const vtb_inst *loop, const vtb_value *product) {
  if (vtb_kernel_kind_of(loop) != VTB_KERNEL_LOOP) return false;
  for (int r = 0; r < loop->n_results; r++)
    if (!same_shape(&loop->results[r]->type, &product->type)) return false;
  for (const vtb_inst *i = loop->callee->first; i; i = i->next)
    if (i->op != VTB_OP_constant && vtb_op_get(i->op)->klass != VTB_CLASS_ELEMENTWISE) return false;
  return operand_of(loop, product) >= 0;
}

/* The only user of v, or NULL. */
static vtb_inst *only_user(const vtb_value *v, const int *uses) {
  if (uses[v->id] != 1) return NULL;
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  vtb_inst *user = n ? readers[0] : NULL;
  vtb_free(readers);
  return user;
}

/* The ops of `loop` behind the product, in kernel function k; `inside` gives the values of the
 * loop's arguments. */
static void copy_body(vtb_builder *b, const vtb_inst *loop, vtb_value **inside) {
  const vtb_func *body = loop->callee;
  for (const vtb_inst *i = body->first; i; i = i->next) {
    vtb_value **operands = vtb_xcalloc((size_t)i->n_operands + 1, sizeof *operands);
    for (int o = 0; o < i->n_operands; o++) operands[o] = inside[i->operands[o]->id];
    vtb_inst *copy = vtb_inst_clone(b, i, operands);
    for (int r = 0; r < i->n_results; r++) inside[i->results[r]->id] = copy->results[r];
    vtb_free(operands);
  }
}

static void merge(vtb_func *f, vtb_inst *einsum, vtb_inst *loop) {
  vtb_module *m = f->module;
  vtb_func *k = vtb__kernel_new(einsum);
  vtb_builder b = {.module = m, .func = k, .span = einsum->span};
  int n = 0, at = operand_of(loop, einsum->results[0]);
  vtb_value **inputs = vtb_xcalloc((size_t)(einsum->n_operands + loop->n_operands), sizeof *inputs);
  vtb_value **inside = vtb_xcalloc((size_t)loop->callee->n_values + 1, sizeof *inside);
  vtb_value **returns = vtb_xcalloc((size_t)loop->n_results + 1, sizeof *returns);
  vtb_value *factors[3];
  for (int o = 0; o < einsum->n_operands; o++) {
    inputs[n++] = einsum->operands[o];
    factors[o] = vtb_func_add_arg(k, einsum->operands[o]->name, einsum->operands[o]->type);
  }
  for (int o = 0; o < loop->n_operands; o++) {
    if (o == at) continue;
    inputs[n++] = loop->operands[o];
    inside[loop->callee->args[o]->id] =
        vtb_func_add_arg(k, loop->operands[o]->name, loop->operands[o]->type);
  }
  inside[loop->callee->args[at]->id] = vtb_inst_clone(&b, einsum, factors)->results[0];
  copy_body(&b, loop, inside);
  for (int r = 0; r < loop->n_results; r++) returns[r] = inside[loop->callee->returns[r]->id];
  vtb_func_set_returns(k, returns, NULL, loop->n_results);
  vtb_builder outer = {.module = m, .func = f, .before = loop, .span = einsum->span};
  vtb_attr attr = VTB_A_STR("kind", vtb_kernel_kind_name(VTB_KERNEL_PRODUCT));
  vtb_inst *fused = vtb_build_call(&outer, VTB_OP_fused, k, inputs, n, &attr, 1);
  for (int r = 0; r < loop->n_results; r++) {
    vtb_replace_all(loop->results[r], fused->results[r]);
    vtb__swap_names(loop->results[r], fused->results[r]);
  }
  vtb_inst_unlink(loop);
  vtb_inst_unlink(einsum);
  vtb_free(inputs);
  vtb_free(inside);
  vtb_free(returns);
}

vtb_status vtb__pass_fuse_products(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  if (c->library) return VTB_OK;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    int *uses = vtb_count_uses(f);
    int n = f->n_values;
    for (vtb_inst *i = f->first, *next; i; i = next) {
      next = i->next;
      if (i->op != VTB_OP_einsum || i->results[0]->id >= n) continue;
      vtb_inst *user = only_user(i->results[0], uses);
      if (!user || !is_epilogue(user, i->results[0])) continue;
      if (next == user) next = user->next;
      merge(f, i, user);
    }
    vtb_free(uses);
  }
  return VTB_OK;
}

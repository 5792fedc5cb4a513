/* fuse_conv_take: the adjoints of a depthwise convolution make dy themselves.
 *
 *   %dy = fused @d_silu(%a, %d) {kind = "loop"}                  or "local", without a convolution
 *   %dw, %d = fused @dx(%x, %dy, %w) {kind = "local"}            of fuse_conv_grad
 *   =>
 *   %dw, %d = fused @dx(%a, %d, %x, %w) {kind = "local"}
 *
 * The derivative of what is behind a convolution, with the gates' part of it: dy is not in memory.
 * After `fuse_conv_grad`. Declines grids of frames or of wide rows, since a block keeps whole rows
 * in shared memory, and what anything else reads.
 */
#include "passes/passes_internal.h"

#include "ir/convolution.h"
#include "ir/kernels.h"

enum { BLOCK_ROWS = 4, MOST_TOKENS = 192 }; /* of rows in shared memory: 96 KB */

static const vtb_inst *find(const vtb_inst *i, vtb_op op) {
  for (const vtb_inst *k = i->callee->first; k; k = k->next)
    if (k->op == op) return k;
  return NULL;
}

/* Of an element and those of its token: nothing that other elements of it add to or move. */
static bool is_elementwise(const vtb_inst *i) {
  for (const vtb_inst *k = i->callee->first; k; k = k->next)
    if (vtb_op_get(k->op)->klass != VTB_CLASS_ELEMENTWISE && k->op != VTB_OP_reshape &&
        (k->op != VTB_OP_constant || vtb_attr_find(k, "data")) &&
        (k->op != VTB_OP_einsum || vtb_is_share(k)))
      return false;
  return true;
}

static vtb_inst *maker_of(const vtb_value *dy, const vtb_inst *reader) {
  vtb_inst *i = dy->def;
  if (!i || i->op != VTB_OP_fused || i->n_results != 1 || !is_elementwise(i)) return NULL;
  vtb_kernel_kind kind = vtb_kernel_kind_of(i);
  if (kind != VTB_KERNEL_LOOP && kind != VTB_KERNEL_LOCAL) return NULL;
  return vtb_only_reader(dy) == reader ? i : NULL;
}

/* Nothing of the kernel but the adjoints themselves reads dy. */
static bool is_only_convolved(const vtb_value *dy) {
  vtb_inst **all;
  size_t n = vtb_value_readers(dy, &all);
  bool only = true;
  for (size_t r = 0; r < n; r++)
    only &= all[r]->op == VTB_OP_dwconv_dx || all[r]->op == VTB_OP_dwconv_dw ||
            all[r]->op == VTB_OP_reduce_sum;
  vtb_free(all);
  return only;
}

static bool visit(vtb_func *f, vtb_inst *i) {
  if (i->op != VTB_OP_fused || vtb_kernel_kind_of(i) != VTB_KERNEL_LOCAL) return false;
  const vtb_inst *dx = find(i, VTB_OP_dwconv_dx), *dw = find(i, VTB_OP_dwconv_dw);
  vtb_depthwise d;
  if (!dx || !dw || !vtb_depthwise_of(dx, &d) || d.grid[0] != 1 || d.kernel[0] != 1 ||
      (BLOCK_ROWS + d.kernel[1] - 1) * d.grid[2] > MOST_TOKENS)
    return false;
  const vtb_value *dy = dx->operands[0];
  if (dy->def || dw->operands[1] != dy || !is_only_convolved(dy)) return false;
  vtb__group g = {.at = {maker_of(i->operands[dy->index], i), i}, .n = 2};
  if (!g.at[0] || !vtb__group_stands(&g)) return false;
  vtb__group_join(&g, f, i, vtb_kernel_kind_name(VTB_KERNEL_LOCAL), false);
  vtb_func_number(f);
  return true;
}

vtb_status vtb__pass_fuse_conv_take(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    vtb_func_number(f);
    for (vtb_inst *i = f->first, *next; i; i = next) {
      next = i->next;
      visit(f, i);
    }
  }
  return VTB_OK;
}

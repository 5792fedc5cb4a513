/* fuse_conv_grad: a depthwise convolution's adjoints become one kernel.
 *
 *   %dw, %db = fused @dw(%x, %dy) {kind = "sums"}       or a bare dwconv_dw
 *   %d = fused @dx(%dy, %w, %g) {kind = "local"}        a dwconv_dx and what is behind it, or bare
 *   =>
 *   %dw, %db, %d = fused @dx(%x, %dy, %w, %g) {kind = "local"}
 *
 * A window of dy that moves along the grid is all that both need of it: products with the taps add
 * up to dx, products with the input to dw, so that dy is read once. After `fuse_local`. Declines
 * more taps than registers, and padding that is not less than the kernel.
 */
#include "passes/passes_internal.h"

#include "ir/convolution.h"
#include "ir/kernels.h"

/* Of a thread; products of small matrices need four channels in one. */
enum { MOST_TAPS = 25, MOST_TAPS_OF_FOUR = 9 };

/* The op of this kind that i is or holds. */
static const vtb_inst *find(const vtb_inst *i, vtb_op op, vtb_kernel_kind kind) {
  if (i->op == op) return i;
  if (i->op != VTB_OP_fused || vtb_kernel_kind_of(i) != kind) return NULL;
  const vtb_inst *k = i->callee->first;
  return k && k->op == op ? k : NULL;
}

static bool has(const vtb_inst *i, vtb_op op) {
  if (i->op != VTB_OP_fused) return false;
  for (const vtb_inst *k = i->callee->first; k; k = k->next)
    if (k->op == op) return true;
  return false;
}

/* Sums over channels, which the convolution's own kernel keeps factors of. */
static bool has_share(const vtb_inst *i) {
  if (i->op != VTB_OP_fused) return false;
  for (const vtb_inst *k = i->callee->first; k; k = k->next)
    if (vtb_is_share(k)) return true;
  return false;
}

static bool fits(const vtb_inst *i, const vtb_inst *dx) {
  vtb_depthwise d;
  if (!vtb_depthwise_of(dx, &d) || has(i, VTB_OP_dwconv_dw) || has_share(i)) return false;
  for (int a = 0; a < VTB_GRID_AXES; a++)
    if (d.pad[a] < 0 || d.pad[a] >= d.kernel[a]) return false;
  return vtb_axes_product(d.kernel) <= (has(i, VTB_OP_einsum) ? MOST_TAPS_OF_FOUR : MOST_TAPS);
}

static bool same_ints(const vtb_inst *x, const vtb_inst *y, const char *name) {
  int n, m;
  const int64_t *a = vtb_attr_ints(x, name, &n), *b = vtb_attr_ints(y, name, &m);
  if (n != m) return false;
  for (int i = 0; i < n; i++)
    if (a[i] != b[i]) return false;
  return true;
}

static bool same_convolution(const vtb_inst *dx, const vtb_inst *dw) {
  vtb_depthwise d, e;
  if (!vtb_depthwise_of(dx, &d) || !vtb_depthwise_of(dw, &e)) return false;
  for (int a = 0; a < VTB_GRID_AXES; a++)
    if (d.kernel[a] != e.kernel[a]) return false;
  return same_ints(dx, dw, "grid") && same_ints(dx, dw, "pad") &&
         vtb_streq(vtb_attr_str(dx, "path", ""), vtb_attr_str(dw, "path", ""));
}

/* The operand of i that is that of its op, which comes first: their arguments are in order. */
static const vtb_value *operand_of(const vtb_inst *i, const vtb_inst *op, int n) {
  return i == op ? i->operands[n] : i->operands[op->operands[n]->index];
}

/* Reshapes of v that stand before `last` go behind it. */
static void sink_views(const vtb_value *v, vtb_inst *last) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  for (size_t r = n; r-- > 0;) {
    if (readers[r]->op != VTB_OP_reshape) continue;
    sink_views(readers[r]->results[0], last);
    if (readers[r]->order < last->order) vtb_inst_move_before(readers[r], last->next);
  }
  vtb_free(readers);
}

/* Whether nothing but reshapes reads v before `last`. */
static bool is_read_behind(const vtb_value *v, const vtb_inst *last) {
  vtb_inst **readers;
  size_t n = vtb_value_readers(v, &readers);
  bool behind = true;
  for (size_t r = 0; r < n; r++)
    behind &= readers[r]->op == VTB_OP_reshape ? is_read_behind(readers[r]->results[0], last)
                                               : readers[r]->order > last->order;
  vtb_free(readers);
  return behind;
}

static bool stands(vtb_func *f, vtb_inst *x, vtb_inst *y) {
  vtb__group g = {.at = {x, y}, .n = 2};
  if (vtb__group_stands(&g)) return true;
  vtb_inst *first = x->order < y->order ? x : y, *last = x->order < y->order ? y : x;
  for (int r = 0; r < first->n_results; r++)
    if (!is_read_behind(first->results[r], last)) return false;
  for (int r = 0; r < first->n_results; r++) sink_views(first->results[r], last);
  vtb_func_number(f);
  return vtb__group_stands(&g);
}

static bool visit(vtb_func *f, vtb_inst *i, const vtb_inst *dx) {
  vtb_inst **readers, *sums = NULL;
  const vtb_value *dy = operand_of(i, dx, 0);
  size_t n = vtb_value_readers(dy, &readers);
  for (size_t r = 0; r < n && !sums; r++) {
    const vtb_inst *dw = find(readers[r], VTB_OP_dwconv_dw, VTB_KERNEL_SUMS);
    if (dw && operand_of(readers[r], dw, 1) == dy && same_convolution(dx, dw)) sums = readers[r];
  }
  vtb_free(readers);
  vtb__group g = {.at = {sums, i}, .n = 2};
  int first = INT32_MAX;
  if (!sums || !vtb__group_is_read(&g, sums->results[0], &first) || !stands(f, sums, i))
    return false;
  vtb__group_join(&g, f, i, vtb_kernel_kind_name(VTB_KERNEL_LOCAL), false);
  vtb_func_number(f);
  return true;
}

vtb_status vtb__pass_fuse_conv_grad(vtb_pass_context *c, vtb_error *err) {
  (void)err;
  for (vtb_func *f = c->module->first; f; f = f->next) {
    if (f->kind != VTB_FUNC_PLAIN) continue;
    vtb_func_number(f);
    for (vtb_inst *i = f->first, *next; i; i = next) {
      const vtb_inst *dx = find(i, VTB_OP_dwconv_dx, VTB_KERNEL_LOCAL);
      next = i->next;
      if (dx && fits(i, dx) && visit(f, i, dx)) next = f->first;
    }
  }
  return VTB_OK;
}

/* Words of kernels that compute, for a token and a few channels, from that token and those channels
 * alone (a convolution's input and a few numbers a token apart): see words.h. */
#include "ir/convolution.h"
#include "ir/product.h"
#include "passes/fuse/words.h"

enum { BLOCK = 4 }; /* channels of a thread of local kernels, and of their small matrices */

/* ---- what may be inside ---------------------------------------------------------------------- */

static bool is_convolution(const vtb_inst *i) {
  return i->op == VTB_OP_dwconv || i->op == VTB_OP_dwconv_dx;
}

/* "bngi,goi->bngo" with the letters of the matrix in any order. */
static bool is_block(const vtb_inst *i) {
  vtb_blocks b;
  if (!vtb_blocks_of(i, &b) || b.inner != BLOCK || b.outer != BLOCK) return false;
  return (i->n_operands == 2 || !vtb_type_is_dynamic(&i->operands[2]->type)) &&
         !vtb__mixer_takes(i);
}

/* "bne,ed->bnd" with few e, its matrix in any order: a few numbers a token, spread over
 * channels. */
static bool is_thin(const vtb_inst *i) {
  if (i->op != VTB_OP_einsum) return false;
  vtb_product p = vtb_product_of(i);
  return p.rank[1] == 2 && vtb_product_keeps_rows(&p) && p.rank[0] >= 2 &&
         vtb_product_only(&p, VTB_LETTER_SUM)->size <= VTB_SHORT_SUM &&
         vtb_product_only(&p, VTB_LETTER_COLUMNS)->size % BLOCK == 0;
}

static bool is_core(const vtb_inst *i) {
  return is_convolution(i) || is_block(i) || is_thin(i) || vtb_is_share(i);
}

bool vtb__anchor_local(const vtb_inst *i) { return is_core(i) && !vtb_is_share(i); }

static bool is_loop(const vtb_inst *i) {
  if (!vtb__is_elementwise(i)) return false;
  for (int r = 1; r < i->n_results; r++)
    if (vtb_type_count(&i->results[r]->type) != vtb_type_count(&i->results[0]->type)) return false;
  return true;
}

/* One is a reshape of the other along whole axes or parts of them, so that indices of one split
 * into those of the other. */
static bool same_elements(const vtb_type *x, const vtb_type *y) {
  if (x->dtype != VTB_F32 || y->dtype != VTB_F32) return false;
  if (vtb_type_count(x) != vtb_type_count(y) || vtb_type_count(x) == 0) return false;
  int a = x->rank, b = y->rank;
  int64_t m = 1, n = 1;
  while (a > 0 || b > 0) {
    if (m == n) {
      if (a > 0) m *= x->dim[--a].size;
      if (b > 0) n *= y->dim[--b].size;
    } else if (m < n && a > 0) {
      m *= x->dim[--a].size;
    } else if (n < m && b > 0) {
      n *= y->dim[--b].size;
    } else {
      return false;
    }
    if (m % n && n % m) return false;
  }
  return true;
}

/* ---- joining --------------------------------------------------------------------------------- */

static vtb_inst *convolution_of(const vtb__group *g) {
  for (int m = 0; m < g->n; m++)
    if (is_convolution(g->at[m])) return g->at[m];
  return NULL;
}

/* Adds a share if the group has the convolution that it reads around, and what else adds up with
 * it, and if something else reads what the group makes of the channels. */
static bool take_share(vtb__group *g, vtb_inst *i) {
  const vtb_inst *conv = convolution_of(g);
  bool shares = false, adds = i->n_operands < 3 || vtb__group_maker(g, i->operands[2]),
       read = false;
  if (!conv || conv->op != VTB_OP_dwconv) return false;
  for (int m = 0; m < g->n; m++) shares |= vtb_is_share(g->at[m]);
  bool made = vtb__group_maker(g, i->operands[0]) ||
              vtb_behind_reshapes(i->operands[0]) == vtb_behind_reshapes(conv->operands[0]);
  if (!made || !adds || shares != (i->n_operands == 3) || !vtb__group_add(g, i)) return false;
  for (int m = 0; m < g->n; m++)
    for (int r = 0; r < g->at[m]->n_results && !vtb_is_share(g->at[m]); r++)
      read |= vtb__group_is_read(g, g->at[m]->results[r]);
  return read;
}

static bool takes(vtb__group *g, vtb_inst *i) {
  const vtb_inst *conv = convolution_of(g);
  if (vtb_is_share(i)) return take_share(g, i);
  if (!is_core(i) && !is_loop(i)) return false;
  if (!same_elements(&g->anchor->results[0]->type, &i->results[0]->type)) return false;
  if (conv && is_convolution(i)) return false;
  for (int o = 0; conv && o < conv->n_operands; o++)
    if (vtb_behind_reshapes(conv->operands[o])->def == i) return false;
  for (int o = 0; o < i->n_operands && is_convolution(i); o++)
    if (vtb__group_maker(g, i->operands[o])) return false;
  if (is_convolution(i)) g->anchor = i; /* its kernel computes the others where it has its sum */
  return vtb__group_add(g, i);
}

VTB__WORD(local) { return takes(g, i); }

VTB__WORD(local_sibling) {
  bool large = vtb_type_count(&at->type) * 2 >= vtb_type_count(&g->anchor->results[0]->type);
  return is_core(i) && large && takes(g, i);
}

/* ---- adjoints of convolutions ---------------------------------------------------------------- */

static const vtb_inst *adjoint_within(const vtb_inst *i) {
  return vtb__op_within(i, VTB_OP_dwconv_dx, VTB_KERNEL_LOCAL);
}

static bool has(const vtb_inst *i, vtb_op op) {
  return i->op == VTB_OP_fused && vtb__op_within(i, op, vtb_kernel_kind_of(i)) != NULL;
}

/* Sums over channels, which the convolution's own kernel keeps factors of. */
static bool has_share(const vtb_inst *i) {
  for (const vtb_inst *k = i->op == VTB_OP_fused ? i->callee->first : NULL; k; k = k->next)
    if (vtb_is_share(k)) return true;
  return false;
}

bool vtb__anchor_filter_adjoint(const vtb_inst *i) {
  const vtb_inst *dx = adjoint_within(i);
  vtb_depthwise d;
  if (!dx || !vtb_depthwise_of(dx, &d) || has(i, VTB_OP_dwconv_dw) || has_share(i)) return false;
  for (int a = 0; a < VTB_GRID_AXES; a++)
    if (d.pad[a] < 0 || d.pad[a] >= d.kernel[a]) return false;
  return true;
}

static bool same_convolution(const vtb_inst *dx, const vtb_inst *dw) {
  vtb_depthwise d, e;
  if (!vtb_depthwise_of(dx, &d) || !vtb_depthwise_of(dw, &e)) return false;
  for (int a = 0; a < VTB_GRID_AXES; a++)
    if (d.kernel[a] != e.kernel[a] || d.grid[a] != e.grid[a] || d.pad[a] != e.pad[a]) return false;
  if (d.n_extra != e.n_extra) return false;
  for (int t = 0; t < d.n_extra; t++)
    if (d.extra[t] != e.extra[t]) return false;
  return vtb_streq(vtb_attr_str(dx, "path", ""), vtb_attr_str(dw, "path", ""));
}

VTB__WORD(filter_gradient) {
  const vtb_inst *dx = adjoint_within(g->anchor),
                 *dw = vtb__op_within(i, VTB_OP_dwconv_dw, VTB_KERNEL_SUMS);
  return g->n == 1 && member == g->anchor && dw && vtb__operand_of(g->anchor, dx, 0) == at &&
         vtb__operand_of(i, dw, 1) == at && same_convolution(dx, dw) && vtb__group_add(g, i);
}

/* ---- what makes the adjoint ------------------------------------------------------------------ */

/* Nothing of the kernel but the adjoints themselves reads dy. */
static bool is_only_convolved(const vtb_value *dy) {
  for (vtb_inst **r = vtb__readers(dy); *r; r++)
    if ((*r)->op != VTB_OP_dwconv_dx && (*r)->op != VTB_OP_dwconv_dw &&
        (*r)->op != VTB_OP_reduce_sum)
      return false;
  return true;
}

bool vtb__anchor_filter_adjoints(const vtb_inst *i) {
  const vtb_inst *dx = i->op == VTB_OP_fused ? adjoint_within(i) : NULL;
  vtb_depthwise d;
  if (!dx || !vtb_depthwise_of(dx, &d) || d.grid[0] != 1 || d.kernel[0] != 1) return false;
  const vtb_inst *dw = vtb__op_within(i, VTB_OP_dwconv_dw, VTB_KERNEL_LOCAL);
  const vtb_value *dy = dx->operands[0];
  return dw && !dy->def && dw->operands[1] == dy && is_only_convolved(dy);
}

/* True of what an element makes of itself and its token's: no sum, no move of other elements. */
static bool is_at_element(const vtb_inst *i) {
  vtb_kernel_kind kind = vtb_kernel_kind_of(i);
  if (kind != VTB_KERNEL_LOOP && kind != VTB_KERNEL_LOCAL) return false;
  for (const vtb_inst *k = i->callee->first; k; k = k->next)
    if (vtb_op_get(k->op)->klass != VTB_CLASS_ELEMENTWISE && k->op != VTB_OP_reshape &&
        !vtb_is_splat(k) && (k->op != VTB_OP_einsum || vtb_is_share(k)))
      return false;
  return true;
}

VTB__WORD(adjoint_maker) {
  const vtb_inst *dx = adjoint_within(g->anchor);
  return g->n == 1 && member == g->anchor && vtb__operand_of(g->anchor, dx, 0) == at &&
         at->def == i && i->n_results == 1 && is_at_element(i) && vtb__group_reads_alone(g, i) &&
         vtb__group_add(g, i);
}

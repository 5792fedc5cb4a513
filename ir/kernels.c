/* See kernels.h. */
#include "ir/kernels.h"
#include "ir/ops.h"
#include "ir/product.h"

enum { DENSE, ANYWHERE, ANYTHING = 0, ROWS };

static const struct {
  const char *name;
  bool stores_anywhere, reads_rows;
} kinds[] = {
#define VTB_KERNEL(id, name, cpu, cuda, stores, reads, what) {name, stores, reads},
#include "ir/kernels.def"
#undef VTB_KERNEL
};

bool vtb_kernel_kind_find(const char *name, vtb_kernel_kind *k) {
  for (int i = 0; i < VTB_KERNEL_NONE; i++) {
    if (!vtb_streq(kinds[i].name, name)) continue;
    *k = (vtb_kernel_kind)i;
    return true;
  }
  return false;
}

vtb_kernel_kind vtb_kernel_kind_of(const vtb_inst *inst) {
  vtb_kernel_kind k = VTB_KERNEL_NONE;
  if (inst->op != VTB_OP_fused) return k;
  const char *name = vtb_attr_str(inst, "kind", kinds[VTB_KERNEL_LOOP].name);
  vtb_check(vtb_kernel_kind_find(name, &k), "no kernel is of kind \"%s\"", name);
  return k;
}

const char *vtb_kernel_kind_name(vtb_kernel_kind k) { return kinds[k].name; }
bool vtb_kernel_stores_anywhere(vtb_kernel_kind k) {
  return k != VTB_KERNEL_NONE && kinds[k].stores_anywhere;
}
bool vtb_kernel_reads_rows(vtb_kernel_kind k) {
  return k != VTB_KERNEL_NONE && kinds[k].reads_rows;
}

bool vtb_is_share(const vtb_inst *i) {
  if (i->op != VTB_OP_einsum) return false;
  vtb_product p = vtb_product_of(i);
  const vtb_letter *share = vtb_product_only(&p, VTB_LETTER_BATCH),
                   *channel = vtb_product_only(&p, VTB_LETTER_SUM),
                   *column = vtb_product_only(&p, VTB_LETTER_COLUMNS);
  int n = p.rank[0];
  if (!share || !channel || !column || p.count[VTB_LETTER_ALONE] || n < 3 ||
      p.rank[VTB_IN_RESULT] != n || share->at[0] != n - 2 || channel->at[0] != n - 1)
    return false;
  for (int a = 0; a < n - 2; a++)
    if (p.of[0][a] != p.of[VTB_IN_RESULT][a + 1]) return false;
  return share->at[VTB_IN_RESULT] == 0 && share->at[1] == 1 && channel->at[1] == 2 &&
         column->at[VTB_IN_RESULT] == n - 1;
}

/* The mean of of[.., C], and the sum of the squares of what it is off it. */
vtb_row_parts vtb_row_parts_of(const vtb_func *body) {
  vtb_row_parts none = {0}, p = {0};
  for (int r = 0; r < body->n_returns; r++) {
    const vtb_inst *sum = body->returns[r]->def;
    if (!sum || sum->op != VTB_OP_reduce_sum) continue;
    const vtb_inst *square = sum->operands[0]->def;
    if (!square || square->op != VTB_OP_square) continue;
    const vtb_inst *off = square->operands[0]->def;
    if (!off || off->op != VTB_OP_sub) return none;
    p = (vtb_row_parts){.of = off->operands[0], .mean = -1, .squares = r};
  }
  for (int r = 0; p.of && r < body->n_returns; r++)
    if (r != p.squares && vtb_type_equal(&body->returns[r]->type, &body->returns[p.squares]->type))
      p.mean = r;
  return p.of && p.mean >= 0 ? p : none;
}

/* join_products: narrow products of one operand become one product.
 *
 *   %i = einsum %x, %wi {spec = "bnd,hd->bnh"}         %w = concat %wi, %wf {axis = 0}
 *   %f = einsum %x, %wf {spec = "bnd,hd->bnh"}   =>    %y = einsum %x, %w {spec = "bnd,hd->bnh"}
 *                                                      %i = slice %y ...   %f = slice %y ...
 *
 * A product with few columns takes as long as reading its large operand takes; the gates of a cell
 * then read it once, and so do their adjoints. Before autodiff and before distribute. Declines wide
 * products and second operands that are computed after the first product.
 */
#include "passes/passes_internal.h"

#include "ir/product.h"

enum { MOST_COLUMNS = 32 };

/* Axis of the letter that only operand 1 and the result have; -1 if there is not exactly one, if it
 * is not the result's last, or if another letter of operand 1 is not summed. */
static int column_axis(const vtb_inst *e) {
  vtb_product p = vtb_product_of(e);
  const vtb_letter *column = vtb_product_only(&p, VTB_LETTER_COLUMNS);
  bool last = column && column->at[VTB_IN_RESULT] == p.rank[VTB_IN_RESULT] - 1;
  return last && !p.count[VTB_LETTER_BATCH] ? column->at[1] : -1;
}

static bool is_candidate(const vtb_inst *e, int *axis) {
  if (e->op != VTB_OP_einsum || e->n_operands != 2) return false;
  *axis = column_axis(e);
  return *axis >= 0 && e->operands[1]->type.dim[*axis].size > 0 &&
         e->operands[1]->type.dim[*axis].size <= MOST_COLUMNS / 2;
}

static bool alike(const vtb_inst *first, const vtb_inst *e, int axis) {
  vtb_type x = vtb_type_without_axis(&first->operands[1]->type, axis),
           y = vtb_type_without_axis(&e->operands[1]->type, axis);
  return first->operands[0] == e->operands[0] && vtb_type_equal(&x, &y) &&
         vtb_einsum_alike(first, e) && vtb_made_before(e->operands[1], first);
}

static void join(vtb_inst **group, int n, int axis) {
  vtb_inst *first = group[0];
  vtb_builder b = vtb__before(first);
  vtb_value *columns[MOST_COLUMNS];
  for (int i = 0; i < n; i++) columns[i] = group[i]->operands[1];
  vtb_value *w = vtb_b_concat(&b, columns, n, axis);
  vtb_value *y = vtb_b_einsum_like(&b, first, first->operands[0], w);
  int last = y->type.rank - 1;
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    vtb_value *old = group[i]->results[0];
    int64_t size = columns[i]->type.dim[axis].size;
    vtb_value *part = vtb_b_slice(&b, y, last, at, at + size, 1);
    vtb__stand_in(old, part);
    at += size;
  }
  for (int i = 0; i < n; i++) vtb_inst_unlink(group[i]);
}

/* i and the products after it that can join it; how many. */
static int find_group(vtb_inst *i, int axis, vtb_inst **group) {
  int64_t columns = i->operands[1]->type.dim[axis].size;
  int other, n = 0;
  group[n++] = i;
  for (vtb_inst **r = vtb__readers(i->operands[0]); *r; r++) {
    vtb_inst *e = *r;
    if (e->order <= i->order || !is_candidate(e, &other) || other != axis || !alike(i, e, axis))
      continue;
    columns += e->operands[1]->type.dim[axis].size;
    if (columns > MOST_COLUMNS) break;
    group[n++] = e;
  }
  return n;
}

void vtb__visit_join_products(const vtb_pass_context *c, vtb_func *f) {
  (void)c;
  vtb_func_number(f);
  for (vtb_inst *i = f->first, *next; i; i = next) {
    vtb_inst *group[MOST_COLUMNS];
    int axis;
    next = i->next;
    if (!is_candidate(i, &axis)) continue;
    int n = find_group(i, axis, group);
    if (n < 2) continue;
    for (int k = 1; k < n; k++)
      if (next == group[k]) next = next->next;
    join(group, n, axis);
  }
}

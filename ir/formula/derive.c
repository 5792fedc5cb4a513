/* Adjoints of a row from its formula: reverse mode over its nodes, each op by the adjoints of its
 * own row.
 *
 *   x / (1 + abs(x))   with r the result, q = d / (1 + abs(x))   =>   q - r * q * sign(x)
 */
#include "ir/formula/formula.h"

/* The meaning of leaves of another row's adjoint. */
typedef struct place {
  const vtb_formula_row *of;
  const int *args;
  int result, adjoint;
} place;

static int leaf_at(vtb_formulas *all, vtb_formula_row *r, const place *p,
                   const vtb_scalar_node *node) {
  switch (node->leaf) {
  case VTB_LEAF_NUMBER:
    return vtb_formula_number(all, r, node->number);
  case VTB_LEAF_R:
    return p->result;
  case VTB_LEAF_D:
    return p->adjoint;
  default:
    return p->args[node->leaf - VTB_LEAF_X];
  }
}

static bool is_neg(const vtb_formula_row *r, int node) {
  return !r->at[node].leaf && r->at[node].op == VTB_OP_neg;
}

/* -x * y as -(x * y), that sums may subtract. */
static int simple_op(vtb_formulas *all, vtb_formula_row *r, vtb_op op, const int *args) {
  int x = args[0], y = args[1];
  if ((op != VTB_OP_mul && op != VTB_OP_div) || is_neg(r, x) == is_neg(r, y))
    return vtb_formula_op(all, r, op, args);
  x = is_neg(r, x) ? r->at[x].arg[0] : x;
  y = is_neg(r, y) ? r->at[y].arg[0] : y;
  return vtb_formula_op(all, r, VTB_OP_neg,
                        (int[]){vtb_formula_op(all, r, op, (int[]){x, y, 0}), 0, 0});
}

/* Node `from` of another row, written into r. */
static int write_at(vtb_formulas *all, vtb_formula_row *r, const place *p, int from) {
  const vtb_scalar_node *node = &p->of->at[from];
  if (node->leaf) return leaf_at(all, r, p, node);
  int args[VTB_SCALAR_OPERANDS] = {0};
  for (int i = 0; i < vtb_formula_row_of(all, node->op)->n_operands; i++)
    args[i] = write_at(all, r, p, node->arg[i]);
  return simple_op(all, r, node->op, args);
}

static int sum(vtb_formulas *all, vtb_formula_row *r, int x, int y) {
  if (x < 0) return y;
  bool minus = is_neg(r, y);
  return vtb_formula_op(all, r, minus ? VTB_OP_sub : VTB_OP_add,
                        (int[]){x, minus ? r->at[y].arg[0] : y, 0});
}

void vtb_formula_derive(vtb_formulas *all, vtb_formula_row *r) {
  int adjoint[VTB_SCALAR_NODES];
  for (int i = 0; i <= r->value; i++) adjoint[i] = -1;
  adjoint[r->value] = vtb_formula_leaf(all, r, VTB_LEAF_D);
  int result = vtb_formula_leaf(all, r, VTB_LEAF_R);
  for (int i = r->value; i >= 0; i--) {
    vtb_scalar_node node = r->at[i];
    if (adjoint[i] < 0 || node.leaf) continue;
    place p = {vtb_formula_row_of(all, node.op), node.arg, i == r->value ? result : i, adjoint[i]};
    for (int k = 0; k < p.of->n_operands; k++) {
      if (p.of->adjoint[k] < 0 || r->at[node.arg[k]].leaf == VTB_LEAF_NUMBER) continue;
      adjoint[node.arg[k]] =
          sum(all, r, adjoint[node.arg[k]], write_at(all, r, &p, p.of->adjoint[k]));
    }
  }
  for (int i = 0; i <= r->value; i++)
    if (r->at[i].leaf >= VTB_LEAF_X && r->at[i].leaf <= VTB_LEAF_Z)
      r->adjoint[r->at[i].leaf - VTB_LEAF_X] = adjoint[i];
}

/* Expressions as nodes: equal ones are one, numbers are folded. */
#include "ir/formula/formula.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int vtb_formula_fail(vtb_formulas *all, const vtb_formula_row *r, const char *format, ...) {
  if (all->error[0]) return 0;
  char what[160];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  snprintf(all->error, sizeof all->error, "%s: %s", r->name, what);
  return 0;
}

const vtb_formula_row *vtb_formula_find(const vtb_formulas *all, const char *name, size_t n) {
  for (int i = 0; i < all->n_rows; i++)
    if (strlen(all->rows[i].name) == n && memcmp(all->rows[i].name, name, n) == 0)
      return &all->rows[i];
  return NULL;
}

const vtb_formula_row *vtb_formula_row_of(const vtb_formulas *all, vtb_op op) {
  for (int i = 0; i < all->n_rows; i++)
    if (all->rows[i].op == op) return &all->rows[i];
  return NULL;
}

static bool equal(const vtb_scalar_node *a, const vtb_scalar_node *b) {
  return a->leaf == b->leaf && a->op == b->op && a->arg[0] == b->arg[0] && a->arg[1] == b->arg[1] &&
         a->arg[2] == b->arg[2] && memcmp(&a->number, &b->number, sizeof a->number) == 0;
}

static int add(vtb_formulas *all, vtb_formula_row *r, vtb_scalar_node node) {
  for (int i = 0; i < r->n; i++)
    if (equal(&r->at[i], &node)) return i;
  if (r->n == VTB_SCALAR_NODES)
    return vtb_formula_fail(all, r, "more than %d operations", VTB_SCALAR_NODES);
  r->at[r->n] = node;
  return r->n++;
}

int vtb_formula_leaf(vtb_formulas *all, vtb_formula_row *r, vtb_scalar_leaf leaf) {
  return add(all, r, (vtb_scalar_node){.leaf = leaf});
}

int vtb_formula_number(vtb_formulas *all, vtb_formula_row *r, double number) {
  if (!isfinite(number)) return vtb_formula_fail(all, r, "a number that is not finite");
  return add(all, r, (vtb_scalar_node){.leaf = VTB_LEAF_NUMBER, .number = number});
}

static bool fold(vtb_op op, double x, double y, double *out) {
  switch (op) {
  case VTB_OP_neg:
    return *out = -x, true;
  case VTB_OP_sqrt:
    return *out = sqrt(x), true;
  case VTB_OP_add:
    return *out = x + y, true;
  case VTB_OP_sub:
    return *out = x - y, true;
  case VTB_OP_mul:
    return *out = x * y, true;
  case VTB_OP_div:
    return *out = x / y, true;
  default:
    return false;
  }
}

int vtb_formula_op(vtb_formulas *all, vtb_formula_row *r, vtb_op op, const int *args) {
  vtb_scalar_node node = {.op = op};
  bool numbers = true;
  double x[VTB_SCALAR_OPERANDS] = {0}, folded;
  for (int i = 0; i < vtb_formula_row_of(all, op)->n_operands; i++) {
    node.arg[i] = args[i];
    x[i] = r->at[args[i]].number;
    numbers &= r->at[args[i]].leaf == VTB_LEAF_NUMBER;
  }
  if (numbers && fold(op, x[0], x[1], &folded)) return vtb_formula_number(all, r, folded);
  return add(all, r, node);
}

/* ---- a row ----------------------------------------------------------------------------------- */

static void read_adjoints(vtb_formulas *all, vtb_formula_row *r) {
  const char *text = r->adjoints;
  for (int i = 0; i < r->n_operands; i++) {
    int node = vtb_formula_parse(all, r, &text, all->n_rows, true);
    bool zero = r->at[node].leaf == VTB_LEAF_NUMBER && r->at[node].number == 0;
    r->adjoint[i] = zero ? -1 : node;
    char parted = i + 1 < r->n_operands ? ';' : '\0';
    if (*text != parted)
      vtb_formula_fail(all, r, "\"%s\" is not an adjoint for each of %d operands", r->adjoints,
                       r->n_operands);
    text += *text != '\0';
  }
}

bool vtb_formula_read(vtb_formulas *all, int row) {
  vtb_formula_row *r = &all->rows[row];
  r->value = -1;
  for (int i = 0; i < VTB_SCALAR_OPERANDS; i++) r->adjoint[i] = -1;
  if (r->formula) {
    const char *text = r->formula;
    r->value = vtb_formula_parse(all, r, &text, row, false);
    if (*text) vtb_formula_fail(all, r, "\"%s\" goes on behind its end", r->formula);
  }
  if (r->adjoints)
    read_adjoints(all, r);
  else if (r->formula)
    vtb_formula_derive(all, r);
  else
    vtb_formula_fail(all, r, "the adjoints of a primitive op are not derived");
  return !all->error[0];
}

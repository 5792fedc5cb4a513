/* Formulas of elementwise ops, while the tree is built: text to expressions, derivatives, C, CUDA.
 *
 * The program ir/formula/generate.c, built before the compiler, makes of ir/scalar_ops.def what
 * depends on formulas; a formula that does not parse fails the build. Nothing here is part of the
 * compiler. Nothing is allocated.
 */
#ifndef VTB_FORMULA_H
#define VTB_FORMULA_H

#include "ir/ops.h"
#include "ir/scalar.h"

#include <stdio.h>

enum { VTB_FORMULA_MAX_ROWS = 128 };

/* The columns of a row that matter here, as text, and what they come to. */
typedef struct vtb_formula_row {
  const char *name;
  vtb_op op;
  int n_operands;
  const char *formula, *adjoints;       /* NULL: primitive, derived */
  const char *eval, *cpu, *cuda;        /* "hand", "formula", "infix" */
  vtb_scalar_node at[VTB_SCALAR_NODES]; /* equal nodes are one */
  int n;
  int value, adjoint[VTB_SCALAR_OPERANDS]; /* as in vtb_scalar */
} vtb_formula_row;

typedef struct vtb_formulas {
  vtb_formula_row rows[VTB_FORMULA_MAX_ROWS];
  int n_rows;
  char error[256]; /* the first: row, text, what is wrong with it; "" if nothing is */
} vtb_formulas;

/* Reads formula and adjoints of a row; those before it are complete, those behind it have their
 * columns. False, with an error, if they are wrong. */
bool vtb_formula_read(vtb_formulas *all, int row);

/* ---- between the files ----------------------------------------------------------------------- */

/* Number of the node: an equal one if there is one; operations of numbers are numbers. */
int vtb_formula_leaf(vtb_formulas *all, vtb_formula_row *r, vtb_scalar_leaf leaf);
int vtb_formula_number(vtb_formulas *all, vtb_formula_row *r, double number);
int vtb_formula_op(vtb_formulas *all, vtb_formula_row *r, vtb_op op, const int *args);
const vtb_formula_row *vtb_formula_find(const vtb_formulas *all, const char *name, size_t n);
const vtb_formula_row *vtb_formula_row_of(const vtb_formulas *all, vtb_op op);
/* Notes an error if it is the first; returns node 0. */
int vtb_formula_fail(vtb_formulas *all, const vtb_formula_row *r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The node of one formula. Ops of the first n_rows rows may be used; `adjoint`: r and d are known.
 * *text moves behind it. */
int vtb_formula_parse(vtb_formulas *all, vtb_formula_row *r, const char **text, int n_rows,
                      bool adjoint);
/* Fills r->adjoint from r->value. */
void vtb_formula_derive(vtb_formulas *all, vtb_formula_row *r);

/* How expressions are written. */
typedef struct vtb_formula_style {
  const char *prefix; /* of functions */
  const char *type;   /* of locals, for what is used twice; NULL: it is written twice */
  const char *number; /* format of a double */
  const char *suffix; /* of numbers */
} vtb_formula_style;
extern const vtb_formula_style vtb_formula_c, vtb_formula_cuda, vtb_formula_plain;

/* "  const float t7 = ...;\n" for what is used more than once, then "  return ...;\n". */
void vtb_formula_print_body(const vtb_formula_row *r, int node, const vtb_formula_style *style,
                            FILE *out);
/* As text, in plain style. */
void vtb_formula_print(const vtb_scalar_node *nodes, int node, FILE *out);

#endif

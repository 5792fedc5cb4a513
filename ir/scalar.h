/* Elementwise ops as data: the rows of ir/scalar_ops.def, with their formulas and adjoints as
 * expressions. Everything here is constant and lives forever; any thread may read it.
 */
#ifndef VTB_SCALAR_H
#define VTB_SCALAR_H

#include "ir/ir.h"

#define VTB_SCALAR_OPERANDS 3
#define VTB_SCALAR_NODES 128 /* of one row, at most */

/* A node of an expression that is no op of other nodes. */
typedef enum vtb_scalar_leaf {
  VTB_LEAF_NONE,
  VTB_LEAF_NUMBER,
  VTB_LEAF_X, /* operands */
  VTB_LEAF_Y,
  VTB_LEAF_Z,
  VTB_LEAF_R, /* in adjoints: the result */
  VTB_LEAF_D  /* in adjoints: the adjoint of the result */
} vtb_scalar_leaf;

typedef struct vtb_scalar_node {
  vtb_scalar_leaf leaf;
  vtb_op op;  /* a row of ir/scalar_ops.def, if not a leaf */
  int arg[3]; /* nodes, each before this one */
  double number;
} vtb_scalar_node;

/* See the column of that name. */
typedef enum vtb_sign {
  VTB_SIGN_any,
  VTB_SIGN_nonnegative,
  VTB_SIGN_nonpositive,
  VTB_SIGN_largest,
  VTB_SIGN_smallest,
  VTB_SIGN_product
} vtb_sign;

/* The number that a builtin of the language gives for numbers; see the column `language`. */
typedef enum vtb_scalar_builtin {
  VTB_BUILTIN_none,
  VTB_BUILTIN_real,
  VTB_BUILTIN_same,
  VTB_BUILTIN_whole,
  VTB_BUILTIN_chosen
} vtb_scalar_builtin;

typedef struct vtb_scalar {
  int n_operands;
  const char *formula;          /* as written; NULL: primitive */
  const vtb_scalar_node *nodes; /* of formula and adjoints together; no two are equal */
  int n_nodes;
  int value;      /* the node of the formula; -1: primitive */
  int adjoint[3]; /* by operand, the node of its adjoint; -1: zero */
  bool ints, costly;
  double flops;
  const char *monotone; /* '+', '-' or '.' an operand */
  vtb_sign sign;
  double from, to;
  vtb_scalar_builtin builtin;
} vtb_scalar;

/* NULL if `op` has no row there. */
const vtb_scalar *vtb_scalar_get(vtb_op op);

/* The op of numbers: what the interpreter computes, and what constants fold to. */
double vtb_scalar_eval(vtb_op op, const double *operands);

/* out[i] = op(in[0][i * stride[0]], ...) for 0 <= i < n. */
typedef void (*vtb_scalar_loop)(int64_t n, double *out, const double *const *in,
                                const int64_t *stride);
vtb_scalar_loop vtb_scalar_loop_of(vtb_op op);

#endif

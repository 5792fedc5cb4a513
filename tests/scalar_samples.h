/* Operands for the rows of ir/scalar_ops.def, from the range that a row promises, and the value of
 * its expressions in double precision. */
#ifndef VTB_TEST_SCALAR_SAMPLES_H
#define VTB_TEST_SCALAR_SAMPLES_H

#include "ir/scalar.h"
#include "ir/ops.h"
#include "tests/test.h"

#define N_SCALAR_SAMPLES 64

static inline bool is_scalar_sample(const vtb_scalar *s, double x) {
  return x >= s->from && x <= s->to;
}

static inline double scalar_random(const vtb_scalar *s, unsigned long long *seed) {
  double low = fmax(s->from, -8), high = fmin(s->to, 8), u = (test_random(seed) + 1) / 2;
  return (float)(low + u * (high - low));
}

/* Sample i: first combinations of zeros, ends, tiny and ordinary numbers, then random ones. All are
 * f32 numbers. */
static inline void scalar_sample(const vtb_scalar *s, int i, double *x) {
  const double special[] = {0,     -0.0,    1,   -1,   1e-30, -1e-30,   1e-6, -1e-6,
                            s->to, s->from, 1e3, -1e3, 0.5,   INFINITY, 2.5,  -INFINITY};
  enum { N = sizeof special / sizeof *special };
  static const int step[VTB_SCALAR_OPERANDS] = {1, 3, 5};
  unsigned long long seed = 88172645463325252ull + (unsigned long long)i * 7919;
  for (int k = 0; k < VTB_SCALAR_OPERANDS; k++) {
    double candidate = (float)special[(i * step[k] + 2 * k) % N];
    bool fits = i < 2 * N && is_scalar_sample(s, candidate);
    x[k] = fits ? candidate : scalar_random(s, &seed);
  }
}

/* A node of a row's expressions. */
static inline double scalar_value(const vtb_scalar_node *nodes, int node, const double *x, double r,
                                  double d) {
  const vtb_scalar_node *n = &nodes[node];
  double args[VTB_SCALAR_OPERANDS] = {0};
  switch (n->leaf) {
  case VTB_LEAF_NUMBER:
    return n->number;
  case VTB_LEAF_R:
    return r;
  case VTB_LEAF_D:
    return d;
  case VTB_LEAF_NONE:
    for (int i = 0; i < vtb_scalar_get(n->op)->n_operands; i++)
      args[i] = scalar_value(nodes, n->arg[i], x, r, d);
    return vtb_scalar_eval(n->op, args);
  default:
    return x[n->leaf - VTB_LEAF_X];
  }
}

/* Central difference in operand k; a random sample is far from a kink by this measure. */
static inline double scalar_difference(vtb_op op, const double *x, int k) {
  double above[VTB_SCALAR_OPERANDS], below[VTB_SCALAR_OPERANDS], h = 1e-5 * fabs(x[k]);
  memcpy(above, x, sizeof above);
  memcpy(below, x, sizeof below);
  above[k] += h;
  below[k] -= h;
  return (vtb_scalar_eval(op, above) - vtb_scalar_eval(op, below)) / (above[k] - below[k]);
}

#define EACH_SCALAR_OP(op, row)                                                                    \
  for (vtb_op op = 0; op < VTB_OP_COUNT; op++)                                                     \
    for (const vtb_scalar *row = vtb_scalar_get(op); row; row = NULL)

#endif

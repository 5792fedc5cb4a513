/* The meaning of the ops of an update; runtime/base/update.h says it from the side of the caller.
 *
 * verdict: whether a step counts, and the factor on its gradients.
 *   operands  scalars [S,2], loss [], gradients...
 *   result    f32 [VTB_N_VERDICT]. norm = the root of the sum of all squares, in double, / scale;
 *             factor = min(1, clip / (norm + 1e-6)) / scale, without a bound 1 / scale
 * attribute partial, on targets that tell when gradients are whole (passes/train/ranks.c): numbers
 * of
 *             the gradients (from 0) that are a rank's part until then; absent: all
 *
 * update: a rule applied to n tensors; the old values where the verdict is no.
 *   attributes  tensors = n
 *   operands scalars [S,2], rates [n,2], the verdict, then n values, n gradients, n of each state,
 *   f32 of any shape
 *   callee a function of kind RULE over a tensor of E elements, whatever its shape (VTB_DYN stands
 *   for E):
 *               (value [E], gradient [E], states [E]..., factor [], rate [], decays [], S scalars
 *               []) ->
 *               (value [E], states [E]...); rate and decays are the tensor's row of rates. What has
 *               no axis is computed in
 *               double; reduce_sum is over the whole tensor, in double
 *   results     n values, n of each state
 * attribute changes = 1: behind the states stand n changes, which an optimiser of shapes made
 *             (passes/train/shaped.c) and the rule gets as one more vector
 */
#ifndef VTB_IR_UPDATE_H
#define VTB_IR_UPDATE_H

#include "ir/ir.h"
#include "runtime/base/update.h"

/* Operands of update before the values, and arguments of a rule before its scalars that belong to
 * no row. */
enum { VTB_UPDATE_LEAD = 3, VTB_RULE_LEAD = 3 };

typedef struct vtb_update {
  int tensors, states, scalars; /* n, states of each, S */
  int changes;                  /* 1: behind the states stand n more */
} vtb_update;
vtb_update vtb_update_of(const vtb_inst *update);

/* Vectors of a rule: value, gradient, states, changes. */
static inline int vtb_update_vectors(const vtb_update *u) { return 2 + u->states + u->changes; }
/* Operand `kind` (0: value, 1: gradient, 2: first state ...) of tensor i, result `kind` (0: value,
 * 1: first state ...). */
static inline int vtb_update_operand(const vtb_update *u, int kind, int i) {
  return VTB_UPDATE_LEAD + kind * u->tensors + i;
}
static inline int vtb_update_result(const vtb_update *u, int kind, int i) {
  return kind * u->tensors + i;
}

/* True if the function, a training step, changes its parameters. */
bool vtb_has_update(const vtb_func *f);

/* NULL if targets can compile the function as a rule, else the first instruction that they cannot.
 * */
const vtb_inst *vtb_rule_obstacle(const vtb_func *rule);

#endif

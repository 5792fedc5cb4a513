/* A step's values for all tokens at once.
 *
 * Beside a fold, an instruction of its step that reads no state is the same for every token: with
 * one more axis, N, behind the batch it is computed for all of them. A value [B, X...] of the step
 * is [B, N, X...] outside, [X..., B, Y...] is [X..., B, N, Y...]; one that does not depend on the
 * token is itself.
 *
 *   %p = einsum %x, %w {spec = "bni,io->bno"} : f32[B, 1, 8]
 *   =>
 *   %p = einsum %x, %w {spec = "btni,io->btno"} : f32[B, N=49, 1, 8]
 *
 * The batch is symbolic: an axis whose size is the batch or several, at most one a value.
 */
#ifndef VTB_PASSES_WIDEN_H
#define VTB_PASSES_WIDEN_H

#include "passes/passes_internal.h"

typedef struct vtb__widen {
  vtb_builder b; /* beside the fold */
  vtb_dim tokens;
  const bool *varies; /* by id of the step's values: depends on the token */
  /* by id: what stands for the value outside. Given for arguments and for what the fold yields, the
   * others are made when asked for. */
  vtb_value **outer;
} vtb__widen;

/* True if an instruction can be computed for all tokens, given its operands for all tokens. */
bool vtb__can_widen(const vtb_inst *inst, const bool *varies);
vtb_value *vtb__widen_value(vtb__widen *w, vtb_value *v);

/* The sum over all tokens of a value: N times one that does not vary. It goes through ops that are
 * linear: through a product it becomes one product that sums over samples and tokens. */
vtb_value *vtb__total(vtb__widen *w, vtb_value *v);
/* Calls `leaf` for each value with a batch axis that vtb__total() reads, which says whether it can
 * be had outside. False: one cannot, or there is no such sum. */
typedef bool (*vtb__has_outer)(void *user, vtb_value *v);
bool vtb__total_leaves(vtb_value *v, const bool *varies, vtb__has_outer leaf, void *user);

#endif

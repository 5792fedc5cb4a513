/* Sequences side by side: kernels that carry one number from token to token and do nothing across
 * sequences (maxplus, prefix_sum).
 *
 * A task owns one index of the axes before the tokens, one of those between them and the last, and
 * a piece of the last axis, which the vectors run along: each lane is its own sequence. Axes after
 * the tokens that lie densely in all tensors count as one. Where the tokens are the last axis, a
 * task has one lane.
 */
#ifndef VTB_CODEGEN_CPU_LANES_H
#define VTB_CODEGEN_CPU_LANES_H

#include "codegen/cpu/loop/order.h"

typedef struct vtb__lanes {
  vtb_cpu *c;
  vtb_cpu_task *t;
  vtb__loop_order order;
  int axis;                /* of the tokens */
  int64_t n_tokens, inner; /* inner: length of the last (merged) axis */
  bool merged;
  LLVMValueRef at[VTB_MAX_RANK]; /* indices of the axes; NULL at `axis` */
  int rank;
  LLVMValueRef mask; /* NULL for a scalar */
  int width;
  vtb_cpu_for pieces;
} vtb__lanes;

/* Opens a task and the loop over vectors. Operand 0 has the sequences' full type; the others too,
 * or that without the axis of tokens. */
vtb__lanes vtb__lanes_open(vtb_cpu *c, const vtb_inst *inst, int axis);
void vtb__lanes_close(vtb__lanes *l);
/* The lanes of tensor i at storage position pos; pos NULL: a tensor without the token axis. */
LLVMValueRef vtb__lanes_get(const vtb__lanes *l, int i, LLVMValueRef pos);
void vtb__lanes_put(const vtb__lanes *l, LLVMValueRef v, int i, LLVMValueRef pos);

#endif

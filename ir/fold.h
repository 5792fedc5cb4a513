/* fold: a function applied step after step along a sequence, what it returns as states handed to
 * its next application. Recurrences that are not linear in their state become one.
 *
 *   attributes  states = number of states s; seqs = number of sequences; path (storage order if
 *               absent); reverse = 1: from the path's last position to its first; keep = 1: the
 *               states before each step are results too; tile = a divisor of B: the callee takes so
 *               many samples and runs all steps of one tile after the other
 *   operands    states (any shape; with tile [B, ...]), sequences [B, N, ...], constants (any
 *               shape)
 *   callee      a PLAIN function (states, sequences at one step [B, 1, ...], constants) -> (new
 *               states, yields [B, 1, ...]); B as in the operands, or the tile. With tile it may be
 *               a KERNEL: code of the one kernel that runs the loop
 *   results     yields [B, N, ...], states after the last step, and with keep each state [B, ...]
 *               before each step as [B, N, ...]; yields and kept states in storage order
 */
#ifndef VTB_FOLD_H
#define VTB_FOLD_H

#include "ir/ir.h"

typedef struct vtb_fold {
  int states, seqs, consts, yields;
  bool keep, reverse;
  const char *path;
  int64_t tile; /* samples; 0: all of them */
} vtb_fold;

/* The fold of an instruction that has passed its shape rule. */
vtb_fold vtb_fold_of(const vtb_inst *inst);
int64_t vtb_fold_steps(const vtb_inst *inst);

#endif

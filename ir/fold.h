/* fold: a function applied step after step, along sequences or so many times, what it returns as
 * states handed to its next application. Recurrences that are not linear in their state become one,
 * and so do loops that are kept at run time (`iterate`).
 *
 *   attributes  states = number of states s; seqs = number of sequences; path (storage order if
 *               absent); reverse = 1: from the path's last position to its first; keep = 1: the
 *               states before each step are results too; tile = a divisor of B: the callee takes so
 *               many samples and runs all steps of one tile after the other
 *               steps = N: a loop of N steps, with or without sequences; with them N is theirs, and
 *               no pass takes the steps apart to compute them at once
 *               while = 1: state 0 tells who goes on. A step is run if an element of it is not 0;
 *               the first that is not run ends the loop, N steps at the latest
 *               limit = 1: the first constant, an i32 scalar, says how many steps are run, at the
 *               positions 0 to limit - 1, with reverse from limit - 1 down
 *   operands    states (any shape; with tile [B, ...]), sequences [B, N, ...], constants (any
 *               shape)
 *   callee      a PLAIN function (states, sequences at one step [B, 1, ...], constants) -> (new
 *               states, yields [B, 1, ...]); B as in the operands, or the tile. With tile it may be
 *               a KERNEL: code of the one kernel that runs the loop
 *   results     yields [B, N, ...], states after the last step that is run, and with keep each
 *               state [A, ...] before each step as [A, N, ...], a scalar as [1, N]; yields and kept
 *               states in storage order, and nobody knows what stands at steps that are not run
 *
 * `while`, `limit` need `steps` and go with neither `path` nor `tile`, nor with each other. Axis 0
 * of a sequence is the batch or any other: each has its own.
 */
#ifndef VTB_FOLD_H
#define VTB_FOLD_H

#include "ir/ir.h"

typedef struct vtb_fold {
  int states, seqs, consts, yields;
  bool keep, reverse;
  bool is_while, has_limit;
  const char *path;
  int64_t tile;  /* samples; 0: all of them */
  int64_t steps; /* the attribute; 0: as many as sequences have */
} vtb_fold;

/* The fold of an instruction that has passed its shape rule. */
vtb_fold vtb_fold_of(const vtb_inst *inst);
/* Steps, of which `while` and `limit` may run fewer. */
int64_t vtb_fold_steps(const vtb_inst *inst);
/* How many of its steps are run is known in a run only: `while`, `limit`. */
bool vtb_fold_varies(const vtb_fold *p);

#endif

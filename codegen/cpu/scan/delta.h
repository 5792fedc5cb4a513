/* Shared by the emitters of delta, on top of linscan.h. Shapes and meaning: ir/recurrence.h.
 *
 * With R corrections a token, rows i = (t, r) and j = (s, r') of a chunk and P[t,s] the product of
 * the decays of the tokens between s and t, neither with it, p_t that of the chunk's tokens before
 * t, the corrections of a chunk are the solution of
 *   (I - A) W = V + (b o p) S      A[i,j] = b_i . (P[t,s] o k_j) for s < t, else 0
 * Rows of one token read the same state and not each other. A row lies in scratch memory at
 * t * step + r: `step` is R, or more where a form wants whole groups; the rows from R on are zero.
 */
#ifndef VTB_CODEGEN_CPU_DELTA_H
#define VTB_CODEGEN_CPU_DELTA_H

#include "codegen/cpu/scan/linscan.h"

/* An instruction taken apart: its scan has the sizes, path, decay, k, v, d and S_0 of a linscan. */
typedef struct vtb__cpu_delta_rule {
  vtb__cpu_scan scan;
  int64_t rows, step; /* R; from token to token in scratch memory */
  int b, w;           /* tensors, as scan.of.at numbers them */
} vtb__cpu_delta_rule;

void vtb__delta_steps(vtb__cpu_delta_rule *d, const vtb_inst *inst); /* token by token, any class */
/* Class key as products; corrections a token: at most as many as a vector has lanes. */
void vtb__delta_vector(vtb__cpu_delta_rule *d, const vtb_inst *inst);

#endif

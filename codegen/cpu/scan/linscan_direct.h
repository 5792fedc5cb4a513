/* Scans whose decay is a vector along one axis of the state, inside a sub-block of at most VTB__SUB
 * tokens.
 *
 * Classes key and value are one thing seen from two sides. Call x the axis the decay has, z the
 * other one; rows a and b run along x, rows c and e along z:
 *                 x   z   a    b   c    e
 *   class key     K   V   q    k   dy   v
 *   class value   V   K   dy   v   q    k
 * With W[t,j] = d_{j+1} o ... o d_t, a vector along x, all of forward and gradient is made of
 *   M[t,j] = sum over x of a_t W[t,j] b_j
 *   N[t,j] = c_t . e_j
 *   sum over j <= t of N[t,j] W[t,j] o b_j
 * A sub-block forms the products W step by step, so that no factor exceeds 1. Everything outside it
 * is reached through its first or last token with the factors pre_t = d_1 o ... o d_t and suf_j =
 * d_{j+1} o ... o d_n, at most 1 as well: there is no exponential and no quotient of decays, and a
 * decay of 0 is exact.
 *
 * Rows lie in scratch memory, `ld` floats apart, padded to whole vectors; row-major [VTB__SUB, ld].
 */
#ifndef VTB_CODEGEN_CPU_LINSCAN_DIRECT_H
#define VTB_CODEGEN_CPU_LINSCAN_DIRECT_H

#include "codegen/cpu/scan/linscan.h"

#define VTB__SUB 16 /* a multiple of every vector width and of the row group below */

/* The decays of a sub-block. */
typedef struct vtb__decays {
  LLVMValueRef d;            /* rows */
  LLVMValueRef pre, suf;     /* rows, written by vtb__direct_factors; suf NULL: not wanted */
  LLVMValueRef whole;        /* [ld]: the product of all rows */
  int64_t ld;                /* of all rows along x */
  LLVMValueRef n, n_vectors; /* tokens, vectors of a row */
  /* 0: a token meets itself and those before it. Else delta's order: `before` rows are one token
   * (a power of two up to the vector's lanes), whose last one has its decay and the others 1; a
   * row meets those of tokens before its own, W has the decays between the two alone, and pre_t
   * those before t. */
  int64_t before;
} vtb__decays;

/* pre, suf, whole from d. Applies vtb__scan_floor to d, and sets its rows from n to VTB__SUB to 1,
 * as the others rely on. */
void vtb__direct_factors(vtb_cpu *c, const vtb__decays *d, double floor);

/* M[t, j] to out [VTB__SUB, ld_out] for t < n and j < n rounded up to whole vectors, 0 for j that t
 * does not meet. bt: b transposed, [X, ld_bt], becomes that of suf o b. */
void vtb__direct_scores(vtb_cpu *c, const vtb__decays *d, int64_t X, LLVMValueRef a,
                        LLVMValueRef bt, int64_t ld_bt, LLVMValueRef out, int64_t ld_out);

/* y_t += sum over j <= t of N[t, j] W[t, j] o b_j for t < n (later rows of y are clobbered); b
 * becomes suf o b. */
void vtb__direct_sums(vtb_cpu *c, const vtb__decays *d, LLVMValueRef N, int64_t ld_N,
                      LLVMValueRef b, LLVMValueRef y);

/* da_t = sum over j <= t of N[t,j] W[t,j] o b_j, db_j = sum over t >= j of N[t,j] W[t,j] o a_t, and
 * inner_r, what the pairs t >= r > j contribute to d_r dd_r: sum of N[t,j] a_t o W[t,j] o b_j. */
void vtb__direct_grads(vtb_cpu *c, const vtb__decays *d, LLVMValueRef N, int64_t ld_N,
                       LLVMValueRef a, LLVMValueRef b, LLVMValueRef da, LLVMValueRef db,
                       LLVMValueRef inner);

/* out[r, :] = x[r, :] o y[r, :], or o y[:] for every row if y_ld is 0; n rows of n_vectors. */
void vtb__rows_times(vtb_cpu *c, LLVMValueRef out, LLVMValueRef x, LLVMValueRef y, int64_t ld,
                     int64_t y_ld, LLVMValueRef n, LLVMValueRef n_vectors);

/* rows[k, 0 ... n_vectors) *= by[k] for k < n. */
void vtb__keys_times(vtb_cpu *c, LLVMValueRef rows, int64_t ld, LLVMValueRef by, LLVMValueRef n,
                     LLVMValueRef n_vectors);

/* classes key and value as products of matrices: linscan_vector.c, linscan_vector_grad.c */
void vtb__linscan_vector(vtb__cpu_scan *s, const vtb_inst *inst);
void vtb__linscan_grad_vector(vtb__cpu_scan *s, const vtb_inst *inst);

#endif

/* Small single-threaded products and triangular solves on packed tiles, for kernels that hold their
 * operands in scratch memory.
 *
 * B and C are row-major with rows padded to whole vectors of c->width floats; A is read by
 * broadcasts, so both of its strides are free: a_row = 1 reads a transposed matrix. Sums run over k
 * in order.
 * The product, the solve and the transposition are functions of the program, shared by all kernels;
 * sizes are run-time values.
 */
#ifndef VTB_CODEGEN_CPU_SMALLGEMM_H
#define VTB_CODEGEN_CPU_SMALLGEMM_H

#include "codegen/cpu/cpu.h"

/* C[m, n_vectors * width] = beta C + A[m,k] B[k, ...]. beta is an f32; C is not read where it is 0.
 * The rest are i64. */
void vtb__smallgemm(vtb_cpu *c, LLVMValueRef a, LLVMValueRef a_row, LLVMValueRef a_col,
                    LLVMValueRef b, LLVMValueRef ldb, LLVMValueRef beta, LLVMValueRef out,
                    LLVMValueRef ldc, LLVMValueRef m, LLVMValueRef n_vectors, LLVMValueRef k);

/* The same with exactly n columns, whose rows of B and C need no padding. */
void vtb__smallgemm_columns(vtb_cpu *c, LLVMValueRef a, LLVMValueRef a_row, LLVMValueRef a_col,
                            LLVMValueRef b, LLVMValueRef ldb, LLVMValueRef beta, LLVMValueRef out,
                            LLVMValueRef ldc, LLVMValueRef m, int64_t n, LLVMValueRef k);

/* W[from + i, :] += sum over j < from + i of A[i, j] W[j, :] for i < m, in order: rows `from` on of
 * (I - A)^-1 W with A strictly lower triangular, of which a holds these rows; what a has at and
 * right of the diagonal is not read. */
void vtb__smallsolve(vtb_cpu *c, LLVMValueRef a, LLVMValueRef lda, LLVMValueRef w, LLVMValueRef ldw,
                     LLVMValueRef from, LLVMValueRef m, LLVMValueRef n_vectors);

/* out[j * ld_out + i] = x[i * ld + j] for i < rows rounded up to whole vectors, j < n_cols. Rows of
 * x must be readable in whole vectors; rows from `rows` on repeat the last one. */
void vtb__transpose_tile(vtb_cpu *c, LLVMValueRef x, LLVMValueRef ld, LLVMValueRef rows,
                         LLVMValueRef n_cols, LLVMValueRef out, LLVMValueRef ld_out);

/* n floats rounded up to whole vectors. */
int64_t vtb__padded(const vtb_cpu *c, int64_t n);

#endif

/* Small products for emitters of instructions: the function vtb_product_columns of text/small.c. */
#ifndef VTB_CODEGEN_CPU_SMALLGEMM_H
#define VTB_CODEGEN_CPU_SMALLGEMM_H

#include "codegen/cpu/cpu.h"

/* C[m, n] = beta C + A[m, k] B[k, n], rows of B and C contiguous, A's strides free. beta is an f32;
 * C is not read where it is 0. The rest are i64. */
void vtb__smallgemm_columns(vtb_cpu *c, LLVMValueRef a, LLVMValueRef a_row, LLVMValueRef a_col,
                            LLVMValueRef b, LLVMValueRef ldb, LLVMValueRef beta, LLVMValueRef out,
                            LLVMValueRef ldc, LLVMValueRef m, int64_t n, LLVMValueRef k);

/* n floats rounded up to whole vectors. */
int64_t vtb__padded(const vtb_cpu *c, int64_t n);

#endif

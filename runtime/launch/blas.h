/* One product at a time of OpenBLAS, on the thread that asks for it.
 *
 * What stands behind it is the library's own: the product and nothing else of Debian's
 * single-threaded OpenBLAS, linked in with its names kept inside (blas.sh). An OpenBLAS of the
 * host's is neither used nor changed. That library's own memory is not for several threads (two
 * may get the same) and not for processes that fork; blas.c gives it each product's instead.
 *
 * Threads: all of it may be called by any number of them. */
#ifndef VTB_BLAS_H
#define VTB_BLAS_H

#include "runtime/base/base.h"

/* Addresses that a product takes while it runs. Of the memory behind them it uses what it needs. */
#define VTB_BLAS_ROOM ((size_t)160 << 20)

/* Whoever multiplies retains it; without anybody the memory of products is given back. */
void vtb__blas_retain(void);
void vtb__blas_release(void);

/* C[m,n] = alpha * op(A) op(B) + beta * C, row-major f32. False without memory: C is as it was. */
VTB_MUST_USE bool vtb__blas_sgemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                                  float alpha, const float *a, int64_t lda, const float *b,
                                  int64_t ldb, float beta, float *c, int64_t ldc);

#endif

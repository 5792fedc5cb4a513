/* The innermost loops of products, in place of OpenBLAS's: those sum an element in an order that
 * depends on where it stands in its matrix, so that an image's result would depend on its place in
 * the batch. Here every element is one sum, in the order of k. OpenBLAS cuts k (by its size alone),
 * packs, and calls these by its names. Its kernel for AVX without FMA (Sandybridge) sums in one
 * order, and stays. */
#if defined(__x86_64__)
#include <string.h>

/* A panel of A or several side by side, and the B of some rows of C. */
typedef struct vtb__tile {
  const float *a, *b;
  float *c;
  long k, ldc;
  float alpha;
} vtb__tile;

static inline __attribute__((always_inline)) vtb__tile further(vtb__tile t, long elements) {
  t.a += elements * t.k;
  t.c += elements;
  return t;
}

static inline __attribute__((always_inline)) vtb__tile below(vtb__tile t, long rows) {
  t.b += rows * t.k;
  t.c += rows * t.ldc;
  return t;
}

#if defined(__clang__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 8")
#endif
#define VTB__JOIN(a, b, c) a##b##c
#define VTB__JOINED(a, b, c) VTB__JOIN(a, b, c)

#define KERNEL sgemm_kernel_PRESCOTT
#define TARGET
#define WIDTH 4
#define PANEL 8
#define VECTORS 2
#define ROWS 4
#include "runtime/launch/blas_tile.h"

#define KERNEL sgemm_kernel_HASWELL
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 8
#define PANEL 8
#define VECTORS 3
#define ROWS 4
#include "runtime/launch/blas_tile.h"

#define KERNEL sgemm_kernel_SKYLAKEX
#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma")))
#define WIDTH 16
#define PANEL 16
#define VECTORS 3
#define ROWS 8
#include "runtime/launch/blas_tile.h"

/* Routes without packing, which sum in orders of their own, are never taken. */
int sgemm_small_matrix_permit_SKYLAKEX(int trans_a, int trans_b, long m, long n, long k,
                                       float alpha, float beta);
int sgemm_small_matrix_permit_SKYLAKEX(int trans_a, int trans_b, long m, long n, long k,
                                       float alpha, float beta) {
  (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k, (void)alpha, (void)beta;
  return 0;
}

int sgemm_direct_performant_SKYLAKEX(long m, long n, long k);
int sgemm_direct_performant_SKYLAKEX(long m, long n, long k) {
  (void)m, (void)n, (void)k;
  return 0;
}
#endif

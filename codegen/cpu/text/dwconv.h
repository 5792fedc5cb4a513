/* Shared by depthwise convolutions and the adjoint of their weights: geometry, taps. Axes:
 * ir/convolution.h. A tap outside the grid reads a row of zeros. */
#include "codegen/cpu/text/kernel.h"

hole long BATCH, CHANNELS, RANK;
hole long GRID[3], KERNEL[3], PAD[3]; /* frames, rows, columns */
hole int STARTS;                      /* sums begin at a number a channel */
#define ROWS (GRID[0] * GRID[1])      /* all frames counted through, here and below */
#define COLUMNS GRID[2]
#define KERNEL_ROWS (KERNEL[0] * KERNEL[1])
#define TAPS (KERNEL_ROWS * KERNEL[2])
enum { MOST_UNROLLED = 81 }; /* taps of kernels whose passes are written out */

/* A way of so many floats, from one array to another, too: one selection finds a tap. */
static inline long floats_between(const float *from, const float *to) {
  return ((long)to - (long)from) / (long)sizeof(float);
}
static inline const float *beyond(const float *from, long floats) {
  return (const float *)((long)from + floats * (long)sizeof(float));
}

/* The row of the kernel that tap `tap` is in. */
static inline long kernel_row(long tap) { return KERNEL_ROWS > 1 ? quotient(tap, KERNEL[2]) : 0; }

/* Negative where x + d leaves an axis of n, which x does not: signs of several axes are joined. Of
 * one or two, d unknown, LLVM compares at once. */
static inline long inside(long x, long d, long n) {
  const long there = x + d;
  if (TAPS <= MOST_UNROLLED) return d < 0 ? there : d > 0 ? n - 1 - there : 0;
  return RANK < 3 ? -(long)((unsigned long)there >= (unsigned long)n) : there | (n - 1 - there);
}

/* Channel ch of weights [C, kernel...] at row a of the kernel, column e. */
static inline float *weight(float *const *t, int tensor, long ch, long a, long e) {
  const long *s = STRIDE[tensor];
  const long row = RANK == 1   ? 0
                   : RANK == 2 ? a * s[1]
                               : quotient(a, KERNEL[1]) * s[1] + remainder(a, KERNEL[1]) * s[2];
  return t[tensor] + (ch * s[0] + row + e * s[RANK]);
}

/* Token t of sample b, as the path walks the grid. */
static inline float *token(float *const *t, int tensor, long b, long at) {
  return t[tensor] + (b * STRIDE[tensor][0] + place(at) * STRIDE[tensor][1]);
}

/* The channels from `ch` on that the tap at row a of the kernel, column e, reads for the token at
 * column x of row y; mirrored: adjoint. */
static inline const float *tap_row(float *const *t, long b, long y, long x, long a, long e,
                                   int mirrored, long ch, const float *zeros) {
  long d[3] = {0, a, e};
  if (KERNEL[0] > 1) d[0] = quotient(a, KERNEL[1]), d[1] = remainder(a, KERNEL[1]);
  UNROLL for (int k = 0; k < 3; k++) d[k] = mirrored ? PAD[k] - d[k] : d[k] - PAD[k];
  const long frame = GRID[0] > 1 ? quotient(y, GRID[1]) : 0;
  const long row = GRID[0] > 1 ? remainder(y, GRID[1]) : y;
  const _Bool all =
      (inside(frame, d[0], GRID[0]) | inside(row, d[1], GRID[1]) | inside(x, d[2], COLUMNS)) >= 0;
  const long at = (y + (d[0] * GRID[1] + d[1])) * COLUMNS + (x + d[2]);
  const float *base = t[0] + (b * STRIDE[0][0] + ch);
  const long there = place(all ? at : 0) * STRIDE[0][1], none = floats_between(base, zeros);
  return beyond(base, all ? there : none);
}

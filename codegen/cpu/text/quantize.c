/* A matrix [ROWS, K] in numbers of 8 bits, sixteen rows at a time: four numbers of each, then the
 * next four, zeros beyond the last (ir/int8.h). */
#include "codegen/cpu/text/int8.h"

hole long ROWS, K;
enum { MATRIX, NUMBERS, SCALES, SUMS, PANEL = 16, GROUP = 4 };

/* One row of a panel. */
static inline void pack(const float *x, long n, float scale, signed char *to, int *sum) {
  const float inverse = inverse_of(scale);
  int total = 0;
  for (long k = 0; k < n; k += W) {
    const vi q = rounded(load_least(x + k, n - k), inverse);
    UNROLL for (int i = 0; i < W; i++) {
      if (k + i >= round_up(n, GROUP)) continue;
      to[(k + i) / GROUP * (PANEL * GROUP) + i % GROUP] = (signed char)q[i];
      total += q[i];
    }
  }
  *sum = total;
}

TASK(quantize, pieces(ROWS, PANEL), 1, 0) {
  signed char *panel = (signed char *)t[NUMBERS] + index * round_up(K, GROUP) * PANEL;
  float *scales = t[SCALES] + index * PANEL;
  int *sums = (int *)t[SUMS] + index * PANEL;
  for (long i = 0; i < PANEL; i++) {
    const long row = index * PANEL + i, n = row < ROWS ? K : 0;
    const float *x = t[MATRIX] + (n ? row : 0) * STRIDE[MATRIX][0];
    const float scale = scale_of(largest(x, n));
    /* of 17 bits, so that a number times it is exact: widened and brought back it is the same */
    const int bits = (__builtin_bit_cast(int, scale) + 127) & ~127;
    scales[i] = __builtin_bit_cast(float, bits);
    if (!n)
      for (long k = 0; k < round_up(K, GROUP); k++)
        panel[k / GROUP * (PANEL * GROUP) + i * GROUP + k % GROUP] = 0;
    pack(x, n, scales[i], panel + i * GROUP, &sums[i]);
  }
}

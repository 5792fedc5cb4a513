/* Numbers of 8 bits: how a row is brought to them. ir/int8.h says what comes out. */
#include "codegen/cpu/text/kernel.h"

typedef int vi __attribute__((ext_vector_type(VTB_W)));
typedef int vi_at __attribute__((ext_vector_type(VTB_W), aligned(4)));

/* A number of magnitude up to 2^22 plus ROUND is, as bits, ROUND's and the nearest integer. */
#define ROUND 12582912.0f
#define ROUND_BITS 0x4b400000
#define MAGNITUDE 0x7fffffff
#define INFINITY_BITS 0x7f800000

static inline vf load_least(const float *from, long n) {
  return n >= W ? load(from) : load_part(from, n);
}

/* The largest magnitude of n numbers, as bits, which order magnitudes as the numbers do, NaN
 * behind infinity: the same in whatever order they come. */
static inline int largest(const float *x, long n) {
  vi most = 0;
  for (long k = 0; k < n; k += W)
    most = max(__builtin_bit_cast(vi, load_least(x + k, n - k)) & MAGNITUDE, most);
  int all = 0;
  UNROLL for (int i = 0; i < W; i++) all = max(most[i], all);
  return all;
}

/* What a row is divided by; 0 of one that is nothing beside 1, NaN of one that is no number. */
static inline float scale_of(int largest_bits) {
  if (largest_bits >= INFINITY_BITS) return __builtin_nanf("");
  const float most = __builtin_bit_cast(float, largest_bits);
  return most < 0x1p-100f ? 0 : most / 127;
}

static inline float inverse_of(float scale) { return scale > 0 ? 1 / scale : 0; }

static inline vi rounded(vf x, float inverse) {
  return __builtin_bit_cast(vi, x * inverse + ROUND) - ROUND_BITS;
}

/* Chunks of scans whose decay is one number, of a head or of a token: what linscan, its adjoint and
 * delta share. */
#include "codegen/cpu/text/chunks.h"

hole int BY_STEP; /* the decay is of a token */

enum {
  BLOCK = 24, /* rows a block: a multiple of both tile heights (6 and 8); more would waste more of
                  * the triangle */
  KEY_BLOCK = 48 /* rows transposed at a time: a multiple of the width */
};

/* Decays of a chunk: d itself, no nearer to 0 than `floor` (either sign); b_t, the product up to
 * and with t; after_t, the product of those after t. Returns b of the last, the whole chunk's. */
static inline float chunk_decays(const scan *s, long t0, long n, float floor, float *d, float *b,
                                 float *after) {
  float product = 1, rest = 1;
  for (long i = 0; i < n; i++) {
    float x = BY_STEP ? *row(s, AT_D, place(t0 + i)) : s->t[AT_D][s->head * STRIDE[AT_D][0]];
    if (floor > 0) x = __builtin_elementwise_abs(x) < floor ? floor : x;
    product *= x;
    d[i] = x;
    b[i] = product;
  }
  for (long i = n - 1; i >= 0; i--) {
    after[i] = rest;
    rest *= d[i];
  }
  return product;
}

/* x with 1 in lanes from `low` up to `high`. */
static inline vf ones_between(vf x, long low, long high) {
  typedef int lanes __attribute__((ext_vector_type(VTB_W)));
  const lanes own = {LANES_OF_(VTB_W)(OWN, 0)};
  return (own >= (lanes)(int)low & own < (lanes)(int)high) ? (vf)1 : x;
}

/* rows[(l, r), :] *= P[i0 + l, :] for n tokens, `rank` rows and columns each; P[t] is d_t P[t - 1],
 * and 1 at the columns of token t - behind. mask: row i0 - 1 of P on entry (zeros before the first
 * token), the last row after. */
static inline void mask_rows(float *rows, long ld, float *mask, const float *d, long i0, long n,
                             long rank, long behind) {
  for (long l = 0; l < n; l++)
    for (long j = 0; j < (i0 + n) * rank; j += W) {
      const long one = (i0 + l - behind) * rank - j;
      const vf x = ones_between(load(mask + j) * (vf)d[i0 + l], one, one + rank);
      store(mask + j, x);
      for (long r = 0; r < rank; r++) {
        float *at = rows + (l * rank + r) * ld + j;
        store(at, load(at) * x);
      }
    }
}

/* The counter-based random hash of op `random`: one definition for the interpreter, the runtime and
 * generated code.
 *
 * With 32-bit unsigned arithmetic (wrapping) only:
 *
 *   mix(x):  x ^= x >> 16;  x *= 0x7feb352d;  x ^= x >> 15;  x *= 0x846ca68b;  x ^= x >> 16
 *   hash  =  mix(index ^ mix(stream ^ mix(seed + 0x9e3779b9)))
 *   u     =  (hash >> 8) * 2^-24          exactly representable in f32, 0 <= u < 1
 *
 * mix(stream ^ mix(seed + ...)) does not depend on the element and may be hoisted out of a loop.
 * source  the constants of mix are those of C. Wellons' search for low-bias 32-bit mixers (2018,
 *         "lowbias32").
 */
#ifndef VTB_RANDOM_H
#define VTB_RANDOM_H

#include <stdint.h>

#define VTB_RANDOM_SEED_OFFSET UINT32_C(0x9e3779b9)
#define VTB_RANDOM_MUL_1 UINT32_C(0x7feb352d)
#define VTB_RANDOM_MUL_2 UINT32_C(0x846ca68b)

static inline uint32_t vtb_random_mix(uint32_t x) {
  x ^= x >> 16;
  x *= VTB_RANDOM_MUL_1;
  x ^= x >> 15;
  x *= VTB_RANDOM_MUL_2;
  x ^= x >> 16;
  return x;
}

/* The part of the hash that is common to all elements of one `random`. */
static inline uint32_t vtb_random_key(uint32_t seed, uint32_t stream) {
  return vtb_random_mix(stream ^ vtb_random_mix(seed + VTB_RANDOM_SEED_OFFSET));
}

static inline uint32_t vtb_random_hash(uint32_t seed, uint32_t stream, uint32_t index) {
  return vtb_random_mix(index ^ vtb_random_key(seed, stream));
}

/* ---- for everything random that is no op: data, initial values ------------------------------- */

/* A counter-based generator for everything random in the runtime: stateless, 64 bits from (key,
 * counter). */
uint64_t vtb_random_u64(uint64_t key, uint64_t counter);
double vtb_random_unit(uint64_t key, uint64_t counter); /* [0, 1), 53 bits */

#endif

/* Numbers of 16 bits: bfloat16 and fp16 (IEEE 754 binary16), as bits. To them: to nearest, ties to
 * even. */
#ifndef VTB_BASE_HALF_H
#define VTB_BASE_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float vtb_float_of_bits(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static inline float vtb_bf16_to_f32(uint16_t h) { return vtb_float_of_bits((uint32_t)h << 16); }

static inline uint16_t vtb_f32_to_bf16(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return isnan(v) ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float vtb_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
  if (exponent == 31) return vtb_float_of_bits(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return vtb_float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  float tiny = ldexpf((float)mantissa, -24);
  return sign ? -tiny : tiny;
}

/* From 65520 on: infinity. */
static inline uint16_t vtb_f32_to_f16(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  uint32_t size = bits & 0x7fffffffu;
  if (isnan(v)) return 0x7fff;
  if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (size < 0x38800000u) return (uint16_t)(sign | (uint16_t)lrintf(ldexpf(fabsf(v), 24)));
  return (uint16_t)(sign | ((size + 0xfff + (size >> 13 & 1) - 0x38000000u) >> 13));
}

#endif

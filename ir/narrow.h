/* Numbers of fewer bits: values that memory holds in 16, and factors of products that are rounded.
 *
 * No op computes in them. An instruction reads its operands as f32, whatever memory holds, and what
 * it makes is rounded once, to nearest even, when it is stored as bf16 or f16. A product with the
 * attribute `precision` rounds its factors first; its sum is f32.
 */
#ifndef VTB_NARROW_H
#define VTB_NARROW_H

#include "ir/ir.h"

/* SPLIT: two bf16 numbers each, the second what the first is off by. */
typedef enum vtb_factors {
  VTB_FACTORS_FP32,
  VTB_FACTORS_TF32,
  VTB_FACTORS_BF16,
  VTB_FACTORS_FP16,
  VTB_FACTORS_SPLIT,
  VTB_N_FACTORS
} vtb_factors;
extern const char *const vtb_factors_names[VTB_N_FACTORS]; /* "fp32", ... */

/* The factors of attribute `precision`: fp32 without one, or if it is none. */
vtb_factors vtb_factors_of(const vtb_inst *inst);
bool vtb_is_factors(const char *name);
static inline bool vtb_is_half(vtb_dtype d) { return d == VTB_BF16 || d == VTB_F16; }
/* The number that such a factor is taken for. */
double vtb_round_factor(double x, vtb_factors factors);
/* To so many bits of significand, in the range of floats. */
double vtb_round_bits(double x, int bits);
/* The number that memory keeps of x. */
double vtb_round_stored(double x, vtb_dtype dtype);

#endif

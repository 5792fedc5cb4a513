/* See narrow.h. */
#include "ir/narrow.h"

#include <math.h>
#include <string.h>

const char *const vtb_factors_names[VTB_N_FACTORS] = {"fp32", "tf32", "bf16", "fp16", "split"};

static int find(const char *name) {
  for (int i = 0; name && i < VTB_N_FACTORS; i++)
    if (vtb_streq(name, vtb_factors_names[i])) return i;
  return -1;
}

bool vtb_is_factors(const char *name) { return find(name) >= 0; }

vtb_factors vtb_factors_of(const vtb_inst *inst) {
  int found = find(vtb_attr_str(inst, "precision", NULL));
  return found < 0 ? VTB_FACTORS_FP32 : (vtb_factors)found;
}

/* To `bits` of significand, ties to even; no finer than 2^least, infinite from `limit` on (at most
 * 2^128). What is added has its last place at the unit, and takes along what is below it. */
static double round_to(double x, int bits, int least, double limit) {
  if (x == 0 || isnan(x)) return x;
  if (fabs(x) >= limit) return copysign(INFINITY, x);
  uint64_t word;
  memcpy(&word, &x, sizeof word);
  int unit = (int)(word >> 52 & 0x7ff) - 1022 - bits;
  uint64_t wide = (uint64_t)((unit > least ? unit : least) + 52 + 1023) << 52 | UINT64_C(1) << 51;
  double added;
  memcpy(&added, &wide, sizeof added);
  double rounded = x + added - added;
  if (rounded == 0) return copysign(0, x);
  return fabs(rounded) < limit ? rounded : copysign(INFINITY, x);
}

static double to_bf16(double x) { return round_to(x, 8, -133, 0x1p128); }
static double to_fp16(double x) { return round_to(x, 11, -24, 0x1p16); }

double vtb_round_factor(double x, vtb_factors factors) {
  switch (factors) {
  case VTB_FACTORS_TF32:
    return round_to(x, 11, -136, 0x1p128);
  case VTB_FACTORS_BF16:
    return to_bf16(x);
  case VTB_FACTORS_FP16:
    return to_fp16(x);
  case VTB_FACTORS_SPLIT: {
    double high = to_bf16(x);
    return isfinite(high) ? high + to_bf16(x - high) : high;
  }
  default:
    return x;
  }
}

double vtb_round_bits(double x, int bits) { return round_to(x, bits, -149, 0x1p128); }

double vtb_round_stored(double x, vtb_dtype dtype) {
  return dtype == VTB_BF16 ? to_bf16(x) : dtype == VTB_F16 ? to_fp16(x) : x;
}

/* Numbers of 16 bits against their definition: every one of them, and what lies between. */
#include "runtime/base/half.h"
#include "tests/test.h"

#include <stdbool.h>

/* sign, e bits of exponent, m of fraction, as the standard has it. */
static double value_of(unsigned bits, int e, int m) {
  int exponent = (int)(bits >> m) & ((1 << e) - 1), bias = (1 << (e - 1)) - 1;
  double fraction = (double)(bits & ((1u << m) - 1)) / (double)(1 << m);
  double size = exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);
  if (exponent == (1 << e) - 1) size = fraction > 0 ? NAN : INFINITY;
  return bits >> (e + m) & 1 ? -size : size;
}

static bool same(double a, double b) {
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

TEST(every_half_is_what_its_bits_say_and_comes_back) {
  for (unsigned h = 0; h < 65536; h++) {
    double f16 = (double)vtb_f16_to_f32((uint16_t)h), bf16 = (double)vtb_bf16_to_f32((uint16_t)h);
    CHECK_MSG(same(f16, value_of(h, 5, 10)), "f16 %04x is %g, not %g", h, f16, value_of(h, 5, 10));
    CHECK_MSG(same(bf16, value_of(h, 8, 7)), "bf16 %04x is %g, not %g", h, bf16, value_of(h, 8, 7));
    if (!isnan(f16)) CHECK_MSG(vtb_f32_to_f16((float)f16) == h, "f16 %04x does not come back", h);
    if (!isnan(bf16)) CHECK_MSG(vtb_f32_to_bf16((float)bf16) == h, "bf16 %04x does not", h);
  }
  CHECK(isnan(vtb_f16_to_f32(vtb_f32_to_f16(NAN))) && isnan(vtb_bf16_to_f32(vtb_f32_to_bf16(NAN))));
}

/* In the middle of two neighbours the even one wins, a little beside it the nearer. */
TEST(between_two_halves_the_nearer_wins) {
  for (unsigned h = 0; h < 0x7bff; h++) {
    float low = vtb_f16_to_f32((uint16_t)h), high = vtb_f16_to_f32((uint16_t)(h + 1));
    float middle = low + (high - low) / 2;
    unsigned even = h % 2 ? h + 1 : h;
    CHECK_MSG(vtb_f32_to_f16(middle) == even, "the middle behind %04x", h);
    CHECK_MSG(vtb_f32_to_f16(nextafterf(middle, 0)) == h, "below the middle behind %04x", h);
    CHECK_MSG(vtb_f32_to_f16(nextafterf(middle, 1e9f)) == h + 1, "above it, %04x", h);
    CHECK_MSG(vtb_f32_to_f16(-middle) == (even | 0x8000u), "the negative middle, %04x", h);
  }
  CHECK(vtb_f32_to_f16(65519.996f) == 0x7bff && vtb_f32_to_f16(65520) == 0x7c00);
  CHECK(vtb_f32_to_f16(-65520) == 0xfc00 && vtb_f32_to_f16(1e30f) == 0x7c00);
  CHECK(vtb_f32_to_bf16(vtb_float_of_bits(0x3f808000)) == 0x3f80);
  CHECK(vtb_f32_to_bf16(vtb_float_of_bits(0x3f818000)) == 0x3f82);
  CHECK(vtb_f32_to_bf16(vtb_float_of_bits(0x3f808001)) == 0x3f81);
  CHECK(vtb_f32_to_bf16(vtb_float_of_bits(0x7f7fffff)) == 0x7f80);
}

int main(void) {
  RUN(every_half_is_what_its_bits_say_and_comes_back);
  RUN(between_two_halves_the_nearer_wins);
  return test_done();
}

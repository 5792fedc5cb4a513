/* Numbers of the page as people read them. */
#include "frontend/draw/number.h"
#include "tests/test.h"

#define DASH "\xE2\x80\x93"

static char text[32];

TEST(so_many_digits_or_more) {
  const struct {
    double x;
    int digits;
    const char *want;
  } rows[] = {{0, 3, "0"},         {1, 3, "1.00"},     {9.996, 3, "10.00"},
              {10, 3, "10.0"},     {99.94, 3, "99.9"}, {100, 3, "100"},
              {101, 3, "101"},     {999.6, 3, "1000"}, {1000, 3, "1000"},
              {7890, 3, "7890"},   {0.1, 3, "0.100"},  {0.0123, 3, "0.0123"},
              {-45.6, 3, "-45.6"}, {-100, 3, "-100"},  {100, 2, "100"},
              {10, 2, "10"},       {1e-5, 3, "1e-05"}, {0.00012345, 3, "0.000123"},
              {NAN, 3, DASH},      {1e15, 3, "1e+15"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    CHECK_STR(nr_digits(rows[i].x, rows[i].digits, text), rows[i].want);
}

TEST(counts_and_bytes) {
  CHECK_STR(nr_count(0, text), "0");
  CHECK_STR(nr_count(999, text), "999");
  CHECK_STR(nr_count(1000, text), "1.00 k");
  CHECK_STR(nr_count(5720000, text), "5.72 M");
  CHECK_STR(nr_count(100000, text), "100 k");
  CHECK_STR(nr_count(2.5e15, text), "2500 T");
  CHECK_STR(nr_count(NAN, text), DASH);
  CHECK_STR(nr_bytes(1000, text), "1000 B");
  CHECK_STR(nr_bytes(1024, text), "1.00 KiB");
  CHECK_STR(nr_bytes(49.0 * 1024 * 1024, text), "49.0 MiB");
  CHECK_STR(nr_bytes(1024.0 * 1024 * 1024, text), "1.00 GiB");
}

TEST(fixed_and_ticks) {
  CHECK_STR(nr_fixed(0.88, 3, text), "0.880");
  CHECK_STR(nr_fixed(-2, 0, text), "-2");
  CHECK_STR(nr_fixed(NAN, 2, text), DASH);
  CHECK_STR(nr_fixed(1e15, 1, text), "1.0e+15");
  CHECK_STR(nr_tick(0.5, text), "0.5");
  CHECK_STR(nr_tick(-0.0, text), "0");
  CHECK_STR(nr_tick(1500, text), "1500");
  CHECK_STR(nr_tick(15000, text), "15k");
  CHECK_STR(nr_tick(20e6, text), "20M");
}

int main(void) {
  RUN(so_many_digits_or_more);
  RUN(counts_and_bytes);
  RUN(fixed_and_ticks);
  return test_done();
}

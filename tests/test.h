/* The test harness: plain functions, plain checks. A failed check prints its place and the test
 * program exits with 1.
 *
 *   TEST(name) { CHECK(1 + 1 == 2); CHECK_NEAR(x, 0.5, 1e-9); }
 *   int main(int argc, char **argv) { RUN(name); return test_done(); }
 */
#ifndef VTB_TEST_H
#define VTB_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* VTB_CHECKS=on: modules and plans are held against their rules (ir/checks.h) in tests that make
 * any. */
extern void vtb_checks_begin(void) __attribute__((weak));
__attribute__((constructor)) static void test_checks_(void) {
  const char *said = getenv("VTB_CHECKS");
  if (vtb_checks_begin && said && strcmp(said, "on") == 0) vtb_checks_begin();
}

/* VTB_OPTIMISE=off, which the suite says where programs run once: they are compiled quickly. */
static inline bool test_is_quick(void) {
  const char *said = getenv("VTB_OPTIMISE");
  return said && strcmp(said, "off") == 0;
}

static int test_failures, test_count;
static const char *test_current = "";

#define TEST(name) static void test_##name(void)
#define RUN(name) (test_current = #name, test_count++, test_##name())

#define CHECK(cond) ((cond) ? (void)0 : test_fail_(__FILE__, __LINE__, "%s", #cond))
#define CHECK_MSG(cond, ...) ((cond) ? (void)0 : test_fail_(__FILE__, __LINE__, __VA_ARGS__))
/* NaN fails. */
#define CHECK_NEAR(got, want, tol)                                                                 \
  do {                                                                                             \
    double got_ = (got), want_ = (want), tol_ = (tol);                                             \
    if (!(fabs(got_ - want_) <= tol_))                                                             \
      test_fail_(__FILE__, __LINE__, "%s = %.17g, want %.17g within %g", #got, got_, want_, tol_); \
  } while (0)
#define CHECK_STR(got, want)                                                                       \
  do {                                                                                             \
    const char *got_ = (got), *want_ = (want);                                                     \
    if (!got_ || strcmp(got_, want_) != 0)                                                         \
      test_fail_(__FILE__, __LINE__, "%s:\n--- got\n%s\n--- want\n%s", #got,                       \
                 got_ ? got_ : "(null)", want_);                                                   \
  } while (0)

__attribute__((format(printf, 3, 4))) static inline void test_fail_(const char *file, int line,
                                                                    const char *fmt, ...) {
  __builtin_va_list ap;
  __builtin_va_start(ap, fmt);
  fprintf(stderr, "%s:%d: %s: ", file, line, test_current);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  __builtin_va_end(ap);
  if (++test_failures >= 20) exit(1);
}

static inline int test_done(void) {
  printf("%d tests, %d failures\n", test_count, test_failures);
  return test_failures != 0;
}

/* A small generator for test data: xorshift64*, uniform in [-1, 1). */
static inline double test_random(unsigned long long *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (double)((*state * 2685821657736338717ull) >> 11) / 4503599627370496.0 - 1.0;
}

#endif

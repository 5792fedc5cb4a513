/* What `vertebra verify` accepts, on tensors with the noise of 16 bits: rounding passes; zeros, a
 * half, a lost row, a lost column and a lost piece do not, however wide the bound of magnitude. */
#include "frontend/cli/verify/judge.h"
#include "tests/test.h"

enum { ROWS = 48, COLUMNS = 32, N = ROWS * COLUMNS };

static double want[N], got[N], rounded[N];

/* Rows of sizes a factor of thirty apart, as gradients of weights have. */
static void fill(double noise) {
  unsigned long long seed = 7;
  for (int i = 0; i < N; i++) {
    double size = pow(30, -(double)(i / COLUMNS) / ROWS);
    want[i] = size * test_random(&seed);
    got[i] = want[i] + noise * size * test_random(&seed);
    rounded[i] = want[i] + noise * size * test_random(&seed);
  }
}

static vtb_weight tensor(double *x, int rank) {
  vtb_weight w = {.elem = VTB_ELEM_F64, .rank = rank, .count = N, .data = x};
  w.dim[0] = rank == 2 ? ROWS : N;
  w.dim[1] = COLUMNS;
  return w;
}

static cli_judgement judge(int rank, double tol, double slice) {
  vtb_weight g = tensor(got, rank), w = tensor(want, rank), r = tensor(rounded, rank);
  cli_noise noise = {&r, &w, false};
  cli_bounds bounds = {.tol = tol, .slice = slice, .least = 1e-9};
  return cli_judge(&g, &w, &noise, &bounds);
}

static const struct {
  double noise, tol, slice;
} levels[] = {{1e-6, 2e-4, 1e-2}, {1e-3, 2e-3, 2e-2}, {2e-2, 1e-2, 5e-2}, {4e-2, 1e-2, 5e-2}};
enum { LEVELS = sizeof levels / sizeof *levels };

static bool passes(int level, int rank) {
  return !*judge(rank, levels[level].tol, levels[level].slice).why;
}

TEST(rounding_passes) {
  for (int l = 0; l < LEVELS; l++) {
    fill(levels[l].noise);
    CHECK(passes(l, 2) && passes(l, 1));
  }
}

static void plant(int level, double factor, int first, int end, int step, int width) {
  fill(levels[level].noise);
  for (int i = first; i < end; i += step)
    for (int k = 0; k < width; k++) got[i + k] *= factor;
  CHECK_MSG(!passes(level, 2), "level %d passes: elements from %d times %g", level, first, factor);
}

TEST(what_is_lost_fails) {
  for (int l = 0; l < LEVELS; l++) {
    plant(l, 0, 0, N, 1, 1);
    plant(l, 0.5, 0, N, 1, 1);
    plant(l, -1, 0, N, 1, 1);
    for (int row = 0; row < ROWS; row += 5) /* the last ones are the smallest */
      plant(l, 0, row * COLUMNS, row * COLUMNS + 1, 1, COLUMNS);
    for (int column = 0; column < COLUMNS; column += 7) plant(l, 0, column, N, COLUMNS, 1);
  }
}

TEST(a_lost_piece_of_a_bias_fails) {
  for (int l = 0; l < LEVELS; l++) {
    fill(levels[l].noise);
    for (int i = 320; i < 352; i++) got[i] = 0;
    CHECK(!passes(l, 1));
  }
}

/* Bounds of magnitude that zeros, the opposite and a half keep. */
TEST(wide_bounds_hide_nothing) {
  static const double factors[] = {0, -1, 0.5, 1.5};
  for (int f = 0; f < 4; f++) {
    fill(0);
    for (int i = 0; i < N; i++) got[i] = factors[f] * want[i];
    cli_judgement j = judge(2, 3, 3);
    CHECK(j.d.relative <= j.bound && *j.why);
    CHECK_NEAR(j.norm, fabs(factors[f]), 1e-12);
    CHECK_NEAR(j.cosine, f == 0 ? 0 : f == 1 ? -1 : 1, 1e-12);
  }
}

TEST(nan_fails) {
  fill(0);
  got[N - 1] = NAN;
  CHECK(!passes(0, 2));
  fill(0);
  got[3] = INFINITY;
  CHECK(!passes(0, 2));
}

/* What cancellation leaves has neither direction nor norm. */
TEST(nothing_is_nothing) {
  fill(0);
  for (int i = 0; i < N; i++) want[i] *= 1e-10, got[i] *= -1e-10, rounded[i] = want[i];
  CHECK(passes(0, 2));
}

/* Where noise alone bends a tensor, what departs as much is not called wrong, and more is. */
TEST(noise_may_bend) {
  fill(2);
  vtb_weight g = tensor(got, 2), w = tensor(want, 2), r = tensor(rounded, 2);
  cli_noise noise = {&r, &w, true};
  cli_bounds bounds = {.tol = 2e-4, .slice = 1e-2, .least = 0};
  CHECK(!*cli_judge(&g, &w, &noise, &bounds).why);
  for (int i = 0; i < N; i++) got[i] *= 20;
  CHECK(*cli_judge(&g, &w, &noise, &bounds).why);
}

int main(void) {
  RUN(rounding_passes);
  RUN(what_is_lost_fails);
  RUN(a_lost_piece_of_a_bias_fails);
  RUN(wide_bounds_hide_nothing);
  RUN(nan_fails);
  RUN(nothing_is_nothing);
  RUN(noise_may_bend);
  return test_done();
}

#include "runtime/artefact/init.h"
#include "runtime/launch/threads.h"
#include "tests/runtime/support.h"

static float *make(const char *text, const char *name, uint64_t seed, int rank, const int64_t *dim,
                   int64_t *n) {
  *n = 1;
  for (int i = 0; i < rank; i++) *n *= dim[i];
  float *x = malloc((size_t)*n * sizeof *x);
  CHECK_OK(vtb_init_tensor(text, name, seed, rank, dim, x, err));
  return x;
}

static void moments(const float *x, int64_t n, double *mean, double *std, double *lo, double *hi) {
  double s = 0, q = 0;
  *lo = HUGE_VAL, *hi = -HUGE_VAL;
  for (int64_t i = 0; i < n; i++) {
    s += (double)x[i], q += (double)x[i] * (double)x[i];
    *lo = fmin(*lo, (double)x[i]), *hi = fmax(*hi, (double)x[i]);
  }
  *mean = s / (double)n;
  *std = sqrt(q / (double)n - *mean * *mean);
}

TEST(distributions_have_their_moments_and_limits) {
  static const struct {
    const char *text;
    double mean, std, lo, hi;
  } cases[] = {
      {"normal(0.5)", 0, 0.5, -4, 4},
      {"normal(1, 0.1)", 1, 0.1, 0, 2},
      {"trunc_normal(0.02)", 0, 0.02, -2, 2},
      {"trunc_normal(1)", 0, 0.8796, -2, 2},
      {"trunc_normal(1, -1, 1)", 0, 0.5396, -1, 1},
      {"uniform(-1, 3)", 1, 1.1547, -1, 3},
      {"uniform(0.1)", 0, 0.057735, -0.1, 0.1},
      {"uniform_fan_in", 0, 0.057735, -0.1, 0.1},
      {"uniform_fan_in(25)", 0, 0.11547, -0.2, 0.2},
      {"normal_fan_in(2)", 0, 0.2, -2, 2},
      {"normal_fan_out(1.5)", 0, 0.075, -2, 2}, /* 400 * 1 */
      {"xavier_uniform", 0, 0.063246, -0.10955, 0.10955},
      {"xavier_normal(2)", 0, 0.126491, -2, 2},
  };
  const int64_t dim[] = {400, 100};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t n;
    double mean, std, lo, hi;
    float *x = make(cases[i].text, "w", 3, 2, dim, &n);
    moments(x, n, &mean, &std, &lo, &hi);
    CHECK_MSG(fabs(mean - cases[i].mean) < 0.02 * cases[i].std + 1e-12 &&
                  fabs(std / cases[i].std - 1) < 0.02,
              "%s: mean %g std %g", cases[i].text, mean, std);
    CHECK_MSG(lo >= cases[i].lo && hi <= cases[i].hi, "%s: [%g, %g]", cases[i].text, lo, hi);
    free(x);
  }
}

TEST(fixed_values) {
  int64_t n;
  float *x = make("linspace(3, 6)", "b", 0, 1, (int64_t[]){4}, &n);
  for (int i = 0; i < 4; i++) CHECK_NEAR((double)x[i], 3 + i, 1e-6);
  free(x);
  x = make("s4d_real", "A_log", 0, 2, (int64_t[]){2, 3}, &n);
  for (int i = 0; i < 6; i++) CHECK_NEAR((double)x[i], log(i % 3 + 1), 1e-6);
  free(x);
  x = make(" constant( -1.5e-1 ) ", "c", 0, 0, NULL, &n);
  CHECK_NEAR((double)x[0], -0.15, 1e-7);
  free(x);
  x = make(NULL, "z", 0, 1, (int64_t[]){2}, &n);
  CHECK((double)x[0] == 0 && (double)x[1] == 0);
  free(x);
  x = make("dt_bias(0.001, 0.1, 0.0001)", "dt", 5, 1, (int64_t[]){1000}, &n);
  for (int i = 0; i < 1000; i++) {
    double dt = log1p(exp((double)x[i]));
    CHECK_MSG(dt > 0.000999 && dt < 0.1001, "dt %g", dt);
  }
  free(x);
}

TEST(values_depend_on_seed_and_name_only) {
  int64_t n;
  const int64_t dim[] = {8};
  float *a = make("normal(1)", "a", 1, 1, dim, &n), *same = make("normal(1)", "a", 1, 1, dim, &n);
  float *seed = make("normal(1)", "a", 2, 1, dim, &n),
        *name = make("normal(1)", "b", 1, 1, dim, &n);
  CHECK(memcmp(a, same, 32) == 0);
  CHECK(memcmp(a, seed, 32) != 0);
  CHECK(memcmp(a, name, 32) != 0);
  free(a), free(same), free(seed), free(name);
}

TEST(threads_share_a_tensor_and_change_no_bit) {
  const int64_t dim[] = {331, 307};
  int64_t n = 0;
  vtb_set_default_threads(1);
  float *alone = make("trunc_normal(0.02)", "w", 3, 2, dim, &n);
  vtb_set_default_threads(3);
  float *shared = make("trunc_normal(0.02)", "w", 3, 2, dim, &n);
  vtb_set_default_threads(0);
  CHECK(memcmp(alone, shared, (size_t)n * sizeof *alone) == 0);
  free(alone), free(shared);
}

TEST(matrices) {
  const int64_t square[] = {3, 3}, wide[] = {2, 3}, window[] = {3, 2, 3, 3}, tall[] = {24, 2, 5};
  float x[240];
  CHECK_OK(vtb_init_tensor("identity", "w", 1, 2, square, x, err));
  for (int i = 0; i < 9; i++) CHECK(x[i] == (i % 4 == 0));
  CHECK_OK(vtb_init_tensor("identity(0.5)", "w", 1, 2, wide, x, err));
  CHECK(x[0] == 0.5f && x[4] == 0.5f && x[1] == 0 && x[5] == 0);
  CHECK_OK(vtb_init_tensor("dirac", "w", 1, 4, window, x, err));
  for (int i = 0; i < 54; i++) CHECK((x[i] == 1) == (i == 4 || i == 31));
  CHECK_OK(vtb_init_tensor("table(1, -2.5, 3e-3, 4, 5,6 )", "w", 1, 2, wide, x, err));
  CHECK(x[0] == 1 && x[1] == -2.5f && x[2] == 3e-3f && x[5] == 6);
  CHECK_REFUSED(vtb_init_tensor("table(1, 2)", "w", 1, 2, wide, x, err), "2 numbers for 6");
  CHECK_REFUSED(vtb_init_tensor("table(1, 2", "w", 1, 2, wide, x, err), "finite numbers");
  CHECK_REFUSED(vtb_init_tensor("table(1, x)", "w", 1, 2, wide, x, err), "finite numbers");
  /* 24 rows of 10: the columns are at right angles, of length 2 */
  CHECK_OK(vtb_init_tensor("orthogonal(2)", "w", 1, 3, tall, x, err));
  for (int a = 0; a < 10; a++)
    for (int b = 0; b < 10; b++) {
      double dot = 0;
      for (int r = 0; r < 24; r++) dot += (double)x[r * 10 + a] * (double)x[r * 10 + b];
      CHECK(fabs(dot - (a == b ? 4 : 0)) < 1e-5);
    }
  CHECK_OK(vtb_init_tensor("orthogonal", "w", 1, 2, square, x, err));
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 3; b++) {
      double dot = 0;
      for (int k = 0; k < 3; k++) dot += (double)x[a * 3 + k] * (double)x[b * 3 + k];
      CHECK(fabs(dot - (a == b)) < 1e-6);
    }
}

/* Four channels of a grid of 2 x 2: a sine and a cosine of one coordinate, then of the other. */
TEST(tables_of_positions) {
  const int64_t table[] = {1, 4, 4}, with_class[] = {5, 4};
  float rows[16], columns[16], more[20];
  CHECK_OK(vtb_init_tensor("sincos_rows", "pos", 1, 3, table, rows, err));
  CHECK_OK(vtb_init_tensor("sincos_columns", "pos", 1, 3, table, columns, err));
  CHECK_OK(vtb_init_tensor("sincos_rows(1)", "pos", 1, 2, with_class, more, err));
  for (int t = 0; t < 4; t++) {
    const double at[] = {t / 2, t % 2};
    for (int c = 0; c < 4; c++) {
      double first = c % 2 ? cos(at[c / 2]) : sin(at[c / 2]);
      double other = c % 2 ? cos(at[1 - c / 2]) : sin(at[1 - c / 2]);
      CHECK_NEAR((double)rows[4 * t + c], first, 1e-6);
      CHECK_NEAR((double)columns[4 * t + c], other, 1e-6);
      CHECK_NEAR((double)more[4 * (t + 1) + c], first, 1e-6);
    }
  }
  for (int c = 0; c < 4; c++) CHECK(more[c] == 0);
}

TEST(wrong_texts_are_refused) {
  static const struct {
    const char *text, *reason;
  } cases[] = {
      {"zeroes", "did you mean zeros"},  {"wild(1)", "unknown initialiser"},
      {"normal", "takes 1 to 2"},        {"normal(1, 2, 3)", "takes 1 to 2"},
      {"normal(x)", "finite numbers"},   {"normal(1", "expected"},
      {"normal(1) 2", "text after"},     {"normal(inf)", "finite"},
      {"uniform(1,2,3,4)", "at most 3"}, {"dt_bias(1,0.5,0.1)", "min"},
      {"trunc_normal(1, 2)", "1 or 3"},  {"uniform_fan_in(0)", "positive"},
      {"ones(1)", "takes 0 to 0"},       {"(1)", "unknown initialiser"},
  };
  float x[1];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK_REFUSED(vtb_init_tensor(cases[i].text, "head.weight", 0, 0, NULL, x, err),
                  cases[i].reason);
    CHECK_REFUSED(vtb_init_tensor(cases[i].text, "head.weight", 0, 0, NULL, x, err),
                  "parameter head.weight");
  }
}

int main(void) {
  RUN(distributions_have_their_moments_and_limits);
  RUN(fixed_values);
  RUN(values_depend_on_seed_and_name_only);
  RUN(threads_share_a_tensor_and_change_no_bit);
  RUN(matrices);
  RUN(tables_of_positions);
  RUN(wrong_texts_are_refused);
  return test_done();
}

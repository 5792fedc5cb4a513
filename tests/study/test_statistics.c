/* Means, spreads, and when two cells of a study differ. */
#include "frontend/study/statistics.h"
#include "runtime/base/random.h"
#include "tests/test.h"

TEST(of_repeated_trainings) {
  const double x[] = {0.80, 0.84, 0.82}, one[] = {0.5};
  CHECK_NEAR(study_mean(x, 3), 0.82, 1e-12);
  CHECK_NEAR(study_deviation(x, 3), 0.02, 1e-12);
  CHECK(isnan(study_deviation(one, 1)) && isnan(study_mean(one, 0)));
}

TEST(of_repeated_timings) {
  const double times[] = {1.2, 1.0, 1.1}, even[] = {4, 1, 2, 3};
  CHECK_NEAR(study_median(times, 3), 1.1, 1e-12);
  CHECK_NEAR(study_median(even, 4), 2.5, 1e-12);
  CHECK_NEAR(study_least(times, 3), 1.0, 1e-12);
  CHECK_NEAR(study_time_spread(times, 3), 0.1, 1e-12);
  CHECK(isnan(study_time_spread(times, 1)));
}

/* ---- speeds ---------------------------------------------------------------------------------- */

TEST(times_differ_by_more_than_the_margin) {
  CHECK(!study_times_differ(1.0, 1.04, 0.05) && !study_times_differ(1.04, 1.0, 0.05));
  CHECK(study_times_differ(1.0, 1.06, 0.05) && study_times_differ(1.06, 1.0, 0.05));
  CHECK(!study_times_differ(1.0, 9.0, (double)NAN));
}

/* Of two cells the margin is the paired t test: t(2, 0.01) = 9.92484, times the deviation of the
 * rounds' log ratios by the root of 3. */
TEST(two_cells_are_a_paired_test) {
  const double ms[] = {1.00, 3.10, 1.02, 1.10, 3.30, 1.16};
  double ratio[3];
  for (int i = 0; i < 3; i++) ratio[i] = log(ms[i] / ms[3 + i]);
  double want = expm1(9.92484 * study_deviation(ratio, 3) / sqrt(3));
  CHECK_NEAR(study_margin(ms, 2, 3), want, 1e-5);
  CHECK(want > 0.02);
}

TEST(what_a_round_does_to_all_is_no_difference) {
  const double ms[] = {1, 3, 1.5, 2, 6, 3, 5, 15, 7.5};
  CHECK_NEAR(study_margin(ms, 3, 3), 0.02, 1e-12);
}

TEST(without_repeats_no_margin_is_known) {
  const double once[] = {1, 2, 3}, alone[] = {1, 1.1, 1.2};
  const double apart[] = {1, NAN, NAN, 2}; /* no round has both */
  CHECK(isnan(study_margin(once, 3, 1)) && isnan(study_margin(alone, 1, 3)));
  CHECK(isnan(study_margin(apart, 2, 2)) && isnan(study_margin(NULL, 0, 0)));
}

/* Cells that fail in some rounds: the same residuals, found by turns. */
TEST(missing_rounds_are_fitted_around) {
  const double ms[] = {1, 3, 1.5, 2, NAN, 3, 5, 15, NAN, 1, 3, 1.5};
  CHECK_NEAR(study_margin(ms, 4, 3), 0.02, 1e-9);
}

/* A machine with other programs on it: each time is up to twice as long, now and then, and half the
 * studies' rounds are slow for all. */
static double busy(uint64_t study, uint64_t i) {
  double u = (double)(vtb_random_u64(study, 2 * i) >> 11) * 0x1p-53;
  double v = (double)(vtb_random_u64(study, 2 * i + 1) >> 11) * 0x1p-53;
  return 1 + 0.1 * u + (v < 0.3 ? u : 0);
}

/* Whether the study says that one of its equal cells is faster than another. */
static bool says_something(uint64_t study) {
  enum { CELLS = 4, ROUNDS = 3 };
  double ms[CELLS * ROUNDS], best[CELLS], slowest = 0, fastest = INFINITY;
  for (uint64_t c = 0; c < CELLS; c++) {
    for (uint64_t r = 0; r < ROUNDS; r++)
      ms[c * ROUNDS + r] = busy(study, c * ROUNDS + r) * (r == study % 2 ? 2 : 1);
    best[c] = study_least(ms + c * ROUNDS, ROUNDS);
    slowest = fmax(slowest, best[c]);
    fastest = fmin(fastest, best[c]);
  }
  return study_times_differ(fastest, slowest, study_margin(ms, CELLS, ROUNDS));
}

TEST(of_equal_cells_on_a_busy_machine_next_to_nothing_is_said) {
  int said = 0;
  for (uint64_t study = 1; study <= 1000; study++) said += says_something(study);
  CHECK_MSG(said <= 10, "%d of 1000 studies see a difference that is not there", said);
}

/* Welch's test by hand: variances of the means 0.0001 / 3 each, 4 degrees of freedom, t = 2.776:
 * 0.02267. */
TEST(welch_at_five_percent) {
  study_score a = {0.80, 0.01, 3, 10000}, b = {0.822, 0.01, 3, 10000}, c = {0.824, 0.01, 3, 10000};
  CHECK(!study_scores_differ(&a, &b));
  CHECK(study_scores_differ(&a, &c));
  CHECK_NEAR(study_t(4, 0.05), 2.776445105, 1e-8);
  CHECK_NEAR(study_t(1, 0.05), 12.70620474, 1e-7);
  CHECK_NEAR(study_t(2.5, 0.05), 3.574654842, 1e-8);
  CHECK_NEAR(study_t(30, 0.001), 3.645958635, 1e-7);
  CHECK_NEAR(study_t(1e9, 0.05), 1.959963987, 1e-6);
}

/* Few seeds that scatter widely against many that do not: the few decide how many degrees of
 * freedom there are, 1.02, whichever comes first; the other way round there are 6.97. */
TEST(welch_of_unequal_seeds) {
  const study_score wide = {0.5, 0.02, 2, 0}, many_wide = {0.5, 0.02, 7, 0};
  study_score other = {0.5, 0.004, 7, 0}, two = {0.5, 0.004, 2, 0};
  const struct {
    double by;
    bool few, many;
  } rows[] = {{0.018, false, false}, {0.022, false, true}, {0.17, false, true}, {0.19, true, true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    other.mean = two.mean = 0.5 + rows[i].by;
    CHECK(study_scores_differ(&wide, &other) == rows[i].few);
    CHECK(study_scores_differ(&other, &wide) == rows[i].few);
    CHECK(study_scores_differ(&many_wide, &two) == rows[i].many);
    CHECK(study_scores_differ(&two, &many_wide) == rows[i].many);
  }
}

/* 0.9 of 10000 images: a standard error of 0.003 each, so that 0.0083 is the least difference. */
TEST(one_seed_is_as_uncertain_as_its_images) {
  study_score a = {0.90, NAN, 1, 10000}, b = {0.907, NAN, 1, 10000}, c = {0.91, NAN, 1, 10000};
  CHECK(!study_scores_differ(&a, &b));
  CHECK(study_scores_differ(&a, &c));
  study_score error = {3.0, NAN, 1, 0}, other = {9.0, NAN, 1, 0};
  CHECK(!study_scores_differ(&error, &other));
}

TEST(seeds_that_agree_exactly) {
  study_score a = {0.9, 0, 3, 100}, b = {0.9, 0, 3, 100}, c = {0.91, 0, 3, 100};
  CHECK(!study_scores_differ(&a, &b));
  CHECK(study_scores_differ(&a, &c));
  study_score none = {NAN, NAN, 0, 0};
  CHECK(!study_scores_differ(&a, &none));
}

int main(void) {
  RUN(of_repeated_trainings);
  RUN(of_repeated_timings);
  RUN(times_differ_by_more_than_the_margin);
  RUN(two_cells_are_a_paired_test);
  RUN(what_a_round_does_to_all_is_no_difference);
  RUN(without_repeats_no_margin_is_known);
  RUN(missing_rounds_are_fitted_around);
  RUN(of_equal_cells_on_a_busy_machine_next_to_nothing_is_said);
  RUN(welch_at_five_percent);
  RUN(welch_of_unequal_seeds);
  RUN(one_seed_is_as_uncertain_as_its_images);
  RUN(seeds_that_agree_exactly);
  return test_done();
}

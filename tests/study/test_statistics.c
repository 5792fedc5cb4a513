/* Means, spreads, and when two cells of a study differ. */
#include "frontend/study/statistics.h"
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
  CHECK(!study_times_differ(1.0, 0.03, 1.04, 0.02));
  CHECK(study_times_differ(1.0, 0.03, 1.06, 0.02));
}

/* Welch's test by hand: variances of the means 0.0001 / 3 each, 4 degrees of freedom, t = 2.776:
 * 0.02267. */
TEST(welch_at_five_percent) {
  study_score a = {0.80, 0.01, 3, 10000}, b = {0.822, 0.01, 3, 10000}, c = {0.824, 0.01, 3, 10000};
  CHECK(!study_scores_differ(&a, &b));
  CHECK(study_scores_differ(&a, &c));
  CHECK_NEAR(study_t(4), 2.776, 1e-9);
  CHECK_NEAR(study_t(1e9), 1.96, 1e-6);
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
  RUN(welch_at_five_percent);
  RUN(welch_of_unequal_seeds);
  RUN(one_seed_is_as_uncertain_as_its_images);
  RUN(seeds_that_agree_exactly);
  return test_done();
}

/* The statistics of studies: repeated trainings, repeated timings. docs/studies.md says in words
 * what they are. NAN stands for what is not known. */
#ifndef VTB_STUDY_STATISTICS_H
#define VTB_STUDY_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

double study_mean(const double *x, size_t n);      /* NAN of none */
double study_deviation(const double *x, size_t n); /* of the sample, by n - 1; NAN below two */
double study_median(const double *x, size_t n);    /* between the middle two; NAN of none */
double study_least(const double *x, size_t n);

/* (median - least) / least of the times of rounds: how far a usual round is from the best one. */
double study_time_spread(const double *best, size_t n);

/* Two-sided quantile of Student's t at 5 %: 12.7 for one degree of freedom, 1.96 for many. */
double study_t(double degrees);

/* The mean of a score over seeds, as it is compared. */
typedef struct study_score {
  double mean, deviation; /* of one seed the deviation is NAN */
  size_t seeds;
  double images; /* that each seed was evaluated on; 0: the score is no proportion */
} study_score;
/* Whether two means differ by more than chance: Welch's t test at 5 %. Where a cell has one seed,
 * its variance is taken as that of a proportion over the images of the evaluation, which is less
 * than what another seed would change; where there is none, every difference counts as chance. */
bool study_scores_differ(const study_score *a, const study_score *b);

/* Whether two best times differ by more than their spreads together. */
bool study_times_differ(double a_ms, double a_spread, double b_ms, double b_spread);

#endif

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

/* The number that Student's t exceeds, to either side, with this chance: 12.7 for one degree of
 * freedom and 0.05, 1.96 for many. */
double study_t(double degrees, double chance);

/* The mean of a score over seeds, as it is compared. */
typedef struct study_score {
  double mean, deviation; /* of one seed the deviation is NAN */
  size_t seeds;
  double images; /* that each seed was evaluated on; 0: the score is no proportion */
} study_score;
/* True if two means differ by more than chance: Welch's t test at 5 %. Where a cell has one seed,
 * its variance is taken as that of a proportion over the images of the evaluation, which is less
 * than what another seed would change; where there is none, every difference counts as chance. */
bool study_scores_differ(const study_score *a, const study_score *b);

/* The margin of speeds that were measured in rounds: two that are less than this part apart are not
 * told apart. ms[cell * rounds + round], NAN where a cell was not timed. The log of a time is taken
 * as cell + round + rest, so that what a round does to all cells alike is no difference between
 * them; the rest's deviation and Student's t, at 1 % over all pairs of cells together, make the
 * margin, which is never below 2 %. NAN: too little was repeated to know. */
double study_margin(const double *ms, size_t cells, size_t rounds);

/* True if two times are further apart than the margin; false where that is not known. */
bool study_times_differ(double a_ms, double b_ms, double margin);

#endif

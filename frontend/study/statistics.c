#include "frontend/study/statistics.h"

#include "runtime/base/base.h"

#include <math.h>
#include <string.h>

double study_mean(const double *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += x[i];
  return n ? sum / (double)n : (double)NAN;
}

double study_deviation(const double *x, size_t n) {
  double mean = study_mean(x, n), sum = 0;
  for (size_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
  return n > 1 ? sqrt(sum / (double)(n - 1)) : (double)NAN;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double study_median(const double *x, size_t n) {
  if (!n) return (double)NAN;
  double *sorted = vtb_xcalloc(n, sizeof *sorted);
  memcpy(sorted, x, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, by_value);
  double middle = n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
  vtb_free(sorted);
  return middle;
}

double study_least(const double *x, size_t n) {
  double least = n ? x[0] : (double)NAN;
  for (size_t i = 1; i < n; i++) least = x[i] < least ? x[i] : least;
  return least;
}

double study_time_spread(const double *best, size_t n) {
  double least = study_least(best, n);
  return n > 1 && least > 0 ? (study_median(best, n) - least) / least : (double)NAN;
}

double study_t(double degrees) {
  static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                 2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                 2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  enum { ROWS = sizeof table / sizeof *table };
  if (!(degrees >= 1)) return table[0];
  return degrees < ROWS + 1 ? table[(int)degrees - 1] : 1.96 + 2.4 / degrees;
}

/* Of the mean. */
static double variance_of(const study_score *s) {
  double n = (double)s->seeds;
  if (s->seeds > 1) return s->deviation * s->deviation / n;
  bool proportion = s->images > 0 && s->mean >= 0 && s->mean <= 1;
  return proportion ? s->mean * (1 - s->mean) / s->images : (double)INFINITY;
}

bool study_scores_differ(const study_score *a, const study_score *b) {
  double va = variance_of(a), vb = variance_of(b), v = va + vb,
         difference = fabs(a->mean - b->mean);
  if (!isfinite(difference) || !isfinite(v)) return false;
  if (!(v > 0)) return difference > 0;
  /* a proportion has as many degrees of freedom as images, nearly */
  double na = a->seeds > 1 ? (double)a->seeds - 1 : a->images;
  double nb = b->seeds > 1 ? (double)b->seeds - 1 : b->images;
  double degrees = v * v / (va * va / na + vb * vb / nb);
  return difference > study_t(degrees) * sqrt(v);
}

bool study_times_differ(double a_ms, double a_spread, double b_ms, double b_spread) {
  double spread = (isfinite(a_spread) ? a_spread : 0) + (isfinite(b_spread) ? b_spread : 0);
  return fabs(a_ms - b_ms) > spread * fmin(a_ms, b_ms);
}

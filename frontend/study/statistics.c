/* The statistics of studies. */
#include "frontend/study/statistics.h"

#include "runtime/base/base.h"

#include <math.h>
#include <string.h>

/* The change that a process's place in memory makes to a time, with nothing else on the machine. */
static const double least_margin = 0.02;

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

/* The continued fraction of the incomplete beta function (Abramowitz and Stegun, 26.5.8). */
static double beta_fraction(double a, double b, double x) {
  enum { TERMS = 300 };
  double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), out = d;
  for (int m = 1; m <= TERMS; m++) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + even * d), c = 1 + even / c;
    out *= c * d;
    d = 1 / (1 + odd * d), c = 1 + odd / c;
    out *= c * d;
    if (fabs(c * d - 1) < 1e-15) break;
  }
  return out;
}

/* The regularised incomplete beta function. */
static double beta_part(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                   : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

static double chance_of_t(double t, double degrees) {
  return beta_part(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double study_t(double degrees, double chance) {
  if (!(degrees >= 1)) degrees = 1;
  double low = 0, high = 1;
  while (chance_of_t(high, degrees) > chance && high < 1e12) high *= 2;
  for (int i = 0; i < 100; i++) {
    double middle = 0.5 * (low + high);
    *(chance_of_t(middle, degrees) > chance ? &low : &high) = middle;
  }
  return high;
}

/* The variance of the mean. */
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
  return chance_of_t(difference / sqrt(v), fmax(degrees, 1)) < 0.05;
}

/* ---- speeds ---------------------------------------------------------------------------------- */

/* Takes the mean out of each line of what was measured: of `inner` numbers `step` apart, `outer`
 * lines `jump` apart. The largest of the means, without its sign. */
static double take_means_out(double *x, size_t outer, size_t jump, size_t inner, size_t step) {
  double largest = 0;
  for (size_t i = 0; i < outer; i++) {
    double sum = 0, n = 0;
    for (size_t k = 0; k < inner; k++)
      if (!isnan(x[i * jump + k * step])) sum += x[i * jump + k * step], n++;
    for (size_t k = 0; k < inner && n; k++) x[i * jump + k * step] -= sum / n;
    if (n) largest = fmax(largest, fabs(sum / n));
  }
  return largest;
}

static size_t count_known(const double *x, size_t n, size_t step) {
  size_t known = 0;
  for (size_t i = 0; i < n; i++) known += !isnan(x[i * step]);
  return known;
}

double study_margin(const double *ms, size_t cells, size_t rounds) {
  enum { SWEEPS = 1000 }; /* one is enough where every cell is in every round */
  double *rest = vtb_xcalloc(cells * rounds + 1, sizeof *rest), squares = 0;
  size_t timed = 0, used = 0, fewest = rounds, n = cells * rounds;
  for (size_t i = 0; i < n; i++) rest[i] = ms[i] > 0 && isfinite(ms[i]) ? log(ms[i]) : (double)NAN;
  for (size_t i = 0; i < cells; i++) {
    size_t own = count_known(rest + i * rounds, rounds, 1);
    timed += own > 0;
    if (own && own < fewest) fewest = own;
  }
  for (size_t i = 0; i < rounds; i++) used += count_known(rest + i, cells, rounds) > 0;
  double degrees = (double)count_known(rest, n, 1) - (double)timed - (double)used + 1;
  for (int i = 0; i < SWEEPS; i++) {
    take_means_out(rest, cells, rounds, rounds, 1);
    if (take_means_out(rest, rounds, 1, cells, rounds) < 1e-12) break;
  }
  for (size_t i = 0; i < n; i++) squares += isnan(rest[i]) ? 0 : rest[i] * rest[i];
  vtb_free(rest);
  if (timed < 2 || degrees < 1) return (double)NAN;
  double pairs = 0.5 * (double)timed * (double)(timed - 1);
  double deviation = sqrt(squares / degrees * 2 / (double)fewest);
  return fmax(least_margin, expm1(study_t(degrees, 0.01 / pairs) * deviation));
}

bool study_times_differ(double a_ms, double b_ms, double margin) {
  return isfinite(margin) && fabs(a_ms - b_ms) > margin * fmin(a_ms, b_ms);
}

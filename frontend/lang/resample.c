/* Weights of separable interpolation, as torch's interpolate computes them.
 *
 * source coordinate of sample i = (i + 1/2) in/out - 1/2, or i (in-1)/(out-1) with align_corners;
 * indices are clamped to the edge ("nearest" and "average": see below). antialias widens the filter
 * by in/out when shrinking, and normalises over the samples inside in place of clamping, also when
 * enlarging; its cubic is sharper, a = -1/2. */
#include "frontend/lang/value.h"

#include <math.h>

static double cubic(double x, double a) {
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

static double triangle(double x) {
  x = fabs(x);
  return x < 1 ? 1 - x : 0;
}

static int64_t clamp(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

static void sharp_row(double *row, int64_t in, double at, bool bicubic, double a) {
  int64_t base = (int64_t)floor(at);
  for (int64_t k = base - 1; k <= base + 2; k++) {
    double d = at - (double)k;
    row[clamp(k, in)] += bicubic ? cubic(d, a) : triangle(d);
  }
}

static void smooth_row(double *row, int64_t in, double center, double scale, bool bicubic,
                       double a) {
  double radius = (bicubic ? 2 : 1) * scale, total = 0;
  int64_t from = (int64_t)fmax(center - radius + 0.5, 0),
          to = (int64_t)fmin(center + radius + 0.5, (double)in);
  for (int64_t k = from; k < to; k++) {
    double d = ((double)k - center + 0.5) / scale;
    total += row[k] = bicubic ? cubic(d, a) : triangle(d);
  }
  for (int64_t k = from; k < to; k++) row[k] /= total;
}

static void nearest_row(double *row, int64_t in, int64_t i, int64_t out) { row[i * in / out] = 1; }

/* The bin from floor(i in/out) to ceil((i+1) in/out): bins cover the samples and may overlap. */
static void average_row(double *row, int64_t in, int64_t i, int64_t out) {
  int64_t from = i * in / out, to = ((i + 1) * in + out - 1) / out;
  for (int64_t k = from; k < to; k++) row[k] = 1.0 / (double)(to - from);
}

bool vtb__resample_knows(const char *filter) {
  static const char *const filters[] = {"bicubic", "bilinear", "nearest", "average"};
  for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
    if (strcmp(filter, filters[i]) == 0) return true;
  return false;
}

double *vtb__resample_weights(vtb__eval *e, int64_t in, int64_t out, const char *filter,
                              bool antialias, bool align_corners, double coefficient) {
  double *w = VTB_NEW_ARRAY(&e->arena, double, in *out);
  bool bicubic = strcmp(filter, "bicubic") == 0, nearest = strcmp(filter, "nearest") == 0;
  bool average = strcmp(filter, "average") == 0;
  double ratio =
      align_corners ? (double)(in - 1) / (double)(out > 1 ? out - 1 : 1) : (double)in / (double)out;
  for (int64_t i = 0; i < out; i++) {
    double *row = w + i * in,
           at = align_corners ? (double)i * ratio : ((double)i + 0.5) * ratio - 0.5;
    if (!bicubic && at < 0) at = 0;
    if (nearest)
      nearest_row(row, in, i, out);
    else if (average)
      average_row(row, in, i, out);
    else if (antialias)
      smooth_row(row, in, at + 0.5, ratio > 1 ? ratio : 1, bicubic, bicubic ? -0.5 : coefficient);
    else
      sharp_row(row, in, at, bicubic, coefficient);
  }
  return w;
}

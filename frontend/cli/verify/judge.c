/* See judge.h. */
#include "frontend/cli/verify/judge.h"

#include <math.h>
#include <stdio.h>

cli_difference cli_compare(const vtb_weight *got, const vtb_weight *want) {
  cli_difference d = {.index = -1};
  double *a = vtb_xcalloc((size_t)got->count + 1, sizeof *a),
         *b = vtb_xcalloc((size_t)want->count + 1, sizeof *b);
  vtb_weight_read_f64(got, a);
  vtb_weight_read_f64(want, b);
  int64_t n = got->count < want->count ? got->count : want->count;
  for (int64_t i = 0; i < n; i++) d.scale = fmax(d.scale, fabs(b[i]));
  for (int64_t i = 0; i < n; i++) {
    double e = fabs(a[i] - b[i]);
    if (a[i] == b[i]) e = 0; /* equal infinities */
    if (isnan(d.max_abs) || (e <= d.max_abs && d.index >= 0)) continue;
    d.max_abs = e;
    d.index = i;
    d.got = a[i];
    d.want = b[i];
  }
  if (got->count != want->count) d.max_abs = NAN;
  if (d.scale == 0) d.scale = 1;
  d.relative = d.max_abs / d.scale;
  vtb_free(a);
  vtb_free(b);
  return d;
}

enum { SEGMENT = 16, LEAST_SLICE = 4 };

typedef struct squares { /* sums over a tensor or a slice of it */
  double error, want, noise;
} squares;

typedef struct tensors { /* as doubles; noise: rounded - exact, NULL if there is none */
  double *got, *want, *noise;
  int64_t n;
  bool bent; /* direction and norm are free */
} tensors;

static double *numbers(const vtb_weight *w) {
  double *x = vtb_xcalloc((size_t)w->count + 1, sizeof *x);
  vtb_weight_read_f64(w, x);
  return x;
}

static double *noise_of(const cli_noise *n, int64_t count) {
  if (!n || !n->rounded || !n->exact || n->rounded->count != count || n->exact->count != count)
    return NULL;
  double *x = numbers(n->rounded), *exact = numbers(n->exact);
  for (int64_t i = 0; i < count; i++) x[i] -= exact[i];
  vtb_free(exact);
  return x;
}

static void add_square(squares *s, const tensors *t, int64_t i) {
  double e = t->got[i] == t->want[i] ? 0 : t->got[i] - t->want[i];
  s->error += e * e;
  s->want += t->want[i] * t->want[i];
  if (t->noise) s->noise += t->noise[i] * t->noise[i];
}

/* The bound of a slice's error, by the whole. */
static double slice_bound(const squares *s, const squares *whole, double share, const cli_bounds *b,
                          double least) {
  double noise = sqrt(s->noise);
  if (whole->want > 0) noise += sqrt(whole->noise / whole->want * s->want);
  return b->slice * sqrt(s->want) + CLI_NOISE * noise + b->tol * sqrt(share * whole->want) + least;
}

/* Slices of `n` parts, element i in part i / inner % n: the one that departs most from its bound,
 * or nothing. */
static void judge_slices(const tensors *t, int64_t n, int64_t inner, const char *what,
                         const squares *whole, const cli_bounds *b, cli_judgement *j) {
  squares *parts = vtb_xcalloc((size_t)n + 1, sizeof *parts);
  for (int64_t i = 0; i < t->n; i++) add_square(&parts[i / inner % n], t, i);
  double worst = 1;
  for (int64_t p = 0; p < n; p++) {
    double size = (double)t->n / (double)n;
    double bound = slice_bound(&parts[p], whole, 1 / (double)n, b, b->least * sqrt(size));
    double error = sqrt(parts[p].error);
    if (error <= worst * bound) continue;
    worst = error / bound;
    snprintf(j->why, sizeof j->why, "%s %lld is off by %.1e, its norm is %.1e, the bound %.1e",
             what, (long long)p, error, sqrt(parts[p].want), bound);
  }
  vtb_free(parts);
}

static void judge_parts(const tensors *t, const vtb_weight *want, const squares *whole,
                        const cli_bounds *b, cli_judgement *j) {
  int64_t inner = 1;
  char what[32];
  for (int a = want->rank; a-- > 0 && !*j->why; inner *= want->dim[a]) {
    if (want->dim[a] < 2 || t->n / want->dim[a] < LEAST_SLICE) continue;
    snprintf(what, sizeof what, "axis %d at", a);
    judge_slices(t, want->dim[a], inner, what, whole, b, j);
  }
  int64_t segments = (t->n + SEGMENT - 1) / SEGMENT;
  if (!*j->why && segments > 1) judge_slices(t, segments, SEGMENT, "segment of 16", whole, b, j);
}

/* Cosine of the angle between x and y, and |x| / |y|; both 1 if y is zero. */
static double direction(const double *x, const double *y, int64_t n, double *norm) {
  double xy = 0, xx = 0, yy = 0;
  for (int64_t i = 0; i < n; i++) {
    xy += x[i] * y[i];
    xx += x[i] * x[i];
    yy += y[i] * y[i];
  }
  *norm = yy > 0 ? sqrt(xx / yy) : 1;
  return yy == 0 ? 1 : xx == 0 ? 0 : xy / sqrt(xx * yy);
}

static bool is_bent(double cosine, double norm) {
  return !(cosine >= CLI_COSINE && norm >= CLI_NORM && norm <= 1 / CLI_NORM);
}

/* Magnitude first, since it names a place; then what a wide bound of it lets through. */
static void judge_whole(const tensors *t, const cli_bounds *b, cli_judgement *j) {
  j->cosine = direction(t->got, t->want, t->n, &j->norm);
  if (!(j->d.relative <= j->bound))
    snprintf(j->why, sizeof j->why, "off by %.1e of its largest, the bound is %.1e", j->d.relative,
             j->bound);
  else if (j->d.scale > b->least && !t->bent && is_bent(j->cosine, j->norm))
    snprintf(j->why, sizeof j->why, "cosine %.3f, norm %.3f of what they should be", j->cosine,
             j->norm);
}

cli_judgement cli_judge(const vtb_weight *got, const vtb_weight *want, const cli_noise *noise,
                        const cli_bounds *b) {
  cli_judgement j = {.d = cli_compare(got, want), .cosine = 1, .norm = 1, .bound = b->tol};
  if (got->count != want->count) {
    snprintf(j.why, sizeof j.why, "%lld elements, not %lld", (long long)got->count,
             (long long)want->count);
    return j;
  }
  tensors t = {numbers(got), numbers(want), noise_of(noise, want->count), want->count, false};
  if (t.noise && noise->bends) {
    double *rounded = numbers(noise->rounded), *exact = numbers(noise->exact), norm;
    double cosine = direction(rounded, exact, t.n, &norm);
    t.bent = is_bent(cosine, norm);
    vtb_free(rounded);
    vtb_free(exact);
  }
  squares whole = {0};
  double largest = 0;
  for (int64_t i = 0; i < t.n; i++) {
    add_square(&whole, &t, i);
    if (t.noise) largest = fmax(largest, fabs(t.noise[i]));
  }
  j.bound += (CLI_NOISE * largest + b->least) / j.d.scale;
  judge_whole(&t, b, &j);
  if (!*j.why && isfinite(whole.want)) judge_parts(&t, want, &whole, b, &j);
  vtb_free(t.got);
  vtb_free(t.want);
  vtb_free(t.noise);
  return j;
}

/* Degrees: how a batched value depends on the running scales. The true value is e^(sum of degree m)
 * times the one kept, one number a scale.
 *
 *   products, quotients              add and subtract degrees
 *   sums, maxima, comparisons        lift the operand of lower degree by e^(-m) a degree; where
 *                                    neither is lower, both to a scale of their own, the larger of
 *                                    theirs
 *   |x|, -x, relu                    keep the degree
 *   log x                            gains degree * m
 *   moving elements, sums over axes  first bring scales that vary over axes of the state to their
 *                                    largest
 *   any other function               takes the true value
 */
#include "passes/recurrence/recurrence.h"

/* The largest exponent that float32 takes. */
#define LARGEST_EXPONENT 88.0

/* ---- vectors --------------------------------------------------------------------------------- */

static double degree_in(const double *d, int scale) { return d ? d[scale] : 0; }

/* x + c y */
static const double *combined(vtb__rec *r, const double *x, double c, const double *y) {
  double *sum = VTB_SCRATCH(r->step, double, VTB__MAX_SCALES);
  bool any = false;
  for (int k = 0; k < VTB__MAX_SCALES; k++) {
    sum[k] = degree_in(x, k) + c * degree_in(y, k);
    any |= sum[k] != 0;
  }
  return any ? sum : NULL;
}

const double *vtb__degree_one(vtb__rec *r, int scale) {
  if (scale < 0) return NULL;
  double *one = VTB_SCRATCH(r->step, double, VTB__MAX_SCALES);
  one[scale] = 1;
  return one;
}

static const double *times(vtb__rec *r, const double *x, double c) {
  return combined(r, NULL, c, x);
}

const double *vtb__degree_sum(vtb__rec *r, const vtb__lifted x[2]) {
  return combined(r, x[0].degree, 1, x[1].degree);
}

/* ---- lifting --------------------------------------------------------------------------------- */

/* The exponent sum of p m; NULL if p is. */
static vtb__lifted exponent(vtb__rec *r, const double *p) {
  vtb__lifted sum = {0};
  for (int k = 0; k < (int)r->scales.n; k++) {
    double c = degree_in(p, k);
    if (c == 0) continue;
    vtb__lifted m = r->scales.at[k].m;
    if (c != 1)
      m.v = c == -1 ? vtb_b_unary(&r->b, VTB_OP_neg, m.v)
                    : vtb_b_binary(&r->b, VTB_OP_mul, m.v, vtb_b_constant(&r->b, c));
    sum = sum.v ? vtb__rec_binary(r, VTB_OP_add, sum, m) : m;
  }
  return sum;
}

vtb__lifted vtb__rec_times_exp(vtb__rec *r, vtb__lifted x, vtb__lifted e) {
  e.v = vtb_b_unary(&r->b, VTB_OP_exp, e.v);
  vtb__lifted y = vtb__rec_binary(r, VTB_OP_mul, x, e);
  y.degree = x.degree;
  return y;
}

static bool any_below(const double *p) {
  for (int k = 0; p && k < VTB__MAX_SCALES; k++)
    if (p[k] < 0) return true;
  return false;
}

static vtb__lifted times_scale(vtb__rec *r, vtb__lifted x, const double *p) {
  vtb__lifted e = exponent(r, p);
  if (!e.v) return x;
  if (any_below(p))
    e.v = vtb_b_binary(&r->b, VTB_OP_min, e.v, vtb_b_constant(&r->b, LARGEST_EXPONENT));
  return vtb__rec_times_exp(r, x, e);
}

vtb__lifted vtb__rec_true_value(vtb__rec *r, vtb__lifted x) {
  x = times_scale(r, x, x.degree);
  x.degree = NULL;
  return x;
}

/* x times e^(from - to), an exponent that is at most 0. */
static vtb__lifted brought(vtb__rec *r, vtb__lifted x, vtb__lifted from, vtb__lifted to) {
  return vtb__rec_times_exp(r, x, vtb__rec_binary(r, VTB_OP_sub, from, to));
}

/* ---- scales made of others ------------------------------------------------------------------- */

static int new_scale(vtb__rec *r, vtb__lifted m) {
  if (r->scales.n >= VTB__MAX_SCALES) return -1;
  vtb__put(r->step, &r->scales, ((vtb__scale){.m = m, .flat = -1}));
  return (int)r->scales.n - 1;
}

int vtb__rec_flat_scale(vtb__rec *r, int scale) {
  vtb__scale s = r->scales.at[scale];
  if (s.m.rank == 0 || s.flat >= 0) return s.m.rank == 0 ? scale : s.flat;
  vtb__lifted m = {.v = vtb__rec_largest(r, s.m.v, 3), .lead = 3};
  int flat = new_scale(r, m);
  if (flat >= 0) r->scales.at[flat].prev = vtb__rec_largest(r, s.prev, 3);
  r->scales.at[scale].flat = flat;
  return flat;
}

vtb__lifted vtb__rec_flatten(vtb__rec *r, vtb__lifted x) {
  for (int k = 0; x.degree && k < (int)r->scales.n; k++) {
    double p = degree_in(x.degree, k);
    if (p == 0 || r->scales.at[k].m.rank == 0) continue;
    const double *part = times(r, vtb__degree_one(r, k), p);
    int flat = p > 0 ? vtb__rec_flat_scale(r, k) : -1;
    if (flat >= 0)
      x = brought(r, x, exponent(r, part), exponent(r, times(r, vtb__degree_one(r, flat), p)));
    else
      x = times_scale(r, x, part);
    x.degree = combined(r, x.degree, -1, part);
    if (flat >= 0) x.degree = combined(r, x.degree, p, vtb__degree_one(r, flat));
  }
  return x;
}

/* ---- one degree for several ------------------------------------------------------------------ */

static const double *highest(vtb__rec *r, const vtb__lifted *x, int first, int n) {
  double *top = VTB_SCRATCH(r->step, double, VTB__MAX_SCALES);
  for (int k = 0; k < VTB__MAX_SCALES; k++) {
    top[k] = degree_in(x[first].degree, k);
    for (int i = first; i < n; i++)
      if (degree_in(x[i].degree, k) > top[k]) top[k] = degree_in(x[i].degree, k);
  }
  return combined(r, top, 0, NULL);
}

/* All operands to the largest of their exponents. */
static const double *to_largest(vtb__rec *r, vtb__lifted *x, int first, int n) {
  vtb__lifted all = {0};
  vtb__lifted *own = VTB_SCRATCH(r->step, vtb__lifted, n);
  for (int i = first; i < n; i++) {
    own[i] = exponent(r, x[i].degree);
    if (!own[i].v) own[i].v = vtb_b_constant(&r->b, 0);
    all = all.v ? vtb__rec_binary(r, VTB_OP_max, all, own[i]) : own[i];
  }
  int made = new_scale(r, all);
  const double *to = vtb__degree_one(r, made);
  for (int i = first; i < n; i++) {
    x[i] = made >= 0 ? brought(r, x[i], own[i], all) : vtb__rec_true_value(r, x[i]);
    x[i].degree = to;
  }
  return to;
}

const double *vtb__rec_same_degree(vtb__rec *r, vtb__lifted *x, int first, int n) {
  const double *top = highest(r, x, first, n);
  bool reached = false;
  for (int i = first; i < n; i++) reached |= !combined(r, top, -1, x[i].degree);
  if (!reached) return to_largest(r, x, first, n);
  for (int i = first; i < n; i++) {
    x[i] = times_scale(r, x[i], combined(r, x[i].degree, -1, top));
    x[i].degree = top;
  }
  return top;
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* log(e^(pm) x) = log x + p m */
vtb__lifted vtb__rec_log(vtb__rec *r, vtb__lifted x) {
  vtb__lifted m = exponent(r, x.degree);
  x.v = vtb_b_unary(&r->b, VTB_OP_log, x.v);
  x.degree = NULL;
  return m.v ? vtb__rec_binary(r, VTB_OP_add, x, m) : x;
}

/* What ops take: degrees as they are, of which the result has x's and y's so many times; one degree
 * for all operands, which is the result's, or for what is chosen, or for what is compared. */
enum { TRUE_VALUES, AS_THEY_ARE, ONE, ONE_CHOSEN, ONE_COMPARED };
static const struct {
  int takes;
  double x, y;
} rules[VTB_OP_COUNT] = {[VTB_OP_neg] = {AS_THEY_ARE, 1, 0},
                         [VTB_OP_abs] = {AS_THEY_ARE, 1, 0},
                         [VTB_OP_relu] = {AS_THEY_ARE, 1, 0},
                         [VTB_OP_sign] = {AS_THEY_ARE, 0, 0},
                         [VTB_OP_sqrt] = {AS_THEY_ARE, 0.5, 0},
                         [VTB_OP_rsqrt] = {AS_THEY_ARE, -0.5, 0},
                         [VTB_OP_square] = {AS_THEY_ARE, 2, 0},
                         [VTB_OP_stop_gradient] = {AS_THEY_ARE, 1, 0},
                         [VTB_OP_mul] = {AS_THEY_ARE, 1, 1},
                         [VTB_OP_div] = {AS_THEY_ARE, 1, -1},
                         [VTB_OP_add] = {ONE},
                         [VTB_OP_sub] = {ONE},
                         [VTB_OP_max] = {ONE},
                         [VTB_OP_min] = {ONE},
                         [VTB_OP_select] = {ONE_CHOSEN},
                         [VTB_OP_gt] = {ONE_COMPARED},
                         [VTB_OP_ge] = {ONE_COMPARED},
                         [VTB_OP_eq] = {ONE_COMPARED}};

const double *vtb__rec_settle(vtb__rec *r, const vtb_inst *inst, vtb__lifted *x) {
  int takes = rules[inst->op].takes, n = inst->n_operands;
  double power = rules[inst->op].x;
  if (inst->op == VTB_OP_pow && vtb__splat(inst->operands[1], &power)) takes = AS_THEY_ARE, n = 1;
  if (takes == AS_THEY_ARE)
    return combined(r, times(r, x[0].degree, power), rules[inst->op].y, n > 1 ? x[1].degree : NULL);
  if (takes != TRUE_VALUES) {
    const double *one = vtb__rec_same_degree(r, x, takes == ONE_CHOSEN, n);
    return takes == ONE_COMPARED ? NULL : one;
  }
  for (int i = 0; i < n; i++) x[i] = vtb__rec_true_value(r, x[i]);
  return NULL;
}

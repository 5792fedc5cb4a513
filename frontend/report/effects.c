/* Effects of a varied axis on a measure. */
#include "frontend/report/effects.h"

#include <math.h>

static bool same_elsewhere(const rp_report *r, size_t axis, const rp_cell *a, const rp_cell *b) {
  for (size_t i = 0; i < r->axes.n; i++)
    if (i != axis && a->value[i] != b->value[i]) return false;
  return true;
}

bool fx_geometric(rp_measure m) { return m == RP_RATE || m == RP_TRAIN_RATE || m == RP_MS; }

static bool counts_as(rp_measure m, double x) { return fx_geometric(m) ? x > 0 : !isnan(x); }
static double into_sum(rp_measure m, double x) { return fx_geometric(m) ? log(x) : x; }
static double out_of_mean(rp_measure m, double x) { return fx_geometric(m) ? exp(x) : x; }

static bool counts(const rp_cell *c, rp_measure m, size_t axis) {
  return c->value[axis] >= 0 && counts_as(m, c->mean[m]);
}

/* True if the cells that differ from this one in the axis alone have all of its values. */
static bool is_matched(const rp_report *r, rp_measure m, size_t axis, const rp_cell *c) {
  size_t n = r->axes.at[axis].values.n, found = 0;
  bool *seen = vtb_xcalloc(n + 1, sizeof *seen);
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *d = &r->cells.at[i];
    if (!counts(d, m, axis) || seen[d->value[axis]] || !same_elsewhere(r, axis, c, d)) continue;
    seen[d->value[axis]] = true;
    found++;
  }
  vtb_free(seen);
  return found == n;
}

static void add_value(fx_value *v, rp_measure m, double x) {
  v->low = v->n == 0 || x < v->low ? x : v->low;
  v->high = v->n == 0 || x > v->high ? x : v->high;
  v->mean += into_sum(m, x);
  v->n++;
}

static int gather(const rp_report *r, rp_measure m, size_t axis, fx_axis *f) {
  int n = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (!counts(c, m, axis) || (f->matched && !is_matched(r, m, axis, c))) continue;
    add_value(&f->values.at[c->value[axis]], m, c->mean[m]);
    n++;
  }
  return n;
}

/* Sums become means. */
static void close_values(fx_axis *f, rp_measure m, int direction) {
  for (int i = 0; i < (int)f->values.n; i++) {
    fx_value *v = &f->values.at[i];
    if (v->n == 0) {
      v->mean = v->low = v->high = (double)NAN;
      continue;
    }
    v->mean = out_of_mean(m, v->mean / v->n);
    if (!f->measured || direction * (v->mean - f->values.at[f->best].mean) > 0) f->best = i;
    if (!f->measured || direction * (v->mean - f->values.at[f->worst].mean) < 0) f->worst = i;
    f->measured++;
  }
}

fx_axis fx_main(const rp_report *r, rp_measure m, size_t axis) {
  fx_axis f = {.matched = true};
  for (size_t i = 0; i < r->axes.at[axis].values.n; i++) vtb_vec_push(&f.values, (fx_value){0});
  if (gather(r, m, axis, &f) == 0) {
    f.matched = false;
    gather(r, m, axis, &f);
  }
  int direction = rp_direction(r, m);
  close_values(&f, m, direction ? direction : 1);
  return f;
}

void fx_free(fx_axis *f) { vtb_vec_free(&f->values); }

double fx_reach(const fx_axis *f, bool relative) {
  if (f->measured < 2) return 0;
  double best = f->values.at[f->best].mean, worst = f->values.at[f->worst].mean;
  if (!relative) return fabs(best - worst);
  double factor = best > worst ? best / worst : worst / best;
  return isfinite(factor) ? factor : 0;
}

double fx_pair(const rp_report *r, rp_measure m, size_t a, int a_value, size_t b, int b_value) {
  double sum = 0;
  int n = 0;
  for (size_t i = 0; i < r->cells.n; i++) {
    const rp_cell *c = &r->cells.at[i];
    if (c->value[a] != a_value || c->value[b] != b_value || !counts_as(m, c->mean[m])) continue;
    sum += into_sum(m, c->mean[m]);
    n++;
  }
  return n ? out_of_mean(m, sum / n) : (double)NAN;
}

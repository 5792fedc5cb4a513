/* Scales and ticks of charts. */
#include "frontend/draw/scale.h"

#include <math.h>

#define MARGIN 0.07 /* of the range, on each side */

void sc_take(sc_scale *s, double x) {
  if (!isfinite(x) || (s->log && x <= 0)) return;
  if (!s->any || x < s->low) s->low = x;
  if (!s->any || x > s->high) s->high = x;
  s->any = true;
}

void sc_pad(sc_scale *s) {
  if (!s->any) s->low = s->high = 1;
  if (s->log) {
    double factor = s->high > s->low ? exp(MARGIN * (log(s->high) - log(s->low))) : 1.5;
    s->low /= factor;
    s->high *= factor;
    return;
  }
  double margin = (s->high - s->low) * MARGIN;
  if (!(margin > fabs(s->high) * 1e-12)) margin = s->high != 0 ? fabs(s->high) * 0.05 : 1;
  s->low -= margin;
  s->high += margin;
}

double sc_at(const sc_scale *s, double x) {
  double part = s->log ? (log(x) - log(s->low)) / (log(s->high) - log(s->low))
                       : (x - s->low) / (s->high - s->low);
  if (!isfinite(part)) part = 0;
  return s->from + (part < -1 ? -1 : part > 2 ? 2 : part) * (s->to - s->from);
}

/* 1, 2 or 5 times a power of ten, the nearest to span / want. */
static double nice_step(double span, int want) {
  double raw = span / (want < 1 ? 1 : want), unit = pow(10, floor(log10(raw))), part = raw / unit;
  return unit * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

static int linear_ticks(const sc_scale *s, int want, double tick[SC_MOST_TICKS]) {
  double step = nice_step(s->high - s->low, want);
  int n = 0;
  if (!(step > 0) || !isfinite(step)) return 0;
  double first = ceil(s->low / step);
  for (int i = 0; n < SC_MOST_TICKS && (first + i) * step <= s->high; i++)
    tick[n++] = (first + i) * step;
  return n;
}

/* Powers of ten, every few of them when there are many; with 3, or 2 and 5, between when there are
 * few. */
static int log_ticks(const sc_scale *s, int want, double tick[SC_MOST_TICKS]) {
  static const double between[][3] = {{1}, {1, 3}, {1, 2, 5}};
  double decades = log10(s->high) - log10(s->low);
  int n = 0, parts = decades * 3 <= want + 2 ? 3 : decades * 2 <= want + 2 ? 2 : 1, every = 1;
  if (parts == 1 && decades > want) every = (int)ceil(decades / want);
  for (int e = (int)floor(log10(s->low)); n < SC_MOST_TICKS && e <= log10(s->high); e++)
    for (int k = 0; k < parts && n < SC_MOST_TICKS; k++) {
      double x = between[parts - 1][k] * pow(10, e);
      if (x >= s->low && x <= s->high && (parts > 1 || e % every == 0)) tick[n++] = x;
    }
  return n;
}

int sc_ticks(const sc_scale *s, int want, double tick[SC_MOST_TICKS]) {
  int n = s->log && s->high / s->low > 8 ? log_ticks(s, want, tick) : 0;
  return n >= 2 ? n : linear_ticks(s, s->log && want > 5 ? want * 2 / 3 : want, tick);
}

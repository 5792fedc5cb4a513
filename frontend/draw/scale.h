/* From numbers to places on a chart, and where its ticks stand. */
#ifndef VTB_DRAW_SCALE_H
#define VTB_DRAW_SCALE_H

#include "runtime/base/base.h"

enum { SC_MOST_TICKS = 12 };

typedef struct sc_scale {
  double low, high; /* numbers */
  double from, to;  /* places */
  bool log, any;
} sc_scale;

/* Takes a number into the range; NAN, and what has no logarithm, is left out. */
void sc_take(sc_scale *s, double x);
/* After the last number: a margin on both sides, so that no mark lies on the frame. */
void sc_pad(sc_scale *s);
double sc_at(const sc_scale *s, double x);
/* Round numbers within the range, at most SC_MOST_TICKS and about `want`; how many. */
int sc_ticks(const sc_scale *s, int want, double tick[SC_MOST_TICKS]);

#endif

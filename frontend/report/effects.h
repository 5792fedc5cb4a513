/* The effect of a varied axis on a measure: for each of its values the mean over the other axes,
 * the geometric one of times and speeds, and the range. Only sets of cells that differ in this axis
 * alone and have all of its values count, so that no mean is over other cells than its neighbour's;
 * where there is no such set all cells do, and `matched` is false. */
#ifndef VTB_REPORT_EFFECTS_H
#define VTB_REPORT_EFFECTS_H

#include "frontend/report/results.h"

typedef struct fx_value {
  double mean, low, high; /* NAN if n is 0 */
  int n;                  /* cells */
} fx_value;

typedef struct fx_axis {
  VTB_VEC(fx_value) values;
  bool matched;
  int measured;    /* values that have cells */
  int worst, best; /* of their means, as the measure has it */
} fx_axis;

bool fx_geometric(rp_measure m);
fx_axis fx_main(const rp_report *r, rp_measure m, size_t axis);
void fx_free(fx_axis *f);
/* From the worst value's mean to the best one's; as a factor if `relative`. 0 if there are not
 * two. */
double fx_reach(const fx_axis *f, bool relative);
/* The mean of the cells with these values of two axes; NAN if there is none. */
double fx_pair(const rp_report *r, rp_measure m, size_t a, int a_value, size_t b, int b_value);

#endif

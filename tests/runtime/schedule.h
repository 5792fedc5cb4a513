/* A schedule of tests' trainings: half a cosine from lr to 1e-6 behind linear warm-up from
 * there. */
#ifndef VTB_TEST_SCHEDULE_H
#define VTB_TEST_SCHEDULE_H

#include "runtime/train/optim.h"

#include <math.h>

/* user: how many updates warm up. */
static inline vtb_status warm_cosine(void *user, const vtb_moment *m, vtb_pace *pace,
                                     vtb_error *err) {
  const double low = 1e-6, peak = pace->rate;
  int64_t u = m->t - 1, warmup = *(const int64_t *)user, behind = u - warmup;
  (void)err;
  if (u < warmup)
    pace->rate = low + (double)u * ((peak - low) / (double)warmup);
  else if (behind >= m->total)
    pace->rate = low;
  else
    pace->rate = low + 0.5 * (peak - low) *
                           (1 + cos(3.14159265358979323846 * (double)behind / (double)m->total));
  return VTB_OK;
}

static inline vtb_schedule warm_schedule(double lr, int64_t warmup, int64_t total) {
  static int64_t updates[8];
  static int next;
  int64_t *at = &updates[next++ % 8];
  *at = warmup;
  return (vtb_schedule){.lr = lr, .total = total, .at = warm_cosine, .user = at};
}

#endif

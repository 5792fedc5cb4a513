/* Schedules, as the language and the trainer know them: what is known of the moment of an update,
 * and what an update is made with. */
#ifndef VTB_SCHEDULE_H
#define VTB_SCHEDULE_H

#include "runtime/base/base.h"

typedef struct vtb_moment {
  int64_t t, total; /* number of the update, from 1; updates of the run */
  int64_t updates_an_epoch, batch;
  /* what the command asks for: the peak rate, the one at the end, updates of warm-up, weight decay,
   * and the factor of averages, 0: there are none */
  double lr, final;
  int64_t warmup;
  double decay, ema;
} vtb_moment;

typedef struct vtb_pace {
  double rate, decay, ema; /* decay, ema: NAN where the schedule leaves them alone */
} vtb_pace;

#endif

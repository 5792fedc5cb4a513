/* Learning rates by update number.
 *
 * source  the cosine schedule of Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts,
 *         with linear warm-up; without `prefix` the cosine is not shifted by the warm-up, as the
 *         recipes of the vision papers have it. */
#include "runtime/train/optim.h"

#include <math.h>

double vtb_schedule_lr(const vtb_schedule *s, int64_t update) {
  if (update < s->warmup)
    return s->warmup_lr + (double)update * ((s->base_lr - s->warmup_lr) / (double)s->warmup);
  if (s->kind == VTB_SCHEDULE_CONSTANT) return s->base_lr;
  int64_t u = s->prefix ? update - s->warmup : update;
  if (u >= s->total) return s->final_lr;
  return s->final_lr + 0.5 * (s->base_lr - s->final_lr) *
                           (1 + cos(3.14159265358979323846 * (double)u / (double)s->total));
}

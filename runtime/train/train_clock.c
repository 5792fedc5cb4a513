/* The parts that depend on the time and on signals. Of several ranks rank 0's clock decides, see
 * train_ranks.c. */
#include "runtime/train/train_internal.h"

bool vtb__checkpoint_is_late(const vtb_trainer *t) {
  const vtb_train_config *c = &t->config;
  return c->checkpoint && c->checkpoint_seconds > 0 &&
         vtb_now() - t->last_checkpoint >= c->checkpoint_seconds;
}

bool vtb__time_is_over(const vtb_trainer *t) {
  const vtb_train_config *c = &t->config;
  return c->max_seconds > 0 && vtb_now() - t->started >= c->max_seconds;
}

bool vtb__asked_to_stop(const vtb_trainer *t) {
  return t->n_ranks > 1 ? t->vote.stop : t->config.stop && *t->config.stop;
}

int64_t vtb__plan_anew(const vtb_trainer *t) {
  const vtb_train_config *c = &t->config;
  double now = vtb_now(), left = c->fit_seconds - (now - t->started);
  int64_t done = t->state.step + (t->n_ranks > 1); /* ranks vote on it before it is counted */
  if (c->fit_seconds <= 0 || !(t->step_seconds > 0)) return 0;
  if (t->fit_total && done - t->planned_at < t->fit_total / 50 &&
      now - t->planned_when < c->fit_seconds / 50)
    return 0;
  return done + (left > 0 ? (int64_t)(left / t->step_seconds) : 0);
}

/* What a training tells while it runs and when it is over: progress, the curve, the results. */
#ifndef VTB_CLI_TRAIN_OUTPUT_H
#define VTB_CLI_TRAIN_OUTPUT_H

#include "frontend/cli/train_programs.h"

/* Of a classifier training accuracy as a mean over windows of a fiftieth of the run, and that of
 * the split looked at where it was measured. Of a model that declares what it is measured by its
 * score, an epoch a point; where that is the loss, or there is no second epoch, the loss as a mean
 * over windows. */
typedef struct train_history {
  VTB_VEC(double) train_at, train, eval_at, eval;
  VTB_VEC(double) score_at, score, eval_score;
  const char *score_name, *watched; /* watched: the split that is evaluated */
  double window_sum;
  int64_t window_steps;
  bool quiet, measured;
} train_history;

void train_on_event(void *history, const vtb_train_event *e);
void train_history_free(train_history *h);
void train_save_curve(const train_history *h, const char *path);
/* complete: the run is over although epochs are left. */
void train_report(const train_options *o, const vtb_train_result *r, bool complete,
                  const char *weights);

#endif

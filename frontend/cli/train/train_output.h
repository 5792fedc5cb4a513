/* The words of a training that is over: the results, and the curve. */
#ifndef VTB_CLI_TRAIN_OUTPUT_H
#define VTB_CLI_TRAIN_OUTPUT_H

#include "frontend/cli/train/run_folder.h"
#include "frontend/cli/train/train_programs.h"

/* The curve of all that the run has logged, also before it was resumed: of a classifier training
 * accuracy as a mean over windows of a fiftieth of the run, and accuracy in evaluations; of a model
 * that declares what it is measured by its score, an epoch a point; where that is the loss, or
 * there is no second epoch, the loss. watched: what is evaluated on. Says why where it cannot. */
void train_save_curve(const run_folder *f, bool measured, const char *watched);

typedef struct train_outcome {
  vtb_train_result result;
  bool over_already; /* the run was over before: `result` is what its log tells */
  bool stopped;      /* by a signal */
  bool has_weights;  /* and weights were written, now or before */
  const run_folder *folder;
} train_outcome;
/* On stdout. */
void train_report(const train_options *o, const train_outcome *r);
/* The results that the log tells of, of a run that is over. declared: what its model declares to be
 * measured by. */
void train_recall(const run_folder *f, const vtb_measured_list *declared, vtb_train_result *r);

#endif

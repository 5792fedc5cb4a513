/* vertebra train --plan-scale: what a training would do on many ranks, predicted. */
#ifndef VTB_CLI_PLAN_SCALE_H
#define VTB_CLI_PLAN_SCALE_H

#include "codegen/scaling.h"
#include "frontend/cli/train/train_programs.h"

/* A step as the model of codegen/scaling.h wants it, with its buckets. */
typedef struct plan_step {
  vtb_scaling_step step;
  vtb_scaling_bucket *buckets; /* owned */
} plan_step;

/* counts: "8,64,512", numbers of ranks. Prints the tables; nothing is trained. Errors are printed.
 */
VTB_MUST_USE vtb_status plan_scale(const char *what, const train_options *o, const char *counts);

#endif

/* The curve of a training, from the log of its run's folder. */
#ifndef VTB_STUDY_CURVE_H
#define VTB_STUDY_CURVE_H

#include "runtime/base/base.h"

#include <cjson/cJSON.h>

typedef struct study_curve {
  cJSON *points; /* [{"epoch", "seconds", "loss", "val"}], an array; "val" where it was evaluated */
  char score[80]; /* what its evaluations are compared by: "top1" */
  bool lower;     /* is better */
  double best;    /* of the evaluations; NAN of none */
  bool windows;   /* the loss is of windows of updates, not of epochs */
} study_curve;

/* A log that is not there, or not a log, is an empty curve. */
void study_curve_read(const char *run_folder, study_curve *out);
void study_curve_free(study_curve *c);

#endif

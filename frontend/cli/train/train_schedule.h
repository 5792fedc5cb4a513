/* The schedule of a training: opened by the options, asked by the trainer. */
#ifndef VTB_CLI_TRAIN_SCHEDULE_H
#define VTB_CLI_TRAIN_SCHEDULE_H

#include "frontend/cli/train/train_programs.h"

typedef struct train_schedule {
  vtb_schedule_source *source;
  const train_options *options;
} train_schedule;

/* Opens it, keeps its texts among the program's sources and makes it the trainer's. Errors are
 * printed. */
VTB_MUST_USE vtb_status train_schedule_open(train_schedule *s, train_options *o, train_programs *p);
/* Once the run is planned: whether it gives a rate at all of it. Errors are printed. */
VTB_MUST_USE vtb_status train_schedule_try(train_schedule *s);
/* The rate over such a run as a picture, without data or a model. Errors are printed. */
VTB_MUST_USE vtb_status train_schedule_draw(const train_options *o, const char *path);
void train_schedule_free(train_schedule *s);

#endif

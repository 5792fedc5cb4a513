/* vertebra train --augmented FILE.png: what training makes of some samples, drawn. */
#ifndef VTB_CLI_TRAIN_AUGMENTED_H
#define VTB_CLI_TRAIN_AUGMENTED_H

#include "frontend/cli/train/train_programs.h"

/* With the data, flags and `augment { }` of the training, which does not begin. Errors are
 * printed. */
VTB_MUST_USE vtb_status train_augmented(const char *what, train_options *o, const char *path);

#endif

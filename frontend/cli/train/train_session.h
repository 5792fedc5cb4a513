/* The training that `vertebra train` was asked for. */
#ifndef VTB_CLI_TRAIN_SESSION_H
#define VTB_CLI_TRAIN_SESSION_H

#include "frontend/cli/train/train_programs.h"

/* Opens the data, trains, and leaves weights, checkpoint, logs and a curve in o->out. Errors are
 * printed. */
VTB_MUST_USE vtb_status train_session_run(const char *what, train_options *o);

#endif

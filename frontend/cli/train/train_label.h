/* Labels of runs: what was asked for besides the model and its recipe. */
#ifndef VTB_CLI_TRAIN_LABEL_H
#define VTB_CLI_TRAIN_LABEL_H

#include "frontend/cli/cli.h"

/* "paths quad, chunk 16, seed 1": the options of the command line that make the run what it is, as
 * typed; of one that is given twice the last. `before`: the label of the run that is repeated or
 * gone on with, which they change; NULL. "": none of them is given. */
char *train_label(const char *before, const cli_opt *opts, int n, int argc, char **argv);

#endif

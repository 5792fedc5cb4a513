/* How fast samples of a data set are prepared, without a model. */
#ifndef VTB_CLI_BENCH_DATA_H
#define VTB_CLI_BENCH_DATA_H

#include "frontend/cli/data/data.h"

/* image: "224" or "224x192", NULL: 224; seconds: of all measurements together. Errors are
 * printed. */
VTB_MUST_USE vtb_status bench_data(const cli_data_options *o, const char *image, double seconds);

#endif

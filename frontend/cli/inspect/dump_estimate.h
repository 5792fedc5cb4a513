/* vertebra dump --estimate. */
#ifndef VTB_CLI_DUMP_ESTIMATE_H
#define VTB_CLI_DUMP_ESTIMATE_H

#include "frontend/cli/cli.h"

/* The time that a run's launches take on the GPU that the options name, each and together. */
/* `arch` as --arch says it; NULL: that of the GPU whose plan is asked for. */
VTB_MUST_USE vtb_status cli_dump_estimate(const vtb_compile_options *o, const char *arch,
                                          const cli_model_options *m);

#endif

/* Configs beside weights. */
#ifndef VTB_CLI_LOAD_CONFIG_H
#define VTB_CLI_LOAD_CONFIG_H

#include "frontend/cli/weights.h"
#include "runtime/weights/rename.h"

/* Holds config.json, if the weights came with one, against the model, by the `config` rows of its
 * rules: another number of heads or another activation is VTB_E_INPUT, another epsilon is said. */
VTB_MUST_USE vtb_status cli_check_config(const char *what, const cli_model_options *m,
                                         const cli_load_options *l, const vtb_names *names,
                                         vtb_error *err);

#endif

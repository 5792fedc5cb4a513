/* Recipes: options of `vertebra train` from a file. */
#ifndef VTB_CLI_TRAIN_RECIPE_H
#define VTB_CLI_TRAIN_RECIPE_H

#include "frontend/cli/cli.h"

typedef VTB_VEC(char *) train_words; /* of a command line; each owned */

/* `name = value` lines become options read before the command line's. Errors are printed. */
VTB_MUST_USE vtb_status train_recipe_read(const char *path, const cli_opt *opts, int n_opts,
                                          train_words *words);

#endif

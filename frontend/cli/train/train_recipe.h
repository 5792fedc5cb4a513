/* Recipes: options of `vertebra train` from a file, YAML or lines `name = value`. The record that a
 * run leaves of itself (run.yaml) is one.
 *
 * YAML: a mapping of option names without the dashes to values; flags are true or false, options
 * that may be repeated take a list; D is a list ["depth=12"] or a mapping {depth: 12}. `model` is
 * the MODEL of the command line. `<<` takes in a mapping that an alias names. Below `run` is what a
 * run tells of itself, which is not read.
 */
#ifndef VTB_CLI_TRAIN_RECIPE_H
#define VTB_CLI_TRAIN_RECIPE_H

#include "frontend/cli/cli.h"

/* Words of a command line; each owned. */
typedef struct train_words {
  VTB_VEC(char *) list;
  char *model; /* NULL: the recipe names none */
} train_words;
void train_words_free(train_words *w);

/* Appends what the file says as options. Errors name file, line and column, and are printed. */
VTB_MUST_USE vtb_status train_recipe_read(const char *path, const cli_opt *opts, int n_opts,
                                          train_words *words);

/* run_values(): the texts of a run.yaml's section `run`, by name; NULL if it lacks them. */
typedef struct train_record_text {
  char *vertebra, *data, *eval_data, *init_hash, *model_hash, *plan, *name, *label;
} train_record_text;
VTB_MUST_USE vtb_status train_recipe_record(const char *path, train_record_text *out,
                                            vtb_error *err);
void train_record_text_free(train_record_text *t);

#endif

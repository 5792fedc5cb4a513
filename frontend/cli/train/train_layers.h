/* Which parameters a training moves, and how fast. */
#ifndef VTB_CLI_TRAIN_LAYERS_H
#define VTB_CLI_TRAIN_LAYERS_H

#include "frontend/cli/cli.h"

/* TRAIN_LAYER_OPTS() are the rows; zero before. */
typedef struct train_layers {
  cli_list freeze; /* patterns of names */
  cli_list scales; /* pattern=factor */
  double decay;
  VTB_VEC(vtb_rate) rates;
  vtb_arena arena;
  bool open;
} train_layers;
#define TRAIN_LAYER_OPTS(l)                                                                        \
  {"--freeze", CLI_LIST, &(l).freeze, "PATTERN",                                                   \
   "parameters that stay as they are: 'blocks.0.*', '*.norm?.*'; repeatable"},                     \
      {"--lr-scale", CLI_LIST, &(l).scales, "PATTERN=X",                                           \
       "learning rate of these parameters times X: 'blocks.*=0.1'; the last that matches holds"},  \
  {                                                                                                \
    "--layer-decay", CLI_FLOAT, &(l).decay, "X",                                                   \
        "each block's learning rate is X times that of the one behind it (0.75, say)"              \
  }

/* Reads the options into what the compiler and the trainer take; both borrow of `l`. */
VTB_MUST_USE vtb_status train_layers_plan(train_layers *l, cli_model_options *m,
                                          vtb_train_config *config, vtb_error *err);
/* Checks the model as it is compiled: every pattern of --freeze has found something; says how much,
 * unless quiet. */
VTB_MUST_USE vtb_status train_layers_check(const train_layers *l, const vtb_func *entry, bool quiet,
                                           vtb_error *err);
void train_layers_free(train_layers *l);

#endif

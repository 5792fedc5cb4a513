/* Models with weights: what run, eval and train share. */
#ifndef VTB_CLI_WEIGHTS_H
#define VTB_CLI_WEIGHTS_H

#include "frontend/cli/cli.h"

typedef struct cli_inference {
  vtb_program *program; /* owned by the model */
  vtb_model *model;
  int channels, height, width;
} cli_inference;

/* Compiles MODEL for `batch` images and fills its parameters from `weights` (NULL: from their initialisers, seed 0). */
VTB_MUST_USE vtb_status cli_load_for_inference(const char *what, const cli_model_options *o, int64_t batch,
                                               const char *weights, cli_inference *out);
/* Preprocessing: the weights file's own mean and std, else the data set's, else ImageNet's. */
VTB_MUST_USE vtb_status cli_weights_transform(const char *weights, const vtb_dataset *d, const cli_inference *inf,
                                              vtb_transform *t, vtb_error *err);
/* Class names stored in a weights file; NULL if it has none. Each and the array are malloc'd. */
char **cli_weights_classes(const char *weights, int *n);
/* Adds class names, normalisation, the model's name and its -D settings to a weights file's metadata, where
 * cli_load_for_inference() finds them: the user need not repeat them. */
VTB_MUST_USE vtb_status cli_describe_weights(const char *path, const vtb_dataset *d, const vtb_transform *t,
                                             const char *model, const cli_list *defines, vtb_error *err);

#endif

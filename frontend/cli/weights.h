/* Models with weights: what run, eval and train share. */
#ifndef VTB_CLI_WEIGHTS_H
#define VTB_CLI_WEIGHTS_H

#include "frontend/cli/cli.h"
#include "runtime/artefact/artefact.h"

typedef struct cli_inference {
  vtb_program *program; /* owned by the model */
  vtb_model *model;
  int channels, height, width; /* of the image input; channels 0: there is none */
  const vtb_weights *weights;  /* what the parameters are from; NULL: their initialisers */
  vtb_weights *own;            /* a weights file */
  vtb_artefact *built;         /* a built file instead of a model's source */
} cli_inference;
void cli_inference_free(cli_inference *inf);

/* Compiles MODEL for `batch` images, or opens a built file, and fills the parameters from `weights`
 * (NULL: the built file's, or their initialisers, seed 0). Errors are printed. */
VTB_MUST_USE vtb_status cli_load_for_inference(const char *command, const char *what,
                                               const cli_model_options *o, int64_t batch,
                                               const char *weights, cli_inference *out);
/* What the weights file, or the built file, says under that key; NULL. */
const char *cli_inference_meta(const cli_inference *inf, const char *key);
/* Class names stored with the weights; NULL if there are none. Each and the array are malloc'd. */
char **cli_weights_classes(const cli_inference *inf, int *n);
/* Adds class names, normalisation, the model's name and its -D settings to a weights file's
 * metadata, where cli_load_for_inference() finds them: the user need not repeat them. */
VTB_MUST_USE vtb_status cli_describe_weights(const char *path, const vtb_dataset *d,
                                             const vtb_transform *t, const char *model,
                                             const cli_list *defines, vtb_error *err);

#endif

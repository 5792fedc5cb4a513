/* Models with weights: what commands that load them share. */
#ifndef VTB_CLI_WEIGHTS_H
#define VTB_CLI_WEIGHTS_H

#include "frontend/cli/cli.h"
#include "frontend/compile/weights.h"
#include "runtime/artefact/artefact.h"

/* ---- weights files --------------------------------------------------------------------------- */

typedef vtb_load cli_load_options; /* CLI_LOAD_OPTS() are the rows */
#define CLI_LOAD_OPTS(load, option, help)                                                          \
  {option, CLI_LIST, &(load).given, "FILE", help "; PREFIX=FILE: of what is below PREFIX"},        \
      {"--allow-missing", CLI_FLAG, &(load).allow_missing, NULL,                                   \
       "parameters that the weights lack keep their initial values"},                              \
      {"--allow-unused", CLI_FLAG, &(load).allow_unused, NULL,                                     \
       "the weights may have tensors that the model lacks"},                                       \
  {                                                                                                \
    "--ema-weights", CLI_FLAG, &(load).averages, NULL,                                             \
        "of a checkpoint with averaged weights too, those"                                         \
  }
#define CLI_WEIGHTS_HELP                                                                           \
  "the model's parameters: safetensors, .pth, shards or a folder of Hugging Face"

/* The calls of frontend/compile/weights.h for a command: what is said goes to stderr, and with
 * --json a fit is "fit" of the document or of its error. `what` is the MODEL. */
VTB_MUST_USE vtb_status cli_load_open(cli_load_options *l, vtb_error *err);
VTB_MUST_USE vtb_status cli_load_for(const char *what, const cli_model_options *m,
                                     cli_load_options *l, vtb_error *err);
VTB_MUST_USE vtb_status cli_fit(const char *what, const cli_model_options *m,
                                const cli_load_options *l, const vtb_fit_options *o,
                                const vtb_tensor_info *tensors, int n, void *const *buffers,
                                vtb_error *err);
void cli_fit_note(const cli_load_options *l, const vtb_fit_report *r);
VTB_MUST_USE vtb_status cli_fit_source(const char *what, const cli_model_options *m,
                                       const cli_load_options *l, vtb_weights **out,
                                       vtb_error *err);

/* ---- inference ------------------------------------------------------------------------------- */

typedef struct cli_inference {
  vtb_program *program; /* owned by the model */
  vtb_runner *model;
  int channels, height, width; /* of the image input; channels 0: there is none */
  const vtb_weights *weights;  /* what the parameters are from; NULL: their initialisers */
  vtb_artefact *built;         /* a built file instead of a model's source */
} cli_inference;
void cli_inference_free(cli_inference *inf);

/* Compiles MODEL for `batch` images, or opens a built file, and fills the parameters from the
 * weights (none: the built file's, or their initialisers, seed 0), which must stay. Errors are
 * printed. */
VTB_MUST_USE vtb_status cli_load_for_inference(const char *command, const char *what,
                                               const cli_model_options *o, int64_t batch,
                                               cli_load_options *l, cli_inference *out);
/* Says of options with strips how many there are, and what a program of so many bytes of workspace
 * saves; 0: not known. */
void cli_say_strips(const vtb_compile_options *o, int64_t bytes);
/* Metadata of the weights file, or the built file, under that key; NULL. */
const char *cli_inference_meta(const cli_inference *inf, const char *key);
/* Class names stored with the weights; NULL if there are none. Each and the array are malloc'd. */
char **cli_weights_classes(const cli_inference *inf, int *n);
/* Add to the metadata of weights that are about to be written what cli_load_for_inference() finds
 * there, so that the user need not repeat it: the model's name, its entry (NULL: the file's
 * default) and -D settings; class names and normalisation. */
void cli_describe_model(vtb_weights *w, const char *model, const char *entry,
                        const cli_list *defines);
void cli_describe_weights(vtb_weights *w, const vtb_dataset *d, const vtb_transform *t);

#endif

/* How images become a model's input: what the commands share. docs/preprocessing.md.
 *
 * Who says so, the later over the earlier: the data set (mean, std), the model's `prepare`, a
 * configuration of Hugging Face beside the weights, the weights or the built file, options. */
#ifndef VTB_CLI_PREPARE_H
#define VTB_CLI_PREPARE_H

#include "frontend/cli/load/weights.h"

typedef struct cli_prepare_options {
  const char *crop, *resize, *filter, *mean, *std; /* NULL: not given */
} cli_prepare_options;
#define CLI_PREPARE_OPTS(prepare)                                                                  \
  {"--crop", CLI_STR, &(prepare).crop, "R",                                                        \
   "images: the part of the resized side that the model sees, above 0 to 1 "                       \
   "(docs/preprocessing.md)"},                                                                     \
      {"--resize", CLI_STR, &(prepare).resize, "HOW",                                              \
       "images: crop (short side, then the middle), squash or pad"},                               \
      {"--filter", CLI_STR, &(prepare).filter, "F",                                                \
       "images: bicubic, bilinear, nearest, box, hamming or lanczos"},                             \
      {"--mean", CLI_STR, &(prepare).mean, "M", "images: one number or three, 0.5,0.5,0.5"}, {     \
    "--std", CLI_STR, &(prepare).std, "S", "images: numbers of 0 to 1 become (number - M) / S"     \
  }

typedef struct cli_prepare_sources {
  const char *command, *model;
  const char *said;           /* the program's `prepare` */
  const vtb_weights *weights; /* whose metadata counts; NULL: none */
  const vtb_artefact *built;  /* whose metadata counts if there are no weights; NULL: none */
  const vtb_dataset *data;    /* NULL: none */
  const cli_prepare_options *options;
  int channels, height, width; /* of the image input; channels 0: there is none */
} cli_prepare_sources;
/* No augmentation. Where weights say otherwise than the model, a line on stderr says so. */
VTB_MUST_USE vtb_status cli_prepare(const cli_prepare_sources *s, vtb_transform *t, vtb_error *err);
VTB_MUST_USE vtb_status cli_prepare_transform(const char *command, const char *model,
                                              const cli_inference *inf,
                                              const cli_prepare_options *o, const vtb_dataset *d,
                                              vtb_transform *t, vtb_error *err);
/* Adds the preprocessing to a weights file's metadata, where cli_prepare() finds it. */
void cli_prepare_describe(const vtb_transform *t, vtb_weights *w);

#endif

/* How images become a model's input: what the commands share. */
#ifndef VTB_CLI_PREPARE_H
#define VTB_CLI_PREPARE_H

#include "frontend/cli/weights.h"

/* Preprocessing: the weights' own mean and std, else the data set's, else ImageNet's. */
VTB_MUST_USE vtb_status cli_prepare_transform(const cli_inference *inf, const vtb_dataset *d,
                                              vtb_transform *t, vtb_error *err);
/* Adds the preprocessing to a weights file's metadata, where cli_prepare_transform() finds it. */
void cli_prepare_describe(const vtb_transform *t, vtb_weights *w);

#endif

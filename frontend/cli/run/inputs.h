/* Inputs of `run` beside images: arrays from files. */
#ifndef VTB_CLI_INPUTS_H
#define VTB_CLI_INPUTS_H

#include "frontend/cli/cli.h"

typedef struct cli_inputs {
  vtb_weights *arrays; /* by input; the first axis of each is the samples, or 1 for all of them */
  int32_t seed;        /* of random numbers; set it before samples are filled in */
  int image;           /* tensor of the image input, -1: none */
} cli_inputs;

/* given: "NAME=FILE", a .npy file or a .safetensors file with an array of that name. Every input of
 * the program but the image and the seed must be given. Errors are left in err; free it after them
 * too. */
VTB_MUST_USE vtb_status cli_inputs_open(cli_inputs *in, const vtb_program *p, const cli_list *given,
                                        vtb_error *err);
void cli_inputs_free(cli_inputs *in);
/* Samples that the arrays hold; 0: there are none, or all serve every sample. */
int64_t cli_inputs_count(const cli_inputs *in);
/* Sample `from` and the following ones into the model's inputs, rows 0 to n - 1. */
VTB_MUST_USE vtb_status cli_inputs_fill(const cli_inputs *in, vtb_runner *m, int64_t from,
                                        int64_t n, vtb_error *err);
/* The first input whose array has a number that is not finite in that row of what was filled; NULL:
 * none. */
const char *cli_inputs_not_finite(const cli_inputs *in, vtb_runner *m, int64_t row);

#endif

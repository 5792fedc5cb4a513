/* The two halves of `vertebra verify`. */
#ifndef VTB_CLI_VERIFY_H
#define VTB_CLI_VERIFY_H

#include "frontend/cli/evaluate.h"

typedef struct verify_options {
  cli_model_options model;
  double tol, grad_tol;
  const char *model_file; /* --model: where the entry is looked for; NULL: the search folders */
  const char *target;     /* interp, cpu or all */
  bool all_modes, no_grad, nan, verbose;
} verify_options;

typedef struct verify_mode {
  const char *mode; /* NULL: auto */
  int64_t chunk;
} verify_mode;

/* VTB_OK, VTB_E_NUMBERS, or what kept the case from running. Adds a record to `json` if not NULL. */
vtb_status verify_case(const char *path, const verify_mode *mode, cli_target target, const verify_options *o,
                       cJSON *json);
vtb_status verify_model(const char *what, const verify_options *o);

#endif

/* The two halves of `vertebra verify`. */
#ifndef VTB_CLI_VERIFY_H
#define VTB_CLI_VERIFY_H

#include "frontend/cli/evaluate.h"

#include <string.h>

typedef struct verify_options {
  cli_model_options model;
  double tol, grad_tol;
  const char *model_file; /* --model: where the entry is looked for; NULL: the search folders */
  const char *target; /* of cli_target_names, or all: the two that need nothing but this program */
  bool all_modes, no_grad, nan, verbose;
} verify_options;

static inline bool verify_runs_on(const verify_options *o, cli_target t) {
  if (strcmp(o->target, "all") == 0) return t == CLI_TARGET_INTERP || t == CLI_TARGET_CPU;
  return strcmp(o->target, cli_target_names[t]) == 0;
}

typedef struct verify_mode {
  const char *mode; /* NULL: auto */
  int64_t chunk;
} verify_mode;

/* VTB_OK, VTB_E_NUMBERS, or what kept the case from running. Adds a record to `json` if not NULL. *scans: whether the
 * entry has a recurrence, whose modes differ. */
vtb_status verify_case(const char *path, const verify_mode *mode, cli_target target,
                       const verify_options *o, cJSON *json, bool *scans);
/* A case as something to compile: its entry at graph level, with its gradient if the case knows any; *func is a name in
 * the module, *batch what the case's tensors have. */
VTB_MUST_USE vtb_status verify_case_model(const char *path, const cli_model_options *o,
                                          cli_model *model, const char **func, int64_t *batch,
                                          vtb_error *err);
vtb_status verify_model(const char *what, const verify_options *o);

#endif

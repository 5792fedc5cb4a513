/* Built files where a command takes a MODEL. */
#ifndef VTB_CLI_BUILT_H
#define VTB_CLI_BUILT_H

#include "frontend/cli/cli.h"
#include "runtime/artefact/artefact.h"

/* By content: a built file, or what is left of one. */
bool cli_is_built(const char *what);
/* Opens it and refuses options that only a model's source can follow. Errors are printed. */
VTB_MUST_USE vtb_status cli_built_open(const char *command, const char *path,
                                       const cli_model_options *o, vtb_artefact **out);
/* On o->target, else on what the file has. `batch` as the user wants it, 0: the file's. Errors are
 * printed. */
VTB_MUST_USE vtb_status cli_built_program(vtb_artefact *a, vtb_artefact_role role,
                                          const cli_model_options *o, int64_t batch,
                                          vtb_program **program);
/* `vertebra check FILE`. */
void cli_built_show(const char *path, const vtb_artefact *a, bool list_params);

#endif

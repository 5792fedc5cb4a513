/* Names of what commands write. */
#ifndef VTB_CLI_NAMES_H
#define VTB_CLI_NAMES_H

#include "runtime/base/base.h"

/* A file that `option` of `command` writes ends as what it holds: in one of `endings`, as ".svg
 * .png", of which the first is advised. A NULL path is the default's. Else an error of usage. */
vtb_status cli_check_name(const char *command, const char *option, const char *path,
                          const char *endings);
/* A folder is not called like one of the files that come into it. */
vtb_status cli_check_folder(const char *command, const char *option, const char *path);

#endif

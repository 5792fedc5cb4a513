/* Texts of options that say more than any text: words, and names of what commands write. */
#ifndef VTB_CLI_NAMES_H
#define VTB_CLI_NAMES_H

#include "frontend/cli/cli.h"

/* As the option's kind and metavar have it. Else an error of usage. */
vtb_status cli_check_text(const char *command, const cli_opt *o, const char *text);
/* A file that `option` of `command` writes ends as what it holds: in one of `endings`, as
 * ".svg|.png", of which the first is advised. A NULL path is the default's. */
vtb_status cli_check_name(const char *command, const char *option, const char *path,
                          const char *endings);

#endif

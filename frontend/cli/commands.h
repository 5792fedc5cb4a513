/* The subcommands as functions: for main() and the commands about commands. */
#ifndef VTB_CLI_COMMANDS_H
#define VTB_CLI_COMMANDS_H

#include "frontend/cli/cli.h"

vtb_status cli_command_run(const cli_command *c, int argc, char **argv);
/* Shows the visitor a command's rows without running it: a command hands them to cli_parse() before
 * it does anything else. */
void cli_describe(const cli_command *c, cli_option_visitor visit, void *user);
void cli_print_commands(FILE *f);

#endif

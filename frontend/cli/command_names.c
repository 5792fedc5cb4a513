/* The subcommands by name; commands.c runs them. */
#include "frontend/cli/cli.h"

#include <string.h>

const cli_command cli_commands[] = {
#define X(name, usage, summary) {#name, usage, summary},
#include "frontend/cli/commands.def"
#undef X
};
const int cli_n_commands = CLI_COUNT(cli_commands);

const cli_command *cli_command_find(const char *name) {
  for (int i = 0; i < cli_n_commands; i++)
    if (strcmp(cli_commands[i].name, name) == 0) return &cli_commands[i];
  return NULL;
}

const char *cli_command_near(const char *name) {
  const char *names[64];
  int n = cli_n_commands < CLI_COUNT(names) ? cli_n_commands : CLI_COUNT(names);
  for (int i = 0; i < n; i++) names[i] = cli_commands[i].name;
  return vtb_suggest(name, names, (size_t)n);
}

/* Runs subcommands, and asks what options they have. Only what stands above all of them may call
 * this: main() and the commands about commands. */
#include "frontend/cli/commands.h"

static vtb_status (*const functions[])(int argc, char **argv) = {
#define X(name, usage, summary) cli_cmd_##name,
#include "frontend/cli/commands.def"
#undef X
};

vtb_status cli_command_run(const cli_command *c, int argc, char **argv) {
  return functions[c - cli_commands](argc, argv);
}

void cli_describe(const cli_command *c, cli_option_visitor visit, void *user) {
  char *argv[] = {(char *)(uintptr_t)c->name, NULL};
  cli_visit_options(visit, user);
  (void)cli_command_run(c, 1, argv);
  cli_visit_options(NULL, NULL);
}

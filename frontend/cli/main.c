/* The command: which subcommand. */
#include "frontend/cli/commands.h"
#include "frontend/cli/ranks.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct invocation {
  const cli_command *command;
  int argc;
  char **argv;
} invocation;

/* Commands print their own errors; err is for what leaves them: no memory, a defect. */
static vtb_status run_command(void *arg, vtb_error *err) {
  const invocation *i = arg;
  (void)err;
  return cli_command_run(i->command, i->argc, i->argv);
}

static int run_guarded(const cli_command *command, int argc, char **argv) {
  invocation i = {command, argc, argv};
  vtb_error err = {0};
  vtb_status status = vtb_guard(run_command, &i, &err);
  cli_progress_clear();
  if (err.text[0]) (void)cli_error(&err);
  return (int)status;
}

static vtb_status print_version(void) {
  if (!cli_json()) {
    puts("vertebra " VTB_VERSION);
    return VTB_OK;
  }
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "version", VTB_VERSION);
  cli_print_json(out);
  return VTB_OK;
}

/* Commands that work on ranks see to it themselves. */
static void warn_of_ranks(const char *name) {
  static const char *const shared[] = {"train", "eval", "ablate", "doctor", "help"};
  if (!CLI_IS_AMONG(name, shared)) cli_ranks_warn(name);
}

static int run_main(int argc, char **argv) {
  if (argc < 2) {
    cli_print_commands(stderr);
    return VTB_E_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "--version") == 0) return (int)print_version();
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
  const cli_command *c = cli_command_find(name);
  vtb_error err = {0};
  if (cli_how_begin(&err) != VTB_OK) return (int)cli_usage_error("", "%s", err.text);
  warn_of_ranks(name);
  if (c) return run_guarded(c, argc - 1, argv + 1);
  if (name[0] == '-')
    return (int)cli_usage_error(
        "", "a command comes before its options: vertebra check MODEL %s ...", name);
  return (int)cli_unknown_command(name);
}

int main(int argc, char **argv) {
  signal(SIGXFSZ, SIG_IGN); /* a file that must not grow further is an error of the write */
  cli_begin(argc, argv);
  return cli_end(run_main(argc, argv));
}

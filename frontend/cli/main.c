/* The command: which subcommand, and help. */
#include "frontend/cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static vtb_status (*const run[])(int argc, char **argv) = {
#define X(name, usage, summary) cli_cmd_##name,
#include "frontend/cli/commands.def"
#undef X
};

static void print_help(FILE *f) {
  fprintf(f, "vertebra " VTB_VERSION
             ": a compiler for vision backbones\n\nusage: vertebra COMMAND [ARGUMENT]...\n\n");
  for (int i = 0; i < cli_n_commands; i++)
    fprintf(f, "  %-8s %-34s %s\n", cli_commands[i].name, cli_commands[i].usage,
            cli_commands[i].summary);
  fprintf(f, "\nMODEL is a .vtb file or a preset's name (vil_tiny, vil_tiny_patch16_224), FILE "
             "what `vertebra build` made.\n"
             "`vertebra COMMAND --help` lists a command's options. Exit status: 0 done, 1 input at "
             "fault, 2 usage, 3 memory, "
             "4 device, 5 numbers\n"
             "differ, 70 internal error.\n");
}

typedef struct invocation {
  int command, argc;
  char **argv;
} invocation;

/* Commands print their own errors; err is for what leaves them: no memory, a defect. */
static vtb_status run_command(void *arg, vtb_error *err) {
  const invocation *i = arg;
  (void)err;
  return run[i->command](i->argc, i->argv);
}

static int run_guarded(int command, int argc, char **argv) {
  invocation i = {command, argc, argv};
  vtb_error err = {0};
  vtb_status status = vtb_guard(run_command, &i, &err);
  if (err.text[0]) (void)cli_error(&err);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "vertebra: cannot write the output: %s\n", strerror(errno));
    return status ? (int)status : VTB_E_INPUT;
  }
  return (int)status;
}

int main(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
      strcmp(argv[1], "-h") == 0) {
    print_help(argc < 2 ? stderr : stdout);
    return argc < 2 ? VTB_E_USAGE : VTB_OK;
  }
  if (strcmp(argv[1], "--version") == 0) {
    puts("vertebra " VTB_VERSION);
    return VTB_OK;
  }
  const char *names[32];
  for (int i = 0; i < cli_n_commands; i++) {
    names[i] = cli_commands[i].name;
    if (strcmp(argv[1], names[i]) == 0) return run_guarded(i, argc - 1, argv + 1);
  }
  if (argv[1][0] == '-') {
    fprintf(stderr, "vertebra: a command comes before its options: vertebra check MODEL %s ...\n\n",
            argv[1]);
    print_help(stderr);
    return VTB_E_USAGE;
  }
  const char *near = vtb_suggest(argv[1], names, (size_t)cli_n_commands);
  fprintf(stderr, "vertebra: unknown command '%s'", argv[1]);
  if (near) fprintf(stderr, "; did you mean '%s'?", near);
  fputs("\n\n", stderr);
  print_help(stderr);
  return VTB_E_USAGE;
}

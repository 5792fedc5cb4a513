/* The table of subcommands and the parser of their options. */
#include "frontend/cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const cli_command cli_commands[] = {
    {"check", "MODEL|FILE [-D name=value]...",
     "types, layers, parameters, FLOPs, memory; what a built file holds", cli_cmd_check},
    {"build", "MODEL [-o FILE] [--target LIST]",
     "compile into a file that runs without the compiler", cli_cmd_build},
    {"run", "MODEL|FILE [--weights W] IMAGE...", "classify image files, or write features",
     cli_cmd_run},
    {"train", "MODEL|FILE --data D", "train a classifier; checkpoints, resumes, logs",
     cli_cmd_train},
    {"eval", "MODEL|FILE --weights W --data D", "accuracy of weights on a data set", cli_cmd_eval},
    {"compare", "RUN... [-o FILE.svg]",
     "training runs side by side: a table, and a plot of test accuracy", cli_cmd_compare},
    {"bench", "MODEL|FILE [--batch N] [--train]", "latency, images/s, memory, time a kernel",
     cli_cmd_bench},
    {"verify", "CASE... | MODEL",
     "compare with reference cases, or every mode with the interpreter", cli_cmd_verify},
    {"dump", "MODEL --stage STAGE",
     "print the model at a stage: ast ir graph grad fused plan llvm asm cuda", cli_cmd_dump},
    {"paths", "MODEL [-o FILE.svg|.png]",
     "the order in which each block reads its tokens, as a picture", cli_cmd_paths},
    {"fmt", "FILE...", "lay out .vtb files canonically", cli_cmd_fmt},
    {"explain", "CODE", "what a diagnostic means, with an example and the remedy", cli_cmd_explain},
    {"cache", "ls|clear", "kernels compiled for GPUs that are kept on disk", cli_cmd_cache},
    {"doctor", "", "what this machine offers, what is missing and how to get it", cli_cmd_doctor},
};
const int cli_n_commands = sizeof cli_commands / sizeof *cli_commands;

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

vtb_status cli_error(const vtb_error *err) {
  fprintf(stderr, "vertebra: %s\n", err->text[0] ? err->text : "failed without a message");
  return err->status ? err->status : VTB_E_INTERNAL;
}

vtb_status cli_usage_error(const char *command, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fprintf(stderr, "vertebra %s: ", command);
  vfprintf(stderr, fmt, ap);
  fprintf(stderr, "\ntry: vertebra %s --help\n", command);
  va_end(ap);
  return VTB_E_USAGE;
}

void cli_print_json(cJSON *json) {
  char *text = cJSON_Print(json);
  puts(text ? text : "{}");
  cJSON_free(text);
  cJSON_Delete(json);
}

static void print_options(const char *command, const cli_opt *opts, int n) {
  for (int i = 0; i < cli_n_commands; i++)
    if (strcmp(cli_commands[i].name, command) == 0)
      printf("usage: vertebra %s %s\n%s\n\n", command, cli_commands[i].usage,
             cli_commands[i].summary);
  for (int i = 0; i < n; i++) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", opts[i].name, opts[i].metavar ? opts[i].metavar : "");
    printf("  %-24s %s\n", left, opts[i].help);
  }
}

static int store(const char *command, const cli_opt *o, const char *text) {
  char *end = NULL;
  errno = 0;
  switch (o->kind) {
  case CLI_FLAG:
    *(bool *)o->into = true;
    return 0;
  case CLI_STR:
    *(const char **)o->into = text;
    return 0;
  case CLI_LIST:
    vtb_vec_push((cli_list *)o->into, text);
    return 0;
  case CLI_INT: {
    long long v = strtoll(text, &end, 10);
    if (!*text || *end || errno || v < 0)
      return (int)cli_usage_error(command, "%s takes a whole number, not '%s'", o->name, text);
    *(int64_t *)o->into = v;
    return 0;
  }
  case CLI_FLOAT: {
    double v = strtod(text, &end);
    if (!*text || *end || errno || !(v >= 0))
      return (int)cli_usage_error(command, "%s takes a number of at least 0, not '%s'", o->name,
                                  text);
    *(double *)o->into = v;
    return 0;
  }
  }
  return 0;
}

static const cli_opt *find_option(const cli_opt *opts, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(opts[i].name, name) == 0) return &opts[i];
  return NULL;
}

static int unknown_option(const char *command, const cli_opt *opts, int n, const char *arg) {
  const char **names = vtb_xcalloc((size_t)n + 1, sizeof *names);
  for (int i = 0; i < n; i++) names[i] = opts[i].name;
  const char *near = vtb_suggest(arg, names, (size_t)n);
  int status = near
                   ? (int)cli_usage_error(command, "unknown option %s; did you mean %s?", arg, near)
                   : (int)cli_usage_error(command, "unknown option %s", arg);
  vtb_free(names);
  return status;
}

static int parse(const char *command, const cli_opt *opts, int n, int argc, char **argv,
                 cli_list *positional) {
  bool only_positional = false;
  for (int i = 1; i < argc; i++) {
    const char *arg = argv[i];
    if (only_positional || arg[0] != '-' || !arg[1]) {
      vtb_vec_push(positional, arg);
      continue;
    }
    if (strcmp(arg, "--") == 0) {
      only_positional = true;
      continue;
    }
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
      print_options(command, opts, n);
      return -1;
    }
    char name[64];
    const char *eq = arg[1] == '-' ? strchr(arg, '=') : NULL, *value = eq ? eq + 1 : NULL;
    size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
    if (arg[1] != '-' && len > 2) { /* -Dname=value */
      value = arg + 2;
      len = 2;
    }
    if (len >= sizeof name) return (int)cli_usage_error(command, "unknown option %s", arg);
    memcpy(name, arg, len);
    name[len] = 0;
    const cli_opt *o = find_option(opts, n, name);
    if (!o) return unknown_option(command, opts, n, name);
    if (o->kind == CLI_FLAG && value)
      return (int)cli_usage_error(command, "%s takes no value", name);
    if (o->kind != CLI_FLAG && !value) {
      if (i + 1 >= argc)
        return (int)cli_usage_error(command, "%s needs a value (%s)", name, o->metavar);
      value = argv[++i];
    }
    int status = store(command, o, value);
    if (status) return status;
  }
  return VTB_OK;
}

int cli_parse(const char *command, const cli_opt *opts, int n, int argc, char **argv,
              cli_list *positional) {
  int status = parse(command, opts, n, argc, argv, positional);
  if (status) vtb_vec_free(positional);
  return status;
}

typedef struct invocation {
  const cli_command *command;
  int argc;
  char **argv;
} invocation;

static vtb_status run_command(void *arg, vtb_error *err) {
  const invocation *i = arg;
  (void)
      err; /* commands print their own errors; this one is for what leaves them: no memory, a defect */
  return i->command->run(i->argc, i->argv);
}

static int run(const cli_command *command, int argc, char **argv) {
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
    if (strcmp(argv[1], names[i]) == 0) return run(&cli_commands[i], argc - 1, argv + 1);
  }
  const char *near = vtb_suggest(argv[1], names, (size_t)cli_n_commands);
  fprintf(stderr, "vertebra: unknown command '%s'", argv[1]);
  if (near) fprintf(stderr, "; did you mean '%s'?", near);
  fputs("\n\n", stderr);
  print_help(stderr);
  return VTB_E_USAGE;
}

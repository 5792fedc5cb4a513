/* What all subcommands use: options, errors, numbers and JSON on the screen. */
#include "frontend/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

vtb_status cli_error(const vtb_error *err) {
  const char *what = err->text[0] ? err->text : "failed without a message";
  if (err->status == VTB_E_MEMORY || err->status == VTB_E_INTERNAL) { /* outside of the guard */
    fprintf(stderr, "vertebra: %s\n", what);
    return err->status;
  }
  char *text = vtb_strprintf("vertebra: %s\n", what);
  cli_print_wrapped(stderr, text);
  vtb_free(text);
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

const cli_command cli_commands[] = {
#define X(name, usage, summary) {#name, usage, summary},
#include "frontend/cli/commands.def"
#undef X
};
const int cli_n_commands = sizeof cli_commands / sizeof *cli_commands;

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
  case CLI_POSITIVE: {
    long long v = strtoll(text, &end, 10);
    if (!*text || *end || errno || v < 1)
      return (int)cli_usage_error(command, "%s takes a whole number of at least 1, not '%s'",
                                  o->name, text);
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

/* 6391528 -> 6,391,528 */
const char *cli_grouped(int64_t n, char *buf, size_t size) {
  char digits[32];
  int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
  size_t k = 0;
  for (int i = 0; i < len && k + 2 < size; i++) {
    if (i && (len - i) % 3 == 0) buf[k++] = ',';
    buf[k++] = digits[i];
  }
  buf[k] = 0;
  return buf;
}

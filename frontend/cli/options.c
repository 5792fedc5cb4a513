/* The options of a command, on the screen and as data. */
#include "frontend/cli/cli.h"

enum { OPTION_COLUMN = 26, NARROW = 72 };

const cli_opt cli_json_option = {"--json", CLI_FLAG, NULL, NULL,
                                 "the result, or the error, as one JSON document"};

/* Where there is little room the help stands below its option. */
static void print_option(const cli_opt *o) {
  int columns = cli_columns(stdout), indent = columns && columns < NARROW ? 6 : OPTION_COLUMN;
  int at = printf("  %s%s%s", o->name, o->metavar ? " " : "", o->metavar ? o->metavar : "");
  if (at + 2 > indent) {
    putchar('\n');
    at = 0;
  }
  printf("%*s", indent - at, "");
  cli_print_paragraph(o->help, indent, indent);
}

static const char *kind_name(cli_opt_kind kind) {
  static const char *const names[] = {[CLI_FLAG] = "flag",
                                      [CLI_INT] = "integer",
                                      [CLI_POSITIVE] = "positive integer",
                                      [CLI_IF_SAID] = "positive integer, or nothing",
                                      [CLI_THREADS] = "integer",
                                      [CLI_SIZE] = "bytes",
                                      [CLI_FLOAT] = "number",
                                      [CLI_LIST] = "texts"};
  return names[kind] ? names[kind] : "text";
}

static void add_option(cJSON *list, const cli_opt *o) {
  doc_item(list, F("name", o->name), F("kind", kind_name(o->kind)), K("value", o->metavar),
           F("help", o->help));
}

cJSON *cli_command_json(const cli_command *c) {
  return doc_object(F("command", c->name), F("usage", c->usage), F("summary", c->summary));
}

void cli_print_options(const char *command, const cli_opt *opts, int n) {
  const cli_command *c = cli_command_find(command);
  bool own_json = cli_find_option(opts, n, cli_json_option.name) != NULL;
  if (cli_json()) {
    cJSON *out = cli_command_json(c), *list = cJSON_AddArrayToObject(out, "options");
    for (int i = 0; i < n; i++) add_option(list, &opts[i]);
    if (!own_json) add_option(list, &cli_json_option);
    cli_print_json(out);
    return;
  }
  int at = printf("usage: vertebra %s ", c->name);
  cli_print_paragraph(c->usage, at, 8);
  cli_print_paragraph(c->summary, 0, 0);
  putchar('\n');
  for (int i = 0; i < n; i++) print_option(&opts[i]);
  if (!own_json) print_option(&cli_json_option);
}

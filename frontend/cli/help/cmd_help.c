/* vertebra help: the commands, and the options of one. */
#include "frontend/cli/commands.h"

#include <string.h>

void cli_print_commands(FILE *f) {
  fprintf(f, "vertebra " VTB_VERSION
             ": a compiler for vision backbones\n\nusage: vertebra COMMAND [ARGUMENT]...\n\n");
  int columns = cli_columns(f), widest = 0;
  for (int i = 0; i < cli_n_commands; i++) {
    int n = (int)strlen(cli_commands[i].name);
    if (n > widest) widest = n;
  }
  for (int i = 0; i < cli_n_commands; i++) {
    const char *text = cli_commands[i].summary;
    fprintf(f, "  %-*s  ", widest, cli_commands[i].name);
    cli_put_paragraph(f, text, columns, widest + 4, widest + 4);
  }
  fputc('\n', f);
  cli_put_paragraph(
      f,
      "MODEL is a .vtb file or a preset's name (`vertebra models` lists them), FILE what `vertebra "
      "build` made. `vertebra help COMMAND` lists a command's options. With --json a command "
      "prints one JSON document, errors included.",
      columns, 0, 0);
  cli_put_paragraph(f,
                    "Exit status: 0 done, 1 input at fault, 2 usage, 3 memory, 4 device, 5 numbers "
                    "differ, 70 internal error.",
                    columns, 0, 0);
}

vtb_status cli_cmd_help(int argc, char **argv) {
  cli_list rest = {0};
  int parsed = cli_parse("help", NULL, 0, argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  const char *name = rest.n ? rest.at[0] : NULL;
  vtb_vec_free(&rest);
  if (!name && !cli_json()) {
    cli_print_commands(stdout);
    return VTB_OK;
  }
  if (!name) {
    cJSON *out = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(out, "commands");
    for (int i = 0; i < cli_n_commands; i++)
      cJSON_AddItemToArray(list, cli_command_json(&cli_commands[i]));
    cli_print_json(out);
    return VTB_OK;
  }
  const cli_command *c = cli_command_find(name);
  if (!c) return cli_unknown_command(name);
  char *words[] = {(char *)(uintptr_t)c->name, (char *)(uintptr_t) "--help", NULL};
  return cli_command_run(c, 2, words);
}

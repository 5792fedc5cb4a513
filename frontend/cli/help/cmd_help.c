/* vertebra help: the commands, the options of one, and what a function of the language or of std
 * does. */
#include "frontend/cli/commands.h"
#include "frontend/lang/reference.h"

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
      "build` made. `vertebra help COMMAND` lists a command's options, `vertebra help NAME` says "
      "what "
      "a function of the language does. With --json a command prints one JSON document, errors "
      "included.",
      columns, 0, 0);
  cli_put_paragraph(f,
                    "Exit status: 0 done, 1 input at fault, 2 usage, 3 memory, 4 device, 5 numbers "
                    "differ, 70 internal error.",
                    columns, 0, 0);
}

/* No function has that name; says which is near. */
static vtb_status no_function(const char *name, const vtb_reference *r) {
  const char **names = vtb_xcalloc(r->n + 1, sizeof *names);
  for (size_t i = 0; i < r->n; i++) names[i] = r->at[i].name;
  const char *near = cli_command_near(name) ? NULL : vtb_suggest(name, names, r->n);
  vtb_free(names);
  if (!near) return cli_unknown_command(name);
  return cli_usage_error("help", "no command or function is called '%s'; did you mean '%s'?", name,
                         near);
}

/* All that has the name: a builtin, declarations of std, or both. */
static vtb_status tell_function(const char *name) {
  vtb_reference r;
  doc *d = doc_new(cJSON_CreateArray());
  bool found = false;
  vtb_reference_read(vtb_search_default(), &r);
  for (size_t i = 0; i < r.n; i++) {
    const vtb_reference_entry *e = &r.at[i];
    if (strcmp(e->name, name) != 0) continue;
    doc_item(d->json, F("name", e->name), F("signature", e->signature), F("text", e->doc),
             K("module", e->module));
    if (found) doc_say(d, 0, "%s", "");
    doc_say(d, 4, "%s", e->signature);
    doc_say(d, 0, "%s", e->doc);
    if (e->module)
      doc_say(d, 0, "use %s", e->module);
    else
      doc_say(d, 0, "%s", "a function of the language");
    found = true;
  }
  vtb_status status = found ? VTB_OK : no_function(name, &r);
  vtb_reference_free(&r);
  if (found)
    cli_tell(d);
  else
    doc_free(d);
  return status;
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
  if (!c) return tell_function(name);
  char *words[] = {(char *)(uintptr_t)c->name, (char *)(uintptr_t) "--help", NULL};
  return cli_command_run(c, 2, words);
}

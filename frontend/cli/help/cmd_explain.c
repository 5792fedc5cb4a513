/* vertebra explain: the catalogue of diagnostics. */
#include "frontend/cli/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void print_indented(const char *text) {
  fputs("    ", stdout);
  for (const char *p = text; *p; p++) {
    putchar(*p);
    if (*p == '\n' && p[1]) fputs("    ", stdout);
  }
  putchar('\n');
}

/* Paragraphs of prose, at most 96 columns wide. */
static void print_wrapped(const char *text) {
  int columns = cli_columns(stdout);
  vtb_strbuf line = {0};
  for (const char *p = text; *p; p++) vtb_strbuf_putc(&line, *p == '\n' ? ' ' : *p);
  cli_put_paragraph(stdout, vtb_strbuf_text(&line), columns && columns < 96 ? columns : 96, 0, 0);
  vtb_strbuf_free(&line);
}

static cJSON *code_json(const vtb_diag_code *c) {
  char number[16];
  snprintf(number, sizeof number, "VTB%04d", c->number);
  return doc_object(F("code", (const char *)number), F("title", c->title),
                    F("explanation", c->explanation), F("example", c->example),
                    F("remedy", c->remedy));
}

static void list_codes(void) {
  size_t n;
  const vtb_diag_code *table = vtb_diag_codes(&n);
  doc *d = doc_new(cJSON_CreateArray());
  for (size_t i = 0; i < n; i++) {
    doc_append(d->json, code_json(&table[i]));
    doc_say(d, 9, "VTB%04d  %s", table[i].number, table[i].title);
  }
  cli_tell(d);
}

static void print_code(const vtb_diag_code *c) {
  printf("VTB%04d: %s\n\n", c->number, c->title);
  print_wrapped(c->explanation);
  if (c->example[0]) {
    puts("\nExample:\n");
    print_indented(c->example);
  }
  if (c->remedy[0]) {
    puts("\nRemedy:");
    print_wrapped(c->remedy);
  }
}

static vtb_status explain(void *all, const cli_list *codes, vtb_error *err) {
  if (*(bool *)all) {
    list_codes();
    return VTB_OK;
  }
  if (codes->n != 1)
    return cli_usage_error("explain", "one CODE is needed, as in VTB1101; --list shows all");
  const char *text = codes->at[0];
  if (strncasecmp(text, "VTB", 3) == 0) text += 3;
  char *end;
  long number = strtol(text, &end, 10);
  const vtb_diag_code *c =
      *end || !isdigit((unsigned char)*text) ? NULL : vtb_diag_code_find((int)number);
  if (!c)
    return vtb_fail(err, VTB_E_INPUT,
                    "there is no diagnostic %s; `vertebra explain --list` shows all", codes->at[0]);
  if (cli_json())
    cli_print_json(code_json(c));
  else
    print_code(c);
  return VTB_OK;
}

vtb_status cli_cmd_explain(int argc, char **argv) {
  bool all = false;
  const cli_opt opts[] = {{"--list", CLI_FLAG, &all, NULL, "every code with its title"}};
  return CLI_RUN("explain", opts, .run = explain, .options = &all);
}

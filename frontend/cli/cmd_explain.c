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

static void print_wrapped(const char *text) {
  size_t col = 0;
  for (const char *p = text; *p;) {
    size_t word = strcspn(p, " \n");
    if (col && col + 1 + word > 96) {
      putchar('\n');
      col = 0;
    }
    if (col) putchar(' ');
    printf("%.*s", (int)word, p);
    col += word + (col > 0);
    p += word;
    while (*p == ' ' || *p == '\n') p++;
  }
  putchar('\n');
}

vtb_status cli_cmd_explain(int argc, char **argv) {
  bool all = false;
  const cli_opt opts[] = {{"--list", CLI_FLAG, &all, NULL, "every code with its title"}};
  cli_list codes = {0};
  int parsed = cli_parse("explain", opts, CLI_COUNT(opts), argc, argv, &codes);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (all) {
    size_t n;
    const vtb_diag_code *table = vtb_diag_codes(&n);
    for (size_t i = 0; i < n; i++) printf("VTB%04d  %s\n", table[i].number, table[i].title);
    return VTB_OK;
  }
  if (codes.n != 1)
    return cli_usage_error("explain", "one CODE is needed, as in VTB1101; --list shows all");
  const char *text = codes.at[0];
  if (strncasecmp(text, "VTB", 3) == 0) text += 3;
  char *end;
  long number = strtol(text, &end, 10);
  const vtb_diag_code *c =
      *end || !isdigit((unsigned char)*text) ? NULL : vtb_diag_code_find((int)number);
  if (!c) {
    fprintf(stderr, "vertebra: there is no diagnostic %s; `vertebra explain --list` shows all\n",
            codes.at[0]);
    return VTB_E_INPUT;
  }
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
  vtb_vec_free(&codes);
  return VTB_OK;
}

/* vertebra man: manual pages in roff's man macros, from the tables of commands and options. */
#include "frontend/cli/commands.h"

#include <ctype.h>

/* Text with what roff would read as its own escaped. */
static void put_roff(vtb_strbuf *out, const char *text) {
  if (*text == '.' || *text == '\'') vtb_strbuf_puts(out, "\\&");
  for (; *text; text++) {
    if (*text == '\\')
      vtb_strbuf_puts(out, "\\e");
    else if (*text == '-')
      vtb_strbuf_puts(out, "\\-");
    else
      vtb_strbuf_putc(out, *text);
  }
}

static void put_line(vtb_strbuf *out, const char *text) {
  put_roff(out, text);
  vtb_strbuf_putc(out, '\n');
}

static void put_tagged(vtb_strbuf *out, const char *tag, const char *argument, const char *text) {
  vtb_strbuf_puts(out, ".TP\n\\fB");
  put_roff(out, tag);
  vtb_strbuf_puts(out, "\\fR");
  if (argument) {
    vtb_strbuf_puts(out, " \\fI");
    put_roff(out, argument);
    vtb_strbuf_puts(out, "\\fR");
  }
  vtb_strbuf_putc(out, '\n');
  put_line(out, text);
}

/* "VERTEBRA-CHECK" */
static void put_title(vtb_strbuf *out, const char *command) {
  vtb_strbuf_puts(out, ".TH VERTEBRA");
  if (command) vtb_strbuf_puts(out, "\\-");
  for (const char *c = command ? command : ""; *c; c++) vtb_strbuf_putc(out, (char)toupper(*c));
  vtb_strbuf_puts(out, " 1 \"\" \"vertebra " VTB_VERSION "\" \"Vertebra Manual\"\n");
}

static void put_exit_status(vtb_strbuf *out) {
  static const char *const rows[][2] = {{"0", "done"},
                                        {"1", "the input is at fault"},
                                        {"2", "wrong use"},
                                        {"3", "out of memory"},
                                        {"4", "a device fails or is missing"},
                                        {"5", "numbers differ, or are not finite"},
                                        {"70", "a defect in vertebra"}};
  vtb_strbuf_puts(out, ".SH EXIT STATUS\n");
  for (int i = 0; i < CLI_COUNT(rows); i++) put_tagged(out, rows[i][0], NULL, rows[i][1]);
}

static void put_environment(vtb_strbuf *out) {
  static const char *const rows[][2] = {
#define GROUP(title) {NULL, title},
#define SWITCH(name, field, no, yes, text) {name, text},
#define NUMBER(name, field, least, most, text) {name, text},
#define DEVICE(name, field, least, most, text) {name, text},
#define TEXT(name, field, values, text) {name, text},
#define FACT(name, values, text) {name, text},
#include "runtime/environment.def"
  };
  vtb_strbuf_puts(out, ".SH ENVIRONMENT\n");
  for (int i = 1; i < CLI_COUNT(rows) && rows[i][0]; i++) /* the first group */
    put_tagged(out, rows[i][0], NULL, rows[i][1]);
}

static void put_option(void *page, const cli_opt *o) {
  put_tagged(page, o->name, o->metavar, o->help);
}

static void see_also(vtb_strbuf *out, bool all) {
  vtb_strbuf_puts(out, ".SH SEE ALSO\n");
  if (!all) vtb_strbuf_puts(out, ".BR vertebra (1)\n");
  for (int i = 0; all && i < cli_n_commands; i++)
    vtb_strbuf_printf(out, ".BR vertebra\\-%s (1)%s\n", cli_commands[i].name,
                      i + 1 < cli_n_commands ? "," : "");
}

static void command_page(const cli_command *c, vtb_strbuf *out) {
  put_title(out, c->name);
  vtb_strbuf_printf(out, ".SH NAME\nvertebra\\-%s \\- ", c->name);
  put_line(out, c->summary);
  vtb_strbuf_printf(out, ".SH SYNOPSIS\n\\fBvertebra %s\\fR ", c->name);
  put_line(out, c->usage);
  vtb_strbuf_puts(out, ".SH OPTIONS\n");
  cli_describe(c, put_option, out);
  put_exit_status(out);
  see_also(out, false);
}

static void program_page(vtb_strbuf *out) {
  put_title(out, NULL);
  vtb_strbuf_puts(out, ".SH NAME\nvertebra \\- a compiler for vision backbones\n"
                       ".SH SYNOPSIS\n\\fBvertebra\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR]...\n"
                       ".SH DESCRIPTION\n");
  put_line(out,
           "Compiles models of vision that are written as their papers' equations (.vtb files) to "
           "native code, and trains, evaluates and ships them. MODEL is a .vtb file or the name "
           "of a preset, FILE what `vertebra build` made. With --json a command prints one JSON "
           "document, errors included.");
  vtb_strbuf_puts(out, ".SH COMMANDS\n");
  for (int i = 0; i < cli_n_commands; i++)
    put_tagged(out, cli_commands[i].name, cli_commands[i].usage, cli_commands[i].summary);
  put_exit_status(out);
  put_environment(out);
  see_also(out, true);
}

vtb_status cli_cmd_man(int argc, char **argv) {
  cli_list rest = {0};
  int parsed = cli_parse("man", NULL, 0, argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  const char *name = rest.n ? rest.at[0] : NULL;
  const cli_command *c = name ? cli_command_find(name) : NULL;
  vtb_vec_free(&rest);
  if (name && !c) return cli_unknown_command(name);
  vtb_strbuf page = {0};
  if (c)
    command_page(c, &page);
  else
    program_page(&page);
  cli_print_text("page", c ? c->name : "vertebra", page.at);
  vtb_strbuf_free(&page);
  return VTB_OK;
}

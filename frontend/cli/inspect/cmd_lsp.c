/* vertebra lsp: the language server, for editors to start. */
#include "frontend/cli/cli.h"
#include "frontend/lsp/lsp.h"

#include <unistd.h>

static vtb_status print_grammar(const char *name) {
  vtb_strbuf out = {0};
  bool known = vtb_lsp_grammar(name, &out);
  if (known) fwrite(out.at, 1, out.n, stdout);
  vtb_strbuf_free(&out);
  return known ? VTB_OK
               : cli_usage_error("lsp", "there is no grammar '%s'; grammars are textmate and vim",
                                 name);
}

vtb_status cli_cmd_lsp(int argc, char **argv) {
  const char *grammar = NULL, *log = NULL;
  bool stdio = false;
  const cli_opt opts[] = {
      {"--grammar", CLI_STR, &grammar, "textmate|vim", "print a grammar for editors, and end"},
      {"--log", CLI_STR, &log, "FILE", "write the messages that come and go to a file"},
      {"--stdio", CLI_FLAG, &stdio, NULL, "talk over standard input and output (always so)"}};
  cli_list rest = {0};
  int parsed = cli_parse("lsp", opts, CLI_COUNT(opts), argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  bool surplus = rest.n > 0;
  vtb_vec_free(&rest);
  if (surplus) return cli_usage_error("lsp", "it takes no arguments: an editor starts it");
  if (grammar) return print_grammar(grammar);
  vtb_error err = {0};
  vtb_lsp_options o = {.in = STDIN_FILENO, .out = STDOUT_FILENO};
  if (log && !(o.log = fopen(log, "a"))) return vtb_file_fail(&err, "write", log), cli_error(&err);
  if (isatty(STDIN_FILENO))
    fprintf(stderr,
            "vertebra lsp waits for an editor's messages (docs/editors.md); Ctrl-C ends it\n");
  vtb_status status = vtb_lsp_serve(&o, &err);
  if (o.log) fclose(o.log);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

/* vertebra fmt: canonical layout of .vtb files, in place. */
#include "frontend/cli/cli.h"

#include <string.h>

/* list: NULL without --json. */
static vtb_status format_file(const char *path, bool check, bool to_stdout, bool *differs,
                              cJSON *list) {
  vtb_error err = {0};
  char *text;
  size_t n;
  vtb_status status = vtb_file_read(path, 64u << 20, &text, &n, &err);
  if (status != VTB_OK) return cli_error(&err);
  vtb_source source = {.path = path, .text = text, .n = n};
  vtb_diags diags = {0};
  vtb_strbuf out = {0};
  if (!vtb_format(&source, &out, &diags)) {
    status = cli_diagnostics(&diags);
  } else {
    bool changed = out.n != n || memcmp(out.at ? out.at : "", text, n) != 0;
    *differs |= changed;
    if (list)
      doc_item(list, F("file", path), F("changed", changed),
               K("text", to_stdout ? vtb_strbuf_text(&out) : NULL));
    else if (to_stdout)
      fwrite(out.at, 1, out.n, stdout);
    else if (changed && check)
      printf("%s would change\n", path);
    if (changed && !check && !to_stdout &&
        (status = vtb_file_write_atomic(path, out.at, out.n, &err)) != VTB_OK)
      cli_error(&err);
  }
  vtb_strbuf_free(&out);
  vtb_diags_free(&diags);
  vtb_free(text);
  return status;
}

vtb_status cli_cmd_fmt(int argc, char **argv) {
  bool check = false, to_stdout = false, differs = false;
  const cli_opt opts[] = {
      {"--check", CLI_FLAG, &check, NULL, "change nothing; exit with 1 if a file would change"},
      {"--stdout", CLI_FLAG, &to_stdout, NULL, "write to standard output instead of the file"}};
  cli_list files = {0};
  int parsed = cli_parse("fmt", opts, CLI_COUNT(opts), argc, argv, &files);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (!files.n) return cli_usage_error("fmt", "at least one FILE is needed");
  vtb_status status = VTB_OK;
  cJSON *list = cli_json() ? cJSON_CreateArray() : NULL;
  for (size_t i = 0; i < files.n; i++) {
    vtb_status s = format_file(files.at[i], check, to_stdout, &differs, list);
    if (s != VTB_OK) status = s;
  }
  if (list) cli_print_json(list);
  vtb_vec_free(&files);
  return status == VTB_OK && check && differs ? VTB_E_INPUT : status;
}

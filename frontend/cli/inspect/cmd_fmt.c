/* vertebra fmt: canonical layout of .vtb files, in place. */
#include "frontend/cli/cli.h"

#include <string.h>

typedef struct fmt_options {
  bool check, to_stdout, differs;
  cJSON *list; /* NULL without --json */
} fmt_options;

static vtb_status format_file(const char *path, fmt_options *o) {
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
    o->differs |= changed;
    if (o->list)
      doc_item(o->list, F("file", path), F("changed", changed),
               K("text", o->to_stdout ? vtb_strbuf_text(&out) : NULL));
    else if (o->to_stdout)
      fwrite(out.at, 1, out.n, stdout);
    else if (changed && o->check)
      printf("%s would change\n", path);
    if (changed && !o->check && !o->to_stdout &&
        (status = vtb_file_write_atomic(path, out.at, out.n, &err)) != VTB_OK)
      cli_error(&err);
  }
  vtb_strbuf_free(&out);
  vtb_diags_free(&diags);
  vtb_free(text);
  return status;
}

static vtb_status format_all(void *user, const cli_list *files, vtb_error *err) {
  (void)err;
  fmt_options *o = user;
  vtb_status status = VTB_OK;
  o->list = cli_json() ? cJSON_CreateArray() : NULL;
  for (size_t i = 0; i < files->n; i++) {
    vtb_status s = format_file(files->at[i], o);
    if (s != VTB_OK) status = s;
  }
  if (o->list) cli_print_json(o->list);
  return status == VTB_OK && o->check && o->differs ? VTB_E_INPUT : status;
}

vtb_status cli_cmd_fmt(int argc, char **argv) {
  fmt_options o = {0};
  const cli_opt opts[] = {
      {"--check", CLI_FLAG, &o.check, NULL, "change nothing; exit with 1 if a file would change"},
      {"--stdout", CLI_FLAG, &o.to_stdout, NULL, "write to standard output instead of the file"}};
  return CLI_RUN("fmt", opts, .some = "at least one FILE is needed", .run = format_all,
                 .options = &o);
}

/* See train_recipe.h. */
#include "frontend/cli/train_recipe.h"

#include <string.h>

vtb_status train_recipe_read(const char *path, const cli_opt *opts, int n_opts,
                             train_words *words) {
  char *text;
  size_t n;
  vtb_error err = {0};
  vtb_status status = vtb_file_read(path, 1u << 20, &text, &n, &err);
  if (status != VTB_OK) return cli_error(&err);
  int number = 0;
  char *rest = text;
  for (char *line; status == VTB_OK && (line = strsep(&rest, "\n"));) {
    number++;
    char *hash = strchr(line, '#');
    if (hash) *hash = 0;
    while (*line == ' ' || *line == '\t') line++;
    size_t len = strlen(line);
    while (len && strchr(" \t\r", line[len - 1])) line[--len] = 0;
    if (!len) continue;
    char *eq = strchr(line, '=');
    vtb_strbuf name = {0};
    vtb_strbuf_printf(&name, "%s%.*s", line[0] == '-' ? "" : "--",
                      (int)(eq ? strcspn(line, " \t=") : len), line);
    bool known = false, flag = false;
    for (int i = 0; i < n_opts; i++) {
      known |= strcmp(opts[i].name, name.at) == 0;
      if (strcmp(opts[i].name, name.at) == 0) flag = opts[i].kind == CLI_FLAG;
    }
    char *value = eq ? eq + 1 + strspn(eq + 1, " \t") : NULL;
    if (line[0] == '-' && line[1] == 'D') { /* -D name=value */
      vtb_vec_push(words, vtb_xstrdup("-D"));
      vtb_vec_push(words, vtb_xstrdup(line + 2 + strspn(line + 2, " \t")));
    } else if (!known || (!flag && !value)) {
      vtb_fail(&err, VTB_E_INPUT, "%s:%d: %s '%s'", path, number,
               known ? "no value for" : "unknown option", name.at + 2);
      status = cli_error(&err);
    } else if (!flag || strcmp(value ? value : "true", "true") == 0) {
      vtb_vec_push(words, vtb_xstrdup(name.at));
      if (!flag) vtb_vec_push(words, vtb_xstrdup(value));
    }
    vtb_strbuf_free(&name);
  }
  vtb_free(text);
  return status;
}

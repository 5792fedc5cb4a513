/* vertebra paths: the order in which each block's recurrences read the tokens, and the windows in
 * which its attention sees them, as a list and as a picture. */
#include "frontend/cli/cli.h"
#include "frontend/cli/names.h"
#include "frontend/cli/draw/paths_picture.h"
#include "frontend/cli/say/progress.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 200000 };

/* An order of single tokens is long: a terminal shows its beginning. */
static void print_cut(const char *text) {
  int columns = cli_columns(stdout);
  if (columns > 3 && strlen(text) > (size_t)columns)
    printf("%.*s...\n", columns - 3, text);
  else
    puts(text);
}

static void list_all(const traversals *t, bool json, const char *model) {
  cJSON *doc = json ? cJSON_CreateObject() : NULL,
        *groups = json ? cJSON_AddArrayToObject(doc, "groups") : NULL;
  if (json) cJSON_AddStringToObject(doc, "model", model);
  for (size_t i = 0; i < t->groups.n; i++) {
    const traversal_group *g = &t->groups.at[i];
    cJSON *row = json ? cJSON_CreateObject() : NULL,
          *blocks = json ? cJSON_AddArrayToObject(row, "blocks") : NULL;
    cJSON *paths = json ? cJSON_AddArrayToObject(row, "paths") : NULL;
    vtb_strbuf s = {0};
    traversals_print_blocks(g, &s);
    vtb_strbuf line = {0};
    vtb_strbuf_printf(&line, "  %-32s", s.at);
    for (size_t k = 0; json && k < g->blocks.n; k++)
      cJSON_AddItemToArray(blocks, cJSON_CreateString(g->blocks.at[k]));
    for (size_t k = 0; k < g->orders.n; k++) {
      s.n = 0;
      traversal_print(&g->orders.at[k], &s);
      if (json)
        cJSON_AddItemToArray(paths, cJSON_CreateString(s.at));
      else
        vtb_strbuf_printf(&line, "  %s", s.at);
    }
    if (json)
      cJSON_AddItemToArray(groups, row);
    else
      print_cut(line.at);
    vtb_strbuf_free(&line);
    vtb_strbuf_free(&s);
  }
  if (json) cli_print_json(doc);
}

static vtb_status write_picture(const char *path, const char *model, const traversals *t) {
  picture p = {0};
  vtb_error err = {0};
  int64_t steps = 0;
  for (size_t i = 0; i < t->groups.n; i++)
    for (size_t k = 0; k < t->groups.at[i].orders.n; k++)
      steps += t->groups.at[i].orders.at[k].path.n;
  if (steps > MAX_STEPS) {
    vtb_fail(&err, VTB_E_INPUT, "%lld steps are too many for a picture; try a smaller --image",
             (long long)steps);
    return cli_error(&err);
  }
  paths_draw(&p, model, t);
  vtb_status status = picture_write(&p, path, &err);
  picture_free(&p);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

static vtb_status paths_of(const char *what, const cli_model_options *m, const char *path) {
  vtb_compilation c;
  vtb_compile_options o = cli_compile_options(m, what);
  const char *name = o.entry ? o.entry : what;
  traversals t = {0};
  vtb_status status = vtb_compilation_open(&c, &o, m->report);
  if (status == VTB_OK) traversals_find(c.module, &t);
  if (status == VTB_OK && !t.groups.n)
    status = vtb_fail(
        &m->report->error, VTB_E_INPUT,
        "%s has no recurrence whose path and no attention whose windows could be drawn", name);
  cli_report(m, status);
  if (status == VTB_OK && path) status = write_picture(path, name, &t);
  if (status == VTB_OK) list_all(&t, m->json, name);
  traversals_free(&t);
  vtb_compilation_free(&c);
  return status;
}

vtb_status cli_cmd_paths(int argc, char **argv) {
  cli_model_options o = {0};
  const char *path = NULL;
  const cli_opt opts[] = {{"-o", CLI_STR, &path, "FILE", "picture to write: .svg, .png or .pdf"},
                          CLI_MODEL_OPTS(o)};
  cli_list models = {0};
  int parsed = cli_parse("paths", opts, CLI_COUNT(opts), argc, argv, &models);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (models.n != 1) return cli_usage_error("paths", "one MODEL is needed");
  cli_model_parsed(&o);
  vtb_status status = cli_check_name("paths", "-o", path, PICTURE_ENDINGS);
  if (status == VTB_OK) status = paths_of(models.at[0], &o, path);
  vtb_vec_free(&models);
  cli_model_options_free(&o);
  return status;
}

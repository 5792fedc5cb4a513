/* vertebra paths: the order in which each block's recurrences read the tokens, and the windows in
 * which its attention sees them, as a list and as a picture. */
#include "frontend/cli/cli.h"
#include "frontend/cli/names.h"
#include "frontend/cli/draw/paths_picture.h"

enum { MAX_STEPS = 200000 };

/* An order of single tokens is long: a terminal shows its beginning. */
static void list_all(const traversals *t, const char *model) {
  static const doc_column columns[] = {
      {"blocks", "blocks", .width = -32},
      {"paths", "paths", .width = -1},
  };
  doc *d = doc_new(cJSON_CreateObject());
  cJSON *groups = cJSON_AddArrayToObject(d->json, "groups");
  doc_put(d->json, F("model", model));
  doc_table *table = DOC_TABLE(d, NULL, columns);
  table->indent = 2, table->headless = true, table->cut = 1;
  for (size_t i = 0; i < t->groups.n; i++) {
    const traversal_group *g = &t->groups.at[i];
    cJSON *blocks = cJSON_CreateArray(), *paths = cJSON_CreateArray();
    vtb_strbuf name = {0}, all = {0};
    traversals_print_blocks(g, &name);
    for (size_t k = 0; k < g->blocks.n; k++)
      doc_append(blocks, cJSON_CreateString(g->blocks.at[k]));
    for (size_t k = 0; k < g->orders.n; k++) {
      vtb_strbuf one = {0};
      traversal_print(&g->orders.at[k], &one);
      doc_append(paths, cJSON_CreateString(one.at));
      vtb_strbuf_printf(&all, "%s%s", k ? "  " : "", one.at);
      vtb_strbuf_free(&one);
    }
    doc_item(groups, F("blocks", blocks), F("paths", paths));
    doc_row(d, table, V(name.at), V(all.at));
    vtb_strbuf_free(&name);
    vtb_strbuf_free(&all);
  }
  cli_tell(d);
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
  if (status == VTB_OK) list_all(&t, name);
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

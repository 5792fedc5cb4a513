/* vertebra paths: the order in which each block's recurrences read the tokens, and the windows in
 * which its attention sees them, as a list and as a picture. */
#include "frontend/cli/cli.h"
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

static vtb_status write_picture(const char *path, const char *model, const traversals *t,
                                vtb_error *err) {
  picture p = {0};
  int64_t steps = 0;
  for (size_t i = 0; i < t->groups.n; i++)
    for (size_t k = 0; k < t->groups.at[i].orders.n; k++)
      steps += t->groups.at[i].orders.at[k].path.n;
  if (steps > MAX_STEPS)
    return vtb_fail(err, VTB_E_INPUT,
                    "%lld steps are too many for a picture; try a smaller --image",
                    (long long)steps);
  paths_draw(&p, model, t);
  vtb_status status = picture_write(&p, path, err);
  picture_free(&p);
  return status;
}

typedef struct paths_options {
  cli_model_options model;
  const char *path;
} paths_options;

static vtb_status paths_of(void *user, const cli_list *args, vtb_error *err) {
  const paths_options *p = user;
  const cli_model_options *m = &p->model;
  const char *what = args->at[0];
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
  if (status == VTB_OK && p->path) status = write_picture(p->path, name, &t, err);
  if (status == VTB_OK) list_all(&t, name);
  traversals_free(&t);
  vtb_compilation_free(&c);
  return status;
}

vtb_status cli_cmd_paths(int argc, char **argv) {
  paths_options o = {0};
  const cli_opt opts[] = {
      {"-o", CLI_FILE, &o.path, PICTURE_FILE, "picture to write: .svg, .png or .pdf"},
      CLI_MODEL_OPTS(o.model)};
  return CLI_RUN("paths", opts, .one = "one MODEL is needed", .run = paths_of, .options = &o,
                 .model = &o.model);
}

/* vertebra models: the presets and examples that can be named, a family at a time. */
#include "frontend/cli/inspect/catalogue.h"
#include "frontend/cli/say/progress.h"
#include "frontend/cli/recipe_find.h"
#include "passes/target.h"

#include <math.h>
#include <string.h>

/* Facts for which a model has to be compiled. */
typedef struct facts {
  bool known;
  int64_t parameters;
  double flops, macs;
  int height, width; /* 0: no image input */
} facts;

static facts find_facts(const char *path, const char *name) {
  vtb_compile_options o = {.size = sizeof o, .model = path, .entry = name};
  vtb_compilation c = {0}, modes = {0};
  vtb_report *report = vtb_need(vtb_report_new());
  facts out = {0};
  int channels;
  vtb_status status = vtb_compilation_open(&c, &o, report);
  if (status == VTB_OK)
    status =
        vtb_compilation_lower(&c, vtb_target_find("interp"), &(vtb_codegen_options){0}, 1, &modes);
  if (status == VTB_OK) {
    const vtb_func *f = modes.module->entry;
    vtb_published_macs macs = vtb_func_published_macs(f);
    out = (facts){.known = true,
                  .parameters = cli_count_params(c.module->entry, false),
                  .flops = vtb_func_cost(f, 1).flops,
                  .macs = macs.layers + macs.mixers};
    if (vtb_compilation_image_size(&c, &channels, &out.height, &out.width) != VTB_OK)
      out.height = out.width = 0;
  }
  vtb_compilation_free(&modes);
  vtb_compilation_free(&c);
  vtb_report_free(report);
  return out;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static const char *write_gmacs(double macs, char *buf, size_t size) {
  snprintf(buf, size, macs < 1e8 ? "%.4f" : "%.2f", macs * 1e-9);
  return buf;
}

static const doc_column columns[] = {
    {"name", "model", .width = -5},
    {.key = "alias"},
    {.key = "model"},
    {"parameters", "params", .width = 8, .format = "%.2f M", .scale = 1e-6, .none = "-",
     .optional = true},
    {"flops", .optional = true},
    {"published_macs", "GMACs", .width = 7, .write = write_gmacs, .none = "-", .optional = true},
    {"image", .optional = true},
    {.heading = "image", .width = -9, .none = "-"},
    {.key = "paper"},
    {.heading = "arXiv", .width = -10, .none = "-"},
    {.heading = "alias", .width = -5},
    {"weights", "published weights", .width = -1},
};

static void add_entry(doc *d, doc_table *t, const catalogue_family *family,
                      const vtb_decl_info *e) {
  facts f = find_facts(family->path, e->name);
  vtb_arena *a = &d->arena;
  const double none = NAN;
  doc_row(d, t, V(e->name), V(e->alias), V(e->model), V(f.known ? (double)f.parameters : none),
          V(f.known ? f.flops : none), V(f.known ? f.macs : none),
          V(f.height ? doc_numbers((const int64_t[]){f.height, f.width}, 2) : NULL),
          V(f.height ? vtb_arena_printf(a, "%dx%d", f.height, f.width) : NULL),
          V(e->paper ? vtb_arena_printf(a, "arXiv %s", e->paper) : NULL), V(e->paper), V(e->alias),
          V(e->weights));
}

static void tell_all(const catalogue *c) {
  doc *d = doc_new(cJSON_CreateObject());
  cJSON *families = cJSON_AddArrayToObject(d->json, "families");
  doc_table *t = DOC_TABLE(d, NULL, columns);
  size_t n = 0;
  t->indent = 2, t->cut = 6;
  for (size_t i = 0; i < c->families.n; i++) {
    const catalogue_family *f = &c->families.at[i];
    cJSON *family = doc_item(families, F("title", f->title), F("file", f->path));
    doc_sentence_row(d, t, "%s", f->title);
    t->list = cJSON_AddArrayToObject(family, "models");
    for (size_t k = 0; k < f->entries.n; k++, n++) {
      cli_progress_note("compiling %s", f->entries.at[k].name);
      add_entry(d, t, f, &f->entries.at[k]);
    }
  }
  doc_say(d, 0, "%zu model%s; `vertebra summary MODEL` shows its modules", n, n == 1 ? "" : "s");
  cli_tell(d);
}

static void print_names(const catalogue *c) {
  for (size_t i = 0; i < c->families.n; i++)
    for (size_t k = 0; k < c->families.at[i].entries.n; k++) {
      const vtb_decl_info *e = &c->families.at[i].entries.at[k];
      puts(e->name);
      if (e->alias) puts(e->alias);
    }
}

/* ---- recipes --------------------------------------------------------------------------------- */

static void tell_recipes(void) {
  recipe_list all;
  size_t width = 0;
  doc *d = doc_new(cJSON_CreateArray());
  recipe_all(&all);
  for (size_t i = 0; i < all.n; i++)
    if (strlen(all.at[i].name) > width) width = strlen(all.at[i].name);
  for (size_t i = 0; i < all.n; i++) {
    const recipe_entry *e = &all.at[i];
    doc_item(d->json, F("name", e->name), F("file", e->path), F("about", e->about));
    doc_say(d, (int)width + 2, "%-*s  %s", (int)width, e->name, e->about);
  }
  recipe_list_free(&all);
  cli_tell(d);
}

/* No model of that name: what is near. */
static vtb_status nothing_found(const char *pattern, vtb_error *err) {
  catalogue all;
  cli_list names = {0};
  catalogue_open(&all, NULL);
  for (size_t i = 0; i < all.families.n; i++)
    for (size_t k = 0; k < all.families.at[i].entries.n; k++) {
      const vtb_decl_info *e = &all.families.at[i].entries.at[k];
      vtb_vec_push(&names, e->name);
      if (e->alias) vtb_vec_push(&names, e->alias);
    }
  const char *near = vtb_suggest(pattern, names.at, names.n);
  vtb_fail(err, VTB_E_INPUT, "no model matches '%s'%s%s%s `vertebra models` lists all", pattern,
           near ? "; did you mean " : ";", near ? near : "", near ? "?" : "");
  vtb_vec_free(&names);
  catalogue_free(&all);
  return VTB_E_INPUT;
}

typedef struct models_options {
  bool names, recipes;
} models_options;

static vtb_status list_models(void *user, const cli_list *args, vtb_error *err) {
  const models_options *o = user;
  if (args->n > 1)
    return cli_usage_error("models", "one PATTERN at most; a shell needs it in quotes");
  if (o->recipes && args->n) return cli_usage_error("models", "--recipes takes no PATTERN");
  if (o->recipes) {
    tell_recipes();
    return VTB_OK;
  }
  const char *pattern = args->n ? args->at[0] : NULL;
  catalogue c;
  vtb_status status = VTB_OK;
  catalogue_open(&c, pattern);
  if (!c.families.n)
    status = nothing_found(pattern ? pattern : "*", err);
  else if (o->names && !cli_json())
    print_names(&c);
  else
    tell_all(&c);
  catalogue_free(&c);
  return status;
}

vtb_status cli_cmd_models(int argc, char **argv) {
  models_options o = {0};
  const cli_opt opts[] = {
      {"--names", CLI_FLAG, &o.names, NULL, "names and aliases only, which compiles nothing"},
      {"--recipes", CLI_FLAG, &o.recipes, NULL,
       "instead: the recipes that `vertebra train --recipe` takes by name"}};
  return CLI_RUN("models", opts, .run = list_models, .options = &o);
}

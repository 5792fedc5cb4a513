/* vertebra models: the presets and examples that can be named, a family at a time. */
#include "frontend/cli/inspect/catalogue.h"
#include "frontend/cli/say/progress.h"
#include "frontend/cli/recipe_find.h"
#include "frontend/lang/lang.h"
#include "passes/target.h"

#include <string.h>

/* What has to be compiled to be known. */
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

/* ---- as text --------------------------------------------------------------------------------- */

typedef struct widths {
  int name, alias;
} widths;

static void widen(widths *w, const catalogue *c) {
  *w = (widths){5, 5};
  for (size_t i = 0; i < c->families.n; i++)
    for (size_t k = 0; k < c->families.at[i].entries.n; k++) {
      const catalogue_entry *e = &c->families.at[i].entries.at[k];
      int name = (int)strlen(e->name), alias = e->alias ? (int)strlen(e->alias) : 0;
      if (name > w->name) w->name = name;
      if (alias > w->alias) w->alias = alias;
    }
}

static void print_head(const widths *w) {
  cli_line l = {0};
  cli_line_add(&l, "%-*s", w->name + 2, "  model");
  cli_line_add(&l, "%8s", "params");
  cli_line_add(&l, "%7s", "GMACs");
  cli_line_add(&l, "%-9s", "image");
  cli_line_add(&l, "%-10s", "arXiv");
  cli_line_add(&l, "%-*s", w->alias, "alias");
  cli_line_add(&l, "published weights");
  cli_line_print(&l);
}

static void print_entry(const catalogue_entry *e, const facts *f, const widths *w) {
  char image[32] = "-", count[32] = "-", macs[32] = "-";
  cli_line l = {.cut = e->weights != NULL};
  if (f->height) snprintf(image, sizeof image, "%dx%d", f->height, f->width);
  if (f->known) snprintf(count, sizeof count, "%.2f M", (double)f->parameters * 1e-6);
  if (f->known) snprintf(macs, sizeof macs, f->macs < 1e8 ? "%.4f" : "%.2f", f->macs * 1e-9);
  cli_line_add(&l, "  %-*s", w->name, e->name);
  cli_line_add(&l, "%8s", count);
  cli_line_add(&l, "%7s", macs);
  cli_line_add(&l, "%-9s", image);
  cli_line_add(&l, "%-10s", e->paper ? e->paper : "-");
  cli_line_add(&l, "%-*s", w->alias, e->alias ? e->alias : "");
  if (e->weights) cli_line_add(&l, "%s", e->weights);
  cli_line_print(&l);
}

static void print_all(const catalogue *c) {
  widths w;
  size_t n = 0;
  widen(&w, c);
  print_head(&w);
  for (size_t i = 0; i < c->families.n; i++) {
    const catalogue_family *f = &c->families.at[i];
    cli_print_paragraph(f->title, 0, 4);
    for (size_t k = 0; k < f->entries.n; k++, n++) {
      facts found = find_facts(f->path, f->entries.at[k].name);
      print_entry(&f->entries.at[k], &found, &w);
      fflush(stdout);
    }
  }
  printf("%zu model%s; `vertebra summary MODEL` shows its modules\n", n, n == 1 ? "" : "s");
}

/* ---- as data --------------------------------------------------------------------------------- */

static void add_text(cJSON *to, const char *name, const char *text) {
  if (text)
    cJSON_AddStringToObject(to, name, text);
  else
    cJSON_AddNullToObject(to, name);
}

static cJSON *entry_json(const catalogue_entry *e, const facts *f) {
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "name", e->name);
  add_text(row, "alias", e->alias);
  add_text(row, "model", e->model);
  if (f->known) {
    cJSON_AddNumberToObject(row, "parameters", (double)f->parameters);
    cJSON_AddNumberToObject(row, "flops", f->flops);
    cJSON_AddNumberToObject(row, "published_macs", f->macs);
  }
  cJSON *image = f->height ? cJSON_AddArrayToObject(row, "image") : NULL;
  if (image) cJSON_AddItemToArray(image, cJSON_CreateNumber(f->height));
  if (image) cJSON_AddItemToArray(image, cJSON_CreateNumber(f->width));
  char *paper = e->paper ? vtb_strprintf("arXiv %s", e->paper) : NULL;
  add_text(row, "paper", paper);
  add_text(row, "weights", e->weights);
  vtb_free(paper);
  return row;
}

static void print_json(const catalogue *c) {
  cJSON *out = cJSON_CreateObject(), *families = cJSON_AddArrayToObject(out, "families");
  for (size_t i = 0; i < c->families.n; i++) {
    const catalogue_family *f = &c->families.at[i];
    cJSON *family = cJSON_CreateObject();
    cJSON_AddStringToObject(family, "title", f->title);
    cJSON_AddStringToObject(family, "file", f->path);
    cJSON *models = cJSON_AddArrayToObject(family, "models");
    for (size_t k = 0; k < f->entries.n; k++) {
      facts found = find_facts(f->path, f->entries.at[k].name);
      cJSON_AddItemToArray(models, entry_json(&f->entries.at[k], &found));
    }
    cJSON_AddItemToArray(families, family);
  }
  cli_print_json(out);
}

/* ---------------------------------------------------------------------------------------------- */

static void print_names(const catalogue *c) {
  for (size_t i = 0; i < c->families.n; i++)
    for (size_t k = 0; k < c->families.at[i].entries.n; k++) {
      const catalogue_entry *e = &c->families.at[i].entries.at[k];
      puts(e->name);
      if (e->alias) puts(e->alias);
    }
}

/* ---- recipes --------------------------------------------------------------------------------- */

static void print_recipes(void) {
  recipe_list all;
  cJSON *json = cli_json() ? cJSON_CreateArray() : NULL;
  int width = 0;
  recipe_all(&all);
  for (size_t i = 0; i < all.n; i++)
    if ((int)strlen(all.at[i].name) > width) width = (int)strlen(all.at[i].name);
  for (size_t i = 0; i < all.n; i++) {
    const recipe_entry *e = &all.at[i];
    cJSON *row = json ? cJSON_CreateObject() : NULL;
    if (json) {
      cJSON_AddStringToObject(row, "name", e->name);
      cJSON_AddStringToObject(row, "file", e->path);
      cJSON_AddStringToObject(row, "about", e->about);
      cJSON_AddItemToArray(json, row);
    } else {
      printf("%-*s  ", width, e->name);
      cli_print_paragraph(e->about, width + 2, width + 2);
    }
  }
  recipe_list_free(&all);
  if (json) cli_print_json(json);
}

/* No model of that name: what is near. */
static vtb_status nothing_found(const char *pattern) {
  catalogue all;
  cli_list names = {0};
  vtb_error err = {0};
  catalogue_open(&all, NULL);
  for (size_t i = 0; i < all.families.n; i++)
    for (size_t k = 0; k < all.families.at[i].entries.n; k++) {
      const catalogue_entry *e = &all.families.at[i].entries.at[k];
      vtb_vec_push(&names, e->name);
      if (e->alias) vtb_vec_push(&names, e->alias);
    }
  const char *near = vtb_suggest(pattern, names.at, names.n);
  vtb_fail(&err, VTB_E_INPUT, "no model matches '%s'%s%s%s `vertebra models` lists all", pattern,
           near ? "; did you mean " : ";", near ? near : "", near ? "?" : "");
  vtb_vec_free(&names);
  catalogue_free(&all);
  return cli_error(&err);
}

vtb_status cli_cmd_models(int argc, char **argv) {
  bool names = false, recipes = false;
  const cli_opt opts[] = {
      {"--names", CLI_FLAG, &names, NULL, "names and aliases only, which compiles nothing"},
      {"--recipes", CLI_FLAG, &recipes, NULL,
       "instead: the recipes that `vertebra train --recipe` takes by name"}};
  cli_list rest = {0};
  int parsed = cli_parse("models", opts, CLI_COUNT(opts), argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (rest.n > 1)
    return cli_usage_error("models", "one PATTERN at most; a shell needs it in quotes");
  if (recipes && rest.n) return cli_usage_error("models", "--recipes takes no PATTERN");
  if (recipes) {
    print_recipes();
    return VTB_OK;
  }
  const char *pattern = rest.n ? rest.at[0] : NULL;
  catalogue c;
  vtb_status status = VTB_OK;
  catalogue_open(&c, pattern);
  if (!c.families.n)
    status = nothing_found(pattern ? pattern : "*");
  else if (cli_json())
    print_json(&c);
  else if (names)
    print_names(&c);
  else
    print_all(&c);
  vtb_vec_free(&rest);
  catalogue_free(&c);
  return status;
}

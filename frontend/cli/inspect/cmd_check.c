/* vertebra check: what a model is, without making code: inputs, outputs, parameters, FLOPs, memory,
 * structure. */
#include "frontend/cli/load/built.h"
#include "frontend/cli/inspect/check.h"
#include "frontend/compile/memory.h"
#include "ir/numerics.h"
#include "frontend/lang/lang.h"

#include <string.h>

/* As it is trained, before any pass: what the user wrote. */
static vtb_status check_numerics(vtb_compile_options o, vtb_report *r, int *n) {
  vtb_compilation c;
  vtb_diags diags = {0};
  o.training = true;
  vtb_status status = vtb_compilation_load(&c, &o, NULL, r);
  if (status == VTB_OK) *n = vtb_numerics_check(c.module, &diags);
  vtb__report_take(r, &diags);
  vtb_compilation_free(&c);
  return status;
}

/* The model with its objective, and warnings of what would not be trained. */
static vtb_status open_objective(const cli_model_options *m, const char *what, const char *entry,
                                 vtb_compilation *c) {
  vtb_compile_options o = cli_compile_options(m, what);
  if (entry) o.entry = entry;
  o.evaluation = true;
  vtb_status status = vtb_compilation_load(c, &o, NULL, m->report);
  if (status == VTB_OK) status = vtb_compilation_graph(c);
  if (status == VTB_OK) vtb_compilation_check_training(c);
  return status == VTB_OK && m->report->diags.n_errors ? VTB_E_INPUT : status;
}

/* Names what the model is made of. */
static void hash_sources(const vtb_compilation *c, char text[33]) {
  vtb_source_file *files;
  vtb_strbuf all = {0};
  size_t n = vtb_unit_sources(c->unit, &files);
  for (size_t i = 0; i < n; i++)
    vtb_strbuf_printf(&all, "%zu:%.*s", files[i].n, (int)files[i].n, files[i].text);
  vtb_hash128(vtb_strbuf_text(&all), all.n, text);
  vtb_strbuf_free(&all);
  vtb_free(files);
}

static vtb_status outline_training(const vtb_compile_options *of, check_facts *f) {
  vtb_compilation c = {0};
  vtb_compile_options o = *of;
  o.training = true;
  if (!o.optimizer) o.optimizer = CLI_DEFAULT_OPTIMIZER;
  vtb_status status = vtb_memory_decide(&o, f->model->report);
  c.report = f->model->report;
  if (status == VTB_OK) status = vtb_compilation_open(&c, &o, f->model->report);
  if (status == VTB_OK) status = vtb_outline_make(&c, f->batch, NULL, &f->training);
  vtb_compilation_free(&c);
  return status;
}

/* modes: owns what f->modes is. */
static vtb_status find_facts(const vtb_compilation *c, bool trained, check_facts *f,
                             vtb_compilation *modes) {
  int channels, height, width;
  vtb_codegen_options code;
  vtb_error *err = &c->report->error;
  VTB_TRY(vtb_compile_target(c->options.target, true, &f->target, err));
  VTB_TRY(vtb_compile_code(f->target, &c->options, &code, err));
  VTB_TRY(vtb_compilation_modes(c, f->target, &code, f->batch, modes));
  VTB_TRY(vtb_outline_make(c, f->batch, NULL, &f->run));
  if (trained) VTB_TRY(outline_training(&c->options, f));
  f->trained = trained;
  f->modes = modes->module->entry;
  f->context = &modes->context;
  f->params = cli_count_params(c->module->entry, false);
  hash_sources(c, f->text_hash);
  if (vtb_compilation_image_size(c, &channels, &height, &width) == VTB_OK)
    snprintf(f->image, sizeof f->image, "%dx%d", height, width);
  *err = (vtb_error){0};
  return VTB_OK;
}

typedef struct check_options {
  cli_model_options model;
  bool list_params, numerics, train;
} check_options;

static vtb_status check_one(const char *what, const char *entry, const check_options *check) {
  const cli_model_options *m = &check->model;
  vtb_compilation c = {0}, modes = {0}, objective = {0};
  vtb_compile_options o = cli_compile_options(m, what);
  if (entry) o.entry = entry;
  check_facts f = {.model = &c,
                   .batch = o.batch ? o.batch : 1,
                   .threads = m->threads ? (int)m->threads : vtb_default_threads()};
  int places = -1;
  vtb_status status = check->numerics ? check_numerics(o, m->report, &places) : VTB_OK;
  if (status == VTB_OK) status = vtb_compilation_open(&c, &o, m->report);
  if (status == VTB_OK) status = find_facts(&c, check->train, &f, &modes);
  if (status == VTB_OK) status = open_objective(m, what, entry, &objective);
  cli_report(m, status);
  if (status == VTB_OK) {
    doc *d = check_document(&f, objective.module->entry, check->list_params);
    if (places == 0) doc_say(d, 15, "  numerics     nothing found");
    if (places > 0) doc_say(d, 15, "  numerics     %d places, above", places);
    cli_tell(d);
  }
  vtb_outline_free(&f.run);
  vtb_outline_free(&f.training);
  vtb_compilation_free(&modes);
  if (objective.report) vtb_compilation_free(&objective);
  vtb_compilation_free(&c);
  return status;
}

/* Names of the models that a file declares, borrowed from *unit; none if it is no file that can be
 * read, of which check_one says more. */
static void models_of(const char *what, cli_list *names, vtb_unit **unit, vtb_diags *diags) {
  const vtb_decl_info *decls;
  *unit = vtb_ends_with(what, ".vtb") ? vtb_unit_load(what, NULL, diags) : NULL;
  for (size_t i = 0, n = *unit ? vtb_unit_decls(*unit, &decls) : 0; i < n; i++)
    if (decls[i].kind == VTB_DECL_MODEL) vtb_vec_push(names, decls[i].name);
}

/* Presets of a file are evaluated, no more: what is wrong with one is said. */
static vtb_status check_presets(vtb_unit *unit) {
  const vtb_decl_info *decls;
  vtb_status worst = VTB_OK;
  for (size_t i = 0, n = vtb_unit_decls(unit, &decls); i < n; i++) {
    if (decls[i].kind != VTB_DECL_PRESET) continue;
    vtb_diags diags = {0};
    vtb_module *m = vtb_instantiate(unit, decls[i].name, &(vtb_instantiate_options){0}, &diags);
    if (!m) {
      fprintf(stderr, "preset %s:\n", decls[i].name);
      vtb_diags_print(&diags, stderr);
      worst = VTB_E_INPUT;
    }
    vtb_module_free(m);
    vtb_diags_free(&diags);
  }
  return worst;
}

/* Every model of a file, if none is asked for. */
static vtb_status check_model(const char *what, const check_options *o) {
  cli_list names = {0};
  vtb_unit *unit = NULL;
  vtb_status worst = VTB_OK;
  bool json = o->model.json;
  vtb_diags diags = {0}; /* of a file with models check_one() tells them */
  if (!o->model.compile.entry) models_of(what, &names, &unit, &diags);
  bool has_rules = check_rules(what, unit, &diags, &worst);
  vtb_diags_free(&diags);
  if (has_rules) {
    vtb_unit_free(unit);
    return worst;
  }
  if (names.n < 2 || json) worst = check_one(what, NULL, o);
  if (names.n > 1 && !json) {
    printf("%s declares %zu models:", what, names.n);
    for (size_t i = 0; i < names.n; i++) printf("%s %s", i ? "," : "", names.at[i]);
    puts("");
    for (size_t i = 0; i < names.n; i++) {
      vtb_status status = check_one(what, names.at[i], o);
      if (worst == VTB_OK) worst = status;
    }
  }
  if (worst == VTB_OK && unit) worst = check_presets(unit);
  vtb_vec_free(&names);
  vtb_unit_free(unit);
  return worst;
}

static vtb_status check_built(const char *path, const cli_model_options *m, bool list_params) {
  vtb_artefact *built;
  VTB_TRY(cli_built_open("check", path, m, &built));
  cli_built_show(path, built, list_params);
  vtb_artefact_close(built);
  return VTB_OK;
}

static vtb_status check_all(void *user, const cli_list *args, vtb_error *err) {
  (void)err;
  check_options *o = user;
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < args->n && status == VTB_OK; i++)
    status = cli_is_built(args->at[i]) ? check_built(args->at[i], &o->model, o->list_params)
                                       : check_model(args->at[i], o);
  return status;
}

vtb_status cli_cmd_check(int argc, char **argv) {
  check_options o = {0};
  const cli_opt opts[] = {
      {"--params", CLI_FLAG, &o.list_params, NULL, "list every parameter"},
      {"--numerics", CLI_FLAG, &o.numerics, NULL,
       "where numbers or gradients can become infinite, and what to write"},
      {"--train", CLI_FLAG, &o.train, NULL, "memory and predicted time of a training step, too"},
      CLI_RECOMPUTE_OPT(o.model),
      CLI_MEMORY_OPT(o.model, "--train: recompute as little as keeps the step below 4G, say"),
      CLI_TARGET_OPT(o.model),
      CLI_MODEL_OPTS(o.model)};
  return CLI_RUN("check", opts, .some = "a MODEL is needed", .run = check_all, .options = &o,
                 .model = &o.model);
}

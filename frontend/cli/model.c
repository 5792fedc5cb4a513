/* From a MODEL argument to a module, and from a module to a compiled program. */
#include "frontend/cli/built.h"

#include <stdlib.h>
#include <string.h>

void cli_model_opts(cli_model_options *m, cli_opt *rows) {
  const cli_opt table[CLI_N_MODEL_OPTS] = {
      {"-D", CLI_LIST, &m->defines, "NAME=VALUE",
       "set a hyperparameter; VALUE is .vtb text, e.g. depth=12, paths=\"[rows, cols]\""},
      {"--entry", CLI_STR, &m->entry, "NAME",
       "the model or preset of a file that declares several"},
      {"--image", CLI_STR, &m->image, "SIZE", "image size: 512 or 224x384"},
      {"--mode", CLI_STR, &m->mode, "MODE",
       "form of every recurrence: auto, parallel, recurrent, chunkwise"},
      {"--chunk", CLI_INT, &m->chunk, "N", "chunk size; implies --mode chunkwise"},
      {"--batch", CLI_INT, &m->batch, "N", "images at a time"},
      {"--threads", CLI_INT, &m->threads, "N",
       "threads (default: VTB_THREADS, OMP_NUM_THREADS, or the cores)"},
      {"--json", CLI_FLAG, &m->json, NULL, "machine-readable output"},
      {"--precision", CLI_STR, &m->precision, "P",
       "of products on CUDA: fp32 (default), tf32, bf16, fp16, bf16-all"},
      {"--time-passes", CLI_FLAG, &m->time_passes, NULL, "how long each pass took, on stderr"},
      {"--print-after", CLI_STR, &m->print_after, "PASS",
       "print the IR after a pass, or after \"all\", on stderr"},
  };
  memcpy(rows, table, sizeof table);
}

void cli_model_free(cli_model *m) {
  vtb_module_free(m->module);
  vtb_unit_free(m->unit);
  *m = (cli_model){0};
}

static bool looks_like_file(const char *what) {
  return vtb_ends_with(what, ".vtb") || strchr(what, '/') != NULL;
}

static char *image_value(const char *text) {
  vtb_strbuf s = {0};
  if (strchr(text, 'x'))
    vtb_strbuf_puts(&s, text);
  else
    vtb_strbuf_printf(&s, "%sx%s", text, text);
  return s.at;
}

vtb_status cli_model_load(const char *what, const cli_model_options *o,
                          const vtb_instantiate_options *more, cli_model *out) {
  *out = (cli_model){0};
  if (cli_is_built(what)) {
    fprintf(stderr, "vertebra: %s is compiled already: this needs the model's source\n", what);
    return VTB_E_INPUT;
  }
  vtb_diags diags = {0};
  const vtb_search *search = vtb_search_default();
  vtb_unit *unit = looks_like_file(what) ? vtb_unit_load(what, search, &diags)
                                         : vtb_unit_find(what, search, &diags);
  const char *entry = o->entry ? o->entry : looks_like_file(what) ? NULL : what;
  vtb_instantiate_options options = more ? *more : (vtb_instantiate_options){0};
  VTB_VEC(vtb_override) overrides = {0};
  VTB_VEC(char *) owned = {0};
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < options.n_overrides; i++) vtb_vec_push(&overrides, options.overrides[i]);
  for (size_t i = 0; i < o->defines.n && status == VTB_OK; i++) {
    char *name = vtb_xstrdup(o->defines.at[i]), *eq = strchr(name, '=');
    vtb_vec_push(&owned, name);
    if (!eq || eq == name) {
      status = cli_usage_error("-D", "-D needs NAME=VALUE, not '%s'", o->defines.at[i]);
    } else {
      *eq = 0;
      vtb_vec_push(&overrides, ((vtb_override){.name = name, .value = eq + 1}));
    }
  }
  if (o->image) {
    vtb_vec_push(&owned, image_value(o->image));
    vtb_vec_push(&overrides, ((vtb_override){.name = "image", .value = owned.at[owned.n - 1]}));
  }
  if (o->made_for)
    vtb_vec_push(&overrides,
                 ((vtb_override){.name = "table_image", .value = o->made_for, .optional = true}));
  options.overrides = overrides.at;
  options.n_overrides = overrides.n;
  options.mode = o->mode ? o->mode : o->chunk ? "chunkwise" : options.mode;
  options.chunk = o->chunk ? o->chunk : options.chunk;
  static const char *const modes[] = {"auto", "parallel", "recurrent", "chunkwise"};
  bool known = !options.mode;
  for (size_t i = 0; i < 4 && !known; i++) known = strcmp(options.mode, modes[i]) == 0;
  if (status == VTB_OK && !known)
    status = cli_usage_error("--mode",
                             "unknown mode '%s'; modes are auto, parallel, recurrent and chunkwise",
                             options.mode);
  if (status == VTB_OK) {
    vtb_module *module =
        unit && !diags.n_errors ? vtb_instantiate(unit, entry, &options, &diags) : NULL;
    vtb_diags_print(&diags, stderr);
    if (!module || diags.n_errors) {
      vtb_module_free(module);
      status = VTB_E_INPUT;
    } else {
      *out = (cli_model){unit, module, module->entry->name};
      unit = NULL;
    }
  }
  vtb_unit_free(unit);
  vtb_diags_free(&diags);
  for (size_t i = 0; i < owned.n; i++) vtb_free(owned.at[i]);
  vtb_vec_free(&owned);
  vtb_vec_free(&overrides);
  return status;
}

/* A command that compiles a model several times warns once. */
static bool is_news(const vtb_diags *diags) {
  static uint64_t said;
  uint64_t now = VTB_HASH_INIT;
  for (size_t i = 0; i < diags->list.n; i++) now = vtb_hash_str(now, diags->list.at[i].text);
  if (now == said) return false;
  if (diags->list.n) said = now;
  return true;
}

static vtb_status run(vtb_pass_context *c, const cli_model_options *o, const char *pipeline) {
  vtb_diags diags = {0};
  vtb_error err = {0};
  c->diags = &diags;
  c->mode = o->mode ? o->mode : o->chunk ? "chunkwise" : NULL;
  c->chunk = o->chunk;
  vtb_pipeline_options p = {
      .pipeline = pipeline, .print_after = o->print_after, .time = o->time_passes};
  vtb_status status = vtb_run_pipeline(c, &p, &err);
  if (diags.n_errors || is_news(&diags)) vtb_diags_print(&diags, stderr);
  if (status != VTB_OK && !diags.n_errors) cli_error(&err);
  vtb_diags_free(&diags);
  return status;
}

vtb_status cli_run_passes(vtb_module *module, const cli_model_options *o, const char *pipeline,
                          bool keep_taps, int64_t batch) {
  vtb_pass_context c = {.module = module, .batch = batch, .keep_taps = keep_taps};
  return run(&c, o, pipeline);
}

vtb_status cli_lower(vtb_module *module, const vtb_target *target, const vtb_codegen_options *code,
                     const cli_model_options *o, bool keep_taps, int64_t batch) {
  vtb_pass_context c = {.module = module,
                        .batch = batch,
                        .keep_taps = keep_taps,
                        .target = target,
                        .precision = code->precision,
                        .library = code->library,
                        .updates = code->update != VTB_UPDATE_NONE};
  return run(&c, o, NULL);
}

vtb_status cli_compile(const vtb_module *module, const char *func, const cli_model_options *o,
                       int64_t batch, bool profile, vtb_program **program) {
  vtb_error err = {0};
  const vtb_target *target;
  vtb_codegen_options options;
  vtb_status status = cli_target(o->target, false, &target, &err);
  if (status == VTB_OK) status = cli_codegen_options(target, o, &options, &err);
  if (status != VTB_OK) return cli_error(&err);
  options.profile = profile;
  double start = vtb_now();
  vtb_module *m = vtb_module_clone(module);
  m->entry = vtb_module_find(m, func);
  status = cli_lower(m, target, &options, o, false, batch);
  if (status == VTB_OK) {
    status = vtb_backend_of(target)->program(m, m->entry, &options, program, &err);
    if (status != VTB_OK) cli_error(&err);
  }
  vtb_module_free(m);
  if (status == VTB_OK) (*program)->compile_seconds = vtb_now() - start;
  return status;
}

vtb_status cli_add_train_step(vtb_module *module, const cli_model_options *o,
                              double label_smoothing, const char **name) {
  vtb_diags diags = {0};
  vtb_error err = {0};
  vtb_func *entry = module->entry, *train = NULL;
  vtb_precision precision;
  vtb_status status = vtb_precision_find(o->precision, &precision, &err);
  vtb_train_step step = {.logits = entry->n_returns ? entry->return_names[0] : NULL,
                         .label_smoothing = label_smoothing,
                         .loss_scale = precision == VTB_PRECISION_FP16};
  if (status == VTB_OK) status = vtb_build_train_step(module, entry, &step, &train, &diags, &err);
  vtb_diags_print(&diags, stderr);
  if (status != VTB_OK && !diags.n_errors) cli_error(&err);
  vtb_diags_free(&diags);
  if (status == VTB_OK) *name = train->name;
  return status;
}

vtb_status cli_optimizer(const char *name, vtb_update_rule *out, vtb_error *err) {
  bool adamw = strcmp(name, "adamw") == 0;
  if (!adamw && strcmp(name, "sgd") != 0)
    return vtb_fail(err, VTB_E_USAGE, "unknown optimizer '%s'; there are adamw and sgd", name);
  *out = adamw ? VTB_UPDATE_ADAMW : VTB_UPDATE_SGD;
  return VTB_OK;
}

vtb_status cli_image_size(const vtb_func *f, int *channels, int *height, int *width,
                          vtb_error *err) {
  for (int a = 0; a < f->n_args; a++) {
    const vtb_type *t = &f->args[a]->type;
    if (f->arg_info[a].role != VTB_ROLE_INPUT || t->rank != 4 || t->dtype != VTB_F32) continue;
    *channels = (int)t->dim[1].size;
    *height = (int)t->dim[2].size;
    *width = (int)t->dim[3].size;
    return VTB_OK;
  }
  return vtb_fail(err, VTB_E_INPUT, "the model %s has no image input", f->name);
}

vtb_status cli_program_image_size(const vtb_program *p, int *channels, int *height, int *width,
                                  vtb_error *err) {
  for (int i = 0; i < p->n_tensors; i++) {
    const vtb_tensor_info *t = &p->tensors[i];
    if (t->io != VTB_IO_INPUT || t->rank != 4 || t->is_int) continue;
    *channels = (int)t->dim[1];
    *height = (int)t->dim[2];
    *width = (int)t->dim[3];
    return VTB_OK;
  }
  return vtb_fail(err, VTB_E_INPUT, "the model has no image input");
}

/* The case that peers are given: the model's numbers as safetensors, its exported file, and the
 * form in PyTorch that may stand beside its source. */
#include "frontend/cli/bench/bench_peers.h"
#include "frontend/cli/say/progress.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *bench_peers_file(const bench_peers_case *c, const char *name) {
  return vtb_need(vtb_strprintf("%s/%s", c->folder, name));
}

static vtb_status make_folder(bench_peers_case *c, vtb_error *err) {
  const char *base = getenv("TMPDIR");
  char *folder = vtb_need(vtb_strprintf("%s/vertebra-XXXXXX", base && *base ? base : "/tmp"));
  if (mkdtemp(folder)) {
    c->folder = folder;
    return VTB_OK;
  }
  vtb_fail(err, VTB_E_INPUT, "cannot make a temporary folder %s: %s (TMPDIR names another place)",
           folder, strerror(errno));
  vtb_free(folder);
  return VTB_E_INPUT;
}

static void remove_folder(bench_peers_case *c) {
  DIR *d = c->folder ? opendir(c->folder) : NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    char *path = bench_peers_file(c, e->d_name);
    if (e->d_name[0] != '.') (void)unlink(path);
    vtb_free(path);
  }
  if (d) closedir(d);
  if (c->folder) (void)rmdir(c->folder);
  vtb_free(c->folder);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Hyperparameters that are set, the size of images too. */
static void take_settings(bench_peers_case *c, const vtb_compile_options *o) {
  const char *form = o->image && strchr(o->image, 'x') ? "image=%s" : "image=%sx%s";
  for (size_t i = 0; i < o->n_defines; i++) vtb_vec_push(&c->settings, vtb_xstrdup(o->defines[i]));
  if (o->image) vtb_vec_push(&c->settings, vtb_need(vtb_strprintf(form, o->image, o->image)));
}

static vtb_status compile(bench_peers_case *c) {
  const bench_options *b = c->options;
  vtb_compile_options o = cli_compile_options(&b->model, c->model);
  o.training = b->train;
  o.optimizer = b->no_update ? NULL : b->optimizer;
  cli_progress_note("compiling %s", c->model);
  vtb_status status = vtb_compilation_load(&c->compilation, &o, NULL, b->model.report);
  if (status == VTB_OK) {
    take_settings(c, &o);
    c->entry = vtb_xstrdup(c->compilation.module->entry->name);
    status = vtb_compilation_graph(&c->compilation);
  }
  if (status == VTB_OK && b->train) status = vtb_compilation_train(&c->compilation);
  if (status == VTB_OK)
    status = vtb_compilation_program(&c->compilation, o.batch ? o.batch : 1, false, &c->program);
  return cli_report(&b->model, status);
}

static vtb_status run_once(bench_peers_case *c, vtb_error *err) {
  vtb_services *services = vtb_need(vtb_services_default((int)c->options->model.threads));
  vtb_optim *u = NULL;
  c->buffers = cli_make_buffers(c->program, err);
  c->workspace = vtb_aligned_alloc((size_t)c->program->workspace_bytes + 64);
  vtb_status status = err->text[0] ? VTB_E_MEMORY : VTB_OK;
  if (!c->workspace) status = vtb_no_memory(err, "the workspace");
  if (status == VTB_OK) status = cli_measured_update(c->program, c->buffers, &u, err);
  if (status == VTB_OK)
    status = vtb_program_execute(c->program, c->buffers, c->workspace, services, err);
  vtb_optim_free(u);
  vtb_services_free(services);
  return status;
}

/* ---- its numbers ----------------------------------------------------------------------------- */

/* "param/" and the like; NULL: no number of the case. A step's are its loss and gradients. */
static const char *folder_of(const bench_peers_case *c, const vtb_tensor_info *t) {
  if (t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER) return "param/";
  if (t->io == VTB_IO_INPUT) return "input/";
  if (t->io == VTB_IO_GRAD_OUT && c->options->no_update) return "grad/";
  if (t->io != VTB_IO_OUTPUT) return NULL;
  return !c->options->train || strcmp(t->name, "loss") == 0 ? "output/" : NULL;
}

static void add_tensor(const bench_peers_case *c, int i, vtb_weights *w, cJSON *inputs,
                       cJSON *outputs) {
  const vtb_tensor_info *t = &c->program->tensors[i];
  const char *kind = folder_of(c, t);
  if (!kind || !c->buffers[i]) return;
  bool is_grad = strcmp(kind, "grad/") == 0 && vtb_starts_with(t->name, "d:");
  char *name = vtb_need(vtb_strprintf("%s%s", kind, t->name + (is_grad ? 2 : 0)));
  vtb_weights_borrow(w, name, t->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32, t->rank, t->dim,
                     c->buffers[i]);
  if (t->io == VTB_IO_INPUT && !t->is_int) doc_append(inputs, cJSON_CreateString(t->name));
  if (t->io == VTB_IO_OUTPUT) doc_append(outputs, cJSON_CreateString(t->name));
  vtb_free(name);
}

static vtb_status write_numbers(bench_peers_case *c, vtb_error *err) {
  const vtb_program *p = c->program;
  vtb_weights *w = vtb_need(vtb_weights_new());
  char *path = bench_peers_file(c, "case.safetensors");
  cJSON *inputs = cJSON_AddArrayToObject(c->job, "inputs"),
        *outputs = cJSON_AddArrayToObject(c->job, "outputs");
  for (int i = 0; i < p->n_tensors; i++) add_tensor(c, i, w, inputs, outputs);
  /* a classifier's step, whose loss is cross entropy (runtime/train/train.h) */
  bool classifies = vtb_program_find(p, "labels") >= 0 && !vtb_program_measures(p);
  doc_put(c->job, F("case", path), F("labels", classifies ? "labels" : ""));
  vtb_status status = vtb_safetensors_save(path, w, err);
  vtb_free(path);
  vtb_weights_free(w);
  return status;
}

/* ---- its file -------------------------------------------------------------------------------- */

static vtb_weights *parameters(const bench_peers_case *c) {
  vtb_weights *w = vtb_need(vtb_weights_new());
  for (int i = 0; i < c->program->n_tensors; i++) {
    const vtb_tensor_info *t = &c->program->tensors[i];
    if (t->io == VTB_IO_PARAM || t->io == VTB_IO_BUFFER)
      vtb_weights_borrow(w, t->name, t->is_int ? VTB_ELEM_I32 : VTB_ELEM_F32, t->rank, t->dim,
                         c->buffers[i]);
  }
  return w;
}

/* A model that cannot be exported is missing for those that read the file. */
static void export_file(bench_peers_case *c) {
  const char *name = strrchr(c->model, '/');
  char *file = vtb_need(vtb_strprintf("%s.onnx", name ? name + 1 : c->model)),
       *path = bench_peers_file(c, file);
  vtb_weights *w = parameters(c);
  vtb_report *r = vtb_need(vtb_report_new());
  vtb_onnx_options x = {.size = sizeof x};
  vtb_compile_options o = cli_compile_options(&c->options->model, c->model);
  o.image = NULL; /* which would ask the weights for theirs */
  o.defines = (const char *const *)c->settings.at;
  o.n_defines = c->settings.n;
  o.batch = c->program->batch;
  o.parameters = w;
  cli_progress_note("exporting %s", c->model);
  if (vtb_compile_onnx(&o, &x, path, NULL, r) == VTB_OK) {
    doc_put(c->job, F("onnx", path));
  } else {
    const vtb_diagnostic *list;
    bool said = vtb_report_diagnostics(r, &list) > 0;
    doc_put(c->job, F("why_no_onnx", said ? list[0].text : vtb_report_error(r)));
  }
  vtb_report_free(r);
  vtb_weights_free(w);
  vtb_free(path);
  vtb_free(file);
}

/* ---- its form in PyTorch --------------------------------------------------------------------- */

/* The model that a name stands for: of a preset, what it calls. */
static const char *model_of(const vtb_unit *u, const char *name) {
  const vtb_decl_info *decls;
  size_t n = vtb_unit_decls(u, &decls);
  for (size_t step = 0; step < n; step++)
    for (size_t i = 0; i < n; i++)
      if (decls[i].model && (vtb_streq(decls[i].name, name) || vtb_streq(decls[i].alias, name)))
        name = decls[i].model;
  return name;
}

/* FILE.py beside FILE.vtb, the model in it, and its hyperparameters, which are what it takes. */
static vtb_status describe_form(bench_peers_case *c) {
  vtb_unit *u = c->compilation.unit;
  const char *file = vtb_unit_file(u, 0);
  VTB_VEC(vtb_override) set = {0};
  vtb_hyperparameter *list = NULL;
  size_t n = 0, stem = strlen(file);
  vtb_diags diags = {0};
  vtb_arena arena;
  vtb_arena_init(&arena);
  for (size_t i = 0; i < c->settings.n; i++) {
    size_t name = strcspn(c->settings.at[i], "=");
    vtb_override one = {.name = vtb_arena_strndup(&arena, c->settings.at[i], name),
                        .value = c->settings.at[i] + name + 1};
    vtb_vec_push(&set, one);
  }
  const vtb_instantiate_options with = {.overrides = set.at, .n_overrides = set.n};
  bool ok = vtb_unit_hyperparameters(u, c->entry, &with, &arena, &list, &n, &diags);
  cJSON *settings = cJSON_AddObjectToObject(c->job, "settings");
  for (size_t i = 0; i < n; i++)
    if (list[i].value) doc_put(settings, F(list[i].name, list[i].value));
  if (vtb_ends_with(file, ".vtb")) stem -= strlen(".vtb");
  doc_put(c->job, F("form", vtb_arena_printf(&arena, "%.*s.py", (int)stem, file)),
          F("entry", model_of(u, c->entry)));
  vtb_diags_free(&diags);
  vtb_vec_free(&set);
  vtb_arena_free(&arena);
  return ok ? VTB_OK : VTB_E_INPUT;
}

/* ---- a case ---------------------------------------------------------------------------------- */

vtb_status bench_peers_case_open(bench_peers_case *c, const char *model, const bench_options *o) {
  vtb_error err = {0};
  *c = (bench_peers_case){.model = model, .options = o};
  vtb_status status = compile(c);
  if (status != VTB_OK) return status;
  c->job = doc_object(F("train", o->train), F("onnx", ""), F("why_no_onnx", ""),
                      F("threads", o->model.threads ? o->model.threads : vtb_default_threads()),
                      F("optimizer", o->train && !o->no_update ? o->optimizer : ""),
                      F("cpu", o->model.compile.cpu ? o->model.compile.cpu : ""));
  status = make_folder(c, &err);
  if (status == VTB_OK) status = run_once(c, &err);
  if (status == VTB_OK) status = write_numbers(c, &err);
  if (status == VTB_OK) status = describe_form(c);
  if (status == VTB_OK && !o->train) export_file(c);
  return status == VTB_OK || !err.text[0] ? status : cli_error(&err);
}

void bench_peers_case_free(bench_peers_case *c) {
  if (c->program && c->buffers) cli_free_buffers(c->program, c->buffers);
  vtb_free(c->workspace);
  vtb_program_free(c->program);
  vtb_compilation_free(&c->compilation);
  cJSON_Delete(c->job);
  vtb_free(c->entry);
  for (size_t i = 0; i < c->settings.n; i++) vtb_free(c->settings.at[i]);
  vtb_vec_free(&c->settings);
  remove_folder(c);
}

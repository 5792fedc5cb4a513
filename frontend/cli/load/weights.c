/* A model with its weights, ready to run; what weights say besides numbers. */
#include "frontend/cli/load/weights.h"
#include "frontend/cli/load/built.h"
#include "frontend/cli/load/prepare.h"
#include "frontend/cli/say/progress.h"
#include "frontend/compile/memory.h"
#include "frontend/draw/number.h"
#include "ir/axes.h"

static char *list_text(const cli_list *list) {
  cJSON *array = cJSON_CreateArray();
  for (size_t i = 0; i < list->n; i++) cJSON_AddItemToArray(array, cJSON_CreateString(list->at[i]));
  char *text = cJSON_PrintUnformatted(array);
  cJSON_Delete(array);
  return text;
}

/* ---- inference ------------------------------------------------------------------------------- */

void cli_inference_free(cli_inference *inf) {
  vtb_runner_free(inf->model);
  vtb_artefact_close(inf->built);
  *inf = (cli_inference){0};
}

void cli_say_strips(const vtb_compile_options *o, int64_t bytes) {
  vtb_strbuf text = {0};
  if (o->strips && vtb_compile_strips(o, bytes, &text) == VTB_OK) cli_say("%s\n", text.at);
  vtb_strbuf_free(&text);
}

static vtb_status open_part(void *user, int64_t pieces, int64_t recompute, vtb_report *r,
                            vtb_compilation *c) {
  const vtb_compile_options *o = user;
  (void)recompute;
  vtb_status status = vtb_compilation_open(c, o, r);
  if (status != VTB_OK || pieces == 1) return status;
  bool meet = o->evaluation ? vtb_mixes_samples(c->module) : vtb_samples_meet(c->module);
  return meet ? VTB_E_USAGE : VTB_OK;
}

/* The largest part of the batch that --memory has room for; all of it where samples meet. */
static vtb_status cut_batch(vtb_compile_options *o, vtb_report *r) {
  enum { NOTHING = 1 }; /* is recomputed in inference */
  const vtb_memory_wish wish = {.limit = o->memory,
                                .batch = o->batch,
                                .recompute = NOTHING,
                                .ready = VTB_LOADER_BATCHES,
                                .open = open_part,
                                .user = o};
  vtb_memory_plan plan = {0};
  char limit[24], bytes[32];
  vtb_status status = vtb_memory_fit(&wish, &plan, r);
  if (status != VTB_OK) return plan.rows ? vtb_memory_refuse(plan.bytes, "", &r->error) : status;
  if (plan.pieces > 1)
    cli_say("--memory %s: batches of %lld instead of %lld: %s", vtb_memory_typed(o->memory, limit),
            (long long)plan.rows, (long long)o->batch, nr_bytes((double)plan.bytes, bytes));
  o->batch = plan.rows;
  return VTB_OK;
}

static vtb_status compile(const char *what, const cli_model_options *m, int64_t batch,
                          const vtb_weights *weights, vtb_program **program) {
  vtb_compile_options o = cli_compile_options(m, what);
  o.batch = batch;
  o.parameters = weights;
  vtb_status status = o.memory && !o.numbers_rows ? cut_batch(&o, m->report) : VTB_OK;
  if (status == VTB_OK) status = vtb_compile(&o, program, m->report);
  if (cli_report(m, status) == VTB_OK) cli_say_strips(&o, (*program)->workspace_bytes);
  return status;
}

static void **parameters(const cli_inference *inf) {
  const vtb_program *p = inf->program;
  void **params = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *params);
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_PARAM || p->tensors[i].io == VTB_IO_BUFFER)
      params[i] = vtb_runner_param(inf->model, p->tensors[i].name, NULL);
  return params;
}

/* Parameters from the weights file, else from the built file, else from their initialisers. */
static vtb_status fill_parameters(cli_inference *inf, const char *what, const cli_model_options *m,
                                  const cli_load_options *l, vtb_error *err) {
  vtb_program *p = inf->program;
  inf->weights = l->file ? l->file : inf->built ? vtb_artefact_weights(inf->built) : NULL;
  if (!inf->weights || l->file) {
    vtb_status status = vtb_runner_init(inf->model, 0, err);
    if (status != VTB_OK || !l->file) return status;
  }
  void **params = parameters(inf);
  vtb_fit_options o = {.classes = vtb_tensors_scores(p->tensors, p->n_tensors)};
  cli_load_options load = *l;
  if (m->compile.image || inf->built) o.height = inf->height, o.width = inf->width;
  if (inf->built) {
    const vtb_manifest *file = vtb_artefact_manifest(inf->built);
    what = file->model;
    load.built = true;
    load.rules = vtb_manifest_meta(file, VTB_META_NAMES);
  }
  if (l->file && inf->built) (void)vtb_image_said(l->file, &o.file_height, &o.file_width);
  vtb_status status = l->file ? cli_fit(what, m, &load, &o, p->tensors, p->n_tensors, params, err)
                              : vtb_weights_bind(p, inf->weights, NULL, params, NULL, NULL, err);
  vtb_free(params);
  return status;
}

static vtb_status open_program(const char *command, const char *what, const cli_model_options *o,
                               int64_t batch, cli_load_options *l, cli_inference *out) {
  vtb_error err = {0};
  if (!cli_is_built(what)) {
    if (cli_load_for(what, o, l, &err) != VTB_OK) return cli_error(&err);
    return compile(what, o, batch, l->file, &out->program);
  }
  if (o->compile.strips)
    return cli_usage_error(command, "%s is compiled already: vertebra build --stream", what);
  vtb_artefact_role role = o->compile.evaluation ? VTB_ARTEFACT_EVALUATION : VTB_ARTEFACT_INFERENCE;
  VTB_TRY(cli_built_open(command, what, o, &out->built));
  return cli_built_program(out->built, role, o, o->compile.batch, &out->program);
}

vtb_status cli_load_for_inference(const char *command, const char *what, const cli_model_options *o,
                                  int64_t batch, cli_load_options *l, cli_inference *out) {
  vtb_error err = {0};
  *out = (cli_inference){0};
  cli_progress_note("compiling %s", what);
  vtb_status status = open_program(command, what, o, batch, l, out);
  cli_progress_clear();
  if (status != VTB_OK) {
    cli_inference_free(out);
    return status;
  }
  status = cli_load_open(l, &err);
  if (status == VTB_OK) status = vtb_runner_new(out->program, (int)o->threads, &out->model, &err);
  if (status == VTB_OK && cli_program_image_size(out->program, &out->channels, &out->height,
                                                 &out->width, NULL) != VTB_OK)
    out->channels = 0;
  if (status == VTB_OK) status = fill_parameters(out, what, o, l, &err);
  if (status == VTB_OK) return VTB_OK;
  cli_inference_free(out);
  return cli_error(&err);
}

/* ---- what weights say besides numbers -------------------------------------------------------- */

const char *cli_inference_meta(const cli_inference *inf, const char *key) {
  if (inf->weights) return vtb_weights_meta(inf->weights, key);
  return inf->built ? vtb_manifest_meta(vtb_artefact_manifest(inf->built), key) : NULL;
}

char **cli_weights_classes(const cli_inference *inf, int *n) {
  const char *text = cli_inference_meta(inf, "classes");
  cJSON *list = text ? cJSON_Parse(text) : NULL;
  char **names = NULL;
  *n = 0;
  if (cJSON_IsArray(list)) {
    names = vtb_xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *names);
    cJSON *item;
    cJSON_ArrayForEach(item, list) names[(*n)++] =
        vtb_xstrdup(cJSON_IsString(item) ? item->valuestring : "?");
  }
  cJSON_Delete(list);
  return names;
}

void cli_describe_model(vtb_weights *w, const char *model, const char *entry,
                        const cli_list *defines) {
  char *settings = list_text(defines);
  vtb_weights_set_meta(w, "model", model);
  vtb_weights_set_meta(w, "defines", settings);
  if (entry) vtb_weights_set_meta(w, "entry", entry);
  cJSON_free(settings);
}

void cli_describe_weights(vtb_weights *w, const vtb_dataset *d, const vtb_transform *t) {
  cJSON *names = cJSON_CreateArray();
  for (int i = 0; i < vtb_dataset_classes(d); i++)
    cJSON_AddItemToArray(names, cJSON_CreateString(vtb_dataset_class_name(d, i)));
  char *text = cJSON_PrintUnformatted(names);
  vtb_weights_set_meta(w, "classes", text);
  cli_prepare_describe(t, w);
  char *data = vtb_dataset_describe(d);
  if (data) vtb_weights_set_meta(w, "data", data);
  vtb_free(data);
  cJSON_free(text);
  cJSON_Delete(names);
}

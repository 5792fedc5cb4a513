/* Models with weights: what run and eval share. */
#include "frontend/cli/weights.h"
#include "frontend/cli/built.h"
#include "frontend/cli/prepare.h"

#include <stdlib.h>
#include <string.h>

static char *list_text(const cli_list *list) {
  cJSON *array = cJSON_CreateArray();
  for (size_t i = 0; i < list->n; i++) cJSON_AddItemToArray(array, cJSON_CreateString(list->at[i]));
  char *text = cJSON_PrintUnformatted(array);
  cJSON_Delete(array);
  return text;
}

/* ---- inference ------------------------------------------------------------------------------- */

void cli_inference_free(cli_inference *inf) {
  vtb_model_free(inf->model);
  vtb_weights_free(inf->own);
  vtb_artefact_close(inf->built);
  *inf = (cli_inference){0};
}

static vtb_status compile(const char *what, const cli_model_options *m, int64_t batch,
                          const char *weights, vtb_program **program) {
  vtb_compile_options o = cli_compile_options(m, what);
  o.batch = batch;
  o.weights = weights;
  return cli_report(m, vtb_compile(&o, program, m->report));
}

/* Parameters from the file named, else from the built file, else from their initialisers. */
static vtb_status fill(cli_inference *inf, const char *weights, vtb_error *err) {
  vtb_program *p = inf->program;
  inf->weights = inf->built ? vtb_artefact_weights(inf->built) : NULL;
  if (weights) {
    vtb_status status = vtb_safetensors_load(weights, &inf->own, err);
    if (status != VTB_OK) return status;
    inf->weights = inf->own;
    return vtb_model_load(inf->model, weights, err);
  }
  if (!inf->weights) return vtb_model_init(inf->model, 0, err);
  void **params = vtb_xcalloc((size_t)p->n_tensors + 1, sizeof *params);
  for (int i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].io == VTB_IO_PARAM || p->tensors[i].io == VTB_IO_BUFFER)
      params[i] = vtb_model_param(inf->model, p->tensors[i].name, NULL);
  vtb_status status = vtb_weights_bind(p, inf->weights, NULL, params, NULL, NULL, err);
  vtb_free(params);
  return status;
}

vtb_status cli_load_for_inference(const char *command, const char *what, const cli_model_options *o,
                                  int64_t batch, const char *weights, cli_inference *out) {
  vtb_error err = {0};
  vtb_status status;
  *out = (cli_inference){0};
  if (cli_is_built(what)) {
    status = cli_built_open(command, what, o, &out->built);
    if (status == VTB_OK)
      status = cli_built_program(
          out->built, o->compile.evaluation ? VTB_ARTEFACT_EVALUATION : VTB_ARTEFACT_INFERENCE, o,
          o->compile.batch, &out->program);
  } else {
    status = compile(what, o, batch, weights, &out->program);
  }
  if (status != VTB_OK) {
    cli_inference_free(out);
    return status;
  }
  status = vtb_model_new(out->program, (int)o->threads, &out->model, &err);
  if (status == VTB_OK && cli_program_image_size(out->program, &out->channels, &out->height,
                                                 &out->width, NULL) != VTB_OK)
    out->channels = 0;
  if (status == VTB_OK) status = fill(out, weights, &err);
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

vtb_status cli_describe_weights(const char *path, const vtb_dataset *d, const vtb_transform *t,
                                const char *model, const cli_list *defines, vtb_error *err) {
  vtb_weights *w = NULL;
  vtb_status status = vtb_safetensors_load(path, &w, err);
  if (status != VTB_OK) return status;
  cJSON *names = cJSON_CreateArray();
  for (int i = 0; i < vtb_dataset_classes(d); i++)
    cJSON_AddItemToArray(names, cJSON_CreateString(vtb_dataset_class_name(d, i)));
  char *text = cJSON_PrintUnformatted(names);
  vtb_weights_set_meta(w, "classes", text);
  cli_prepare_describe(t, w);
  char *data = vtb_dataset_describe(d);
  if (data) vtb_weights_set_meta(w, "data", data);
  vtb_free(data);
  vtb_weights_set_meta(w, "model", model);
  char *settings = list_text(defines);
  vtb_weights_set_meta(w, "defines", settings);
  cJSON_free(settings);
  status = vtb_safetensors_save(path, w, err);
  cJSON_free(text);
  cJSON_Delete(names);
  vtb_weights_free(w);
  return status;
}

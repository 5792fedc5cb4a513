/* Models with weights: what run and eval share. */
#include "frontend/cli/weights.h"

#include <stdlib.h>
#include <string.h>

static bool same_name(const char *a, const char *b) {
  size_t n = strcspn(a, "=");
  return n == strcspn(b, "=") && strncmp(a, b, n) == 0;
}

/* The -D settings stored with the weights that the user does not replace. */
static vtb_status stored_defines(const char *weights, const cli_list *own, cli_list *out, cJSON **keep,
                                 vtb_error *err) {
  vtb_weights *w = NULL;
  *keep = NULL;
  if (!weights) return VTB_OK;
  vtb_status status = vtb_safetensors_load(weights, &w, err);
  if (status != VTB_OK) return status;
  const char *text = vtb_weights_meta(w, "defines");
  *keep = text ? cJSON_Parse(text) : NULL;
  cJSON *item;
  cJSON_ArrayForEach(item, *keep) {
    bool replaced = !cJSON_IsString(item);
    for (size_t i = 0; i < own->n && !replaced; i++) replaced = same_name(item->valuestring, own->at[i]);
    if (!replaced) vtb_vec_push(out, item->valuestring);
  }
  vtb_weights_free(w);
  return VTB_OK;
}

/* With --image and weights: finds the size the weights were made for, and takes the stored one out of the settings. */
static vtb_status made_for(const char *what, cli_model_options *with, char text[32]) {
  const char *image = with->image;
  cli_model model;
  vtb_error err = {0};
  int channels, height, width;
  with->image = NULL;
  vtb_status status = cli_model_load(what, with, NULL, &model);
  with->image = image;
  if (status != VTB_OK) return status;
  status = cli_image_size(model.module->entry, &channels, &height, &width, &err);
  cli_model_free(&model);
  if (status != VTB_OK) return cli_error(&err);
  snprintf(text, 32, "%dx%d", height, width);
  with->made_for = text;
  size_t kept = 0;
  for (size_t i = 0; i < with->defines.n; i++) {
    if (same_name(with->defines.at[i], "table_image")) with->made_for = NULL;
    if (!same_name(with->defines.at[i], "image")) with->defines.at[kept++] = with->defines.at[i];
  }
  with->defines.n = kept;
  return VTB_OK;
}

vtb_status cli_load_for_inference(const char *what, const cli_model_options *o, int64_t batch, const char *weights,
                                  cli_inference *out) {
  *out = (cli_inference){0};
  cli_model model;
  vtb_error err = {0};
  cli_model_options with = *o;
  with.defines = (cli_list){0};
  cJSON *keep;
  char size[32];
  vtb_status status = stored_defines(weights, &o->defines, &with.defines, &keep, &err);
  if (status != VTB_OK) return cli_error(&err);
  for (size_t i = 0; i < o->defines.n; i++) vtb_vec_push(&with.defines, o->defines.at[i]);
  if (weights && o->image) status = made_for(what, &with, size);
  if (status == VTB_OK) status = cli_model_load(what, &with, NULL, &model);
  vtb_vec_free(&with.defines);
  cJSON_Delete(keep);
  if (status != VTB_OK) return status;
  status = cli_run_passes(model.module, o, vtb_pipeline_graph, false, 0);
  if (status == VTB_OK &&
      (status = cli_image_size(model.module->entry, &out->channels, &out->height, &out->width, &err)) != VTB_OK)
    cli_error(&err);
  vtb_program *program = NULL;
  if (status == VTB_OK) status = cli_compile(model.module, model.name, o, batch, false, &program);
  cli_model_free(&model);
  if (status != VTB_OK) return status;
  out->program = program;
  status = vtb_model_new(program, (int)o->threads, &out->model, &err);
  if (status == VTB_OK)
    status = weights ? vtb_model_load(out->model, weights, &err) : vtb_model_init(out->model, 0, &err);
  if (status != VTB_OK) {
    cli_error(&err);
    vtb_model_free(out->model);
    *out = (cli_inference){0};
  }
  return status;
}

vtb_status cli_weights_transform(const char *weights, const vtb_dataset *d, const cli_inference *inf, vtb_transform *t,
                                 vtb_error *err) {
  *t = (vtb_transform){.channels = inf->channels, .height = inf->height, .width = inf->width, .crop_ratio = 1};
  static const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
  memcpy(t->mean, mean, sizeof mean);
  memcpy(t->std, std, sizeof std);
  if (d) {
    vtb_status status = vtb_transform_init(t, d, inf->channels, inf->height, inf->width, err);
    if (status != VTB_OK) return status;
  }
  vtb_weights *w = NULL;
  if (!weights) return VTB_OK;
  vtb_status status = vtb_safetensors_load(weights, &w, err);
  if (status != VTB_OK) return status;
  for (int k = 0; k < 2; k++) {
    const char *text = vtb_weights_meta(w, k ? "std" : "mean");
    float *into = k ? t->std : t->mean;
    if (text) sscanf(text, "%f,%f,%f", &into[0], &into[1], &into[2]);
  }
  vtb_weights_free(w);
  return VTB_OK;
}

char **cli_weights_classes(const char *weights, int *n) {
  vtb_weights *w = NULL;
  *n = 0;
  if (!weights || vtb_safetensors_load(weights, &w, NULL) != VTB_OK) return NULL;
  const char *text = vtb_weights_meta(w, "classes");
  cJSON *list = text ? cJSON_Parse(text) : NULL;
  char **names = NULL;
  if (cJSON_IsArray(list)) {
    names = vtb_xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *names);
    cJSON *item;
    cJSON_ArrayForEach(item, list) names[(*n)++] = vtb_xstrdup(cJSON_IsString(item) ? item->valuestring : "?");
  }
  cJSON_Delete(list);
  vtb_weights_free(w);
  return names;
}

vtb_status cli_describe_weights(const char *path, const vtb_dataset *d, const vtb_transform *t, const char *model,
                                const cli_list *defines, vtb_error *err) {
  vtb_weights *w = NULL;
  vtb_status status = vtb_safetensors_load(path, &w, err);
  if (status != VTB_OK) return status;
  cJSON *names = cJSON_CreateArray();
  for (int i = 0; i < vtb_dataset_classes(d); i++)
    cJSON_AddItemToArray(names, cJSON_CreateString(vtb_dataset_class_name(d, i)));
  char *text = cJSON_PrintUnformatted(names), numbers[128];
  vtb_weights_set_meta(w, "classes", text);
  snprintf(numbers, sizeof numbers, "%.9g,%.9g,%.9g", (double)t->mean[0], (double)t->mean[1], (double)t->mean[2]);
  vtb_weights_set_meta(w, "mean", numbers);
  snprintf(numbers, sizeof numbers, "%.9g,%.9g,%.9g", (double)t->std[0], (double)t->std[1], (double)t->std[2]);
  vtb_weights_set_meta(w, "std", numbers);
  vtb_weights_set_meta(w, "model", model);
  cJSON *settings = cJSON_CreateArray();
  for (size_t i = 0; i < defines->n; i++) cJSON_AddItemToArray(settings, cJSON_CreateString(defines->at[i]));
  char *settings_text = cJSON_PrintUnformatted(settings);
  vtb_weights_set_meta(w, "defines", settings_text);
  cJSON_free(settings_text);
  cJSON_Delete(settings);
  status = vtb_safetensors_save(path, w, err);
  cJSON_free(text);
  cJSON_Delete(names);
  vtb_weights_free(w);
  return status;
}

/* vertebra run: image files in, the most likely classes or feature files out. */
#include "frontend/cli/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct run_options {
  cli_model_options model;
  const char *weights, *output;
  int64_t top;
} run_options;

static void softmax(const float *x, int n, double *p) {
  double top = x[0], sum = 0;
  for (int i = 1; i < n; i++) top = fmax(top, (double)x[i]);
  for (int i = 0; i < n; i++) sum += p[i] = exp((double)x[i] - top);
  for (int i = 0; i < n; i++) p[i] /= sum;
}

static void report_image(const char *file, const float *logits, int classes, char **names, int n_names, int64_t top,
                         cJSON *json) {
  double *p = vtb_xcalloc((size_t)classes, sizeof *p);
  softmax(logits, classes, p);
  cJSON *entry = json ? cJSON_CreateObject() : NULL, *list = NULL;
  if (json) {
    cJSON_AddStringToObject(entry, "file", file);
    list = cJSON_AddArrayToObject(entry, "top");
    cJSON_AddItemToArray(json, entry);
  } else {
    printf("%s\n", file);
  }
  for (int64_t k = 0; k < top && k < classes; k++) {
    int best = 0;
    for (int i = 1; i < classes; i++)
      if (p[i] > p[best]) best = i;
    char number[24];
    snprintf(number, sizeof number, "class %d", best);
    const char *name = best < n_names ? names[best] : number;
    if (json) {
      cJSON *item = cJSON_CreateObject();
      cJSON_AddNumberToObject(item, "class", best);
      cJSON_AddStringToObject(item, "name", name);
      cJSON_AddNumberToObject(item, "probability", p[best]);
      cJSON_AddItemToArray(list, item);
    } else {
      printf("  %5.1f %%  %s\n", 100 * p[best], name);
    }
    p[best] = -1;
  }
  free(p);
}

static vtb_status save_outputs(const char *path, const cli_inference *inf, vtb_weights *w) {
  vtb_error err = {0};
  (void)inf;
  vtb_status status = vtb_safetensors_save(path, w, &err);
  return status == VTB_OK ? VTB_OK : cli_error(&err);
}

/* Appends this image's slice of every output to the file's tensors "<file>/<output>". */
static void keep_outputs(const cli_inference *inf, const char *file, vtb_weights *w) {
  const vtb_tensor_info *t;
  int n = vtb_model_tensors(inf->model, &t);
  for (int i = 0; i < n; i++) {
    if (t[i].io != VTB_IO_OUTPUT) continue;
    vtb_strbuf name = {0};
    vtb_strbuf_printf(&name, "%s/%s", file, t[i].name);
    if (!vtb_weights_find(w, name.at))
      vtb_weights_put(w, name.at, VTB_ELEM_F32, t[i].rank, t[i].dim, vtb_model_output(inf->model, t[i].name, NULL));
    vtb_strbuf_free(&name);
  }
}

static vtb_status run_images(const char *what, const run_options *o, const cli_list *files) {
  cli_inference inf;
  vtb_error err = {0};
  vtb_transform transform;
  vtb_status status = cli_load_for_inference(what, &o->model, 1, o->weights, &inf);
  if (status != VTB_OK) return status;
  if ((status = cli_weights_transform(o->weights, NULL, &inf, &transform, &err)) != VTB_OK) {
    vtb_model_free(inf.model);
    return cli_error(&err);
  }
  int n_names = 0, n_tensors;
  char **names = cli_weights_classes(o->weights, &n_names);
  const vtb_tensor_info *tensors, *logits = NULL;
  n_tensors = vtb_model_tensors(inf.model, &tensors);
  for (int i = 0; i < n_tensors && !logits; i++)
    if (tensors[i].io == VTB_IO_OUTPUT) logits = &tensors[i];
  bool classify = logits && logits->rank == 2;
  cJSON *json = o->model.json ? cJSON_CreateArray() : NULL;
  vtb_weights *kept = o->output ? vtb_weights_new() : NULL;
  for (size_t f = 0; f < files->n && status == VTB_OK; f++) {
    vtb_image image = {0};
    int64_t count;
    if ((status = vtb_image_load(files->at[f], inf.channels, &image, &err)) != VTB_OK) break;
    vtb_transform_apply(&transform, &image, 0, vtb_model_input(inf.model, NULL, &count));
    vtb_image_free(&image);
    if ((status = vtb_model_run(inf.model, &err)) != VTB_OK) break;
    if (kept) keep_outputs(&inf, files->at[f], kept);
    if (classify)
      report_image(files->at[f], vtb_model_output(inf.model, logits->name, NULL), (int)logits->dim[1], names, n_names,
                   o->top, json);
  }
  if (status != VTB_OK) cli_error(&err);
  if (status == VTB_OK && !classify && !kept)
    status = cli_usage_error("run", "%s gives features, not classes: say where to write them with -o FILE.safetensors",
                             what);
  if (status == VTB_OK && kept) status = save_outputs(o->output, &inf, kept);
  if (json && status == VTB_OK)
    cli_print_json(json);
  else
    cJSON_Delete(json);
  for (int i = 0; i < n_names; i++) free(names[i]);
  free(names);
  vtb_weights_free(kept);
  vtb_model_free(inf.model);
  return status;
}

vtb_status cli_cmd_run(int argc, char **argv) {
  run_options o = {.top = 3};
  cli_opt opts[CLI_N_MODEL_OPTS + 4] = {
      CLI_TARGET_OPT(o.model),
      {"--weights", CLI_STR, &o.weights, "FILE", "safetensors file with the model's parameters"},
      {"--top", CLI_INT, &o.top, "K", "classes to print an image (default 3)"},
      {"-o", CLI_STR, &o.output, "FILE", "write every output of every image to a safetensors file"}};
  cli_model_opts(&o.model, opts + 4);
  cli_list rest = {0};
  int parsed = cli_parse("run", opts, CLI_N_MODEL_OPTS + 4, argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (rest.n < 2) return cli_usage_error("run", "a MODEL and at least one IMAGE are needed");
  if (!o.weights) fprintf(stderr, "vertebra run: no --weights: the model has random weights\n");
  cli_list files = {.at = rest.at + 1, .n = rest.n - 1};
  vtb_status status = run_images(rest.at[0], &o, &files);
  vtb_vec_free(&rest);
  vtb_vec_free(&o.model.defines);
  return status;
}

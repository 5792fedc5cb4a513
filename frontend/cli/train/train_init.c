/* See train_init.h. */
#include "frontend/cli/train/train_init.h"

#include "frontend/cli/load/weights.h"

#include <string.h>

static bool defines(const cli_model_options *m, const char *setting) {
  size_t n = strcspn(setting, "=");
  for (size_t i = 0; i < m->defines.n; i++)
    if (strncmp(m->defines.at[i], setting, n) == 0 && m->defines.at[i][n] == '=') return true;
  return false;
}

/* Settings that the weights were made with and this model does not have. */
static void note_settings(train_init *t, const cli_model_options *m) {
  const char *text = vtb_weights_meta(t->load.file, "defines");
  cJSON *list = text ? cJSON_Parse(text) : NULL, *item;
  vtb_strbuf said = {0};
  cJSON_ArrayForEach(item, list) {
    const char *s = cJSON_IsString(item) ? item->valuestring : "";
    if (strchr(s, '=') && !defines(m, s)) vtb_strbuf_printf(&said, " -D %s", s);
  }
  if (said.n) t->fit.hint = vtb_arena_printf(&t->arena, "the weights were made with%s", said.at);
  vtb_strbuf_free(&said);
  cJSON_Delete(list);
}

/* Settings that the weights were made with and that no tensor's shape shows, such as heads. Of
 * image sizes and classes the fit says what became of them. */
static void say_settings(const train_init *t) {
  const char *text = vtb_weights_meta(t->load.file, "defines");
  cJSON *list = text ? cJSON_Parse(text) : NULL, *item;
  vtb_strbuf said = {0};
  cJSON_ArrayForEach(item, list) {
    const char *s = cJSON_IsString(item) ? item->valuestring : "";
    bool other = strchr(s, '=') && !vtb_starts_with(s, "image=") && !strstr(s, "classes=");
    for (size_t i = 0; other && i < t->model->defines.n; i++)
      other = strcmp(t->model->defines.at[i], s) != 0;
    if (other) vtb_strbuf_printf(&said, " -D %s", s);
  }
  if (said.n)
    cli_say("%s: these weights were made with%s, this training is not\n", t->load.weights, said.at);
  vtb_strbuf_free(&said);
  cJSON_Delete(list);
}

vtb_status train_init_open(train_init *t, vtb_error *err) {
  vtb_load_given(&t->load);
  if (!t->load.weights) return VTB_OK;
  vtb_arena_init(&t->arena);
  t->open = true;
  return cli_load_open(&t->load, err);
}

vtb_status train_init_plan(train_init *t, const char *model, const cli_model_options *m,
                           int classes, int height, int width, vtb_train_config *config,
                           vtb_error *err) {
  if (!t->load.file) return VTB_OK;
  const vtb_compile_options o = cli_compile_options(m, model);
  vtb_status status = vtb_load_parts(&o, &t->load, err);
  if (status == VTB_OK) status = vtb_load_names(&o, t->load.rules, &t->names, err);
  t->fit = (vtb_fit_options){.path = t->load.weights,
                             .names = &t->names,
                             .allow_missing = t->load.allow_missing,
                             .allow_unused = t->load.allow_unused,
                             .classes = classes,
                             .new_head = true,
                             .height = height,
                             .width = width};
  t->model = m;
  cli_load_options quiet = t->load; /* they are said with the other settings */
  quiet.quiet = true;
  if (status == VTB_OK) status = vtb_load_config(&o, &quiet, err);
  note_settings(t, m);
  if (!vtb_image_said(t->load.file, &t->fit.file_height, &t->fit.file_width))
    t->fit.file_height = t->fit.file_width = 0;
  config->init = t->load.file;
  config->fit = &t->fit;
  config->fitted = &t->report;
  return status;
}

void train_init_say(const train_init *t, bool fits) {
  if (!t->load.file) return;
  cli_fit_note(&t->load, &t->report);
  if (!fits) return;
  vtb_load_say_fit(&t->load, &t->report);
  say_settings(t);
}

void train_init_free(train_init *t) {
  if (!t->open) return;
  vtb_fit_report_free(&t->report);
  vtb_names_free(&t->names);
  vtb_arena_free(&t->arena);
  vtb_load_free(&t->load);
  t->open = false;
}

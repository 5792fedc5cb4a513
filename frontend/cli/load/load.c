/* The readers of weights (frontend/compile/weights.h) as commands have them. */
#include "frontend/cli/load/weights.h"

/* ---- what is said ---------------------------------------------------------------------------- */

static void say(void *user, const char *line) {
  (void)user;
  cli_say("%s", line);
}

static void add_list(cJSON *to, const char *name, const vtb_fit_list *l) {
  cJSON *array = cJSON_AddArrayToObject(to, name);
  for (size_t i = 0; i < l->n; i++) cJSON_AddItemToArray(array, cJSON_CreateString(l->at[i]));
}

void cli_fit_note(const cli_load_options *l, const vtb_fit_report *r) {
  if (!cli_json() || !r->n_wanted) return;
  cJSON *fit = vtb_need(cJSON_CreateObject());
  cJSON_AddStringToObject(fit, "file", l->weights);
  cJSON_AddNumberToObject(fit, "wanted", r->n_wanted);
  cJSON_AddNumberToObject(fit, "loaded", r->n_loaded);
  cJSON_AddStringToObject(fit, "names", r->names ? r->names : "");
  cJSON_AddStringToObject(fit, "prefix", r->prefix ? r->prefix : "");
  add_list(fit, "missing", &r->missing);
  add_list(fit, "unused", &r->unused);
  add_list(fit, "ignored", &r->ignored);
  add_list(fit, "other_shape", &r->shapes);
  add_list(fit, "new", &r->new_head);
  add_list(fit, "resized", &r->resized);
  cli_note_json("fit", fit);
}

static void listen(cli_load_options *l) {
  l->say = say;
  l->note = cli_fit_note;
}

/* ---- loading --------------------------------------------------------------------------------- */

vtb_status cli_load_open(cli_load_options *l, vtb_error *err) {
  listen(l);
  return vtb_load_open(l, err);
}

vtb_status cli_load_for(const char *what, const cli_model_options *m, cli_load_options *l,
                        vtb_error *err) {
  vtb_compile_options o = cli_compile_options(m, what);
  listen(l);
  vtb_status status = vtb_load_for(&o, l, err);
  return status == VTB_OK ? vtb_load_parts(&o, l, err) : status;
}

vtb_status cli_fit(const char *what, const cli_model_options *m, const cli_load_options *l,
                   const vtb_fit_options *fit, const vtb_tensor_info *tensors, int n,
                   void *const *buffers, vtb_error *err) {
  vtb_compile_options o = cli_compile_options(m, what);
  return vtb_load_fit(&o, l, fit, tensors, n, buffers, err);
}

vtb_status cli_fit_source(const char *what, const cli_model_options *m, const cli_load_options *l,
                          vtb_weights **out, vtb_error *err) {
  vtb_compile_options o = cli_compile_options(m, what);
  vtb_status status = vtb_load_parameters(&o, l, out, m->report);
  if (status != VTB_OK && !m->report->error.text[0]) return cli_report(m, status);
  if (status != VTB_OK) *err = m->report->error;
  m->report->error = (vtb_error){0};
  return status;
}

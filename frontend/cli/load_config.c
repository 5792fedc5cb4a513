/* What the config of a folder of Hugging Face says and the shapes of its tensors do not show: rows
 * `config` of the renaming rules. */
#include "frontend/cli/load_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The module that the options make, with one setting more; NULL if they make none. */
static char *module_with(const char *what, const cli_model_options *m, const char *define) {
  vtb_compile_options o = cli_compile_options(m, what);
  vtb_compilation c;
  vtb_report *quiet = vtb_need(vtb_report_new());
  const char **defines = vtb_xcalloc(o.n_defines + 1, sizeof *defines);
  vtb_strbuf text = {0};
  size_t n = 0;
  for (size_t i = 0; i < o.n_defines; i++) defines[n++] = o.defines[i];
  if (define) defines[n++] = define;
  o.defines = defines;
  o.n_defines = n;
  if (vtb_compilation_load(&c, &o, NULL, quiet) == VTB_OK) vtb_module_print(c.module, NULL, &text);
  vtb_compilation_free(&c);
  vtb_report_free(quiet);
  vtb_free(defines);
  return text.at;
}

static bool names_setting(const vtb_compile_options *o, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i < o->n_defines; i++)
    if (strncmp(o->defines[i], name, n) == 0 && o->defines[i][n] == '=') return true;
  return false;
}

/* Setting it to what the config says must change nothing. */
static vtb_status check_setting(const char *what, const cli_model_options *m,
                                const cli_load_options *l, const vtb_name_config *c,
                                const char *says, vtb_error *err) {
  vtb_compile_options o = cli_compile_options(m, what);
  vtb_strbuf define = {0};
  vtb_strbuf_printf(&define, "%s=%s", c->setting, says);
  vtb_status status = VTB_OK;
  bool given = names_setting(&o, c->setting);
  char *own = given ? NULL : module_with(what, m, NULL),
       *with = given ? NULL : module_with(what, m, define.at);
  for (size_t i = 0; i < o.n_defines && given; i++) given = strcmp(o.defines[i], define.at) != 0;
  if (given)
    cli_say("%s: config.json says %s %s; -D %s is not that\n", l->weights, c->key, says,
            c->setting);
  else if (own && (!with || strcmp(own, with) != 0))
    status = vtb_fail(err, VTB_E_INPUT,
                      "%s: config.json says %s %s, and the model has another number: -D %s",
                      l->weights, c->key, says, define.at);
  vtb_free(own);
  vtb_free(with);
  vtb_strbuf_free(&define);
  return status;
}

/* A number that differs is said; a word that does is another function. */
static vtb_status check_value(const cli_load_options *l, const vtb_name_config *c,
                              const cJSON *says, vtb_error *err) {
  if (cJSON_IsNumber(says)) {
    double value = strtod(c->value, NULL);
    if (fabs(says->valuedouble - value) > 1e-6 * fabs(value))
      cli_say("%s: config.json says %s %g; the model has %s\n", l->weights, c->key,
              says->valuedouble, c->value);
    return VTB_OK;
  }
  if (!cJSON_IsString(says) || vtb_streq(says->valuestring, c->value)) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "%s: config.json says %s %s; the model has %s", l->weights,
                  c->key, says->valuestring, c->value);
}

vtb_status cli_check_config(const char *what, const cli_model_options *m, const cli_load_options *l,
                            const vtb_names *names, vtb_error *err) {
  const char *text = l->file ? vtb_weights_meta(l->file, "hf.config") : NULL;
  cJSON *config = text ? cJSON_Parse(text) : NULL;
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < names->configs.n && config && status == VTB_OK; i++) {
    const vtb_name_config *c = &names->configs.at[i];
    const cJSON *says = cJSON_GetObjectItemCaseSensitive(config, c->key);
    char number[32];
    if (!says) continue;
    if (!c->setting)
      status = check_value(l, c, says, err);
    else if (cJSON_IsNumber(says)) {
      snprintf(number, sizeof number, "%.9g", says->valuedouble);
      status = check_setting(what, m, l, c, number, err);
    }
  }
  cJSON_Delete(config);
  return status;
}

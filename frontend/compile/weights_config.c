/* Settings that stand beside weights in the files of other tools and their tensors do not show:
 * weights.h. */
#include "frontend/compile/weights.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static cJSON *config_of(const vtb_weights *w) {
  const char *text = w ? vtb_weights_meta(w, "hf.config") : NULL;
  return text ? cJSON_Parse(text) : NULL;
}

/* ---- settings -------------------------------------------------------------------------------- */

/* The module that the options make of these weights, with one setting more; NULL if they make
 * none. */
static char *module_with(const vtb_compile_options *options, const vtb_weights *w,
                         const char *define) {
  vtb_compile_options o = *options;
  vtb_compilation c;
  vtb_report *quiet = vtb_need(vtb_report_new());
  const char **defines = vtb_xcalloc(o.n_defines + 1, sizeof *defines);
  vtb_strbuf text = {0};
  size_t n = 0;
  for (size_t i = 0; i < o.n_defines; i++) defines[n++] = o.defines[i];
  if (define) defines[n++] = define;
  o.defines = defines;
  o.n_defines = n;
  o.image = NULL;
  o.parameters = w;
  if (vtb_compilation_load(&c, &o, NULL, quiet) == VTB_OK) vtb_module_print(c.module, NULL, &text);
  vtb_compilation_free(&c);
  vtb_report_free(quiet);
  vtb_free(defines);
  return text.at;
}

/* The value that a list of NAME=VALUE gives a setting; NULL: none. */
static const char *value_of(const char *define, const char *name) {
  size_t n = strlen(name);
  return strncmp(define, name, n) == 0 && define[n] == '=' ? define + n + 1 : NULL;
}

static const char *given(const vtb_compile_options *options, const char *name) {
  const char *value = NULL;
  for (size_t i = 0; i < options->n_defines && !value; i++)
    value = value_of(options->defines[i], name);
  return value;
}

static bool is_stored(const cJSON *defines, const char *name) {
  const cJSON *item;
  cJSON_ArrayForEach(item, defines) if (cJSON_IsString(item) &&
                                        value_of(item->valuestring, name)) return true;
  return false;
}

static void store(vtb_weights *w, cJSON *defines, const char *define) {
  cJSON_AddItemToArray(defines, vtb_need(cJSON_CreateString(define)));
  char *text = vtb_need(cJSON_PrintUnformatted(defines));
  vtb_weights_set_meta(w, "defines", text);
  cJSON_free(text);
}

/* A number of the config that the model has as a setting. */
static vtb_status take_setting(const vtb_compile_options *options, vtb_load *l,
                               const vtb_name_config *c, double says, cJSON *defines,
                               vtb_error *err) {
  if (given(options, c->setting) || is_stored(defines, c->setting)) return VTB_OK;
  char *define = vtb_need(vtb_strprintf("%s=%.9g", c->setting, says));
  char *own = module_with(options, l->file, NULL), *with = module_with(options, l->file, define);
  vtb_status status = VTB_OK;
  if (own && !with)
    status =
        vtb_fail(err, VTB_E_INPUT, "%s: config.json says %s %.9g, and the model takes no -D %s",
                 l->weights, c->key, says, define);
  else if (own && strcmp(own, with) != 0) {
    store(l->file, defines, define);
    if (!l->quiet)
      vtb_load_say(l, "%s: config.json says %s %.9g: -D %s is taken\n", l->weights, c->key, says,
                   define);
  }
  vtb_free(own);
  vtb_free(with);
  vtb_free(define);
  return status;
}

vtb_status vtb_load_config(const vtb_compile_options *options, vtb_load *l, vtb_error *err) {
  cJSON *config = config_of(l->file);
  if (!config) return VTB_OK;
  const char *text = vtb_weights_meta(l->file, "defines");
  cJSON *defines = text ? cJSON_Parse(text) : NULL;
  if (!cJSON_IsArray(defines)) {
    cJSON_Delete(defines);
    defines = vtb_need(cJSON_CreateArray());
  }
  vtb_names names;
  vtb_status status = vtb_load_names(options, NULL, &names, err);
  for (size_t i = 0; status == VTB_OK && i < names.configs.n; i++) {
    const vtb_name_config *c = &names.configs.at[i];
    const cJSON *says = cJSON_GetObjectItemCaseSensitive(config, c->key);
    if (c->setting && cJSON_IsNumber(says))
      status = take_setting(options, l, c, says->valuedouble, defines, err);
  }
  vtb_names_free(&names);
  cJSON_Delete(defines);
  cJSON_Delete(config);
  return status;
}

/* ---- what is no setting ---------------------------------------------------------------------- */

static bool is_same(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(b); }

/* A number that differs is said; a word that does is another function. */
static vtb_status check_value(const vtb_load *l, const vtb_name_config *c, const cJSON *says,
                              vtb_error *err) {
  if (cJSON_IsNumber(says)) {
    if (!is_same(says->valuedouble, strtod(c->value, NULL)))
      vtb_load_say(l, "%s: config.json says %s %g; the model has %s\n", l->weights, c->key,
                   says->valuedouble, c->value);
    return VTB_OK;
  }
  if (!cJSON_IsString(says) || vtb_streq(says->valuestring, c->value)) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT, "%s: config.json says %s %s; the model has %s", l->weights,
                  c->key, says->valuestring, c->value);
}

static void check_given(const vtb_compile_options *options, const vtb_load *l,
                        const vtb_name_config *c, const cJSON *says) {
  const char *value = given(options, c->setting);
  if (value && cJSON_IsNumber(says) && !is_same(says->valuedouble, strtod(value, NULL)))
    vtb_load_say(l, "%s: config.json says %s %.9g; -D %s is not that\n", l->weights, c->key,
                 says->valuedouble, c->setting);
}

vtb_status vtb_load_check_config(const vtb_compile_options *options, const vtb_load *l,
                                 const vtb_names *names, vtb_error *err) {
  cJSON *config = config_of(l->file);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < names->configs.n && config && status == VTB_OK; i++) {
    const vtb_name_config *c = &names->configs.at[i];
    const cJSON *says = cJSON_GetObjectItemCaseSensitive(config, c->key);
    if (says && c->setting)
      check_given(options, l, c, says);
    else if (says)
      status = check_value(l, c, says, err);
  }
  cJSON_Delete(config);
  return status;
}

/* ---- architectures --------------------------------------------------------------------------- */

/* 'NAME' behind "model=" in the settings of a training, as they are printed; "" if it is not
 * there. */
static void model_of_args(const char *args, char *name, size_t size) {
  for (const char *at = args; at && (at = strstr(at, "model='")) != NULL; at++) {
    if (at != args && at[-1] != ' ') continue;
    at += strlen("model='");
    snprintf(name, size, "%.*s", (int)strcspn(at, "'"), at);
    return;
  }
}

/* The name that the checkpoint's own tool gives its model: timm's config.json, its training,
 * DeiT's. */
static void architecture_of(const vtb_weights *w, char *name, size_t size) {
  cJSON *config = config_of(w);
  const char *timm = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config, "architecture")),
             *arch = vtb_weights_meta(w, "torch.arch");
  *name = 0;
  if (timm || arch)
    snprintf(name, size, "%s", timm ? timm : arch);
  else
    model_of_args(vtb_weights_meta(w, "torch.args"), name, size);
  name[strcspn(name, ".")] = 0; /* "deit_tiny_patch16_224.fb_in1k": a tag of the weights */
  cJSON_Delete(config);
}

void vtb_load_say_architecture(const vtb_compile_options *options, const vtb_load *l) {
  char name[128];
  vtb_diags quiet = {0};
  const vtb_decl_info *decls;
  const char *what = options->model;
  if (!l->file || l->quiet || options->text || vtb_ends_with(what, ".vtb") || strchr(what, '/'))
    return;
  architecture_of(l->file, name, sizeof name);
  vtb_unit *u = *name ? vtb_unit_find(name, vtb_search_default(), &quiet) : NULL;
  size_t n = u ? vtb_unit_decls(u, &decls) : 0;
  for (size_t i = 0; i < n; i++) {
    if (!vtb_streq(decls[i].name, name) && !vtb_streq(decls[i].alias, name)) continue;
    if (vtb_streq(decls[i].name, what) || vtb_streq(decls[i].alias, what)) break;
    vtb_load_say(l,
                 "%s: made for %s, as its metadata say, and used as %s, which may prepare images "
                 "otherwise\n",
                 l->weights, decls[i].name, what);
    break;
  }
  vtb_diags_free(&quiet);
  vtb_unit_free(u);
}

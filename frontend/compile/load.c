/* From a source and settings to a module. */
#include "frontend/compile/driver.h"
#include "frontend/compile/words.h"
#include "runtime/artefact/artefact.h"
#include "runtime/artefact/safetensors.h"
#include "ir/recurrence.h"

#include <cjson/cJSON.h>
#include <string.h>

/* ---- settings -------------------------------------------------------------------------------- */

static bool same_name(const char *a, const char *b) {
  size_t n = strcspn(a, "=");
  return n == strcspn(b, "=") && strncmp(a, b, n) == 0;
}

static bool defines(const vtb_compile_options *o, const char *setting) {
  for (size_t i = 0; i < o->n_defines; i++)
    if (same_name(setting, o->defines[i])) return true;
  return false;
}

static bool is_given(const vtb_compile_options *o, const char *setting) {
  for (size_t i = 0; i < o->n_defines; i++)
    if (strcmp(setting, o->defines[i]) == 0) return true;
  return false;
}

/* Settings stored with the weights that the options do not replace; and the entry that they are
 * of. */
static vtb_status stored_settings(vtb_compilation *c) {
  const vtb_compile_options *o = &c->options;
  vtb_weights *own = NULL;
  const vtb_weights *w = o->parameters;
  if (!w && !o->weights) return VTB_OK;
  if (!w) VTB_TRY(vtb_safetensors_load(o->weights, &own, &c->report->error));
  const char *text = vtb_weights_meta(w ? w : own, "defines"),
             *entry = vtb_weights_meta(w ? w : own, "entry");
  if (entry) c->entry = vtb_xstrdup(entry);
  cJSON *list = text ? cJSON_Parse(text) : NULL, *item;
  cJSON_ArrayForEach(item, list) if (cJSON_IsString(item) && !defines(o, item->valuestring))
      vtb_vec_push(&c->settings, vtb_xstrdup(item->valuestring));
  cJSON_Delete(list);
  vtb_weights_free(own);
  return VTB_OK;
}

static bool take_out(vtb_compilation *c, const char *name) {
  size_t kept = 0, n = c->settings.n;
  for (size_t i = 0; i < n; i++) {
    if (same_name(c->settings.at[i], name))
      vtb_free(c->settings.at[i]);
    else
      c->settings.at[kept++] = c->settings.at[i];
  }
  c->settings.n = kept;
  return kept < n;
}

/* With an image size and weights: the size the weights were made for, whose tables are
 * stretched. */
static vtb_status size_of_weights(vtb_compilation *c, char text[32]) {
  vtb_compilation as_stored;
  vtb_compile_options o = c->options;
  int channels, height, width;
  o.image = NULL;
  o.defines = (const char *const *)c->settings.at;
  o.n_defines = c->settings.n;
  vtb_status status = vtb_compilation_load(&as_stored, &o, NULL, c->report);
  if (status == VTB_OK) status = vtb_compilation_image_size(&as_stored, &channels, &height, &width);
  vtb_compilation_free(&as_stored);
  if (status != VTB_OK) return status;
  bool given = false;
  for (size_t i = 0; i < c->settings.n; i++) given |= same_name(c->settings.at[i], "table_image");
  if (!given) snprintf(text, 32, "%dx%d", height, width);
  take_out(c, "image");
  return VTB_OK;
}

/* ---- overrides ------------------------------------------------------------------------------- */

typedef struct overrides {
  VTB_VEC(vtb_override) list;
  vtb_arena arena;
} overrides;

static const char *image_value(overrides *v, const char *text) {
  if (strchr(text, 'x')) return text;
  return vtb_arena_printf(&v->arena, "%sx%s", text, text);
}

static vtb_status add_setting(overrides *v, const char *setting, bool stored, vtb_error *err) {
  const char *eq = strchr(setting, '=');
  if (!eq || eq == setting)
    return vtb_fail(err, VTB_E_USAGE, "a setting is NAME=VALUE, not '%s'", setting);
  char *name = vtb_arena_strndup(&v->arena, setting, (size_t)(eq - setting));
  vtb_vec_push(&v->list, ((vtb_override){.name = name, .value = eq + 1, .stored = stored}));
  return VTB_OK;
}

static vtb_status collect_overrides(const vtb_compilation *c, const vtb_instantiate_options *more,
                                    const char *table_image, overrides *v, vtb_error *err) {
  const char *image = c->options.image;
  vtb_status status = VTB_OK;
  for (size_t i = 0; more && i < more->n_overrides; i++) vtb_vec_push(&v->list, more->overrides[i]);
  for (size_t i = 0; i < c->settings.n && status == VTB_OK; i++)
    status = add_setting(v, c->settings.at[i], !is_given(&c->options, c->settings.at[i]), err);
  if (image)
    vtb_vec_push(&v->list, ((vtb_override){.name = "image", .value = image_value(v, image)}));
  if (*table_image)
    vtb_vec_push(&v->list,
                 ((vtb_override){.name = "table_image", .value = table_image, .optional = true}));
  return status;
}

/* ---- units ----------------------------------------------------------------------------------- */

static bool is_file_name(const char *model) {
  return vtb_ends_with(model, ".vtb") || strchr(model, '/') != NULL;
}

/* "std/mlstm.vtb" below a search folder; for vtb_free(), NULL: in none. */
static char *in_folders(const vtb_search *search, const char *path) {
  for (size_t i = 0; i < search->n_dirs && path[0] != '/'; i++) {
    char *whole = vtb_need(vtb_strprintf("%s/%s", search->dirs[i], path));
    if (vtb_path_exists(whole)) return whole;
    vtb_free(whole);
  }
  return NULL;
}

static vtb_unit *unit_of(const vtb_compile_options *o, const vtb_search *search, vtb_diags *diags) {
  if (o->text)
    return vtb_unit_load_text(o->model ? o->model : "<text>", o->text,
                              o->text_bytes ? o->text_bytes : strlen(o->text), search, diags);
  if (!is_file_name(o->model)) return vtb_unit_find(o->model, search, diags);
  char *shipped = vtb_path_exists(o->model) ? NULL : in_folders(search, o->model);
  vtb_unit *u = vtb_unit_load(shipped ? shipped : o->model, search, diags);
  vtb_free(shipped);
  return u;
}

vtb_unit *vtb__compile_unit(const vtb_compile_options *o, vtb_diags *diags) {
  vtb_search given = *vtb_search_default();
  if (o->search) given.dirs = o->search, given.n_dirs = o->n_search;
  vtb_overlay *overlay = o->n_overlay ? vtb_xcalloc(o->n_overlay, sizeof *overlay) : NULL;
  for (size_t i = 0; i < o->n_overlay; i++)
    overlay[i] = (vtb_overlay){o->overlay[i].path, o->overlay[i].text, o->overlay[i].n};
  given.overlay = overlay;
  given.n_overlay = o->n_overlay;
  vtb_unit *u = unit_of(o, &given, diags);
  vtb_free(overlay);
  return u;
}

/* By its ending: what stands in it is no text. */
static bool is_weights_file(const char *model) {
  static const char *const endings[] = {".safetensors", ".pth",  ".pt", ".th",
                                        ".bin",         ".ckpt", ".npz"};
  bool is = false;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    is |= vtb_ends_with(model, endings[i]);
  return is;
}

static vtb_status unknown_mode(const char *mode, vtb_error *err) {
  const char *near = vtb_suggest(mode, vtb_mode_names, VTB_N_MODES);
  vtb_strbuf modes = {0};
  vtb_words("modes", NULL, ", ", " and ", &modes);
  vtb_fail(err, VTB_E_USAGE, "unknown mode '%s'%s%s%s; modes are %s", mode,
           near ? "; did you mean " : "", near ? near : "", near ? "?" : "", modes.at);
  vtb_strbuf_free(&modes);
  return VTB_E_USAGE;
}

static vtb_status check_options(const vtb_compile_options *o, const char *mode, vtb_error *err) {
  if (mode && !vtb_is_mode(mode)) return unknown_mode(mode, err);
  bool whole = vtb_streq(o->mode, "parallel") || vtb_streq(o->mode, "recurrent");
  if (whole && o->chunk)
    return vtb_fail(err, VTB_E_USAGE, "mode %s has no chunks: leave out one of mode and chunk",
                    o->mode);
  if (o->image && strchr(o->image, ','))
    return vtb_fail(err, VTB_E_USAGE, "one image size is needed here, not the list %s", o->image);
  if (o->text) return VTB_OK;
  if (!o->model) return vtb_fail(err, VTB_E_USAGE, "neither a model nor its text is given");
  if (is_weights_file(o->model))
    return vtb_fail(err, VTB_E_INPUT,
                    "%s has weights, and a model's name or .vtb file is needed: MODEL --weights %s",
                    o->model, o->model);
  if (vtb_artefact_recognise(o->model))
    return vtb_fail(err, VTB_E_INPUT, "%s is compiled already: this needs the model's source",
                    o->model);
  return VTB_OK;
}

static bool declares(const vtb_unit *u, const char *name) {
  const vtb_decl_info *decls;
  size_t n = vtb_unit_decls(u, &decls);
  for (size_t i = 0; i < n; i++)
    if (vtb_streq(decls[i].name, name)) return true;
  return false;
}

static vtb_status instantiate(vtb_compilation *c, const vtb_instantiate_options *options) {
  vtb_compile_options *o = &c->options;
  vtb_diags diags = {0};
  bool is_file = o->text || is_file_name(o->model);
  c->unit = vtb__compile_unit(o, &diags);
  if (!o->entry && is_file && c->unit && c->entry && declares(c->unit, c->entry))
    o->entry = c->entry;
  const char *entry = o->entry ? o->entry : is_file ? NULL : o->model;
  if (c->unit && !diags.n_errors) c->module = vtb_instantiate(c->unit, entry, options, &diags);
  bool ok = c->module && !diags.n_errors;
  vtb__report_take(c->report, &diags);
  if (!ok) return VTB_E_INPUT;
  c->func = c->module->entry->name;
  return VTB_OK;
}

vtb_status vtb_compilation_load(vtb_compilation *c, const vtb_compile_options *o,
                                const vtb_instantiate_options *more, vtb_report *r) {
  overrides v = {0};
  vtb_shape_bindings shapes = {0};
  char table_image[32] = "";
  vtb_instantiate_options options = more ? *more : (vtb_instantiate_options){0};
  *c = (vtb_compilation){.options = *o, .report = r, .n_before = r->diags.list.n};
  vtb_arena_init(&v.arena);
  options.training |= o->training;
  options.taps |= o->taps;
  options.objective |= o->training || o->evaluation;
  options.mode = o->mode ? o->mode : o->chunk ? "chunkwise" : options.mode;
  options.chunk = o->chunk ? o->chunk : options.chunk;
  options.freeze = o->freeze;
  options.n_freeze = o->n_freeze;
  vtb_status status = check_options(o, options.mode, &r->error);
  if (status == VTB_OK) status = stored_settings(c);
  if (status == VTB_OK) status = vtb_compile_shapes(o, &v.arena, &shapes, &r->error);
  if (shapes.n) options.inputs = shapes.at, options.n_inputs = shapes.n;
  for (size_t i = 0; i < o->n_defines; i++) vtb_vec_push(&c->settings, vtb_xstrdup(o->defines[i]));
  if (status == VTB_OK && (o->weights || o->parameters) && o->image)
    status = size_of_weights(c, table_image);
  if (status == VTB_OK) status = collect_overrides(c, more, table_image, &v, &r->error);
  options.overrides = v.list.at;
  options.n_overrides = v.list.n;
  if (status == VTB_OK) status = instantiate(c, &options);
  vtb_vec_free(&v.list);
  vtb_vec_free(&shapes);
  vtb_arena_free(&v.arena);
  return status;
}

void vtb_compilation_free(vtb_compilation *c) {
  vtb_module_free(c->module);
  if (c->unit && c->report->diags.list.n > c->n_before) /* what was said points into it */
    vtb_vec_push(&c->report->units, c->unit);
  else
    vtb_unit_free(c->unit);
  for (size_t i = 0; i < c->settings.n; i++) vtb_free(c->settings.at[i]);
  vtb_vec_free(&c->settings);
  vtb_free(c->entry);
  vtb_tuning_free(&c->tuning);
  vtb_decisions_free(&c->decisions);
  if (c->rule) vtb_compilation_free(c->rule);
  vtb_free(c->rule);
  *c = (vtb_compilation){0};
}

vtb_status vtb_compilation_image_size(const vtb_compilation *c, int *channels, int *height,
                                      int *width) {
  const vtb_func *f = c->module->entry;
  for (int a = 0; a < f->n_args; a++) {
    const vtb_type *t = &f->args[a]->type;
    if (f->arg_info[a].role != VTB_ROLE_INPUT || t->rank != 4 || t->dtype != VTB_F32) continue;
    *channels = (int)t->dim[1].size;
    *height = (int)t->dim[2].size;
    *width = (int)t->dim[3].size;
    return VTB_OK;
  }
  return vtb_fail(&c->report->error, VTB_E_INPUT, "the model %s has no image input", f->name);
}

/* See weights.h. */
#include "frontend/compile/weights.h"
#include "frontend/compile/classes.h"
#include "runtime/artefact/init.h"
#include "runtime/weights/open.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <string.h>

void vtb_load_say(const vtb_load *l, const char *fmt, ...) {
  vtb_strbuf line = {0};
  va_list ap;
  if (!l->say) return;
  va_start(ap, fmt);
  vtb_strbuf_vprintf(&line, fmt, ap);
  va_end(ap);
  l->say(l->user, line.at);
  vtb_strbuf_free(&line);
}

/* ---- opening --------------------------------------------------------------------------------- */

vtb_status vtb_load_open(vtb_load *l, vtb_error *err) {
  if (!l->weights || l->file) return VTB_OK;
  if (l->of_parts) {
    l->file = vtb_need(vtb_weights_new());
    l->allow_missing = true; /* the others keep their initial values */
    return VTB_OK;
  }
  vtb_strbuf said = {0};
  vtb_status status =
      vtb_weights_open_part(l->weights, l->averages ? "ema" : NULL, &l->file, &said, err);
  for (char *rest = said.at, *line; status == VTB_OK && !l->quiet && (line = strsep(&rest, "\n"));)
    if (*line) vtb_load_say(l, "%s: %s\n", l->weights, line);
  vtb_strbuf_free(&said);
  return status == VTB_OK ? vtb_classes_keep(l->file, err) : status;
}

void vtb_load_free(vtb_load *l) {
  vtb_weights_free(l->file);
  l->file = NULL;
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* "models/vit.names" beside "models/vit.vtb", if it is there; for vtb_free(). */
static char *rules_beside(const char *path) {
  const char *end = vtb_ends_with(path, ".vtb") ? path + strlen(path) - 4 : NULL;
  char *names = end ? vtb_need(vtb_strprintf("%.*s.names", (int)(end - path), path)) : NULL;
  if (names && vtb_path_exists(names)) return names;
  vtb_free(names);
  return NULL;
}

static vtb_status read_rules(const vtb_unit *u, vtb_names *out, vtb_error *err) {
  vtb_status status = VTB_OK;
  vtb_names_init(out);
  for (size_t i = 0; u && status == VTB_OK && vtb_unit_file(u, i); i++) {
    char *path = rules_beside(vtb_unit_file(u, i));
    if (path) status = vtb_names_read(out, path, err);
    vtb_free(path);
  }
  return status;
}

vtb_status vtb_load_names(const vtb_compile_options *options, const char *rules, vtb_names *out,
                          vtb_error *err) {
  vtb_diags quiet = {0};
  if (rules) {
    vtb_names_init(out);
    return vtb_names_parse(out, options->model, rules, err);
  }
  vtb_unit *u = vtb__compile_unit(options, &quiet);
  vtb_status status = read_rules(u, out, err);
  vtb_diags_free(&quiet);
  vtb_unit_free(u);
  return status;
}

vtb_status vtb_load_rules(const vtb_unit *u, vtb_strbuf *out, vtb_error *err) {
  vtb_names checked;
  vtb_status status = read_rules(u, &checked, err);
  vtb_names_free(&checked);
  for (size_t i = 0; status == VTB_OK && vtb_unit_file(u, i); i++) {
    char *path = rules_beside(vtb_unit_file(u, i)), *text = NULL;
    size_t n = 0;
    if (path) status = vtb_file_read(path, 1 << 20, &text, &n, err);
    if (text) vtb_strbuf_puts(out, text);
    vtb_free(text);
    vtb_free(path);
  }
  return status;
}

/* ---- fitting --------------------------------------------------------------------------------- */

/* "models/vil.vtb" and "vil" are one name. */
static bool same_model(const char *a, const char *b) {
  const char *texts[2] = {a, b};
  size_t n[2];
  for (int i = 0; i < 2; i++) {
    const char *slash = strrchr(texts[i], '/');
    if (slash) texts[i] = slash + 1;
    n[i] = strlen(texts[i]);
    if (vtb_ends_with(texts[i], ".vtb")) n[i] -= 4;
  }
  return n[0] == n[1] && memcmp(texts[0], texts[1], n[0]) == 0;
}

/* Another model or entry than the one at hand, if the weights say that they are of one: a sentence,
 * for vtb_free(). NULL: they are of this one, or do not say. */
static char *other_model(const vtb_compile_options *options, const vtb_load *l) {
  const char *model = vtb_weights_meta(l->file, "model"),
             *entry = vtb_weights_meta(l->file, "entry"), *own = options->entry;
  const char *what = options->model ? options->model : "<text>";
  bool is_file = options->text || vtb_ends_with(what, ".vtb") || strchr(what, '/');
  if (!is_file && !own) own = what;
  if (!model || l->built || (own && entry && same_model(own, entry))) return NULL;
  if (own && entry)
    return vtb_strprintf("%s has weights of %s, as its metadata say, not of %s%s%s", l->weights,
                         entry, own, is_file ? ": --entry " : "", is_file ? entry : "");
  if (same_model(model, what) || (own && same_model(model, own))) return NULL;
  return vtb_strprintf("%s has weights of %s, as its metadata say, not of %s", l->weights,
                       entry ? entry : model, own ? own : what);
}

/* With "-D classes=1000" where the model has such a setting. */
static vtb_status wrong_classes(const vtb_compile_options *options, int64_t classes,
                                const vtb_error *why, vtb_error *err) {
  vtb_compilation c;
  vtb_report *quiet = vtb_need(vtb_report_new());
  vtb_compile_options with = *options;
  char define[64] = "";
  with.n_defines = 0; /* one of them may be the setting that is looked for */
  if (vtb_compilation_load(&c, &with, NULL, quiet) == VTB_OK &&
      !vtb_class_setting(&with, &c, (int)classes, define, sizeof define))
    *define = 0;
  vtb_compilation_free(&c);
  vtb_report_free(quiet);
  return vtb_fail(err, why->status, "%s%s%s", why->text, *define ? ": -D " : "", define);
}

/* Tables of positions that would fit at another image size. */
static bool is_resizable(const vtb_fit_options *o, const vtb_weights *w,
                         const vtb_tensor_info *tensors, int n, int height, int width) {
  vtb_fit_options with = *o;
  vtb_fit_report r;
  with.height = height;
  with.width = width;
  bool is = vtb_fit(tensors, n, w, &with, NULL, &r, NULL) == VTB_OK && r.resized.n > 0;
  vtb_fit_report_free(&r);
  return is;
}

void vtb_load_say_fit(const vtb_load *l, const vtb_fit_report *r) {
  vtb_strbuf s = {0};
  vtb_fit_summary(r, &s);
  if (!l->quiet) vtb_load_say(l, "%s: loaded %s\n", l->weights, s.at);
  vtb_strbuf_free(&s);
}

/* Every tensor is the model's own, as it is. */
static bool is_plain(const vtb_fit_report *r) {
  return !r->names && !*r->prefix && r->n_loaded == r->n_wanted && !r->resized.n && !r->unused.n;
}

/* Why it does not fit, and what would help. */
static void explain(const vtb_compile_options *options, const vtb_load *l, const vtb_fit_options *o,
                    const vtb_tensor_info *tensors, int n, const vtb_fit_report *r,
                    const vtb_error *why, vtb_error *err) {
  char *other = other_model(options, l);
  if (other)
    vtb_fail(err, why->status, "%s", other);
  else if (r->file_classes && !o->new_head && !l->built)
    wrong_classes(options, r->file_classes, why, err);
  else if (!o->height && is_resizable(o, l->file, tensors, n, 224, 224))
    vtb_fail(err, why->status, "%s; its positions are of another image size: --image SIZE",
             why->text);
  else
    vtb_fail(err, why->status, "%s", why->text);
  vtb_free(other);
}

/* Weights that fit at another size as they are, and were made for images of one size. */
static void say_other_size(const vtb_compile_options *options, const vtb_load *l,
                           const vtb_fit_options *o) {
  int height = 0, width = 0, channels;
  if (!vtb_image_said(l->file, &height, &width)) {
    vtb_compilation c = {0};
    vtb_report *quiet = vtb_need(vtb_report_new());
    vtb_compile_options with = *options;
    with.image = NULL;
    with.parameters = l->file;
    if (vtb_compilation_load(&c, &with, NULL, quiet) != VTB_OK ||
        vtb_compilation_image_size(&c, &channels, &height, &width) != VTB_OK)
      height = 0;
    vtb_compilation_free(&c);
    vtb_report_free(quiet);
  }
  if (height && (height != o->height || width != o->width))
    vtb_load_say(l, "%s: made for images of %dx%d, used at %dx%d\n", l->weights, height, width,
                 o->height, o->width);
}

vtb_status vtb_load_fit(const vtb_compile_options *options, const vtb_load *l,
                        const vtb_fit_options *o, const vtb_tensor_info *tensors, int n,
                        void *const *buffers, vtb_error *err) {
  vtb_names names;
  vtb_fit_report r;
  vtb_error inner = {0};
  vtb_fit_options with = *o;
  vtb_status status = vtb_load_names(options, l->rules, &names, err);
  if (status == VTB_OK && !l->built) status = vtb_load_check_config(options, l, &names, err);
  if (status != VTB_OK) {
    vtb_names_free(&names);
    return status;
  }
  with.path = l->weights;
  with.names = &names;
  with.allow_missing = l->allow_missing;
  with.allow_unused = l->allow_unused;
  status = vtb_fit(tensors, n, l->file, &with, buffers, &r, &inner);
  if (status == VTB_OK && !is_plain(&r)) vtb_load_say_fit(l, &r);
  if (status == VTB_OK && o->height && !r.resized.n && !l->quiet && !l->built)
    say_other_size(options, l, o);
  if (l->note) l->note(l, &r);
  if (status != VTB_OK) explain(options, l, &with, tensors, n, &r, &inner, err);
  vtb_fit_report_free(&r);
  vtb_names_free(&names);
  return status;
}

/* ---- a model that is not compiled ------------------------------------------------------------ */

vtb_tensor_info *vtb_load_tensors(const vtb_func *f, vtb_arena *arena, int *n) {
  vtb_tensor_info *out = VTB_NEW_ARRAY(arena, vtb_tensor_info, f->n_args + 1);
  *n = 0;
  for (int a = 0; a < f->n_args; a++) {
    const vtb_arg_info *info = &f->arg_info[a];
    const vtb_type *t = &f->args[a]->type;
    if (info->role != VTB_ROLE_PARAM && info->role != VTB_ROLE_BUFFER) continue;
    vtb_tensor_info *to = &out[(*n)++];
    *to = (vtb_tensor_info){.name = info->official,
                            .io = info->role == VTB_ROLE_PARAM ? VTB_IO_PARAM : VTB_IO_BUFFER,
                            .is_int = t->dtype == VTB_I32,
                            .rank = t->rank,
                            .init = info->init};
    for (int i = 0; i < t->rank; i++) to->dim[i] = t->dim[i].size;
  }
  return out;
}

/* True if the weights are those of the model at the size of the options' image. */
static bool fits_as_it_is(const vtb_compile_options *options, const vtb_load *l, int *height,
                          int *width) {
  vtb_compilation c = {0};
  vtb_arena arena;
  vtb_names names;
  vtb_report *quiet = vtb_need(vtb_report_new());
  vtb_compile_options with = *options;
  int n = 0, channels;
  bool fits = false;
  vtb_arena_init(&arena);
  vtb_status status = vtb_load_names(options, NULL, &names, NULL);
  if (status == VTB_OK) status = vtb_compilation_load(&c, &with, NULL, quiet);
  if (status == VTB_OK) status = vtb_compilation_image_size(&c, &channels, height, width);
  if (status == VTB_OK) {
    vtb_fit_report r;
    vtb_fit_options o = {.names = &names, .allow_missing = true, .allow_unused = true};
    vtb_tensor_info *t = vtb_load_tensors(c.module->entry, &arena, &n);
    fits = vtb_fit(t, n, l->file, &o, NULL, &r, NULL) == VTB_OK;
    vtb_fit_report_free(&r);
  }
  vtb_compilation_free(&c);
  vtb_names_free(&names);
  vtb_arena_free(&arena);
  vtb_report_free(quiet);
  return fits;
}

/* Says that the entry which the weights were stored with is taken, where the options name none. */
static void say_entry(const vtb_compile_options *o, const vtb_load *l) {
  const char *entry = l->file ? vtb_weights_meta(l->file, "entry") : NULL;
  bool is_file = o->text || (o->model && vtb_ends_with(o->model, ".vtb"));
  if (!entry || o->entry || !is_file || l->quiet) return;
  vtb_diags quiet = {0};
  vtb_unit *u = vtb__compile_unit(o, &quiet);
  const vtb_decl_info *decls;
  size_t n = u ? vtb_unit_decls(u, &decls) : 0;
  for (size_t i = 0; i < n; i++)
    if (vtb_streq(decls[i].name, entry))
      vtb_load_say(l, "%s: weights of %s, which is taken: --entry %s\n", l->weights, entry, entry);
  vtb_unit_free(u);
  vtb_diags_free(&quiet);
}

vtb_status vtb_load_for(const vtb_compile_options *options, vtb_load *l, vtb_error *err) {
  int height, width;
  char defines[64];
  bool first = !l->file;
  vtb_status status = vtb_load_open(l, err);
  if (status == VTB_OK && first) vtb_load_say_architecture(options, l);
  if (status == VTB_OK && first) say_entry(options, l);
  if (status == VTB_OK) status = vtb_load_config(options, l, err);
  if (status != VTB_OK || !l->file || !options->image || vtb_weights_meta(l->file, "defines"))
    return status;
  if (!fits_as_it_is(options, l, &height, &width)) return VTB_OK;
  snprintf(defines, sizeof defines, "[\"image=%dx%d\"]", height, width);
  vtb_weights_set_meta(l->file, "defines", defines);
  return VTB_OK;
}

static vtb_weights *as_weights(const vtb_tensor_info *t, int n, void *const *buffers,
                               const vtb_weights *file) {
  vtb_weights *out = vtb_need(vtb_weights_new());
  for (int i = 0; i < n; i++)
    vtb_weights_put(out, t[i].name, t[i].is_int ? VTB_ELEM_I32 : VTB_ELEM_F32, t[i].rank, t[i].dim,
                    buffers[i]);
  for (size_t i = 0; i < file->meta.n; i++)
    vtb_weights_set_meta(out, file->meta.at[i].key, file->meta.at[i].value);
  return out;
}

vtb_status vtb_load_parameters(const vtb_compile_options *options, const vtb_load *l,
                               vtb_weights **out, vtb_report *r) {
  vtb_compilation c;
  vtb_arena arena;
  vtb_error *err = &r->error;
  vtb_compile_options with = *options;
  int n = 0, channels = 0, height, width;
  with.parameters = l->file;
  with.training = false;
  vtb_arena_init(&arena);
  *out = NULL;
  vtb_status status = vtb_compilation_load(&c, &with, NULL, r);
  if (status == VTB_OK) {
    vtb_tensor_info *t = vtb_load_tensors(c.module->entry, &arena, &n);
    void **buffers = VTB_NEW_ARRAY(&arena, void *, n + 1);
    for (int i = 0; i < n && status == VTB_OK; i++) {
      buffers[i] = vtb_xcalloc((size_t)vtb_tensor_info_count(&t[i]) + 1, 4);
      if (!t[i].is_int && l->allow_missing) /* else the file has all of them */
        status = vtb_init_tensor(t[i].init, t[i].name, 0, t[i].rank, t[i].dim, buffers[i], err);
    }
    vtb_fit_options o = {.classes = vtb_class_scores(c.module->entry)};
    if (status == VTB_OK) status = vtb_load_fit(options, l, &o, t, n, buffers, err);
    if (status == VTB_OK) *out = as_weights(t, n, buffers, l->file);
    if (status == VTB_OK && vtb_compilation_image_size(&c, &channels, &height, &width) == VTB_OK)
      status = vtb_prepare_keep(*out, channels, err);
    for (int i = 0; i < n; i++) vtb_free(buffers[i]);
  }
  vtb_compilation_free(&c);
  vtb_arena_free(&arena);
  return status;
}

/* A safetensors file with every parameter as the model has it. */
static bool is_own(const vtb_compile_options *options) {
  vtb_weights *file = NULL;
  vtb_compilation c = {0};
  vtb_arena arena;
  vtb_report *quiet = vtb_need(vtb_report_new());
  vtb_compile_options with = *options;
  int n = 0;
  bool own = false;
  with.training = false;
  vtb_arena_init(&arena);
  if (vtb_safetensors_load(options->weights, &file, NULL) == VTB_OK &&
      vtb_compilation_load(&c, &with, NULL, quiet) == VTB_OK) {
    vtb_fit_report r;
    vtb_fit_options o = {.allow_unused = true};
    vtb_tensor_info *t = vtb_load_tensors(c.module->entry, &arena, &n);
    own = vtb_fit(t, n, file, &o, NULL, &r, NULL) == VTB_OK && r.n_loaded == r.n_wanted &&
          !*r.prefix && !r.resized.n;
    vtb_fit_report_free(&r);
  }
  vtb_compilation_free(&c);
  vtb_arena_free(&arena);
  vtb_report_free(quiet);
  vtb_weights_free(file);
  return own;
}

vtb_status vtb_load_into(vtb_compile_options *o, vtb_weights **taken, vtb_report *r) {
  vtb_load l = {.weights = o->weights, .say = o->say, .user = o->user};
  vtb_compile_options source = *o;
  *taken = NULL;
  if (!o->weights || o->parameters || is_own(o)) return VTB_OK;
  source.weights = NULL;
  vtb_status status = vtb_load_for(&source, &l, &r->error);
  if (status == VTB_OK) status = vtb_load_parameters(&source, &l, taken, r);
  if (status == VTB_OK) o->parameters = *taken, o->weights = NULL;
  vtb_load_free(&l);
  return status;
}

/* Weights of a part of a model from a file of their own: --init teacher=vil_base.pth. What stands
 * below the prefix is fitted as a model by itself, with all rules of names, and joins the weights
 * of the rest under the names that it has in the model. */
#include "frontend/compile/weights.h"
#include "runtime/weights/open.h"

#include <ctype.h>
#include <string.h>

const char *vtb_load_part(const char *text, size_t *prefix) {
  size_t n = 0;
  while (isalnum((unsigned char)text[n]) || strchr("_.-", text[n] ? text[n] : '=')) n++;
  if (!n || text[n] != '=' || vtb_path_exists(text)) return NULL;
  *prefix = n;
  return text + n + 1;
}

void vtb_load_given(vtb_load *l) {
  const char *first = NULL;
  for (size_t i = 0; i < l->given.n; i++) {
    size_t n;
    const char *file = vtb_load_part(l->given.at[i], &n);
    if (!file) l->weights = l->given.at[i];
    if (file && !first) first = file;
  }
  l->of_parts = !l->weights && first;
  if (l->of_parts) l->weights = first;
}

/* The tensors below the prefix, without it; returns how many. */
static int below(const vtb_tensor_info *all, int n, const char *prefix, size_t length,
                 vtb_tensor_info *out) {
  int found = 0;
  for (int i = 0; i < n; i++) {
    if (strncmp(all[i].name, prefix, length) != 0 || all[i].name[length] != '.') continue;
    out[found] = all[i];
    out[found++].name = all[i].name + length + 1;
  }
  return found;
}

static vtb_status nothing_below(const vtb_tensor_info *all, int n, const char *prefix,
                                size_t length, vtb_error *err) {
  vtb_strbuf list = {0};
  const char *last = "";
  size_t last_n = 0;
  for (int i = 0; i < n && list.n < 200; i++) {
    size_t k = strcspn(all[i].name, ".");
    if (!all[i].name[k] || (k == last_n && memcmp(last, all[i].name, k) == 0)) continue;
    vtb_strbuf_printf(&list, "%s%.*s", list.n ? ", " : "", (int)k, all[i].name);
    last = all[i].name, last_n = k;
  }
  vtb_status status =
      vtb_fail(err, VTB_E_INPUT, "the model has no parameters below '%.*s'; its scopes are %s",
               (int)length, prefix, list.n ? list.at : "none");
  vtb_strbuf_free(&list);
  return status;
}

/* Fits the part's file to `n` tensors, whose names in the model begin with prefix, and adds them to
 * `out`. */
static vtb_status take_part(const vtb_load *l, const vtb_names *names, const char *path,
                            const char *prefix, size_t length, const vtb_tensor_info *tensors,
                            int n, vtb_arena *arena, vtb_weights *out, vtb_error *err) {
  vtb_load part = *l;
  vtb_fit_report r = {0};
  vtb_fit_options o = {.path = path,
                       .names = names,
                       .allow_missing = l->allow_missing && !l->of_parts,
                       .allow_unused = l->allow_unused};
  void **buffers = VTB_NEW_ARRAY(arena, void *, n);
  for (int i = 0; i < n; i++)
    buffers[i] = VTB_NEW_ARRAY(arena, float, (size_t)vtb_tensor_info_count(&tensors[i]) + 1);
  part.weights = path;
  part.file = NULL;
  part.of_parts = false;
  VTB_TRY(vtb_load_open(&part, err));
  vtb_error why = {0};
  vtb_status status = vtb_fit(tensors, n, part.file, &o, buffers, &r, &why);
  if (status != VTB_OK)
    vtb_fail(err, status, "below %.*s: %s", (int)length, prefix, why.text);
  else if (!l->quiet)
    vtb_load_say(l, "%s: loaded %d of %d tensors below %.*s\n", path, r.n_loaded, n, (int)length,
                 prefix);
  for (int i = 0; status == VTB_OK && i < n; i++) {
    const char *name = vtb_arena_printf(arena, "%.*s.%s", (int)length, prefix, tensors[i].name);
    bool missing = vtb_weights_find(out, name) != NULL; /* a later file of the same prefix */
    for (size_t k = 0; k < r.missing.n; k++)
      missing |= strcmp(r.missing.at[k], tensors[i].name) == 0;
    if (!missing)
      vtb_weights_put(out, name, tensors[i].is_int ? VTB_ELEM_I32 : VTB_ELEM_F32, tensors[i].rank,
                      tensors[i].dim, buffers[i]);
  }
  vtb_fit_report_free(&r);
  vtb_load_free(&part);
  return status;
}

static void release(void *weights) { vtb_weights_free(weights); }

/* The parts, and of the rest's file what they do not have. */
static void join_parts(vtb_load *l, vtb_weights *parts) {
  vtb_weights *rest = l->file;
  for (size_t i = 0; i < rest->n; i++) {
    const vtb_weight *t = rest->at[i];
    if (!vtb_weights_find(parts, t->name))
      vtb_weights_borrow(parts, t->name, t->elem, t->rank, t->dim, t->data);
  }
  for (size_t i = 0; i < rest->meta.n; i++)
    vtb_weights_set_meta(parts, rest->meta.at[i].key, rest->meta.at[i].value);
  if (!vtb_weights_keep(parts, rest, release)) vtb_out_of_memory(sizeof *rest);
  l->file = parts;
  l->joined = true;
}

vtb_status vtb_load_parts(const vtb_compile_options *options, vtb_load *l, vtb_error *err) {
  vtb_compilation c = {0};
  vtb_names names;
  vtb_arena arena;
  vtb_compile_options with = *options;
  size_t length = 0;
  bool any = false;
  for (size_t i = 0; i < l->given.n; i++) any |= vtb_load_part(l->given.at[i], &length) != NULL;
  if (!any || !l->file || l->joined) return VTB_OK;
  with.training = false;
  vtb_report *report = vtb_need(vtb_report_new());
  vtb_arena_init(&arena);
  vtb_status status = vtb_load_names(options, l->rules, &names, err);
  bool loaded = status == VTB_OK && vtb_compilation_load(&c, &with, NULL, report) == VTB_OK;
  int n = 0; /* a model with faults is told of when it is compiled */
  vtb_tensor_info *all = loaded ? vtb_load_tensors(c.module->entry, &arena, &n) : NULL;
  vtb_tensor_info *some = VTB_NEW_ARRAY(&arena, vtb_tensor_info, n + 1);
  vtb_weights *parts = vtb_need(vtb_weights_new());
  for (size_t i = l->given.n; loaded && status == VTB_OK && i-- > 0;) {
    const char *prefix = l->given.at[i], *path = vtb_load_part(prefix, &length);
    if (!path) continue;
    int found = below(all, n, prefix, length, some);
    status = found ? take_part(l, &names, path, prefix, length, some, found, &arena, parts, err)
                   : nothing_below(all, n, prefix, length, err);
  }
  if (status == VTB_OK)
    join_parts(l, parts);
  else
    vtb_weights_free(parts);
  vtb_compilation_free(&c);
  vtb_names_free(&names);
  vtb_arena_free(&arena);
  vtb_report_free(report);
  return status;
}

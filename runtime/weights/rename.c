/* Applying rules to the tensors of a file. */
#include "runtime/weights/rename_internal.h"

#include <string.h>

/* ---- one tensor ------------------------------------------------------------------------------ */

static void take_shape(vtb_renamed *t, const vtb_weight *w) {
  t->rank = w->rank;
  t->count = w->count;
  memcpy(t->dim, w->dim, sizeof t->dim);
}

/* The result's shape from those of `from`; false: they do not go together. */
static bool settle(vtb_renamed *t) {
  int64_t sizes[VTB_WEIGHT_MAX_RANK];
  take_shape(t, t->from[0]);
  for (int k = 1; k < t->n_from; k++) {
    const vtb_weight *w = t->from[k];
    if (w->rank != t->rank || w->rank < 1 || w->elem != t->from[0]->elem) return false;
    for (int i = 1; i < t->rank; i++)
      if (w->dim[i] != t->dim[i]) return false;
    t->dim[0] += w->dim[0];
    t->count += w->count;
  }
  if (t->n_parts > 1) {
    if (t->rank < 1 || t->dim[0] % t->n_parts) return false;
    t->dim[0] /= t->n_parts;
    t->count /= t->n_parts;
  }
  if (t->axes[0] < 0) return true;
  memcpy(sizes, t->dim, sizeof sizes);
  for (int i = 0; i < t->rank; i++) t->dim[i] = sizes[t->axes[i]];
  return true;
}

static void set_axes(vtb_renamed *t, const vtb_name_rule *rule, int rank) {
  t->axes[0] = -1;
  if (rule && rule->n_axes == rank && rank) memcpy(t->axes, rule->axes, sizeof t->axes);
  t->reshape = rule && rule->reshape;
}

/* ---- all of them ----------------------------------------------------------------------------- */

typedef struct renamer {
  const vtb_names *names;
  const struct vtb_name_set *set; /* NULL: no rules */
  vtb_renaming *out;
  vtb_error *err;
} renamer;

static char *keep(renamer *r, const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = vtb_arena_try(&r->out->arena, n, 1);
  if (copy) memcpy(copy, text, n);
  return copy;
}

/* The result of that name, made if there is none; NULL when out of memory. */
static vtb_renamed *result(renamer *r, const char *name) {
  vtb_renamed *t = vtb_map_get(&r->out->index, name);
  if (t) return t;
  t = vtb_arena_try(&r->out->arena, 1, sizeof *t);
  if (!t || !(t->name = keep(r, name)) || !vtb_vec_try_push(&r->out->at, t) ||
      !vtb_map_try_set(&r->out->index, name, t))
    return NULL;
  t->n_parts = 1;
  t->axes[0] = -1;
  return t;
}

static vtb_status leave(renamer *r, const vtb_weight *w) {
  return vtb_vec_try_push(&r->out->left, w) ? VTB_OK : vtb_no_memory(r->err, w->name);
}

/* Puts `w` into its place as part `k` of the rule's tensors. */
static vtb_status place_part(renamer *r, const vtb_name_rule *rule, int k, const char *name,
                             int part, const vtb_weight *w) {
  vtb_renamed *t = result(r, name);
  if (!t) return vtb_no_memory(r->err, name);
  if (t->from[k] || (t->n_from && t->n_from != (rule ? rule->n_from : 1))) return leave(r, w);
  t->from[k] = w;
  t->n_from = rule ? rule->n_from : 1;
  t->part = part;
  t->n_parts = rule ? rule->n_to : 1;
  set_axes(t, rule, w->rank);
  return VTB_OK;
}

/* The rule whose names the name is one of; NULL: none. */
static const vtb_name_rule *find_rule(const renamer *r, const char *name, int *k,
                                      vtb_taken *taken) {
  for (const vtb_name_rule *rule = r->set ? r->set->first : NULL; rule; rule = rule->next)
    for (*k = 0; *k < rule->n_from; ++*k)
      if (vtb_pattern_match(rule->from[*k], name, taken)) return rule;
  return NULL;
}

static vtb_status rename_one(renamer *r, const char *name, const vtb_weight *w) {
  vtb_taken taken;
  int k;
  const vtb_name_rule *rule = find_rule(r, name, &k, &taken);
  if (!rule) return place_part(r, NULL, 0, name, 0, w);
  vtb_status status = VTB_OK;
  vtb_strbuf to = VTB_CHECKED_STRBUF;
  for (int part = 0; part < rule->n_to && status == VTB_OK; part++) {
    to.n = 0;
    vtb_pattern_fill(rule->to[part], &taken, &to);
    status = vtb_strbuf_check(&to, r->err);
    if (status == VTB_OK) status = place_part(r, rule, k, vtb_strbuf_text(&to), part, w);
  }
  vtb_strbuf_free(&to);
  return status;
}

static bool is_ignored(const vtb_names *names, const char *name) {
  vtb_taken taken;
  for (size_t i = 0; names && i < names->ignored.n; i++)
    if (vtb_pattern_match(names->ignored.at[i]->text, name, &taken)) return true;
  return false;
}

/* Results that lack a part, or whose parts do not go together, are none. */
static vtb_status drop_incomplete(renamer *r) {
  vtb_renaming *out = r->out;
  size_t kept = 0;
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < out->at.n; i++) {
    vtb_renamed *t = out->at.at[i];
    bool whole = true;
    for (int k = 0; k < t->n_from; k++) whole &= t->from[k] != NULL;
    if (whole && settle(t)) {
      out->at.at[kept++] = t;
      continue;
    }
    if (!vtb_map_try_set(&out->index, t->name, NULL)) status = vtb_no_memory(r->err, t->name);
    for (int k = 0; k < t->n_from && status == VTB_OK; k++)
      if (t->from[k] && t->part == 0) status = leave(r, t->from[k]);
  }
  out->at.n = kept;
  return status;
}

vtb_status vtb_rename(const vtb_names *names, size_t set, const char *prefix, const vtb_weights *w,
                      vtb_renaming *out, vtb_error *err) {
  *out = (vtb_renaming){0};
  vtb_arena_init(&out->arena);
  renamer r = {names, set == VTB_NO_SET ? NULL : names->sets.at[set], out, err};
  size_t skip = strlen(prefix);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < w->n && status == VTB_OK; i++) {
    const char *name = w->at[i]->name + skip;
    if (strncmp(w->at[i]->name, prefix, skip) != 0 || !*name)
      status = leave(&r, w->at[i]);
    else
      status = rename_one(&r, name, w->at[i]);
  }
  return status == VTB_OK ? drop_incomplete(&r) : status;
}

void vtb_renaming_free(vtb_renaming *r) {
  vtb_vec_free(&r->at);
  vtb_vec_free(&r->left);
  vtb_map_free(&r->index);
  vtb_arena_free(&r->arena);
}

vtb_renamed *vtb_renaming_find(const vtb_renaming *r, const char *name) {
  return vtb_map_get(&r->index, name);
}

/* PyTorch's batch norms count their steps, in a buffer that only an average over all of them reads:
 * a checkpoint has it, whether its model does or not. */
static bool is_counter(const char *name) {
  const char *last = strrchr(name, '.');
  return strcmp(last ? last + 1 : name, "num_batches_tracked") == 0;
}

bool vtb_names_ignore(const vtb_names *names, const char *name) {
  return vtb_starts_with(name, "optim/") || vtb_starts_with(name, "ema/") || is_counter(name) ||
         is_ignored(names, name);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_plain(const vtb_renamed *t) {
  return t->n_from == 1 && t->n_parts == 1 && t->axes[0] < 0;
}

/* Copies 4-byte elements whose axes are `from` into those of `t`, row by row of the result. */
static void exchange_axes(const vtb_renamed *t, const float *from, float *out) {
  int64_t size[VTB_WEIGHT_MAX_RANK], step[VTB_WEIGHT_MAX_RANK], at[VTB_WEIGHT_MAX_RANK] = {0};
  int64_t stride = 1, offset = 0;
  for (int i = 0; i < t->rank; i++) size[t->axes[i]] = t->dim[i];
  for (int i = t->rank; i-- > 0; stride *= size[i]) step[i] = stride;
  for (int64_t n = 0; n < t->count; n++) {
    out[n] = from[offset];
    for (int i = t->rank; i-- > 0;) {
      offset += step[t->axes[i]];
      if (++at[i] < t->dim[i]) break;
      offset -= t->dim[i] * step[t->axes[i]];
      at[i] = 0;
    }
  }
}

vtb_status vtb_renamed_read_f32(const vtb_renamed *t, float *out, vtb_error *err) {
  if (is_plain(t)) {
    vtb_weight_read_f32(t->from[0], out);
    return VTB_OK;
  }
  size_t total = 0, filled = 0;
  for (int k = 0; k < t->n_from; k++) total += (size_t)t->from[k]->count;
  float *all = calloc(total + 1, sizeof *all);
  if (!all) return vtb_no_memory(err, t->name);
  for (int k = 0; k < t->n_from; k++) {
    vtb_weight_read_f32(t->from[k], all + filled);
    filled += (size_t)t->from[k]->count;
  }
  const float *part = all + t->part * t->count;
  if (t->axes[0] >= 0)
    exchange_axes(t, part, out);
  else if (t->count)
    memcpy(out, part, (size_t)t->count * sizeof *out);
  free(all);
  return VTB_OK;
}

vtb_status vtb_renamed_read_i32(const vtb_renamed *t, int32_t *out, vtb_error *err) {
  if (is_plain(t)) return vtb_weight_read_i32(t->from[0], out, err);
  return vtb_fail(err, VTB_E_INPUT, "tensor %s: integers cannot be joined, split or transposed",
                  t->name);
}

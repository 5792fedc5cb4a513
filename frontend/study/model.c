/* See model.h. */
#include "frontend/study/model.h"

#include "frontend/study/options.h"

#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

void study_models_free(study_models *m) {
  for (size_t i = 0; i < m->units.n; i++) vtb_unit_free(m->units.at[i].value);
  vtb_map_free(&m->units);
}

const char *study_option_value(const study *s, const char *name) {
  const char *found = NULL;
  for (size_t i = 0; i < s->options.n; i++) {
    const char *word = s->options.at[i];
    size_t n = strlen(name);
    if (strcmp(word, "-D") == 0) {
      i++;
      continue;
    }
    if (!vtb_starts_with(word, "--") || strncmp(word + 2, name, n) != 0) continue;
    if (word[2 + n] == '=') found = word + 3 + n;
    if (!word[2 + n]) found = i + 1 < s->options.n ? s->options.at[i + 1] : "";
  }
  return found;
}

/* The first message of the language, with its advice. */
static vtb_status fail_with(vtb_error *err, const char *what, const vtb_diags *diags) {
  const vtb_diag *first = NULL, *help = NULL;
  for (size_t i = 0; i < diags->list.n; i++) {
    const vtb_diag *d = &diags->list.at[i];
    if (first && d->severity == VTB_SEV_ERROR) break;
    if (d->severity == VTB_SEV_ERROR) first = d;
    if (first && !help && d->severity == VTB_SEV_HELP) help = d;
  }
  return vtb_fail(err, VTB_E_USAGE, "%s%s%s%s%s", what, *what ? ": " : "",
                  first ? first->text : "this is not understood", help ? "; " : "",
                  help ? help->text : "");
}

static bool is_file(const char *model) {
  return vtb_ends_with(model, ".vtb") || strchr(model, '/') != NULL;
}

static const char *entry_of(const study_models *m, const char *model) {
  const char *entry = study_option_value(m->study, "entry");
  return entry ? entry : is_file(model) ? NULL : model;
}

vtb_unit *study_model_open(study_models *m, const char *model, vtb_error *err) {
  vtb_unit *u = vtb_map_get(&m->units, model);
  vtb_diags diags = {0};
  if (u) return u;
  u = is_file(model) ? vtb_unit_load(model, NULL, &diags) : vtb_unit_find(model, NULL, &diags);
  if (!u || diags.n_errors) {
    fail_with(err, "", &diags);
    vtb_unit_free(u);
    u = NULL;
  } else {
    vtb_map_set(&m->units, model, u);
  }
  vtb_diags_free(&diags);
  return u;
}

/* ---- overrides ------------------------------------------------------------------------------- */

typedef struct overrides {
  VTB_VEC(vtb_override) list;
  vtb_arena arena;
} overrides;

static void add_override(overrides *o, const char *setting) {
  const char *eq = strchr(setting, '=');
  if (!eq) return;
  vtb_override one = {.name = vtb_arena_strndup(&o->arena, setting, (size_t)(eq - setting)),
                      .value = vtb_arena_strdup(&o->arena, eq + 1)};
  vtb_vec_push(&o->list, one);
}

static void add_image(overrides *o, const char *image) {
  const char *form = strchr(image, 'x') ? "image=%s" : "image=%sx%s";
  char *text = vtb_arena_printf(&o->arena, form, image, image);
  add_override(o, text);
}

static bool is_given(const char *const *more, size_t n, const char *setting) {
  size_t length = strcspn(setting, "=");
  for (size_t i = 0; i < n; i++)
    if (strncmp(more[i], setting, length) == 0 && more[i][length] == '=') return true;
  return false;
}

/* Settings of all cells, and `more`, which count more. */
static void collect_overrides(overrides *o, const study *s, const char *const *more, size_t n) {
  const char *image = study_option_value(s, "image");
  vtb_arena_init(&o->arena);
  for (size_t i = 0; i + 1 < s->options.n; i++)
    if (strcmp(s->options.at[i], "-D") == 0 && !is_given(more, n, s->options.at[i + 1]))
      add_override(o, s->options.at[++i]);
  if (image && !is_given(more, n, "image=")) add_image(o, image);
  for (size_t i = 0; i < n; i++) add_override(o, more[i]);
}

static void overrides_free(overrides *o) {
  vtb_vec_free(&o->list);
  vtb_arena_free(&o->arena);
}

vtb_status study_model_settings(study_models *m, const char *model, const char *const *more,
                                size_t n, const char *what, vtb_arena *arena,
                                vtb_hyperparameter **list, size_t *n_list, vtb_error *err) {
  vtb_unit *u = study_model_open(m, model, err);
  overrides o = {0};
  vtb_diags diags = {0};
  if (!u) return VTB_E_USAGE;
  collect_overrides(&o, m->study, more, n);
  vtb_instantiate_options options = {.overrides = o.list.at, .n_overrides = o.list.n};
  bool ok = vtb_unit_hyperparameters(u, entry_of(m, model), &options, arena, list, n_list, &diags);
  vtb_status status = ok ? VTB_OK : fail_with(err, what, &diags);
  vtb_diags_free(&diags);
  overrides_free(&o);
  return status;
}

/* ---- conditions ------------------------------------------------------------------------------ */

typedef VTB_VEC(vtb_override) words;

static void add_word(words *w, const char *name, const char *value, bool optional) {
  for (size_t i = 0; i < w->n; i++)
    if (strcmp(w->at[i].name, name) == 0) return;
  vtb_override one = {.name = name, .value = value, .optional = optional};
  vtb_vec_push(w, one);
}

/* mode = chunkwise(16): the words mode and chunk. A mode without chunks has chunk 0. */
static void add_mode(words *w, vtb_arena *arena, const char *value) {
  size_t n = strcspn(value, "("), length = strlen(value);
  add_word(w, "mode", vtb_arena_strndup(arena, value, n), false);
  if (value[n] && length > n + 2)
    add_word(w, "chunk", vtb_arena_strndup(arena, value + n + 1, length - n - 2), false);
}

/* Names as conditions write them: "weight_decay". */
static const char *plain_name(vtb_arena *arena, const char *name) {
  char *copy = vtb_arena_strdup(arena, name);
  for (char *c = copy; *c; c++)
    if (*c == '-') *c = '_';
  return copy;
}

/* Options of all cells, behind those of the cell. */
static void add_options(words *w, vtb_arena *arena, const study *s) {
  size_t n;
  const study_option *table = study_option_table(&n);
  for (size_t i = 0; i < n; i++) {
    const char *value = study_option_value(s, table[i].word + 2);
    if (value && table[i].kind == STUDY_VALUE_FLAG) value = "true";
    if (value && strcmp(table[i].word, "--mode") == 0)
      add_mode(w, arena, value);
    else if (value)
      add_word(w, plain_name(arena, table[i].word + 2), value, false);
  }
  add_word(w, "mode", "auto", true);
  add_word(w, "chunk", "0", true);
}

/* `model` is a word of the language, which no name can be: conditions have another one for it. */
#define MODEL_WORD "model_"

static const char *without_model(vtb_arena *arena, const char *condition) {
  vtb_strbuf out = {0};
  for (const char *c = condition; *c;) {
    size_t n = *c == '"' ? 1 + strcspn(c + 1, "\"") : strspn(c, NAME_LETTERS);
    if (*c == '"' && c[n]) n++;
    if (!n) n = 1;
    bool is_model = n == 5 && strncmp(c, "model", n) == 0;
    vtb_strbuf_printf(&out, "%.*s", is_model ? (int)strlen(MODEL_WORD) : (int)n,
                      is_model ? MODEL_WORD : c);
    c += n;
  }
  const char *text = vtb_arena_strdup(arena, vtb_strbuf_text(&out));
  vtb_strbuf_free(&out);
  return text;
}

/* The cell as a condition sees it. */
typedef struct seen {
  const char *model;
  words words;
  VTB_VEC(const char *) defines;
  vtb_arena arena;
} seen;

static void see_option(seen *q, const study_setting *one) {
  bool square = !strchr(one->value, 'x');
  if (strcmp(one->name, "mode") == 0)
    add_mode(&q->words, &q->arena, one->value);
  else
    add_word(&q->words, plain_name(&q->arena, one->name), one->value, false);
  if (strcmp(one->name, "image") == 0) /* hyperparameters may follow from it */
    vtb_vec_push(&q->defines, vtb_arena_printf(&q->arena, square ? "image=%sx%s" : "image=%s",
                                               one->value, one->value));
}

static void see(seen *q, const study *s, const study_settings *settings) {
  q->model = s->model;
  vtb_arena_init(&q->arena);
  for (size_t i = 0; i < settings->n; i++) {
    const study_setting *one = &settings->at[i];
    if (one->kind == STUDY_MODEL) q->model = one->value;
    if (one->kind == STUDY_OPTION) see_option(q, one);
    if (one->kind == STUDY_HYPERPARAMETER)
      vtb_vec_push(&q->defines, vtb_arena_printf(&q->arena, "%s=%s", one->name, one->value));
  }
  add_options(&q->words, &q->arena, s);
  add_word(&q->words, MODEL_WORD, q->model, true);
}

static void seen_free(seen *q) {
  vtb_vec_free(&q->words);
  vtb_vec_free(&q->defines);
  vtb_arena_free(&q->arena);
}

vtb_status study_condition(study_models *m, const study_cell *c, const char *condition, bool *holds,
                           vtb_error *err) {
  study_settings settings = {0};
  seen q = {.model = NULL};
  overrides o = {0};
  vtb_diags diags = {0};
  study_cell_settings(m->study, c, &settings);
  see(&q, m->study, &settings);
  vtb_unit *u = study_model_open(m, q.model, err);
  collect_overrides(&o, m->study, q.defines.at, q.defines.n);
  vtb_instantiate_options options = {.overrides = o.list.at, .n_overrides = o.list.n};
  vtb_status status = u ? VTB_OK : VTB_E_USAGE;
  if (u && !vtb_unit_condition(u, entry_of(m, q.model), &options, q.words.at, q.words.n,
                               without_model(&q.arena, condition), holds, &diags))
    status = fail_with(err, vtb_arena_printf(&q.arena, "--where '%s'", condition), &diags);
  vtb_diags_free(&diags);
  overrides_free(&o);
  seen_free(&q);
  study_settings_free(&settings);
  return status;
}

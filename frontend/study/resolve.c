/* The meaning of names and values of axes for the models of a study: which are hyperparameters and
 * which options, whether each value can be used at all, and which is the baseline's. */
#include "frontend/study/model.h"
#include "frontend/study/options.h"
#include "frontend/study/split.h"
#include "ir/recurrence.h"
#include "runtime/base/names.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 2000, MOST_AXES = 64 };

typedef struct resolver {
  study *s;
  study_models models;
  study_texts names; /* the models that cells have */
  study_texts *notes;
  vtb_arena arena;
  vtb_error *err;
} resolver;

static void note(resolver *r, char *text) { vtb_vec_push(r->notes, text); }

/* ---- models ---------------------------------------------------------------------------------- */

static vtb_status find_models(resolver *r) {
  study *s = r->s;
  for (size_t i = 0; i < s->axes.n; i++)
    for (size_t k = 0; k < s->axes.at[i].parts.n; k++)
      for (size_t v = 0;
           strcmp(s->axes.at[i].parts.at[k].name, "model") == 0 && v < s->axes.at[i].values.n;
           v++) {
        study_texts parts = {0};
        const char *value = s->axes.at[i].values.at[v];
        study_axis_value(&s->axes.at[i], value, &parts);
        if (k < parts.n) vtb_vec_push(&r->names, vtb_xstrdup(parts.at[k]));
        study_texts_free(&parts);
      }
  if (!r->names.n && s->model) vtb_vec_push(&r->names, vtb_xstrdup(s->model));
  if (!r->names.n) return vtb_fail(r->err, VTB_E_USAGE, "a MODEL is needed");
  for (size_t i = 0; i < r->names.n; i++)
    if (!study_model_open(&r->models, r->names.at[i], r->err)) return VTB_E_USAGE;
  return VTB_OK;
}

/* Hyperparameters of a model as all cells have them; none after an error, which is kept. */
static vtb_hyperparameter *settings_of(resolver *r, const char *model, const char *const *more,
                                       size_t n_more, const char *what, size_t *n, vtb_error *err) {
  vtb_hyperparameter *list = NULL;
  *n = 0;
  if (study_model_settings(&r->models, model, more, n_more, what, &r->arena, &list, n, err) !=
      VTB_OK)
    *n = 0;
  return list;
}

static const vtb_hyperparameter *find_parameter(const vtb_hyperparameter *list, size_t n,
                                                const char *name, bool *own) {
  for (size_t i = 0; i < n; i++) {
    *own = strcmp(list[i].name, name) == 0;
    if (*own) return &list[i];
    for (size_t k = 0; k < list[i].n_aliases; k++)
      if (strcmp(list[i].aliases[k], name) == 0) return &list[i];
  }
  return NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

static vtb_status refuse_setting(resolver *r, const char *name, const char *why) {
  return vtb_fail(r->err, VTB_E_USAGE, "'%s' is not varied: %s", name, why);
}

static vtb_status unknown(resolver *r, const char *name) {
  VTB_VEC(const char *) names = {0};
  size_t n, n_table;
  const study_option *table = study_option_table(&n_table);
  for (size_t m = 0; m < r->names.n; m++) {
    vtb_error quiet = {0};
    const vtb_hyperparameter *list = settings_of(r, r->names.at[m], NULL, 0, "", &n, &quiet);
    for (size_t i = 0; i < n; i++) {
      vtb_vec_push(&names, list[i].name);
      for (size_t k = 0; k < list[i].n_aliases; k++) vtb_vec_push(&names, list[i].aliases[k]);
    }
  }
  for (size_t i = 0; i < n_table; i++) vtb_vec_push(&names, table[i].word + 2);
  vtb_vec_push(&names, "model");
  const char *near = vtb_suggest(name, names.at, names.n);
  vtb_fail(r->err, VTB_E_USAGE,
           "%s has no hyperparameter '%s', and no option of train, bench or check is called "
           "so%s%s%s",
           r->names.at[0], name, near ? "; did you mean '" : "", near ? near : "",
           near ? "'?" : "; vertebra models NAME shows what there is");
  vtb_vec_free(&names);
  return VTB_E_USAGE;
}

/* A hyperparameter's own name counts before an option's, that before an alias. The image's size is
 * the option, which also stretches tables of positions. */
static vtb_status resolve_name(resolver *r, study_part *p) {
  const study_option *o = study_option_find(p->name);
  const char *other = NULL;
  bool own = false, alias = false;
  if (strcmp(p->name, "seed") == 0 || strcmp(p->name, "seeds") == 0)
    return refuse_setting(r, p->name, "--seeds N trains each cell by the seeds 0 to N - 1");
  p->kind = STUDY_MODEL;
  if (strcmp(p->name, "model") == 0) return VTB_OK;
  for (size_t m = 0; m < r->names.n; m++) {
    size_t n;
    bool is_own = false;
    vtb_error *err = r->names.n > 1 ? &(vtb_error){0} : r->err;
    const vtb_hyperparameter *list = settings_of(r, r->names.at[m], NULL, 0, "", &n, err);
    if (!list || err->text[0]) continue;
    const vtb_hyperparameter *h = find_parameter(list, n, p->name, &is_own);
    own |= h && is_own;
    alias |= h && !is_own;
    if (h && !is_own) other = h->name;
  }
  if (r->err->text[0]) return VTB_E_USAGE;
  bool image = o && strcmp(o->word, "--image") == 0;
  p->kind = (own && !image) || (alias && !o) ? STUDY_HYPERPARAMETER : STUDY_OPTION;
  if (p->kind == STUDY_OPTION && !o) return unknown(r, p->name);
  if (own && o && !image)
    note(r, vtb_need(vtb_strprintf("%s is varied as the model's hyperparameter, not as the option "
                                   "%s",
                                   p->name, o->word)));
  if (alias && !own && o)
    note(r, vtb_need(vtb_strprintf("%s is varied as the option %s; the model's hyperparameter of "
                                   "that alias is %s",
                                   p->name, o->word, other)));
  return VTB_OK;
}

/* A step that is measured takes the option. */
static vtb_status check_use(resolver *r, const study_part *p) {
  const study *s = r->s;
  const study_option *o = p->kind == STUDY_OPTION ? study_option_find(p->name) : NULL;
  int steps = (s->bench ? STUDY_IN_BENCH : 0) | (s->seeds ? STUDY_IN_TRAIN | STUDY_IN_EVAL : 0);
  if (!o || (o->steps & steps) || !steps) return VTB_OK;
  return vtb_fail(r->err, VTB_E_USAGE, "%s is an option of train: give --train RECIPE too",
                  p->name);
}

static vtb_status check_repeated(resolver *r, size_t axis, size_t part) {
  const study *s = r->s;
  const char *name = s->axes.at[axis].parts.at[part].name;
  for (size_t i = 0; i <= axis; i++)
    for (size_t k = 0; k < s->axes.at[i].parts.n && (i < axis || k < part); k++)
      if (strcmp(s->axes.at[i].parts.at[k].name, name) == 0)
        return vtb_fail(r->err, VTB_E_USAGE, "'%s' is varied twice: give its values at one place",
                        name);
  return VTB_OK;
}

/* Nothing is varied and fixed at once. */
static vtb_status check_fixed(resolver *r, const study_part *p) {
  const study *s = r->s;
  size_t n = strlen(p->name);
  for (size_t i = 0; i + 1 < s->options.n; i++)
    if (p->kind == STUDY_HYPERPARAMETER && strcmp(s->options.at[i], "-D") == 0 &&
        strncmp(s->options.at[i + 1], p->name, n) == 0 && s->options.at[i + 1][n] == '=')
      return vtb_fail(r->err, VTB_E_USAGE,
                      "'%s' is varied, and set by -D %s: leave one of them out", p->name,
                      s->options.at[i + 1]);
  if (p->kind == STUDY_OPTION && study_option_value(s, p->name))
    return vtb_fail(r->err, VTB_E_USAGE, "'%s' is varied, and set by --%s: leave one of them out",
                    p->name, p->name);
  return VTB_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

static vtb_status wrong(resolver *r, const char *name, const char *value, const char *want) {
  return vtb_fail(r->err, VTB_E_USAGE, "%s takes %s, not '%s'", name, want, value);
}

static vtb_status check_mode(resolver *r, const char *value) {
  const char *const *modes = vtb_mode_names;
  size_t n = strcspn(value, "("), length = strlen(value);
  for (size_t i = 0; i < VTB_N_MODES; i++) {
    if (strlen(modes[i]) != n || strncmp(modes[i], value, n) != 0) continue;
    if (!value[n]) return VTB_OK;
    size_t digits = strspn(value + n + 1, "0123456789");
    if (strcmp(modes[i], "chunkwise") == 0 && digits && n + digits + 2 == length &&
        value[length - 1] == ')' && strtoll(value + n + 1, NULL, 10) > 0)
      return VTB_OK;
    return wrong(r, "mode", value, "chunkwise(N) with a number of tokens from 1 on");
  }
  char *word = study_trimmed(value, n);
  const char *near = vtb_suggest(word, modes, VTB_N_MODES);
  vtb_strbuf all = {0};
  vtb_strbuf_names(&all, modes, VTB_N_MODES, ", ", ", ");
  vtb_fail(r->err, VTB_E_USAGE, "mode takes %s or chunkwise(16), not '%s'%s%s%s", all.at, value,
           near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  vtb_strbuf_free(&all);
  vtb_free(word);
  return VTB_E_USAGE;
}

static bool is_size(const char *value) {
  size_t n = strspn(value, "0123456789");
  if (!n || n > 6 || strspn(value, "0") == n) return false;
  if (!value[n]) return true;
  size_t m = strspn(value + n + 1, "0123456789");
  return value[n] == 'x' && m && m <= 6 && !value[n + 1 + m] && strspn(value + n + 1, "0") < m;
}

static vtb_status check_option(resolver *r, const study_option *o, const char *value) {
  const char *name = o->word + 2;
  char *end;
  if (!*value) return wrong(r, name, value, "a value");
  if (strcmp(name, "mode") == 0) return check_mode(r, value);
  if (strcmp(name, "image") == 0 && !is_size(value))
    return wrong(r, name, value, "a size such as 512 or 224x384");
  if (o->kind == STUDY_VALUE_FLAG && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
    return wrong(r, name, value, "true or false");
  if (o->kind == STUDY_VALUE_COUNT && (value[strspn(value, "0123456789")] || strlen(value) > 7 ||
                                       atoll(value) < 1 || atoll(value) > 1 << 20))
    return wrong(r, name, value, "a whole number from 1 to 1048576");
  if (o->kind == STUDY_VALUE_NUMBER) {
    double x = strtod(value, &end);
    if (*end || !isfinite(x) || x < 0 || isspace((unsigned char)value[0]))
      return wrong(r, name, value, "a finite number of at least 0");
  }
  return VTB_OK;
}

/* Hyperparameters of a value, together; some model has to take them. */
static vtb_status check_defines(resolver *r, const study_axis *a, const char *value,
                                const study_settings *settings) {
  VTB_VEC(const char *) defines = {0};
  vtb_error first = {0};
  bool usable = false;
  const char *what = vtb_arena_printf(&r->arena, "--vary %s=%s", a->name, value);
  for (size_t i = 0; i < settings->n; i++)
    if (settings->at[i].kind == STUDY_HYPERPARAMETER)
      vtb_vec_push(&defines, vtb_arena_printf(&r->arena, "%s=%s", settings->at[i].name,
                                              settings->at[i].value));
  for (size_t m = 0; m < r->names.n && defines.n && !usable; m++) {
    size_t n;
    vtb_error err = {0};
    settings_of(r, r->names.at[m], defines.at, defines.n, what, &n, &err);
    usable = !err.text[0];
    if (!usable && !first.text[0]) first = err;
  }
  usable |= !defines.n;
  vtb_vec_free(&defines);
  return usable ? VTB_OK : vtb_fail(r->err, VTB_E_USAGE, "%s", first.text);
}

static vtb_status check_value(resolver *r, size_t axis, size_t value) {
  const study_axis *a = &r->s->axes.at[axis];
  const char *text = a->values.at[value];
  study_texts values = {0};
  study_settings settings = {0};
  for (size_t i = 0; i < value; i++)
    if (strcmp(a->values.at[i], text) == 0)
      return vtb_fail(r->err, VTB_E_USAGE, "%s has the value '%s' twice", a->name, text);
    else if (strcmp(a->labels.at[i], a->labels.at[value]) == 0)
      return vtb_fail(r->err, VTB_E_USAGE, "two values of %s have the label '%s'", a->name,
                      a->labels.at[i]);
  study_axis_value(a, text, &values);
  vtb_status status = VTB_OK;
  if (values.n != a->parts.n)
    status =
        vtb_fail(r->err, VTB_E_USAGE, "%s varies %zu together: '%s' has %zu values; write A:B, ...",
                 a->name, a->parts.n, text, values.n);
  for (size_t i = 0; i < a->parts.n && status == VTB_OK; i++) {
    study_setting one = {a->parts.at[i].name, a->parts.at[i].kind, values.at[i]};
    vtb_vec_push(&settings, one);
    if (one.kind == STUDY_OPTION) status = check_option(r, study_option_find(one.name), one.value);
    if (status == VTB_OK && !*one.value) status = wrong(r, one.name, "", "a value");
  }
  if (status == VTB_OK) status = check_defines(r, a, text, &settings);
  vtb_vec_free(&settings);
  study_texts_free(&values);
  return status;
}

/* ---- the baseline ---------------------------------------------------------------------------- */

/* The value that the model has by itself, as text that is equal for equal values; NULL: none. */
static const char *value_with(resolver *r, const char *name, const char *define) {
  size_t n;
  bool own;
  vtb_error quiet = {0};
  const vtb_hyperparameter *list =
      settings_of(r, r->names.at[0], &define, define ? 1 : 0, "", &n, &quiet);
  const vtb_hyperparameter *h = quiet.text[0] ? NULL : find_parameter(list, n, name, &own);
  return h ? h->value : NULL;
}

static void find_base(resolver *r, study_axis *a) {
  const char *name = a->parts.at[0].name;
  a->base = 0;
  if (a->parts.n > 1 || a->kind == STUDY_MODEL) return;
  const char *by_itself = a->kind == STUDY_HYPERPARAMETER ? value_with(r, name, NULL)
                          : strcmp(name, "mode") == 0     ? "auto"
                                                          : NULL;
  for (size_t i = 0; i < a->values.n && by_itself; i++) {
    const char *value = a->values.at[i];
    if (a->kind == STUDY_HYPERPARAMETER)
      value = value_with(r, name, vtb_arena_printf(&r->arena, "%s=%s", name, value));
    if (!value || strcmp(value, by_itself) != 0) continue;
    a->base = i;
    return;
  }
}

/* ---- all together ---------------------------------------------------------------------------- */

static vtb_status resolve_axis(resolver *r, size_t i) {
  study_axis *a = &r->s->axes.at[i];
  vtb_status status = VTB_OK;
  for (size_t k = 0; k < a->parts.n && status == VTB_OK; k++) {
    status = resolve_name(r, &a->parts.at[k]);
    if (status == VTB_OK) status = check_use(r, &a->parts.at[k]);
    if (status == VTB_OK) status = check_repeated(r, i, k);
    if (status == VTB_OK) status = check_fixed(r, &a->parts.at[k]);
  }
  a->kind = a->parts.at[0].kind;
  if (status == VTB_OK && !a->values.n)
    status = vtb_fail(r->err, VTB_E_USAGE, "%s has no values", a->name);
  for (size_t k = 0; k < a->values.n && status == VTB_OK; k++) status = check_value(r, i, k);
  if (status == VTB_OK) find_base(r, a);
  return status;
}

static vtb_status check_amounts(resolver *r) {
  size_t values = 0;
  for (size_t i = 0; i < r->s->axes.n; i++) values += r->s->axes.at[i].values.n;
  if (values <= MOST_VALUES && r->s->axes.n <= MOST_AXES) return VTB_OK;
  return vtb_fail(r->err, VTB_E_USAGE, "a study varies at most %d names and %d values", MOST_AXES,
                  MOST_VALUES);
}

vtb_status study_resolve(study *s, study_texts *notes, vtb_error *err) {
  resolver r = {.s = s, .models = {.study = s}, .notes = notes, .err = err};
  vtb_arena_init(&r.arena);
  vtb_status status = check_amounts(&r);
  if (status == VTB_OK) status = find_models(&r);
  for (size_t i = 0; i < s->axes.n && status == VTB_OK; i++) status = resolve_axis(&r, i);
  study_models_free(&r.models);
  study_texts_free(&r.names);
  vtb_arena_free(&r.arena);
  return status;
}

/* A study: its model, its axes, its cells. */
#include "frontend/study/study.h"

#include <string.h>

study study_defaults(void) { return (study){.rounds = 3, .seconds = 1, .jobs = 0}; }

void study_texts_add(study_texts *t, const char *text) { vtb_vec_push(t, vtb_xstrdup(text)); }

void study_texts_free(study_texts *t) {
  for (size_t i = 0; i < t->n; i++) vtb_free(t->at[i]);
  vtb_vec_free(t);
}

void study_axis_free(study_axis *a) {
  for (size_t i = 0; i < a->parts.n; i++) vtb_free(a->parts.at[i].name);
  vtb_vec_free(&a->parts);
  study_texts_free(&a->values);
  study_texts_free(&a->labels);
  vtb_free(a->name);
}

void study_axes_free(study *s) {
  for (size_t i = 0; i < s->axes.n; i++) study_axis_free(&s->axes.at[i]);
  vtb_vec_free(&s->axes);
}

void study_free(study *s) {
  study_axes_free(s);
  vtb_free(s->title);
  vtb_free(s->model);
  study_texts_free(&s->where);
  study_texts_free(&s->options);
  vtb_free(s->recipe);
  vtb_free(s->recipe_file);
  vtb_free(s->data);
  study_texts_free(&s->train);
  vtb_free(s->text);
  *s = (study){0};
}

void study_cell_free(study_cell *c) {
  vtb_free(c->id);
  vtb_free(c->label);
  study_texts_free(&c->value);
  vtb_free(c->excluded);
}

void study_cells_free(study_cells *cells) {
  for (size_t i = 0; i < cells->n; i++) study_cell_free(&cells->at[i]);
  vtb_vec_free(cells);
}

void study_settings_free(study_settings *settings) {
  for (size_t i = 0; i < settings->n; i++) vtb_free(settings->at[i].value);
  vtb_vec_free(settings);
}

/* True if the words at i set what option and name say. */
static bool sets(const study_texts *words, size_t i, const char *option, const char *name) {
  if (strcmp(words->at[i], option) != 0) return false;
  size_t n = name ? strlen(name) : 0;
  return !name || (i + 1 < words->n && strncmp(words->at[i + 1], name, n) == 0 &&
                   words->at[i + 1][n] == '=');
}

void study_set(study_texts *words, const char *option, const char *name, const char *value) {
  size_t kept = 0;
  for (size_t i = 0; i < words->n; i++) {
    bool pair = strcmp(words->at[i], "-D") == 0 || (value && strcmp(words->at[i], option) == 0);
    bool drop = sets(words, i, option, name);
    for (int k = 0; k < 1 + (pair && i + 1 < words->n); k++) {
      if (drop)
        vtb_free(words->at[i + (size_t)k]);
      else
        words->at[kept++] = words->at[i + (size_t)k];
    }
    i += pair && i + 1 < words->n;
  }
  words->n = kept;
  study_texts_add(words, option);
  if (name)
    vtb_vec_push(words, vtb_need(vtb_strprintf("%s=%s", name, value)));
  else if (value)
    study_texts_add(words, value);
}

/* The first that cells have; NULL: none. */
static char *first_model(const study *s) {
  for (size_t i = 0; i < s->axes.n; i++)
    for (size_t k = 0; k < s->axes.at[i].parts.n; k++) {
      const study_axis *a = &s->axes.at[i];
      study_texts parts = {0};
      if (strcmp(a->parts.at[k].name, "model") != 0 || !a->values.n) continue;
      study_axis_value(a, a->values.at[0], &parts);
      char *found = k < parts.n ? vtb_xstrdup(parts.at[k]) : NULL;
      study_texts_free(&parts);
      return found;
    }
  return NULL;
}

void study_complete(study *s) {
  bool trains = s->recipe || s->train.n;
  if (trains && !s->seeds) s->seeds = 1;
  if (!trains) s->seeds = 0;
  if (s->bench_train || !trains) s->bench = true;
  if (!s->model) s->model = first_model(s);
}

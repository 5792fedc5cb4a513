#include "frontend/study/study.h"

study study_defaults(void) { return (study){.rounds = 3, .seconds = 1, .jobs = 0}; }

void study_texts_free(study_texts *t) {
  for (size_t i = 0; i < t->n; i++) vtb_free(t->at[i]);
  vtb_vec_free(t);
}

static void free_axis(study_axis *a) {
  for (size_t i = 0; i < a->parts.n; i++) vtb_free(a->parts.at[i].name);
  vtb_vec_free(&a->parts);
  study_texts_free(&a->values);
  study_texts_free(&a->labels);
  vtb_free(a->name);
}

void study_free(study *s) {
  for (size_t i = 0; i < s->axes.n; i++) free_axis(&s->axes.at[i]);
  vtb_vec_free(&s->axes);
  vtb_free(s->title);
  vtb_free(s->model);
  study_texts_free(&s->where);
  study_texts_free(&s->options);
  vtb_free(s->recipe);
  vtb_free(s->data);
  study_texts_free(&s->train);
  vtb_free(s->text);
  *s = (study){0};
}

void study_cells_free(study_cells *cells) {
  for (size_t i = 0; i < cells->n; i++) {
    study_cell *c = &cells->at[i];
    vtb_free(c->id);
    vtb_free(c->label);
    study_texts_free(&c->value);
    vtb_free(c->excluded);
  }
  vtb_vec_free(cells);
}

void study_settings_free(study_settings *settings) {
  for (size_t i = 0; i < settings->n; i++) vtb_free(settings->at[i].value);
  vtb_vec_free(settings);
}

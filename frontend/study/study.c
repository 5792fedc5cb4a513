#include "frontend/study/study.h"

static void free_texts(study_texts *t) {
  for (size_t i = 0; i < t->n; i++) vtb_free(t->at[i]);
  vtb_vec_free(t);
}

void study_free(study *s) {
  for (size_t i = 0; i < s->axes.n; i++) {
    vtb_free(s->axes.at[i].name);
    free_texts(&s->axes.at[i].values);
  }
  vtb_vec_free(&s->axes);
  vtb_free(s->title);
  vtb_free(s->model);
  free_texts(&s->where);
  free_texts(&s->options);
  vtb_free(s->recipe);
  vtb_free(s->data);
  free_texts(&s->train);
  *s = (study){0};
}

void study_cells_free(study_cells *cells) {
  for (size_t i = 0; i < cells->n; i++) {
    study_cell *c = &cells->at[i];
    vtb_free(c->id);
    vtb_free(c->label);
    free_texts(&c->value);
    vtb_free(c->excluded);
  }
  vtb_vec_free(cells);
}

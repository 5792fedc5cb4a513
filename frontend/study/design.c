/* Axes as they are typed, and the cells of a study. */
#include "frontend/study/label.h"
#include "frontend/study/options.h"
#include "frontend/study/split.h"

#include <string.h>

enum { MOST_CELLS = 100000 };

/* ---- axes ------------------------------------------------------------------------------------ */

/* As far as it can be told without the model. */
static study_axis_kind kind_of(const char *name) {
  if (strcmp(name, "model") == 0) return STUDY_MODEL;
  return study_option_find(name) ? STUDY_OPTION : STUDY_HYPERPARAMETER;
}

static void add_parts(study_axis *a, const study_texts *names) {
  for (size_t i = 0; i < names->n; i++) {
    study_part p = {.name = vtb_xstrdup(names->at[i]), .kind = kind_of(names->at[i])};
    vtb_vec_push(&a->parts, p);
  }
  a->kind = a->parts.at[0].kind;
}

vtb_status study_vary(study *s, const char *text, vtb_error *err) {
  const char *eq = strchr(text, '=');
  study_axis a = {.name = NULL};
  study_texts names = {0};
  if (!eq || eq == text)
    return vtb_fail(err, VTB_E_USAGE, "--vary takes NAME=A,B,..., not '%s'", text);
  study_split(text, (size_t)(eq - text), ',', &names);
  bool closed = study_split(eq + 1, strlen(eq + 1), ',', &a.values);
  a.name = study_trimmed(text, (size_t)(eq - text));
  add_parts(&a, &names);
  for (size_t i = 0; i < a.values.n; i++) vtb_vec_push(&a.labels, vtb_xstrdup(a.values.at[i]));
  study_texts_free(&names);
  vtb_vec_push(&s->axes, a);
  if (closed) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE, "--vary %s: a bracket or quote is not closed", text);
}

/* ---- settings of a cell ---------------------------------------------------------------------- */

void study_cell_settings(const study *s, const study_cell *c, study_settings *out) {
  for (size_t i = 0; i < s->axes.n; i++) {
    const study_axis *a = &s->axes.at[i];
    study_texts values = {0};
    if (a->parts.n > 1)
      study_split(c->value.at[i], strlen(c->value.at[i]), ':', &values);
    else
      vtb_vec_push(&values, vtb_xstrdup(c->value.at[i]));
    for (size_t k = 0; k < a->parts.n; k++) {
      study_setting one = {.name = a->parts.at[k].name,
                           .kind = a->parts.at[k].kind,
                           .value = vtb_xstrdup(k < values.n ? values.at[k] : "")};
      vtb_vec_push(out, one);
    }
    study_texts_free(&values);
  }
}

/* ---- the order of cells ---------------------------------------------------------------------- */

typedef VTB_VEC(size_t) rows; /* a value's number an axis, one cell after the other */

static size_t count(const study *s) {
  size_t n = 1;
  for (size_t i = 0; i < s->axes.n && n <= MOST_CELLS; i++) n *= s->axes.at[i].values.n;
  return n;
}

/* The last axis varies fastest. */
static void grid(const study *s, rows *out) {
  for (size_t k = 0, n = count(s); k < n; k++) {
    size_t rest = k, first = out->n;
    for (size_t i = 0; i < s->axes.n; i++) vtb_vec_push(out, 0);
    for (size_t i = s->axes.n; i-- > 0;) {
      out->at[first + i] = rest % s->axes.at[i].values.n;
      rest /= s->axes.at[i].values.n;
    }
  }
}

vtb_status study_design(const study *s, study_cells *out, vtb_error *err) {
  rows all = {0};
  size_t n = s->axes.n;
  if (count(s) > MOST_CELLS)
    return vtb_fail(err, VTB_E_USAGE, "the grid has more than %d cells", MOST_CELLS);
  grid(s, &all);
  for (size_t k = 0; k * n < all.n; k++) {
    study_cell c = {.number = (int)k};
    for (size_t i = 0; i < n; i++)
      vtb_vec_push(&c.value, vtb_xstrdup(s->axes.at[i].values.at[all.at[k * n + i]]));
    study_name_cell(s, &c);
    vtb_vec_push(out, c);
  }
  vtb_vec_free(&all);
  return VTB_OK;
}

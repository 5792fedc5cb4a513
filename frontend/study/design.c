/* Axes as they are typed, and the cells of a study. */
#include "frontend/study/label.h"
#include "frontend/study/model.h"
#include "frontend/study/options.h"
#include "frontend/study/pairs.h"
#include "frontend/study/split.h"

#include <string.h>

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
  for (size_t i = 0; i < a.values.n; i++) study_texts_add(&a.labels, a.values.at[i]);
  study_texts_free(&names);
  vtb_vec_push(&s->axes, a);
  if (closed) return VTB_OK;
  return vtb_fail(err, VTB_E_USAGE, "--vary %s: a bracket or quote is not closed", text);
}

/* ---- settings of a cell ---------------------------------------------------------------------- */

void study_axis_value(const study_axis *a, const char *value, study_texts *out) {
  if (a->parts.n > 1)
    study_split(value, strlen(value), ':', out);
  else
    study_texts_add(out, value);
}

void study_cell_settings(const study *s, const study_cell *c, study_settings *out) {
  for (size_t i = 0; i < s->axes.n; i++) {
    const study_axis *a = &s->axes.at[i];
    study_texts values = {0};
    study_axis_value(a, c->value.at[i], &values);
    for (size_t k = 0; k < a->parts.n; k++) {
      study_setting one = {.name = a->parts.at[k].name,
                           .kind = a->parts.at[k].kind,
                           .value = vtb_xstrdup(k < values.n ? values.at[k] : "")};
      vtb_vec_push(out, one);
    }
    study_texts_free(&values);
  }
}

/* ---- rows: a value's number an axis ---------------------------------------------------------- */

static void grid(const study *s, study_rows *out) {
  for (size_t k = 0, n = study_grid_count(s); k < n; k++) study_grid_row(s, k, out);
}

/* The baseline, then each axis's other values. */
static void one_at_a_time(const study *s, study_rows *out) {
  size_t n = s->axes.n;
  for (size_t i = 0; i < n; i++) vtb_vec_push(out, s->axes.at[i].base);
  for (size_t i = 0; i < n; i++)
    for (size_t v = 0; v < s->axes.at[i].values.n; v++)
      for (size_t k = 0; k < n && v != s->axes.at[i].base; k++)
        vtb_vec_push(out, k == i ? v : s->axes.at[k].base);
}

/* ---- cells ----------------------------------------------------------------------------------- */

typedef struct designer {
  study_models models;
  const study *study;
  bool *told; /* of each condition: some cell could be asked */
  vtb_error *errors;
} designer;

static study_cell make_cell(const study *s, const size_t *row) {
  study_cell c = {.number = 0};
  for (size_t i = 0; i < s->axes.n; i++) study_texts_add(&c.value, s->axes.at[i].values.at[row[i]]);
  return c;
}

/* The first condition that the cell does not meet; NULL: it meets all. A condition that cannot be
 * asked of this cell, since its model has no such name, is met. */
static const char *unmet(designer *d, const study_cell *c) {
  for (size_t i = 0; i < d->study->where.n; i++) {
    bool holds = true;
    vtb_status status =
        study_condition(&d->models, c, d->study->where.at[i], &holds, &d->errors[i]);
    if (status == VTB_OK) d->told[i] = true;
    if (status == VTB_OK && !holds) return d->study->where.at[i];
  }
  return NULL;
}

/* For designs that choose their rows. */
static bool is_allowed(void *user, const size_t *row) {
  designer *d = user;
  study_cell c = make_cell(d->study, row);
  bool allowed = !d->study->where.n || !unmet(d, &c);
  study_cell_free(&c);
  return allowed;
}

static void take_rows(designer *d, const study_rows *rows, study_cells *out) {
  size_t n = d->study->axes.n;
  for (size_t k = 0; k * n < rows->n; k++) {
    study_cell c = make_cell(d->study, rows->at + k * n);
    const char *condition = unmet(d, &c);
    c.number = (int)k;
    c.excluded = condition ? vtb_xstrdup(condition) : NULL;
    study_name_cell(d->study, &c);
    vtb_vec_push(out, c);
  }
}

static vtb_status arrange(designer *d, study_rows *rows, vtb_error *err) {
  const study *s = d->study;
  if (s->arrangement == STUDY_PAIRWISE) {
    study_pairs(s, is_allowed, d, rows);
  } else if (s->arrangement == STUDY_SAMPLE) {
    study_draw(s, is_allowed, d, rows);
  } else if (s->arrangement == STUDY_ONE_AT_A_TIME) {
    one_at_a_time(s, rows);
  } else if (study_grid_count(s) > STUDY_MOST_CELLS) {
    return vtb_fail(err, VTB_E_USAGE,
                    "the grid has more than %d cells: --pairwise, --one-at-a-time and --sample N "
                    "make fewer",
                    STUDY_MOST_CELLS);
  } else {
    grid(s, rows);
  }
  return VTB_OK;
}

vtb_status study_design(const study *s, study_cells *out, vtb_error *err) {
  study_rows rows = {0};
  size_t n = s->where.n;
  designer d = {.models = {.study = s},
                .study = s,
                .told = vtb_xcalloc(n + 1, sizeof(bool)),
                .errors = vtb_xcalloc(n + 1, sizeof(vtb_error))};
  vtb_status status =
      s->axes.n ? arrange(&d, &rows, err) : vtb_fail(err, VTB_E_USAGE, "nothing is varied");
  if (status == VTB_OK) take_rows(&d, &rows, out);
  for (size_t i = 0; i < n && status == VTB_OK; i++)
    if (!d.told[i]) status = vtb_fail(err, VTB_E_USAGE, "%s", d.errors[i].text);
  study_models_free(&d.models);
  vtb_free(d.told);
  vtb_free(d.errors);
  vtb_vec_free(&rows);
  return status;
}

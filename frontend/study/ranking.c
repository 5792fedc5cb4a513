/* The fastest cells, and where they take turns. */
#include "frontend/study/ranking.h"
#include "frontend/study/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- axes ------------------------------------------------------------------------------------ */

static int axis_named(const study *s, const char *name) {
  for (size_t i = 0; i < s->axes.n; i++)
    if (strcmp(s->axes.at[i].name, name) == 0 && s->axes.at[i].values.n > 1) return (int)i;
  return -1;
}

/* An axis of the model itself with several values: of numbers, or of other things. */
static int model_axis(const study *s, bool of_numbers) {
  for (size_t i = 0; i < s->axes.n; i++) {
    const study_axis *a = &s->axes.at[i];
    if (a->kind == STUDY_OPTION || a->values.n < 2) continue;
    char *end;
    strtod(a->values.at[0], &end);
    bool is_number = end != a->values.at[0] && !*end;
    if (is_number == of_numbers) return (int)i;
  }
  return -1;
}

/* Ways to do one thing: forms of a computation, then models, then machines. That a smaller image or
 * model is faster needs no telling. */
static int compared_axis(const study *s) {
  static const char *const options[] = {"precision", "target", "threads", "batch"};
  int axis = axis_named(s, "mode");
  if (axis < 0) axis = model_axis(s, false);
  for (size_t i = 0; i < sizeof options / sizeof *options && axis < 0; i++)
    axis = axis_named(s, options[i]);
  return axis;
}

static int along_axis(const study *s, int compared) {
  int order[] = {axis_named(s, "image"), axis_named(s, "batch"), model_axis(s, true)};
  for (int i = 0; i < 3; i++)
    if (order[i] >= 0 && order[i] != compared) return order[i];
  return -1;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static const char *value_of(const study_ranking *r, size_t cell, int axis) {
  return r->cells->at[cell].value.at[axis];
}

/* True if two cells have the same settings but for two axes (-1: none). */
static bool same_but(const study_ranking *r, size_t a, size_t b, int one, int other) {
  for (int i = 0; i < (int)r->study->axes.n; i++)
    if (i != one && i != other && strcmp(value_of(r, a, i), value_of(r, b, i)) != 0) return false;
  return true;
}

static bool is_measured(const study_ranking *r, size_t cell) { return r->ms[cell] > 0; }

void study_rank(const study *s, const study_cells *cells, const double *ms, double margin,
                study_ranking *out) {
  *out = (study_ranking){s, cells, ms, margin, compared_axis(s), -1, NULL};
  out->along = along_axis(s, out->compared);
  out->best = vtb_xcalloc(cells->n + 1, sizeof *out->best);
  for (size_t i = 0; i < cells->n; i++) {
    size_t best = i;
    for (size_t k = 0; k < cells->n && out->compared >= 0; k++)
      if (is_measured(out, k) && same_but(out, k, i, out->compared, -1) && !(ms[k] >= ms[best]))
        best = k;
    out->best[i] = best;
  }
}

void study_ranking_free(study_ranking *r) {
  vtb_free(r->best);
  *r = (study_ranking){.compared = -1, .along = -1};
}

bool study_is_best(const study_ranking *r, size_t cell) {
  return r->compared >= 0 && is_measured(r, cell) && r->best[cell] == cell;
}

/* True for measured cells: by more than the margin. */
static bool is_faster(const study_ranking *r, size_t a, size_t b) {
  return r->ms[a] < r->ms[b] && study_times_differ(r->ms[a], r->ms[b], r->margin);
}

bool study_is_close(const study_ranking *r, size_t cell) {
  return r->compared >= 0 && is_measured(r, cell) && r->best[cell] != cell &&
         !is_faster(r, r->best[cell], cell);
}

/* ---- crossovers ------------------------------------------------------------------------------ */

/* "224", and "224x384" by its area. */
static double number_of(const study_ranking *r, size_t cell) {
  char *end;
  double a = strtod(value_of(r, cell, r->along), &end);
  return *end == 'x' ? sqrt(a * strtod(end + 1, NULL)) : a;
}

/* The cell that is compared in `one`, at the number of `place`; both are alike otherwise. n of
 * cells if that was not measured. */
static size_t moved(const study_ranking *r, size_t one, size_t place) {
  for (size_t i = 0; i < r->cells->n; i++)
    if (is_measured(r, i) && same_but(r, i, one, r->along, -1) &&
        strcmp(value_of(r, i, r->along), value_of(r, place, r->along)) == 0)
      return i;
  return r->cells->n;
}

/* True if `cell` is clearly faster than what is compared in `other` is at the same number. */
static bool wins(const study_ranking *r, size_t cell, size_t other) {
  size_t rival = moved(r, other, cell);
  return rival == r->cells->n || is_faster(r, cell, rival);
}

/* The best of the next greater number behind that of `cell`; n of cells if there is none. */
static size_t next_best(const study_ranking *r, size_t cell) {
  size_t next = r->cells->n;
  for (size_t i = 0; i < r->cells->n; i++)
    if (study_is_best(r, i) && same_but(r, i, cell, r->compared, r->along) &&
        number_of(r, i) > number_of(r, cell) &&
        (next == r->cells->n || number_of(r, i) < number_of(r, next)))
      next = i;
  return next;
}

static double crossing(const study_ranking *r, size_t before, size_t after) {
  double x0 = number_of(r, before), x1 = number_of(r, after);
  size_t n = r->cells->n, early = moved(r, after, before), late = moved(r, before, after);
  if (early == n || late == n || !(x0 > 0)) return (double)NAN;
  double a = log(r->ms[early] / r->ms[before]); /* both above 0 */
  double b = log(r->ms[late] / r->ms[after]);
  return exp(log(x0) + (log(x1) - log(x0)) * a / (a + b));
}

/* The first behind `first` that is another one and clearly faster; n of cells if there is none, or
 * if `first` is clearly faster than it further on. */
static size_t overtaken_by(const study_ranking *r, size_t first) {
  size_t n = r->cells->n, after = next_best(r, first);
  while (after < n && (same_but(r, first, after, r->along, -1) || !wins(r, after, first)))
    after = next_best(r, after);
  if (after == n || !wins(r, first, after)) return n;
  for (size_t k = next_best(r, first); k != after; k = next_best(r, k)) {
    size_t own = moved(r, first, k), its = moved(r, after, k);
    if (own < n && its < n && is_faster(r, own, its)) return n;
  }
  return after;
}

void study_find_crossovers(const study_ranking *r, study_crossovers *out) {
  for (size_t i = 0; i < r->cells->n && r->compared >= 0 && r->along >= 0; i++) {
    size_t after = study_is_best(r, i) ? overtaken_by(r, i) : r->cells->n;
    if (after == r->cells->n) continue;
    study_crossover c = {i, after, crossing(r, i, after)};
    vtb_vec_push(out, c);
  }
}

void study_put_crossover(const study_ranking *r, const study_crossover *c, vtb_strbuf *out) {
  const study *s = r->study;
  size_t start = out->n;
  for (int i = 0; i < (int)s->axes.n; i++) {
    const study_axis *a = &s->axes.at[i];
    if (i == r->compared || i == r->along || a->values.n < 2) continue;
    vtb_strbuf_printf(out, "%s%s %s", out->n > start ? ", " : "", a->name,
                      value_of(r, c->before, i));
  }
  vtb_strbuf_printf(out, "%s%s %s overtakes %s between %s %s and %s", out->n > start ? ": " : "",
                    s->axes.at[r->compared].name, value_of(r, c->after, r->compared),
                    value_of(r, c->before, r->compared), s->axes.at[r->along].name,
                    value_of(r, c->before, r->along), value_of(r, c->after, r->along));
  if (!isnan(c->at)) vtb_strbuf_printf(out, ", at about %.0f", c->at);
}

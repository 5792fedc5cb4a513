/* What a sweep found: the best of each group, crossovers, a table. */
#include "frontend/cli/bench_sweep.h"
#include "frontend/cli/progress.h"
#include "frontend/study/record.h"
#include "frontend/study/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- groups ---------------------------------------------------------------------------------- */

static int axis_named(const bench_sweep *s, const char *name) {
  for (size_t i = 0; i < s->study.axes.n; i++)
    if (strcmp(s->study.axes.at[i].name, name) == 0 && s->study.axes.at[i].values.n > 1)
      return (int)i;
  return -1;
}

/* An axis of the model itself with several values: of numbers, or of other things. */
static int model_axis(const bench_sweep *s, bool of_numbers) {
  for (size_t i = 0; i < s->study.axes.n; i++) {
    const study_axis *a = &s->study.axes.at[i];
    char *end;
    strtod(a->values.at[0], &end);
    bool is_number = end != a->values.at[0] && !*end;
    if (a->kind != STUDY_OPTION && a->values.n > 1 && is_number == of_numbers) return (int)i;
  }
  return -1;
}

/* Ways to do one thing: forms of a computation, then models, then machines. That a smaller image or
 * model is faster needs no telling. */
static int compared_axis(const bench_sweep *s) {
  static const char *const options[] = {"precision", "target", "threads", "batch"};
  int axis = axis_named(s, "mode");
  if (axis < 0) axis = model_axis(s, false);
  for (size_t i = 0; i < sizeof options / sizeof *options && axis < 0; i++)
    axis = axis_named(s, options[i]);
  return axis;
}

static int along_axis(const bench_sweep *s) {
  int order[] = {axis_named(s, "image"), axis_named(s, "batch"), model_axis(s, true)};
  for (int i = 0; i < 3; i++)
    if (order[i] >= 0 && order[i] != s->compared) return order[i];
  return -1;
}

static const char *value_of(const bench_sweep *s, size_t cell, int axis) {
  return s->cells.at[cell].value.at[axis];
}

/* Whether two cells have the same settings but for two axes (-1: none). */
static bool same_but(const bench_sweep *s, size_t a, size_t b, int one, int other) {
  for (int i = 0; i < (int)s->study.axes.n; i++)
    if (i != one && i != other && strcmp(value_of(s, a, i), value_of(s, b, i)) != 0) return false;
  return true;
}

static bool is_measured(const bench_cell *c) { return c->document && !c->status; }

/* The fastest that is like `cell` but for the compared axis; `cell` is measured. */
static size_t best_like(const bench_sweep *s, size_t cell) {
  size_t best = cell;
  for (size_t i = 0; i < s->cells.n; i++)
    if (is_measured(&s->at[i]) && same_but(s, i, cell, s->compared, -1) &&
        s->at[i].image_ms < s->at[best].image_ms)
      best = i;
  return best;
}

void bench_sweep_judge(bench_sweep *s) {
  s->compared = compared_axis(s);
  s->along = along_axis(s);
  for (size_t i = 0; i < s->cells.n && s->compared >= 0; i++)
    if (is_measured(&s->at[i])) s->at[best_like(s, i)].is_best = true;
}

/* Whether a cell is as fast as the best of its group, as far as the spreads tell. */
static bool is_close(const bench_sweep *s, size_t cell) {
  const bench_cell *c = &s->at[cell], *best = &s->at[best_like(s, cell)];
  return s->compared >= 0 && c != best &&
         !study_times_differ(c->image_ms, c->spread, best->image_ms, best->spread);
}

/* ---- crossovers ------------------------------------------------------------------------------ */

/* "224", and "224x384" by its area. */
static double number_of(const char *value) {
  char *end;
  double a = strtod(value, &end);
  return *end == 'x' ? sqrt(a * strtod(end + 1, NULL)) : a;
}

/* The cell with settings of `cell` but for two axes, measured; n of cells if there is none. */
static size_t find(const bench_sweep *s, size_t cell, const char *compared, const char *along) {
  for (size_t i = 0; i < s->cells.n; i++)
    if (is_measured(&s->at[i]) && same_but(s, i, cell, s->compared, s->along) &&
        strcmp(value_of(s, i, s->compared), compared) == 0 &&
        strcmp(value_of(s, i, s->along), along) == 0)
      return i;
  return s->cells.n;
}

/* Whether of two measured cells the first is faster by more than the spreads. */
static bool is_faster(const bench_sweep *s, size_t a, size_t b) {
  const bench_cell *x = &s->at[a], *y = &s->at[b];
  return x->image_ms < y->image_ms &&
         study_times_differ(x->image_ms, x->spread, y->image_ms, y->spread);
}

typedef struct crossover {
  size_t before, after; /* the best cells on both sides */
  double at;            /* where their times are equal, between the two; NAN: not known */
} crossover;
typedef VTB_VEC(crossover) crossovers;

/* From the best of one number to the best of the next, another one, where each is clearly faster
 * than the other. Times between measured points are taken as powers of the number. */
static bool crosses(const bench_sweep *s, size_t before, size_t after, double *at) {
  double x0 = number_of(value_of(s, before, s->along)),
         x1 = number_of(value_of(s, after, s->along));
  const char *one = value_of(s, before, s->compared), *two = value_of(s, after, s->compared);
  size_t n = s->cells.n, two_before = find(s, before, two, value_of(s, before, s->along)),
         one_after = find(s, after, one, value_of(s, after, s->along));
  *at = (double)NAN;
  if (strcmp(one, two) == 0 || (two_before < n && !is_faster(s, before, two_before)) ||
      (one_after < n && !is_faster(s, after, one_after)))
    return false;
  if (two_before == n || one_after == n || !(x0 > 0) || !(x1 > x0)) return true;
  double a = log(s->at[before].image_ms / s->at[two_before].image_ms); /* below 0 */
  double b = log(s->at[one_after].image_ms / s->at[after].image_ms);   /* above 0 */
  *at = exp(log(x0) + (log(x1) - log(x0)) * -a / (b - a));
  return true;
}

/* The best with the next greater number behind that of `cell`; n of cells if there is none. */
static size_t next_best(const bench_sweep *s, size_t cell) {
  size_t next = s->cells.n;
  double from = number_of(value_of(s, cell, s->along)), least = (double)INFINITY;
  for (size_t i = 0; i < s->cells.n; i++) {
    double at = number_of(value_of(s, i, s->along));
    if (!s->at[i].is_best || !same_but(s, i, cell, s->compared, s->along)) continue;
    if (at > from && at < least) {
      least = at;
      next = i;
    }
  }
  return next;
}

static void find_crossovers(const bench_sweep *s, crossovers *out) {
  for (size_t i = 0; i < s->cells.n && s->compared >= 0 && s->along >= 0; i++) {
    if (!s->at[i].is_best) continue;
    size_t next = next_best(s, i);
    crossover c = {i, next, 0};
    if (next < s->cells.n && crosses(s, i, next, &c.at)) vtb_vec_push(out, c);
  }
}

/* "batch 8: chunkwise(64) overtakes parallel between image 224 and 384, at about 300". */
static void put_crossover(const bench_sweep *s, const crossover *c, vtb_strbuf *out) {
  size_t start = out->n;
  for (int i = 0; i < (int)s->study.axes.n; i++) {
    const study_axis *a = &s->study.axes.at[i];
    if (i == s->compared || i == s->along || a->values.n < 2) continue;
    vtb_strbuf_printf(out, "%s%s %s", out->n > start ? ", " : "", a->name,
                      value_of(s, c->before, i));
  }
  vtb_strbuf_printf(out, "%s%s %s overtakes %s between %s %s and %s", out->n > start ? ": " : "",
                    s->study.axes.at[s->compared].name, value_of(s, c->after, s->compared),
                    value_of(s, c->before, s->compared), s->study.axes.at[s->along].name,
                    value_of(s, c->before, s->along), value_of(s, c->after, s->along));
  if (!isnan(c->at)) vtb_strbuf_printf(out, ", at about %.0f", c->at);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_times(const bench_sweep *s, size_t i, cli_line *l) {
  const bench_cell *c = &s->at[i];
  double per_second = 1e3 / c->image_ms;
  cli_line_add(l, "%8.2f%s", c->best_ms, c->is_best ? " *" : is_close(s, i) ? " ~" : "  ");
  cli_line_add(l, "%8.2f", study_median(c->medians.at, c->medians.n));
  cli_line_add(l, "%5.0f %%", 100 * c->spread);
  cli_line_add(l, per_second < 100 ? "%7.1f" : "%7.0f", per_second);
  cli_line_add(l, "%7.1f", study_number(c->document, "gflop") / c->best_ms * 1e3);
  if (s->options->peak) cli_line_add(l, "%6.0f", c->percent);
  cli_line_add(l, "%6.0f", (double)c->peak_bytes / 1048576);
}

static int width_of(const study_axis *a) {
  size_t wide = strlen(a->name);
  for (size_t i = 0; i < a->values.n; i++)
    if (strlen(a->labels.at[i]) > wide) wide = strlen(a->labels.at[i]);
  return wide < 24 ? (int)wide : 24;
}

static void print_head(const bench_sweep *s) {
  cli_line l = {.cut = true};
  for (size_t k = 0; k < s->study.axes.n; k++)
    cli_line_add(&l, "%-*s", width_of(&s->study.axes.at[k]), s->study.axes.at[k].name);
  cli_line_add(&l, "%8s  ", "best ms");
  cli_line_add(&l, "%8s", "median");
  cli_line_add(&l, "%7s", "spread");
  cli_line_add(&l, "%7s", "img/s");
  cli_line_add(&l, "GFLOP/s");
  if (s->options->peak) cli_line_add(&l, "%% peak");
  cli_line_add(&l, "%6s", "MiB");
  cli_line_print(&l);
}

static void print_cell(const bench_sweep *s, size_t i) {
  const bench_cell *c = &s->at[i];
  cli_line l = {.cut = true};
  for (size_t k = 0; k < s->study.axes.n; k++) {
    const study_axis *a = &s->study.axes.at[k];
    cli_line_add(&l, "%-*.24s", width_of(a), value_of(s, i, (int)k));
  }
  if (is_measured(c))
    put_times(s, i, &l);
  else
    cli_line_add(&l, "  failed: %.80s", c->message ? c->message : "");
  cli_line_print(&l);
}

static void print_notes(const bench_sweep *s) {
  double others = 0;
  size_t failed = 0;
  crossovers list = {0};
  for (size_t i = 0; i < s->cells.n; i++) {
    if (s->at[i].others > others) others = s->at[i].others;
    failed += s->at[i].status != 0;
  }
  if (s->compared >= 0)
    cli_printf(4,
               "* the fastest of those that differ by %s alone; ~ not slower than it by more than "
               "the spreads",
               s->study.axes.at[s->compared].name);
  find_crossovers(s, &list);
  for (size_t i = 0; i < list.n; i++) {
    vtb_strbuf text = {0};
    put_crossover(s, &list.at[i], &text);
    cli_printf(4, "%s", text.at);
    vtb_strbuf_free(&text);
  }
  vtb_vec_free(&list);
  if (s->repeated)
    cli_printf(4, "%zu of %zu cells were measured again: their rounds were more than 5 %% apart",
               s->repeated, s->cells.n);
  if (others > 0.2)
    cli_printf(4, "other programs used up to %.1f cores meanwhile: these times are upper bounds",
               others);
  for (size_t i = 0; i < s->cells.n && failed; i++)
    if (s->at[i].status) cli_say("%s: %s", s->cells.at[i].label, s->at[i].message);
}

void bench_sweep_print(const bench_sweep *s) {
  char each[40];
  if (s->options->runs)
    snprintf(each, sizeof each, "%lld runs", (long long)s->options->runs);
  else
    snprintf(each, sizeof each, "%g s", s->study.seconds);
  cli_printf(4, "%s: %zu cells, %lld rounds of %s each; timed: %s\n", s->study.model, s->cells.n,
             (long long)s->study.rounds, each, bench_what_is_timed(s->options));
  print_head(s);
  for (size_t i = 0; i < s->cells.n; i++) print_cell(s, i);
  printf("\n");
  print_notes(s);
}

/* ---- the document ---------------------------------------------------------------------------- */

static cJSON *rounds_json(const bench_cell *c) {
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < c->bests.n; i++) {
    cJSON *round = cJSON_CreateObject();
    cJSON_AddNumberToObject(round, "best_ms", c->bests.at[i]);
    cJSON_AddNumberToObject(round, "median_ms", c->medians.at[i]);
    cJSON_AddItemToArray(list, round);
  }
  return list;
}

static void set_number(cJSON *out, const char *name, double value) {
  cJSON_DeleteItemFromObject(out, name);
  if (!isnan(value)) cJSON_AddNumberToObject(out, name, value);
}

/* What failed, as the document would say it. */
static cJSON *failed_json(const bench_sweep *s, const bench_cell *c) {
  cJSON *out = cJSON_CreateObject();
  cJSON_AddStringToObject(out, "model", s->study.model);
  for (size_t k = 0; k < c->settings.n; k++) {
    const study_setting *one = &c->settings.at[k];
    char *end;
    double x = strtod(one->value, &end);
    if (one->kind != STUDY_OPTION || cJSON_HasObjectItem(out, one->name)) continue;
    if (strcmp(one->name, "image") == 0)
      cJSON_AddStringToObject(out, "img_size", one->value);
    else if (*end)
      cJSON_AddStringToObject(out, one->name, one->value);
    else
      cJSON_AddNumberToObject(out, one->name, x);
  }
  return out;
}

/* The document of its best round, with what all rounds say. */
static cJSON *cell_json(const bench_sweep *s, size_t i) {
  const bench_cell *c = &s->at[i];
  cJSON *out = is_measured(c) ? cJSON_Duplicate(c->document, true) : failed_json(s, c);
  cJSON *settings = cJSON_CreateObject();
  for (size_t k = 0; k < c->settings.n; k++)
    cJSON_AddStringToObject(settings, c->settings.at[k].name, c->settings.at[k].value);
  cJSON_AddStringToObject(out, "label", s->cells.at[i].label);
  cJSON_AddItemToObject(out, "settings", settings);
  cJSON_AddStringToObject(out, "status", is_measured(c) ? "done" : "failed");
  cJSON_AddStringToObject(out, "message", c->message ? c->message : "");
  cJSON_AddStringToObject(out, "command", c->command);
  if (!is_measured(c)) return out;
  cJSON_DeleteItemFromObject(out, "kernels");
  cJSON_DeleteItemFromObject(out, "rounds");
  cJSON_AddItemToObject(out, "rounds", rounds_json(c));
  set_number(out, "median_ms", study_median(c->medians.at, c->medians.n));
  set_number(out, "spread", c->spread);
  set_number(out, "peak_bytes", (double)c->peak_bytes);
  cJSON_AddBoolToObject(out, "is_best", c->is_best);
  return out;
}

static cJSON *axes_json(const bench_sweep *s) {
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < s->study.axes.n; i++) {
    const study_axis *a = &s->study.axes.at[i];
    cJSON *axis = cJSON_CreateObject(), *values;
    cJSON_AddStringToObject(axis, "name", a->name);
    values = cJSON_AddArrayToObject(axis, "values");
    for (size_t k = 0; k < a->values.n; k++)
      cJSON_AddItemToArray(values, cJSON_CreateString(a->values.at[k]));
    cJSON_AddItemToArray(list, axis);
  }
  return list;
}

static cJSON *crossovers_json(const bench_sweep *s) {
  crossovers list = {0};
  cJSON *out = cJSON_CreateArray();
  find_crossovers(s, &list);
  for (size_t i = 0; i < list.n; i++) {
    vtb_strbuf text = {0};
    cJSON *one = cJSON_CreateObject();
    put_crossover(s, &list.at[i], &text);
    cJSON_AddStringToObject(one, "text", text.at);
    cJSON_AddStringToObject(one, "from", value_of(s, list.at[i].before, s->compared));
    cJSON_AddStringToObject(one, "to", value_of(s, list.at[i].after, s->compared));
    if (!isnan(list.at[i].at)) cJSON_AddNumberToObject(one, "at", list.at[i].at);
    cJSON_AddItemToArray(out, one);
    vtb_strbuf_free(&text);
  }
  vtb_vec_free(&list);
  return out;
}

cJSON *bench_sweep_json(const bench_sweep *s) {
  cJSON *out = cJSON_CreateObject(), *cells;
  cJSON_AddStringToObject(out, "model", s->study.model);
  cJSON_AddStringToObject(out, "timed", bench_what_is_timed(s->options));
  cJSON_AddItemToObject(out, "axes", axes_json(s));
  if (s->compared >= 0)
    cJSON_AddStringToObject(out, "compared", s->study.axes.at[s->compared].name);
  cJSON_AddNumberToObject(out, "rounds", (double)s->study.rounds);
  cJSON_AddNumberToObject(out, "repeated", (double)s->repeated);
  cells = cJSON_AddArrayToObject(out, "cells");
  for (size_t i = 0; i < s->cells.n; i++) cJSON_AddItemToArray(cells, cell_json(s, i));
  cJSON_AddItemToObject(out, "crossovers", crossovers_json(s));
  return out;
}

/* What a sweep found: the best of each group, crossovers, a table. */
#include "frontend/cli/bench/bench_sweep.h"
#include "frontend/cli/say/progress.h"
#include "frontend/study/record.h"
#include "frontend/study/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(const bench_sweep *s, size_t cell, int axis) {
  return s->cells.at[cell].value.at[axis];
}

static bool is_measured(const bench_cell *c) { return c->document && !c->status; }

static double margin_of(const bench_sweep *s) {
  size_t most = 0;
  for (size_t i = 0; i < s->cells.n; i++)
    if (s->at[i].bests.n > most) most = s->at[i].bests.n;
  double *ms = vtb_xcalloc(s->cells.n * most + 1, sizeof *ms);
  for (size_t i = 0; i < s->cells.n; i++)
    for (size_t k = 0; k < most; k++)
      ms[i * most + k] = k < s->at[i].bests.n ? s->at[i].bests.at[k] : (double)NAN;
  double margin = study_margin(ms, s->cells.n, most);
  vtb_free(ms);
  return margin;
}

void bench_sweep_judge(bench_sweep *s) {
  s->ms = vtb_xcalloc(s->cells.n + 1, sizeof *s->ms);
  for (size_t i = 0; i < s->cells.n; i++)
    s->ms[i] = is_measured(&s->at[i]) ? s->at[i].image_ms : (double)NAN;
  study_rank(&s->study, &s->cells, s->ms, margin_of(s), &s->ranking);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Of about three figures. */
static int decimals(double ms) { return ms < 0.1 ? 5 : ms < 1 ? 4 : ms < 10 ? 3 : 2; }

static void put_times(const bench_sweep *s, size_t i, cli_line *l) {
  const bench_cell *c = &s->at[i];
  double per_second = 1e3 / c->image_ms, median = study_median(c->medians.at, c->medians.n);
  cli_line_add(l, "%8.*f%s", decimals(c->best_ms), c->best_ms,
               study_is_best(&s->ranking, i)    ? " *"
               : study_is_close(&s->ranking, i) ? " ~"
                                                : "  ");
  cli_line_add(l, "%8.*f", decimals(median), median);
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

/* Each message once, with the first cell that it is of. */
static void say_failures(const bench_sweep *s) {
  for (size_t i = 0; i < s->cells.n; i++) {
    const char *message = s->at[i].message;
    size_t before = 0, more = 0;
    for (size_t k = 0; k < s->cells.n; k++) {
      bool same = k != i && vtb_streq(s->at[k].message, message);
      before += same && k < i;
      more += same && k > i;
    }
    if (!s->at[i].status || before) continue;
    if (more)
      cli_say("%s and %zu more: %s", s->cells.at[i].label, more, message);
    else
      cli_say("%s: %s", s->cells.at[i].label, message);
  }
}

static void print_notes(const bench_sweep *s) {
  double others = 0;
  study_crossovers list = {0};
  for (size_t i = 0; i < s->cells.n; i++) {
    if (s->at[i].others > others) others = s->at[i].others;
  }
  if (s->ranking.compared >= 0)
    cli_printf(4, "* the fastest of those that differ by %s alone; ~ not told apart from it",
               s->study.axes.at[s->ranking.compared].name);
  if (s->ranking.compared >= 0 && isnan(s->ranking.margin))
    cli_printf(4, "of one round nothing is told apart: --rounds 3");
  else if (s->ranking.compared >= 0)
    cli_printf(4, "what is less than %.0f %% apart is not told apart", 100 * s->ranking.margin);
  study_find_crossovers(&s->ranking, &list);
  for (size_t i = 0; i < list.n; i++) {
    vtb_strbuf text = {0};
    study_put_crossover(&s->ranking, &list.at[i], &text);
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
  say_failures(s);
}

void bench_sweep_print(const bench_sweep *s) {
  char each[40];
  if (s->options->runs)
    snprintf(each, sizeof each, "%lld runs", (long long)s->options->runs);
  else
    snprintf(each, sizeof each, "%g s", s->study.seconds);
  cli_printf(4, "%s: %zu cells, %lld round%s of %s each; timed: %s\n", s->study.model, s->cells.n,
             (long long)s->study.rounds, s->study.rounds == 1 ? "" : "s", each,
             bench_what_is_timed(s->options));
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
  cJSON_AddBoolToObject(out, "is_best", study_is_best(&s->ranking, i));
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
  study_crossovers list = {0};
  cJSON *out = cJSON_CreateArray();
  study_find_crossovers(&s->ranking, &list);
  for (size_t i = 0; i < list.n; i++) {
    vtb_strbuf text = {0};
    cJSON *one = cJSON_CreateObject();
    study_put_crossover(&s->ranking, &list.at[i], &text);
    cJSON_AddStringToObject(one, "text", text.at);
    cJSON_AddStringToObject(one, "from", value_of(s, list.at[i].before, s->ranking.compared));
    cJSON_AddStringToObject(one, "to", value_of(s, list.at[i].after, s->ranking.compared));
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
  if (s->ranking.compared >= 0)
    cJSON_AddStringToObject(out, "compared", s->study.axes.at[s->ranking.compared].name);
  cJSON_AddNumberToObject(out, "rounds", (double)s->study.rounds);
  cJSON_AddNumberToObject(out, "repeated", (double)s->repeated);
  cells = cJSON_AddArrayToObject(out, "cells");
  for (size_t i = 0; i < s->cells.n; i++) cJSON_AddItemToArray(cells, cell_json(s, i));
  cJSON_AddItemToObject(out, "crossovers", crossovers_json(s));
  return out;
}

/* The findings of a sweep: the best of each group, crossovers, a table. */
#include "frontend/cli/bench/bench_sweep.h"
#include "frontend/study/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(const bench_sweep *s, size_t cell, int axis) {
  return s->cells.at[cell].value.at[axis];
}

static bool is_measured(const bench_cell *c) { return c->document && !c->status; }

/* ---- the table ------------------------------------------------------------------------------- */

/* Decimals for about three figures. */
static int decimals(double ms) { return ms < 0.1 ? 5 : ms < 1 ? 4 : ms < 10 ? 3 : 2; }

static const char *write_ms(double ms, char *buf, size_t size) {
  snprintf(buf, size, "%.*f", decimals(ms), ms);
  return buf;
}

static const char *write_rate(double x, char *buf, size_t size) {
  snprintf(buf, size, x < 100 ? "%.1f" : "%.0f", x);
  return buf;
}

static const doc_column of_times[] = {
    {.heading = "best ms  ", .width = 10},
    {.heading = "median", .width = 8, .write = write_ms},
    {.heading = "spread", .width = 7, .format = "%.0f %%", .scale = 100},
    {.heading = "img/s", .width = 7, .write = write_rate},
    {.heading = "GFLOP/s", .width = 7, .format = "%.1f"},
    {.heading = "% peak", .width = 6},
    {.heading = "MiB", .width = 6, .scale = 1.0 / 1048576},
};
enum { TIMES = sizeof of_times / sizeof *of_times, MOST_VALUE = 24 };

static void put_times(const bench_sweep *s, size_t i, vtb_arena *arena, doc_value *out) {
  const cJSON *c = cJSON_GetArrayItem(s->told, (int)i);
  double ms = study_number(c, "best_ms");
  const char *mark = study_is_best(&s->ranking, i)    ? " *"
                     : study_is_close(&s->ranking, i) ? " ~"
                                                      : "  ";
  const doc_value values[TIMES] = {
      V(vtb_arena_printf(arena, "%.*f%s", decimals(ms), ms, mark)),
      V(study_number(c, "median_ms")),
      V(study_number(c, "spread")),
      V(1e3 / s->ms[i]),
      V(study_number(c, "gflop") / ms * 1e3),
      V(s->options->peak ? study_number(c, "percent_of_peak") : (double)NAN),
      V(study_number(c, "peak_bytes")),
  };
  memcpy(out, values, sizeof values);
}

static void add_table(const bench_sweep *s, doc *d) {
  size_t n = s->study.axes.n;
  doc_column *columns = VTB_NEW_ARRAY(&d->arena, doc_column, n + TIMES);
  for (size_t k = 0; k < n; k++)
    columns[k] = (doc_column){.heading = s->study.axes.at[k].name, .width = -1, .most = MOST_VALUE};
  memcpy(columns + n, of_times, sizeof of_times);
  doc_table *t = doc_add_table(d, NULL, columns, (int)n + TIMES);
  doc_value *values = VTB_NEW_ARRAY(&d->arena, doc_value, n + TIMES + 1);
  for (size_t i = 0; i < s->cells.n; i++) {
    for (size_t k = 0; k < n; k++) values[k] = V(value_of(s, i, (int)k));
    for (size_t k = 0; k < TIMES; k++) values[n + k] = V((double)NAN);
    if (is_measured(&s->at[i])) put_times(s, i, &d->arena, values + n);
    doc_add_row(d, t, values);
    if (!is_measured(&s->at[i]))
      doc_end_row(d, t, (int)n, "  failed: %.80s", s->at[i].message ? s->at[i].message : "");
  }
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

static void add_crossovers(const bench_sweep *s, doc *d) {
  study_crossovers list = {0};
  cJSON *out = cJSON_AddArrayToObject(d->json, "crossovers");
  study_find_crossovers(&s->ranking, &list);
  for (size_t i = 0; i < list.n; i++) {
    vtb_strbuf text = {0};
    study_put_crossover(&s->ranking, &list.at[i], &text);
    doc_say(d, 4, "%s", text.at);
    doc_item(out, F("text", text.at),
             F("from", value_of(s, list.at[i].before, s->ranking.compared)),
             F("to", value_of(s, list.at[i].after, s->ranking.compared)), K("at", list.at[i].at));
    vtb_strbuf_free(&text);
  }
  vtb_vec_free(&list);
}

static void add_notes(const bench_sweep *s, doc *d) {
  double others = 0;
  for (size_t i = 0; i < s->cells.n; i++) others = fmax(others, s->at[i].times.others);
  if (s->ranking.compared >= 0)
    doc_say(d, 4, "* the fastest of those that differ by %s alone; ~ not told apart from it",
            s->study.axes.at[s->ranking.compared].name);
  if (s->ranking.compared >= 0 && isnan(s->ranking.margin))
    doc_say(d, 4, "of one round nothing is told apart: --rounds 3");
  else if (s->ranking.compared >= 0)
    doc_say(d, 4, "what is less than %.0f %% apart is not told apart", 100 * s->ranking.margin);
  add_crossovers(s, d);
  if (s->repeated)
    doc_say(d, 4, "%zu of %zu cells were measured again: their rounds were more than 5 %% apart",
            s->repeated, s->cells.n);
  if (others > 0.2)
    doc_say(d, 4, "other programs used up to %.1f cores meanwhile: these times are upper bounds",
            others);
}

/* ---- for programs ---------------------------------------------------------------------------- */

/* A failure as the document says it. */
static cJSON *failed_json(const bench_sweep *s, const bench_cell *c) {
  cJSON *out = doc_object(F("model", s->study.model));
  for (size_t k = 0; k < c->settings.n; k++) {
    const study_setting *one = &c->settings.at[k];
    char *end;
    double x = strtod(one->value, &end);
    if (one->kind != STUDY_OPTION || cJSON_HasObjectItem(out, one->name)) continue;
    if (strcmp(one->name, "image") == 0)
      doc_put(out, F("img_size", one->value));
    else if (*end)
      doc_put(out, F(one->name, one->value));
    else
      doc_put(out, F(one->name, x));
  }
  return out;
}

/* The document of its best round, with what all rounds say. */
static cJSON *cell_json(bench_sweep *s, size_t i) {
  bench_cell *c = &s->at[i];
  cJSON *out = is_measured(c) ? cJSON_Duplicate(c->document, true) : failed_json(s, c);
  cJSON *settings = cJSON_CreateObject();
  for (size_t k = 0; k < c->settings.n; k++)
    doc_put(settings, F(c->settings.at[k].name, c->settings.at[k].value));
  doc_put(out, F("label", s->cells.at[i].label), F("settings", settings),
          F("status", is_measured(c) ? "done" : "failed"),
          F("message", c->message ? c->message : ""), F("command", c->command));
  if (!is_measured(c)) return out;
  cJSON_DeleteItemFromObject(out, "kernels");
  study_times_put(&c->times, out);
  return out;
}

void bench_sweep_judge(bench_sweep *s) {
  s->ms = vtb_xcalloc(s->cells.n + 1, sizeof *s->ms);
  s->told = cJSON_CreateArray();
  for (size_t i = 0; i < s->cells.n; i++) {
    const cJSON *c = doc_append(s->told, cell_json(s, i));
    s->ms[i] = study_number(c, "best_ms") / study_number(c, "batch");
  }
  study_rank(&s->study, &s->cells, s->ms, study_margin_of(s->told, "rounds"), &s->ranking);
  for (size_t i = 0; i < s->cells.n; i++)
    if (is_measured(&s->at[i]))
      doc_put(cJSON_GetArrayItem(s->told, (int)i), F("is_best", study_is_best(&s->ranking, i)));
}

static void add_axes(const bench_sweep *s, cJSON *list) {
  for (size_t i = 0; i < s->study.axes.n; i++) {
    const study_axis *a = &s->study.axes.at[i];
    cJSON *values = cJSON_CreateArray();
    for (size_t k = 0; k < a->values.n; k++)
      doc_append(values, cJSON_CreateString(a->values.at[k]));
    doc_item(list, F("name", a->name), F("values", values));
  }
}

doc *bench_sweep_document(const bench_sweep *s) {
  char each[40];
  doc *d =
      doc_new(doc_object(F("model", s->study.model), F("timed", bench_what_is_timed(s->options))));
  add_axes(s, cJSON_AddArrayToObject(d->json, "axes"));
  if (s->ranking.compared >= 0)
    doc_put(d->json, F("compared", s->study.axes.at[s->ranking.compared].name));
  doc_put(d->json, F("rounds", s->study.rounds), F("repeated", s->repeated));
  doc_put(d->json, F("cells", cJSON_Duplicate(s->told, true)));
  if (s->options->runs)
    snprintf(each, sizeof each, "%lld runs", (long long)s->options->runs);
  else
    snprintf(each, sizeof each, "%g s", s->study.seconds);
  doc_say(d, 4, "%s: %zu cells, %lld round%s of %s each; timed: %s", s->study.model, s->cells.n,
          (long long)s->study.rounds, s->study.rounds == 1 ? "" : "s", each,
          bench_what_is_timed(s->options));
  add_table(s, d);
  doc_say(d, 0, "%s", "");
  add_notes(s, d);
  if (!s->options->model.json && !vtb_streq(s->options->csv, "-")) say_failures(s);
  return d;
}

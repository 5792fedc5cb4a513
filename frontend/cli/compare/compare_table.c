/* Training runs side by side. */
#include "frontend/cli/compare/compare_table.h"

#include <math.h>
#include <string.h>

/* The mean of a group's runs. */
static double mean_of(const compare_runs *c, const compare_group *g, size_t offset) {
  double sum = 0;
  for (size_t i = 0; i < g->runs.n; i++)
    sum += *(const double *)(const void *)((const char *)&c->at.at[g->runs.at[i]] + offset);
  return sum / (double)g->runs.n;
}
#define MEAN(c, g, field) mean_of(c, g, offsetof(compare_run, field))

static const compare_run *first_of(const compare_runs *c, const compare_group *g) {
  return &c->at.at[g->runs.at[0]];
}

/* "83.20 %", "83.20 ± 0.31 %" or "iou 0.5832" */
static void put_score(const compare_run *r, const study_score *s, vtb_strbuf *out) {
  double scale = r->score ? 1 : 100;
  int digits = r->score ? 4 : 2;
  if (r->score) vtb_strbuf_printf(out, "%s ", r->score);
  vtb_strbuf_printf(out, "%.*f", digits, scale * s->mean);
  if (s->seeds > 1 && isfinite(s->deviation))
    vtb_strbuf_printf(out, " \xc2\xb1 %.*f", digits, scale * s->deviation);
  if (!r->score) vtb_strbuf_puts(out, " %");
}

/* A cell of a report: its label says more than its folder, if no other row has it. */
static bool has_cell_name(const compare_runs *c, const compare_group *g) {
  const compare_run *r = first_of(c, g);
  int same = 0;
  for (size_t i = 0; i < c->groups.n; i++)
    same += strcmp(first_of(c, &c->groups.at[i])->seedless, r->seedless) == 0;
  return strstr(r->name, "/train-") && *r->seedless && same == 1;
}

/* "vil-quad", of three seeds "vil-quad and 2 more"; of a report's cell its label. */
static void put_name(const compare_runs *c, const compare_group *g, vtb_strbuf *out) {
  const compare_run *r = first_of(c, g);
  const char *slash = strstr(r->name, "/train-");
  if (has_cell_name(c, g))
    vtb_strbuf_puts(out, r->seedless);
  else if (g->runs.n > 1 && slash)
    vtb_strbuf_printf(out, "%.*s", (int)(slash - r->name), r->name);
  else
    vtb_strbuf_puts(out, r->name);
  if (g->runs.n > 1 && slash)
    vtb_strbuf_printf(out, ", %zu seeds", g->runs.n);
  else if (g->runs.n > 1)
    vtb_strbuf_printf(out, " and %zu more", g->runs.n - 1);
}

static void put_label(const compare_runs *c, const compare_group *g, vtb_strbuf *out) {
  const compare_run *r = first_of(c, g);
  vtb_strbuf_puts(out, g->runs.n > 1 ? r->seedless : r->label);
  for (size_t i = 0; g->runs.n > 1 && i < g->runs.n; i++)
    vtb_strbuf_printf(out, "%s%s",
                      i        ? " "
                      : out->n ? ", seeds "
                               : "seeds ",
                      c->at.at[g->runs.at[i]].seed);
}

static bool is_declared(const compare_runs *c) {
  for (size_t i = 0; i < c->at.n; i++)
    if (c->at.at[i].score) return true;
  return false;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Columns of a terminal, the most important first. */
static const doc_column of_terminal[] = {
    {.heading = "run", .width = -3, .most = 30},
    {.heading = "top-1", .width = -5},
    {.heading = "best", .width = -7},
    {.heading = "differs in", .width = -10, .most = 34},
    {.heading = "seconds", .width = 8},
    {.heading = "img/s", .width = 8},
    {.heading = "updates", .width = 8},
    {.heading = "loss", .width = 8, .format = "%.4f"},
    {.heading = "parameters", .width = 11, .write = cli_write_grouped, .none = "-"},
    {.heading = "model", .width = -1},
};

/* All of it, for a page. */
static const doc_column of_page[] = {
    {.heading = "run"},
    {.heading = "model"},
    {.heading = "parameters", .write = cli_write_grouped, .none = "-"},
    {.heading = "updates"},
    {.heading = "epochs", .format = "%.1f"},
    {.heading = "seconds"},
    {.heading = "images/s"},
    {.heading = "training loss", .format = "%.4f"},
    {.heading = "top-1"},
    {.heading = "best"},
    {.heading = "differs in", .none = ""},
};
enum { SCORE_OF_TERMINAL = 1, SCORE_OF_PAGE = 8 };

static void add_group(doc *d, doc_table *t, const compare_runs *c, const compare_group *g,
                      bool whole, bool labels) {
  const compare_run *r = first_of(c, g);
  vtb_strbuf name = {0}, last = {0}, best = {0}, label = {0};
  const char *bold = g->ahead && whole ? "**" : "";
  double seconds = MEAN(c, g, seconds), rate = MEAN(c, g, images_per_second),
         steps = MEAN(c, g, steps), loss = MEAN(c, g, loss),
         parameters = r->parameters ? (double)r->parameters : (double)NAN;
  put_name(c, g, &name);
  put_score(r, &g->last, &last);
  vtb_strbuf_puts(&best, bold);
  put_score(r, &g->best, &best);
  vtb_strbuf_puts(&best, g->ahead && !whole ? " *" : bold);
  put_label(c, g, &label);
  if (whole)
    doc_row(d, t, V(name.at), V(r->model), V(parameters), V(steps), V(MEAN(c, g, epochs)),
            V(seconds), V(rate), V(loss), V(last.at), V(best.at), V(label.at));
  else
    doc_row(d, t, V(name.at), V(last.at), V(best.at), V(labels ? label.at : NULL), V(seconds),
            V(rate), V(steps), V(loss), V(parameters), V(r->model));
  vtb_strbuf_free(&name);
  vtb_strbuf_free(&last);
  vtb_strbuf_free(&best);
  vtb_strbuf_free(&label);
}

static void add_groups(doc *d, const compare_runs *c, bool whole) {
  doc_table *t = whole ? DOC_TABLE(d, NULL, of_page) : DOC_TABLE(d, NULL, of_terminal);
  bool ahead = false, labels = false;
  if (is_declared(c)) t->columns[whole ? SCORE_OF_PAGE : SCORE_OF_TERMINAL].heading = "score";
  for (size_t i = 0; i < c->groups.n; i++) {
    vtb_strbuf s = {0};
    put_label(c, &c->groups.at[i], &s);
    labels |= s.n > 0 && !has_cell_name(c, &c->groups.at[i]);
    vtb_strbuf_free(&s);
  }
  for (size_t i = 0; i < c->groups.n; i++) {
    add_group(d, t, c, &c->groups.at[i], whole, labels);
    ahead |= c->groups.at[i].ahead;
  }
  if (ahead && !whole) doc_say(d, 2, "* better than every other by more than chance");
  for (size_t i = 0; i < c->at.n; i++)
    if (c->at.at[i].problem)
      doc_say(d, 4, "not compared: %s: %s", c->at.at[i].name, c->at.at[i].problem);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void add_results(cJSON *o, const compare_runs *c, const compare_run *r) {
  const compare_group *g = &c->groups.at[r->group];
  cJSON *settings = cJSON_CreateObject();
  for (size_t k = 0; k < r->settings.n; k++)
    if (compare_differs(c, r->settings.at[k].name, r->settings.at[k].value))
      cJSON_AddStringToObject(settings, r->settings.at[k].name, r->settings.at[k].value);
  doc_put(
      o, F("differs", settings), F("parameters", r->parameters), F("steps", r->steps),
      F("epochs", r->epochs), F("seconds", r->seconds),
      F("images_per_second", r->images_per_second), F("loss", r->loss), K("score", r->score),
      F(r->score ? "eval_score" : "eval_top1", r->last), F("best", r->best),
      F("group", doc_object(F("number", r->group), F("runs", g->runs.n), F("mean", g->best.mean),
                            F("spread", g->best.deviation), F("ahead", g->ahead))));
}

doc *compare_document(const compare_runs *c, bool whole) {
  doc *d = doc_new(cJSON_CreateArray());
  for (size_t i = 0; i < c->at.n; i++) {
    const compare_run *r = &c->at.at[i];
    cJSON *o = doc_item(d->json, F("run", r->name), F("folder", r->folder), K("model", r->model),
                        F("label", r->label ? r->label : ""), K("problem", r->problem));
    if (!r->problem) add_results(o, c, r);
  }
  add_groups(d, c, whole);
  return d;
}

#include "frontend/cli/compare/compare_table.h"
#include "frontend/cli/say/progress.h"

#include <math.h>
#include <string.h>

/* Of a group's runs the mean. */
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

/* Sentences about runs that are not in the table. */
static void print_problems(const compare_runs *c) {
  for (size_t i = 0; i < c->at.n; i++)
    if (c->at.at[i].problem)
      cli_printf(4, "not compared: %s: %s", c->at.at[i].name, c->at.at[i].problem);
}

/* ---- Markdown -------------------------------------------------------------------------------- */

static void print_row(const compare_runs *c, const compare_group *g) {
  const compare_run *r = first_of(c, g);
  char count[32] = "-";
  vtb_strbuf name = {0}, last = {0}, best = {0}, label = {0};
  const char *bold = g->ahead ? "**" : "";
  put_name(c, g, &name);
  put_score(r, &g->last, &last);
  put_score(r, &g->best, &best);
  put_label(c, g, &label);
  if (r->parameters) cli_grouped(r->parameters, count, sizeof count);
  printf("| %s | %s | %s | %.0f | %.1f | %.0f | %.0f | %.4f | %s | %s%s%s | %s |\n", name.at,
         r->model, count, MEAN(c, g, steps), MEAN(c, g, epochs), MEAN(c, g, seconds),
         MEAN(c, g, images_per_second), MEAN(c, g, loss), last.at, bold, best.at, bold,
         vtb_strbuf_text(&label));
  vtb_strbuf_free(&name);
  vtb_strbuf_free(&last);
  vtb_strbuf_free(&best);
  vtb_strbuf_free(&label);
}

void compare_print_markdown(const compare_runs *c) {
  printf("| run | model | parameters | updates | epochs | seconds | images/s | training loss "
         "| %s | best | differs in |\n",
         is_declared(c) ? "score" : "top-1");
  puts("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
  for (size_t i = 0; i < c->groups.n; i++) print_row(c, &c->groups.at[i]);
  bool blank = false;
  for (size_t i = 0; i < c->at.n; i++) blank |= c->at.at[i].problem != NULL;
  if (blank) puts("");
  print_problems(c);
}

/* ---- a terminal ------------------------------------------------------------------------------ */

enum { MOST_NAME = 30, MOST_LABEL = 34 };

typedef struct widths {
  int name, label, score;
} widths;

static int columns_of(const vtb_strbuf *s) {
  int n = 0;
  for (const char *c = vtb_strbuf_text(s); *c; c++) n += (*c & 0xc0) != 0x80;
  return n;
}

static int larger(int a, int b) { return a > b ? a : b; }

static widths measure(const compare_runs *c) {
  widths w = {3, 10, 5};
  vtb_strbuf s = {0};
  for (size_t i = 0; i < c->groups.n; i++) {
    const compare_group *g = &c->groups.at[i];
    s.n = 0, put_name(c, g, &s), w.name = larger(w.name, columns_of(&s));
    s.n = 0, put_label(c, g, &s), w.label = larger(w.label, s.n ? columns_of(&s) : 0);
    s.n = 0, put_score(first_of(c, g), &g->best, &s), w.score = larger(w.score, columns_of(&s));
    s.n = 0, put_score(first_of(c, g), &g->last, &s), w.score = larger(w.score, columns_of(&s));
  }
  vtb_strbuf_free(&s);
  if (w.name > MOST_NAME) w.name = MOST_NAME;
  if (w.label > MOST_LABEL) w.label = MOST_LABEL;
  return w;
}

/* In so many columns, cut with "..." where it has more. */
static void add_text(cli_line *l, const vtb_strbuf *s, int columns) {
  const char *text = vtb_strbuf_text(s);
  int n = columns_of(s);
  if (n > columns)
    cli_line_add(l, "%.*s...", columns - 3, text);
  else
    cli_line_add(l, "%s%*s", text, columns - n, "");
}

static void add_mean(cli_line *l, const char *title, const char *format, double value) {
  char text[40];
  int n = (int)strlen(title);
  snprintf(text, sizeof text, format, value);
  cli_line_add(l, "%*s", n > 8 ? n : 8, text);
}

static void print_plain_row(const compare_runs *c, const compare_group *g, const widths *w,
                            bool label) {
  const compare_run *r = first_of(c, g);
  char count[32] = "-";
  vtb_strbuf s = {0};
  cli_line l = {0};
  put_name(c, g, &s), add_text(&l, &s, w->name), s.n = 0;
  put_score(r, &g->last, &s), add_text(&l, &s, w->score), s.n = 0;
  put_score(r, &g->best, &s), vtb_strbuf_puts(&s, g->ahead ? " *" : "");
  add_text(&l, &s, w->score + 2), s.n = 0;
  put_label(c, g, &s);
  if (label) add_text(&l, &s, w->label);
  add_mean(&l, "seconds", "%.0f", MEAN(c, g, seconds));
  add_mean(&l, "img/s", "%.0f", MEAN(c, g, images_per_second));
  add_mean(&l, "updates", "%.0f", MEAN(c, g, steps));
  add_mean(&l, "loss", "%.4f", MEAN(c, g, loss));
  if (r->parameters) cli_grouped(r->parameters, count, sizeof count);
  cli_line_add(&l, "%11s", count);
  cli_line_add(&l, "%s", r->model);
  cli_line_print(&l);
  vtb_strbuf_free(&s);
}

void compare_print_plain(const compare_runs *c) {
  widths w = measure(c);
  bool ahead = false, label = false;
  cli_line l = {0};
  for (size_t i = 0; i < c->groups.n; i++) {
    vtb_strbuf s = {0};
    put_label(c, &c->groups.at[i], &s);
    label |= s.n > 0 && !has_cell_name(c, &c->groups.at[i]);
    vtb_strbuf_free(&s);
  }
  cli_line_add(&l, "%-*s", w.name, "run");
  cli_line_add(&l, "%-*s", w.score, is_declared(c) ? "score" : "top-1");
  cli_line_add(&l, "%-*s", w.score + 2, "best");
  if (label) cli_line_add(&l, "%-*s", w.label, "differs in");
  cli_line_add(&l, " seconds");
  cli_line_add(&l, "   img/s");
  cli_line_add(&l, " updates");
  cli_line_add(&l, "    loss");
  cli_line_add(&l, " parameters");
  cli_line_add(&l, "model");
  if (c->groups.n) cli_line_print(&l);
  for (size_t i = 0; i < c->groups.n; i++) {
    print_plain_row(c, &c->groups.at[i], &w, label);
    ahead |= c->groups.at[i].ahead;
  }
  if (ahead) puts("* better than every other by more than chance");
  print_problems(c);
}

/* ---- data ------------------------------------------------------------------------------------ */

static cJSON *settings_json(const compare_runs *c, const compare_run *r) {
  cJSON *settings = cJSON_CreateObject();
  for (size_t k = 0; k < r->settings.n; k++)
    if (compare_differs(c, r->settings.at[k].name, r->settings.at[k].value))
      cJSON_AddStringToObject(settings, r->settings.at[k].name, r->settings.at[k].value);
  return settings;
}

static void add_results(cJSON *o, const compare_runs *c, const compare_run *r) {
  const compare_group *g = &c->groups.at[r->group];
  double scale = r->score ? 1 : 100;
  cJSON_AddItemToObject(o, "differs", settings_json(c, r));
  cJSON_AddNumberToObject(o, "parameters", (double)r->parameters);
  cJSON_AddNumberToObject(o, "steps", r->steps);
  cJSON_AddNumberToObject(o, "epochs", r->epochs);
  cJSON_AddNumberToObject(o, "seconds", r->seconds);
  cJSON_AddNumberToObject(o, "images_per_second", r->images_per_second);
  cJSON_AddNumberToObject(o, "loss", r->loss);
  if (r->score) cJSON_AddStringToObject(o, "score", r->score);
  cJSON_AddNumberToObject(o, r->score ? "eval_score" : "eval_top1", compare_last(r) / scale);
  cJSON_AddNumberToObject(o, "best", compare_best(r) / scale);
  cJSON *group = cJSON_AddObjectToObject(o, "group");
  cJSON_AddNumberToObject(group, "number", r->group);
  cJSON_AddNumberToObject(group, "runs", (double)g->runs.n);
  cJSON_AddNumberToObject(group, "mean", g->best.mean);
  if (isfinite(g->best.deviation))
    cJSON_AddNumberToObject(group, "spread", g->best.deviation);
  else
    cJSON_AddNullToObject(group, "spread");
  cJSON_AddBoolToObject(group, "ahead", g->ahead);
}

void compare_print_json(const compare_runs *c) {
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < c->at.n; i++) {
    const compare_run *r = &c->at.at[i];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "run", r->name);
    cJSON_AddStringToObject(o, "folder", r->folder);
    if (r->model) cJSON_AddStringToObject(o, "model", r->model);
    cJSON_AddStringToObject(o, "label", r->label ? r->label : "");
    if (r->problem)
      cJSON_AddStringToObject(o, "problem", r->problem);
    else
      add_results(o, c, r);
    cJSON_AddItemToArray(list, o);
  }
  cli_print_json(list);
}

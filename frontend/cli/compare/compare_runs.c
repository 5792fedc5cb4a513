/* Training runs read from their folders. */
#include "frontend/cli/compare/compare_runs.h"
#include "frontend/cli/train/run_folder.h"
#include "frontend/study/run_log.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void run_free(compare_run *r) {
  char *texts[] = {r->folder, r->name,     r->model, r->problem,
                   r->label,  r->seedless, r->seed,  r->score};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) vtb_free(texts[i]);
  for (size_t i = 0; i < r->settings.n; i++) {
    vtb_free(r->settings.at[i].name);
    vtb_free(r->settings.at[i].value);
  }
  vtb_vec_free(&r->settings);
  vtb_vec_free(&r->x);
  vtb_vec_free(&r->test);
}

void compare_free(compare_runs *c) {
  for (size_t i = 0; i < c->at.n; i++) run_free(&c->at.at[i]);
  for (size_t i = 0; i < c->groups.n; i++) vtb_vec_free(&c->groups.at[i].runs);
  vtb_vec_free(&c->at);
  vtb_vec_free(&c->groups);
}

/* ---- logs ------------------------------------------------------------------------------------ */

static double event_number(const cJSON *event, const char *name) {
  double v = run_event_number(event, name);
  return isnan(v) ? 0 : v;
}

static void add_event(compare_run *r, const cJSON *event, bool by_epoch) {
  r->epochs = event_number(event, "epoch"), r->steps = event_number(event, "step"),
  r->loss = event_number(event, "loss");
  r->seconds = event_number(event, "seconds"),
  r->images_per_second = event_number(event, "images_per_second");
  run_score score = run_event_score(event);
  if (isnan(score.value)) return;
  if (run_event_text(event, "score") && !r->score) r->score = vtb_xstrdup(score.name);
  r->lower = score.lower;
  r->last = score.value;
  if (run_score_beats(&score, r->best)) r->best = score.value;
  vtb_vec_push(&r->x, by_epoch ? r->epochs : r->seconds);
  vtb_vec_push(&r->test, (r->score ? 1 : 100) * score.value);
}

static vtb_status read_log(compare_run *r, bool by_epoch, vtb_error *err) {
  run_log log;
  VTB_TRY(run_log_read(r->folder, &log, err));
  if (log.cut) cli_say("the last line of %s/log.jsonl is not whole, and left out\n", r->folder);
  for (size_t i = 0; i < log.events.n; i++)
    if (run_event_is(log.events.at[i], "epoch") || run_event_is(log.events.at[i], "eval") ||
        run_event_is(log.events.at[i], "end"))
      add_event(r, log.events.at[i], by_epoch);
  run_log_free(&log);
  if (r->test.n) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT,
                  "%s/log.jsonl holds no accuracy or score: nothing was evaluated", r->folder);
}

/* ---- records and weights --------------------------------------------------------------------- */

/* The text of a value of YAML that is written on one line. */
static char *plain(const char *value) {
  cJSON *text = *value == '"' ? cJSON_Parse(value) : NULL;
  char *out = vtb_xstrdup(cJSON_IsString(text) ? text->valuestring : value);
  cJSON_Delete(text);
  return out;
}

/* ["depth=2", "paths=quad"] */
static void take_defines(compare_run *r, const char *value) {
  cJSON *list = cJSON_Parse(value), *item;
  cJSON_ArrayForEach(item, list) {
    const char *text = cJSON_IsString(item) ? item->valuestring : "", *eq = strchr(text, '=');
    if (eq)
      vtb_vec_push(&r->settings, ((compare_setting){vtb_strprintf("%.*s", (int)(eq - text), text),
                                                    vtb_xstrdup(eq + 1), true}));
  }
  cJSON_Delete(list);
}

static void take_setting(compare_run *r, const char *name, const char *value) {
  if (strcmp(name, "label") == 0) {
    vtb_free(r->label);
    r->label = plain(value);
  } else if (strcmp(name, "seed") == 0) {
    vtb_free(r->seed);
    r->seed = vtb_xstrdup(value);
  }
  if (strcmp(name, "D") == 0)
    take_defines(r, value);
  else if (strcmp(name, "model") != 0 && strcmp(name, "label") != 0)
    vtb_vec_push(&r->settings, ((compare_setting){vtb_xstrdup(name), vtb_xstrdup(value), false}));
}

/* Takes what the run tells of itself: the model's name, and the images it is evaluated on. */
static void take_own(compare_run *r, const char *line) {
  const char *samples = strstr(line, "samples=");
  if (vtb_starts_with(line, "  name: ") && !r->model) r->model = plain(line + 8);
  if (vtb_starts_with(line, "  eval_data: ") && samples) r->images = atof(samples + 8);
}

/* The lines `name: value` of run.yaml. Runs of earlier versions have none. */
static void read_record(compare_run *r) {
  char *path = run_file(r->folder, "run.yaml"), *text = NULL, *rest;
  size_t n = 0;
  bool own = false;
  if (vtb_file_read(path, 1u << 20, &text, &n, NULL) == VTB_OK) {
    rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
      char *colon = strstr(line, ": ");
      own |= vtb_starts_with(line, "run:");
      if (own) take_own(r, line);
      if (own || !colon || *line == '#' || *line == ' ') continue;
      *colon = 0;
      take_setting(r, line, colon + 2);
    }
  }
  vtb_free(text);
  vtb_free(path);
}

/* The weights at the end; of a run that is not over those that were best so far. */
static vtb_status read_weights(compare_run *r, vtb_error *err) {
  char *path = run_file(r->folder, "weights.safetensors");
  vtb_weights *w = NULL;
  if (!vtb_path_exists(path)) {
    vtb_free(path);
    path = run_file(r->folder, "best.safetensors");
  }
  vtb_status status = vtb_path_exists(path) ? vtb_safetensors_load(path, &w, err) : VTB_OK;
  const char *name = w ? vtb_weights_meta(w, "model") : NULL;
  if (name) {
    vtb_free(r->model);
    r->model = vtb_xstrdup(name);
  }
  for (size_t i = 0; w && i < w->n; i++) r->parameters += w->at[i]->count;
  if (!r->model) r->model = vtb_xstrdup(r->folder);
  vtb_weights_free(w);
  vtb_free(path);
  return status;
}

/* ---- folders --------------------------------------------------------------------------------- */

static void add_run(compare_runs *c, const char *folder, bool by_epoch) {
  compare_run r = {.folder = vtb_xstrdup(folder), .group = -1, .best = NAN};
  vtb_error err = {0};
  size_t n = strlen(r.folder);
  while (n > 1 && r.folder[n - 1] == '/') r.folder[--n] = 0;
  read_record(&r);
  vtb_status status = read_log(&r, by_epoch, &err);
  if (status == VTB_OK) status = read_weights(&r, &err);
  if (status != VTB_OK) r.problem = vtb_xstrdup(err.text);
  vtb_vec_push(&c->at, r);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

/* cells/ID/train-N of a report. */
static void add_report(compare_runs *c, const char *cells, int depth, bool by_epoch) {
  struct dirent **entries;
  int n = scandir(cells, &entries, NULL, by_name);
  for (int i = 0; i < n; i++) {
    const char *name = entries[i]->d_name;
    char *path = run_file(cells, name);
    if (*name != '.' && vtb_path_is_dir(path)) {
      if (depth == 0)
        add_report(c, path, 1, by_epoch);
      else if (vtb_starts_with(name, "train-"))
        add_run(c, path, by_epoch);
    }
    vtb_free(path);
    vtb_free(entries[i]);
  }
  if (n >= 0) vtb_free(entries);
}

/* ---- what differs ---------------------------------------------------------------------------- */

static const char *find_setting(const compare_run *r, const char *name) {
  for (size_t i = 0; i < r->settings.n; i++)
    if (strcmp(r->settings.at[i].name, name) == 0) return r->settings.at[i].value;
  return NULL;
}

/* Not the same in all runs that have a record. */
bool compare_differs(const compare_runs *c, const char *name, const char *value) {
  for (size_t i = 0; i < c->at.n; i++)
    if (c->at.at[i].settings.n && !c->at.at[i].problem &&
        !vtb_streq(find_setting(&c->at.at[i], name), value))
      return true;
  return false;
}

/* "paths quad, lr 0.002, flip": what of the model differs, then the rest. */
static char *describe_run(const compare_runs *c, const compare_run *r, bool seed) {
  vtb_strbuf s = {0};
  for (int define = 1; define >= 0; define--)
    for (size_t i = 0; i < r->settings.n; i++) {
      const compare_setting *one = &r->settings.at[i];
      bool off = strcmp(one->value, "false") == 0, flag = off || strcmp(one->value, "true") == 0;
      if (one->define != (define == 1) || off || (!seed && strcmp(one->name, "seed") == 0) ||
          !compare_differs(c, one->name, one->value))
        continue;
      vtb_strbuf_printf(&s, "%s%s%s%s", s.n ? ", " : "", one->name, flag ? "" : " ",
                        flag ? "" : one->value);
      for (char *p = s.at; *p; p++)
        if (*p == '|') *p = '/'; /* it stands in a table */
    }
  return s.at ? s.at : vtb_xstrdup("");
}

/* The folder's last part, of a report's with the cell; all of the path where two would have one
 * name. */
static char *name_of(const char *folder) {
  const char *last = strrchr(folder, '/'), *cell = last;
  if (!last) return vtb_xstrdup(folder);
  while (cell > folder && cell[-1] != '/') cell--;
  bool report =
      vtb_starts_with(last, "/train-") && cell - folder >= 6 && strncmp(cell - 6, "cells/", 6) == 0;
  return vtb_xstrdup(report ? cell : last + 1);
}

static void name_runs(compare_runs *c) {
  for (size_t i = 0; i < c->at.n; i++) {
    compare_run *r = &c->at.at[i];
    r->name = name_of(r->folder);
    for (size_t k = 0; k < i; k++) {
      if (strcmp(r->name, c->at.at[k].name) != 0) continue;
      vtb_free(r->name);
      r->name = vtb_xstrdup(r->folder);
    }
  }
  for (size_t i = 0; i < c->at.n; i++) {
    compare_run *r = &c->at.at[i];
    r->seedless = r->label ? vtb_xstrdup(r->label) : describe_run(c, r, false);
    if (!r->label) r->label = describe_run(c, r, true);
  }
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* All the same but for the seeds, which are not. */
static bool differ_in_seed(const compare_run *a, const compare_run *b) {
  if (!a->settings.n || a->settings.n != b->settings.n || !vtb_streq(a->model, b->model) ||
      !vtb_streq(a->score, b->score) || !a->seed || !b->seed || strcmp(a->seed, b->seed) == 0)
    return false;
  for (size_t i = 0; i < a->settings.n; i++) {
    const compare_setting *s = &a->settings.at[i];
    if (strcmp(s->name, "seed") != 0 && !vtb_streq(find_setting(b, s->name), s->value))
      return false;
  }
  return vtb_streq(a->seedless, b->seedless);
}

static bool belongs(const compare_runs *c, const compare_group *g, const compare_run *r) {
  for (size_t i = 0; i < g->runs.n; i++)
    if (!differ_in_seed(&c->at.at[g->runs.at[i]], r)) return false;
  return true;
}

static study_score score_of(const compare_runs *c, const compare_group *g, bool best) {
  const compare_run *first = &c->at.at[g->runs.at[0]];
  double *x = vtb_xcalloc(g->runs.n, sizeof *x);
  for (size_t i = 0; i < g->runs.n; i++)
    x[i] = best ? c->at.at[g->runs.at[i]].best : c->at.at[g->runs.at[i]].last;
  study_score s = {.mean = study_mean(x, g->runs.n),
                   .deviation = study_deviation(x, g->runs.n),
                   .seeds = g->runs.n,
                   .images = first->score ? 0 : first->images};
  vtb_free(x);
  return s;
}

static void group_runs(compare_runs *c, bool by_run) {
  for (size_t i = 0; i < c->at.n; i++) {
    compare_run *r = &c->at.at[i];
    for (size_t k = 0; k < c->groups.n && !by_run && !r->problem && r->group < 0; k++)
      if (belongs(c, &c->groups.at[k], r)) r->group = (int)k;
    if (r->problem) continue;
    if (r->group < 0) {
      r->group = (int)c->groups.n;
      vtb_vec_push(&c->groups, ((compare_group){.ahead = false}));
    }
    vtb_vec_push(&c->groups.at[r->group].runs, (int)i);
  }
  for (size_t k = 0; k < c->groups.n; k++) {
    c->groups.at[k].last = score_of(c, &c->groups.at[k], false);
    c->groups.at[k].best = score_of(c, &c->groups.at[k], true);
  }
}

/* The one whose best is better than all others' by more than chance. */
static void find_ahead(compare_runs *c) {
  size_t best = 0;
  for (size_t k = 1; k < c->groups.n; k++) {
    double a = c->groups.at[k].best.mean, b = c->groups.at[best].best.mean;
    if (c->at.at[c->groups.at[k].runs.at[0]].lower ? a < b : a > b) best = k;
  }
  bool ahead = c->groups.n > 1;
  for (size_t k = 0; k < c->groups.n && ahead; k++)
    ahead = k == best || study_scores_differ(&c->groups.at[best].best, &c->groups.at[k].best);
  if (ahead) c->groups.at[best].ahead = true;
}

void compare_read(compare_runs *out, const cli_list *folders, bool by_epoch, bool by_run) {
  *out = (compare_runs){0};
  for (size_t i = 0; i < folders->n; i++) {
    char *cells = run_file(folders->at[i], "cells"), *log = run_file(folders->at[i], "log.jsonl");
    if (vtb_path_is_dir(cells) && !vtb_path_exists(log))
      add_report(out, cells, 0, by_epoch);
    else
      add_run(out, folders->at[i], by_epoch);
    vtb_free(cells);
    vtb_free(log);
  }
  name_runs(out);
  group_runs(out, by_run);
  find_ahead(out);
}

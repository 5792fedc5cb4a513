/* vertebra compare: training runs side by side, from the logs and weights they left: a table, and a
 * plot of accuracy in evaluations, or of the score that the model declares. */
#include "frontend/cli/run_folder.h"
#include "frontend/cli/run_log.h"
#include "frontend/cli/weights.h"
#include "runtime/train/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
  char *name, *value;
} setting;

typedef struct run {
  const char *folder;
  char *name, *model;
  VTB_VEC(setting) settings;
  char *differing; /* from other runs: "lr 0.002, seed 1" */
  int64_t parameters;
  VTB_VEC(double) x, test; /* of evaluations: epochs or seconds; per cent, or score */
  char *score;             /* what the model declares to be measured by; NULL: top-1 accuracy */
  bool lower;              /* is better */
  double epochs, steps, seconds, images_per_second, loss;
} run;

static void run_free(run *r) {
  vtb_free(r->name);
  vtb_free(r->model);
  vtb_free(r->differing);
  for (size_t i = 0; i < r->settings.n; i++) {
    vtb_free(r->settings.at[i].name);
    vtb_free(r->settings.at[i].value);
  }
  vtb_vec_free(&r->settings);
  vtb_vec_free(&r->x);
  vtb_vec_free(&r->test);
  vtb_free(r->score);
}

static double number(const cJSON *event, const char *name) {
  double v = run_event_number(event, name);
  return isnan(v) ? 0 : v;
}

static void add_event(run *r, const cJSON *event, bool by_epoch) {
  r->epochs = number(event, "epoch"), r->steps = number(event, "step"),
  r->loss = number(event, "loss");
  r->seconds = number(event, "seconds"), r->images_per_second = number(event, "images_per_second");
  const char *score = run_event_text(event, "score");
  char key[96];
  snprintf(key, sizeof key, "eval_%s", score ? score : "top1");
  double value = run_event_number(event, key);
  if (isnan(value)) return;
  if (score && !r->score) r->score = vtb_xstrdup(score);
  r->lower = vtb_streq(run_event_text(event, "better"), "lower");
  vtb_vec_push(&r->x, by_epoch ? r->epochs : r->seconds);
  vtb_vec_push(&r->test, (r->score ? 1 : 100) * value);
}

static vtb_status read_log(run *r, bool by_epoch, vtb_error *err) {
  run_log log;
  vtb_status status = run_log_read(r->folder, &log, err);
  if (status != VTB_OK) return status;
  if (log.cut)
    fprintf(stderr, "the last line of %s/log.jsonl is not whole, and left out\n", r->folder);
  for (size_t i = 0; i < log.events.n; i++)
    if (run_event_is(log.events.at[i], "epoch") || run_event_is(log.events.at[i], "end"))
      add_event(r, log.events.at[i], by_epoch);
  run_log_free(&log);
  if (r->test.n) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT,
                  "%s/log.jsonl holds no accuracy or score: nothing was evaluated", r->folder);
}

/* ---- settings -------------------------------------------------------------------------------- */

/* The lines `name: value` of run.yaml, without what it tells of itself. Runs of earlier versions
 * have none. */
static void read_settings(run *r) {
  char *path = run_file(r->folder, "run.yaml"), *text = NULL, *rest;
  size_t n = 0;
  if (vtb_file_read(path, 1u << 20, &text, &n, NULL) == VTB_OK) {
    rest = text;
    for (char *line; (line = strsep(&rest, "\n")) && !vtb_starts_with(line, "run:");) {
      char *colon = strstr(line, ": ");
      if (!colon || *line == '#' || *line == ' ' || vtb_starts_with(line, "model:")) continue;
      *colon = 0;
      vtb_vec_push(&r->settings, ((setting){vtb_xstrdup(line), vtb_xstrdup(colon + 2)}));
    }
  }
  vtb_free(text);
  vtb_free(path);
}

static const char *find_setting(const run *r, const char *name) {
  for (size_t i = 0; i < r->settings.n; i++)
    if (strcmp(r->settings.at[i].name, name) == 0) return r->settings.at[i].value;
  return NULL;
}

/* Not the same in all runs that have a record. */
static bool differs(const run *runs, size_t n, const char *name, const char *value) {
  for (size_t i = 0; i < n; i++)
    if (runs[i].settings.n && !vtb_streq(find_setting(&runs[i], name), value)) return true;
  return false;
}

/* "lr 0.002, seed 1" */
static void describe_settings(const run *runs, size_t n, run *r) {
  vtb_strbuf s = {0};
  for (size_t i = 0; i < r->settings.n; i++) {
    const setting *one = &r->settings.at[i];
    if (!differs(runs, n, one->name, one->value)) continue;
    vtb_strbuf_printf(&s, "%s%s %s", s.n ? ", " : "", one->name, one->value);
    for (char *c = s.at; *c; c++)
      if (*c == '|') *c = '/'; /* it stands in a table */
  }
  r->differing = vtb_xstrdup(vtb_strbuf_text(&s));
  vtb_strbuf_free(&s);
}

/* The folder's last part; all of the path where two runs would have one name. */
static void name_runs(run *runs, size_t n) {
  for (size_t i = 0; i < n; i++) {
    size_t end = strlen(runs[i].folder), from;
    while (end > 1 && runs[i].folder[end - 1] == '/') end--;
    for (from = end; from > 0 && runs[i].folder[from - 1] != '/'; from--) {
    }
    vtb_strbuf s = {0};
    vtb_strbuf_write(&s, runs[i].folder + from, end - from);
    runs[i].name = s.at;
  }
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < i; k++) {
      if (strcmp(runs[i].name, runs[k].name) != 0) continue;
      vtb_free(runs[i].name);
      runs[i].name = vtb_xstrdup(runs[i].folder);
    }
  for (size_t i = 0; i < n; i++) describe_settings(runs, n, &runs[i]);
}

static vtb_status read_weights(run *r, vtb_error *err) {
  vtb_strbuf path = {0};
  vtb_weights *w = NULL;
  vtb_strbuf_printf(&path, "%s/weights.safetensors", r->folder);
  vtb_status status = vtb_safetensors_load(path.at, &w, err);
  if (status == VTB_OK) {
    const char *name = vtb_weights_meta(w, "model");
    r->model = vtb_xstrdup(name ? name : r->folder);
    for (size_t i = 0; i < w->n; i++) r->parameters += w->at[i]->count;
  }
  vtb_weights_free(w);
  vtb_strbuf_free(&path);
  return status;
}

static double best_of(const run *r) {
  double best = r->test.at[0];
  for (size_t i = 1; i < r->test.n; i++)
    if (r->lower ? r->test.at[i] < best : r->test.at[i] > best) best = r->test.at[i];
  return best;
}

/* "83.20 %" or "iou 0.5832" */
static void print_score(const run *r, double value) {
  if (r->score)
    printf(" %s %.4f |", r->score, value);
  else
    printf(" %.2f %% |", value);
}

static void print_table(const run *runs, size_t n) {
  bool declared = false;
  for (size_t i = 0; i < n; i++) declared |= runs[i].score != NULL;
  printf("| run | model | parameters | updates | epochs | seconds | images/s | training loss "
         "| %s | best | differs in |\n",
         declared ? "score" : "top-1");
  puts("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
  for (size_t i = 0; i < n; i++) {
    const run *r = &runs[i];
    char count[32];
    printf("| %s | %s | %s | %.0f | %.1f | %.0f | %.0f | %.4f |", r->name, r->model,
           cli_grouped(r->parameters, count, sizeof count), r->steps, r->epochs, r->seconds,
           r->images_per_second, r->loss);
    print_score(r, r->test.at[r->test.n - 1]);
    print_score(r, best_of(r));
    printf(" %s |\n", r->differing);
  }
}

static void print_runs_json(const run *runs, size_t n) {
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < n; i++) {
    const run *r = &runs[i];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "run", r->name);
    cJSON_AddStringToObject(o, "folder", r->folder);
    cJSON_AddStringToObject(o, "model", r->model);
    cJSON *settings = cJSON_AddObjectToObject(o, "differs");
    for (size_t k = 0; k < r->settings.n; k++)
      if (differs(runs, n, r->settings.at[k].name, r->settings.at[k].value))
        cJSON_AddStringToObject(settings, r->settings.at[k].name, r->settings.at[k].value);
    cJSON_AddNumberToObject(o, "parameters", (double)r->parameters);
    cJSON_AddNumberToObject(o, "steps", r->steps);
    cJSON_AddNumberToObject(o, "epochs", r->epochs);
    cJSON_AddNumberToObject(o, "seconds", r->seconds);
    cJSON_AddNumberToObject(o, "images_per_second", r->images_per_second);
    cJSON_AddNumberToObject(o, "loss", r->loss);
    if (r->score) {
      cJSON_AddStringToObject(o, "score", r->score);
      cJSON_AddNumberToObject(o, "eval_score", r->test.at[r->test.n - 1]);
      cJSON_AddNumberToObject(o, "best", best_of(r));
    } else {
      cJSON_AddNumberToObject(o, "eval_top1", r->test.at[r->test.n - 1] / 100);
    }
    cJSON_AddItemToArray(list, o);
  }
  cli_print_json(list);
}

static vtb_status draw(const run *runs, size_t n, bool by_epoch, const char *title,
                       const char *path, vtb_error *err) {
  vtb_plot_series *series = vtb_xcalloc(n, sizeof *series);
  for (size_t i = 0; i < n; i++)
    series[i] = (vtb_plot_series){runs[i].name, runs[i].x.at, runs[i].test.at, runs[i].test.n};
  vtb_plot p = {.title = title,
                .x_label = by_epoch ? "epoch" : "seconds",
                .y_label = runs[0].score ? "" : "%",
                .series = series};
  p.n_series = n;
  vtb_status status = vtb_plot_save(&p, path, err);
  vtb_free(series);
  return status;
}

vtb_status cli_cmd_compare(int argc, char **argv) {
  const char *out = NULL, *title = NULL;
  bool by_epoch = false, json = false;
  const cli_opt opts[] = {
      {"-o", CLI_STR, &out, "FILE",
       "also draw accuracy in evaluations, or the declared score, one curve a run, as SVG"},
      {"--by-epoch", CLI_FLAG, &by_epoch, NULL, "against epochs instead of seconds"},
      {"--title", CLI_STR, &title, "TEXT", "of the plot"},
      {"--json", CLI_FLAG, &json, NULL, "machine-readable output"}};
  cli_list rest = {0};
  int parsed = cli_parse("compare", opts, CLI_COUNT(opts), argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (!rest.n) return cli_usage_error("compare", "the output folder of at least one run is needed");
  vtb_error err = {0};
  vtb_status status = VTB_OK;
  run *runs = vtb_xcalloc(rest.n, sizeof *runs);
  for (size_t i = 0; i < rest.n && status == VTB_OK; i++) {
    runs[i].folder = rest.at[i];
    status = read_log(&runs[i], by_epoch, &err);
    if (status == VTB_OK) status = read_weights(&runs[i], &err);
    if (status == VTB_OK) read_settings(&runs[i]);
  }
  if (status == VTB_OK) name_runs(runs, rest.n);
  if (!title)
    title = status == VTB_OK && runs[0].score ? runs[0].score : "top-1 accuracy in evaluations";
  if (status == VTB_OK && out) status = draw(runs, rest.n, by_epoch, title, out, &err);
  if (status == VTB_OK) {
    if (json)
      print_runs_json(runs, rest.n);
    else
      print_table(runs, rest.n);
  } else {
    cli_error(&err);
  }
  for (size_t i = 0; i < rest.n; i++) run_free(&runs[i]);
  vtb_free(runs);
  vtb_vec_free(&rest);
  return status;
}

/* vertebra compare: training runs side by side, from the logs and weights they left: a table, and a
 * plot of test accuracy, or of the score that the model declares. */
#include "frontend/cli/weights.h"
#include "runtime/train/plot.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
  const char *folder;
  char *name;
  int64_t parameters;
  VTB_VEC(double) x, test; /* where the test set was seen: epochs or seconds; per cent, or score */
  char *score;             /* what the model declares to be measured by; NULL: top-1 accuracy */
  bool lower;              /* is better */
  double epochs, steps, seconds, images_per_second, loss;
} run;

static void run_free(run *r) {
  vtb_free(r->name);
  vtb_vec_free(&r->x);
  vtb_vec_free(&r->test);
  vtb_free(r->score);
}

static double number(const cJSON *event, const char *name) {
  const cJSON *v = cJSON_GetObjectItem(event, name);
  return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

static void add_event(run *r, const cJSON *event, bool by_epoch) {
  r->epochs = number(event, "epoch"), r->steps = number(event, "step"),
  r->loss = number(event, "loss");
  r->seconds = number(event, "seconds"), r->images_per_second = number(event, "images_per_second");
  const cJSON *score = cJSON_GetObjectItem(event, "score"),
              *better = cJSON_GetObjectItem(event, "better");
  char key[96];
  snprintf(key, sizeof key, "eval_%s", cJSON_IsString(score) ? score->valuestring : "top1");
  if (!cJSON_IsNumber(cJSON_GetObjectItem(event, key))) return;
  if (cJSON_IsString(score) && !r->score) r->score = vtb_xstrdup(score->valuestring);
  r->lower = cJSON_IsString(better) && strcmp(better->valuestring, "lower") == 0;
  vtb_vec_push(&r->x, by_epoch ? r->epochs : r->seconds);
  vtb_vec_push(&r->test, (r->score ? 1 : 100) * number(event, key));
}

static vtb_status read_log(run *r, bool by_epoch, vtb_error *err) {
  vtb_strbuf path = {0};
  char *text = NULL;
  size_t n = 0;
  vtb_strbuf_printf(&path, "%s/log.jsonl", r->folder);
  vtb_status status = vtb_file_read(path.at, 1u << 26, &text, &n, err);
  char *rest = text;
  for (char *line; status == VTB_OK && (line = strsep(&rest, "\n"));) {
    if (!*line) continue;
    cJSON *event = cJSON_Parse(line);
    const cJSON *kind = cJSON_GetObjectItem(event, "event");
    if (!cJSON_IsObject(event))
      status = vtb_fail(err, VTB_E_INPUT, "%s has a line that is not JSON", path.at);
    else if (cJSON_IsString(kind) &&
             (strcmp(kind->valuestring, "epoch") == 0 || strcmp(kind->valuestring, "end") == 0))
      add_event(r, event, by_epoch);
    cJSON_Delete(event);
  }
  if (status == VTB_OK && !r->test.n)
    status = vtb_fail(err, VTB_E_INPUT, "%s holds no test accuracy or score", path.at);
  vtb_free(text);
  vtb_strbuf_free(&path);
  return status;
}

static vtb_status read_weights(run *r, vtb_error *err) {
  vtb_strbuf path = {0};
  vtb_weights *w = NULL;
  vtb_strbuf_printf(&path, "%s/weights.safetensors", r->folder);
  vtb_status status = vtb_safetensors_load(path.at, &w, err);
  if (status == VTB_OK) {
    const char *name = vtb_weights_meta(w, "model");
    r->name = vtb_xstrdup(name ? name : r->folder);
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
  printf("| model | parameters | updates | epochs | seconds | images/s | training loss | test %s "
         "| best |\n",
         declared ? "score" : "top-1");
  puts("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
  for (size_t i = 0; i < n; i++) {
    const run *r = &runs[i];
    char count[32];
    printf("| %s | %s | %.0f | %.1f | %.0f | %.0f | %.4f |", r->name,
           cli_grouped(r->parameters, count, sizeof count), r->steps, r->epochs, r->seconds,
           r->images_per_second, r->loss);
    print_score(r, r->test.at[r->test.n - 1]);
    print_score(r, best_of(r));
    putchar('\n');
  }
}

static void print_runs_json(const run *runs, size_t n) {
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < n; i++) {
    const run *r = &runs[i];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "model", r->name);
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
       "also draw test accuracy, or the declared score, one curve a run, as SVG"},
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
  }
  if (!title) title = status == VTB_OK && runs[0].score ? runs[0].score : "test top-1 accuracy";
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

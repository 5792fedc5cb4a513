/* vertebra compare: training runs side by side, from the logs and weights they left: a table, and a
 * plot of test accuracy. */
#include "frontend/cli/weights.h"
#include "runtime/train/plot.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
  const char *folder;
  char *name;
  int64_t parameters;
  VTB_VEC(double) x, top1; /* where the test set was seen: epochs or seconds; per cent */
  double epochs, steps, seconds, images_per_second, loss;
} run;

static void run_free(run *r) {
  vtb_free(r->name);
  vtb_vec_free(&r->x);
  vtb_vec_free(&r->top1);
}

static double number(const cJSON *event, const char *name) {
  const cJSON *v = cJSON_GetObjectItem(event, name);
  return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

static void add_event(run *r, const cJSON *event, bool by_epoch) {
  r->epochs = number(event, "epoch"), r->steps = number(event, "step"),
  r->loss = number(event, "loss");
  r->seconds = number(event, "seconds"), r->images_per_second = number(event, "images_per_second");
  if (!cJSON_IsNumber(cJSON_GetObjectItem(event, "eval_top1"))) return;
  vtb_vec_push(&r->x, by_epoch ? r->epochs : r->seconds);
  vtb_vec_push(&r->top1, 100 * number(event, "eval_top1"));
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
  if (status == VTB_OK && !r->top1.n)
    status = vtb_fail(err, VTB_E_INPUT, "%s holds no test accuracy", path.at);
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
  double best = 0;
  for (size_t i = 0; i < r->top1.n; i++) best = r->top1.at[i] > best ? r->top1.at[i] : best;
  return best;
}

static void print_table(const run *runs, size_t n) {
  puts("| model | parameters | updates | epochs | seconds | images/s | training loss | test top-1 "
       "| best |");
  puts("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
  for (size_t i = 0; i < n; i++) {
    const run *r = &runs[i];
    char count[32];
    printf("| %s | %s | %.0f | %.1f | %.0f | %.0f | %.4f | %.2f %% | %.2f %% |\n", r->name,
           cli_grouped(r->parameters, count, sizeof count), r->steps, r->epochs, r->seconds,
           r->images_per_second, r->loss, r->top1.at[r->top1.n - 1], best_of(r));
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
    cJSON_AddNumberToObject(o, "eval_top1", r->top1.at[r->top1.n - 1] / 100);
    cJSON_AddItemToArray(list, o);
  }
  cli_print_json(list);
}

static vtb_status draw(const run *runs, size_t n, bool by_epoch, const char *title,
                       const char *path, vtb_error *err) {
  vtb_plot_series *series = vtb_xcalloc(n, sizeof *series);
  for (size_t i = 0; i < n; i++)
    series[i] = (vtb_plot_series){runs[i].name, runs[i].x.at, runs[i].top1.at, runs[i].top1.n};
  vtb_plot p = {
      .title = title, .x_label = by_epoch ? "epoch" : "seconds", .y_label = "%", .series = series};
  p.n_series = n;
  vtb_status status = vtb_plot_save(&p, path, err);
  vtb_free(series);
  return status;
}

vtb_status cli_cmd_compare(int argc, char **argv) {
  const char *out = NULL, *title = "test top-1 accuracy";
  bool by_epoch = false, json = false;
  const cli_opt opts[] = {
      {"-o", CLI_STR, &out, "FILE", "also draw test accuracy, one curve a run, as SVG"},
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

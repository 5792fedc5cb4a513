/* vertebra ablate --dry-run: the cells of a study and what each will cost, as `vertebra check` of
 * it says and predicts. */
#include "frontend/cli/ablate/ablate.h"
#include "frontend/cli/say/progress.h"
#include "frontend/study/record.h"
#include "frontend/study/worker.h"
#include "frontend/study/yaml.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_BATCH = 64, DEFAULT_EPOCHS = 10 }; /* of train */
static const double start_seconds = 1;            /* of a process: it compiles the model */

typedef struct plan {
  const study *s;
  const char *folder;
  study_cells cells;
  cJSON **check;   /* of each cell; NULL: it is excluded */
  char **message;  /* why the compiler refuses it; NULL: it does not */
  double samples;  /* of the data; NAN: not known */
  cJSON *recipe;   /* its numbers by name */
  int64_t threads; /* that a process will have */
} plan;

/* ---- checks, several at a time --------------------------------------------------------------- */

static void take_check(plan *p, size_t i, study_ending *e) {
  study_record r = {.step = "check", .status = e->status, .signal = e->signal};
  r.messages = e->messages;
  r.document = cJSON_Parse(e->out ? e->out : "");
  if (study_record_ok(&r))
    p->check[i] = r.document;
  else
    p->message[i] = study_record_message(&r);
  if (p->message[i]) cJSON_Delete(r.document);
  study_ending_free(e);
}

static vtb_status start(const plan *p, size_t i, study_worker *w, vtb_error *err) {
  study_texts words = {0};
  study_words(p->s, &p->cells.at[i], STUDY_CHECK, 0, p->folder, &words);
  vtb_status status = study_worker_start(w, &words, err);
  study_texts_free(&words);
  return status;
}

static vtb_status check_all(plan *p, vtb_error *err) {
  enum { MOST = 16, WAIT = 200 };
  study_worker workers[MOST] = {0};
  size_t cell[MOST] = {0}, next = 0, n = p->cells.n, ended = 0, running = 0;
  int jobs = study_machine_cores() < MOST ? study_machine_cores() : MOST;
  vtb_status status = VTB_OK;
  while ((next < n && status == VTB_OK) || running) {
    for (int k = 0; k < jobs; k++) {
      study_ending e = {0};
      if (workers[k].pid && study_worker_ended(&workers[k], &e)) {
        take_check(p, cell[k], &e);
        workers[k].pid = 0;
        running--, ended++;
        cli_progress_note("checked %zu of %zu cells", ended, n);
      }
      while (next < n && p->cells.at[next].excluded) next++;
      if (workers[k].pid || next >= n || status != VTB_OK) continue;
      cell[k] = next++;
      status = start(p, cell[k], &workers[k], err);
      if (status == VTB_OK) running++;
    }
    if (running) study_workers_wait(workers, (size_t)jobs, WAIT);
  }
  cli_progress_clear();
  return status;
}

/* ---- time ------------------------------------------------------------------------------------ */

static vtb_status take_recipe(void *arg, struct fy_node *root) {
  void *at = NULL;
  for (struct fy_node_pair *pair; (pair = fy_node_mapping_iterate(root, &at)) != NULL;) {
    char *name = study_yaml_scalar(study_yaml_behind(fy_node_pair_key(pair)));
    char *value = study_yaml_scalar(study_yaml_behind(fy_node_pair_value(pair)));
    if (name && value) cJSON_AddNumberToObject(arg, name, strtod(value, NULL));
    vtb_free(name);
    vtb_free(value);
  }
  return VTB_OK;
}

static void read_recipe(plan *p) {
  const char *path = p->s->recipe_file;
  char *text = NULL;
  size_t n;
  p->recipe = cJSON_CreateObject();
  if (path && vtb_file_read(path, 1 << 20, &text, &n, NULL) == VTB_OK &&
      study_yaml_read(path, text, n, take_recipe, p->recipe, NULL) != VTB_OK)
    cli_say("%s is no YAML: times are those of train's defaults\n", path);
  vtb_free(text);
}

static void count_samples(plan *p) {
  vtb_dataset *d = NULL;
  vtb_dataset_options o = {.val_fraction = 0.1, .skip_damaged = VTB_SKIP_SOME};
  p->samples = NAN;
  if (!p->s->data || vtb_dataset_open(p->s->data, &o, &d, NULL) != VTB_OK) return;
  p->samples = (double)vtb_dataset_count(d);
  vtb_dataset_free(d);
}

/* A number that a cell's training gets, the command line's before the recipe's. */
static double training_number(const plan *p, const study_texts *words, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i + 1 < words->n; i++)
    if (vtb_starts_with(words->at[i], "--") && strncmp(words->at[i] + 2, name, n) == 0 &&
        !words->at[i][2 + n])
      return strtod(words->at[i + 1], NULL);
  return study_number(p->recipe, name);
}

/* The check's words on a training step. */
static const cJSON *training_of(const plan *p, size_t i) {
  return cJSON_GetObjectItemCaseSensitive(p->check[i], "train");
}

/* The batch of a training against that of the check. */
static double batches(const plan *p, size_t i, const study_texts *words) {
  double batch = training_number(p, words, "batch"), checked = study_number(p->check[i], "batch");
  return (batch > 0 ? batch : DEFAULT_BATCH) / (checked > 0 ? checked : 1);
}

/* Seconds of one training of the cell; NAN: not known. */
static double training_seconds(const plan *p, size_t i) {
  study_texts words = {0};
  study_words(p->s, &p->cells.at[i], STUDY_TRAIN, 0, p->folder, &words);
  double batch = training_number(p, &words, "batch");
  double updates = training_number(p, &words, "updates");
  double epochs = training_number(p, &words, "epochs");
  double limit = training_number(p, &words, "limit");
  double most = training_number(p, &words, "max-steps");
  double fit = training_number(p, &words, "fit-seconds");
  double larger = batches(p, i, &words);
  double step = study_number(training_of(p, i), "predicted_ms") * 1e-3;
  study_texts_free(&words);
  if (fit > 0) return fit;
  if (!(batch > 0)) batch = DEFAULT_BATCH;
  if (!(epochs > 0)) epochs = DEFAULT_EPOCHS;
  double samples = limit > 0 && limit < p->samples ? limit : p->samples;
  if (!(updates > 0)) updates = epochs * samples / batch;
  if (most > 0 && most < updates) updates = most;
  return updates * step * larger;
}

/* Seconds of one timing: whole runs of the batch, at least these to warm up and to be timed. */
static double bench_seconds(const plan *p, size_t i) {
  enum { LEAST_RUNS = 4 };
  const cJSON *of = p->s->bench_train ? training_of(p, i) : p->check[i];
  double least = LEAST_RUNS * 1e-3 * study_number(of, "predicted_ms");
  return least > p->s->seconds ? least : p->s->seconds;
}

/* Seconds of all that is done for the cell; NAN: not known. */
static double cell_seconds(const plan *p, size_t i) {
  const study *s = p->s;
  double seconds = start_seconds;
  if (!p->check[i]) return 0;
  if (s->bench) seconds += (double)s->rounds * (bench_seconds(p, i) + start_seconds);
  if (s->seeds) seconds += (double)s->seeds * (training_seconds(p, i) + 2 * start_seconds);
  return seconds;
}

/* ---- what is told ---------------------------------------------------------------------------- */

/* "196,026", "1.23 M" */
static const char *write_count(double x, char *buf, size_t size) {
  snprintf(buf, size, x < 1e6 ? "%.0f" : "%.2f M", x < 1e6 ? x : x * 1e-6);
  return buf;
}

static const char *write_gflop(double x, char *buf, size_t size) {
  snprintf(buf, size, "%.*f", x < 1e7 ? 5 : 3, x * 1e-9);
  return buf;
}

/* Parameters and workspace; of a training step also gradients and the optimizer's two states. */
static double memory_of(const plan *p, size_t i) {
  const cJSON *train = training_of(p, i);
  double copies = train ? 4 : 1, parameters = study_number(p->check[i], "parameters"), larger = 1;
  study_texts words = {0};
  study_words(p->s, &p->cells.at[i], STUDY_TRAIN, 0, p->folder, &words);
  if (p->s->seeds) larger = batches(p, i, &words);
  study_texts_free(&words);
  return copies * 4 * parameters +
         larger * study_number(train ? train : p->check[i], "workspace_bytes");
}

static double total_seconds(const plan *p, int *runs, int *excluded, int *impossible) {
  double total = 0;
  for (size_t i = 0; i < p->cells.n; i++) {
    *excluded += p->cells.at[i].excluded != NULL;
    *impossible += p->message[i] != NULL;
    *runs += p->check[i] != NULL;
    total += cell_seconds(p, i);
  }
  return total;
}

static const char *design_name(const study *s) {
  static const char *const names[] = {[STUDY_GRID] = "the whole grid",
                                      [STUDY_PAIRWISE] = "every two values together once",
                                      [STUDY_ONE_AT_A_TIME] = "one at a time",
                                      [STUDY_SAMPLE] = "a sample of the grid"};
  return names[s->arrangement];
}

enum { SHOWN = 12 }; /* cells that a condition excludes; --json has all */

static void say_reasons(const plan *p, doc *d) {
  for (size_t i = 0; i < p->cells.n; i++)
    if (p->message[i]) doc_say(d, 2, "impossible: %s: %s", p->cells.at[i].label, p->message[i]);
  for (size_t w = 0; w < p->s->where.n; w++) {
    vtb_strbuf list = {0};
    int n = 0;
    for (size_t i = 0; i < p->cells.n; i++) {
      if (!vtb_streq(p->cells.at[i].excluded, p->s->where.at[w])) continue;
      if (n++ < SHOWN) vtb_strbuf_printf(&list, "%s%s", list.n ? "; " : "", p->cells.at[i].label);
    }
    if (n > SHOWN) vtb_strbuf_printf(&list, "; and %d more", n - SHOWN);
    if (n) doc_say(d, 2, "excluded by --where '%s': %s", p->s->where.at[w], list.at);
    vtb_strbuf_free(&list);
  }
}

static void add_command(const plan *p, size_t i, study_step step, cJSON *list) {
  study_texts words = {0};
  vtb_strbuf line = {0};
  study_words(p->s, &p->cells.at[i], step, 0, p->folder, &words);
  for (size_t k = 0; k < words.n; k++) vtb_strbuf_word(&line, words.at[k]);
  doc_append(list, cJSON_CreateString(line.at));
  vtb_strbuf_free(&line);
  study_texts_free(&words);
}

static cJSON *cell_json(const plan *p, size_t i) {
  const study_cell *c = &p->cells.at[i];
  const cJSON *check = p->check[i];
  cJSON *of = cJSON_CreateObject(), *commands = cJSON_CreateArray();
  study_settings settings = {0};
  study_cell_settings(p->s, c, &settings);
  for (size_t k = 0; k < settings.n; k++) doc_put(of, F(settings.at[k].name, settings.at[k].value));
  study_settings_free(&settings);
  add_command(p, i, STUDY_CHECK, commands);
  if (p->s->seeds) add_command(p, i, STUDY_TRAIN, commands);
  if (p->s->seeds && !p->s->untested) add_command(p, i, STUDY_EVAL, commands);
  if (p->s->bench) add_command(p, i, STUDY_BENCH, commands);
  return doc_object(F("id", c->id), F("label", c->label),
                    F("status", c->excluded     ? "excluded"
                                : p->message[i] ? "impossible"
                                                : "pending"),
                    K("message", c->excluded ? c->excluded : p->message[i]), F("settings", of),
                    F("commands", commands), K("param_count", study_number(check, "parameters")),
                    K("flops", study_number(check, "flops")),
                    K("gmacs", study_number(check, "gmacs")),
                    K("workspace_bytes", study_number(check, "workspace_bytes")),
                    K("predicted_ms", study_number(check, "predicted_ms")),
                    K("predicted_seconds", check ? cell_seconds(p, i) : (double)NAN));
}

static void add_cells(const plan *p, doc *d) {
  static const doc_column columns[] = {
      {.heading = "cell", .width = -5, .most = -1000},
      {.heading = "parameters", .width = 10, .write = write_count, .none = "?"},
      {.heading = "GFLOP", .width = 7, .write = write_gflop},
      {.heading = "memory", .width = 8, .format = "%.0f MiB", .scale = 1.0 / 1048576},
      {.heading = "forward", .width = 9, .format = "%.2f ms"},
      {.heading = "time", .width = 8, .write = cli_duration, .none = "?"},
  };
  cJSON *list = cJSON_AddArrayToObject(d->json, "cells");
  doc_table *t = DOC_TABLE(d, NULL, columns);
  for (size_t i = 0; i < p->cells.n; i++) {
    const cJSON *check = p->check[i];
    doc_append(list, cell_json(p, i));
    if (check)
      doc_row(d, t, V(p->cells.at[i].label), V(study_number(check, "parameters")),
              V(study_number(check, "flops")), V(memory_of(p, i)),
              V(study_number(check, "predicted_ms")), V(cell_seconds(p, i)));
  }
}

static void say_totals(const plan *p, doc *d, int runs, int excluded, int impossible,
                       double total) {
  char time[32];
  vtb_strbuf line = {0};
  vtb_strbuf_printf(&line, "%d cell%s (%s)", runs, runs == 1 ? "" : "s", design_name(p->s));
  if (impossible) vtb_strbuf_printf(&line, ", %d impossible", impossible);
  if (excluded) vtb_strbuf_printf(&line, ", %d excluded", excluded);
  if (p->s->seeds)
    vtb_strbuf_printf(&line, "; trained by %s on %s, %lld seed%s",
                      p->s->recipe ? p->s->recipe : "the study's options",
                      p->s->data ? p->s->data : "the data varied", (long long)p->s->seeds,
                      p->s->seeds > 1 ? "s" : "");
  if (p->s->bench) vtb_strbuf_printf(&line, "; timed in %lld rounds", (long long)p->s->rounds);
  vtb_strbuf_printf(&line, "; about %s in all, one after the other, into %s",
                    cli_duration(isfinite(total) ? total : -1, time, sizeof time), p->folder);
  doc_say(d, 0, "%s", line.at);
  doc_say(d, 0, "Times and memory (%s) are predicted; nothing was run.",
          p->s->seeds || p->s->bench_train ? "of a training step" : "of a forward pass");
  vtb_strbuf_free(&line);
}

static void tell_plan(const plan *p) {
  int runs = 0, excluded = 0, impossible = 0;
  double total = total_seconds(p, &runs, &excluded, &impossible);
  vtb_strbuf text = {0};
  study_text(p->s, &text);
  doc *d = doc_new(doc_object(F("study", vtb_strbuf_text(&text)), F("folder", p->folder),
                              F("runs", runs), F("excluded", excluded), F("impossible", impossible),
                              K("predicted_seconds", total)));
  vtb_strbuf_free(&text);
  add_cells(p, d);
  say_reasons(p, d);
  say_totals(p, d, runs, excluded, impossible, total);
  cli_tell(d);
}

vtb_status ablate_plan(const study *s, const char *folder, vtb_error *err) {
  plan p = {.s = s, .folder = folder};
  vtb_status status = study_design(s, &p.cells, err);
  p.check = vtb_xcalloc(p.cells.n + 1, sizeof(cJSON *));
  p.message = vtb_xcalloc(p.cells.n + 1, sizeof(char *));
  if (status == VTB_OK && s->seeds) read_recipe(&p);
  if (status == VTB_OK && s->seeds) count_samples(&p);
  if (status == VTB_OK) status = check_all(&p, err);
  if (status == VTB_OK) tell_plan(&p);
  for (size_t i = 0; i < p.cells.n; i++) {
    cJSON_Delete(p.check[i]);
    vtb_free(p.message[i]);
  }
  vtb_free((void *)p.check);
  vtb_free((void *)p.message);
  cJSON_Delete(p.recipe);
  study_cells_free(&p.cells);
  return status;
}

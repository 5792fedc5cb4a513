/* Sweeps over options, as studies that leave no folder. */
#include "frontend/cli/bench/bench_sweep.h"
#include "frontend/cli/bench/bench_output.h"
#include "frontend/cli/say/progress.h"
#include "frontend/study/record.h"
#include "frontend/study/split.h"
#include "frontend/study/worker.h"

#include <math.h>
#include <string.h>

enum { SWEEP_ROUNDS = 3 };
static const double sweep_seconds = 1; /* of a cell and round */

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct listed {
  const char *name, *text; /* "batch", "1,8"; NULL: not given */
} listed;
enum { LISTED = 7, CHUNK = 5, MODE = 6 };

/* The axis that varies fastest last. */
static void lists_of(const bench_options *o, listed out[LISTED]) {
  const bench_lists *l = &o->lists;
  const listed all[LISTED] = {
      {"image", l->image},   {"batch", l->batch},     {"precision", l->precision},
      {"target", l->target}, {"threads", l->threads}, {"chunk", l->chunk},
      {"mode", l->mode}};
  memcpy(out, all, sizeof all);
}

static size_t count_values(const char *text) {
  study_texts values = {0};
  study_split(text, strlen(text), ',', &values);
  size_t n = values.n;
  study_texts_free(&values);
  return n;
}

bool bench_is_sweep(const bench_options *o) {
  listed lists[LISTED];
  lists_of(o, lists);
  for (int i = 0; i < LISTED; i++)
    if (lists[i].text && count_values(lists[i].text) != 1) return true;
  return o->vary.n > 0;
}

/* The words as the options they are. */
static int take_words(bench_options *o, int argc, const char **argv) {
  cli_model_options *m = &o->model;
  const cli_opt rows[] = {
      {"--image", CLI_STR, &m->compile.image, "SIZE", ""},
      {"--mode", CLI_STR, &m->compile.mode, "MODE", ""},
      {"--chunk", CLI_POSITIVE, &m->compile.chunk, "N", ""},
      {"--batch", CLI_POSITIVE, &m->compile.batch, "N", ""},
      {"--threads", CLI_THREADS, &m->threads, "N", ""},
      {"--precision", CLI_STR, &m->compile.precision, "P", ""},
      {"--target", CLI_STR, &m->compile.target, "T", ""},
  };
  cli_list none = {0};
  int status = cli_parse("bench", rows, CLI_COUNT(rows), argc, (char **)(void *)argv, &none);
  vtb_vec_free(&none);
  return status;
}

int bench_take_value(bench_options *o, const char *name, const char *value) {
  char option[32];
  snprintf(option, sizeof option, "--%s", name);
  return take_words(o, 3, (const char *[]){"bench", option, value, NULL});
}

int bench_take_values(bench_options *o) {
  listed lists[LISTED];
  int status = VTB_OK;
  lists_of(o, lists);
  for (int i = 0; i < LISTED && !status; i++)
    if (lists[i].text) status = bench_take_value(o, lists[i].name, lists[i].text);
  return status;
}

/* Every value of every list has to be one that the option takes. */
static int check_values(const bench_options *o, const listed *l) {
  study_texts values = {0};
  bench_options scratch = *o;
  int status = VTB_OK;
  study_split(l->text, strlen(l->text), ',', &values);
  for (size_t i = 0; i < values.n && !status; i++)
    status = *values.at[i]
                 ? bench_take_value(&scratch, l->name, values.at[i])
                 : (int)cli_usage_error("bench", "--%s %s: a value is empty", l->name, l->text);
  study_texts_free(&values);
  return status;
}

/* ---- the study of them ----------------------------------------------------------------------- */

static vtb_status vary(study *s, const char *name, const char *values, vtb_error *err) {
  char *text = vtb_need(vtb_strprintf("%s=%s", name, values));
  vtb_status status = study_vary(s, text, err);
  vtb_free(text);
  return status;
}

/* Chunks belong to the mode chunkwise: parallel,chunkwise and 16,64 are parallel, chunkwise(16) and
 * chunkwise(64). NULL: there is neither. To be freed. */
static char *modes_with_chunks(const char *modes, const char *chunks, vtb_status *status) {
  study_texts mode = {0}, chunk = {0};
  vtb_strbuf out = {0};
  bool any = false;
  if (!chunks) return modes ? vtb_xstrdup(modes) : NULL;
  if (!modes) modes = "chunkwise";
  study_split(modes, strlen(modes), ',', &mode);
  study_split(chunks, strlen(chunks), ',', &chunk);
  for (size_t i = 0; i < mode.n; i++) {
    bool is_chunked = strcmp(mode.at[i], "chunkwise") == 0;
    any |= is_chunked;
    for (size_t k = 0; k < (is_chunked ? chunk.n : 1); k++) {
      vtb_strbuf_printf(&out, "%s%s", out.n ? "," : "", mode.at[i]);
      if (is_chunked) vtb_strbuf_printf(&out, "(%s)", chunk.at[k]);
    }
  }
  if (!any)
    *status = cli_usage_error("bench", "--chunk %s: no mode of %s has chunks", chunks, modes);
  study_texts_free(&mode);
  study_texts_free(&chunk);
  return out.at;
}

static void add_options(study *s, const bench_options *o) {
  for (size_t i = 0; i < o->model.defines.n; i++) {
    study_texts_add(&s->options, "-D");
    study_texts_add(&s->options, o->model.defines.at[i]);
  }
  if (o->model.compile.entry) {
    study_texts_add(&s->options, "--entry");
    study_texts_add(&s->options, o->model.compile.entry);
  }
}

/* One value is an option of all cells, several are an axis. Usage errors are printed. */
static vtb_status add_lists(study *s, const bench_options *o, vtb_error *err) {
  listed lists[LISTED];
  vtb_status status = VTB_OK;
  lists_of(o, lists);
  for (int i = 0; i < LISTED && status == VTB_OK; i++)
    if (lists[i].text && i != MODE) status = (vtb_status)check_values(o, &lists[i]);
  for (int i = 0; i < CHUNK && status == VTB_OK; i++) {
    if (!lists[i].text) continue;
    if (count_values(lists[i].text) > 1) {
      status = vary(s, lists[i].name, lists[i].text, err);
      continue;
    }
    vtb_vec_push(&s->options, vtb_need(vtb_strprintf("--%s", lists[i].name)));
    study_texts_add(&s->options, lists[i].text);
  }
  if (status != VTB_OK) return status;
  char *modes = modes_with_chunks(lists[MODE].text, lists[CHUNK].text, &status);
  if (status == VTB_OK && modes) status = vary(s, "mode", modes, err);
  vtb_free(modes);
  return status;
}

static vtb_status make_study(bench_sweep *s, const char *model, vtb_error *err) {
  const bench_options *o = s->options;
  s->study = study_defaults();
  s->study.model = vtb_xstrdup(model);
  s->study.bench = true;
  s->study.bench_train = o->train;
  s->study.rounds = o->rounds ? o->rounds : SWEEP_ROUNDS;
  s->study.seconds = o->seconds >= 0 ? o->seconds : sweep_seconds;
  add_options(&s->study, o);
  vtb_status status = VTB_OK;
  for (size_t i = 0; i < o->vary.n && status == VTB_OK; i++)
    status = study_vary(&s->study, o->vary.at[i], err);
  if (status == VTB_OK) status = add_lists(&s->study, o, err);
  if (status == VTB_OK) status = study_design(&s->study, &s->cells, err);
  return status;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* The words of a cell, with what the study's leave out. */
static void words_of(const bench_sweep *s, const study_cell *cell, study_texts *out) {
  const bench_options *o = s->options;
  study_words(&s->study, cell, STUDY_BENCH, 0, "", out);
  if (o->no_update) study_texts_add(out, "--no-update");
  if (o->train && strcmp(o->optimizer, CLI_DEFAULT_OPTIMIZER) != 0) {
    study_texts_add(out, "--optimizer");
    study_texts_add(out, o->optimizer);
  }
  if (o->model.compile.no_tuning) study_texts_add(out, "--no-tuning");
  if (o->peak) study_texts_add(out, "--peak");
  if (o->model.compile.cpu) {
    study_texts_add(out, "--cpu");
    study_texts_add(out, o->model.compile.cpu);
  }
  if (o->runs) {
    study_texts_add(out, "--runs");
    vtb_vec_push(out, vtb_need(vtb_strprintf("%lld", (long long)o->runs)));
  }
}

static void open_cells(bench_sweep *s) {
  s->at = vtb_xcalloc(s->cells.n + 1, sizeof *s->at);
  for (size_t i = 0; i < s->cells.n; i++) {
    study_texts words = {0};
    vtb_strbuf line = {0};
    words_of(s, &s->cells.at[i], &words);
    for (size_t k = 0; k < words.n; k++) vtb_strbuf_word(&line, words.at[k]);
    s->at[i].command = line.at;
    s->at[i].times = study_times_new();
    study_cell_settings(&s->study, &s->cells.at[i], &s->at[i].settings);
    study_texts_free(&words);
  }
}

static void take_failure(bench_cell *c, const study_ending *e, cJSON *document) {
  study_record r = {.step = study_step_name(STUDY_BENCH),
                    .status = e->status,
                    .signal = e->signal,
                    .messages = e->messages,
                    .document = document};
  c->status = e->status ? e->status : VTB_E_INPUT;
  c->message = study_record_message(&r);
}

static void take_ending(bench_cell *c, const study_ending *e) {
  cJSON *document = cJSON_Parse(e->out), *worse = document;
  double others = study_number(document, "others_cores");
  if (e->status || e->signal || isnan(study_number(document, "best_ms"))) {
    take_failure(c, e, document);
  } else if (study_times_add(&c->times, document, (double)NAN, (double)NAN, others)) {
    worse = c->document;
    c->document = document;
  }
  cJSON_Delete(worse);
}

/* One round of one cell. */
static vtb_status measure(bench_sweep *s, size_t i, vtb_error *err) {
  study_texts words = {0};
  study_worker worker = {0};
  study_ending ending;
  words_of(s, &s->cells.at[i], &words);
  vtb_status status = study_worker_start(&worker, &words, err);
  if (status == VTB_OK) {
    while (!study_worker_ended(&worker, &ending)) study_workers_wait(&worker, 1, 1000);
    take_ending(&s->at[i], &ending);
    study_ending_free(&ending);
  }
  study_texts_free(&words);
  return status;
}

/* Progress: what is planned is a "round", what follows is measured "again". */
static void show(const bench_sweep *s, int64_t round, size_t done, size_t i) {
  cli_line l = {0};
  size_t n = s->cells.n;
  int64_t planned = s->study.rounds;
  cli_line_add(&l, "%s %lld/%lld", round < planned ? "round" : "again",
               (long long)(round % planned + 1), (long long)planned);
  cli_line_add(&l, "cell %zu/%zu", done + 1, n);
  cli_line_add(&l, "%s", s->cells.at[i].label);
  cli_progress_show(&l, ((double)(round % planned) + (double)done / (double)n) / (double)planned);
}

static vtb_status measure_round(void *user, int64_t round, vtb_error *err) {
  bench_sweep *s = user;
  size_t n = s->cells.n;
  for (size_t k = 0; k < n; k++) {
    size_t i = (k + (size_t)round) % n; /* no cell is always behind the same one */
    if (s->at[i].status) continue;
    show(s, round, k, i);
    VTB_TRY(measure(s, i, err));
  }
  return VTB_OK;
}

static size_t count_restless(void *user) {
  const bench_sweep *s = user;
  size_t n = 0;
  for (size_t i = 0; i < s->cells.n; i++)
    n += !s->at[i].status && study_times_spread(&s->at[i].times) > STUDY_RESTLESS;
  return n;
}

static void note_restless(void *user, size_t n, int64_t further) {
  if (further) ((bench_sweep *)user)->repeated = n;
}

static void free_sweep(bench_sweep *s) {
  for (size_t i = 0; s->at && i < s->cells.n; i++) {
    bench_cell *c = &s->at[i];
    study_settings_free(&c->settings);
    vtb_free(c->command);
    study_times_free(&c->times);
    cJSON_Delete(c->document);
    vtb_free(c->message);
  }
  vtb_free(s->at);
  vtb_free(s->ms);
  cJSON_Delete(s->told);
  study_ranking_free(&s->ranking);
  study_cells_free(&s->cells);
  study_free(&s->study);
}

/* The worst of the cells. */
static vtb_status status_of(const bench_sweep *s) {
  int worst = VTB_OK;
  for (size_t i = 0; i < s->cells.n; i++)
    if (s->at[i].status > worst) worst = s->at[i].status;
  return (vtb_status)worst;
}

vtb_status bench_sweep_run(const char *model, const bench_options *o) {
  vtb_error err = {0};
  bench_sweep s = {.options = o};
  vtb_status status = make_study(&s, model, &err);
  if (status == VTB_OK) {
    study_rounds rounds = {s.study.rounds, measure_round, count_restless, note_restless, &s};
    open_cells(&s);
    status = study_rounds_run(&rounds, &err);
  }
  cli_progress_clear();
  if (status == VTB_OK) {
    bench_sweep_judge(&s);
    status = bench_finish(o, bench_sweep_document(&s));
    if (status == VTB_OK) status = status_of(&s);
  } else if (err.text[0]) {
    cli_error(&err);
  }
  free_sweep(&s);
  return status;
}

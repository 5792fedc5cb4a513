/* One cell in the document of results. */
#include "frontend/study/cell_results.h"

#include "frontend/document/document.h"
#include "frontend/study/curve.h"
#include "frontend/study/peak.h"
#include "frontend/study/rounds.h"
#include "frontend/study/statistics.h"

#include <math.h>
#include <string.h>

/* The record of a step, or NULL. */
static const study_record *record_of(const study_work *w, int cell, int step, int n) {
  const study_task *t = study_work_find(w, cell, step, n);
  return t && t->known ? &t->record : NULL;
}

/* ---- status, commands ------------------------------------------------------------------------ */

/* The first step that failed; NULL: none. Pictures are no part of it. */
static const study_task *failed_task(const study_work *w, int cell) {
  for (size_t i = 0; i < w->tasks.n; i++) {
    const study_task *t = &w->tasks.at[i];
    if (t->cell == cell && t->known && t->step != STUDY_PATHS && !study_record_ok(&t->record))
      return t;
  }
  return NULL;
}

static bool all_done(const study_work *w, int cell) {
  bool timed = false;
  for (size_t i = 0; i < w->tasks.n; i++) {
    const study_task *t = &w->tasks.at[i];
    if (t->cell != cell || t->step == STUDY_PATHS) continue;
    if (study_work_state(w, t) != STUDY_TASK_DONE) return false;
    timed |= t->step == STUDY_BENCH && t->n >= w->study->rounds - 1;
  }
  return timed || !w->study->bench;
}

/* The compiler refuses it: not that something else went wrong while it looked. */
static bool is_refused(const study_record *r) {
  return !r->signal && (r->status == VTB_E_INPUT || r->status == VTB_E_USAGE);
}

static void add_failure(cJSON *to, const study_task *t) {
  vtb_strbuf text = {0};
  char *why = study_record_message(&t->record);
  bool refused = t->step == STUDY_CHECK && is_refused(&t->record);
  if (!refused) vtb_strbuf_printf(&text, "%s", study_task_name(t));
  if (t->step == STUDY_TRAIN || t->step == STUDY_EVAL)
    vtb_strbuf_printf(&text, " of seed %d", t->n);
  vtb_strbuf_printf(&text, "%s%s", refused ? "" : ": ", why);
  doc_put(to, F("status", refused ? "impossible" : "failed"), F("message", text.at));
  vtb_strbuf_free(&text);
  vtb_free(why);
}

static void add_status(cJSON *to, const study_work *w, int cell) {
  const char *excluded = w->cells->at[cell].excluded;
  const study_task *failed = failed_task(w, cell);
  if (failed) {
    add_failure(to, failed);
    return;
  }
  doc_put(to,
          F("status", excluded            ? "excluded"
                      : all_done(w, cell) ? "done"
                                          : "pending"),
          F("message", excluded ? excluded : ""));
}

static cJSON *command_json(const study_task *t) {
  const study_record *r = &t->record;
  vtb_strbuf words = {0};
  for (size_t i = 0; i < r->command.n; i++) vtb_strbuf_word(&words, r->command.at[i]);
  char *why = study_record_message(r);
  cJSON *out =
      doc_object(F("step", study_task_name(t)), F("n", t->n), F("command", vtb_strbuf_text(&words)),
                 F(r->signal ? "signal" : "status", r->signal ? r->signal : r->status),
                 F("seconds", r->seconds), F("message", why));
  vtb_strbuf_free(&words);
  vtb_free(why);
  return out;
}

/* In the order in which a person would type them: by step, then by number. */
static void add_commands(cJSON *to, const study_work *w, int cell) {
  cJSON *list = cJSON_AddArrayToObject(to, "commands");
  for (int step = STUDY_CHECK; step <= STUDY_BENCH; step++)
    for (size_t i = 0; i < w->tasks.n; i++) {
      const study_task *t = &w->tasks.at[i];
      if (t->cell == cell && t->step == step && t->known)
        cJSON_AddItemToArray(list, command_json(t));
    }
}

/* ---- what the compiler says ------------------------------------------------------------------ */

static void copy_member(cJSON *to, const char *name, const cJSON *from, const char *its_name) {
  const cJSON *item = study_member(from, its_name);
  if (item) cJSON_AddItemToObject(to, name, cJSON_Duplicate(item, true));
}

static void add_check(cJSON *to, const cJSON *d) {
  static const char *const same[] = {"gmacs", "flops", "tokens", "img_size", "workspace_bytes"};
  cJSON *model = doc_object(K("param_count", study_number(d, "parameters")));
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) copy_member(model, same[i], d, same[i]);
  doc_put(model, K("train_workspace_bytes", study_number(d, "train.workspace_bytes")),
          K("train_predicted_ms", study_number(d, "train.predicted_ms")),
          K("predicted_ms", study_number(d, "predicted_ms")));
  doc_put(to, F("model", model));
  cJSON *compiler = cJSON_AddObjectToObject(to, "compiler");
  copy_member(compiler, "launches", d, "launches");
  copy_member(compiler, "bytes", d, "bytes");
  copy_member(compiler, "recurrences", d, "recurrences");
}

/* A picture that several cells have stands once in the document; one that would make the page slow
 * is left out of it. */
static void add_paths(cJSON *to, cJSON *pictures, const study_work *w, int cell) {
  enum { MOST = 512 << 10 };
  const study_task *t = study_work_find(w, cell, STUDY_PATHS, 0);
  char *text = NULL;
  size_t n;
  if (!t || !t->known || !study_record_ok(&t->record)) return;
  char *path = study_task_path(w, t, ".svg");
  if (vtb_file_read(path, 1 << 26, &text, &n, NULL) == VTB_OK) {
    int number = 0, known = cJSON_GetArraySize(pictures);
    for (const cJSON *p = pictures->child; p && strcmp(p->valuestring, text) != 0; p = p->next)
      number++;
    if (n > MOST)
      cJSON_AddNumberToObject(to, "paths_bytes", (double)n);
    else
      cJSON_AddNumberToObject(to, "paths", number);
    if (n <= MOST && number == known) cJSON_AddItemToArray(pictures, cJSON_CreateString(text));
  }
  vtb_free(text);
  vtb_free(path);
}

/* ---- timing ---------------------------------------------------------------------------------- */

/* Beside what the machine reached in the same round. */
static double percent_of_peak(const study_work *w, const study_record *r) {
  double own = study_number(r->document, "percent_of_peak");
  const study_task *t = study_work_find(w, -1, STUDY_PEAK, r->n);
  study_peak peak;
  if (isfinite(own) || !t || !t->known || !study_peak_read(t->record.document, &peak)) return own;
  return study_percent_of_peak(&peak, r->document);
}

/* The best of all rounds is the time; the median is that of the rounds' medians. */
static void add_bench(cJSON *to, const study_work *w, int cell) {
  study_times t = study_times_new();
  const cJSON *best = NULL;
  for (size_t i = 0; i < w->tasks.n; i++) {
    const study_task *task = &w->tasks.at[i];
    const study_record *r = &task->record;
    if (task->cell != cell || task->step != STUDY_BENCH || !task->known || !study_record_ok(r))
      continue;
    if (study_times_add(&t, r->document, percent_of_peak(w, r), (double)r->peak_bytes,
                        r->others >= 0 ? r->others : (double)NAN))
      best = r->document;
  }
  if (t.best.n) {
    double ms = study_least(t.best.at, t.best.n), batch = study_number(best, "batch");
    int64_t more = (int64_t)t.best.n - w->study->rounds;
    cJSON *out = cJSON_AddObjectToObject(to, "bench");
    copy_member(out, "timed", best, "timed");
    copy_member(out, "batch", best, "batch");
    copy_member(out, "threads", best, "threads");
    if (w->study->threads) doc_put(out, F("threads", w->study->threads));
    study_times_put(&t, out);
    doc_put(out, K("samples_per_sec", 1e3 * batch / ms), F("repeated", more > 0 ? more : 0));
  }
  study_times_free(&t);
}

/* ---- training -------------------------------------------------------------------------------- */

typedef struct training {
  VTB_VEC(double) test, val, top5, val_top5, rate, step;
  double peak, batch, images;
  char score[80];
  bool lower;
  cJSON *seeds;
} training;

/* A number if it is one; the vectors hold what is known. */
#define KEEP(list, x)                                                                              \
  do {                                                                                             \
    double kept_ = (x);                                                                            \
    if (isfinite(kept_)) vtb_vec_push((list), kept_);                                              \
  } while (0)

static void add_seed(training *t, const study_work *w, int cell, int n, const study_record *r) {
  const study_record *eval = record_of(w, cell, STUDY_EVAL, n);
  study_curve c;
  char *folder = study_run_folder(&w->cells->at[cell], n, w->folder);
  study_curve_read(folder, &c);
  snprintf(t->score, sizeof t->score, "%s", c.score);
  t->lower = c.lower;
  const cJSON *test = eval && study_record_ok(eval) ? eval->document : NULL;
  KEEP(&t->val, c.best);
  KEEP(&t->test, study_number(test, c.score));
  KEEP(&t->top5, study_number(test, "top5"));
  KEEP(&t->rate, study_number(r->document, "images_per_second"));
  KEEP(&t->step, 1e3 * study_number(r->document, "seconds") / study_number(r->document, "updates"));
  t->peak = fmax(t->peak, (double)r->peak_bytes);
  t->images = fmax(t->images, study_number(test, "images"));
  doc_item(t->seeds, F("seed", n), K("val", c.best), K("test", study_number(test, c.score)),
           K("seconds", study_number(r->document, "seconds")), F("curve", c.points));
  c.points = NULL;
  study_curve_free(&c);
  vtb_free(folder);
}

static cJSON *training_json(const training *t) {
  return doc_object(F("score", t->score), F("better", t->lower ? "lower" : "higher"),
                    K("mean", study_mean(t->test.at, t->test.n)),
                    K("spread", study_deviation(t->test.at, t->test.n)),
                    K("val_mean", study_mean(t->val.at, t->val.n)),
                    K("val_spread", study_deviation(t->val.at, t->val.n)),
                    K("top5", study_mean(t->top5.at, t->top5.n)),
                    K("images", t->images > 0 ? t->images : (double)NAN),
                    K("samples_per_sec", study_mean(t->rate.at, t->rate.n)),
                    K("step_time", study_mean(t->step.at, t->step.n)),
                    K("peak_bytes", t->peak > 0 ? t->peak : (double)NAN), F("seeds", t->seeds));
}

static void add_train(cJSON *to, const study_work *w, int cell) {
  training t = {.seeds = cJSON_CreateArray()};
  for (int n = 0; n < w->study->seeds; n++) {
    const study_record *r = record_of(w, cell, STUDY_TRAIN, n);
    if (r && study_record_ok(r)) add_seed(&t, w, cell, n, r);
  }
  if (cJSON_GetArraySize(t.seeds))
    doc_put(to, F("train", training_json(&t)));
  else
    cJSON_Delete(t.seeds);
  vtb_vec_free(&t.test);
  vtb_vec_free(&t.val);
  vtb_vec_free(&t.top5);
  vtb_vec_free(&t.rate);
  vtb_vec_free(&t.step);
}

/* ---- the cell -------------------------------------------------------------------------------- */

cJSON *study_cell_results(const study_work *w, int cell, cJSON *pictures) {
  const study_cell *c = &w->cells->at[cell];
  const study_record *check = record_of(w, cell, STUDY_CHECK, 0);
  study_settings settings = {0};
  cJSON *out = doc_object(F("id", c->id), F("label", c->label));
  cJSON *set = cJSON_AddObjectToObject(out, "settings");
  study_cell_settings(w->study, c, &settings);
  for (size_t i = 0; i < settings.n; i++)
    doc_put(set, F(settings.at[i].name, settings.at[i].value));
  study_settings_free(&settings);
  add_status(out, w, cell);
  add_commands(out, w, cell);
  if (check && study_record_ok(check)) add_check(out, check->document);
  add_paths(out, pictures, w, cell);
  add_bench(out, w, cell);
  add_train(out, w, cell);
  return out;
}

/* See train_output.h. */
#include "frontend/cli/train/train_output.h"
#include "frontend/draw/plot.h"
#include "frontend/study/run_log.h"

#include <math.h>
#include <string.h>

/* ---- the curve ------------------------------------------------------------------------------- */

typedef struct points {
  VTB_VEC(double) x, y;
} points;

static void add_point(points *p, const cJSON *event, const char *name, double scale) {
  double step = run_event_number(event, "step"), value = run_event_number(event, name);
  if (isnan(step) || isnan(value)) return;
  vtb_vec_push(&p->x, step);
  vtb_vec_push(&p->y, scale * value);
}

static plot_series series_of(const char *name, const points *p) {
  return (plot_series){name, p->x.at, p->y.at, p->x.n};
}

typedef struct history {
  points windows, evaluations; /* of updates; of what `windows` shows */
  points score, eval_score;    /* of epochs */
  points epochs;               /* of logs without windows: those of earlier versions */
  const char *score_name;
} history;

static void add_event(history *h, const cJSON *e, bool measured) {
  const char *shown = measured ? "loss" : "accuracy";
  double scale = measured ? 1 : 100;
  if (run_event_is(e, "window")) add_point(&h->windows, e, shown, scale);
  if (!run_event_is(e, "epoch") && !run_event_is(e, "eval")) return;
  add_point(&h->epochs, e, shown, scale);
  add_point(&h->evaluations, e, measured ? "eval_loss" : "eval_top1", scale);
  const char *score = run_event_text(e, "score");
  if (!score || strcmp(score, "loss") == 0) return;
  char eval[96];
  snprintf(eval, sizeof eval, "eval_%s", score);
  h->score_name = score;
  add_point(&h->score, e, score, 1);
  add_point(&h->eval_score, e, eval, 1);
}

static void history_free(history *h) {
  points *all[] = {&h->windows, &h->evaluations, &h->score, &h->eval_score, &h->epochs};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    vtb_vec_free(&all[i]->x);
    vtb_vec_free(&all[i]->y);
  }
}

static vtb_status draw(const history *h, bool measured, const char *watched, const char *path,
                       vtb_error *err) {
  bool scored = h->eval_score.x.n > 1;
  const points *training = h->windows.x.n ? &h->windows : &h->epochs;
  plot_series series[2] = {series_of("training", scored ? &h->score : training),
                           series_of(watched, scored ? &h->eval_score : &h->evaluations)};
  plot p = {.title = scored     ? h->score_name
                     : measured ? "loss"
                                : "top-1 accuracy",
            .x_label = "update",
            .y_label = measured ? "" : "%",
            .series = series,
            .n_series = series[1].n ? 2 : 1};
  return series[0].n ? plot_save(&p, path, err) : VTB_OK;
}

void train_save_curve(const run_folder *f, bool measured, const char *watched) {
  run_log log;
  history h = {0};
  vtb_error err = {0};
  vtb_status status = run_log_read(f->path, &log, &err);
  if (status == VTB_OK) {
    for (size_t i = 0; i < log.events.n; i++) add_event(&h, log.events.at[i], measured);
    status = draw(&h, measured, watched, f->curve, &err);
    history_free(&h);
    run_log_free(&log);
  }
  if (status != VTB_OK) cli_error(&err);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Measures that the model declares: its names with the values that the event has. */
static vtb_measured_list recall_measures(const cJSON *e, const vtb_measured_list *declared,
                                         const char *prefix) {
  vtb_measured_list l = *declared;
  int losses = 0;
  for (int i = 0; i < l.n; i++) losses += l.at[i].is_loss;
  for (int i = 0; i < l.n; i++) {
    char key[96];
    bool only = l.at[i].is_loss && losses == 1; /* the field "loss" */
    snprintf(key, sizeof key, "%s%s", prefix, only ? "loss" : l.at[i].name);
    l.at[i].value = run_event_number(e, key);
  }
  return l;
}

void train_recall(const run_folder *f, const vtb_measured_list *declared, vtb_train_result *r) {
  run_log log;
  if (run_log_read(f->path, &log, NULL) != VTB_OK) return;
  const cJSON *e = log.events.n ? log.events.at[log.events.n - 1] : NULL;
  if (!e || !run_event_is(e, "end")) e = run_log_last(&log, "epoch");
  double loss = run_event_number(e, "loss"), eval = run_event_number(e, "eval_loss");
  r->trained = !isnan(loss);
  r->loss = loss;
  r->accuracy = run_event_number(e, "accuracy");
  r->evaluated = !isnan(eval);
  r->eval_loss = eval;
  r->eval_top1 = run_event_number(e, "eval_top1");
  r->eval_top5 = run_event_number(e, "eval_top5");
  r->train = recall_measures(e, declared, "");
  r->eval = recall_measures(e, declared, "eval_");
  run_log_free(&log);
}

static double known(bool is, double value) { return is ? value : (double)NAN; }

static void add_measures(cJSON *j, const char *name, const vtb_measured_list *l, bool are_known) {
  cJSON *object = l->n && are_known ? cJSON_AddObjectToObject(j, name) : NULL;
  for (int i = 0; object && i < l->n; i++) doc_put(object, F(l->at[i].name, l->at[i].value));
}

/* The curve of the whole run, also before it was resumed: a point an epoch, the best of them, and
 * the loss of each fiftieth of the run. */
static void add_history(cJSON *j, const run_folder *f) {
  run_log log;
  run_score score = {.name = "top1"};
  double best = NAN;
  const cJSON *at = NULL;
  if (run_log_read(f->path, &log, NULL) != VTB_OK) return;
  cJSON *curve = cJSON_CreateArray(), *windows = cJSON_CreateArray();
  for (size_t i = 0; i < log.events.n; i++) {
    const cJSON *e = log.events.at[i];
    double step = run_event_number(e, "step"), epoch = run_event_number(e, "epoch"),
           loss = run_event_number(e, "loss");
    if (run_event_is(e, "window"))
      doc_item(windows, F("step", step), F("epoch", epoch), F("loss", loss));
    if (!run_event_is(e, "epoch") && !run_event_is(e, "eval")) continue;
    score = run_event_score(e);
    if (run_score_beats(&score, best)) best = score.value, at = e;
    doc_item(curve, F("epoch", epoch), F("step", step),
             F("seconds", run_event_number(e, "seconds")), F("loss", loss), F("eval", score.value));
  }
  doc_put(j, F("score", score.name), F("better", score.lower ? "lower" : "higher"), F("best", best),
          F("best_epoch", known(at != NULL, run_event_number(at, "epoch"))), F("curve", curve),
          F("windows", windows));
  run_log_free(&log);
}

static void add_results(cJSON *j, const train_options *t, const train_outcome *o) {
  const vtb_train_result *r = &o->result;
  const run_folder *f = o->folder;
  doc_put(j, F("steps", r->steps), F("updates", r->updates), F("epochs", r->epochs),
          F("finished", r->finished), F("finished_before", o->over_already),
          F("stopped", o->stopped), F("loss", known(r->trained, r->loss)));
  if (!r->train.n)
    doc_put(j, F("eval_top1", known(r->evaluated, r->eval_top1)),
            F("eval_top5", known(r->evaluated, r->eval_top5)));
  add_measures(j, "train", &r->train, r->trained);
  if (r->train.n) doc_put(j, F("eval_loss", known(r->evaluated, r->eval_loss)));
  add_measures(j, "eval", &r->eval, r->evaluated);
  doc_put(j, F("skipped", r->skipped), F("seconds", r->seconds),
          F("images_per_second", known(r->updates > 0, r->images_per_second)));
  if (r->ranks > 1)
    doc_put(j, F("ranks", r->ranks), F("waited", r->waited), F("slowest_rank", r->slowest));
  doc_put(j, F("folder", f->path), F("weights", o->has_weights ? f->weights : NULL),
          F("best_weights", vtb_path_exists(f->best) ? f->best : NULL),
          F("label", t->run_label ? t->run_label : ""), F("seed", t->train.seed),
          F("split", t->train.eval_set ? vtb_dataset_split(t->train.eval_set) : ""),
          F("peak_bytes", cli_peak_bytes()));
  add_history(j, f);
}

static void put_evaluation(vtb_strbuf *out, const vtb_train_result *r, const char *split) {
  char prefix[16];
  snprintf(prefix, sizeof prefix, "%s ", split);
  if (!r->evaluated) {
    vtb_strbuf_puts(out, "not evaluated");
  } else if (r->train.n || isnan(r->eval_top1)) {
    vtb_strbuf_printf(out, "%s loss %.4f", split, r->eval_loss);
    cli_put_measures(out, &r->eval, prefix);
  } else {
    vtb_strbuf_printf(out, "%s top-1 %.2f %%, top-5 %.2f %%", split, 100 * r->eval_top1,
                      100 * r->eval_top5);
  }
}

static const char *ending(const train_outcome *o) {
  if (o->result.finished) return "";
  return o->result.steps ? " (stopped early; --resume continues)" : "";
}

static void say_results(doc *d, const train_options *t, const train_outcome *o) {
  const vtb_train_result *r = &o->result;
  vtb_strbuf text = {0};
  if (o->over_already)
    vtb_strbuf_printf(&text, "the run in %s is finished: %lld updates", o->folder->path,
                      (long long)r->steps);
  else
    vtb_strbuf_printf(&text, "%lld updates", (long long)r->steps);
  if (r->updates < r->steps && !o->over_already)
    vtb_strbuf_printf(&text, ", %lld of them now,", (long long)r->updates);
  if (!o->over_already)
    vtb_strbuf_printf(&text, " in %.0f s (%.0f %s/s)", r->seconds, r->images_per_second,
                      vtb_dataset_has_images(t->train.train_set) ? "img" : "samples");
  if (r->trained) vtb_strbuf_printf(&text, ", loss %.4f", r->loss);
  vtb_strbuf_puts(&text, ", ");
  put_evaluation(&text, r, t->train.eval_set ? vtb_dataset_split(t->train.eval_set) : "val");
  doc_say(d, 4, "%s%s", text.at, ending(o));
  vtb_strbuf_free(&text);
  if (o->has_weights)
    doc_say(d, 4, "weights: %s", o->folder->weights);
  else
    doc_say(d, 4, "no weights are written: no update was made");
  if (o->has_weights && vtb_path_exists(o->folder->best))
    doc_say(d, 4, "best in evaluation: %s", o->folder->best);
  if (r->skipped)
    doc_say(d, 4,
            "%lld batches were skipped, whose gradients overflowed at the loss scale of the time",
            (long long)r->skipped);
}

void train_report(const train_options *o, const train_outcome *r) {
  doc *d = doc_new(cJSON_CreateObject());
  add_results(d->json, o, r);
  say_results(d, o, r);
  cli_tell(d);
}

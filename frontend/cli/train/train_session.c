/* One training, from the data set to the weights file: its schedule, its files. */
#include "frontend/cli/train/train_session.h"
#include "frontend/cli/say/progress.h"
#include "frontend/cli/ranks.h"
#include "frontend/cli/train/train_output.h"
#include "frontend/cli/train/train_record.h"
#include "frontend/cli/train/train_schedule.h"
#include "frontend/cli/train/train_signals.h"
#include "frontend/cli/train/train_trace.h"
#include "frontend/cli/load/weights.h"

#include <math.h>
#include <signal.h>
#include <string.h>

static void describe_recipe(const char *what, const train_options *o, vtb_strbuf *out) {
  const vtb_train_config *t = &o->train;
  const vtb_compile_options *c = &o->model.compile;
  const vtb_augmentation *a = &t->train_transform.augment;
  vtb_strbuf_printf(
      out,
      "model=%s batch=%lld epochs=%lld lr=%.9g final=%.9g warmup=%.9g wd=%.9g clip=%.9g ls=%.9g "
      "ema=%.9g shift=%lld flip=%d erase=%.9g crop=%.9g seed=%lld limit=%lld optimizer=%s",
      what, (long long)(c->batch ? c->batch : 64), (long long)t->epochs, t->schedule.lr,
      o->final_lr, o->warmup, o->decay, t->optim.clip_norm, c->label_smoothing, t->optim.ema_decay,
      (long long)a->shift, a->flip, a->erase_prob, a->scale_min, (long long)t->seed,
      (long long)o->data.limit, c->optimizer);
  if (vtb_dataset_held_out(t->train_set))
    vtb_strbuf_printf(out, " val=%.9g/%lld", o->data.val_fraction, (long long)o->data.val_seed);
  for (size_t i = 0; i < o->model.defines.n; i++)
    vtb_strbuf_printf(out, " -D%s", o->model.defines.at[i]);
}

/* Seconds that judging the trained weights will take. */
static double evaluation_seconds(const vtb_train_config *t, vtb_error *err) {
  if (!t->eval || !t->eval_set) return 0;
  int64_t batch = t->eval->batch, n = vtb_dataset_count(t->eval_set);
  batch *= vtb_ranks_count(t->ranks);
  return (double)((n + batch - 1) / batch) * cli_measure_run(t->eval, t->services, 0.5, err);
}

/* Seconds of an update. Ranks run it equally often, and agree. */
static double update_seconds(const vtb_train_config *t, double seconds, vtb_error *err) {
  bool alone = vtb_ranks_count(t->ranks) == 1;
  double each = cli_measure_run(t->step, t->services, alone ? seconds : 0, err);
  if (!err->text[0] && vtb_ranks_max(t->ranks, &each, 1, err) != VTB_OK) return 0;
  return each * (double)(t->accumulate > 1 ? t->accumulate : 1);
}

/* Takes over what rank 0 has planned. */
static vtb_status agree(train_options *o, vtb_error *err) {
  vtb_train_config *t = &o->train;
  int64_t plan[] = {t->epochs, t->schedule.total, o->warm};
  vtb_status status = vtb_ranks_broadcast(t->ranks, 0, plan, sizeof plan, err);
  t->epochs = plan[0], t->schedule.total = plan[1], o->warm = plan[2];
  return status;
}

/* A schedule for the time; the trainer reckons it anew as it goes. What measuring took, and what
 * the evaluation at the end will take, is part of the time; a fifth of it is always trained. */
static vtb_status fit_schedule(train_options *o, int64_t updates, vtb_error *err) {
  vtb_train_config *t = &o->train;
  double start = vtb_now(), seconds = t->fit_seconds;
  double each = update_seconds(t, fmin(2, 0.05 * seconds), err);
  double evaluation = err->text[0] ? 0 : evaluation_seconds(t, err);
  if (err->text[0]) return err->status;
  double left = 0.97 * (seconds - (vtb_now() - start)) - 1.05 * evaluation;
  t->fit_seconds = fmax(left, 0.2 * seconds);
  if (left < 0.2 * seconds)
    cli_say("the evaluation alone takes %.0f s of the %.0f: %.0f s are trained\n", evaluation,
            seconds, t->fit_seconds);
  int64_t planned = (int64_t)(t->fit_seconds / each);
  if (planned < 1) planned = 1;
  t->epochs = (planned + updates - 1) / updates;
  t->schedule.total = planned;
  if (o->warm > planned / 5) o->warm = planned / 5;
  cli_say("%.0f ms an update: about %lld updates in %.0f s, %.0f s of evaluation\n", 1e3 * each,
          (long long)planned, t->fit_seconds, evaluation);
  return agree(o, err);
}

/* A session: what a training refers to, and the files it writes. */
typedef struct session {
  train_options *options;
  const char *model;
  train_programs programs;
  vtb_services *services;
  train_schedule schedule;
  train_trace *trace;     /* NULL: not wanted */
  vtb_ranks_device *sums; /* of a step on a device, with other ranks */
  run_folder folder;
  vtb_strbuf recipe, more, record; /* what makes it this run; its options as YAML */
  char model_hash[20];
  train_plan_list plan;
  bool written;
} session;

/* Until something is written: a folder that was made for this run goes if a signal ends it. */
static void guard_folder(const session *s) {
  if (!s->folder.is_new || s->folder.lock < 0) return;
  char *lock = run_file(s->folder.path, RUN_LOCK_FILE);
  train_signals_leave_nothing(s->folder.path, lock);
  vtb_free(lock);
}

static void close_session(session *s) {
  train_signals_leave_nothing(NULL, NULL);
  run_folder_leave(&s->folder, s->written);
  vtb_ranks_detach(s->sums);
  vtb_services_free(s->services);
  train_trace_free(s->trace);
  train_programs_free(&s->programs);
  train_schedule_free(&s->schedule);
  vtb_strbuf_free(&s->recipe);
  vtb_strbuf_free(&s->more);
  vtb_strbuf_free(&s->record);
  vtb_vec_free(&s->plan);
}

/* ---- what the trainer calls ------------------------------------------------------------------ */

static void on_event(void *user, const vtb_train_event *e) {
  session *s = user;
  if (!s->options->quiet) cli_progress_train(e);
}

/* Only now the folder becomes this run's. */
static vtb_status on_begin(void *user, vtb_error *err) {
  session *s = user;
  train_options *o = s->options;
  bool goes_on = o->train.resume && vtb_path_exists(s->folder.checkpoint);
  const vtb_program *step = o->train.step;
  if (step->submit)
    vtb_log("images go to the device as %s", step->uses_pixels ? "bytes" : "floats");
  train_signals_leave_nothing(NULL, NULL);
  vtb_status status = goes_on ? VTB_OK : run_folder_clear(&s->folder, err);
  s->written = true;
  if (status != VTB_OK || (goes_on && vtb_path_exists(s->folder.record))) return status;
  if (!s->programs.file) status = train_record_sources(&s->folder, &s->programs.sources, err);
  if (status == VTB_OK)
    status =
        train_record_write(&s->folder, o, s->record.at, s->model, s->model_hash, &s->plan, err);
  return status;
}

/* Settings for the weights: what --image said is stored with the other settings. */
static vtb_status describe_model(void *user, vtb_weights *w, vtb_error *err) {
  session *s = user;
  const train_options *o = s->options;
  cli_list defines = {0};
  char image[48];
  snprintf(image, sizeof image, "image=%dx%d", s->programs.height, s->programs.width);
  for (size_t i = 0; i < o->model.defines.n; i++) vtb_vec_push(&defines, o->model.defines.at[i]);
  if (o->model.compile.image) vtb_vec_push(&defines, image);
  cli_describe_model(w, s->model,
                     s->programs.file
                         ? vtb_manifest_meta(vtb_artefact_manifest(s->programs.file), "entry")
                         : o->model.compile.entry,
                     &defines);
  vtb_vec_free(&defines);
  return w->error.text[0] ? vtb_fail(err, w->error.status, "%s", w->error.text) : VTB_OK;
}

static vtb_status describe_weights(void *user, vtb_weights *w, vtb_error *err) {
  const session *s = user;
  cli_describe_weights(w, s->options->train.train_set, &s->options->train.eval_transform);
  return w->error.text[0] ? vtb_fail(err, w->error.status, "%s", w->error.text) : VTB_OK;
}

/* Options that the user cannot say: the session's part of the configuration. */
static void refer_to(session *s, vtb_train_config *t) {
  t->step = s->programs.step;
  t->eval = s->programs.eval;
  t->augments = s->programs.augments.at;
  t->n_augments = (int)s->programs.augments.n;
  t->augmented = *s->programs.augmented ? s->programs.augmented : NULL;
  t->services = s->services;
  t->checkpoint = s->folder.checkpoint;
  t->best = s->folder.best;
  t->log = s->folder.log;
  t->board = s->options->tensorboard ? s->folder.tensorboard : NULL;
  t->recipe = s->recipe.at;
  t->more_recipe = vtb_strbuf_text(&s->more);
  t->model_hash = s->model_hash;
  t->label = s->options->run_label;
  t->plan = s->plan.at;
  t->n_plan = s->plan.n;
  t->on_event = on_event;
  t->on_begin = on_begin;
  t->describe = describe_weights;
  t->describe_model = describe_model;
  t->user = s;
  t->stop = &train_signal;
}

static int rank_of(const session *s) { return vtb_ranks_rank(s->options->train.ranks); }

/* ---- plans ----------------------------------------------------------------------------------- */

enum { LEAST_EVALUATIONS = 5 };

/* A small data set is seen many times within the updates asked for: it is evaluated some twenty
 * times, not after each of them; a large one not even once: some times within an epoch. */
static void plan_evaluations(train_options *o, int64_t updates) {
  int64_t epochs = (o->updates + updates - 1) / updates;
  o->train.eval_epochs = (epochs + 19) / 20;
  if (epochs < LEAST_EVALUATIONS) o->train.eval_steps = o->updates / LEAST_EVALUATIONS;
  if (o->train.eval_epochs > 1 && o->train.eval_set && !o->quiet)
    cli_say("%lld updates are %lld epochs of %lld: evaluated after every %lld of them\n",
            (long long)o->updates, (long long)epochs, (long long)updates,
            (long long)o->train.eval_epochs);
}

/* Epochs and minutes become updates and seconds. */
static vtb_status plan_updates(train_options *o, vtb_error *err) {
  vtb_train_config *t = &o->train;
  int64_t runs = t->accumulate > 1 ? t->accumulate : 1,
          batch = t->step->batch * vtb_ranks_count(t->ranks) * runs,
          updates = vtb_loader_batches(vtb_dataset_count(t->train_set), batch, true);
  if (updates < 1) updates = 1;
  if (o->warmup < 0 || o->warmup_updates < 0)
    return vtb_fail(err, VTB_E_USAGE, "the warm-up must not be negative");
  o->warm = o->warmup_updates ? o->warmup_updates : (int64_t)(o->warmup * (double)updates);
  t->schedule.total = t->epochs * updates;
  t->checkpoint_seconds = 60 * o->checkpoint_minutes;
  if (t->n_plan) t->fit_seconds = 0; /* it was planned before */
  if (t->n_plan) t->schedule.total = t->plan[0].total;
  if (t->n_plan && o->warm > t->plan[0].total / 5) o->warm = t->plan[0].total / 5;
  if (o->updates) plan_evaluations(o, updates);
  return t->fit_seconds > 0 ? fit_schedule(o, updates, err) : VTB_OK;
}

/* A note on statistics of an update of several runs. */
static void say_statistics(const train_options *o) {
  const vtb_program *p = o->train.step;
  bool has = false;
  for (int i = 0; i < p->n_tensors; i++) {
    const char *name = p->tensors[i].name;
    int at =
        p->tensors[i].io == VTB_IO_UPDATE ? vtb_program_find(p, name + strlen("updated.")) : -1;
    has |= at >= 0 && p->tensors[at].io == VTB_IO_BUFFER;
  }
  if (has && o->train.accumulate > 1 && !o->quiet)
    cli_say("batch norm has the statistics of the %lld images of a run, not of an update",
            (long long)p->batch * vtb_ranks_count(o->train.ranks));
}

/* The learning rates are given for a batch of so many images. */
static vtb_status scale_rates(train_options *o, vtb_error *err) {
  vtb_schedule *s = &o->train.schedule;
  double batch = (double)o->train.step->batch * vtb_ranks_count(o->train.ranks) *
                 (double)(o->train.accumulate > 1 ? o->train.accumulate : 1);
  bool root = vtb_streq(o->lr_scaling, "sqrt");
  if (o->lr_scaling && !o->lr_batch)
    return vtb_fail(err, VTB_E_USAGE, "--lr-scaling needs --lr-batch N, which --lr is given for");
  if (!o->lr_batch) return VTB_OK;
  double by = root ? sqrt(batch / o->lr_batch) : batch / o->lr_batch;
  if (!o->quiet)
    cli_say("learning rate %g for batch %g: %g for %g (%s)", s->lr, o->lr_batch, s->lr * by, batch,
            root ? "its square root" : "linear");
  s->factor = by;
  return VTB_OK;
}

/* Evaluation sees the images as they are, training with the augmentation that was asked for. */
static vtb_status plan_images(const session *s, const train_options *o, vtb_train_config *t,
                              vtb_error *err) {
  const train_programs *c = &s->programs;
  vtb_augmentation augment = t->train_transform.augment;
  if (train_augments_inside(o) && augment.erase_prob > 0)
    return vtb_fail(err, VTB_E_USAGE,
                    "--erase is what comes last, and --augment-in step comes behind it: "
                    "random_erasing of std.augment erases there");
  if (!c->channels)
    return augment.flip || augment.shift || augment.erase_prob > 0 || augment.scale_min > 0
               ? vtb_fail(err, VTB_E_USAGE,
                          "--flip, --shift, --erase and --crop-scale are for images")
               : VTB_OK;
  const cli_prepare_sources from = {.command = "train",
                                    .model = s->model,
                                    .said = c->step->prepare,
                                    .weights = o->init.load.file,
                                    .data = t->train_set,
                                    .options = &o->prepare,
                                    .channels = c->channels,
                                    .height = c->height,
                                    .width = c->width};
  vtb_status status = cli_prepare(&from, &t->eval_transform, err);
  t->train_transform = t->eval_transform;
  t->train_transform.augment = augment;
  return status == VTB_OK ? vtb_augmentation_check(&augment, c->height, c->width, err) : status;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Which run this is: the options in the words of checkpoints, and as a recipe. */
static void name_run(const char *what, session *s, train_options *o) {
  static const char *const apart[] = {
      "--batch",        "--epochs",       "--lr",    "--final-lr",
      "--warmup",       "--weight-decay", "--clip",  "--label-smoothing",
      "--ema",          "--shift",        "--flip",  "--erase",
      "--crop-scale",   "--seed",         "--limit", "--optimizer",
      "--val-fraction", "--val-seed",     "-D"};
  describe_recipe(s->model, o, &s->recipe);
  train_record_words(o, apart, sizeof apart / sizeof *apart, &s->more);
  train_record_model_hash(what, &s->programs, s->model_hash);
}

/* A schedule that is followed, not planned anew: of the run that is repeated, or of one that
 * repeats. */
static vtb_status find_plan(session *s, const train_options *o, vtb_error *err) {
  if (o->updates) vtb_vec_push(&s->plan, ((vtb_train_plan){0, o->updates}));
  if (o->train.fit_seconds <= 0) return VTB_OK;
  if (o->again) return train_record_plan(o->again, true, &s->plan, err);
  if (o->train.resume && vtb_path_exists(s->folder.record))
    return train_record_plan(s->folder.path, false, &s->plan, err);
  return VTB_OK;
}

/* With the text of the model that is on the disk now, where a run is continued by naming it. */
static vtb_status check_sources(const session *s, const train_options *o, vtb_error *err) {
  if (!o->train.resume || s->programs.file || !vtb_path_exists(s->folder.checkpoint)) return VTB_OK;
  const char *changed = train_record_changed(&s->folder, &s->programs.sources);
  if (!changed) return VTB_OK;
  return vtb_fail(err, VTB_E_INPUT,
                  "%s is not what it was when the run began (%s/%s): `vertebra train --resume %s` "
                  "goes on with what it was",
                  changed, s->folder.sources, changed, s->folder.path);
}

/* Before anything runs: ranks of other models would wait for other sums. */
static vtb_status compare_ranks(const session *s, vtb_error *err) {
  char hash[40];
  vtb_ranks *ranks = s->options->train.ranks;
  snprintf(hash, sizeof hash, "hash=%s", s->model_hash);
  vtb_status status = vtb_train_compare(ranks, "settings", vtb_strbuf_text(&s->recipe), err);
  return status == VTB_OK ? vtb_train_compare(ranks, "text of the model", hash, err) : status;
}

static vtb_status prepare(const char *what, session *s, train_options *o, vtb_error *err) {
  vtb_status status = train_programs_optimizer(&s->programs, o, err);
  if (status == VTB_OK) status = train_schedule_open(&s->schedule, o, &s->programs);
  if (status == VTB_OK && !s->record.n) train_record_options(what, o, &s->record);
  if (status == VTB_OK) status = check_sources(s, o, err);
  if (status == VTB_OK) status = find_plan(s, o, err);
  if (status == VTB_OK && o->again) status = train_record_check(o->again, what, o, err);
  name_run(what, s, o);
  refer_to(s, &o->train);
  if (status == VTB_OK) status = compare_ranks(s, err);
  if (status == VTB_OK)
    status = train_init_plan(&o->init, s->model, &o->model, vtb_dataset_classes(o->train.train_set),
                             s->programs.height, s->programs.width, &o->train, err);
  if (status == VTB_OK) status = plan_updates(o, err);
  if (status == VTB_OK) status = scale_rates(o, err);
  if (status == VTB_OK) status = train_schedule_try(&s->schedule);
  if (status == VTB_OK) say_statistics(o);
  if (status == VTB_OK) status = plan_images(s, o, &o->train, err);
  return status;
}

/* Rank 0 makes the folder, the others are told which. */
static vtb_status enter_folder(const char *what, train_options *o, session *s, vtb_error *err) {
  run_entry entry = o->train.resume ? RUN_RESUME : o->overwrite ? RUN_OVERWRITE : RUN_NEW;
  char *path = NULL;
  vtb_status status = VTB_OK;
  if (!rank_of(s)) {
    train_signals_hold(true);
    status = run_folder_enter(&s->folder, o->out, what, vtb_dataset_name(o->train.train_set), entry,
                              err);
    guard_folder(s);
    train_signals_hold(false);
  }
  if (status == VTB_OK) status = cli_ranks_text(o->train.ranks, s->folder.path, &path, err);
  if (status == VTB_OK && rank_of(s)) run_folder_follow(&s->folder, path);
  vtb_free(path);
  return status;
}

static vtb_status open_session(const char *what, train_options *o, session *s, vtb_error *err) {
  bool built = cli_is_built(what);
  s->options = o;
  VTB_TRY(enter_folder(what, o, s, err));
  if (o->train.resume && !vtb_path_exists(s->folder.checkpoint) && !o->quiet)
    cli_say("%s holds no checkpoint yet: the run begins\n", s->folder.path);
  if (!built && !o->model.compile.batch) o->model.compile.batch = 64;
  if (built) train_record_options(what, o, &s->record); /* the rest is the file's */
  o->init.load.quiet = o->quiet;
  VTB_TRY(train_init_open(&o->init, err));
  VTB_TRY(train_layers_plan(&o->layers, &o->model, &o->train, err));
  if (o->layers.freeze.n && built)
    return vtb_fail(err, VTB_E_USAGE, "--freeze is for a model's source, and %s is compiled", what);
  if (o->trace && built)
    return vtb_fail(err, VTB_E_USAGE, "--trace is for a model's source, and %s is compiled", what);
  int classes = vtb_dataset_classes(o->train.train_set);
  vtb_status status = train_programs_open(what, o, classes, &s->programs);
  if (status != VTB_OK) return status; /* it is told */
  s->model = s->programs.file ? vtb_artefact_manifest(s->programs.file)->model
             : o->name        ? o->name
                              : what;
  s->services = o->trace ? train_trace_services(s->programs.step, (int)o->rank_threads, &s->trace)
                         : vtb_need(vtb_services_default((int)o->rank_threads));
  vtb_services_ranks(s->services, o->train.ranks);
  status = vtb_ranks_attach(o->train.ranks, s->programs.step, &s->sums, err);
  return status == VTB_OK ? prepare(what, s, o, err) : status;
}

/* ---- the training ---------------------------------------------------------------------------- */

/* Trains, and leaves the weights with all that using them needs. */
static vtb_status train_and_save(session *s, train_outcome *out, vtb_error *err) {
  vtb_trainer *trainer = NULL;
  vtb_status status = vtb_trainer_open(&s->options->train, &trainer, err);
  train_init_say(&s->options->init, status == VTB_OK);
  train_signals_begin();
  if (status == VTB_OK && s->trace)
    status = train_trace_begin(s->trace, s->services, s->options->train.ranks, err);
  if (status == VTB_OK) status = vtb_trainer_run(trainer, &out->result, err);
  if (status == VTB_OK && s->trace)
    status = train_trace_end(s->trace, s->services, s->model, s->options->trace, err);
  out->over_already = out->result.finished && !out->result.updates && !s->written;
  int64_t saves = out->result.steps && (s->written || !vtb_path_exists(s->folder.weights));
  if (status == VTB_OK)
    status = vtb_ranks_broadcast(s->options->train.ranks, 0, &saves, sizeof saves, err);
  if (status == VTB_OK && saves) status = vtb_trainer_save_weights(trainer, s->folder.weights, err);
  vtb_trainer_close(trainer);
  out->has_weights = vtb_path_exists(s->folder.weights) && out->result.steps;
  out->stopped = train_signal != 0 || out->result.stopped;
  return status;
}

static void recall(const session *s, vtb_train_result *r) {
  vtb_measures m;
  if (vtb_measures_open(&m, s->programs.step, NULL) == VTB_OK)
    train_recall(&s->folder, &m.named, r);
  vtb_measures_free(&m);
}

static vtb_status run_training(const char *what, train_options *o) {
  session s = {.folder = {.lock = -1}};
  vtb_error err = {0};
  train_outcome out = {.folder = &s.folder};
  vtb_status status = open_session(what, o, &s, &err);
  if (status == VTB_OK) status = train_and_save(&s, &out, &err);
  if (status != VTB_OK && err.text[0]) cli_error(&err);
  if (status == VTB_OK && !rank_of(&s)) {
    if (out.over_already) recall(&s, &out.result);
    if (s.written)
      train_save_curve(&s.folder, s.programs.measured,
                       o->train.eval_set ? vtb_dataset_split(o->train.eval_set) : "none");
    train_report(o, &out);
  }
  if (status == VTB_OK && out.stopped && !out.result.finished)
    status = (vtb_status)(128 + (train_signal ? train_signal : SIGTERM));
  close_session(&s);
  train_init_free(&o->init);
  train_layers_free(&o->layers);
  return status;
}

vtb_status train_session_run(const char *what, train_options *o) {
  vtb_dataset *train, *val;
  vtb_error err = {0};
  o->rank_threads = o->model.threads;
  if (cli_ranks_threads(o->train.ranks, &o->rank_threads, &err) != VTB_OK) return cli_error(&err);
  VTB_TRY(cli_data_open_training(&o->data, &train, &val));
  o->train.train_set = train;
  o->train.eval_set = val;
  o->train.loader_threads = (int)(o->data.workers ? o->data.workers : o->rank_threads);
  vtb_status status = run_training(what, o);
  if (status == VTB_OK) cli_data_say_damaged(train);
  if (status == VTB_OK && val && !vtb_dataset_held_out(val)) cli_data_say_damaged(val);
  vtb_dataset_free(train);
  vtb_dataset_free(val);
  return status;
}

/* One training, from the data set to the weights file: its schedule, its files. */
#include "frontend/cli/train_session.h"
#include "frontend/cli/train_output.h"
#include "frontend/cli/weights.h"

#include <math.h>
#include <signal.h>
#include <string.h>

static volatile int stop_requested;
static void on_signal(int number) {
  (void)number;
  stop_requested = 1;
}

static char *in_folder(const char *folder, const char *name) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "%s/%s", folder, name);
  return s.at;
}

static void describe_recipe(const char *what, const train_options *o, vtb_strbuf *out) {
  const vtb_train_config *t = &o->train;
  const vtb_compile_options *c = &o->model.compile;
  const vtb_augmentation *a = &t->train_transform.augment;
  vtb_strbuf_printf(
      out,
      "model=%s batch=%lld epochs=%lld lr=%.9g final=%.9g warmup=%.9g wd=%.9g clip=%.9g ls=%.9g "
      "ema=%.9g shift=%lld flip=%d erase=%.9g crop=%.9g seed=%lld limit=%lld optimizer=%s",
      what, (long long)(c->batch ? c->batch : 64), (long long)t->epochs, t->schedule.base_lr,
      t->schedule.final_lr, o->warmup, o->decay, t->optim.clip_norm, c->label_smoothing,
      t->optim.ema_decay, (long long)a->shift, a->flip, a->erase_prob, a->scale_min,
      (long long)t->seed, (long long)o->data.limit, c->optimizer);
  if (vtb_dataset_held_out(t->train_set))
    vtb_strbuf_printf(out, " val=%.9g/%lld", o->data.val_fraction, (long long)o->data.val_seed);
  for (size_t i = 0; i < o->model.defines.n; i++)
    vtb_strbuf_printf(out, " -D%s", o->model.defines.at[i]);
}

/* Seconds that judging the trained weights will take. */
static double evaluation_seconds(const vtb_train_config *t, vtb_error *err) {
  if (!t->eval || !t->eval_set) return 0;
  int64_t batch = t->eval->batch, n = vtb_dataset_count(t->eval_set);
  return (double)((n + batch - 1) / batch) * cli_measure_run(t->eval, t->services, 0.5, err);
}

/* A schedule for the time; the trainer reckons it anew as it goes. What measuring took, and what
 * the evaluation at the end will take, is part of the time; a fifth of it is always trained. */
static vtb_status fit_schedule(vtb_train_config *t, int64_t updates, vtb_error *err) {
  double start = vtb_now(), seconds = t->fit_seconds;
  double each = cli_measure_run(t->step, t->services, fmin(2, 0.05 * seconds), err);
  double evaluation = err->text[0] ? 0 : evaluation_seconds(t, err);
  if (err->text[0]) return err->status;
  double left = 0.97 * (seconds - (vtb_now() - start)) - 1.05 * evaluation;
  t->fit_seconds = fmax(left, 0.2 * seconds);
  if (left < 0.2 * seconds)
    fprintf(stderr, "the evaluation alone takes %.0f s of the %.0f: %.0f s are trained\n",
            evaluation, seconds, t->fit_seconds);
  int64_t planned = (int64_t)(t->fit_seconds / each);
  if (planned < 1) planned = 1;
  t->epochs = (planned + updates - 1) / updates;
  t->schedule.total = planned;
  if (t->schedule.warmup > planned / 5) t->schedule.warmup = planned / 5;
  fprintf(stderr, "%.0f ms an update: about %lld updates in %.0f s, %.0f s of evaluation\n",
          1e3 * each, (long long)planned, t->fit_seconds, evaluation);
  return VTB_OK;
}

/* What a training refers to, and the files it writes. */
typedef struct session {
  const char *model;
  train_programs programs;
  train_history history;
  vtb_services *services;
  vtb_strbuf recipe;
  char *checkpoint, *weights, *log, *plot;
} session;

static vtb_status open_session(const char *what, train_options *o, int classes, session *s) {
  vtb_error err = {0};
  o->init.load.quiet = o->quiet;
  if (train_init_open(&o->init, &err) != VTB_OK) return cli_error(&err);
  vtb_status status = train_programs_open(what, o, classes, &s->programs);
  if (status != VTB_OK) return status;
  s->model = s->programs.file ? vtb_artefact_manifest(s->programs.file)->model : what;
  s->history =
      (train_history){.quiet = o->quiet,
                      .measured = s->programs.measured,
                      .watched = o->train.eval_set ? vtb_dataset_split(o->train.eval_set) : "none"};
  s->services = vtb_need(vtb_services_default((int)o->model.threads));
  s->checkpoint = in_folder(o->out, "checkpoint.safetensors");
  s->weights = in_folder(o->out, "weights.safetensors");
  s->log = in_folder(o->out, "log");
  s->plot = in_folder(o->out, "curve.svg");
  return VTB_OK;
}

static void close_session(session *s) {
  vtb_services_free(s->services);
  train_programs_free(&s->programs);
  vtb_strbuf_free(&s->recipe);
  vtb_free(s->checkpoint);
  vtb_free(s->weights);
  vtb_free(s->log);
  vtb_free(s->plot);
  train_history_free(&s->history);
}

/* What the user cannot say: the session's part of the configuration. */
static void refer_to(session *s, vtb_train_config *t) {
  t->step = s->programs.step;
  t->eval = s->programs.eval;
  t->services = s->services;
  t->checkpoint = s->checkpoint;
  t->recipe = s->recipe.at;
  t->log = s->log;
  t->on_event = train_on_event;
  t->user = &s->history;
  t->stop = &stop_requested;
}

/* Epochs and minutes become updates and seconds. */
static vtb_status plan_updates(train_options *o, vtb_error *err) {
  vtb_train_config *t = &o->train;
  int64_t updates = vtb_loader_batches(vtb_dataset_count(t->train_set), t->step->batch, true);
  if (updates < 1) updates = 1;
  t->schedule.warmup = (int64_t)(o->warmup * (double)updates);
  t->schedule.total = t->epochs * updates;
  t->checkpoint_seconds = 60 * o->checkpoint_minutes;
  return t->fit_seconds > 0 ? fit_schedule(t, updates, err) : VTB_OK;
}

/* Evaluation sees the images as they are, training with the augmentation that was asked for. */
static vtb_status plan_images(const session *s, const train_options *o, vtb_train_config *t,
                              vtb_error *err) {
  const train_programs *c = &s->programs;
  vtb_augmentation augment = t->train_transform.augment;
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

static vtb_status prepare(session *s, train_options *o, vtb_error *err) {
  vtb_status status = train_programs_optimizer(&s->programs, o, err);
  describe_recipe(s->model, o, &s->recipe);
  refer_to(s, &o->train);
  if (status == VTB_OK)
    status = train_init_plan(&o->init, s->model, &o->model, vtb_dataset_classes(o->train.train_set),
                             s->programs.height, s->programs.width, &o->train, err);
  if (status == VTB_OK) status = plan_updates(o, err);
  if (status == VTB_OK) status = plan_images(s, o, &o->train, err);
  if (status == VTB_OK) status = vtb_make_dirs(o->out, err);
  return status;
}

/* Trains, and leaves the weights with all that using them needs. */
static vtb_status train_and_save(const session *s, train_options *o, vtb_train_result *result,
                                 vtb_error *err) {
  vtb_trainer *trainer = NULL;
  vtb_status status = vtb_trainer_open(&o->train, &trainer, err);
  if (status == VTB_OK) train_init_say(&o->init);
  if (status == VTB_OK) status = vtb_trainer_run(trainer, result, err);
  if (status == VTB_OK) status = vtb_trainer_save_weights(trainer, s->weights, err);
  vtb_trainer_close(trainer);
  if (status != VTB_OK) return status;
  char image[48]; /* what --image said is stored with the other settings */
  snprintf(image, sizeof image, "image=%dx%d", s->programs.height, s->programs.width);
  if (o->model.compile.image) cli_define(&o->model, image);
  return cli_describe_weights(s->weights, o->train.train_set, &o->train.eval_transform, s->model,
                              &o->model.defines, err);
}

static vtb_status run_training(const char *what, train_options *o) {
  session s = {0};
  vtb_error err = {0};
  vtb_train_result result = {0};
  vtb_status status = open_session(what, o, vtb_dataset_classes(o->train.train_set), &s);
  if (status == VTB_OK) {
    status = prepare(&s, o, &err);
    if (status == VTB_OK) status = train_and_save(&s, o, &result, &err);
    if (status != VTB_OK) cli_error(&err);
  }
  if (status == VTB_OK) {
    train_save_curve(&s.history, s.plot);
    train_report(o, &result, o->train.fit_seconds > 0 && !stop_requested, s.weights);
  }
  close_session(&s);
  train_init_free(&o->init);
  return status;
}

vtb_status train_session_run(const char *what, train_options *o) {
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  vtb_dataset *train, *val;
  vtb_status status = cli_data_open_training(&o->data, &train, &val);
  if (status != VTB_OK) return status;
  o->train.train_set = train;
  o->train.eval_set = val;
  o->train.loader_threads = (int)o->data.workers;
  status = run_training(what, o);
  cli_data_say_damaged(train);
  if (val && !vtb_dataset_held_out(val)) cli_data_say_damaged(val);
  vtb_dataset_free(train);
  vtb_dataset_free(val);
  return status;
}

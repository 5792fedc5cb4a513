/* vertebra train: a model by the losses that it declares, or a classifier by its labels, with
 * checkpoints, exact resume, a log and a curve. */
#include "frontend/cli/train_programs.h"
#include "frontend/cli/weights.h"
#include "runtime/train/plot.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef VTB_VEC(char *) word_list;

static volatile int stop_requested;
static void on_signal(int number) {
  (void)number;
  stop_requested = 1;
}

static train_options defaults(void) {
  train_options o = {.train = vtb_train_defaults(),
                     .out = "run",
                     .warmup = 0.5,
                     .decay = NAN,
                     .checkpoint_minutes = 2};
  o.train.schedule = (vtb_schedule){.kind = VTB_SCHEDULE_COSINE, .base_lr = 1e-3, .final_lr = 1e-6};
  o.train.optim.clip_norm = 1;
  return o;
}

/* `name = value` lines become options read before the command line's. */
static vtb_status read_recipe(const char *path, const cli_opt *opts, int n_opts, word_list *words) {
  char *text;
  size_t n;
  vtb_error err = {0};
  vtb_status status = vtb_file_read(path, 1u << 20, &text, &n, &err);
  if (status != VTB_OK) return cli_error(&err);
  int number = 0;
  char *rest = text;
  for (char *line; status == VTB_OK && (line = strsep(&rest, "\n"));) {
    number++;
    char *hash = strchr(line, '#');
    if (hash) *hash = 0;
    while (*line == ' ' || *line == '\t') line++;
    size_t len = strlen(line);
    while (len && strchr(" \t\r", line[len - 1])) line[--len] = 0;
    if (!len) continue;
    char *eq = strchr(line, '=');
    vtb_strbuf name = {0};
    vtb_strbuf_printf(&name, "%s%.*s", line[0] == '-' ? "" : "--",
                      (int)(eq ? strcspn(line, " \t=") : len), line);
    bool known = false, flag = false;
    for (int i = 0; i < n_opts; i++) {
      known |= strcmp(opts[i].name, name.at) == 0;
      if (strcmp(opts[i].name, name.at) == 0) flag = opts[i].kind == CLI_FLAG;
    }
    char *value = eq ? eq + 1 + strspn(eq + 1, " \t") : NULL;
    if (line[0] == '-' && line[1] == 'D') { /* -D name=value */
      vtb_vec_push(words, vtb_xstrdup("-D"));
      vtb_vec_push(words, vtb_xstrdup(line + 2 + strspn(line + 2, " \t")));
    } else if (!known || (!flag && !value)) {
      fprintf(stderr, "vertebra train: %s:%d: %s '%s'\n", path, number,
              known ? "no value for" : "unknown option", name.at + 2);
      status = VTB_E_INPUT;
    } else if (!flag || strcmp(value ? value : "true", "true") == 0) {
      vtb_vec_push(words, vtb_xstrdup(name.at));
      if (!flag) vtb_vec_push(words, vtb_xstrdup(value));
    }
    vtb_strbuf_free(&name);
  }
  vtb_free(text);
  return status;
}

/* Of a classifier training accuracy as a mean over windows of a fiftieth of the run, test accuracy
 * where it was measured. Of a model that declares what it is measured by its score, an epoch a
 * point; where that is the loss, or there is no second epoch, the loss as a mean over windows. */
typedef struct curve {
  VTB_VEC(double) train_at, train, eval_at, eval;
  VTB_VEC(double) score_at, score, eval_score;
  const char *score_name;
  double window_sum;
  int64_t window_steps;
  vtb_progress progress;
  bool quiet, measured;
} curve;

static void on_event(void *user, const vtb_train_event *e) {
  curve *c = user;
  if (e->kind == VTB_TRAIN_STEP) {
    int64_t window = e->total_steps > 50 ? e->total_steps / 50 : 1;
    c->window_sum += c->measured ? e->loss : 100 * e->accuracy;
    if (++c->window_steps >= window) {
      vtb_vec_push(&c->train_at, (double)e->step);
      vtb_vec_push(&c->train, c->window_sum / (double)c->window_steps);
      c->window_sum = 0;
      c->window_steps = 0;
    }
  }
  if (e->kind == VTB_TRAIN_EPOCH && e->evaluated) {
    vtb_vec_push(&c->eval_at, (double)e->step);
    vtb_vec_push(&c->eval, e->eval ? e->eval_loss : 100 * e->eval_top1);
  }
  if (e->kind == VTB_TRAIN_EPOCH && e->train && e->eval && vtb_measured_main(e->train) >= 0) {
    c->score_name = vtb_measured_score_name(e->train);
    vtb_vec_push(&c->score_at, (double)e->step);
    vtb_vec_push(&c->score, vtb_measured_score(e->train));
    vtb_vec_push(&c->eval_score, vtb_measured_score(e->eval));
  }
  if (!c->quiet) vtb_progress_event(&c->progress, e);
}

static void save_curve(const curve *c, const char *path) {
  vtb_plot_series series[2] = {
      {.name = "training", .x = c->train_at.at, .y = c->train.at, .n = c->train_at.n},
      {.name = "test", .x = c->eval_at.at, .y = c->eval.at, .n = c->eval_at.n}};
  vtb_plot p = {.title = c->measured ? "loss" : "top-1 accuracy",
                .x_label = "update",
                .y_label = c->measured ? "" : "%",
                .series = series,
                .n_series = 2};
  vtb_error err = {0};
  if (c->score_at.n > 1) {
    p.title = c->score_name;
    series[0] = (vtb_plot_series){"training", c->score_at.at, c->score.at, c->score_at.n};
    series[1] = (vtb_plot_series){"test", c->score_at.at, c->eval_score.at, c->score_at.n};
  }
  if (c->train_at.n > 1 && vtb_plot_save(&p, path, &err) != VTB_OK) cli_error(&err);
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
      (long long)t->seed, (long long)o->limit, c->optimizer);
  for (size_t i = 0; i < o->model.defines.n; i++)
    vtb_strbuf_printf(out, " -D%s", o->model.defines.at[i]);
}

static void add_measures(cJSON *j, const char *name, const vtb_measured_list *l) {
  cJSON *object = l->n ? cJSON_AddObjectToObject(j, name) : NULL;
  for (int i = 0; i < l->n; i++) cJSON_AddNumberToObject(object, l->at[i].name, l->at[i].value);
}

static void report_json(const vtb_train_result *r, const char *weights) {
  cJSON *j = cJSON_CreateObject();
  cJSON_AddNumberToObject(j, "steps", (double)r->steps);
  cJSON_AddNumberToObject(j, "epochs", (double)r->epochs);
  cJSON_AddBoolToObject(j, "finished", r->finished);
  cJSON_AddNumberToObject(j, "loss", r->loss);
  if (!r->train.n) {
    cJSON_AddNumberToObject(j, "eval_top1", r->eval_top1);
    cJSON_AddNumberToObject(j, "eval_top5", r->eval_top5);
  }
  add_measures(j, "train", &r->train);
  if (r->eval.n) cJSON_AddNumberToObject(j, "eval_loss", r->eval_loss);
  add_measures(j, "eval", &r->eval);
  cJSON_AddNumberToObject(j, "skipped", (double)r->skipped);
  cJSON_AddNumberToObject(j, "seconds", r->seconds);
  cJSON_AddNumberToObject(j, "images_per_second", r->images_per_second);
  cJSON_AddStringToObject(j, "weights", weights);
  cli_print_json(j);
}

static void report(const train_options *o, const vtb_train_result *r, bool complete,
                   const char *weights) {
  if (o->model.json) {
    report_json(r, weights);
    return;
  }
  printf("%lld updates in %.0f s (%.0f %s/s), loss %.4f, ", (long long)r->steps, r->seconds,
         r->images_per_second, vtb_dataset_has_images(o->train.train_set) ? "img" : "samples",
         r->loss);
  if (r->train.n) {
    printf("test loss %.4f", r->eval_loss);
    cli_print_measures(&r->eval, "test ");
  } else {
    printf("test top-1 %.2f %%, top-5 %.2f %%", 100 * r->eval_top1, 100 * r->eval_top5);
  }
  printf("%s\nweights: %s\n", r->finished || complete ? "" : " (stopped early; --resume continues)",
         weights);
  if (r->skipped)
    printf("%lld batches were skipped, whose gradients overflowed at the loss scale of the time\n",
           (long long)r->skipped);
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
  curve history;
  vtb_services *services;
  vtb_strbuf recipe;
  char *checkpoint, *weights, *log, *plot;
} session;

static vtb_status open_session(const char *what, train_options *o, int classes, session *s) {
  vtb_status status = train_programs_open(what, o, classes, &s->programs);
  if (status != VTB_OK) return status;
  s->model = s->programs.file ? vtb_artefact_manifest(s->programs.file)->model : what;
  s->history = (curve){
      .progress = vtb_progress_to(stderr), .quiet = o->quiet, .measured = s->programs.measured};
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
  vtb_vec_free(&s->history.train_at);
  vtb_vec_free(&s->history.train);
  vtb_vec_free(&s->history.eval_at);
  vtb_vec_free(&s->history.eval);
  vtb_vec_free(&s->history.score_at);
  vtb_vec_free(&s->history.score);
  vtb_vec_free(&s->history.eval_score);
}

/* What the user cannot say: the session's part of the configuration. */
static void refer_to(session *s, vtb_train_config *t) {
  t->step = s->programs.step;
  t->eval = s->programs.eval;
  t->services = s->services;
  t->checkpoint = s->checkpoint;
  t->recipe = s->recipe.at;
  t->log = s->log;
  t->on_event = on_event;
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
static vtb_status plan_images(const train_programs *c, vtb_train_config *t, vtb_error *err) {
  vtb_augmentation augment = t->train_transform.augment;
  if (!c->channels)
    return augment.flip || augment.shift || augment.erase_prob > 0 || augment.scale_min > 0
               ? vtb_fail(err, VTB_E_USAGE,
                          "--flip, --shift, --erase and --crop-scale are for images")
               : VTB_OK;
  vtb_status status =
      vtb_transform_init(&t->eval_transform, t->train_set, c->channels, c->height, c->width, err);
  t->train_transform = t->eval_transform;
  t->train_transform.augment = augment;
  return status;
}

static vtb_status prepare(session *s, train_options *o, vtb_error *err) {
  vtb_status status = train_programs_optimizer(&s->programs, o, err);
  describe_recipe(s->model, o, &s->recipe);
  refer_to(s, &o->train);
  if (status == VTB_OK) status = plan_updates(o, err);
  if (status == VTB_OK) status = plan_images(&s->programs, &o->train, err);
  if (status == VTB_OK) status = vtb_make_dirs(o->out, err);
  return status;
}

/* Trains, and leaves the weights with all that using them needs. */
static vtb_status train_and_save(const session *s, train_options *o, vtb_train_result *result,
                                 vtb_error *err) {
  vtb_trainer *trainer = NULL;
  vtb_status status = vtb_trainer_open(&o->train, &trainer, err);
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
    save_curve(&s.history, s.plot);
    report(o, &result, o->train.fit_seconds > 0 && !stop_requested, s.weights);
  }
  close_session(&s);
  return status;
}

/* Folders without splits give the same files for both. */
static void warn_of_same_files(const char *path, const vtb_dataset *train,
                               const vtb_dataset *test) {
  const char *a = vtb_dataset_count(train) > 0 ? vtb_dataset_file(train, 0) : NULL;
  const char *b = vtb_dataset_count(test) > 0 ? vtb_dataset_file(test, 0) : NULL;
  if (a && b && vtb_streq(a, b))
    fprintf(stderr,
            "vertebra train: warning: the images of %s are both trained on and tested on; folders "
            "train/ and val/ in it keep them apart\n",
            path);
}

static vtb_status open_and_train(const char *what, train_options *o) {
  vtb_error err = {0};
  vtb_dataset *train = NULL, *test = NULL;
  vtb_status status = vtb_dataset_open(
      o->data, &(vtb_dataset_options){.split = "train", .limit = o->limit}, &train, &err);
  if (status == VTB_OK)
    status = vtb_dataset_open(o->data, &(vtb_dataset_options){.split = "test"}, &test, &err);
  if (status == VTB_OK && vtb_dataset_classes(train) != vtb_dataset_classes(test))
    status = vtb_fail(&err, VTB_E_INPUT, "%s: %d classes to train on but %d to test on", o->data,
                      vtb_dataset_classes(train), vtb_dataset_classes(test));
  o->train.train_set = train;
  o->train.eval_set = test;
  if (status != VTB_OK) {
    cli_error(&err);
  } else {
    warn_of_same_files(o->data, train, test);
    status = run_training(what, o);
  }
  vtb_dataset_free(train);
  vtb_dataset_free(test);
  return status;
}

/* The command line, over the recipe that it names. `words`: what it consists of then. */
static int parse(train_options *o, const cli_opt *opts, int n, int argc, char **argv,
                 word_list *words, cli_list *rest) {
  int parsed = cli_parse("train", opts, n, argc, argv, rest);
  if (parsed || !o->recipe) return parsed;
  vtb_vec_push(words, vtb_xstrdup("train"));
  vtb_status status = read_recipe(o->recipe, opts, n, words);
  if (status != VTB_OK) return (int)status;
  for (int i = 1; i < argc; i++) vtb_vec_push(words, vtb_xstrdup(argv[i]));
  vtb_vec_free(&o->model.defines);
  *o = defaults();
  rest->n = 0;
  return cli_parse("train", opts, n, (int)words->n, words->at, rest);
}

static vtb_status train_command(train_options *o, const cli_opt *opts, int n, int argc,
                                char **argv) {
  word_list words = {0};
  cli_list rest = {0};
  int parsed = parse(o, opts, n, argc, argv, &words, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (rest.n != 1) return cli_usage_error("train", "one MODEL or built FILE is needed");
  if (!o->data)
    return cli_usage_error("train", "--data D is needed (for example: --data fashion-mnist)");
  cli_model_parsed(&o->model);
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  vtb_status status = open_and_train(rest.at[0], o);
  for (size_t i = 0; i < words.n; i++) vtb_free(words.at[i]);
  vtb_vec_free(&words);
  vtb_vec_free(&rest);
  cli_model_options_free(&o->model);
  return status;
}

vtb_status cli_cmd_train(int argc, char **argv) {
  train_options o = defaults();
  const cli_opt opts[] = {
      {"--data", CLI_STR, &o.data, "D",
       "fashion-mnist, a folder of IDX files, folders train/ and val/ of classes, of images/ and "
       "labels/, or arrays: FILE.safetensors, a folder of .npy files"},
      {"--out", CLI_STR, &o.out, "DIR",
       "folder for weights, checkpoint, log and curve (default run)"},
      {"--recipe", CLI_STR, &o.recipe, "FILE",
       "options from a file, one `name = value` a line; the command line wins"},
      {"--resume", CLI_FLAG, &o.train.resume, NULL,
       "continue exactly where the checkpoint in --out stands"},
      {"--init", CLI_STR, &o.train.init_weights, "FILE",
       "start from these weights; tensors it lacks are initialised"},
      {"--epochs", CLI_INT, &o.train.epochs, "N", "passes over the data (default 10)"},
      {"--max-seconds", CLI_FLOAT, &o.train.max_seconds, "S",
       "stop, with a checkpoint, after that time"},
      {"--fit-seconds", CLI_FLOAT, &o.train.fit_seconds, "S",
       "plan the updates, and so the schedule, for S seconds on this machine"},
      {"--max-steps", CLI_INT, &o.train.max_steps, "N",
       "stop, with a checkpoint, after that many updates"},
      {"--optimizer", CLI_STR, &o.model.compile.optimizer, "NAME",
       "adamw (default), sgd, lamb, lars, lion or a .vtb file; \"lamb(beta1 = 0.95)\" sets more"},
      {"--lr", CLI_FLOAT, &o.train.schedule.base_lr, "X", "peak learning rate (default 1e-3)"},
      {"--final-lr", CLI_FLOAT, &o.train.schedule.final_lr, "X",
       "learning rate at the end of the cosine (default 1e-6)"},
      {"--warmup", CLI_FLOAT, &o.warmup, "E", "epochs of linear warm-up (default 0.5)"},
      {"--weight-decay", CLI_FLOAT, &o.decay, "X",
       "weight decay (default: the optimizer's, adamw 0.05)"},
      {"--clip", CLI_FLOAT, &o.train.optim.clip_norm, "X",
       "gradient norm clip, 0: off (default 1)"},
      {"--loss-scale", CLI_FLOAT, &o.train.loss_scale, "X",
       "fp16: what the loss is multiplied by at first; it halves on overflow (default 65536)"},
      {"--label-smoothing", CLI_FLOAT, &o.model.compile.label_smoothing, "X", "default 0"},
      {"--ema", CLI_FLOAT, &o.train.optim.ema_decay, "D",
       "also average the weights with this decay, and evaluate the average"},
      {"--shift", CLI_INT, &o.train.train_transform.augment.shift, "N",
       "augmentation: pad by N pixels and crop at random"},
      {"--flip", CLI_FLAG, &o.train.train_transform.augment.flip, NULL,
       "augmentation: mirror with probability 1/2"},
      {"--erase", CLI_FLOAT, &o.train.train_transform.augment.erase_prob, "P",
       "augmentation: erase a random rectangle with probability P"},
      {"--crop-scale", CLI_FLOAT, &o.train.train_transform.augment.scale_min, "A",
       "augmentation: random resized crop of area fraction A to 1"},
      {"--seed", CLI_INT, &o.train.seed, "N", "everything random follows from it (default 0)"},
      {"--limit", CLI_INT, &o.limit, "N", "train on the first N images only"},
      {"--eval-batch", CLI_INT, &o.model.compile.eval_batch, "N",
       "images at a time in evaluation (default 4 x batch)"},
      {"--checkpoint-minutes", CLI_FLOAT, &o.checkpoint_minutes, "M",
       "also checkpoint that often within an epoch (default 2)"},
      {"--quiet", CLI_FLAG, &o.quiet, NULL, "no progress"},
      CLI_TARGET_OPT(o.model),
      CLI_MODEL_OPTS(o.model)};
  return train_command(&o, opts, CLI_COUNT(opts), argc, argv);
}

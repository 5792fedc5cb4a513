/* vertebra train: a classifier from labelled images, with checkpoints, exact resume, a log and a
 * curve. */
#include "frontend/cli/built.h"
#include "frontend/cli/weights.h"
#include "runtime/train/plot.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct train_options {
  cli_model_options model;
  const char *data, *out, *recipe, *init, *optimizer;
  int64_t epochs, seed, shift, limit, eval_batch, max_steps;
  double lr, final_lr, warmup, decay, clip, smoothing, erase, ema, max_seconds, fit_seconds,
      crop_scale, checkpoint_minutes, loss_scale;
  bool resume, flip, quiet;
} train_options;

typedef VTB_VEC(char *) word_list;

static volatile int stop_requested;
static void on_signal(int number) {
  (void)number;
  stop_requested = 1;
}

static train_options defaults(void) {
  return (train_options){.data = NULL,
                         .out = "run",
                         .epochs = 10,
                         .lr = 1e-3,
                         .final_lr = 1e-6,
                         .warmup = 0.5,
                         .decay = NAN, /* the optimizer's own */
                         .clip = 1,
                         .checkpoint_minutes = 2};
}

enum { N_TRAIN_OPTS = 29 };

static int train_opts(train_options *t, cli_opt *rows) {
  const cli_opt table[] = {
      {"--data", CLI_STR, &t->data, "D",
       "fashion-mnist, a folder of IDX files, or folders train/ and val/ of classes"},
      {"--out", CLI_STR, &t->out, "DIR",
       "folder for weights, checkpoint, log and curve (default run)"},
      {"--recipe", CLI_STR, &t->recipe, "FILE",
       "options from a file, one `name = value` a line; the command line wins"},
      {"--resume", CLI_FLAG, &t->resume, NULL,
       "continue exactly where the checkpoint in --out stands"},
      {"--init", CLI_STR, &t->init, "FILE",
       "start from these weights; tensors it lacks are initialised"},
      {"--epochs", CLI_INT, &t->epochs, "N", "passes over the data (default 10)"},
      {"--max-seconds", CLI_FLOAT, &t->max_seconds, "S",
       "stop, with a checkpoint, after that time"},
      {"--fit-seconds", CLI_FLOAT, &t->fit_seconds, "S",
       "plan the updates, and so the schedule, for S seconds on this machine"},
      {"--max-steps", CLI_INT, &t->max_steps, "N",
       "stop, with a checkpoint, after that many updates"},
      {"--optimizer", CLI_STR, &t->optimizer, "NAME",
       "adamw (default), sgd, lamb, lars, lion or a .vtb file; \"lamb(beta1 = 0.95)\" sets more"},
      {"--lr", CLI_FLOAT, &t->lr, "X", "peak learning rate (default 1e-3)"},
      {"--final-lr", CLI_FLOAT, &t->final_lr, "X",
       "learning rate at the end of the cosine (default 1e-6)"},
      {"--warmup", CLI_FLOAT, &t->warmup, "E", "epochs of linear warm-up (default 0.5)"},
      {"--weight-decay", CLI_FLOAT, &t->decay, "X",
       "weight decay (default: the optimizer's, adamw 0.05)"},
      {"--clip", CLI_FLOAT, &t->clip, "X", "gradient norm clip, 0: off (default 1)"},
      {"--loss-scale", CLI_FLOAT, &t->loss_scale, "X",
       "fp16: what the loss is multiplied by at first; it halves on overflow (default 65536)"},
      {"--label-smoothing", CLI_FLOAT, &t->smoothing, "X", "default 0"},
      {"--ema", CLI_FLOAT, &t->ema, "D",
       "also average the weights with this decay, and evaluate the average"},
      {"--shift", CLI_INT, &t->shift, "N", "augmentation: pad by N pixels and crop at random"},
      {"--flip", CLI_FLAG, &t->flip, NULL, "augmentation: mirror with probability 1/2"},
      {"--erase", CLI_FLOAT, &t->erase, "P",
       "augmentation: erase a random rectangle with probability P"},
      {"--crop-scale", CLI_FLOAT, &t->crop_scale, "A",
       "augmentation: random resized crop of area fraction A to 1"},
      {"--seed", CLI_INT, &t->seed, "N", "everything random follows from it (default 0)"},
      {"--limit", CLI_INT, &t->limit, "N", "train on the first N images only"},
      {"--eval-batch", CLI_INT, &t->eval_batch, "N",
       "images at a time in evaluation (default 4 x batch)"},
      {"--checkpoint-minutes", CLI_FLOAT, &t->checkpoint_minutes, "M",
       "also checkpoint that often within an epoch (default 2)"},
      {"--quiet", CLI_FLAG, &t->quiet, NULL, "no progress"},
      CLI_TARGET_OPT(t->model)};
  memcpy(rows, table, sizeof table);
  cli_model_opts(&t->model, rows + sizeof table / sizeof *table);
  return (int)(sizeof table / sizeof *table) + CLI_N_MODEL_OPTS;
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

/* Training accuracy as a mean over windows of a fiftieth of the run, test accuracy where it was
 * measured. */
typedef struct curve {
  VTB_VEC(double) train_at, train, eval_at, eval;
  double window_sum;
  int64_t window_steps;
  vtb_progress progress;
  bool quiet;
} curve;

static void on_event(void *user, const vtb_train_event *e) {
  curve *c = user;
  if (e->kind == VTB_TRAIN_STEP) {
    int64_t window = e->total_steps > 50 ? e->total_steps / 50 : 1;
    c->window_sum += 100 * e->accuracy;
    if (++c->window_steps >= window) {
      vtb_vec_push(&c->train_at, (double)e->step);
      vtb_vec_push(&c->train, c->window_sum / (double)c->window_steps);
      c->window_sum = 0;
      c->window_steps = 0;
    }
  }
  if (e->kind == VTB_TRAIN_EPOCH && e->evaluated) {
    vtb_vec_push(&c->eval_at, (double)e->step);
    vtb_vec_push(&c->eval, 100 * e->eval_top1);
  }
  if (!c->quiet) vtb_progress_event(&c->progress, e);
}

static void save_curve(const curve *c, const char *path) {
  vtb_plot_series series[2] = {
      {.name = "training", .x = c->train_at.at, .y = c->train.at, .n = c->train_at.n},
      {.name = "test", .x = c->eval_at.at, .y = c->eval.at, .n = c->eval_at.n}};
  vtb_plot p = {.title = "top-1 accuracy",
                .x_label = "update",
                .y_label = "%",
                .series = series,
                .n_series = 2};
  vtb_error err = {0};
  if (c->train_at.n > 1 && vtb_plot_save(&p, path, &err) != VTB_OK) cli_error(&err);
}

typedef struct compiled {
  vtb_program *step, *eval;
  int channels, height, width, classes;
  vtb_artefact *file; /* both are from it; NULL: compiled here */
  vtb_optimizer_choice optimizer;
  char name[VTB_OPTIM_NAME];  /* of the step's optimizer */
  VTB_VEC(vtb_setting) given; /* hyperparameters that are not the step's defaults */
  cJSON *settings;            /* the texts of its defines */
} compiled;

static int logits_classes(const vtb_func *f) {
  const vtb_type *t = f->n_returns ? &f->returns[0]->type : NULL;
  return t && t->rank == 2 ? (int)t->dim[1].size : 0;
}

static vtb_status wrong_classes(const vtb_compilation *c, const train_options *o, const char *what,
                                int have, int classes) {
  for (size_t i = 0; i < o->model.defines.n; i++)
    if (vtb_starts_with(o->model.defines.at[i], "num_classes="))
      return vtb_fail(&c->report->error, VTB_E_INPUT, "the data has %d classes, but -D %s", classes,
                      o->model.defines.at[i]);
  return vtb_fail(&c->report->error, VTB_E_INPUT,
                  "the data has %d classes and %s gives %d scores; set its number of classes with "
                  "-D",
                  classes, what, have);
}

/* The model for this many classes: the hyperparameter num_classes follows the data unless the
 * user set it. */
static vtb_status load_for_classes(const char *what, train_options *o, bool training, int classes,
                                   char define[64], vtb_compilation *c) {
  vtb_compile_options with = cli_compile_options(&o->model, what);
  with.training = training;
  with.label_smoothing = o->smoothing;
  with.optimizer = o->optimizer ? o->optimizer : CLI_DEFAULT_OPTIMIZER;
  with.average = o->ema > 0;
  vtb_status status = vtb_compilation_load(c, &with, NULL, o->model.report);
  int have = status == VTB_OK ? logits_classes(c->module->entry) : 0;
  if (status != VTB_OK || have == classes) return status;
  if (!have)
    return vtb_fail(&c->report->error, VTB_E_INPUT,
                    "%s has no class scores to train: its first output must be [batch, classes]",
                    what);
  bool again = define[0] == '\0';
  for (size_t i = 0; i < o->model.defines.n; i++)
    again &= !vtb_starts_with(o->model.defines.at[i], "num_classes=");
  if (!again) return wrong_classes(c, o, what, have, classes);
  vtb_compilation_free(c);
  snprintf(define, 64, "num_classes=%d", classes);
  cli_define(&o->model, define);
  return load_for_classes(what, o, training, classes, define, c);
}

static vtb_status compile_step(const char *what, train_options *o, int classes, char define[64],
                               int64_t batch, compiled *out) {
  vtb_compilation c;
  vtb_status status = load_for_classes(what, o, true, classes, define, &c);
  if (status == VTB_OK) status = vtb_compilation_graph(&c);
  if (status == VTB_OK)
    status = vtb_compilation_image_size(&c, &out->channels, &out->height, &out->width);
  if (status == VTB_OK) status = vtb_compilation_train(&c);
  if (status == VTB_OK) status = vtb_compilation_program(&c, batch, false, &out->step);
  vtb_compilation_free(&c);
  return status;
}

static vtb_status compile_eval(const char *what, train_options *o, int classes, char define[64],
                               int64_t batch, compiled *out) {
  vtb_compilation c;
  vtb_status status = load_for_classes(what, o, false, classes, define, &c);
  if (status == VTB_OK) status = vtb_compilation_graph(&c);
  if (status == VTB_OK) status = vtb_compilation_program(&c, batch, false, &out->eval);
  vtb_compilation_free(&c);
  return status;
}

static vtb_status compile_both(const char *what, train_options *o, int classes, char define[64],
                               compiled *c) {
  int64_t batch = o->model.compile.batch ? o->model.compile.batch : 64;
  vtb_status status = compile_step(what, o, classes, define, batch, c);
  if (status == VTB_OK)
    status = compile_eval(what, o, classes, define, o->eval_batch ? o->eval_batch : 4 * batch, c);
  return cli_report(&o->model, status);
}

/* ---- built files instead of a model ---------------------------------------------------------- */

/* What was decided when the file was built: settings as if they were the user's, so that a run of
 * the file and one of its model write the same. */
static void take_settings(train_options *o, compiled *c) {
  const vtb_manifest *m = vtb_artefact_manifest(c->file);
  const char *smoothing = vtb_manifest_meta(m, "label_smoothing"),
             *defines = vtb_manifest_meta(m, "defines");
  o->smoothing = smoothing ? strtod(smoothing, NULL) : 0;
  o->model.compile.image = vtb_manifest_meta(m, "image");
  o->model.compile.batch = c->step->batch;
  o->model.compile.precision = m->precision;
  c->settings = defines ? cJSON_Parse(defines) : NULL;
  cJSON *item;
  cJSON_ArrayForEach(item, c->settings) if (cJSON_IsString(item))
      cli_define(&o->model, item->valuestring);
}

/* Options that the step has compiled in, one way or the other. */
static vtb_status check_built(const char *path, const train_options *o, int classes,
                              const compiled *c) {
  const char *text = vtb_manifest_meta(vtb_artefact_manifest(c->file), "label_smoothing");
  bool averages = vtb_optim_has_averages(c->step);
  int64_t have = 0;
  for (int i = 0; i < c->step->n_tensors; i++) {
    const vtb_tensor_info *t = &c->step->tensors[i];
    if (t->io == VTB_IO_OUTPUT && t->rank == 2 && !have) have = t->dim[1];
  }
  if (have != classes) {
    fprintf(stderr,
            "vertebra train: the data has %d classes and %s gives %lld scores: build it with -D "
            "num_classes=%d\n",
            classes, path, (long long)have, classes);
    return VTB_E_INPUT;
  }
  if (o->smoothing > 0 && (!text || o->smoothing != strtod(text, NULL)))
    return cli_usage_error("train", "%s was built with --label-smoothing %s", path,
                           text ? text : "0");
  if (averages != (o->ema > 0))
    return cli_usage_error("train", "%s was built %s averages: %s", path,
                           averages ? "with" : "without",
                           averages ? "--ema D is needed" : "build it with --ema");
  return VTB_OK;
}

static vtb_status open_both(const char *path, train_options *o, int classes, compiled *c) {
  vtb_status status = cli_built_open("train", path, &o->model, &c->file);
  if (status == VTB_OK)
    status =
        cli_built_program(c->file, VTB_ARTEFACT_STEP, &o->model, o->model.compile.batch, &c->step);
  if (status == VTB_OK)
    status = cli_built_program(c->file, VTB_ARTEFACT_INFERENCE, &o->model, o->eval_batch, &c->eval);
  if (status == VTB_OK) status = check_built(path, o, classes, c);
  if (status != VTB_OK) return status;
  vtb_error err = {0};
  status = cli_program_image_size(c->eval, &c->channels, &c->height, &c->width, &err);
  if (status != VTB_OK) return cli_error(&err);
  if (vtb_artefact_weights(c->file) && !o->init)
    fprintf(
        stderr,
        "vertebra train: the weights in %s are not used: --init FILE starts from a weights file\n",
        path);
  take_settings(o, c);
  return VTB_OK;
}

static void free_compiled(compiled *c) {
  vtb_program_free(c->step);
  vtb_program_free(c->eval);
  vtb_artefact_close(c->file);
  cJSON_Delete(c->settings);
  vtb_optimizer_free(&c->optimizer);
  vtb_vec_free(&c->given);
}

/* A file's optimizer is compiled: it must be the one, and only its numbers can be set. */
static vtb_status set_built(const char *text, compiled *c, vtb_error *err) {
  vtb_optimizer_choice *o = &c->optimizer;
  vtb_status status = vtb_optimizer_parse(text, o, err);
  if (status == VTB_OK && strcmp(o->what, c->name) != 0)
    return vtb_fail(err, VTB_E_USAGE,
                    "the file updates by %s, which is compiled: build it with --optimizer %s",
                    c->name, o->what);
  for (size_t i = 0; i < o->defines.n && status == VTB_OK; i++) {
    const char *given = o->defines.at[i], *eq = strchr(given, '=');
    char *end;
    vtb_setting s = {vtb_arena_strndup(&o->arena, given, (size_t)(eq - given)),
                     strtod(eq + 1, &end)};
    if (*end)
      return vtb_fail(err, VTB_E_USAGE, "%s: of a built file only numbers can be set", given);
    vtb_vec_push(&c->given, s);
  }
  return status;
}

/* The settings of the update: of a file those of --optimizer, of both --weight-decay. */
static vtb_status take_optimizer(train_options *o, compiled *c, vtb_optim_config *out,
                                 vtb_error *err) {
  vtb_optim_name(c->step, c->name);
  if (!o->optimizer) o->optimizer = c->name;
  vtb_status status = c->file ? set_built(o->optimizer, c, err) : VTB_OK;
  if (!isnan(o->decay))
    vtb_vec_push(&c->given, ((vtb_setting){"decay", o->decay}));
  else if (!vtb_optim_default(c->step, "decay", &o->decay))
    o->decay = 0;
  *out = (vtb_optim_config){.settings = c->given.at,
                            .n_settings = (int)c->given.n,
                            .clip_norm = o->clip,
                            .ema_decay = o->ema};
  return status;
}

static char *in_folder(const char *folder, const char *name) {
  vtb_strbuf s = {0};
  vtb_strbuf_printf(&s, "%s/%s", folder, name);
  return s.at;
}

static void describe_recipe(const char *what, const train_options *o, vtb_strbuf *out) {
  vtb_strbuf_printf(
      out,
      "model=%s batch=%lld epochs=%lld lr=%.9g final=%.9g warmup=%.9g wd=%.9g clip=%.9g ls=%.9g "
      "ema=%.9g shift=%lld flip=%d erase=%.9g crop=%.9g seed=%lld limit=%lld optimizer=%s",
      what, (long long)(o->model.compile.batch ? o->model.compile.batch : 64), (long long)o->epochs,
      o->lr, o->final_lr, o->warmup, o->decay, o->clip, o->smoothing, o->ema, (long long)o->shift,
      o->flip, o->erase, o->crop_scale, (long long)o->seed, (long long)o->limit, o->optimizer);
  for (size_t i = 0; i < o->model.defines.n; i++)
    vtb_strbuf_printf(out, " -D%s", o->model.defines.at[i]);
}

static void report(const train_options *o, const vtb_train_result *r, bool complete,
                   const char *weights) {
  if (o->model.json) {
    cJSON *j = cJSON_CreateObject();
    cJSON_AddNumberToObject(j, "steps", (double)r->steps);
    cJSON_AddNumberToObject(j, "epochs", (double)r->epochs);
    cJSON_AddBoolToObject(j, "finished", r->finished);
    cJSON_AddNumberToObject(j, "loss", r->loss);
    cJSON_AddNumberToObject(j, "eval_top1", r->eval_top1);
    cJSON_AddNumberToObject(j, "eval_top5", r->eval_top5);
    cJSON_AddNumberToObject(j, "skipped", (double)r->skipped);
    cJSON_AddNumberToObject(j, "seconds", r->seconds);
    cJSON_AddNumberToObject(j, "images_per_second", r->images_per_second);
    cJSON_AddStringToObject(j, "weights", weights);
    cli_print_json(j);
    return;
  }
  printf("%lld updates in %.0f s (%.0f img/s), loss %.4f, test top-1 %.2f %%, top-5 %.2f "
         "%%%s\nweights: %s\n",
         (long long)r->steps, r->seconds, r->images_per_second, r->loss, 100 * r->eval_top1,
         100 * r->eval_top5, r->finished || complete ? "" : " (stopped early; --resume continues)",
         weights);
  if (r->skipped)
    printf("%lld batches were skipped, whose gradients overflowed at the loss scale of the time\n",
           (long long)r->skipped);
}

/* A schedule for the time; the trainer reckons it anew as it goes. Some of the time is kept for
 * evaluation. */
static vtb_status fit_schedule(vtb_train_config *t, double seconds, int64_t updates,
                               vtb_error *err) {
  double each = cli_measure_run(t->step, t->services, 2, err);
  if (err->text[0]) return err->status;
  t->fit_seconds = 0.95 * seconds;
  int64_t planned = (int64_t)(t->fit_seconds / each);
  if (planned < 1) planned = 1;
  t->epochs = (planned + updates - 1) / updates;
  t->schedule.total = planned;
  if (t->schedule.warmup > planned / 5) t->schedule.warmup = planned / 5;
  fprintf(stderr, "%.0f ms an update: about %lld updates in %.0f s\n", 1e3 * each,
          (long long)planned, seconds);
  return VTB_OK;
}

static vtb_status run_training(const char *what, train_options *o, vtb_dataset *train,
                               vtb_dataset *test) {
  char define[64] = "";
  vtb_error err = {0};
  compiled c = {0};
  int classes = vtb_dataset_classes(train);
  vtb_status status = cli_is_built(what) ? open_both(what, o, classes, &c)
                                         : compile_both(what, o, classes, define, &c);
  if (status != VTB_OK) {
    free_compiled(&c);
    return status;
  }
  if (c.file) what = vtb_artefact_manifest(c.file)->model;
  vtb_train_config t = vtb_train_defaults();
  curve history = {.progress = vtb_progress_to(stderr), .quiet = o->quiet};
  vtb_services *services = vtb_need(vtb_services_default((int)o->model.threads));
  vtb_strbuf recipe = {0};
  status = take_optimizer(o, &c, &t.optim, &err);
  describe_recipe(what, o, &recipe);
  char *checkpoint = in_folder(o->out, "checkpoint.safetensors"),
       *weights = in_folder(o->out, "weights.safetensors");
  char *log = in_folder(o->out, "log"), *plot = in_folder(o->out, "curve.svg");
  int64_t batch = c.step->batch,
          updates = vtb_loader_batches(vtb_dataset_count(train), batch, true);
  if (updates < 1) updates = 1;
  t.step = c.step;
  t.eval = c.eval;
  t.services = services;
  t.train_set = train;
  t.eval_set = test;
  t.schedule = (vtb_schedule){.kind = VTB_SCHEDULE_COSINE,
                              .base_lr = o->lr,
                              .final_lr = o->final_lr,
                              .warmup = (int64_t)(o->warmup * (double)updates),
                              .total = o->epochs * updates};
  t.epochs = o->epochs;
  if (o->fit_seconds > 0 && status == VTB_OK)
    status = fit_schedule(&t, o->fit_seconds, updates, &err);
  if (o->max_steps) t.max_steps = o->max_steps;
  t.max_seconds = o->max_seconds;
  t.seed = (uint64_t)o->seed;
  t.loss_scale = o->loss_scale;
  t.init_weights = o->init;
  t.checkpoint = checkpoint;
  t.checkpoint_seconds = 60 * o->checkpoint_minutes;
  t.resume = o->resume;
  t.recipe = recipe.at;
  t.log = log;
  t.on_event = on_event;
  t.user = &history;
  t.stop = &stop_requested;
  if (status == VTB_OK)
    status = vtb_transform_init(&t.eval_transform, train, c.channels, c.height, c.width, &err);
  t.train_transform = t.eval_transform;
  t.train_transform.shift = (int)o->shift;
  t.train_transform.flip = o->flip;
  t.train_transform.erase_prob = o->erase;
  t.train_transform.scale_min = o->crop_scale;
  vtb_trainer *trainer = NULL;
  vtb_train_result result = {0};
  if (status == VTB_OK) status = vtb_make_dirs(o->out, &err);
  if (status == VTB_OK) status = vtb_trainer_open(&t, &trainer, &err);
  if (status == VTB_OK) status = vtb_trainer_run(trainer, &result, &err);
  if (status == VTB_OK) status = vtb_trainer_save_weights(trainer, weights, &err);
  char image[48]; /* what --image said is stored with the other settings */
  snprintf(image, sizeof image, "image=%dx%d", c.height, c.width);
  if (o->model.compile.image) cli_define(&o->model, image);
  if (status == VTB_OK)
    status = cli_describe_weights(weights, train, &t.eval_transform, what, &o->model.defines, &err);
  if (status == VTB_OK) {
    save_curve(&history, plot);
    report(o, &result, o->fit_seconds > 0 && !stop_requested, weights);
  } else {
    cli_error(&err);
  }
  vtb_trainer_close(trainer);
  vtb_services_free(services);
  free_compiled(&c);
  vtb_strbuf_free(&recipe);
  vtb_free(checkpoint);
  vtb_free(weights);
  vtb_free(log);
  vtb_free(plot);
  vtb_vec_free(&history.train_at);
  vtb_vec_free(&history.train);
  vtb_vec_free(&history.eval_at);
  vtb_vec_free(&history.eval);
  return status;
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
  if (status != VTB_OK)
    cli_error(&err);
  else
    status = run_training(what, o, train, test);
  vtb_dataset_free(train);
  vtb_dataset_free(test);
  return status;
}

vtb_status cli_cmd_train(int argc, char **argv) {
  train_options o = defaults();
  cli_opt opts[N_TRAIN_OPTS + CLI_N_MODEL_OPTS];
  int n = train_opts(&o, opts);
  cli_list rest = {0};
  int parsed = cli_parse("train", opts, n, argc, argv, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  word_list words = {0};
  if (o.recipe) { /* the recipe first, then the command line again over it */
    vtb_vec_push(&words, vtb_xstrdup("train"));
    vtb_status status = read_recipe(o.recipe, opts, n, &words);
    if (status != VTB_OK) return status;
    for (int i = 1; i < argc; i++) vtb_vec_push(&words, vtb_xstrdup(argv[i]));
    vtb_vec_free(&o.model.defines);
    o = defaults();
    rest.n = 0;
    parsed = cli_parse("train", opts, n, (int)words.n, words.at, &rest);
    if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  }
  if (rest.n != 1) return cli_usage_error("train", "one MODEL or built FILE is needed");
  if (!o.data)
    return cli_usage_error("train", "--data D is needed (for example: --data fashion-mnist)");
  cli_model_parsed(&o.model);
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  vtb_status status = open_and_train(rest.at[0], &o);
  for (size_t i = 0; i < words.n; i++) vtb_free(words.at[i]);
  vtb_vec_free(&words);
  vtb_vec_free(&rest);
  cli_model_options_free(&o.model);
  return status;
}

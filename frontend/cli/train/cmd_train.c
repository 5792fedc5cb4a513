/* vertebra train: a model by the losses that it declares, or a classifier by its labels: the
 * options of a training. */
#include "frontend/cli/train/plan_scale.h"
#include "frontend/cli/train/train_augmented.h"
#include "frontend/cli/ranks.h"
#include "frontend/cli/recipe_find.h"
#include "frontend/cli/train/train_label.h"
#include "frontend/cli/train/train_recipe.h"
#include "frontend/cli/train/train_record.h"
#include "frontend/cli/train/train_schedule.h"
#include "frontend/cli/train/train_session.h"
#include "frontend/cli/train/train_signals.h"

#include <math.h>
#include <string.h>

static train_options defaults(void) {
  train_options o = {.train = vtb_train_defaults(),
                     .data = CLI_DATA_DEFAULTS,
                     .final_lr = TRAIN_FINAL_LR,
                     .warmup = TRAIN_WARMUP,
                     .decay = NAN,
                     .checkpoint_minutes = 2};
  o.train.optim.clip_norm = 1;
  return o;
}

/* As it could be typed again. */
static char *command_line(int argc, char **argv) {
  vtb_strbuf s = {0};
  vtb_strbuf_puts(&s, "vertebra");
  for (int i = 0; i < argc; i++) vtb_strbuf_word(&s, argv[i]);
  return s.at;
}

/* The folder of the run whose record is the recipe: of --again, or of --resume without a MODEL. It
 * is taken from `rest`. Not VTB_OK: said. */
static vtb_status find_run(train_options *o, cli_list *rest, const char **folder) {
  if (o->again && (o->train.resume || o->recipe || rest->n))
    return cli_usage_error("train", "--again RUN takes everything from that run: no MODEL, "
                                    "--recipe or --resume beside it");
  if (o->train.resume && o->overwrite)
    return cli_usage_error("train", "--resume goes on with a run, --overwrite replaces it: one of "
                                    "them");
  *folder = o->again;
  if (!o->train.resume || (rest->n && !vtb_path_is_dir(rest->at[0]))) return VTB_OK;
  *folder = rest->n ? rest->at[0] : o->out;
  rest->n = 0;
  if (!*folder) return cli_usage_error("train", "--resume DIR: the folder of the run is needed");
  return VTB_OK;
}

static void free_lists(const cli_opt *opts, int n) {
  for (int i = 0; i < n; i++)
    if (opts[i].kind == CLI_LIST) vtb_vec_free((cli_list *)opts[i].into);
}

static bool says(int argc, char **argv, const char *name) {
  size_t length = strlen(name);
  for (int i = 1; i < argc; i++)
    if (strncmp(argv[i], name, length) == 0 && (!argv[i][length] || argv[i][length] == '='))
      return true;
  return false;
}

/* Options that say the same in different units: where the command line has one of them, what the
 * recipe says in another is nothing any more. */
static void drop_replaced(train_words *w, int argc, char **argv) {
  static const char *const units[][3] = {{"--epochs", "--updates", "--fit-seconds"},
                                         {"--warmup", "--warmup-updates", "--warmup"}};
  for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
    bool said = false;
    for (int i = 0; i < 3; i++) said |= says(argc, argv, units[u][i]);
    for (size_t k = 1; said && k + 1 < w->list.n;) {
      bool one = false;
      for (int i = 0; i < 3; i++) one |= strcmp(w->list.at[k], units[u][i]) == 0;
      if (one) vtb_free(w->list.at[k]);
      if (one) vtb_free(w->list.at[k + 1]);
      for (size_t j = k; one && j + 2 < w->list.n; j++) w->list.at[j] = w->list.at[j + 2];
      w->list.n -= one ? 2 : 0;
      k += !one;
    }
  }
}

/* The command line, over the recipe that it names. `words`: what it consists of then. */
static int parse(train_options *o, const cli_opt *opts, int n, int argc, char **argv,
                 train_words *words, cli_list *rest) {
  const char *run = NULL;
  int64_t max_steps;
  double max_seconds;
  int parsed = cli_parse("train", opts, n, argc, argv, rest);
  vtb_status status = parsed ? (vtb_status)parsed : find_run(o, rest, &run);
  if (status != VTB_OK || (!run && !o->recipe)) return (int)status;
  char *recipe = run ? run_file(run, "run.yaml") : NULL;
  status = run ? VTB_OK : recipe_find(o->recipe, &recipe);
  if (status != VTB_OK) return (int)status;
  vtb_vec_push(&words->list, vtb_xstrdup("train"));
  if (run && !vtb_path_exists(recipe)) {
    vtb_error err = {0};
    vtb_fail(&err, VTB_E_INPUT,
             "%s has no run.yaml, which says what it trains: give MODEL, --data and --out %s as "
             "when it was begun",
             run, run);
    status = cli_error(&err);
  } else {
    status = train_recipe_read(recipe, opts, n, words);
  }
  vtb_free(recipe);
  if (status != VTB_OK) return (int)status;
  drop_replaced(words, argc, argv);
  for (int i = 1; i < argc; i++) vtb_vec_push(&words->list, vtb_xstrdup(argv[i]));
  free_lists(opts, n);
  max_steps = o->train.max_steps, max_seconds = o->train.max_seconds;
  *o = defaults();
  rest->n = 0;
  parsed = cli_parse("train", opts, n, (int)words->list.n, words->list.at, rest);
  if (parsed) return parsed;
  if (o->train.resume && run) { /* what ended it before does not end it again */
    o->out = run;
    o->train.max_steps = max_steps, o->train.max_seconds = max_seconds;
  }
  if (run) rest->n = 0;
  if (!rest->n && words->model) vtb_vec_push(rest, words->model);
  if (run && rest->n) train_record_use_sources(run, rest->at[0], o);
  return VTB_OK;
}

static vtb_status run_command(train_options *o, const cli_opt *opts, int n, int argc, char **argv,
                              train_words *words, cli_list *rest) {
  int parsed = parse(o, opts, n, argc, argv, words, rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (o->picture) {
    cli_model_parsed(&o->model);
    vtb_status drawn = train_schedule_draw(o, o->picture);
    cli_model_options_free(&o->model);
    return drawn;
  }
  if (rest->n != 1) return cli_usage_error("train", "one MODEL or built FILE is needed");
  if (o->plan_scale) {
    cli_model_parsed(&o->model);
    vtb_status planned = plan_scale(rest->at[0], o, o->plan_scale);
    cli_model_options_free(&o->model);
    return planned;
  }
  if (!o->data.path)
    return cli_usage_error("train", "--data D is needed (for example: --data fashion-mnist)");
  if (o->updates && o->train.fit_seconds > 0)
    return cli_usage_error("train", "--updates and --fit-seconds both say how long: one of them");
  if (o->updates && says(argc, argv, "--epochs"))
    return cli_usage_error("train", "--updates and --epochs both say how long: one of them");
  cli_model_parsed(&o->model);
  if (o->augmented) {
    vtb_status drawn = train_augmented(rest->at[0], o, o->augmented);
    cli_model_options_free(&o->model);
    return drawn;
  }
  o->rows = opts;
  o->n_rows = n;
  o->command = command_line(argc, argv);
  char *before = o->run_label;
  o->run_label = o->label ? vtb_xstrdup(o->label) : train_label(before, opts, n, argc, argv);
  vtb_free(before);
  vtb_status status = cli_ranks_open(&train_asked, &o->train.ranks);
  if (status == VTB_OK) status = train_session_run(rest->at[0], o);
  status = cli_ranks_leave(o->train.ranks, status, NULL);
  cli_model_options_free(&o->model);
  vtb_free(o->command);
  return status;
}

static vtb_status train_command(train_options *o, const cli_opt *opts, int n, int argc,
                                char **argv) {
  train_words words = {.model = NULL};
  cli_ranks_enter();
  train_signals_take();
  cli_list rest = {0};
  vtb_status status = run_command(o, opts, n, argc, argv, &words, &rest);
  vtb_free(o->run_label);
  for (size_t i = 0; i < o->owned.n; i++) vtb_free(o->owned.at[i]);
  vtb_vec_free(&o->owned);
  vtb_vec_free(&o->search);
  free_lists(opts, n);
  train_words_free(&words);
  vtb_vec_free(&rest);
  return status;
}

vtb_status cli_cmd_train(int argc, char **argv) {
  train_options o = defaults();
  const cli_opt opts[] = {
      CLI_DATA_OPTS(o.data),
      {"--eval-split", CLI_STR, &o.data.split, "NAME",
       "what is looked at after each epoch: val (default), or test; then nothing is held out"},
      {"--out", CLI_FOLDER, &o.out, "DIR",
       "folder for weights, checkpoint, logs and curve (default runs/MODEL-DATA-DATE)"},
      {"--label", CLI_STR, &o.label, "TEXT",
       "the run's name beside others, kept in its files (default: the options that are given)"},
      {"--overwrite", CLI_FLAG, &o.overwrite, NULL,
       "replace the run that is in --out, from the first update on"},
      {"--resume", CLI_FLAG, &o.train.resume, NULL,
       "continue exactly where a run stands: --resume DIR, or MODEL, its options and --out DIR"},
      {"--again", CLI_STR, &o.again, "RUN",
       "repeat the run in that folder, bit for bit; options that are given replace its own"},
      {"--recipe", CLI_STR, &o.recipe, "FILE",
       "options from a file, YAML or `name = value` lines, or a recipe by its name; the command "
       "line "
       "wins"},
      CLI_LOAD_OPTS(o.init.load, "--init",
                    "start from these weights; a classifier of other classes begins anew"),
      TRAIN_LAYER_OPTS(o.layers),
      {"--epochs", CLI_INT, &o.train.epochs, "N", "passes over the data (default 10)"},
      {"--updates", CLI_INT, &o.updates, "N",
       "so many updates instead of --epochs: the schedule ends there, whatever the data's size"},
      {"--max-seconds", CLI_FLOAT, &o.train.max_seconds, "S",
       "stop, with a checkpoint, after that time"},
      {"--fit-seconds", CLI_FLOAT, &o.train.fit_seconds, "S",
       "plan the updates, and so the schedule, for S seconds on this machine"},
      {"--max-steps", CLI_INT, &o.train.max_steps, "N",
       "stop, with a checkpoint, after that many updates"},
      {"--optimizer", CLI_STR, &o.model.compile.optimizer, "NAME",
       "{optimizers} (default adamw), a .vtb file or FILE:NAME; \"lamb(beta1 = 0.95)\" sets more"},
      {"--lr", CLI_FLOAT, &o.train.schedule.lr, "X", "peak learning rate (default 1e-3)"},
      {"--schedule", CLI_STR, &o.schedule, "NAME",
       "how the rate goes: {schedules} (default cosine), a .vtb file or FILE:NAME; "
       "\"step(every = 30)\" sets more"},
      TRAIN_BATCH_OPTS(o),
      {"--final-lr", CLI_FLOAT, &o.final_lr, "X",
       "learning rate at the end of the schedule (default 1e-6)"},
      {"--warmup", CLI_FLOAT, &o.warmup, "E", "epochs of linear warm-up (default 0.5)"},
      {"--warmup-updates", CLI_INT, &o.warmup_updates, "N",
       "the warm-up in updates instead of --warmup"},
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
      CLI_PREPARE_OPTS(o.prepare),
      {"--flip", CLI_FLAG, &o.train.train_transform.augment.flip, NULL,
       "augmentation: mirror with probability 1/2"},
      {"--erase", CLI_FLOAT, &o.train.train_transform.augment.erase_prob, "P",
       "augmentation: erase a random rectangle with probability P"},
      {"--crop-scale", CLI_FLOAT, &o.train.train_transform.augment.scale_min, "A",
       "augmentation: random resized crop of area fraction A to 1"},
      {"--augment-in", CLI_CHOICE, &o.augment_in, "loader|step",
       "where the model's augment { } runs: threads that load (default), or the training step"},
      {"--seed", CLI_INT, &o.train.seed, "N", "everything random follows from it (default 0)"},
      {"--eval-batch", CLI_POSITIVE, &o.model.compile.eval_batch, "N",
       "images at a time in evaluation (default 4 x batch; the batch, where samples meet in "
       "losses)"},
      {"--checkpoint-minutes", CLI_FLOAT, &o.checkpoint_minutes, "M",
       "also checkpoint that often within an epoch (default 2)"},
      {"--log-every", CLI_POSITIVE, &o.train.log_steps, "N",
       "a line of the log every N updates (default 50), a GPU's results read as often (default 3)"},
      {"--tensorboard", CLI_FLAG, &o.tensorboard, NULL,
       "also write event files for TensorBoard, below tensorboard/ of the run's folder"},
      TRAIN_FORESIGHT_OPTS(o),
      {"--quiet", CLI_FLAG, &o.quiet, NULL, "no progress"},
      CLI_TARGET_OPT(o.model),
      CLI_MODEL_OPTS(o.model)};
  return train_command(&o, opts, CLI_COUNT(opts), argc, argv);
}

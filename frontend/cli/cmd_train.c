/* vertebra train: a model by the losses that it declares, or a classifier by its labels: the
 * options of a training. */
#include "frontend/cli/train_recipe.h"
#include "frontend/cli/train_session.h"

#include <math.h>

static train_options defaults(void) {
  train_options o = {.train = vtb_train_defaults(),
                     .data = CLI_DATA_DEFAULTS,
                     .out = "run",
                     .warmup = 0.5,
                     .decay = NAN,
                     .checkpoint_minutes = 2};
  o.train.schedule = (vtb_schedule){.kind = VTB_SCHEDULE_COSINE, .base_lr = 1e-3, .final_lr = 1e-6};
  o.train.optim.clip_norm = 1;
  return o;
}

/* The command line, over the recipe that it names. `words`: what it consists of then. */
static int parse(train_options *o, const cli_opt *opts, int n, int argc, char **argv,
                 train_words *words, cli_list *rest) {
  int parsed = cli_parse("train", opts, n, argc, argv, rest);
  if (parsed || !o->recipe) return parsed;
  vtb_vec_push(words, vtb_xstrdup("train"));
  vtb_status status = train_recipe_read(o->recipe, opts, n, words);
  if (status != VTB_OK) return (int)status;
  for (int i = 1; i < argc; i++) vtb_vec_push(words, vtb_xstrdup(argv[i]));
  vtb_vec_free(&o->model.defines);
  *o = defaults();
  rest->n = 0;
  return cli_parse("train", opts, n, (int)words->n, words->at, rest);
}

static vtb_status train_command(train_options *o, const cli_opt *opts, int n, int argc,
                                char **argv) {
  train_words words = {0};
  cli_list rest = {0};
  int parsed = parse(o, opts, n, argc, argv, &words, &rest);
  if (parsed) return parsed < 0 ? VTB_OK : (vtb_status)parsed;
  if (rest.n != 1) return cli_usage_error("train", "one MODEL or built FILE is needed");
  if (!o->data.path)
    return cli_usage_error("train", "--data D is needed (for example: --data fashion-mnist)");
  cli_model_parsed(&o->model);
  vtb_status status = train_session_run(rest.at[0], o);
  for (size_t i = 0; i < words.n; i++) vtb_free(words.at[i]);
  vtb_vec_free(&words);
  vtb_vec_free(&rest);
  cli_model_options_free(&o->model);
  return status;
}

vtb_status cli_cmd_train(int argc, char **argv) {
  train_options o = defaults();
  const cli_opt opts[] = {
      CLI_DATA_OPTS(o.data),
      {"--eval-split", CLI_STR, &o.data.split, "NAME",
       "what is looked at after each epoch: val (default), or test; then nothing is held out"},
      {"--out", CLI_STR, &o.out, "DIR",
       "folder for weights, checkpoint, log and curve (default run)"},
      {"--recipe", CLI_STR, &o.recipe, "FILE",
       "options from a file, one `name = value` a line; the command line wins"},
      {"--resume", CLI_FLAG, &o.train.resume, NULL,
       "continue exactly where the checkpoint in --out stands"},
      CLI_LOAD_OPTS(o.init.load, "--init",
                    "start from these weights; a classifier of other classes begins anew"),
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
      CLI_PREPARE_OPTS(o.prepare),
      {"--flip", CLI_FLAG, &o.train.train_transform.augment.flip, NULL,
       "augmentation: mirror with probability 1/2"},
      {"--erase", CLI_FLOAT, &o.train.train_transform.augment.erase_prob, "P",
       "augmentation: erase a random rectangle with probability P"},
      {"--crop-scale", CLI_FLOAT, &o.train.train_transform.augment.scale_min, "A",
       "augmentation: random resized crop of area fraction A to 1"},
      {"--seed", CLI_INT, &o.train.seed, "N", "everything random follows from it (default 0)"},
      {"--eval-batch", CLI_INT, &o.model.compile.eval_batch, "N",
       "images at a time in evaluation (default 4 x batch)"},
      {"--checkpoint-minutes", CLI_FLOAT, &o.checkpoint_minutes, "M",
       "also checkpoint that often within an epoch (default 2)"},
      {"--quiet", CLI_FLAG, &o.quiet, NULL, "no progress"},
      CLI_TARGET_OPT(o.model),
      CLI_MODEL_OPTS(o.model)};
  return train_command(&o, opts, CLI_COUNT(opts), argc, argv);
}

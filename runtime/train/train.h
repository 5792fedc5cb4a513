/* Training and evaluating a compiled model.
 *
 * A step program of a model that declares losses and metrics has OUTPUT loss (one element), its
 * measures (runtime/train/measure.h), PARAMs, BUFFERs, and INPUTs that begin with the batch: the
 * data set fills each by what it is and how it is called (vtb_feed_find()), "valid" with 1 and 0
 * for padding, "seed" as below. Its eval program has measures as its only OUTPUTs.
 *
 * Any other is a classifier's.

 * The step program has the tensors: INPUT image, INPUT labels i32 (B), optionally INPUT "seed" i32
 * (one element), PARAMs and BUFFERs, OUTPUT loss (one element), OUTPUT logits (B, classes), and
 * those of its update (runtime/base/update.h). The eval program has the image, PARAMs and BUFFERs
 * of the same names, and OUTPUT logits; its batch may differ. Which input is the image: the name
 * given, else the first f32 INPUT of rank 4.
 *
 * A run of the step program is a whole step, in the trainer's buffers; a step whose loss or
 * gradients are not finite changes nothing and is an error. Programs on a device keep parameters
 * and state there; they are copied to the host for checkpoints, evaluation and vtb_trainer_param()
 * only.
 *
 * Of programs that take runs ahead of their results (vtb_program.submit) a few updates are under
 * way at a time: their events and lines of the log come together, and updates that had begun behind
 * one that is an error are done and counted.
 *
 * A step program with an input "loss_scale" multiplies its gradients by it. The trainer begins with
 * a large factor and halves it when gradients overflow, which costs that batch and is no error, and
 * doubles it after many good updates.
 *
 * A checkpoint is one safetensors file, replaced atomically: parameters under their own names (so
 * it loads as a weights file), optimiser state "optim/...", averages "ema/...", and metadata: step,
 * epoch, batch, seed, recipe, what the data are, sums, and a hash of all of it. A run resumed from
 * it gives bit for bit the weights of a run that was not interrupted, for any number of threads.
 *
 * A finished epoch is in a checkpoint before it is evaluated. A run that ends by an error in the
 * data or the files leaves a checkpoint of its last update, where one can be written. Nothing is
 * written, and no earlier file is touched, before the first update is done.
 *
 * Many processes (config.ranks): each has a trainer with the same configuration and the step
 * program of its rank, which sums over all of them (services: vtb_services_ranks()), for
 * 1 / (ranks x accumulate) of the images of an update. Rank r takes its rows of the batches that
 * one process would have, so that a run may go on with any number of ranks. Stopping and
 * checkpoints are decided together; rank 0 writes the files and sends the events. What differs
 * between ranks at the beginning is VTB_E_INPUT on all of them; an error of one is one of all.
 *
 * Ownership: a trainer refers to programs, data sets and services, which must outlive it; it owns
 * parameters and state.
 */
#ifndef VTB_TRAIN_H
#define VTB_TRAIN_H

#include "runtime/data/dataset.h"
#include "runtime/ranks/ranks.h"
#include "runtime/train/measure.h"
#include "runtime/train/optim.h"
#include "runtime/train/rates.h"
#include "runtime/weights/fit.h"

typedef enum vtb_train_event_kind {
  VTB_TRAIN_START,      /* text: what will be done */
  VTB_TRAIN_STEP,       /* after every update */
  VTB_TRAIN_EPOCH,      /* after an epoch, with the evaluation if there was one */
  VTB_TRAIN_EVAL_STEP,  /* after every evaluated batch: done, total */
  VTB_TRAIN_CHECKPOINT, /* text: the path */
  VTB_TRAIN_END         /* text: why it ended */
} vtb_train_event_kind;

typedef struct vtb_train_event {
  vtb_train_event_kind kind;
  int64_t step, total_steps, epoch, n_epochs, batch, n_batches; /* step, epoch: done so far */
  double loss;     /* STEP: of the batch; EPOCH: mean over the epoch's samples */
  double accuracy; /* training top-1 in [0, 1], likewise */
  double lr, grad_norm;
  double loss_scale; /* 0: the step has none */
  int64_t skipped;   /* batches so far whose gradients overflowed */
  double images_per_second;
  double seconds, seconds_left; /* of this run; -1: unknown */
  bool evaluated;
  double eval_loss, eval_top1, eval_top5;
  double best_top1; /* of a model that declares what it is measured by, the best score */
  /* EPOCH: what the model declares, of the epoch's batches and of the evaluation; NULL of a
   * classifier */
  const vtb_measured_list *train, *eval;
  int ranks;     /* processes; images_per_second is of all */
  int slowest;   /* of several: the rank that waited least for others */
  double waited; /* mean share of the time that ranks waited for others, in [0, 1] */
  int following; /* STEP: updates whose results are there, too, and whose events come next */
  const char *text;
} vtb_train_event;

typedef struct vtb_train_plan {
  int64_t step, total; /* updates */
} vtb_train_plan;

typedef struct vtb_train_config {
  vtb_program *step, *eval;   /* eval may be NULL: no evaluation */
  const char *image, *logits; /* tensor names; NULL: found */
  const vtb_services *services;
  vtb_ranks *ranks; /* the processes that train together, with those services; NULL: alone */
  bool
      shard; /* the step programs of ranks each update some of the tensors, and keep their states */
  int64_t accumulate; /* runs of the step an update, each of as many images; 0: 1 */

  const vtb_dataset *train_set, *eval_set; /* eval_set may be NULL */
  vtb_transform train_transform, eval_transform;
  const vtb_augment *augments; /* of training samples; n_augments 0: there are none */
  int n_augments;
  const char *augmented; /* by what, in words: "m.vtb:12"; NULL: by nothing */
  int loader_threads;

  vtb_optim_config optim;
  vtb_rates rates;
  vtb_schedule schedule;
  int64_t epochs;
  int64_t max_steps;  /* stop (with a checkpoint) after that many updates in total; 0: no limit */
  double max_seconds; /* stop (with a checkpoint) when this run has lasted that long; 0: no limit */
  /* Plan the schedule for a run of that time instead of `epochs`: the total is reckoned anew as the
   * machine's speed shows, so that the cosine ends with the time. Such a run depends on the
   * machine. 0: off. */
  double fit_seconds;
  uint64_t seed;
  double loss_scale;        /* to begin with, of programs with that input; 0: 65536 */
  int64_t loss_scale_steps; /* doubled after that many good updates; 0: 2000 */

  /* Weights to start from: opened ones, else a file (runtime/weights/open.h); NULL. `fit` says what
   * they may lack (NULL: nothing), `fitted` becomes the report, for vtb_fit_report_free(); both may
   * be NULL. */
  const vtb_weights *init;
  const char *init_weights;
  const vtb_fit_options *fit;
  vtb_fit_report *fitted;
  const char *checkpoint;    /* file; NULL: none */
  int64_t checkpoint_steps;  /* also every that many updates; 0: only after epochs and at the end */
  double checkpoint_seconds; /* also when that much time has passed since the last; 0: off */
  bool resume;               /* continue from `checkpoint` if it exists */
  const char *recipe;        /* words "lr=0.1" that a resumed run must share; NULL: not checked */
  /* the same; not checked against checkpoints of earlier versions, which lack them */
  const char *more_recipe;
  const char *model_hash; /* of the model's text, likewise */
  const char *label;      /* the run's, kept in checkpoints and weights; NULL or "": none */
  const char *best;       /* weights file of the best evaluation so far; NULL: none */
  const char *log;        /* path without extension for .csv and .jsonl; NULL: none */
  const char *board;      /* folder for event files of TensorBoard; NULL: none */
  /* .jsonl line every that many updates, which is how often the host waits for a device's results;
   * 0: a line every 50, results as few at a time as keep the device busy */
  int64_t log_steps;
  int64_t eval_steps;  /* also every that many updates within epochs; 0: not */
  int64_t eval_epochs; /* evaluate every that many epochs and after the last; 0: 1 */

  /* A run of fit_seconds once more: from update plan[i].step on, the schedule's total is
   * plan[i].total; the last total ends it. The log has them as events "plan". */
  const vtb_train_plan *plan;
  size_t n_plan;

  void (*on_event)(void *user, const vtb_train_event *e); /* NULL: silent */
  /* Once, after the first update of this run and before anything is written; NULL */
  vtb_status (*on_begin)(void *user, vtb_error *err);
  /* Adds what using them takes to weights that are about to be written; NULL */
  vtb_status (*describe)(void *user, vtb_weights *w, vtb_error *err);
  /* Adds to weights and checkpoints what model they are of. */
  vtb_status (*describe_model)(void *user, vtb_weights *w, vtb_error *err);
  void *user;
  /* set to non-zero (by a signal handler) to end after the current update, or the current batch of
   * an evaluation; NULL */
  const volatile int *stop;
} vtb_train_config;
vtb_train_config vtb_train_defaults(void);

typedef struct vtb_train_result {
  int64_t steps, epochs;
  int64_t updates;         /* of `steps`, those made now */
  bool finished;           /* false: ended early, can be resumed */
  bool trained, evaluated; /* loss, accuracy and train are measured; eval_* and eval are */
  /* of the last epoch; of the run as it stands if a limit ended it within an epoch */
  double loss, accuracy, eval_loss, eval_top1, eval_top5;
  double best_top1, seconds, images_per_second;
  int64_t skipped;               /* batches that changed nothing, see loss_scale */
  int ranks;                     /* processes; images_per_second is of all */
  int slowest;                   /* the rank that waited least for others in the end */
  double waited;                 /* mean share of the time that they waited */
  bool stopped;                  /* one of them was asked to stop */
  vtb_measured_list train, eval; /* what the model declares; empty of a classifier */
} vtb_train_result;

typedef struct vtb_trainer vtb_trainer;

/* Checks the programs, allocates, initialises or resumes. The config is copied, what it points to
 * is not. */
VTB_MUST_USE vtb_status vtb_trainer_open(const vtb_train_config *config, vtb_trainer **out,
                                         vtb_error *err);
VTB_MUST_USE vtb_status vtb_trainer_run(vtb_trainer *t, vtb_train_result *result, vtb_error *err);
/* All of many processes call these two; rank 0 writes. */
VTB_MUST_USE vtb_status vtb_trainer_checkpoint(vtb_trainer *t, const char *path, vtb_error *err);
/* Parameters and buffers only, the average if there is one: what `run` and `eval` load. */
VTB_MUST_USE vtb_status vtb_trainer_save_weights(vtb_trainer *t, const char *path, vtb_error *err);
/* The live buffer of a parameter; NULL if unknown, or if the device fails. Of programs on a device:
 * a copy. */
float *vtb_trainer_param(vtb_trainer *t, const char *name, int64_t *count);
void vtb_trainer_close(vtb_trainer *t); /* NULL is fine */

/* Images of a run of the step where `batch` are those of an update on that many ranks, each with so
 * many runs. VTB_E_USAGE: they do not divide; which batches do. */
VTB_MUST_USE vtb_status vtb_train_divide(int64_t batch, int ranks, int64_t pieces, int64_t *rows,
                                         vtb_error *err);
/* VTB_E_INPUT on all ranks where one of them has other words "name=value" than rank 0: who, and
 * which. what: "settings". */
VTB_MUST_USE vtb_status vtb_train_compare(vtb_ranks *ranks, const char *what, const char *text,
                                          vtb_error *err);

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef struct vtb_eval_result {
  int64_t n;
  bool stopped;                                        /* before the end: nothing else is set */
  double loss, top1, top5, seconds, images_per_second; /* top5: among min(5, classes) */
  int classes;
  /* (classes, classes): [label][prediction]; malloc'd for the caller if asked, else NULL */
  int64_t *confusion;
  /* what the model declares, then loss is their sum and the others are 0; empty of a classifier */
  vtb_measured_list measures;
} vtb_eval_result;

typedef struct vtb_eval_options {
  const char *image, *logits;
  const vtb_dataset *dataset;
  vtb_transform transform;
  const vtb_services *services;
  int loader_threads;
  vtb_ranks *ranks; /* batches are dealt to them, and all have the result; NULL: alone */
  bool confusion;
  void (*on_batch)(void *user, int64_t done, int64_t total); /* images */
  void *user;
  const volatile int *stop; /* non-zero ends it after the current batch; NULL */
} vtb_eval_options;

/* params[i] for tensor i of `p` that is a PARAM or BUFFER (others ignored). */
VTB_MUST_USE vtb_status vtb_evaluate(vtb_program *p, void *const *params, const vtb_eval_options *o,
                                     vtb_eval_result *result, vtb_error *err);

/* The trainer's eval program on its eval_set, now, with the averaged weights if there are any. */
VTB_MUST_USE vtb_status vtb_trainer_evaluate(vtb_trainer *t, vtb_eval_result *result,
                                             vtb_error *err);

#endif

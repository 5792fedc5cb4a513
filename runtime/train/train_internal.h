/* The trainer's state, shared by the files train*.c. */
#ifndef VTB_TRAIN_INTERNAL_H
#define VTB_TRAIN_INTERNAL_H

#include "runtime/train/fingerprint.h"
#include "runtime/train/log.h"
#include "runtime/train/measure.h"
#include "runtime/train/tensorboard.h"
#include "runtime/train/train.h"

/* A program with its buffers: one a tensor. Entries that are not owned are set before a run. */
typedef struct vtb_bound {
  const vtb_program *program;
  void **args;
  bool *owned;
  void *workspace;
  int image, labels, seed, first, loss, logits, scale; /* tensor numbers, -1: none */
  int64_t classes;
  /* of a program that measures what its model declares; none of a classifier */
  vtb_measures measures;
  vtb_feed *feeds; /* the inputs that a data set fills */
  int *fed;        /* their tensors */
  int n_feeds;
} vtb_bound;

static inline bool vtb__is_measured(const vtb_bound *b) { return b->measures.n > 0; }

/* Finds and checks the tensors that the program must have, of a classifier labels too where it is
 * `training`. After failures vtb__bound_free() too. */
VTB_MUST_USE vtb_status vtb__bound_find(vtb_bound *b, const vtb_program *p, const char *image,
                                        const char *logits, bool training, vtb_error *err);
/* Allocates the workspace and the buffers of tensors in the set of roles (bit 1 << vtb_io); no
 * results that stay on the device. */
VTB_MUST_USE vtb_status vtb__bound_allocate(vtb_bound *b, unsigned roles, vtb_error *err);
/* Finds what of the data set fills which input; a classifier has such inputs where it augments in
 * the step. */
VTB_MUST_USE vtb_status vtb__bound_feed(vtb_bound *b, const vtb_dataset *d, const vtb_transform *t,
                                        vtb_error *err);
void vtb__bound_fill(vtb_bound *b, const vtb_batch *batch); /* inputs are those of the batch */
/* True if submitted runs take the images as bytes: one input is an image, and it can be. */
bool vtb__bound_takes_pixels(const vtb_bound *b);
void vtb__bound_free(vtb_bound *b);

/* State that must be saved to go on: all of it goes into a checkpoint. */
typedef struct vtb_train_state {
  int64_t step, epoch, batch; /* done; batch: within the epoch */
  bool pending;               /* the epoch is done but not evaluated and logged; sums are its */
  double loss_sum;            /* over the epoch's samples so far */
  int64_t seen, correct;
  double window_loss; /* sums over the updates since the log's last "window" */
  int64_t window_seen, window_correct, window_steps;
  bool done;        /* a run for a time: it is over */
  double best_top1; /* -1: none yet; of a measured program its score, NaN: none yet */
  double seconds;   /* of earlier runs */
  double scale;     /* what the loss is multiplied by */
  int64_t scaled;   /* updates since it last changed */
  int64_t skipped;  /* batches whose gradients it made overflow */
} vtb_train_state;

/* Known to all ranks after an update; of one process nothing. */
typedef struct vtb_vote {
  bool stop;       /* one of them was asked to stop */
  bool late, over; /* by the clock of rank 0: a checkpoint is due, the time is over */
  int64_t plan;    /* updates in all by rank 0's new plan; 0: none */
} vtb_vote;
enum { VTB__VOTES = 6 };

/* An update that has begun and whose results are not there yet. */
typedef struct vtb_issued {
  int64_t n; /* samples */
  double lr;
} vtb_issued;
enum { VTB__MOST_ISSUED = 256 };

struct vtb_shards;

struct vtb_trainer {
  vtb_train_config config;
  char data[2][VTB_FINGERPRINT]; /* of the sets; empty: not taken yet */
  vtb_bound bound;
  vtb_optim *optim;
  float loss_scale;  /* an input of the step */
  int32_t first_row; /* likewise: of the rows of a batch, this rank's first */
  int64_t batches;   /* an epoch */
  int rank, n_ranks; /* 0 of 1: alone */
  /* images of a run of the step, runs of an update, images of an update on all ranks */
  int64_t rows, pieces, whole;
  struct {
    double loss;
    int64_t n, correct;
  } part; /* of the update's runs so far */
  vtb_vote vote;
  double *votes; /* VTB__VOTES, and one a rank */
  double waited_before, waited_when;
  double waited; /* mean share of the time that ranks waited for others, between lines of the log */
  double all_waited, all_seconds; /* of the run */
  int slowest;                    /* the rank that waited least */
  struct vtb_shards *shards;      /* NULL: states are whole on every rank */
  float **averages; /* by tensor: those of other ranks, between fetch and release; NULL: none */
  vtb_train_state state;
  vtb_run_log *log;
  vtb_board *board;
  bool resumed, begun;
  bool changed;       /* the state is not that of the last checkpoint */
  bool cannot_save;   /* a checkpoint could not be written */
  int64_t first_step; /* updates done before this run */
  int64_t saved_step; /* updates in the last checkpoint of this run; -1: there is none */
  bool stale;         /* updates were made since parameters and state were copied from a device */

  vtb_issued issued[VTB__MOST_ISSUED]; /* oldest first; the state does not count them yet */
  int n_issued, most_issued;           /* 0: updates are done one after the other */
  int following;                       /* of these, results that are taken with the one at hand */
  double issued_since;                 /* when the results before them were there */

  double started, train_seconds; /* of this run; train_seconds without evaluation */
  int64_t images;
  double step_seconds; /* smoothed */
  int64_t fit_total;   /* updates planned in all, for fit_seconds; 0: not yet */
  int64_t planned_at;  /* update after which it was planned */
  double planned_when;
  size_t next_plan; /* of config.plan */
  double last_checkpoint;
  double loss, lr, grad_norm;
  vtb_train_result result;
};

/* Tensors that stay on a device are the same here as there afterwards; nothing to programs in this
 * process, which work in place. pull does nothing while the host is up to date. */
VTB_MUST_USE vtb_status vtb__trainer_push(vtb_trainer *t, vtb_error *err);
VTB_MUST_USE vtb_status vtb__trainer_pull(vtb_trainer *t, vtb_error *err);

/* train_scale.c: the factor on the loss that keeps gradients within a narrow format. begin: before
 * a run; end: what becomes of the status of the update: too large gradients are a smaller factor
 * and no error. */
static inline bool vtb__is_scaled(const vtb_trainer *t) { return t->bound.scale >= 0; }
void vtb__scale_open(vtb_trainer *t);
void vtb__scale_begin(vtb_trainer *t); /* sets t->loss_scale, 1 without */
VTB_MUST_USE vtb_status vtb__scale_end(vtb_trainer *t, vtb_status status, const vtb_error *inner,
                                       vtb_error *err);

/* train_ranks.c. open: who takes which rows. compare: all ranks begin the same run. vote: after an
 * update, what all of them know; n and right become those of all. waiting: who has waited how long
 * is told too. */
VTB_MUST_USE vtb_status vtb__ranks_open(vtb_trainer *t, vtb_error *err);
VTB_MUST_USE vtb_status vtb__ranks_compare(vtb_trainer *t, vtb_error *err);
VTB_MUST_USE vtb_status vtb__vote(vtb_trainer *t, bool waiting, int64_t *n, int64_t *right,
                                  vtb_error *err);
/* t->data of the training set (0) or that of evaluation (1), taken once. */
VTB_MUST_USE vtb_status vtb__fingerprint_of(vtb_trainer *t, int which, vtb_error *err);

/* train_shards.c; all do nothing where states are whole. share: after an update the new values of
 * other ranks are here, too. fetch_averages: vtb__average() has those of all, until release.
 * gather: rank 0 has the states of all, which put puts into a checkpoint, until release. */
VTB_MUST_USE vtb_status vtb__shards_open(vtb_trainer *t, vtb_error *err);
VTB_MUST_USE vtb_status vtb__shards_share(vtb_trainer *t, vtb_error *err);
VTB_MUST_USE vtb_status vtb__shards_fetch_averages(vtb_trainer *t, vtb_error *err);
VTB_MUST_USE vtb_status vtb__shards_gather(vtb_trainer *t, vtb_error *err);
void vtb__shards_put(const vtb_trainer *t, vtb_weights *w);
void vtb__shards_release(vtb_trainer *t);
void vtb__shards_free(vtb_trainer *t);
/* The average of a parameter or buffer; NULL: there is none. */
float *vtb__average(const vtb_trainer *t, int tensor);
/* Bytes of the optimiser's states on this rank, and on all of them together; averages are among
 * them. */
void vtb__state_bytes(const vtb_trainer *t, int64_t *here, int64_t *all);

void vtb__waiting_begins(vtb_trainer *t); /* what came before is no training */

/* train_clock.c: by the clock of this process. */
bool vtb__checkpoint_is_late(const vtb_trainer *t);
bool vtb__time_is_over(const vtb_trainer *t);
/* This process was asked to, or one of the ranks. */
bool vtb__asked_to_stop(const vtb_trainer *t);
/* Updates in all of a run for a time, where it is due to be reckoned; else 0. */
int64_t vtb__plan_anew(const vtb_trainer *t);

/* train_log.c: on_begin and the log, before the first thing that is written. */
VTB_MUST_USE vtb_status vtb__begin(vtb_trainer *t, vtb_error *err);

/* train_update.c. issue: begins the update of a batch, which may be another's from then on. settle:
 * takes the results of all that were issued but the last `leave`; afterwards they are in the state,
 * the log and the events. An update whose numbers are not finite is the error, behind those that
 * were under way. must_settle: something depends on the update that was issued last. */
VTB_MUST_USE vtb_status vtb__issue(vtb_trainer *t, const vtb_batch *batch, vtb_error *err);
VTB_MUST_USE vtb_status vtb__settle(vtb_trainer *t, int leave, vtb_error *err);
bool vtb__must_settle(const vtb_trainer *t);

/* train_epoch.c. close: the epoch is done, its evaluation is pending. settle: evaluates it, if that
 * is due, and logs it; a request to stop leaves it pending. judge: a run that a limit ended within
 * an epoch is judged as it stands, its state left as it was. */
bool vtb__evaluation_due(const vtb_trainer *t);
void vtb__epoch_close(vtb_trainer *t);
VTB_MUST_USE vtb_status vtb__epoch_settle(vtb_trainer *t, vtb_error *err);
bool vtb__plan_is_over(const vtb_trainer *t); /* all updates of a planned run are done */
VTB_MUST_USE vtb_status vtb__judge_within(vtb_trainer *t, vtb_error *err); /* where it is due */
VTB_MUST_USE vtb_status vtb__judge_cut_run(vtb_trainer *t, vtb_error *err);

/* train_identity.c: what a run is, in its checkpoints, and whether a checkpoint is of this run. */
#define VTB__CHECKPOINT_FORMAT "vertebra-checkpoint-1"
VTB_MUST_USE vtb_status vtb__identity_put(vtb_trainer *t, vtb_weights *w, vtb_error *err);
VTB_MUST_USE vtb_status vtb__identity_check(vtb_trainer *t, const vtb_weights *w, vtb_error *err);
/* The number that is stored under `key`. */
VTB_MUST_USE vtb_status vtb__meta_int(const vtb_weights *w, const char *key, int64_t *out,
                                      vtb_error *err);

VTB_MUST_USE vtb_status vtb__checkpoint_load(vtb_trainer *t, const char *path, vtb_error *err);

/* Event with the common fields filled. */
vtb_train_event vtb__event(const vtb_trainer *t, vtb_train_event_kind kind);
void vtb__send(const vtb_trainer *t, const vtb_train_event *e);
VTB_MUST_USE vtb_status vtb__log_step(vtb_trainer *t, vtb_error *err);
/* A fiftieth of the run is over: the mean of its updates. */
VTB_MUST_USE vtb_status vtb__log_window(vtb_trainer *t, vtb_error *err);
VTB_MUST_USE vtb_status vtb__log_plan(vtb_trainer *t, int64_t step, int64_t total, vtb_error *err);
VTB_MUST_USE vtb_status vtb__log_epoch(vtb_trainer *t, const vtb_train_event *e, vtb_error *err);
/* Logs an evaluation that is not an epoch's end. */
VTB_MUST_USE vtb_status vtb__log_judged(vtb_trainer *t, const char *event, vtb_error *err);

#endif

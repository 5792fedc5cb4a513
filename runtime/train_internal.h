/* The trainer's state, shared by train.c, train_buffers.c, train_checkpoint.c and train_report.c. */
#ifndef VTB_TRAIN_INTERNAL_H
#define VTB_TRAIN_INTERNAL_H

#include "runtime/log.h"
#include "runtime/train.h"

/* A program with its buffers: one a tensor. Entries that are not owned are set before a run. */
typedef struct vtb_bound {
  const vtb_program *program;
  void **args;
  bool *owned;
  void *workspace;
  int image, labels, seed, loss, logits; /* tensor numbers, -1: none */
  int64_t classes;
} vtb_bound;

/* Finds and checks the tensors a classifier must have; `training`: labels and loss too. */
VTB_MUST_USE vtb_status vtb__bound_find(vtb_bound *b, const vtb_program *p, const char *image, const char *logits,
                                        bool training, vtb_error *err);
/* Allocates the workspace and the buffers of tensors in the set of roles (bit 1 << vtb_io). */
VTB_MUST_USE vtb_status vtb__bound_allocate(vtb_bound *b, unsigned roles, vtb_error *err);
void vtb__bound_free(vtb_bound *b);

/* What must be saved to go on: all of it goes into a checkpoint. */
typedef struct vtb_train_state {
  int64_t step, epoch, batch; /* done; batch: within the epoch */
  double loss_sum;            /* over the epoch's samples so far */
  int64_t seen, correct;
  double best_top1; /* -1: none yet */
  double seconds;   /* of earlier runs */
} vtb_train_state;

/* A buffer that training moves: tensor numbers of it and of its update, and its average (NULL: none). */
typedef struct vtb_moved {
  int buffer, update;
  float *average;
} vtb_moved;

struct vtb_trainer {
  vtb_train_config config;
  vtb_bound bound;
  vtb_optim *optim;
  int *trained; /* tensor numbers of the optimiser's parameters */
  int n_trained;
  vtb_moved *moved;
  int n_moved;
  int64_t batches; /* an epoch */
  vtb_train_state state;
  vtb_run_log *log;
  bool resumed;

  double started, train_seconds; /* of this run; train_seconds without evaluation */
  int64_t images;
  double step_seconds; /* smoothed */
  int64_t fit_total;   /* updates planned in all, for fit_seconds; 0: not yet */
  double last_checkpoint;
  double loss, lr, grad_norm;
  vtb_train_result result;
};

/* train_buffers.c. open: after the values are there; step: after an update that counted. */
VTB_MUST_USE vtb_status vtb__buffers_open(vtb_trainer *t, vtb_error *err);
void vtb__buffers_close(vtb_trainer *t);
void vtb__buffers_step(vtb_trainer *t);
float *vtb__buffer_average(const vtb_trainer *t, int tensor); /* NULL: none */
void vtb__buffers_save(const vtb_trainer *t, vtb_weights *w); /* borrows */
VTB_MUST_USE vtb_status vtb__buffers_load(vtb_trainer *t, const vtb_weights *w, vtb_error *err);

VTB_MUST_USE vtb_status vtb__checkpoint_load(vtb_trainer *t, const char *path, vtb_error *err);

/* Event with the common fields filled. */
vtb_train_event vtb__event(const vtb_trainer *t, vtb_train_event_kind kind);
void vtb__send(const vtb_trainer *t, const vtb_train_event *e);
VTB_MUST_USE vtb_status vtb__log_step(vtb_trainer *t, vtb_error *err);
VTB_MUST_USE vtb_status vtb__log_epoch(vtb_trainer *t, const vtb_train_event *e, vtb_error *err);
/* The result of a run that ended within an epoch. */
VTB_MUST_USE vtb_status vtb__log_end(vtb_trainer *t, vtb_error *err);

#endif

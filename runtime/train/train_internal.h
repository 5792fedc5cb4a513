/* The trainer's state, shared by the files train*.c. */
#ifndef VTB_TRAIN_INTERNAL_H
#define VTB_TRAIN_INTERNAL_H

#include "runtime/train/log.h"
#include "runtime/train/train.h"
#include "runtime/train/update.h"

/* A program with its buffers: one a tensor. Entries that are not owned are set before a run. */
typedef struct vtb_bound {
  const vtb_program *program;
  void **args;
  bool *owned;
  void *workspace;
  int image, labels, seed, loss, logits; /* tensor numbers, -1: none */
  int scalars, result, scale;            /* of runtime/train/update.h, likewise */
  int64_t classes;
} vtb_bound;

/* Finds and checks the tensors a classifier must have; `training`: labels and loss too. */
VTB_MUST_USE vtb_status vtb__bound_find(vtb_bound *b, const vtb_program *p, const char *image,
                                        const char *logits, bool training, vtb_error *err);
/* Allocates the workspace and the buffers of tensors in the set of roles (bit 1 << vtb_io); no
 * results that stay on the device. */
VTB_MUST_USE vtb_status vtb__bound_allocate(vtb_bound *b, unsigned roles, vtb_error *err);
void vtb__bound_free(vtb_bound *b);

/* What must be saved to go on: all of it goes into a checkpoint. */
typedef struct vtb_train_state {
  int64_t step, epoch, batch; /* done; batch: within the epoch */
  double loss_sum;            /* over the epoch's samples so far */
  int64_t seen, correct;
  double best_top1; /* -1: none yet */
  double seconds;   /* of earlier runs */
  double scale;     /* what the loss is multiplied by */
  int64_t scaled;   /* updates since it last changed */
  int64_t skipped;  /* batches whose gradients it made overflow */
} vtb_train_state;

/* A buffer that training moves: tensor numbers of it and of its update, and its average (NULL:
 * none). */
typedef struct vtb_moved {
  int buffer, update;
  float *average;
} vtb_moved;

struct vtb_trainer {
  vtb_train_config config;
  vtb_bound bound;
  vtb_optim *optim;
  float *scalars, loss_scale; /* inputs of the step */
  int *trained;               /* tensor numbers of the optimiser's parameters */
  int n_trained;
  int n_missing; /* tensors that the weights to start from lack */
  vtb_moved *moved;
  int n_moved;
  int64_t batches; /* an epoch */
  vtb_train_state state;
  vtb_run_log *log;
  bool resumed;
  /* the program updates its parameters itself, and has done so since the host's were copied */
  bool stale;

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

/* train_device.c: programs that update their parameters themselves. open: binds their state to what
 * the optimiser and the buffers' averages hold on the host; push and pull copy it. pull does
 * nothing while the host is up to date. */
static inline bool vtb__updates_itself(const vtb_trainer *t) { return t->bound.scalars >= 0; }
VTB_MUST_USE vtb_status vtb__device_open(vtb_trainer *t, vtb_error *err);
void vtb__device_close(vtb_trainer *t);
VTB_MUST_USE vtb_status vtb__device_push(vtb_trainer *t, vtb_error *err);
VTB_MUST_USE vtb_status vtb__device_pull(vtb_trainer *t, vtb_error *err);
/* What a run of the step says of its update. Gradients that are not finite are VTB_E_NUMBERS, as of
 * vtb_optim_step(). */
VTB_MUST_USE vtb_status vtb__device_result(vtb_trainer *t, int64_t *correct, vtb_error *err);

/* train_scale.c: the factor on the loss that keeps gradients within a narrow format. begin: before
 * a run; end: what becomes of the status of the update: too large gradients are a smaller factor
 * and no error. */
static inline bool vtb__is_scaled(const vtb_trainer *t) { return t->bound.scale >= 0; }
void vtb__scale_open(vtb_trainer *t);
void vtb__scale_begin(vtb_trainer *t);
VTB_MUST_USE vtb_status vtb__scale_end(vtb_trainer *t, vtb_status status, const vtb_error *inner,
                                       vtb_error *err);

VTB_MUST_USE vtb_status vtb__checkpoint_load(vtb_trainer *t, const char *path, vtb_error *err);

/* Event with the common fields filled. */
vtb_train_event vtb__event(const vtb_trainer *t, vtb_train_event_kind kind);
void vtb__send(const vtb_trainer *t, const vtb_train_event *e);
VTB_MUST_USE vtb_status vtb__log_step(vtb_trainer *t, vtb_error *err);
VTB_MUST_USE vtb_status vtb__log_epoch(vtb_trainer *t, const vtb_train_event *e, vtb_error *err);
/* The result of a run that ended within an epoch. */
VTB_MUST_USE vtb_status vtb__log_end(vtb_trainer *t, vtb_error *err);

#endif

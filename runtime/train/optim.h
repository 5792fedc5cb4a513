/* The optimiser of a training program, seen from the host: its scalars, its states by their names,
 * and what schedules make of them. The update itself is in the program (runtime/base/update.h).
 *
 * Ownership: an optimiser owns what it allocates among `args` and refers to the program and to
 * `args`, which must stay.
 */
#ifndef VTB_OPTIM_H
#define VTB_OPTIM_H

#include "runtime/artefact/tensors.h"
#include "runtime/base/schedule.h"
#include "runtime/base/update.h"

/* A hyperparameter, by the name that the optimiser's declaration gives it. */
typedef struct vtb_setting {
  const char *name;
  double value;
} vtb_setting;

typedef struct vtb_optim_config {
  const char *name;            /* what the program's optimiser must be called; NULL: anything */
  const vtb_setting *settings; /* other values than the program's defaults */
  int n_settings;
  double clip_norm; /* gradients times min(1, clip_norm / (norm + 1e-6)); 0: off */
  double ema_decay; /* averaged copy e = d e + (1 - d) p after every step, in [0, 1); 0: off */
} vtb_optim_config;

typedef struct vtb_optim vtb_optim;

/* True if a run of the program is a whole training step. */
bool vtb_optim_is_inside(const vtb_program *p);
bool vtb_optim_has_averages(const vtb_program *p); /* it averages its weights */
/* The default of a hyperparameter; false if the program's optimiser has none of that name. */
bool vtb_optim_default(const vtb_program *p, const char *name, double *value);
/* The name of its optimiser, cut off if need be; "" if it has none. */
enum { VTB_OPTIM_NAME = 64 };
void vtb_optim_name(const vtb_program *p, char name[VTB_OPTIM_NAME]);
/* args: a buffer a tensor; those of the update that are NULL are allocated, states as zeros, and
 * updates share the memory of what they update. VTB_E_INPUT if the program does not update itself
 * or was made for other settings. */
VTB_MUST_USE vtb_status vtb_optim_open(const vtb_program *p, void **args,
                                       const vtb_optim_config *config, vtb_optim **out,
                                       vtb_error *err);
void vtb_optim_free(vtb_optim *o);
/* Averages become copies of the values; of a run that begins. */
void vtb_optim_begin_averages(vtb_optim *o);

/* Parameters that are trained, in the order of the program's tensors. */
int vtb_optim_n_trained(const vtb_optim *o);
int vtb_optim_trained(const vtb_optim *o, int i); /* number of the tensor */
/* Factor on the learning rate of trained parameter i; 1 at first. */
void vtb_optim_set_rate(vtb_optim *o, int i, double factor);
/* The average of the parameter or buffer that is tensor i; NULL without. */
float *vtb_optim_average(const vtb_optim *o, int tensor);

/* True if several runs may make an update of the program, and, before each, which of them it is:
 * the last changes the parameters. Without a word there is one. */
bool vtb_optim_accumulates(const vtb_program *p);
void vtb_optim_piece(vtb_optim *o, int64_t piece, int64_t pieces);
/* Weight decay and the factor of averages from the next update on, as far as the pace says any.
 * VTB_E_INPUT if the program has none of what it says. */
VTB_MUST_USE vtb_status vtb_optim_follow(vtb_optim *o, const vtb_pace *pace, vtb_error *err);
/* Before a run: what the next update needs. scale: gradients are this many times too large. */
void vtb_optim_prepare(vtb_optim *o, double lr, double scale);
/* From here on, prepare is for the update that comes `n` behind the next: so many have begun that
 * were not judged yet. */
void vtb_optim_run_ahead(vtb_optim *o, int64_t n);
/* After it: *grad_norm is the norm before clipping, *correct how many of the first n images were
 * classified right; either may be NULL. A step whose loss or gradients are not finite has changed
 * nothing and is VTB_E_NUMBERS. */
VTB_MUST_USE vtb_status vtb_optim_judge(vtb_optim *o, int64_t n, double *grad_norm,
                                        int64_t *correct, vtb_error *err);
/* For a run that judges nothing: how many of the first n images were classified right. */
int64_t vtb_optim_correct(const vtb_optim *o, int64_t n);
int64_t vtb_optim_steps(const vtb_optim *o);

/* States as tensors "optim/<state>/<param>" and "ema/<param or buffer>", and metadata optim.kind,
 * optim.steps. `save` borrows: write the store before the next step. */
void vtb_optim_save(const vtb_optim *o, vtb_weights *w);
VTB_MUST_USE vtb_status vtb_optim_load(vtb_optim *o, const vtb_weights *w, vtb_error *err);

/* A run's schedule: the rate and more of every update. */
typedef struct vtb_schedule {
  double lr;     /* the peak, as it is told */
  int64_t total; /* updates of the run */
  double factor; /* on every rate; 0: 1 */
  /* *pace has the rate lr, and leaves decay and averages alone; NULL: that is all. Of the moment
   * what the trainer knows is set: t, total, updates_an_epoch and batch. */
  vtb_status (*at)(void *user, const vtb_moment *moment, vtb_pace *pace, vtb_error *err);
  void *user;
} vtb_schedule;

#endif

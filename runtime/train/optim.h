/* The optimiser of a training program, seen from the host: its scalars, its states by their names,
 * and learning-rate schedules. The update itself is in the program (runtime/base/update.h).
 *
 * Ownership: an optimiser owns what it allocates among `args` and refers to the program and to
 * `args`, which must stay.
 */
#ifndef VTB_OPTIM_H
#define VTB_OPTIM_H

#include "runtime/artefact/tensors.h"
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

/* lr(t), t = update number from 0.
 *   t < warmup:  warmup_lr + t (base - warmup_lr) / warmup
 *   constant:    base
 *   cosine: u = prefix ? t - warmup : t; final + (base - final) (1 + cos(pi u / total)) / 2 for u <
 *   total, then final */
typedef enum vtb_schedule_kind { VTB_SCHEDULE_COSINE, VTB_SCHEDULE_CONSTANT } vtb_schedule_kind;
typedef struct vtb_schedule {
  vtb_schedule_kind kind;
  double base_lr, final_lr, warmup_lr;
  int64_t warmup, total; /* in updates; with prefix, `total` counts after the warm-up */
  bool prefix;
} vtb_schedule;
double vtb_schedule_lr(const vtb_schedule *s, int64_t update);

#endif

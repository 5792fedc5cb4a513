/* Optimisers (AdamW, SGD), gradient clipping, averaging of weights, learning-rate schedules.
 *
 * Results do not depend on the number of threads: sums run over fixed pieces in a fixed order.
 * Ownership: an optimiser owns its state; parameter and gradient buffers are the caller's and must
 * stay where they are.
 */
#ifndef VTB_OPTIM_H
#define VTB_OPTIM_H

#include "runtime/artefact/tensors.h"

typedef enum vtb_optim_kind { VTB_OPTIM_ADAMW, VTB_OPTIM_SGD } vtb_optim_kind;

typedef struct vtb_optim_config {
  vtb_optim_kind kind;
  double beta1, beta2, eps;   /* AdamW */
  double momentum, dampening; /* SGD */
  bool nesterov;
  double weight_decay; /* AdamW: decoupled, p *= 1 - lr wd; SGD: g += wd p */
  double clip_norm;    /* gradients times min(1, clip_norm / (norm + 1e-6)); 0: off */
  double ema_decay;    /* averaged copy e = d e + (1 - d) p after every step; 0: off */
} vtb_optim_config;
/* betas 0.9 0.999, eps 1e-8, momentum 0.9, decay 0.05 / 0 */
vtb_optim_config vtb_optim_defaults(vtb_optim_kind kind);

typedef struct vtb_optim_param {
  const char *name;
  float *value;
  const float *grad;
  int64_t count;
  bool decay;
  double lr_scale; /* layer-wise factor; 0 means 1 */
} vtb_optim_param;

typedef struct vtb_optim vtb_optim;

/* Copies `params` and their names; EMA starts as a copy of the values. */
VTB_MUST_USE vtb_status vtb_optim_new(const vtb_optim_config *config, const vtb_optim_param *params,
                                      int n_params, const vtb_services *services, vtb_optim **out,
                                      vtb_error *err);
void vtb_optim_free(vtb_optim *o);

/* Gradients are this many times too large (a loss that was scaled); 1 at first. */
void vtb_optim_set_scale(vtb_optim *o, double scale);
/* One update. *grad_norm (may be NULL) is the norm before clipping. Gradients that are not finite
 * change nothing and are VTB_E_NUMBERS. */
VTB_MUST_USE vtb_status vtb_optim_step(vtb_optim *o, double lr, double *grad_norm, vtb_error *err);
int64_t vtb_optim_steps(const vtb_optim *o);
/* EMA copy of parameter i; NULL without EMA. */
float *vtb_optim_ema(const vtb_optim *o, int i);

/* ---- programs that do the update themselves (update.h): the optimiser holds what is saved ---- */
/* What such a program needs for the next update: VTB_SCALAR_RATES + 2 * n_params numbers. */
void vtb_optim_scalars(const vtb_optim *o, double lr, float *scalars);
/* The program made an update: the state is of one more. */
void vtb_optim_count(vtb_optim *o);
/* Buffer i of vtb_optim_n_states() and, as `name`, what it is called in a checkpoint:
 * "optim/m/<param>", "ema/<param>". */
float *vtb_optim_state(const vtb_optim *o, int i, vtb_strbuf *name);
int vtb_optim_n_states(const vtb_optim *o);
/* The error of a step whose gradients are not finite; i: the parameter, -1: only their sum is
 * not. */
vtb_status vtb_optim_not_finite(const vtb_optim *o, int i, vtb_error *err);

/* State as tensors "optim/<state>/<name>", EMA as "ema/<name>", and metadata optim.kind,
 * optim.steps. `save` borrows: write the store before the next step. */
void vtb_optim_save(const vtb_optim *o, vtb_weights *w);
VTB_MUST_USE vtb_status vtb_optim_load(vtb_optim *o, const vtb_weights *w, vtb_error *err);

/* lr(t), t = update number from 0.
 *   t < warmup:  warmup_lr + t (base - warmup_lr) / warmup
 *   constant:    base
 *   cosine:      final + (base - final) (1 + cos(pi u / total)) / 2 for u < total, then final;
 *                u = prefix ? t - warmup : t */
typedef enum vtb_schedule_kind { VTB_SCHEDULE_COSINE, VTB_SCHEDULE_CONSTANT } vtb_schedule_kind;
typedef struct vtb_schedule {
  vtb_schedule_kind kind;
  double base_lr, final_lr, warmup_lr;
  int64_t warmup, total; /* in updates; with prefix, `total` counts after the warm-up */
  bool prefix;
} vtb_schedule;
double vtb_schedule_lr(const vtb_schedule *s, int64_t update);

#endif

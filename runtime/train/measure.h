/* A program's measures of its batches: the losses and metrics that its model declares
 * (runtime/base/objective.h), summed until a data set or an epoch is through.
 *
 * An output "loss:<name>", "metric:<name>" or "lower:<name>" is f32 [2, K]: sums over the batch,
 * divisors below them. Both are added up in double over batches; the value is the mean, over the k
 * whose divisor is positive, of the quotients.
 */
#ifndef VTB_MEASURE_H
#define VTB_MEASURE_H

#include "runtime/artefact/tensors.h"

enum { VTB_MOST_MEASURES = 16 };

typedef struct vtb_measured {
  const char *name;    /* the program's */
  bool is_loss, lower; /* lower: is better */
  double value;        /* NaN: of no samples */
} vtb_measured;

/* In the order of the model's declarations. */
typedef struct vtb_measured_list {
  int n; /* 0: of a classifier without declarations */
  vtb_measured at[VTB_MOST_MEASURES];
} vtb_measured_list;

int vtb_measured_losses(const vtb_measured_list *l); /* how many are losses */
/* The sum of the losses. */
double vtb_measured_loss(const vtb_measured_list *l);
/* The measure that runs are compared by: the first metric, -1: there is none, and the loss is. */
int vtb_measured_main(const vtb_measured_list *l);
bool vtb_measured_is_better(const vtb_measured_list *l, double value, double than);
/* The value of what runs are compared by. */
double vtb_measured_score(const vtb_measured_list *l);
const char *vtb_measured_score_name(const vtb_measured_list *l); /* "loss" without a metric */

typedef struct vtb_measures {
  int n;
  struct {
    int tensor;
    int64_t k, at; /* sums[at .. at + 2k) */
  } of[VTB_MOST_MEASURES];
  vtb_measured_list named; /* without values */
  double *sums;
  int64_t n_sums;
} vtb_measures;

bool vtb_program_measures(const vtb_program *p); /* it has such outputs */
/* Sums are zero. *m needs vtb_measures_free() after failures too. */
VTB_MUST_USE vtb_status vtb_measures_open(vtb_measures *m, const vtb_program *p, vtb_error *err);
void vtb_measures_free(vtb_measures *m);
void vtb_measures_clear(vtb_measures *m);
void vtb_measures_add(vtb_measures *m, void *const *args); /* after a run */
vtb_measured_list vtb_measures_values(const vtb_measures *m);
/* Sums as tensors "sums/<name>". `load`: a store that lacks one is VTB_E_INPUT. */
void vtb_measures_save(const vtb_measures *m, vtb_weights *w);
VTB_MUST_USE vtb_status vtb_measures_load(vtb_measures *m, const vtb_weights *w, vtb_error *err);

#endif

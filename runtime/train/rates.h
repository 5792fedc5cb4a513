/* Learning rates of single parameters, by their names and by how deep they stand. */
#ifndef VTB_RATES_H
#define VTB_RATES_H

#include "runtime/train/optim.h"

/* Parameters whose names are of the pattern (fnmatch: "blocks.0.*") learn at `factor` times the
 * rate. What an optimiser multiplies by the rate, as AdamW its weight decay, is scaled with it: as
 * of a parameter group in other frameworks. */
typedef struct vtb_rate {
  const char *pattern;
  double factor;
} vtb_rate;

typedef struct vtb_rates {
  const vtb_rate *at; /* the last that matches holds */
  int n;
  /* A layer learns at this times the rate of the one behind it; 0 or 1: all alike. Layers are the
   * numbered parts of names in the order of the program ("blocks.3", "stages.1.blocks.0"), down to
   * those that have parts of their own; what stands before the first is one layer, what has no
   * number behind it the last. Of n numbered ones, the k-th from 1 learns at layer_decay^(n + 1 -
   * k) of the rate, what is before them at layer_decay^(n + 1), what is behind at all of it. */
  double layer_decay;
} vtb_rates;

/* VTB_E_USAGE: a pattern that matches nothing, a factor that is none, no numbered layers. */
VTB_MUST_USE vtb_status vtb_rates_apply(const vtb_rates *r, const vtb_program *p, vtb_optim *o,
                                        vtb_error *err);
/* The layer of each trained parameter, from 0, in layer[0 .. trained); returns how many layers
 * there are, 0: none is numbered. -1 when out of memory. */
int vtb_rates_layers(const vtb_program *p, const vtb_optim *o, int *layer);

#endif

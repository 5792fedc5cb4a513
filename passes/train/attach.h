/* The end of a training step while it is made: what its files share. */
#ifndef VTB_TRAIN_ATTACH_H
#define VTB_TRAIN_ATTACH_H

#include "ir/update.h"
#include "passes/passes_internal.h"

typedef struct moved {     /* a tensor that the step changes */
  vtb_value *value, *next; /* an argument; its gradient, or what it becomes */
  const char *official;
} moved;

typedef VTB_VEC(moved) moved_list;

typedef struct attach {
  vtb_module *m;
  vtb_func *f;
  vtb_builder b;
  vtb_value *scalars, *verdict;
  bool average;
  vtb_value *share, *last; /* scalars; NULL: one run is an update */
} attach;

/* shaped.c: changes[i] of each tensor, and what states become, whose values are new arguments. */
VTB_MUST_USE vtb_status vtb__update_shaped(attach *a, const vtb_update_options *o,
                                           const moved_list *list, vtb_value *rates,
                                           vtb_value **changes, moved_list *states, vtb_error *err);

#endif

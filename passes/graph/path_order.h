/* Visiting orders of one sequence as permutations, for path_fold: equal orders are one object,
 * whatever text they came from. They live as long as the pass. */
#ifndef VTB_PASSES_PATH_ORDER_H
#define VTB_PASSES_PATH_ORDER_H

#include "ir/path.h"
#include "passes/passes_internal.h"

typedef struct vtb__path_order {
  int index; /* in the order of first use */
  int64_t n;
  const int64_t *perm;
  const char *text; /* a path that visits this order */
  bool identity;
} vtb__path_order;

typedef struct vtb__orders {
  vtb_module *module;
  VTB_VEC(vtb__path_order *) list;
} vtb__orders;

/* The order of a path attribute, inverted if asked for. `path` has been checked against n
 * tokens. */
const vtb__path_order *vtb__order_of(vtb__orders *all, const char *path, bool inverse);
/* Visits at step t what x visits at step y(t). */
const vtb__path_order *vtb__order_compose(vtb__orders *all, const vtb__path_order *x,
                                          const vtb__path_order *y);

#endif

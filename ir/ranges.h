/* Ranges of a module's values: intervals, from the rows of ir/scalar_ops.def (monotone, sign) and
 * the shapes of other ops.
 *
 * The walk goes from the entry into every call with what its arguments can be there, and round a
 * step function until its states no longer grow. Inputs and params can be anything; buffers that
 * begin as ones are taken for variances, which are not negative. Exponentials count as never 0,
 * although they underflow: what is said holds but for overflow and underflow.
 */
#ifndef VTB_RANGES_H
#define VTB_RANGES_H

#include "ir/ir.h"

typedef struct vtb_range {
  double lo, hi; /* lo <= hi; infinite where nothing is known */
  bool nonzero;  /* never 0, though 0 may be between or at the ends */
} vtb_range;

/* Can it be 0? */
static inline bool vtb_range_has_zero(vtb_range r) { return r.lo <= 0 && r.hi >= 0 && !r.nonzero; }

/* Called for every instruction that is reached, in order, once a call of its function, with what
 * its operands can be. */
typedef void (*vtb_range_watch)(void *user, const vtb_inst *inst, const vtb_range *operands);

void vtb_ranges(vtb_func *entry, vtb_range_watch watch, void *user);

/* The range of a value whatever its function's arguments are, as far as what is near it tells. */
vtb_range vtb_range_of(const vtb_value *v);
/* v is `of` summed, or its maximum, over axes. */
bool vtb_is_reduced(const vtb_value *v, vtb_op op, const vtb_value *of);

#endif

/* Gains that cannot grow: exp(x) where x is at most 0 whatever the inputs are (ir/ranges.h), and
 * the exponentials of a softmax, which their largest or their sum bounds.
 */
#include "ir/ranges.h"
#include "passes/recurrence/recurrence.h"

bool vtb__rec_is_bounded(const vtb_value *log_gain) { return vtb_range_of(log_gain).hi <= 0; }

bool vtb__rec_at_most_one(const vtb__factor *f) {
  vtb_range x = vtb_range_of(f->v->def->operands[0]);
  return f->sign > 0 ? x.hi <= 0 : x.lo >= 0;
}

bool vtb__rec_term_bounds(const vtb__term *t, const vtb__factor *gain) {
  if (vtb__rec_at_most_one(gain)) return true;
  for (int i = 0; i < t->n && gain->sign > 0; i++)
    if (t->at[i].sign < 0 && vtb_is_reduced(t->at[i].v, VTB_OP_reduce_sum, gain->v)) return true;
  return false;
}

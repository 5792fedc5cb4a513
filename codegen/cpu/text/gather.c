/* gather and its adjoint: y[lead, pick, rest] = x[lead, indices[lead, pick], rest], zeros where an
 * index is outside. A row of `rest` is PARTS runs of RUN neighbours.
 *
 * The adjoint's task owns columns of all places of one `lead` and goes through the picks in their
 * order, so that sums have one.
 */
#include "codegen/cpu/text/kernel.h"

enum { PICKED, INDICES, WHOLE, TENSORS }; /* strides; the picked rows are the result of a gather */
enum { LEAD, PICK, REST, GROUPS };        /* of axes, the innermost first */
hole int ADDS;                            /* the adjoint */
hole long AXES[GROUPS], SIZE[GROUPS][MOST_AXES], AT[TENSORS][GROUPS][MOST_AXES];
hole long LEADS, PICKS, PLACES, PARTS, RUN; /* how many of each */
hole long PLACE;                            /* from a place to the next */
hole long GRAIN, COLUMNS;                   /* picks of a thread; of a run, a task of the adjoint */

#define PICKED_AT t[ADDS ? 0 : 2]
#define WHOLE_AT t[ADDS ? 2 : 0]

static inline long at(int tensor, int group, long index) {
  long offset = 0;
  UNROLL for (long a = 0; a < AXES[group]; a++) {
    const long n = SIZE[group][a];
    offset += (a + 1 < AXES[group] ? remainder(index, n) : index) * AT[tensor][group][a];
    index = quotient(index, n);
  }
  return offset;
}

/* The place that a pick names, outside: -1. */
static inline long place_of(float *const *t, long lead, long pick) {
  const long place = ((const int *)t[1])[at(INDICES, LEAD, lead) + at(INDICES, PICK, pick)];
  return (unsigned long)place < (unsigned long)PLACES ? place : -1;
}

/* to[from ... end) = x, or += x, or zeros. */
static inline void put(float *to, const float *x, long from, long end) {
  long j = from;
  for (; j + W <= end; j += W) {
    const vf v = x ? load(x + j) : (vf)0;
    store(to + j, ADDS && x ? load(to + j) + v : v);
  }
  if (RUN == 1) {
    *to = x ? (ADDS ? *to + *x : *x) : 0;
  } else if (j < end) {
    const vf v = x ? load_part(x + j, end - j) : (vf)0;
    store_part(to + j, ADDS && x ? load_part(to + j, end - j) + v : v, end - j);
  }
}

TASK(gather, ADDS ? 0 : LEADS *PICKS, GRAIN, 0) {
  const long lead = quotient(index, PICKS), pick = remainder(index, PICKS),
             place = place_of(t, lead, pick);
  float *to = PICKED_AT + at(PICKED, LEAD, lead) + at(PICKED, PICK, pick);
  const float *from = WHOLE_AT + at(WHOLE, LEAD, lead) + place * PLACE;
  for (long p = 0; p < PARTS; p++)
    put(to + at(PICKED, REST, p), place < 0 ? 0 : from + at(WHOLE, REST, p), 0, RUN);
}

TASK(scatter_sum, ADDS ? LEADS *PARTS *pieces(RUN, COLUMNS) : 0, 1, 0) {
  const long slices = pieces(RUN, COLUMNS), from = remainder(index, slices) * COLUMNS,
             part = remainder(quotient(index, slices), PARTS),
             lead = quotient(index, slices * PARTS), end = least(from + COLUMNS, RUN);
  float *to = WHOLE_AT + at(WHOLE, LEAD, lead) + at(WHOLE, REST, part);
  const float *x = PICKED_AT + at(PICKED, LEAD, lead) + at(PICKED, REST, part);
  for (long n = 0; n < PLACES; n++) put(to + n * PLACE, 0, from, end);
  for (long pick = 0; pick < PICKS; pick++) {
    const long place = place_of(t, lead, pick);
    if (place >= 0) put(to + place * PLACE, x + at(PICKED, PICK, pick), from, end);
  }
}

/* linscan token by token, for every class but rates: mode recurrent, and all modes of the classes
 * key, value and full, whose matrix forms are not generated: they give the same results at the
 * recurrent form's cost. linscan_steps_wide.c carries the state in double. */
#include "codegen/cpu/text/steps.h"

enum { MOST = W < 16 && sizeof(element) > 4 ? 2 : 4 }; /* vectors at a time: registers */

typedef struct arrays {
  float *v, *d, *packed, *state, *y;
} arrays;
static inline arrays lay_out(memory *m) {
  return (arrays){take(m, LD), take(m, LD), take(m, K * LD),
                  sizeof(element) > 4 ? take(m, K * LD * 2) : 0, take(m, LD)};
}

TASK(steps, BATCH *HEADS *TILES, 1, BYTES_OF(lay_out)) {
  memory own = {scratch, 0};
  const arrays a = lay_out(&own);
  const steps g = steps_at(t, index, a.v, a.d);
  element *state = sizeof(element) > 4 ? (element *)a.state : (element *)a.packed;
  if (INIT)
    pack_state(&g.c, &g.s, a.packed, AT_S0, AT_N0, LD);
  else
    fill(a.packed, 0, K * LD);
  for (long i = 0; sizeof(element) > 4 && i < K * LD; i += W)
    *(number_at *)(state + i) = NUMBER(load(a.packed + i));
  for (long i = 0; i < TOKENS; i++) {
    const step now = {&g, place(i), state, state, a.y};
    load_rows(&g, now.pos);
    EACH_GROUP(&g.c, MOST, advance_vectors, &now);
    unpack_row(&g.c, row(&g.s, AT_Y, now.pos), NORMALIZER ? row(&g.s, AT_Z, now.pos) : 0, a.y);
  }
  for (long i = 0; sizeof(element) > 4 && LAST && i < K * LD; i += W)
    store(a.packed + i, OF_NUMBER(*(number_at *)(state + i)));
  if (LAST) unpack_state(&g.c, &g.s, AT_S, AT_N, a.packed, LD);
}

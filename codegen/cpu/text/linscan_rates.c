/* linscan of class rates: see rates.h. A task owns one batch entry, one head and a tile of V, and
 * walks the tokens once a block of keys. Serves every mode: the recurrent form is the cheapest, for
 * there is no matrix form. */
#include "codegen/cpu/text/rates.h"

typedef struct forward {
  rates g;
  run r;
} forward;

static inline void block(const forward *f, long k0, int n, _Bool first) {
  advance(&f->g, &f->r, k0, n, first);
}

TASK(rates, BATCH *HEADS *TILES, 1, K *LANES * sizeof(float)) {
  float *state = (float *)scratch;
  const rates g = {scan_at(t, quotient(index, TILES)), remainder(index, TILES) * LANES};
  const forward f = {g, {0, TOKENS, state, LAST ? state : 0, 1}};
  for (long k = 0; k < K; k++)
    store_16(state + k * LANES, INIT ? load_tile(&g, state_row(&g.s, AT_S0, k)) : 0);
  EACH_BLOCK(block, &f);
  for (long k = 0; LAST && k < K; k++)
    store_tile(&g, state_row(&g.s, AT_S, k), load_16(state + k * LANES));
}

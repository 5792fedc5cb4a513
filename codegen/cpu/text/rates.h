/* Class rates, forward and back: S_t = exp(d_t A) o S_{t-1} + k_t v_t^T.
 *
 * Channels of V are lanes: a tile of LANES of them is one value, which LLVM splits into the
 * machine's vectors and so runs several exponentials side by side. A block of at most KEYS rows of
 * the state is carried from token to token; rows that find no register stay on the stack. No state
 * and no decay is written to memory but those at boundaries. Rows of scratch memory hold LANES
 * floats, of which those past V are zeros.
 */
#include "codegen/cpu/text/scan.h"

enum { LANES = 16, KEYS = 16 };
#define TILES quotient(V + LANES - 1, LANES)
#define WHOLE (quotient(K, KEYS) * KEYS) /* keys in whole blocks */

typedef struct rates {
  scan s;
  long from; /* the tile's first column */
} rates;

/* This tile's part of a tensor's row. */
static inline v16 load_tile(const rates *g, const float *row) {
  return V % LANES ? vtb_load_part_16(row + g->from, V - g->from) : load_16(row + g->from);
}
static inline void store_tile(const rates *g, float *row, v16 x) {
  if (V % LANES)
    vtb_store_part_16(row + g->from, x, V - g->from);
  else
    store_16(row + g->from, x);
}
/* Adds to what the blocks before have left in the row; the first block overwrites. */
static inline void accumulate(const rates *g, float *row, v16 x, _Bool first) {
  const v16 more = x + load_tile(g, row);
  store_tile(g, row, first ? x : more);
}

static inline const float *rate_row(const rates *g, long key) {
  return g->s.t[AT_RATES] + g->s.head * STRIDE[AT_RATES][0] + key * STRIDE[AT_RATES][1];
}

/* Rates of n keys in units of a power of two; exp(step A) of them. */
static inline void exponents_of(const rates *g, long k0, int n, v16 *out) {
  UNROLL for (int k = 0; k < n; k++) out[k] =
      load_tile(g, rate_row(g, k0 + k)) * (float)1.44269504088896341;
}
static inline void decays_of(v16 step, const v16 *exponents, int n, v16 *out) {
  UNROLL for (int k = 0; k < n; k++) out[k] = vtb_exp2_16(step * exponents[k]);
}

/* Calls block(of, first key, number of keys, is it the first block) for all keys. */
#define EACH_BLOCK(block, of)                                                                      \
  do {                                                                                             \
    if (WHOLE == KEYS)                                                                             \
      block(of, 0, KEYS, 1);                                                                       \
    else                                                                                           \
      for (long k0 = 0; k0 < WHOLE; k0 += KEYS) block(of, k0, KEYS, k0 == 0);                      \
    if (K % KEYS) block(of, WHOLE, K % KEYS, WHOLE == 0);                                          \
  } while (0)

/* Tokens t0 ... t0 + n_steps, from the rows `from` to the rows `to` (NULL: not kept). y: writes
 * what each step reads out. */
typedef struct run {
  long t0, n_steps;
  const float *from;
  float *to;
  _Bool y;
} run;

/* Keys k0 ... k0 + n of the state through the tokens of r. */
static inline void advance(const rates *g, const run *r, long k0, int n, _Bool first) {
  v16 exponents[KEYS], decay[KEYS], state[KEYS];
  exponents_of(g, k0, n, exponents);
  UNROLL for (int k = 0; k < n; k++) state[k] = load_16(r->from + (k0 + k) * LANES);
  for (long step = 0; step < r->n_steps; step++) {
    const long pos = place(r->t0 + step);
    const float *keys = row(&g->s, AT_K, pos) + k0;
    const float *queries = r->y ? row(&g->s, AT_Q, pos) + k0 : keys;
    const v16 v = load_tile(g, row(&g->s, AT_V, pos));
    decays_of(load_tile(g, row(&g->s, AT_D, pos)), exponents, n, decay);
    v16 y[2] = {0, 0};
    UNROLL for (int k = 0; k < n; k++) {
      state[k] = fma(decay[k], state[k], keys[k] * v);
      if (r->y) y[k % 2] = fma((v16)queries[k], state[k], y[k % 2]);
    }
    if (r->y) accumulate(g, row(&g->s, AT_Y, pos), y[0] + y[1], first);
  }
  UNROLL for (int k = 0; k < n; k++) if (r->to) store_16(r->to + (k0 + k) * LANES, state[k]);
}

/* Token by token: the state [K, V] stays in scratch memory, vectors run along V. A task owns one
 * batch entry, one head and a tile of V, so that few heads still feed all threads. */
#include "codegen/cpu/text/rows.h"

hole long WIDTH;                          /* columns a tile, whole vectors */
hole int ALONG_KEY, ALONG_VALUE, BY_STEP; /* what the decay has axes of: 1 or 0 */

#define TILES quotient(STORED(V, NORMALIZER) + WIDTH - 1, WIDTH)
#define LD (TILES > 1 ? WIDTH : STORED(V, NORMALIZER)) /* of a row of a tile */

typedef struct steps {
  scan s;
  cols c;
  float *v, *d; /* rows of the tile: v, and d where it runs along V alone */
} steps;

static inline steps steps_at(float *const *t, long index, float *v, float *d) {
  const long tile = remainder(index, TILES);
  return (steps){scan_at(t, quotient(index, TILES)), cols_tile(V, NORMALIZER, WIDTH, tile), v, d};
}

/* What a step needs of the token beyond q and k. */
static inline void load_rows(const steps *g, long pos) {
  pack_row(&g->c, g->v, row(&g->s, AT_V, pos), 1);
  if (ALONG_VALUE && !ALONG_KEY) pack_row(&g->c, g->d, row(&g->s, AT_D, pos), 0);
}

/* Calls each(of, offset in a row, vectors, 0) for whole vectors, `most` at a time (1, 2 or 4), then
 * fewer; each(of, offset, 1, floats in it) for the partial one. */
#define EACH_GROUP(c, most, each, of)                                                              \
  do {                                                                                             \
    long j = 0;                                                                                    \
    if ((most) >= 4)                                                                               \
      for (; j < (c)->whole + 1 - 4 * W; j += 4 * W) each(of, j, 4, 0);                            \
    if ((most) >= 2)                                                                               \
      for (; j < (c)->whole + 1 - 2 * W; j += 2 * W) each(of, j, 2, 0);                            \
    for (; j < (c)->whole + 1 - W; j += W) each(of, j, 1, 0);                                      \
    if (partial(c) && (c)->ends) each(of, (c)->whole, 1, partial(c));                              \
  } while (0)

/* The decay of key k at column j of the tile: one number for all columns, or theirs. */
#define COMMON (!BY_STEP || !ALONG_VALUE)
static inline float common_decay(const steps *g, long pos, long k) {
  if (!BY_STEP) return g->s.t[AT_D][g->s.head * STRIDE[AT_D][0]];
  return row(&g->s, AT_D, pos)[ALONG_KEY ? k * STRIDE[AT_D][3] : 0];
}
static inline vf decay_at(const steps *g, long pos, long k, long j, long left) {
  if (COMMON) return (vf)common_decay(g, pos, k);
  if (!ALONG_KEY) return load(g->d + j);
  const float *at = row(&g->s, AT_D, pos) + k * STRIDE[AT_D][3] + (g->c.from + j) * STRIDE[AT_D][4];
  return load_some(at, left);
}

/* With WIDE the state is carried in double. */
#ifdef WIDE
typedef vd number;
typedef double element;
typedef vd number_at __attribute__((aligned(4)));
#define NUMBER(x) WIDENED(x)
#define OF_NUMBER(x) NARROWED(x)
#else
typedef vf number;
typedef float element;
typedef vf_at number_at;
#define NUMBER(x) (x)
#define OF_NUMBER(x) (x)
#endif

/* next = D_t o prev + k v^T, and y = next^T q to a row of the tile unless NULL. */
typedef struct step {
  const steps *g;
  long pos;
  const element *prev;
  element *next;
  float *y;
} step;

static inline void advance_vectors(const step *a, long j, int vectors, long left) {
  const steps *g = a->g;
  const float *keys = row(&g->s, AT_K, a->pos), *queries = a->y ? row(&g->s, AT_Q, a->pos) : keys;
  number v[4], y[4];
  UNROLL for (int i = 0; i < vectors; i++) {
    v[i] = NUMBER(load(g->v + j + i * W));
    y[i] = 0;
  }
  for (long k = 0; k < K; k++) {
    const number key = (number)(element)keys[k], query = (number)(element)queries[k];
    const number common = COMMON ? (number)(element)common_decay(g, a->pos, k) : 0;
    UNROLL for (int i = 0; i < vectors; i++) {
      const long at = k * LD + j + i * W;
      const number decay = COMMON ? common : NUMBER(decay_at(g, a->pos, k, j + i * W, left));
      const number state = fma(key, v[i], decay * *(const number_at *)(a->prev + at));
      *(number_at *)(a->next + at) = state;
      if (a->y) y[i] = fma(query, state, y[i]);
    }
  }
  UNROLL for (int i = 0; i < vectors; i++) if (a->y) store(a->y + j + i * W, OF_NUMBER(y[i]));
}

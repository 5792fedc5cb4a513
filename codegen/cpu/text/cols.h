/* Rows of tensors from and to scratch memory, in whole vectors: padded by zeros. With `extra` there
 * is one more column behind the last. */
#include "codegen/cpu/text/kernel.h"

/* Columns that a task works on: whole vectors from `from` on, and a partial one where it has the
 * row's end. n, extra: of the whole row. */
typedef struct cols {
  long n, extra, from, whole;
  _Bool ends;
} cols;

#define STORED(n, extra) round_up((n) + (extra), W) /* floats of a padded row */

/* Part `tile` of the columns, `width` a part (whole vectors). */
static inline cols cols_tile(long n, long extra, long width, long tile) {
  const long whole = quotient(n, W) * W, n_tiles = quotient(STORED(n, extra) + width - 1, width);
  if (n_tiles == 1) return (cols){n, extra, 0, whole, 1};
  const long from = tile * width;
  return (cols){n, extra, from, least(whole - from, width), tile == n_tiles - 1};
}

static inline cols cols_all(long n, long extra) {
  return (cols){n, extra, 0, quotient(n, W) * W, 1};
}

/* Floats in the partial vector; 0: there is none. */
static inline long partial(const cols *c) { return c->n % W + c->extra; }
static inline long vectors_of(const cols *c) {
  return quotient(c->whole, W) + (partial(c) && c->ends);
}

/* out = x, its extra column, zeros to a whole vector, all times `by`; and back, extra NULL:
 * dropped. */
static inline void pack_row_times(const cols *c, float *out, const float *x, float extra, vf by) {
  const float *from = x + c->from;
  for (long j = 0; j < c->whole; j += W) store(out + j, load(from + j) * by);
  if (!partial(c) || !c->ends) return;
  vf last = 0;
  if (c->n % W) last = vtb_load_part(from + c->whole, c->n % W);
  if (c->extra) last[c->n % W] = extra;
  store(out + c->whole, last * by);
}
static inline void pack_row(const cols *c, float *out, const float *x, float extra) {
  pack_row_times(c, out, x, extra, (vf)1);
}
static inline void unpack_row(const cols *c, float *x, float *extra, const float *packed) {
  float *to = x + c->from;
  for (long j = 0; j < c->whole; j += W) store(to + j, load(packed + j));
  if (!partial(c) || !c->ends) return;
  const vf last = load(packed + c->whole);
  if (c->n % W) vtb_store_part(to + c->whole, last, c->n % W);
  if (c->extra && extra) *extra = last[c->n % W];
}

/* n floats, whole vectors. */
static inline void fill(float *at, float x, long n) {
  for (long i = 0; i < n; i += W) store(at + i, (vf)x);
}
static inline void copy(float *to, const float *from, long n) {
  for (long i = 0; i < n; i += W) store(to + i, load(from + i));
}

/* Rows of tensors from and to scratch memory, in whole vectors: padded by zeros. The normalizer of
 * a recurrence is one more column behind the last. */
#include "codegen/cpu/text/scan.h"

hole int AT_N0, AT_Z, AT_N, AT_DZ, AT_DN, AT_DN0; /* the normalizer's tensors */
hole int NORMALIZER;                              /* 1: there is one */

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

/* out = x, its extra column, zeros to a whole vector; and back, extra NULL: dropped. */
static inline void pack_row(const cols *c, float *out, const float *x, float extra) {
  const float *from = x + c->from;
  for (long j = 0; j < c->whole; j += W) store(out + j, load(from + j));
  if (!partial(c) || !c->ends) return;
  vf last = 0;
  if (c->n % W) last = vtb_load_part(from + c->whole, c->n % W);
  if (c->extra) last[c->n % W] = extra;
  store(out + c->whole, last);
}
static inline void unpack_row(const cols *c, float *x, float *extra, const float *packed) {
  float *to = x + c->from;
  for (long j = 0; j < c->whole; j += W) store(to + j, load(packed + j));
  if (!partial(c) || !c->ends) return;
  const vf last = load(packed + c->whole);
  if (c->n % W) vtb_store_part(to + c->whole, last, c->n % W);
  if (c->extra && extra) *extra = last[c->n % W];
}

/* Tokens t0 ... t0 + n of a tensor in path order to rows `ld` apart; extra: the tensor of the extra
 * column, -1: ones. And back; extra -1: dropped. */
static inline void pack_tokens(const cols *c, const scan *s, float *out, long ld, int tensor,
                               int extra, long t0, long n) {
  for (long i = 0; i < n; i++) {
    const long pos = place(t0 + i);
    const float last = c->extra && extra >= 0 ? *row(s, extra, pos) : 1;
    pack_row(c, out + i * ld, row(s, tensor, pos), last);
  }
}
static inline void unpack_tokens(const cols *c, const scan *s, int tensor, int extra,
                                 const float *rows, long ld, long t0, long n) {
  for (long i = 0; i < n; i++) {
    const long pos = place(t0 + i);
    unpack_row(c, row(s, tensor, pos), c->extra && extra >= 0 ? row(s, extra, pos) : 0,
               rows + i * ld);
  }
}

/* A state [batch, head, K, V] with the vector [batch, head, K] as extra column, to and from rows
 * of K. */
static inline void pack_state(const cols *c, const scan *s, float *out, int state, int vector,
                              long ld) {
  for (long k = 0; k < K; k++)
    pack_row(c, out + k * ld, state_row(s, state, k), c->extra ? *state_row(s, vector, k) : 0);
}
static inline void unpack_state(const cols *c, const scan *s, int state, int vector,
                                const float *rows, long ld) {
  for (long k = 0; k < K; k++)
    unpack_row(c, state_row(s, state, k), c->extra ? state_row(s, vector, k) : 0, rows + k * ld);
}

/* n floats, whole vectors. */
static inline void fill(float *at, float x, long n) {
  for (long i = 0; i < n; i += W) store(at + i, (vf)x);
}
static inline void copy(float *to, const float *from, long n) {
  for (long i = 0; i < n; i += W) store(to + i, load(from + i));
}

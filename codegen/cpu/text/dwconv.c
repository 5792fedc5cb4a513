/* Depthwise convolution of tokens [B, N, C] on the grid [gt, gh, gw] that the path walks row by
 * row, and its adjoint.
 *
 *   y[p(t)] = start[c] + sum over taps (f, a, e) of w[c, f, a, e] x[p(t')],
 *             t' = t + ((f - front) gh + (a - top)) gw + (e - left), zero where it leaves the grid
 *   dx        the same sum with the taps mirrored
 *
 * p is the path (storage order if absent) without its extra tokens, which are copied. Vectors run
 * along C; weights are first laid out tap by tap, zeros behind them. A task owns a row of the grid,
 * or the extra tokens of a sample.
 */
#include "codegen/cpu/text/dwconv.h"

hole long EXTRA;
hole int MIRRORED;
long extra_place(long step); /* of the extra tokens */
enum { X, WEIGHTS, START, MOST = 12 /* taps a pass: their addresses stay in registers */ };
#define Y (2 + STARTS)
/* A sequence without a grid is one row: it is cut. */
#define PIECE (ROWS > 1 ? COLUMNS : pieces(COLUMNS, 16))
#define PIECES pieces(COLUMNS, PIECE)
#define WHOLE (quotient(CHANNELS, W) * W)

typedef struct sums {
  float *const *t;
  const float *weights, *zeros;
  float *out;
  long b, y, x;
} sums;

/* The start of a vector of channels' sums. */
static inline vf start(const sums *s, long ch, long left) {
  return STARTS ? load_some(s->t[START] + ch * STRIDE[START][0], left) : (vf)0;
}

/* One vector of channels: out = (first pass: the start, else out) + sum of the taps' products. */
static inline void add_vector(const sums *s, const float **rows, long first, long n, long ch,
                              long left) {
  const _Bool begins = first == 0 && TAPS <= MOST_UNROLLED;
  vf sum = begins ? start(s, ch, left) : load_some(s->out + ch, left);
  UNROLL for (long i = 0; i < MOST; i++) if (i < n) sum =
      fma(load_some(rows[i] + ch, left),
          load_some(s->weights + (ch + (first + i) * CHANNELS), left), sum);
  store_some(s->out + ch, sum, left);
}

/* n taps from row a of the kernel, column e, on. */
static inline void add_taps(const sums *s, long a, long e, long n) {
  const float *rows[MOST];
  UNROLL for (long i = 0; i < MOST; i++) if (i < n) {
    const long below = kernel_row(e + i);
    rows[i] = tap_row(s->t, s->b, s->y, s->x, a + below, e + i - below * KERNEL[2], MIRRORED, 0,
                      s->zeros);
  }
  const long first = a * KERNEL[2] + e;
  for (long ch = 0; ch < WHOLE; ch += W) add_vector(s, rows, first, n, ch, 0);
  if (WHOLE < CHANNELS) add_vector(s, rows, first, n, WHOLE, CHANNELS - WHOLE);
}

/* Large kernels, row by row; PART: taps a pass. */
#define PART pieces(KERNEL[2], pieces(KERNEL[2], MOST))
static inline void add_rows(const sums *s) {
  for (long ch = 0; ch < WHOLE; ch += W) store(s->out + ch, start(s, ch, 0));
  if (WHOLE < CHANNELS)
    store_part(s->out + WHOLE, start(s, WHOLE, CHANNELS - WHOLE), CHANNELS - WHOLE);
  for (long a = 0; a < KERNEL_ROWS; a++) {
    const long whole = quotient(KERNEL[2], PART) * PART;
    for (long e = 0; e < whole; e += PART) add_taps(s, a, e, PART);
    if (whole < KERNEL[2]) add_taps(s, a, whole, KERNEL[2] - whole);
  }
}

static inline void convolve(float *const *t, long index, const char *temp) {
  const long row = quotient(index, PIECES), from = remainder(index, PIECES) * PIECE;
  const float *weights = (const float *)temp;
  sums s = {.t = t, .weights = weights, .zeros = weights + TAPS * CHANNELS};
  s.b = quotient(row, ROWS), s.y = remainder(row, ROWS);
  for (s.x = from; s.x < least(from + PIECE, COLUMNS); s.x++) {
    s.out = token(t, Y, s.b, s.y * COLUMNS + s.x);
    if (TAPS > MOST_UNROLLED)
      add_rows(&s);
    else
      UNROLL for (long tap = 0; tap < TAPS; tap += MOST)
          add_taps(&s, 0, tap, least(TAPS - tap, MOST));
  }
}

long temp_bytes(void) { return (TAPS + 1) * CHANNELS * (long)sizeof(float); }

TASK(weights, CHANNELS, 4096 / TAPS + 1, 0) {
  float *out = (float *)temp + index;
  for (long a = 0; a < KERNEL_ROWS; a++)
    for (long e = 0; e < KERNEL[2]; e++)
      out[(a * KERNEL[2] + e) * CHANNELS] = *weight(t, WEIGHTS, index, a, e);
  out[TAPS * CHANNELS] = 0;
}

TASK(conv, MIRRORED ? 0 : BATCH *ROWS *PIECES, 1, 0) { convolve(t, index, temp); }
TASK(dx, MIRRORED ? BATCH *ROWS *PIECES : 0, 1, 0) { convolve(t, index, temp); }

TASK(extra, EXTRA ? BATCH : 0, EXTRA ? 1 + 4096 / (EXTRA * CHANNELS) : 1, 0) {
  for (long e = 0; e < EXTRA; e++) {
    const long at = extra_place(e);
    const float *from = t[X] + (index * STRIDE[X][0] + at * STRIDE[X][1]);
    float *to = t[Y] + (index * STRIDE[Y][0] + at * STRIDE[Y][1]);
    for (long ch = 0; ch < WHOLE; ch += W) store(to + ch, load(from + ch));
    if (WHOLE < CHANNELS)
      store_part(to + WHOLE, load_part(from + WHOLE, CHANNELS - WHOLE), CHANNELS - WHOLE);
  }
}

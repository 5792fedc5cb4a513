/* Adjoint of a depthwise convolution's weights: the sum over batch and t of x[p(t')] dy[p(t)], see
 * dwconv.c; of dy alone for the start, as of one tap more.
 *
 * A task owns a block of channels and a share of the rows; shares are fixed by the shapes and added
 * in order.
 */
#include "codegen/cpu/text/dwconv.h"

enum { X, DY, DW, DSTART, MOST = 12 /* vectors of sums: they stay in registers */ };
#define ALL (TAPS + STARTS)
/* Vectors of a block of channels: one, or more where C is a multiple of them. */
#define FITS(n) (CHANNELS % ((n)*W) == 0 && CHANNELS / ((n)*W) >= 4)
#define VECTORS (FITS(4) ? 4 : FITS(2) ? 2 : 1)
#define PASS (MOST / VECTORS) /* taps */
#define BLOCK (VECTORS * W)
#define BLOCKS pieces(CHANNELS, BLOCK)
#define SHARE pieces(BATCH *ROWS, least(pieces(16, least(BLOCKS, 16)), BATCH *ROWS)) /* rows */
#define SHARES pieces(BATCH *ROWS, SHARE)

/* Sums for a block of channels from `ch`, over rows from ... to of all samples. */
typedef struct sums {
  float *const *t;
  const float *zeros, *ones;
  float *out;
  long ch, from, to;
} sums;

static inline void sum_taps(const sums *s, long first, long n) {
  const long left = CHANNELS % BLOCK ? CHANNELS - s->ch : 0;
  vf sum[MOST], dy[4];
  UNROLL for (int i = 0; i < MOST; i++) sum[i] = 0;
  for (long row = s->from; row < s->to; row++) {
    const long b = quotient(row, ROWS), y = remainder(row, ROWS);
    for (long x = 0; x < COLUMNS; x++) {
      const float *dy_at = token(s->t, DY, b, y * COLUMNS + x) + s->ch;
      UNROLL for (int v = 0; v < 4; v++) if (v < VECTORS) dy[v] = load_some(dy_at + v * W, left);
      UNROLL for (int i = 0; i < MOST; i++) if (i < n) {
        const long tap = first + i, a = kernel_row(tap), e = tap - a * KERNEL[2];
        const float *at =
            STARTS && tap == TAPS ? s->ones : tap_row(s->t, b, y, x, a, e, 0, s->ch, s->zeros);
        UNROLL for (int v = 0; v < 4; v++) if (v < VECTORS) sum[i * VECTORS + v] =
            fma(load_some(at + v * W, left), dy[v], sum[i * VECTORS + v]);
      }
    }
  }
  float *out = s->out + first * BLOCK;
  UNROLL for (int i = 0; i < MOST; i++) if (i < n * VECTORS) store(out + i * W, sum[i]);
}

long temp_bytes(void) { return SHARES * BLOCKS * ALL * BLOCK * (long)sizeof(float); }

TASK(dw, SHARES *BLOCKS, 1, 2 * BLOCK * (long)sizeof(float)) {
  float *zeros = (float *)scratch, *ones = zeros + BLOCK;
  for (long j = 0; j < BLOCK; j += W) {
    store(zeros + j, (vf)0);
    store(ones + j, (vf)1);
  }
  const long from = quotient(index, BLOCKS) * SHARE;
  const sums s = {t,
                  zeros,
                  ones,
                  (float *)temp + index * ALL * BLOCK,
                  remainder(index, BLOCKS) * BLOCK,
                  from,
                  least(from + SHARE, BATCH * ROWS)};
  const long rolled = ALL > MOST_UNROLLED ? quotient(ALL, PASS) * PASS : 0;
  for (long first = 0; first < rolled; first += PASS) sum_taps(&s, first, PASS);
  UNROLL for (long first = rolled; first < ALL; first += PASS)
      sum_taps(&s, first, least(ALL - first, PASS));
}

/* Adds up one number a share. */
static inline float add_shares(const float *parts) {
  float sum = 0;
  for (long k = 0; k < SHARES; k++) sum += parts[k * (BLOCKS * ALL * BLOCK)];
  return sum;
}

/* Partial sums [share, block, tap, channel of the block], added up. */
TASK(sum, CHANNELS, 4096 / (ALL * SHARES) + 1, 0) {
  const long block = quotient(index, BLOCK), own = remainder(index, BLOCK);
  const float *parts = (const float *)temp + (block * ALL * BLOCK + own);
  for (long a = 0; a < KERNEL_ROWS; a++)
    for (long e = 0; e < KERNEL[2]; e++)
      *weight(t, DW, index, a, e) = add_shares(parts + (a * KERNEL[2] + e) * BLOCK);
  if (STARTS) t[DSTART][index * STRIDE[DSTART][0]] = add_shares(parts + TAPS * BLOCK);
}

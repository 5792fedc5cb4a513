/* im2col and col2im: patches [B, oh*ow, C*kh*kw] of an image [B, C, H, W], a series or a video,
 * zeros outside it, and the adjoint. Axes: ir/convolution.h.
 *
 * A row of a patch is neighbours of an image row: copied in whole vectors where it lies inside the
 * image, by elements where it may stick out. im2col: a task owns a row of patches; col2im: a plane
 * of the image, so that sums have an order.
 */
#include "codegen/cpu/text/kernel.h"

hole long BATCH, CHANNELS, RANK;
hole long SIZE[3], KERNEL[3], STEP[3], LOW[3], GRID[3]; /* frames, rows, columns */
hole int GATHER;                                        /* im2col */
#define KW KERNEL[2]
#define KERNEL_ROWS (KERNEL[0] * KERNEL[1]) /* all frames counted through, here and below */
#define PATCH_ROWS (GRID[0] * GRID[1])
#define IMAGE (GATHER ? 0 : 1)
#define COLS (1 - IMAGE)

static inline int below(long x, long n) { return (unsigned long)x < (unsigned long)n; }

static inline float *pixel(float *const *t, long b, long ch, long frame, long y, long x) {
  const long *s = STRIDE[IMAGE];
  float *at = t[IMAGE] + b * s[0] + ch * s[1] + x * s[RANK + 1];
  if (RANK > 1) at += y * s[RANK];
  return RANK > 2 ? at + frame * s[2] : at;
}

/* The place along an axis of the image that patch n reads with element a of the kernel. */
static inline long along(int axis, long n, long a) { return n * STEP[axis] + a - LOW[axis]; }

#define COPY(type, lanes)                                                                          \
  if (lanes <= W) {                                                                                \
    const long whole = quotient(n - j, lanes) * lanes;                                             \
    if (n - j >= 4 * lanes)                                                                        \
      for (long i = j; i < j + whole; i += lanes) COPY_ONE(type, i);                               \
    else                                                                                           \
      UNROLL for (long i = j; i < j + whole; i += lanes) COPY_ONE(type, i);                        \
    j += whole;                                                                                    \
  }
#define COPY_ONE(type, i)                                                                          \
  *(type *)(to + (i)) = GATHER ? *(const type *)(from + (i))                                       \
                               : *(const type *)(to + (i)) + *(const type *)(from + (i))
typedef float v2_at __attribute__((ext_vector_type(2), aligned(4)));
typedef float v4_at __attribute__((ext_vector_type(4), aligned(4)));
typedef float v8_at __attribute__((ext_vector_type(8), aligned(4)));

/* to[0 ... n) = from, or += from. */
static inline void copy_row(const float *from, float *to, long n) {
  long j = 0;
  COPY(v16_at, 16)
  COPY(v8_at, 8)
  COPY(v4_at, 4)
  COPY(v2_at, 2)
  COPY(float, 1)
}

/* Row a of the kernel on patch ox of row oy. */
static inline void one_row(float *const *t, long b, long ch, long oy, long ox, long a) {
  const long y = along(1, remainder(oy, GRID[1]), remainder(a, KERNEL[1]));
  const long frame = along(0, quotient(oy, GRID[1]), quotient(a, KERNEL[1]));
  const long x = along(2, ox, 0), *s = STRIDE[COLS];
  float *image = pixel(t, b, ch, frame, y, x); /* valid only inside */
  float *cols =
      t[COLS] + b * s[0] + (oy * GRID[2] + ox) * s[1] + ((ch * KERNEL_ROWS + a) * KW) * s[2];
  int always = 1;
  UNROLL for (int k = 0; k < 3; k++) always &=
      LOW[k] == 0 && (GRID[k] - 1) * STEP[k] + KERNEL[k] <= SIZE[k];
  const int row_inside = always || (below(y, SIZE[1]) & below(frame, SIZE[0]));
  if (!row_inside) {
    for (long i = 0; GATHER && i < KW; i++) cols[i] = 0;
  } else if (always || (SIZE[2] >= KW && below(x, SIZE[2] - KW + 1))) {
    copy_row(GATHER ? image : cols, GATHER ? cols : image, KW);
  } else {
    for (long i = 0; i < KW; i++)
      if (below(x + i, SIZE[2])) {
        if (GATHER)
          cols[i] = image[i];
        else
          image[i] += cols[i];
      } else if (GATHER) {
        cols[i] = 0;
      }
  }
}

TASK(im2col, GATHER ? BATCH *PATCH_ROWS : 0, 1, 0) {
  const long b = quotient(index, PATCH_ROWS), oy = remainder(index, PATCH_ROWS);
  for (long ox = 0; ox < GRID[2]; ox++)
    for (long ch = 0; ch < CHANNELS; ch++)
      for (long a = 0; a < KERNEL_ROWS; a++) one_row(t, b, ch, oy, ox, a);
}

TASK(col2im, GATHER ? 0 : BATCH *CHANNELS, 1, 0) {
  const long b = quotient(index, CHANNELS), ch = remainder(index, CHANNELS);
  for (long y = 0; y < SIZE[0] * SIZE[1]; y++) {
    float *row = pixel(t, b, ch, quotient(y, SIZE[1]), remainder(y, SIZE[1]), 0);
    for (long x = 0; x < SIZE[2]; x++) row[x] = 0;
  }
  for (long oy = 0; oy < PATCH_ROWS; oy++)
    for (long ox = 0; ox < GRID[2]; ox++)
      for (long a = 0; a < KERNEL_ROWS; a++) one_row(t, b, ch, oy, ox, a);
}

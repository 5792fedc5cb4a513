/* Products of numbers of 8 bits, what the ops quantize and product8 share.
 *
 * A row x, of a matrix or of tokens, is brought to 8 bits by a scale of its own:
 *
 *   scale = (the largest |x|) / 127      0 where that is below 2^-100, NaN where it is no number
 *   q     = x / scale to the nearest integer, from -127 to 127
 *
 * of a matrix with the scale rounded up to 17 bits, so that q times it is exact in f32: a matrix
 * that is kept as such products has the same q and scale when it is brought to 8 bits again.
 *
 * quantize of w [rows, K] packs q sixteen rows at a time, four numbers to an i32, the first in its
 * lowest byte: numbers [panels, K/4, 16], with the rows' scales [panels, 16] and the sums of their
 * q [panels, 16]; what is beyond the last row or number is 0. product8 of rows x [.., K] gives
 *
 *   y[.., c] = (sum over k of q[.., k] w.q[c, k]) (scale[..] w.scale[c]) + add[.., c]
 *
 * whose sums are exact integers: no order, batch, thread or instruction set changes a bit.
 */
#ifndef VTB_INT8_H
#define VTB_INT8_H

#include <stdbool.h>
#include <stdint.h>

enum {
  VTB_INT8_PANEL = 16,      /* rows of a matrix side by side */
  VTB_INT8_GROUP = 4,       /* numbers of each */
  VTB_INT8_MOST_K = 1 << 16 /* more could be a sum beyond 32 bits */
};

/* Brings n numbers to q; gives their scale, which a matrix's row has rounded up. */
float vtb_int8_row(const float *x, int64_t n, bool of_matrix, int8_t *q);

static inline int64_t vtb_int8_panels(int64_t rows) {
  return (rows + VTB_INT8_PANEL - 1) / VTB_INT8_PANEL;
}
static inline int64_t vtb_int8_groups(int64_t k) {
  return (k + VTB_INT8_GROUP - 1) / VTB_INT8_GROUP;
}

#endif

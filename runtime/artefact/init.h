/* Initial values of parameters from their initialiser text; a function of (seed, tensor name) only.
 *
 *   zeros  ones  constant(c)
 *   linspace(a, b)                       over all elements, both ends included
 *   normal(std)  normal(mean, std)
 *   trunc_normal(std)                    cut at +-2 (absolute)
 *   trunc_normal(std, a, b)              cut at [a, b]
 *   uniform(a, b)  uniform(b)            [a, b); [-b, b)
 *   uniform_fan_in  uniform_fan_in(n)    +-1/sqrt(fan in); +-1/sqrt(n), for biases
 *   normal_fan_in(gain)                  std gain/sqrt(fan in)
 *   normal_fan_out(gain)                 std gain/sqrt(fan out)
 *   xavier_uniform  xavier_normal        fan in + fan out; optional gain
 *   s4d_real                             log(1 .. N) along the last axis
 *   dt_bias(min, max, floor)             inverse softplus of a log-uniform step in [min, max], at
 *                                        least floor
 *   identity  identity(gain)             the last two axes: gain where they are equal, else 0
 *   dirac  dirac(gain)                   a convolution: gain in the middle of its window where the
 *                                        output's channel is the input's, else 0
 *   orthogonal  orthogonal(gain)         rows, or columns where those are fewer, of length gain at
 *                                        right angles; of the (first size, product of the rest)
 *   table(a, b, ...)                     these numbers, row by row; as many as the tensor has
 *   rotary_cos(side)  rotary_sin(side)   tables of a rotary embedding of a grid, [positions, D]
 *   sincos_columns(extra)                fixed sine and cosine positions, `extra` (default 0) rows
 *   sincos_rows(extra)                   of zeros first; columns, or rows, in the first channels
 *
 * Fan in is the product of all sizes but the first; fan out the first size times the sizes after
 * the second; of xavier, those of the (first size, product of the rest) view.
 */
#ifndef VTB_INIT_H
#define VTB_INIT_H

#include "runtime/launch/program.h"

/* text NULL or "" means zeros. Errors name the tensor and quote the text. */
VTB_MUST_USE vtb_status vtb_init_tensor(const char *text, const char *name, uint64_t seed, int rank,
                                        const int64_t *dim, float *out, vtb_error *err);

#endif

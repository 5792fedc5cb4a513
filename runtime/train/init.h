/* Initial values of parameters from their initialiser text; a function of (seed, tensor name) only.
 *
 *   zeros  ones  constant(c)               linspace(a, b)          over all elements, both ends included
 *   normal(std)  normal(mean, std)         trunc_normal(std) cut at +-2 (absolute);  trunc_normal(std, a, b) cut at [a,
 * b] uniform(a, b)                          uniform(b): [-b, b) uniform_fan_in                         +-1/sqrt(fan
 * in), fan in = product of all sizes but the first; uniform_fan_in(n)                      +-1/sqrt(n), for biases
 *   normal_fan_in(gain)  normal_fan_out(gain)   std gain/sqrt(fan); fan out = first size times the sizes after the
 * second xavier_uniform  xavier_normal          fan in + fan out of the (first size, product of the rest) view;
 * optional gain s4d_real                               log(1 .. N) along the last axis dt_bias(min, max, floor) inverse
 * softplus of a log-uniform step in [min, max], at least floor
 */
#ifndef VTB_INIT_H
#define VTB_INIT_H

#include "runtime/launch/program.h"

/* text NULL or "" means zeros. Errors name the tensor and quote the text. */
VTB_MUST_USE vtb_status vtb_init_tensor(const char *text, const char *name, uint64_t seed, int rank,
                                        const int64_t *dim, float *out, vtb_error *err);
/* Is `text` an initialiser (for checks at compile time)? */
VTB_MUST_USE vtb_status vtb_init_check(const char *text, vtb_error *err);

/* A counter-based generator for everything random in the runtime: stateless, 64 bits from (key, counter). */
uint64_t vtb_random_u64(uint64_t key, uint64_t counter);
double vtb_random_unit(uint64_t key, uint64_t counter); /* [0, 1), 53 bits */

#endif

/* Losses and metrics of a model, as returns of its entry.
 *
 * A model that declares losses and metrics returns each of them behind its outputs, under its name
 * with one of the prefixes below:
 *
 *   "loss:<name>"      a loss; the sum of all losses is trained
 *   "metric:<name>"    a metric of which more is better
 *   "lower:<name>"     a metric of which less is better
 *   "by:<one of these>"  what that one's sum is divided by, of the same shape
 *
 * before the pass `objective` (passes/train/objective.c) as the language has them: one number (f32
 * with one element and no batch axis), or a value a sample, f32 [B, ...]. Of a value a sample the
 * axes behind the batch are averaged, then the samples of the batch that are no padding. With a
 * "by:", both are summed over those samples, axes behind the batch (K elements) stay apart, and the
 * value is the mean over the K quotients whose divisor is positive: counts that are divided once,
 * over a whole data set, as a mean intersection over union is.
 *
 * behind it: f32 [2, K], sums above, divisors below, so that whoever sums them over batches has the
 * exact value of the whole data set; K = 1 without "by:". The input "valid", f32 [B], is 1 for
 * samples and 0 for the padding of the last batch.
 */
#ifndef VTB_OBJECTIVE_H
#define VTB_OBJECTIVE_H

#include "runtime/base/objective.h"

#include "ir/ir.h"

/* The return is a measure; *prefix is then one of the prefixes, its name stands behind it. */
bool vtb_is_measure(const char *return_name, const char **prefix);
bool vtb_has_loss(const vtb_func *f);
bool vtb_has_measure(const vtb_func *f);
/* Number of the return named prefix + name; -1. */
int vtb_find_measure(const vtb_func *f, const char *prefix, const char *name);

#endif

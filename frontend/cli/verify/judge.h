/* Judging tensors: what `vertebra verify` accepts.
 *
 * The largest error alone does not see a gradient of zeros where the bound is wide, nor a lost row
 * of a large tensor. So four things are held:
 *
 *   magnitude   the largest error over the largest magnitude
 *   direction   the cosine of the angle between both, at least CLI_COSINE
 *   norm        their quotient, from CLI_NORM to 1 / CLI_NORM
 *   slices      of every axis, each index by itself: the norm of the error over that of the slice
 *
 * Bounds are what rounding may do. Beside a fixed part they have CLI_NOISE times the noise of the
 * tensor: what the interpreter, rounding as the program does, differs by from itself in double.
 * docs/testing.md says how they came about.
 */
#ifndef VTB_CLI_JUDGE_H
#define VTB_CLI_JUDGE_H

#include "runtime/artefact/tensors.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct cli_difference {
  /* relative = max_abs / scale; NaN if anything is NaN where it should not be */
  double max_abs, scale, relative;
  int64_t index;
  double got, want;
} cli_difference;
/* scale: largest magnitude of `want`, or 1 if that is zero. */
cli_difference cli_compare(const vtb_weight *got, const vtb_weight *want);

#define CLI_COSINE 0.95
#define CLI_NORM 0.8
#define CLI_NOISE 4.0

/* The noise of one tensor, between two runs of the interpreter. Zeroed: there is none. */
typedef struct cli_noise {
  const vtb_weight *rounded, *exact;
  bool bends; /* direction and norm are free where the rounded tensor has lost its own */
} cli_noise;

typedef struct cli_bounds {
  double tol;   /* of magnitude, the fixed part; of slices, what each has of the whole's */
  double slice; /* of slices, of each one's own norm */
  /* Absolute: a tensor below it is nothing but what cancellation left of others, and has neither
   * direction nor norm. */
  double least;
} cli_bounds;

typedef struct cli_judgement {
  cli_difference d;
  double bound; /* of d.relative */
  double cosine, norm;
  char why[120]; /* "" if all holds; else what does not, first of all: "norm 0.50 of 1" */
} cli_judgement;

/* NULL noise: none. */
cli_judgement cli_judge(const vtb_weight *got, const vtb_weight *want, const cli_noise *noise,
                        const cli_bounds *bounds);

#endif

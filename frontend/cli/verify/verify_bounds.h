/* Bounds of what a run of `vertebra verify` may be off by, and what is said of it. */
#ifndef VTB_CLI_VERIFY_BOUNDS_H
#define VTB_CLI_VERIFY_BOUNDS_H

#include "frontend/cli/verify/evaluate.h"
#include "frontend/cli/verify/judge.h"

typedef enum verify_verdict { VERIFY_OK, VERIFY_ILL_CONDITIONED, VERIFY_FAIL } verify_verdict;
extern const char *const verify_verdicts[3]; /* "ok", "ill-conditioned", "FAIL" */

/* The fixed part of a bound in this precision. */
double verify_tolerance(vtb_precision p);

/* The interpreter's results of what a run computes: exact, as the run rounds, and with every result
 * rounded to the digits of the precision. Each is made when it is first needed, and freed with the
 * rest, but for an `exact` that the caller has and sets. */
typedef struct verify_noise {
  const vtb_compilation *c;
  const vtb_target *target;
  const vtb_weights *args;
  vtb_precision precision;
  const vtb_weights *exact;
  vtb_weights *own_exact, *rounded, *coarse;
  bool given; /* tolerances were: they are held as they are, whatever rounding does */
} verify_noise;
void verify_noise_free(verify_noise *n);

typedef struct verify_judged {
  verify_verdict verdict;
  cli_judgement j;
} verify_judged;

/* The bound of one result by name. What is larger than the bounds but not than CLI_NOISE times what
 * the interpreter is off by in the digits of this precision is ill-conditioned, not wrong. */
VTB_MUST_USE vtb_status verify_judge(verify_noise *n, const char *name, const vtb_weight *got,
                                     const vtb_weight *want, double tol, double least,
                                     verify_judged *out);

#endif

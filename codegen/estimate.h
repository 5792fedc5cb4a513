/* What a run takes, predicted from its steps and the speeds of the target's row (passes/target.h):
 * each kernel the longer of its operations and its memory, and a launch; recurrences that were
 * measured (passes/tuning.h) what they took. Right within a factor of
 * two or so; good for comparing forms of one model (docs/results/modes.md).
 */
#ifndef VTB_CODEGEN_ESTIMATE_H
#define VTB_CODEGEN_ESTIMATE_H

#include "codegen/steps.h"
#include "runtime/launch/launch_plan.h"

typedef struct vtb_estimate {
  int64_t launches; /* kernels and copies of one run */
  double flops, bytes, seconds;
} vtb_estimate;

/* Of native code on the context's threads; its target and tuning are those that the steps were
 * made with. */
vtb_estimate vtb_estimate_steps(const vtb_steps *s, const vtb_pass_context *c);
/* Of a device's plan; what is prepared is left out. */
vtb_estimate vtb_estimate_plan(const vtb_launch_plan *p, const vtb_speeds *speeds,
                               vtb_precision precision);

#endif

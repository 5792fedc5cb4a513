/* The time of a run, predicted.
 *
 * Of native code: from its steps and the speeds of the target's row (passes/target.h), each kernel
 * the longer of its operations and its memory, and a launch; recurrences that were measured
 * (passes/cost/tuning.h) what they took. Right within a factor of two or so; good for comparing
 * forms of one model (docs/results/modes.md).
 *
 * Of a device's plan: launch by launch, by the model of passes/cost/gpu.h (docs/cuda_cost.md). What
 * the launches before have read or written comes from L2 as long as it can still be there.
 */
#ifndef VTB_CODEGEN_ESTIMATE_H
#define VTB_CODEGEN_ESTIMATE_H

#include "codegen/steps.h"
#include "passes/cost/gpu.h"
#include "runtime/launch/launch_plan.h"

typedef struct vtb_estimate {
  int64_t launches; /* kernels and copies of one run */
  double flops, bytes, seconds;
} vtb_estimate;

/* The estimate of native code on the context's threads; its target and tuning are those that the
 * steps were made with. */
vtb_estimate vtb_estimate_steps(const vtb_steps *s, const vtb_pass_context *c);

/* One launch of a plan. Texts are the plan's. */
typedef struct vtb_launch_estimate {
  int step;                        /* of the plan */
  double runs;                     /* of it in a run of the plan */
  const char *name, *ops, *origin; /* of a library's product: "", "einsum", "" */
  double blocks, threads;
  double bytes, l2_bytes; /* to and from memory; of what lies in L2 */
  vtb_launch_time time;   /* of one */
} vtb_launch_estimate;
typedef VTB_VEC(vtb_launch_estimate) vtb_launch_estimates;

/* The estimate of a plan that was just made (vtb_launch_plan.work); what is prepared is left out.
 * flops are those of the module, bytes all that launches touch. `each`, unless NULL, gets one a
 * launch. */
vtb_estimate vtb_estimate_plan(const vtb_launch_plan *p, const vtb_gpu *gpu,
                               vtb_launch_estimates *each);

#endif

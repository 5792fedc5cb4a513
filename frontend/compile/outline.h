/* The compiler's view of a compiled model as data: how its recurrences are computed and why, what a
 * run launches and moves, and how long it is predicted to take. No code is made.
 */
#ifndef VTB_COMPILE_OUTLINE_H
#define VTB_COMPILE_OUTLINE_H

#include "codegen/estimate.h"
#include "frontend/compile/driver.h"

/* Recurrences that differ in nothing but their place. */
typedef struct vtb_outline_recurrence {
  const char *name;  /* where they stand, "blocks.*.cell" */
  const char *op;    /* linscan, linscan_grad, delta, fold */
  const char *klass; /* of the decay; "" of a fold */
  const char *mode;  /* "recurrent" of a fold */
  const char *reason;
  int64_t chunk, tokens; /* chunk: 0 unless the mode has one */
  int64_t count;         /* in one run */
} vtb_outline_recurrence;

/* Bytes that a program takes, on the device if it is for one. */
typedef struct vtb_footprint {
  int64_t workspace; /* with constants */
  int64_t kept;      /* parameters and buffers */
  int64_t inputs;    /* of a run */
  int64_t others;    /* states and results: a result in the place of an argument is not counted */
} vtb_footprint;

typedef struct vtb_outline {
  int64_t workspace_bytes;
  vtb_footprint takes;
  int64_t tokens; /* of the attention or recurrence that has most; 0: there is none */
  vtb_estimate estimate;
  /* For targets with plans: the GPU that the estimate is for, and what each launch is expected to
   * take; their texts are the plan's. Else NULL and none. */
  vtb_gpu gpu;
  vtb_launch_plan *plan;
  vtb_launch_estimates launches;
  VTB_VEC(vtb_outline_recurrence) recurrences;
  vtb_arena arena; /* of the texts */
} vtb_outline;

/* The outline of what the compilation is at, on the options' target and threads, at a batch. Free
 * it after failures too. */
VTB_MUST_USE vtb_status vtb_outline_make(const vtb_compilation *c, int64_t batch, const char *arch,
                                         vtb_outline *out);
void vtb_outline_free(vtb_outline *o);

#endif

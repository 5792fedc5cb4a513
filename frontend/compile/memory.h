/* Plans that keep within a limit of memory: what of a training step is recomputed, and in how many
 * pieces a batch is run. docs/training.md says what is counted.
 *
 * A plan is asked by outlines: the compiler goes as far as the memory plan, which is exact, and
 * makes no code. Of the plans that fit the one that is predicted to be the fastest is taken.
 */
#ifndef VTB_COMPILE_MEMORY_H
#define VTB_COMPILE_MEMORY_H

#include "frontend/compile/outline.h"

typedef struct vtb_memory_plan {
  int64_t pieces;            /* runs of an update */
  int64_t rows;              /* images of each */
  int64_t recompute, blocks; /* calls of blocks that run again, of those that save something */
  int64_t bytes;             /* what all of it takes */
  double seconds;            /* of an update, predicted */
} vtb_memory_plan;

typedef struct vtb_memory_wish {
  int64_t limit;             /* bytes */
  int64_t batch;             /* images of an update, on this process */
  int64_t pieces, recompute; /* as they are set; 0: decided here */
  int64_t ready; /* inputs lie so many times in memory, of programs for processors; 0: once */
  /* Opens the compilation whose code would be made; freed here, after failures too. */
  vtb_status (*open)(void *user, int64_t pieces, int64_t recompute, vtb_report *r,
                     vtb_compilation *c);
  /* Adds to *bytes what is there beside a program of so many rows; NULL: nothing is. */
  vtb_status (*beside)(void *user, int64_t rows, int64_t *bytes);
  void *user;
} vtb_memory_wish;

/* Bytes of a program for processors or a device; ready: see vtb_memory_wish. */
int64_t vtb_memory_of(const vtb_outline *o, int64_t ready);
/* VTB_E_USAGE where no plan keeps within the limit; *out is then the one that takes least. What is
 * wrong otherwise is in the report. */
VTB_MUST_USE vtb_status vtb_memory_fit(const vtb_memory_wish *w, vtb_memory_plan *out,
                                       vtb_report *r);
/* Decides `recompute` of a training step's options by their `memory`, if they have one. */
VTB_MUST_USE vtb_status vtb_memory_decide(vtb_compile_options *o, vtb_report *r);

#endif

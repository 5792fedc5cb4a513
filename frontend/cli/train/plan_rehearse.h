/* A training step of one of several ranks, timed on this processor without the others. */
#ifndef VTB_CLI_PLAN_REHEARSE_H
#define VTB_CLI_PLAN_REHEARSE_H

#include "frontend/cli/train/plan_scale.h"

enum { PLAN_MOST_TOGETHER = 64 };

/* p: a step for several ranks (vtb_program.ranks). `together` of them run at the same time, as on
 * one machine, each on so many threads and buffers of its own; sums are noted instead of made. The
 * step is the median of a few. */
VTB_MUST_USE vtb_status plan_rehearse(const vtb_program *p, int threads, int together,
                                      plan_step *out, vtb_error *err);
/* Rates that sums between so many ranks on this machine reach: measured between threads. */
VTB_MUST_USE vtb_status plan_measure_links(int ranks, int threads, vtb_links *out, vtb_error *err);

#endif

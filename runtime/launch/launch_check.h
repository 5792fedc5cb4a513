/* Proves of a launch plan, without a device, what would otherwise show as a crash or as wrong
 * numbers on one: limits of the architecture, pointers inside their memory and aligned, and that
 * nothing live is overwritten.
 *
 * Overlap is found by following the plan: every byte of the workspace, of the results and of the
 * state remembers the value last written to it; a read must find its own value everywhere, and
 * parameters as they were at the start. Of a loop two turns are followed: the second finds what the
 * first left, as all later ones do. A plan that is loaded from a file is checked the same way, so
 * that a damaged file cannot reach outside its memory.
 */
#ifndef VTB_LAUNCH_CHECK_H
#define VTB_LAUNCH_CHECK_H

#include "runtime/launch/launch_plan.h"

typedef struct vtb_arch {
  const char *name;     /* "sm_80" */
  int32_t threads;      /* of a block */
  int32_t shared_bytes; /* of a block, with the opt-in */
  int64_t blocks;
  int32_t parameter_bytes; /* of a launch */
} vtb_arch;
extern const vtb_arch vtb_archs[];
extern const int vtb_n_archs;
const vtb_arch *vtb_arch_find(const char *name); /* NULL if unknown */

/* arch NULL: every architecture of the table. The error names the step and its kernel. */
VTB_MUST_USE vtb_status vtb_launch_plan_check(const vtb_launch_plan *p, const vtb_arch *arch,
                                              vtb_error *err);

#endif

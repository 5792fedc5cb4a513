/* Whether a memory plan is what passes.h and memory_plan.c say of one. */
#ifndef VTB_PLAN_CHECK_H
#define VTB_PLAN_CHECK_H

#include "passes/passes.h"

/* VTB_E_INTERNAL, with the function, the value and the rule, if it is not. `places` are those it
 * was made for, or NULL. vtb_plan_memory() asks where checks are wanted (ir/checks.h). */
VTB_MUST_USE vtb_status vtb_plan_check(const vtb_plan *p, const vtb_func *entry,
                                       const vtb_places *places, vtb_error *err);

#endif

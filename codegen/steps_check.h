/* The check that a list of steps is what steps.h says of one. */
#ifndef VTB_CODEGEN_STEPS_CHECK_H
#define VTB_CODEGEN_STEPS_CHECK_H

#include "codegen/steps.h"

/* VTB_E_INTERNAL, with the function, the step and the rule, if it is not. vtb_steps_make() asks
 * where checks are wanted (ir/checks.h). */
VTB_MUST_USE vtb_status vtb_steps_check(const vtb_steps *s, vtb_error *err);

#endif

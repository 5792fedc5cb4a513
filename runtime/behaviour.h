/* Whose behaviour holds in a call. */
#ifndef VTB_BEHAVIOUR_H
#define VTB_BEHAVIOUR_H

#include "runtime/vertebra.h"

/* Behaviour as options say it, as far as they go; the environment where they say nothing, for one
 * version more. VTB_E_USAGE: a variable's value, or the struct's size. */
VTB_MUST_USE vtb_status vtb_behaviour_of(const vtb_behaviour *given, vtb_behaviour *out,
                                         vtb_error *err);

#endif

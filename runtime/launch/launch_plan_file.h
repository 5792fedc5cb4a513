/* A launch plan as bytes and back: what a built file holds of a CUDA program besides its compiled
 * kernels.
 *
 * Little-endian, a format number first; strings and constants within. Reading gives a plan that
 * passes vtb_launch_plan_check(), or an error: bytes of any content are safe.
 */
#ifndef VTB_LAUNCH_PLAN_FILE_H
#define VTB_LAUNCH_PLAN_FILE_H

#include "runtime/launch/launch_plan.h"

void vtb_launch_plan_write(const vtb_launch_plan *plan, vtb_strbuf *out);
/* On success *plan is the caller's: vtb_launch_plan_free(). It keeps no pointer to `data`. */
VTB_MUST_USE vtb_status vtb_launch_plan_read(const void *data, size_t n, vtb_launch_plan **plan,
                                             vtb_error *err);

#endif

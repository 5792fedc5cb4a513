/* Which fusions somebody wants (VTB_FUSIONS), and which a module got: the stage `decisions`. */
#ifndef VTB_COMPILE_FUSIONS_H
#define VTB_COMPILE_FUSIONS_H

#include "passes/passes.h"

/* "all": every fusion that kernels take; "-fuse_norms,-local": those but these. VTB_E_USAGE with
 * the names there are. */
VTB_MUST_USE vtb_status vtb_decisions_parse(const char *text, vtb_decisions *out, vtb_error *err);

/* A line a decision, of at most 80 columns. machine: whose seconds they are. */
void vtb_decisions_print(const vtb_decisions *d, const char *machine, vtb_strbuf *out);

#endif

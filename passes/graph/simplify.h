/* Between the files of the simplify pass. */
#ifndef VTB_PASSES_SIMPLIFY_H
#define VTB_PASSES_SIMPLIFY_H

#include "passes/passes_internal.h"

/* The value to use instead of the one result of `inst`, built before it; or NULL. */
vtb_value *vtb__simplify_shape(vtb_builder *b, vtb_inst *inst);

bool vtb__has_type(const vtb_value *v, const vtb_type *t);

#endif

/* Between the passes that ask what an einsum is. */
#ifndef VTB_PASSES_PRODUCT_H
#define VTB_PASSES_PRODUCT_H

#include "passes/passes.h"

/* Whether the sizes of an einsum are those of a product, which it gives as m, n and k. */
bool vtb__product_sizes(const vtb_inst *einsum, int64_t size[3]);

#endif

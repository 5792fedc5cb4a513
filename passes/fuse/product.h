/* Between the passes that ask what an einsum is. */
#ifndef VTB_PASSES_PRODUCT_H
#define VTB_PASSES_PRODUCT_H

#include "passes/passes.h"

/* True if the sizes of an einsum are those of a product, which it gives as m, n and k. */
bool vtb__product_sizes(const vtb_inst *einsum, int64_t size[3]);
/* True if the kernel of a product can keep statistics of its result's rows, each in its columns. */
bool vtb__keeps_parts(const vtb_inst *einsum);
/* One that the library takes, if nothing is made of it where it is made (memory/library.c). */
bool vtb__is_large(const vtb_inst *einsum);

#endif

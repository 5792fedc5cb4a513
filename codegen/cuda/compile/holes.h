/* What goes into the holes of a kernel's text: numbers, flags, and expressions made by printf. */
#ifndef VTB_CODEGEN_CUDA_HOLES_H
#define VTB_CODEGEN_CUDA_HOLES_H

#include "codegen/cuda/cuda.h"

typedef struct vtb__cuda_holes {
  vtb_arena texts;
  vtb_cuda_hole at[48];
  int n;
} vtb__cuda_holes;

void vtb__holes_init(vtb__cuda_holes *h);
void vtb__hole_number(vtb__cuda_holes *h, const char *name, int64_t number);
void vtb__hole_text(vtb__cuda_holes *h, const char *name, const char *fmt, ...) VTB_PRINTF(3, 4);
/* ${EXACT}, the accuracy of products (text/products.cuh): attribute `precision` of the recurrence
 * or attention that is emitted. */
void vtb__hole_exact(vtb__cuda_holes *h, const vtb_cuda *c);
/* The element type of tiles that such products take by ldmatrix (text/halves.cuh); NULL: floats. */
const char *vtb__cuda_half_tiles(const vtb_cuda *c);
/* The body from text/<file>, which may use text/products.cuh; the holes are gone afterwards. */
void vtb__holes_fill(vtb__cuda_holes *h, vtb_cuda_kernel *k, const char *file);

#endif

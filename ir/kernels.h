/* The kind of a `fused` instruction's kernel: a row of ir/kernels.def. */
#ifndef VTB_KERNELS_H
#define VTB_KERNELS_H

#include "ir/ir.h"

typedef enum vtb_kernel_kind {
#define VTB_KERNEL(id, ...) VTB_KERNEL_##id,
#include "ir/kernels.def"
#undef VTB_KERNEL
  VTB_KERNEL_NONE /* not a fused instruction */
} vtb_kernel_kind;

bool vtb_kernel_kind_find(const char *name, vtb_kernel_kind *k);
/* The kind of an instruction that has passed its shape rule; a fused one without a kind is a
 * loop. */
vtb_kernel_kind vtb_kernel_kind_of(const vtb_inst *inst);
/* The attribute that makes a fused instruction one of a kind. */
const char *vtb_kernel_kind_name(vtb_kernel_kind k);
bool vtb_kernel_stores_anywhere(vtb_kernel_kind k);
bool vtb_kernel_reads_rows(vtb_kernel_kind k);
/* An einsum "bnsc,esc->sbne": a product of few results in shares of its depth
 * (passes/fuse/split_thin.c), which kernels of kind local compute beside a convolution. */
bool vtb_is_share(const vtb_inst *i);
enum { VTB_MOST_SHARES = 4 }; /* of such products that add up */
/* Statistics that a product's body keeps of the rows that it stores, for the norm that reads them:
 * the mean of `of` over its last axis, and the sum of the squares of what it is off it, as results
 * of these numbers (passes/fuse/fuse_norms.c). Where a tile has no whole rows, kernels keep those
 * of VTB_ROW_PART columns. */
enum { VTB_ROW_PART = 32 };
typedef struct vtb_row_parts {
  vtb_value *of; /* of the body; NULL: it keeps none */
  int mean, squares;
} vtb_row_parts;
vtb_row_parts vtb_row_parts_of(const vtb_func *body);

#endif

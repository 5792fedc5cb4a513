/* What the files of fuse_norms share. */
#ifndef VTB_FUSE_NORMS_H
#define VTB_FUSE_NORMS_H

#include "ir/kernels.h"
#include "ir/narrow.h"
#include "passes/passes_internal.h"

/* A value that is normed, and what its producer gives beside it: rounded to 16 bits and, where
 * streams are two halves, what that is off by. */
typedef struct row_source {
  vtb_value *x, *narrow, *mean, *squares, *rest;
} row_source;

typedef struct fusing {
  vtb_module *module;
  vtb_func **funcs; /* plain, callees first */
  size_t n_funcs;
  VTB_VEC(row_source) sources;
  VTB_VEC(vtb_inst *) norms;
  bool halves; /* streams are two halves */
} fusing;

row_source *vtb__source_of(const fusing *s, const vtb_value *x);
/* Notes that x has to have a source, and so whatever is x in other functions. */
void vtb__want(fusing *s, vtb_value *x);
/* The einsum of a product, alone or fused; NULL: it is none. */
const vtb_inst *vtb__einsum_of(const vtb_inst *product);
/* Whether nobody but products that take norms reads these rows. */
bool vtb__norm_rows_taken(const fusing *s, const vtb_value *normed);
/* A product whose epilogue can keep statistics of the result. */
bool vtb__is_made_by_product(const vtb_value *x);
/* What `wanted` (by value id) of a body needs and `inside` does not have, in another kernel. */
void vtb__copy_needed(vtb_builder *b, const vtb_func *body, bool *wanted, vtb_value **inside);
vtb_value *vtb__kernel_argument(vtb_func *kernel, const vtb_value *v);
vtb_inst *vtb__call_kernel(vtb_func *f, vtb_inst *before, vtb_func *kernel, vtb_kernel_kind kind,
                           vtb_value *const *inputs, int n);
/* `now` stands in for `old`, in sources too: result r is its result map[r], below 0 none (map NULL:
 * the same). */
void vtb__replace_kernel(fusing *s, vtb_inst *old, const vtb_inst *now, const int *map);

/* ---- fuse_norms_split.c ---------------------------------------------------------------------- */

void vtb__split_norms(fusing *s);

/* ---- fuse_norms_halves.c --------------------------------------------------------------------- */

/* What is one value at every call is one argument: a stream that is normed and added to. */
void vtb__join_stream_arguments(fusing *s);
/* Whether all that reads a stream can read two halves; wants sources of results beside others. */
bool vtb__can_halve(fusing *s);
/* Readers of streams read both halves. */
void vtb__halve(fusing *s);
/* Products without the results that nobody reads. */
void vtb__drop_results(fusing *s);

#endif

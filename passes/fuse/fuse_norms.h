/* What the files of fuse_norms share. */
#ifndef VTB_FUSE_NORMS_H
#define VTB_FUSE_NORMS_H

#include "ir/kernels.h"
#include "ir/narrow.h"
#include "passes/passes_internal.h"

/* What is kept of rows that are normed: rounded to 16 bits; their mean, and squares of what they
 * are off it; and, where streams are two halves, what the rounded are off by. */
enum { NARROW, MEAN, SQUARES, REST, VTB__MOST_KEPT };
typedef struct vtb__source {
  vtb_value *x, *kept[VTB__MOST_KEPT];
} vtb__source;

/* A result of a row kernel: y = (x - mean) gain / sqrt(squares / C + eps) + shift, mean being 0
 * where rows are not centred. Values are the kernel's; NULL: it has none. */
typedef struct vtb__norm {
  vtb_inst *row;
  int which;
  const vtb_value *x, *gain, *shift;
  bool centred;
  double eps;
} vtb__norm;

typedef struct fusing {
  vtb_module *module;
  vtb_func **funcs; /* plain, callees first */
  size_t n_funcs;
  VTB_VEC(vtb__source) sources;
  VTB_VEC(vtb__norm) norms;
  int n_kept;   /* of each source: all where streams are two halves */
  bool library; /* takes large products without epilogues */
} fusing;

vtb__source *vtb__source_of(const fusing *s, const vtb_value *x);
/* Notes that x has to have a source, and so whatever is x in other functions. */
void vtb__want(fusing *s, vtb_value *x);
/* A kernel under way, and what it reads. */
typedef struct vtb__new_kernel {
  vtb_builder b; /* inside */
  vtb_func *func;
  VTB_VEC(vtb_value *) inputs;
} vtb__new_kernel;
/* At `at`, after which it is called if it has no name. */
vtb__new_kernel vtb__kernel_begin(const vtb_inst *at, const char *name);
/* v inside, f32 whatever memory holds. */
vtb_value *vtb__kernel_reads(vtb__new_kernel *k, vtb_value *v);
vtb_inst *vtb__kernel_end(vtb__new_kernel *k, vtb_inst *before, vtb_kernel_kind kind,
                          vtb_value *const *returns, int n);
/* A loop or row kernel without what nobody reads of it, which has taken `with`, or NULL. */
void vtb__made_anew(vtb_inst *kernel, vtb_inst *with);

/* ---- norm_form.c ----------------------------------------------------------------------------- */

bool vtb__norm_of(vtb_inst *row, vtb__norm *out);
/* The rows, in the function. */
vtb_value *vtb__norm_rows(const vtb__norm *n);

/* ---- fuse_norms_halves.c --------------------------------------------------------------------- */

/* What is one value at every call is one argument: a stream that is normed and added to. */
void vtb__join_stream_arguments(fusing *s);
/* Whether all that reads a stream can read two halves; wants sources of results beside others. */
bool vtb__can_halve(fusing *s);
/* Readers of streams read both halves. */
void vtb__halve(fusing *s);

#endif

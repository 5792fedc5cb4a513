/* Shared by the files of fuse_norms. */
#ifndef VTB_FUSE_NORMS_H
#define VTB_FUSE_NORMS_H

#include "passes/passes_internal.h"

/* Kept of rows that are normed: the rows rounded to 16 bits; their mean, and squares of what they
 * are off it; and, where streams are two halves, what the rounded are off by. */
enum { NARROW, MEAN, SQUARES, REST, VTB__MOST_KEPT };
typedef struct vtb__norm_source {
  vtb_value *x, *kept[VTB__MOST_KEPT];
  vtb_inst *first, *last; /* that make what is kept; NULL: another function does */
} vtb__norm_source;

/* y = (x - mean) gain / sqrt(squares / C + eps) + shift, mean being 0 where rows are not centred;
 * gain and shift NULL: it has none. */
typedef struct vtb__norm {
  vtb_value *x, *y, *gain, *shift;
  bool centred;
  double eps;
} vtb__norm;

typedef struct fusing {
  vtb_module *module;
  vtb_func **funcs; /* plain, callees first */
  size_t n_funcs;
  VTB_VEC(vtb__norm_source) sources;
  VTB_VEC(vtb__norm) norms;
  int n_kept;   /* of each source: all where streams are two halves */
  bool library; /* takes large products without epilogues */
} fusing;

vtb__norm_source *vtb__source_of(const fusing *s, const vtb_value *x);
/* Notes that x has to have a source, and so whatever is x in other functions. */
void vtb__want(fusing *s, vtb_value *x);
/* Whoever read v, a source or not, reads what stands for it. */
void vtb__stands_for(const fusing *s, vtb_value *v, vtb_value *now);
/* norm_form.c: whether v is a layer norm or an RMS norm of rows. */
bool vtb__norm_of(vtb_value *v, vtb__norm *out);

/* ---- fuse_norms_halves.c --------------------------------------------------------------------- */

/* One value at every call is one argument: a stream that is normed and added to. */
void vtb__join_stream_arguments(fusing *s);
/* True if all that reads a stream can read two halves; wants sources of results beside others. */
bool vtb__can_halve(fusing *s);
/* Readers of streams read both halves. */
void vtb__halve(const fusing *s);

#endif

/* Tables of positions in weights: what table.c finds and fit.c uses. */
#ifndef VTB_FIT_INTERNAL_H
#define VTB_FIT_INTERNAL_H

#include "runtime/weights/fit.h"

typedef struct vtb__table {
  vtb_table_grid from, to;
  int64_t extra, channels; /* first rows that belong to class tokens; numbers a row */
} vtb__table;

/* True if the tensors are tables of positions, [1, rows, channels] or [1, height, width, channels],
 * of two grids. Grids of rows have the proportions of the images. */
bool vtb__table_plan(const vtb_tensor_info *want, const vtb_renamed *have, const vtb_fit_options *o,
                     vtb__table *out);
/* Reads `have` at the grid of the model. */
VTB_MUST_USE vtb_status vtb__table_read(const vtb__table *t, const vtb_renamed *have, float *out,
                                        vtb_error *err);

/* VTB_OK if the options bear what the report says. */
VTB_MUST_USE vtb_status vtb__fit_judge(const vtb_fit_report *r, const vtb_weights *w,
                                       const vtb_fit_options *o, vtb_error *err);

#endif

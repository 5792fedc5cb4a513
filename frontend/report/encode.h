/* Which colour and shape stand for a cell, the same in all charts: colours for the values of one
 * axis, shapes and dashes for those of another. */
#ifndef VTB_REPORT_ENCODE_H
#define VTB_REPORT_ENCODE_H

#include "frontend/report/results.h"

typedef struct en_code {
  int colour_axis, shape_axis; /* -1: none */
} en_code;

en_code en_choose(const rp_report *r);
int en_colour(en_code e, const rp_cell *c); /* 0 to CH_COLOURS - 1 */
int en_shape(en_code e, const rp_cell *c);  /* 0 to CH_SHAPES - 1 */
void en_legend(const rp_report *r, en_code e, vtb_strbuf *out);

#endif

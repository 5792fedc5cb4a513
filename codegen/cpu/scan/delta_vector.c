/* delta, class key, as products of matrices and a triangular solve: text/delta_vector.c. */
#include "codegen/cpu/scan/delta.h"

void vtb__delta_vector(vtb__cpu_delta_rule *d, const vtb_inst *inst) {
  int64_t step = 1; /* rows a token lies in, of a sub-block's 16 */
  while (step < d->rows) step *= 2;
  vtb_cpu_text *x = vtb__scan_text(&d->scan, "delta_vector");
  vtb_cpu_text_number(x, "CHUNK", d->scan.of.chunk);
  vtb_cpu_text_number(x, "WIDTH", vtb__chunk_width(&d->scan));
  vtb_cpu_text_number(x, "RANK", d->rows);
  vtb_cpu_text_number(x, "STEP", step);
  vtb_cpu_text_number(x, "AT_B", d->b);
  vtb_cpu_text_number(x, "AT_W", d->w);
  vtb_cpu_text_run(x, inst);
}

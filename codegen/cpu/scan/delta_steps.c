/* delta token by token, for every class: text/delta_steps.c. */
#include "codegen/cpu/scan/delta.h"

void vtb__delta_steps(vtb__cpu_delta_rule *d, const vtb_inst *inst) {
  vtb_cpu_text *x = vtb__steps_text(&d->scan, "delta_steps", 64);
  vtb_cpu_text_number(x, "RANK", d->rows);
  vtb_cpu_text_number(x, "AT_B", d->b);
  vtb_cpu_text_number(x, "AT_W", d->w);
  vtb_cpu_text_run(x, inst);
}

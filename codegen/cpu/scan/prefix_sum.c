/* prefix_sum: running sums along an axis: text/prefix_sum.c. */
#include "codegen/cpu/scan/lanes.h"

void vtb__cpu_prefix_sum(vtb_cpu *c, const vtb_inst *inst) {
  vtb__lanes l;
  vtb__lanes_open(&l, c, inst, "prefix_sum", (int)vtb_attr_int(inst, "axis", 0));
  vtb_cpu_text_number(l.text, "REVERSE", vtb_attr_int(inst, "reverse", 0) != 0);
  vtb_cpu_text_number(l.text, "EXCLUSIVE", vtb_attr_int(inst, "exclusive", 0) != 0);
  vtb_cpu_text_real(l.text, "WRAP", vtb_attr_float(inst, "wrap", 0));
  vtb_cpu_text_run(l.text, inst);
}

/* maxplus along axis 1 in path order, and its adjoint: text/maxplus.c, text/maxplus_grad.c. */
#include "codegen/cpu/scan/lanes.h"

static void emit(vtb_cpu *c, const vtb_inst *inst, const char *text, bool init) {
  vtb__lanes l;
  vtb__lanes_open(&l, c, inst, text, 1);
  vtb_cpu_text_number(l.text, "INIT", init);
  vtb_cpu_text_run(l.text, inst);
}

void vtb__cpu_maxplus(vtb_cpu *c, const vtb_inst *inst) {
  emit(c, inst, "maxplus", inst->n_operands == 3);
}

void vtb__cpu_maxplus_grad(vtb_cpu *c, const vtb_inst *inst) {
  emit(c, inst, "maxplus_grad", vtb_attr_int(inst, "init", 0) != 0);
}

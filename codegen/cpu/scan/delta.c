/* delta on a CPU. */
#include "codegen/cpu/cpu.h"

void vtb__cpu_delta(vtb_cpu *c, const vtb_inst *inst) {
  (void)c;
  vtb_bug("no CPU kernel for %s yet", vtb_op_get(inst->op)->name);
}

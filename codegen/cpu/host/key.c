/* When two instructions may share a kernel: the text of everything its code depends on. */
#include "codegen/cpu/host/host.h"
#include "ir/ops.h"
#include "ir/key.h"

void vtb__kernel_key(const vtb_inst *inst, const vtb_cpu_kernel *k, vtb_strbuf *out) {
  if (inst)
    vtb_key_op(inst, out);
  else
    vtb_strbuf_puts(out, "copy");
  for (int i = 0; i < k->n_operands + k->n_results; i++) {
    vtb_strbuf_puts(out, i == k->n_operands ? " -> " : " ");
    vtb_key_type(k->types[i], out);
    for (int a = 0; a < k->types[i]->rank; a++)
      vtb_strbuf_printf(out, "%c%lld", a ? ',' : '@',
                        (long long)(k->types[i]->dim[a].size == 1 ? 0 : k->stride[i][a]));
  }
  for (int i = 0; inst && i < inst->n_operands; i++) /* the same value twice */
    for (int j = 0; j < i; j++)
      if (inst->operands[i] == inst->operands[j]) vtb_strbuf_printf(out, " %d=%d", i, j);
  if (inst && inst->op == VTB_OP_fold) /* a function with kernels of its own */
    vtb_strbuf_printf(out, " @%s", inst->callee->name);
  else if (inst && inst->callee)
    vtb_key_body(inst->callee, out);
}

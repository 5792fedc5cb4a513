/* Kernels of ops that are expressions, moves and reductions: a fused body, or one bare op; and
 * fused scans. */
#include <string.h>

#include "ir/ops.h"
#include "codegen/cpu/loop/expr.h"
#include "ir/kernels.h"
#include "ir/recurrence.h"

void vtb__cpu_body(vtb_cpu *c, const vtb_inst *inst) {
  vtb_cpu_expr e;
  VTB_VEC(vtb_root) results = {0};
  vtb__expr_init(&e, c, inst);
  for (int r = 0; r < inst->n_results; r++) {
    vtb_root root = {.value = inst->callee ? inst->callee->returns[r] : inst->results[r],
                     .tensor = inst->n_operands + r};
    memcpy(root.stride, c->kernel->stride[root.tensor], sizeof root.stride);
    vtb_vec_push(&results, root);
  }
  vtb__schedule(&e.body, results.at, (int)results.n);
  vtb_vec_free(&results);
  vtb__expr_free(&e);
}

/* Several directions of one cell: the scans' emitters number tensors as `inst` has them. */
static void vtb__cpu_scans(vtb_cpu *c, const vtb_inst *inst) {
  vtb__join_begin(c);
  for (const vtb_inst *scan = inst->callee->first; scan; scan = scan->next) {
    if (scan->prev) vtb__join_next(c);
    if (scan->op == VTB_OP_linscan)
      vtb__cpu_linscan(c, scan);
    else if (scan->op == VTB_OP_linscan_grad)
      vtb__cpu_linscan_grad(c, scan);
    else
      vtb__cpu_delta(c, scan);
  }
  vtb__join_end(c);
}

void vtb__cpu_fused(vtb_cpu *c, const vtb_inst *inst) {
  static void (*const emit[])(vtb_cpu *, const vtb_inst *) = {
#define vtb__cpu_not_here NULL
#define VTB_KERNEL(id, name, cpu, ...) vtb__cpu_##cpu,
#include "ir/kernels.def"
#undef VTB_KERNEL
#undef vtb__cpu_not_here
  };
  vtb_kernel_kind kind = vtb_kernel_kind_of(inst);
  vtb_check(emit[kind], "a kernel of kind %s, of which the CPU has none",
            vtb_kernel_kind_name(kind));
  emit[kind](c, inst);
}
void vtb__cpu_reduce(vtb_cpu *c, const vtb_inst *inst) { vtb__cpu_body(c, inst); }

void vtb__cpu_copy(vtb_cpu *c, const vtb_value *value) {
  vtb_cpu_expr e;
  vtb_root root = {.value = value, .tensor = 1};
  vtb__expr_init(&e, c, NULL);
  vtb_vec_push(&e.body.leaves, ((vtb_leaf){value, 0, 0, NULL}));
  memcpy(root.stride, c->kernel->stride[1], sizeof root.stride);
  vtb__emit_loop(&e.body, &root, 1);
  vtb__expr_free(&e);
}

/* Kernels of ops that are expressions, moves and reductions: a fused body, or one bare op; and the
 * other fused kinds. */
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "codegen/cuda/loop/expr.h"
#include "ir/kernels.h"

void vtb__cuda_body(vtb_cuda *c, const vtb_inst *inst) {
  vtb_cuda_expr e;
  VTB_VEC(vtb_root) results = {0};
  vtb__cuda_expr_init(&e, c, inst);
  for (int r = 0; r < inst->n_results; r++) {
    vtb_root root = {.value = inst->callee ? inst->callee->returns[r] : inst->results[r],
                     .tensor = inst->n_operands + r};
    memcpy(root.stride, vtb_cuda_tensor_of(c, root.tensor)->stride, sizeof root.stride);
    vtb_vec_push(&results, root);
  }
  vtb__schedule(&e.body, results.at, (int)results.n);
  vtb_vec_free(&results);
  vtb__cuda_expr_free(&e);
}

void vtb__cuda_fused(vtb_cuda *c, const vtb_inst *inst) {
  static void (*const emit[])(vtb_cuda *, const vtb_inst *) = {
#define VTB_KERNEL(id, name, cpu, cuda, ...) vtb__cuda_##cuda,
#include "ir/kernels.def"
#undef VTB_KERNEL
  };
  emit[vtb_kernel_kind_of(inst)](c, inst);
}
void vtb__cuda_reduce(vtb_cuda *c, const vtb_inst *inst) { vtb__cuda_body(c, inst); }

void vtb__cuda_copy(vtb_cuda *c, const vtb_value *value, int from, int to) {
  vtb_cuda_expr e;
  vtb_root root = {.value = value, .tensor = to};
  vtb__cuda_expr_init(&e, c, NULL);
  vtb_vec_push(&e.body.leaves, ((vtb_leaf){.value = value, .tensor = from}));
  memcpy(root.stride, vtb_cuda_tensor_of(c, to)->stride, sizeof root.stride);
  vtb__cuda_emit_loop(&e.body, &root, 1);
  vtb__cuda_expr_free(&e);
}

/* Kernels of ops that are expressions, moves and reductions: a fused body, or one bare op; and the
 * other fused kinds. */
#include <string.h>

#include "codegen/cuda/emitters.h"
#include "ir/ops.h"
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

/* The op that bodies of some kinds are about: one of these ops, as the first or anywhere. */
static const struct {
  vtb_kernel_kind kind;
  vtb_op ops[4];
  int n;
  bool first;
} subjects[] = {{VTB_KERNEL_SCANS, {VTB_OP_linscan, VTB_OP_linscan_grad, VTB_OP_delta}, 3, true},
                {VTB_KERNEL_ATTENTION, {VTB_OP_attention, VTB_OP_attention_grad}, 2, false},
                {VTB_KERNEL_PRODUCT, {VTB_OP_einsum}, 1, true},
                {VTB_KERNEL_LOCAL,
                 {VTB_OP_einsum, VTB_OP_dwconv, VTB_OP_dwconv_dx, VTB_OP_dwconv_dw},
                 4,
                 false},
                {VTB_KERNEL_SUMS, {VTB_OP_einsum, VTB_OP_dwconv_dw}, 2, true},
                {VTB_KERNEL_MIXER, {VTB_OP_linscan}, 1, false},
                {VTB_KERNEL_MIXER_GRAD, {VTB_OP_linscan_grad}, 1, false}};

static bool has_subject(const vtb_inst *fused, vtb_kernel_kind kind) {
  for (size_t s = 0; s < sizeof subjects / sizeof *subjects; s++) {
    if (subjects[s].kind != kind) continue;
    for (const vtb_inst *i = fused->callee->first; i; i = subjects[s].first ? NULL : i->next)
      for (int n = 0; n < subjects[s].n; n++)
        if (subjects[s].ops[n] == i->op) return true;
    return false;
  }
  return true;
}

void vtb__cuda_fused(vtb_cuda *c, const vtb_inst *inst) {
  static void (*const emit[])(vtb_cuda *, const vtb_inst *) = {
#define VTB_KERNEL(id, name, cpu, cuda, ...) vtb__cuda_##cuda,
#include "ir/kernels.def"
#undef VTB_KERNEL
  };
  vtb_kernel_kind kind = vtb_kernel_kind_of(inst);
  if (has_subject(inst, kind))
    emit[kind](c, inst);
  else
    vtb_cuda_unsupported(c, inst, "a kernel of kind %s without what such kernels are about",
                         vtb_kernel_kind_name(kind));
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

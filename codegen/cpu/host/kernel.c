/* Kernels: instructions whose code would be equal share one. */
#include <string.h>

#include "codegen/cpu/host/print.h"
#include "ir/ops.h"
#include "codegen/label.h"

typedef void (*emit_fn)(vtb_cpu *, const vtb_inst *);

/* The cpu column of ir/ops.def. */
#define vtb__cpu_scalar vtb__cpu_body
#define vtb__cpu_view vtb__cpu_body
#define vtb__cpu_by_lowering NULL
#define vtb__cpu_call NULL
static const emit_fn emitters[VTB_OP_COUNT] = {
#define VTB_OP(name, klass, lo, hi, shape, interp, grad, tangent, cpu, ...)                        \
  [VTB_OP_##name] = vtb__cpu_##cpu,
#include "ir/ops.def"
#undef VTB_OP
};
#undef vtb__cpu_scalar
#undef vtb__cpu_view
#undef vtb__cpu_by_lowering
#undef vtb__cpu_call

static vtb_cpu_kernel *new_kernel(vtb_host *h, const vtb_step *step) {
  vtb_cpu_kernel *k = VTB_NEW(&h->arena, vtb_cpu_kernel);
  int n = step->n_operands + step->n_results;
  k->n_operands = step->n_operands;
  k->n_results = step->n_results;
  k->types = VTB_NEW_ARRAY(&h->arena, const vtb_type *, n + 1);
  k->stride = vtb_arena_array(&h->arena, (size_t)n + 1, sizeof *k->stride);
  for (int i = 0; i < n; i++) {
    k->types[i] = step->at[i].type;
    memcpy(k->stride[i], step->at[i].stride, sizeof k->stride[i]);
  }
  return k;
}

static void list_ops(const vtb_inst *inst, vtb_strbuf *out) {
  if (inst->op != VTB_OP_fused) {
    vtb_strbuf_puts(out, vtb_op_get(inst->op)->name);
    return;
  }
  for (const vtb_inst *i = inst->callee->first; i; i = i->next) {
    if (i->op == VTB_OP_constant) continue;
    if (out->n) vtb_strbuf_putc(out, ' ');
    vtb_strbuf_puts(out, vtb_op_get(i->op)->name);
  }
}

static void describe_kernel(vtb_host *h, vtb_cpu_kernel *k, const vtb_inst *inst) {
  vtb_strbuf ops = {0};
  const char *kind = "copy";
  vtb_cost cost = {0};
  if (inst) {
    list_ops(inst, &ops);
    kind =
        inst->op == VTB_OP_fused ? vtb_attr_str(inst, "kind", "fused") : vtb_op_get(inst->op)->name;
    vtb_span_text(inst->span, k->origin, sizeof k->origin);
    if (inst->op == VTB_OP_fused && !k->origin[0] && inst->callee->first)
      vtb_span_text(inst->callee->first->span, k->origin, sizeof k->origin);
    if (inst->op == VTB_OP_fused)
      for (const vtb_inst *i = inst->callee->first; i; i = i->next)
        cost.flops += vtb_inst_cost(i, 1).flops;
    else
      cost = vtb_inst_cost(inst, 1);
  } else {
    vtb_strbuf_puts(&ops, "copy");
  }
  k->bytes = 0;
  for (int i = 0; i < k->n_operands + k->n_results;
       i++) { /* what is really stored: broadcast axes count once */
    double n = 4;
    for (int a = 0; a < k->types[i]->rank; a++)
      if (k->stride[i][a]) n *= (double)k->types[i]->dim[a].size;
    k->bytes += n;
  }
  k->flops = cost.flops;
  k->ops = vtb_arena_strdup(&h->arena, ops.at ? ops.at : "");
  k->name = vtb_arena_printf(&h->arena, "%s_%zu", kind, h->kernel_list.n);
  vtb_strbuf_free(&ops);
}

static void emit(vtb_host *h, const vtb_inst *inst, const vtb_step *step) {
  if (inst) {
    emitters[inst->op](&h->cpu, inst);
    return;
  }
  vtb_value copied = {.name = "copied", .type = *step->at[0].type};
  vtb__cpu_copy(&h->cpu, &copied);
}

vtb_cpu_kernel *vtb__host_kernel(vtb_host *h, const vtb_step *step, int runs, vtb_error *err) {
  const vtb_inst *inst = step->kind == VTB_STEP_COPY ? NULL : step->inst;
  if (inst && !emitters[inst->op]) {
    vtb_fail(err, VTB_E_INTERNAL, "op %s reached code generation", vtb_op_get(inst->op)->name);
    return NULL;
  }
  vtb_strbuf key = {0};
  vtb_cpu_kernel *k = new_kernel(h, step);
  vtb__kernel_key(inst, k, &key);
  vtb_cpu_kernel *known = vtb_map_get(&h->kernels, key.at);
  if (!known) {
    known = k;
    k->key = vtb_arena_strdup(&h->arena, key.at);
    vtb_map_set(&h->kernels, k->key, k);
    describe_kernel(h, k, inst);
    k->number = (int)h->kernel_list.n;
    k->label = step->label ? step->label : "copy";
    vtb_vec_push(&h->kernel_list, k);
    k->inst = inst;
    h->cpu.kernel = k;
    emit(h, inst, step);
    h->cpu.kernel = NULL;
  }
  vtb_strbuf_free(&key);
  if (step->label) known->label = vtb_label_merge(known->label, step->label, &h->arena);
  known->launches += runs;
  return known;
}

/* FLOPs and bytes of instructions. A multiply-add is two FLOPs, exp and its like one; bytes are
 * operands read once and results written once. Scans count what their mode computes. */
#include "ir/fold.h"
#include "ir/internal.h"
#include "ir/recurrence.h"
#include "ir/scalar.h"

static double count(const vtb_type *t, int64_t batch) {
  double n = 1;
  for (int i = 0; i < t->rank; i++)
    n *= t->dim[i].size == VTB_DYN ? (double)batch : (double)t->dim[i].size;
  return n;
}

static double size_at(const vtb_type *t, int axis, int64_t batch) {
  return t->dim[axis].size == VTB_DYN ? (double)batch : (double)t->dim[axis].size;
}

static double bytes(const vtb_inst *inst, int64_t batch) {
  double n = 0;
  for (int i = 0; i < inst->n_operands; i++) n += count(&inst->operands[i]->type, batch);
  for (int i = 0; i < inst->n_results; i++) n += count(&inst->results[i]->type, batch);
  return 4 * n; /* both element types have four bytes */
}

static double flops_per_element(vtb_op op) {
  const vtb_scalar *s = vtb_scalar_get(op);
  return s ? s->flops : 0; /* a conversion computes nothing */
}

static double einsum_flops(const vtb_inst *inst, int64_t batch) {
  vtb__einsum e;
  if (vtb__einsum_parse(vtb_attr_str(inst, "spec", ""), &e)) return 0;
  double n = count(&inst->operands[0]->type, batch);
  for (int i = 0; i < e.rank[1]; i++)
    if (!memchr(e.in[0], e.in[1][i], (size_t)e.rank[0]))
      n *= size_at(&inst->operands[1]->type, i, batch);
  return 2 * n;
}

/* Taps of the kernel an output element; the borders are counted as if the padding were data. */
static double dwconv_flops(const vtb_inst *inst, int64_t batch) {
  int n;
  const int64_t *kernel = vtb_attr_ints(inst, "kernel", &n);
  const vtb_type *w = kernel ? NULL : &inst->operands[1]->type;
  double taps = kernel ? (double)kernel[0] * (double)kernel[1]
                       : (double)w->dim[1].size * (double)w->dim[2].size;
  return 2 * taps * count(&inst->operands[0]->type, batch);
}

/* Causal half only; see linscan's modes in ir/recurrence.h. The adjoint does about three times the
 * work. */
static double linscan_flops(const vtb_inst *inst, int64_t batch) {
  vtb_scan s = vtb_scan_of(inst);
  const char *mode = vtb_attr_str(inst, "mode", "auto");
  double tokens = count(&inst->operands[0]->type, batch) / (double)s.K, k = (double)s.K,
         v = (double)(s.V + s.normalizer), n = size_at(&inst->operands[0]->type, 1, batch);
  double per_step = (s.decay->rates ? 7 : 5) * k * v; /* rates make their decay: a product, exp */
  if (vtb_streq(mode, "parallel")) per_step = (k + v) * (n + 1);
  if (vtb_streq(mode, "chunkwise"))
    per_step = (k + v) * ((double)vtb_attr_int(inst, "chunk", 1) + 1) + 4 * k * v;
  return per_step * tokens * (s.grad ? 3 : 1);
}

/* Two products and, per score, the exponential and its surroundings; the adjoint has five
 * products. */
static double attention_flops(const vtb_inst *inst, int64_t batch) {
  const vtb_type *q = &inst->operands[0]->type, *v = &inst->operands[2]->type;
  double width = size_at(q, 3, batch), scores = count(q, batch) / width * size_at(v, 1, batch);
  if (vtb_attr_int(inst, "causal", 0)) scores /= 2;
  bool grad = inst->op == VTB_OP_attention_grad;
  return scores * (2 * (grad ? 3 : 1) * width + 2 * (grad ? 2 : 1) * size_at(v, 3, batch) + 4);
}

static vtb_cost func_cost(const vtb_func *f, int64_t batch) {
  vtb_cost sum = {0};
  for (const vtb_inst *inst = f->first; inst; inst = inst->next) {
    vtb_cost c = vtb_inst_cost(inst, batch);
    sum.flops += c.flops;
    sum.bytes += c.bytes;
  }
  return sum;
}

static double recurrence_flops(const vtb_inst *inst, int64_t batch) {
  int64_t inits = vtb_attr_int(inst, "inits", 0), states = vtb_attr_int(inst, "states", 0);
  const vtb_type *x = &inst->operands[inits]->type, *step = &inst->callee->args[states]->type;
  return func_cost(inst->callee, batch).flops * count(x, batch) / count(step, batch);
}

static double flops(const vtb_inst *inst, int64_t batch) {
  switch (vtb_op_get(inst->op)->klass) {
  case VTB_CLASS_ELEMENTWISE:
    return flops_per_element(inst->op) * count(&inst->results[0]->type, batch);
  case VTB_CLASS_REDUCE:
    return count(&inst->operands[0]->type, batch);
  case VTB_CLASS_SHAPE:
    return 0;
  default:
    break;
  }
  switch (inst->op) {
  case VTB_OP_einsum:
    return einsum_flops(inst, batch);
  case VTB_OP_col2im:
    return count(&inst->operands[0]->type, batch);
  case VTB_OP_dwconv:
  case VTB_OP_dwconv_dx:
  case VTB_OP_dwconv_dw:
    return dwconv_flops(inst, batch);
  case VTB_OP_linscan:
  case VTB_OP_linscan_grad:
    return linscan_flops(inst, batch);
  case VTB_OP_maxplus:
  case VTB_OP_maxplus_grad:
    return 2 * count(&inst->operands[0]->type, batch);
  case VTB_OP_attention:
  case VTB_OP_attention_grad:
    return attention_flops(inst, batch);
  case VTB_OP_fused:
    return func_cost(inst->callee, batch).flops;
  case VTB_OP_recurrence:
    return recurrence_flops(inst, batch);
  default:
    return 0;
  }
}

vtb_cost vtb_inst_cost(const vtb_inst *inst, int64_t batch) {
  if (inst->op == VTB_OP_call) return func_cost(inst->callee, batch);
  if (inst->op == VTB_OP_fold) {
    vtb_cost step = func_cost(inst->callee, batch);
    return (vtb_cost){step.flops * (double)vtb_fold_steps(inst),
                      step.bytes * (double)vtb_fold_steps(inst)};
  }
  return (vtb_cost){flops(inst, batch), bytes(inst, batch)};
}

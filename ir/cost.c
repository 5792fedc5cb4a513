/* FLOPs and bytes of instructions. A multiply-add is two FLOPs, exp and its like one; bytes are
 * operands read once and results written once. Scans count what their mode computes. */
#include "ir/convolution.h"
#include "ir/ops.h"
#include "ir/fold.h"
#include "ir/product.h"
#include "ir/recurrence.h"
#include "ir/scalar.h"
#include "ir/update.h"

static double count(const vtb_type *t, int64_t batch) {
  double n = 1;
  for (int i = 0; i < t->rank; i++) n *= (double)vtb_bound_size(t->dim[i].size, batch);
  return n;
}

static double size_at(const vtb_type *t, int axis, int64_t batch) {
  return (double)vtb_bound_size(t->dim[axis].size, batch);
}

/* Operands read once, results written once. */
static vtb_cost of_flops(const vtb_inst *inst, int64_t batch, double flops) {
  vtb_cost c = {.flops = flops};
  for (int i = 0; i < inst->n_operands + inst->n_results; i++) {
    const vtb_type *t = i < inst->n_operands ? &inst->operands[i]->type
                                             : &inst->results[i - inst->n_operands]->type;
    c.bytes += count(t, batch) * vtb_dtype_bytes(t->dtype);
  }
  return c;
}

vtb_cost vtb_func_cost(const vtb_func *f, int64_t batch) {
  vtb_cost sum = {0};
  for (const vtb_inst *inst = f->first; inst; inst = inst->next) {
    vtb_cost c = vtb_inst_cost(inst, batch);
    sum.flops += c.flops;
    sum.bytes += c.bytes;
  }
  return sum;
}

/* ---- the column `cost` of ir/ops.def --------------------------------------------------------- */

static vtb_cost vtb__cost_nothing(const vtb_inst *inst, int64_t batch) {
  return of_flops(inst, batch, 0);
}

static vtb_cost vtb__cost_scalar(const vtb_inst *inst, int64_t batch) {
  double each = vtb_scalar_get(inst->op)->flops;
  return of_flops(inst, batch, each * count(&inst->results[0]->type, batch));
}

static vtb_cost vtb__cost_input(const vtb_inst *inst, int64_t batch) {
  return of_flops(inst, batch, count(&inst->operands[0]->type, batch));
}

/* A number that is moved, of the rows that are picked alone. */
static vtb_cost vtb__cost_gather(const vtb_inst *inst, int64_t batch) {
  double moved = count(&inst->results[0]->type, batch);
  return (vtb_cost){moved, 8 * moved + 4 * count(&inst->operands[1]->type, batch)};
}

static vtb_cost vtb__cost_scatter_sum(const vtb_inst *inst, int64_t batch) {
  return of_flops(inst, batch, count(&inst->operands[0]->type, batch));
}

static vtb_cost vtb__cost_einsum(const vtb_inst *inst, int64_t batch) {
  vtb_product p = vtb_product_of(inst);
  double n = 2;
  for (int l = 0; l < p.n; l++) n *= (double)vtb_bound_size(p.letters[l].size, batch);
  return of_flops(inst, batch, n);
}

static vtb_cost vtb__cost_product8(const vtb_inst *inst, int64_t batch) {
  const vtb_type *x = &inst->operands[0]->type;
  double k = size_at(x, x->rank - 1, batch);
  return of_flops(inst, batch, 2 * k * count(&inst->results[0]->type, batch));
}

/* Taps of the kernel an output element; the borders are counted as if the padding were data. */
static vtb_cost vtb__cost_dwconv(const vtb_inst *inst, int64_t batch) {
  vtb_depthwise d;
  vtb_check(vtb_depthwise_of(inst, &d), "dwconv: attributes");
  double taps = (double)vtb_axes_product(d.kernel);
  return of_flops(inst, batch, 2 * taps * count(&inst->operands[0]->type, batch));
}

/* Causal half only; see linscan's modes in ir/recurrence.h. The adjoint does about three times the
 * work. */
static vtb_cost vtb__cost_linscan(const vtb_inst *inst, int64_t batch) {
  vtb_scan s = vtb_scan_of(inst);
  const char *mode = vtb_attr_str(inst, "mode", "auto");
  double tokens = count(&inst->operands[0]->type, batch) / (double)s.K, k = (double)s.K,
         v = (double)(s.V + s.normalizer), n = size_at(&inst->operands[0]->type, 1, batch);
  double per_step = (s.decay->rates ? 7 : 5) * k * v; /* rates make their decay: a product, exp */
  if (vtb_streq(mode, "parallel")) per_step = (k + v) * (n + 1);
  if (vtb_streq(mode, "chunkwise"))
    per_step = (k + v) * ((double)vtb_attr_int(inst, "chunk", 1) + 1) + 4 * k * v;
  return of_flops(inst, batch, per_step * tokens * (s.grad ? 3 : 1));
}

/* A row reads the state and adds to it, which decays once a token; in the forms of products it
 * meets the rows of the tokens before it with its key and with its value. */
static vtb_cost vtb__cost_delta(const vtb_inst *inst, int64_t batch) {
  vtb_delta d = vtb_delta_of(inst);
  double rows = count(&inst->operands[0]->type, batch) / (double)d.K, k = (double)d.K,
         v = (double)d.V, r = (double)d.rank;
  double per_row = (4 + 1 / r) * k * v;
  if (!d.recurrent) per_row = (k + v) * r * (double)d.chunk;
  if (!d.recurrent && d.chunk < d.n_tokens) per_row += 4 * k * v;
  return of_flops(inst, batch, per_row * rows);
}

/* Two products and, per score, the exponential and its surroundings; the adjoint has five
 * products. */
static vtb_cost vtb__cost_attention(const vtb_inst *inst, int64_t batch) {
  const vtb_type *q = &inst->operands[0]->type, *v = &inst->operands[2]->type;
  double width = size_at(q, 3, batch), scores = count(q, batch) / width * size_at(v, 1, batch);
  if (vtb_attr_int(inst, "causal", 0)) scores /= 2;
  bool grad = inst->op == VTB_OP_attention_grad;
  double each = 2 * (grad ? 3 : 1) * width + 2 * (grad ? 2 : 1) * size_at(v, 3, batch) + 4;
  return of_flops(inst, batch, scores * each);
}

static vtb_cost vtb__cost_maxplus(const vtb_inst *inst, int64_t batch) {
  return of_flops(inst, batch, 2 * count(&inst->operands[0]->type, batch));
}

/* Elements of the operands from `first` on. */
static double elements_from(const vtb_inst *inst, int first, int64_t batch) {
  double sum = 0;
  for (int i = first; i < inst->n_operands; i++) sum += count(&inst->operands[i]->type, batch);
  return sum;
}

static vtb_cost vtb__cost_verdict(const vtb_inst *inst, int64_t batch) {
  return of_flops(inst, batch, 2 * elements_from(inst, 2, batch));
}

static vtb_cost vtb__cost_update(const vtb_inst *inst, int64_t batch) {
  double tensors = elements_from(inst, VTB_UPDATE_LEAD, batch) / (2 + vtb_update_of(inst).states);
  return of_flops(inst, batch, vtb_func_cost(inst->callee, 1).flops * tensors);
}

static vtb_cost vtb__cost_recurrence(const vtb_inst *inst, int64_t batch) {
  int64_t inits = vtb_attr_int(inst, "inits", 0), states = vtb_attr_int(inst, "states", 0);
  const vtb_type *x = &inst->operands[inits]->type, *step = &inst->callee->args[states]->type;
  double steps = count(x, batch) / count(step, batch);
  return of_flops(inst, batch, vtb_func_cost(inst->callee, batch).flops * steps);
}

static vtb_cost vtb__cost_call(const vtb_inst *inst, int64_t batch) {
  return vtb_func_cost(inst->callee, batch);
}

/* Values between its instructions stay in registers. */
static vtb_cost vtb__cost_kernel(const vtb_inst *inst, int64_t batch) {
  return of_flops(inst, batch, vtb_func_cost(inst->callee, batch).flops);
}

static double fold_tiles(const vtb_inst *inst, int64_t batch) {
  vtb_fold p = vtb_fold_of(inst);
  if (!p.tile) return 1;
  int64_t bound = inst->operands[p.states]->type.dim[0].size;
  return (double)vtb_bound_size(bound, batch) / (double)p.tile;
}

static vtb_cost vtb__cost_fold(const vtb_inst *inst, int64_t batch) {
  vtb_cost step = vtb_func_cost(inst->callee, batch);
  double steps = (double)vtb_fold_steps(inst) * fold_tiles(inst, batch);
  return (vtb_cost){step.flops * steps, step.bytes * steps};
}

vtb_cost vtb_inst_cost(const vtb_inst *inst, int64_t batch) {
  static vtb_cost (*const rules[])(const vtb_inst *, int64_t) = {
#define VTB_OP(name, klass, lo, hi, shape, interp, grad, tangent, cpu, cost, ...) vtb__cost_##cost,
#include "ir/ops.def"
#undef VTB_OP
  };
  return rules[inst->op](inst, batch);
}

/* ---- as the papers count --------------------------------------------------------------------- */

/* Tokens a chunk, in the chunkwise form that papers count for linear recurrences. */
enum { PUBLISHED_CHUNK = 49 };

/* A token and head of a linear recurrence with a state of K x V, in chunks of c tokens:
 *   decay of products       (c/2 + 1) (K + V) inside chunks and 2 K V / c between them; the latter
 *                           over the whole widths of all heads, as published
 *   decay of every entry    three to four operations an entry of the state */
static double scan_macs(vtb_decay_form form, double tokens, double heads, double k, double v) {
  double c = PUBLISHED_CHUNK;
  if (form != VTB_FORM_PRODUCTS)
    return (form == VTB_FORM_VECTOR ? 3 : 3.5) * tokens * heads * k * v;
  return (c / 2 + 1) * (k + v) * heads * tokens + 2 * heads * k * heads * v * tokens / c;
}

static double mixer_macs(const vtb_inst *inst) {
  if (inst->op == VTB_OP_delta) { /* a scan of its rows, which meet and are solved for */
    vtb_delta d = vtb_delta_of(inst);
    return scan_macs(d.decay->form, (double)(d.n_tokens * d.rank), (double)d.n_heads, (double)d.K,
                     (double)d.V);
  }
  if (inst->op != VTB_OP_linscan && inst->op != VTB_OP_attention) return 0;
  const vtb_type *q = &inst->operands[0]->type, *value = &inst->operands[2]->type;
  double tokens = size_at(q, 1, 1), heads = size_at(q, 2, 1), k = size_at(q, 3, 1),
         v = size_at(value, 3, 1);
  return inst->op == VTB_OP_linscan ? scan_macs(vtb_scan_of(inst).decay->form, tokens, heads, k, v)
                                    : tokens * size_at(value, 1, 1) * heads * (k + v);
}

static double layer_macs(const vtb_inst *inst) {
  bool counts =
      inst->op == VTB_OP_einsum || inst->op == VTB_OP_product8 || inst->op == VTB_OP_dwconv;
  return counts ? vtb_inst_cost(inst, 1).flops / 2 : 0;
}

vtb_published_macs vtb_inst_published_macs(const vtb_inst *inst) {
  bool fold = inst->op == VTB_OP_fold;
  if (!fold && inst->op != VTB_OP_call)
    return (vtb_published_macs){layer_macs(inst), mixer_macs(inst)};
  double times = fold ? (double)vtb_fold_steps(inst) * fold_tiles(inst, 1) : 1;
  vtb_published_macs inner = vtb_func_published_macs(inst->callee);
  return (vtb_published_macs){times * inner.layers, times * inner.mixers};
}

vtb_published_macs vtb_func_published_macs(const vtb_func *f) {
  vtb_published_macs sum = {0};
  for (const vtb_inst *inst = f->first; inst; inst = inst->next) {
    vtb_published_macs one = vtb_inst_published_macs(inst);
    sum.layers += one.layers;
    sum.mixers += one.mixers;
  }
  return sum;
}

/* The work of kernels' launches: see ../cost.h. */
#include "codegen/cuda/cost.h"
#include "ir/ops.h"
#include "codegen/cuda/plan/program.h"
#include "ir/kernels.h"
#include "ir/scalar.h"

const vtb_gpu *vtb_cuda_gpu(const vtb_cuda *c) { return vtb_gpu_or_default(&c->options->gpu); }

static double larger(double a, double b) { return a > b ? a : b; }

void vtb_cuda_spend(vtb_cuda_kernel *k, const vtb_work *w) {
  for (int u = 0; u < VTB_N_TENSOR_UNITS; u++) k->work.tensor[u] += w->tensor[u];
  k->work.issue += w->issue;
  k->work.special += w->special;
  k->work.wavefronts += w->wavefronts;
  k->work.chain = larger(k->work.chain, w->chain);
  k->work.flight = larger(k->work.flight, w->flight);
  k->work.registers = larger(k->work.registers, w->registers);
  k->work.after += w->after;
  k->work.phases |= w->phases;
  k->spent = true;
}

void vtb__cuda_registers(vtb_cuda_kernel *k, int64_t registers) {
  enum { MOST = 255 };
  k->work.registers = larger(k->work.registers, (double)(registers < MOST ? registers : MOST));
}

/* ---- as bodies of ops do it ------------------------------------------------------------------ */

/* Operations of a lane and results of special functions that an elementwise op takes, each. */
typedef struct effort {
  double lanes, special;
} effort;

/* As ptxas makes them, which is CUDA's alone: a quotient is a reciprocal and a product, scaled; erf
 * a polynomial. Other ops take what their formulas take. */
static effort effort_of(vtb_op op) {
  static const struct {
    vtb_op op;
    effort e;
  } known[] = {{VTB_OP_exp, {5, 1}},         {VTB_OP_log, {8, 1}},     {VTB_OP_sqrt, {3, 1}},
               {VTB_OP_sin, {20, 0}},        {VTB_OP_cos, {20, 0}},    {VTB_OP_tanh, {10, 2}},
               {VTB_OP_erf, {18, 1}},        {VTB_OP_div, {4, 1}},     {VTB_OP_atan2, {24, 1}},
               {VTB_OP_rsqrt, {4, 1}},       {VTB_OP_log1p, {12, 1}},  {VTB_OP_expm1, {8, 1}},
               {VTB_OP_pow, {40, 2}},        {VTB_OP_sigmoid, {4, 2}}, {VTB_OP_softplus, {13, 1}},
               {VTB_OP_log_sigmoid, {13, 1}}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].op == op) return known[i].e;
  const vtb_scalar *s = vtb_scalar_get(op);
  effort sum = {0};
  if (!s || !s->formula) return (effort){1, 0};
  bool used[VTB_SCALAR_NODES] = {0};
  if (s->value >= 0) used[s->value] = true;
  for (int n = s->value; n >= 0; n--) {
    const vtb_scalar_node *node = &s->nodes[n];
    if (!used[n] || node->leaf != VTB_LEAF_NONE) continue;
    effort one = effort_of(node->op);
    sum.lanes += one.lanes;
    sum.special += one.special;
    for (int a = 0; a < vtb_scalar_get(node->op)->n_operands; a++) used[node->arg[a]] = true;
  }
  return sum;
}

static void add_ops(const vtb_inst *i, effort *sum) {
  if (vtb_scalar_get(i->op)) {
    effort each = effort_of(i->op);
    double n = (double)vtb_type_count(&i->results[0]->type);
    sum->lanes += each.lanes * n;
    sum->special += each.special * n;
  } else {
    /* of a product a multiply-add, and what brings its factors */
    sum->lanes += vtb_inst_cost(i, 1).flops;
  }
}

enum { THREAD_START = 24 /* instructions: its number, taken apart */ };

/* Loads, stores and what makes their addresses, of four elements; of 16 bits they are packed. */
static double access_lanes(const vtb_cuda_ref *r) {
  double bytes = vtb__cuda_element(r);
  double fours = (double)(r->touched ? r->touched : r->bytes) / (4 * bytes);
  return fours * (bytes < 4 ? 10 : 6);
}

/* Ops of the unit's instruction that a kernel itself makes, of a text or without. */
static effort ops_of(const vtb_cuda *c, bool text) {
  const vtb_inst *inst = c->unit.inst;
  effort sum = {0};
  if (!inst || c->unit.copies) return sum;
  if (inst->op != VTB_OP_fused) {
    if (!text) add_ops(inst, &sum);
    return sum;
  }
  /* small products of a local kernel's body are no text's own */
  const bool local = vtb_kernel_kind_of(inst) == VTB_KERNEL_LOCAL;
  for (const vtb_inst *i = inst->callee->first; i; i = i->next)
    if (!text || vtb_scalar_get(i->op) || (local && i->op == VTB_OP_einsum && !vtb_is_share(i)))
      add_ops(i, &sum);
  return sum;
}

/* It adds what the kernel before has made. */
static bool is_total(const vtb_cuda_kernel *k) {
  return vtb_streq(k->kind, "total") || vtb_streq(k->kind, "dwconv_add");
}

static void add_derived(vtb_cuda_kernel *k, double blocks) {
  effort sum = is_total(k) ? (effort){0} : ops_of(k->c, k->of.file != NULL);
  double lanes = THREAD_START * blocks * k->threads;
  for (size_t p = 0; p < k->params.n; p++) lanes += access_lanes(&k->params.at[p].ref);
  vtb_cuda_spend(k, &(vtb_work){.issue = (lanes + sum.lanes) / 32, .special = sum.special});
}

/* ---- as texts declare it --------------------------------------------------------------------- */

/* Operations on tensor cores for `flops` of a product: numbers of two parts meet three times. */
static void add_tensor(vtb_work *w, vtb_factors factors, bool wide, double flops) {
  bool tf32 = factors <= VTB_FACTORS_TF32;
  double parts = factors == VTB_FACTORS_FP32 || factors == VTB_FACTORS_SPLIT ? 3 : 1;
  int unit = wide ? (tf32 ? VTB_TENSOR_WIDE_TF32 : VTB_TENSOR_WIDE_16)
                  : (tf32 ? VTB_TENSOR_WARP_TF32 : VTB_TENSOR_WARP_16);
  w->tensor[unit] += parts * flops;
}

static vtb_factors factors_of(vtb_cuda *c, vtb__text *t) {
  vtb_error err = {0};
  if (!vtb__text_has(t, "FACTORS")) return vtb__cuda_factors(c);
  return (vtb_factors)vtb__text_value(t, "FACTORS", &err);
}

static bool takes_body(const vtb_cuda *c, const vtb__text *t) {
  return (vtb__text_has(t, "row_body") || vtb__text_has(t, "put_y")) && c->unit.inst &&
         c->unit.inst->op == VTB_OP_fused;
}

static void add_epilogue(const vtb_cuda *c, vtb_work *w) {
  effort sum = ops_of(c, true);
  w->issue += sum.lanes / 32;
  w->special += sum.special;
  if (w->after > 0) w->after += sum.lanes / 32;
}

bool vtb__cuda_add_declared(vtb_cuda *c, vtb__text *t, vtb_work *w) {
  vtb__text_costs of;
  vtb_error err = {0};
  vtb_status status = vtb__text_costs_of(t, &of, &err);
  vtb_check(status == VTB_OK, "%s", err.text);
  w->issue = w->blocks * (double)of.issue;
  w->special = w->blocks * (double)of.special;
  w->wavefronts = w->blocks * (double)of.wavefronts;
  w->chain = (double)of.chain;
  w->flight = (double)of.flight;
  w->registers = (double)of.registers;
  w->after = w->blocks * (double)of.after;
  w->phases = of.phases != 0;
  if (of.tensor) add_tensor(w, factors_of(c, t), false, w->blocks * (double)of.tensor);
  if (of.wide) add_tensor(w, factors_of(c, t), true, w->blocks * (double)of.wide);
  if (of.any && takes_body(c, t)) add_epilogue(c, w);
  return of.any;
}

static bool add_declared(vtb_cuda_kernel *k, double blocks) {
  vtb_work w = {.blocks = blocks};
  if (!vtb__cuda_add_declared(k->c, &k->of, &w)) return false;
  if (!takes_body(k->c, &k->of) && vtb__text_has(&k->of, "store") && !is_total(k))
    add_epilogue(k->c, &w);
  vtb_cuda_spend(k, &w);
  return true;
}

void vtb__cuda_cost(vtb_cuda_kernel *k, int64_t blocks) {
  if (!(k->of.file && add_declared(k, (double)blocks)) && !k->spent) add_derived(k, (double)blocks);
  for (size_t p = 0; p < k->params.n; p++) k->work.bytes += (double)k->params.at[p].ref.bytes;
  k->work.blocks = (double)blocks;
  k->work.threads = k->threads;
  k->work.shared_bytes = (double)k->shared_bytes;
}

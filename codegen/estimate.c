/* See estimate.h. */
#include "codegen/estimate.h"

#include "ir/recurrence.h"

static void charge(vtb_estimate *e, const vtb_speeds *speeds, double rate, vtb_estimate kernel,
                   double speed) {
  double work = kernel.flops / (rate * speed), moved = kernel.bytes / (speeds->bytes * speed);
  e->launches += kernel.launches;
  e->flops += (double)kernel.launches * kernel.flops;
  e->bytes += (double)kernel.launches * kernel.bytes;
  e->seconds += (double)kernel.launches * ((work > moved ? work : moved) + speeds->launch);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static double flops_of(const vtb_inst *inst) {
  double sum = 0;
  if (!inst) return 0;
  if (inst->op != VTB_OP_fused) return vtb_inst_cost(inst, 1).flops;
  for (const vtb_inst *i = inst->callee->first; i; i = i->next) sum += vtb_inst_cost(i, 1).flops;
  return sum;
}

/* What is stored: axes of broadcasts count once. */
static double bytes_of(const vtb_step *step) {
  double sum = 0;
  for (int i = 0; i < step->n_operands + step->n_results; i++) {
    const vtb_spot *at = &step->at[i];
    double n = (double)vtb_dtype_bytes(at->type->dtype);
    for (int a = 0; a < at->type->rank; a++)
      if (at->stride[a]) n *= (double)at->type->dim[a].size;
    sum += n;
  }
  return sum;
}

static bool is_scan(const vtb_inst *i) {
  return i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad || i->op == VTB_OP_delta;
}

/* What the scans of a kernel took when they were measured; 0: one of them was not, or it has
 * none. */
static double measured(const vtb_inst *inst, const vtb_pass_context *c) {
  double sum = 0;
  if (!inst || !c->tuning) return 0;
  for (const vtb_inst *i = vtb_is_scans(inst) ? inst->callee->first : inst; i; i = i->next) {
    if (!is_scan(i)) return 0;
    vtb_tuning_key key = vtb_tuning_key_of(i, c->target, c->precision, c->threads);
    double one = vtb_tuning_seconds(c->tuning, &key, vtb_attr_str(i, "mode", ""),
                                    vtb_attr_int(i, "chunk", 0));
    if (one <= 0) return 0;
    sum += one;
    if (!vtb_is_scans(inst)) break;
  }
  return sum;
}

vtb_estimate vtb_estimate_steps(const vtb_steps *s, const vtb_pass_context *c) {
  vtb_estimate e = {0};
  const vtb_speeds *speeds = &c->target->speeds;
  double speed = c->threads > 1 ? (double)c->threads : 1;
  for (size_t f = 0; f < s->n_funcs; f++)
    for (size_t k = 0; k < s->funcs[f].list.n; k++) {
      const vtb_step *step = &s->funcs[f].list.at[k];
      if (step->kind != VTB_STEP_KERNEL && step->kind != VTB_STEP_COPY) continue;
      const vtb_inst *inst = step->kind == VTB_STEP_KERNEL ? step->inst : NULL;
      double known = measured(inst, c), before = e.seconds;
      charge(&e, speeds, speeds->flops[VTB_PRECISION_FP32],
             (vtb_estimate){s->funcs[f].runs, flops_of(inst), bytes_of(step), 0}, speed);
      if (known > 0) e.seconds = before + (double)s->funcs[f].runs * known;
    }
  return e;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static double gemm_flops(const vtb_launch_gemm *g) {
  return 2 * (double)g->m * (double)g->n * (double)g->k * (double)g->batch;
}

vtb_estimate vtb_estimate_plan(const vtb_launch_plan *p, const vtb_speeds *speeds,
                               vtb_precision precision) {
  vtb_estimate e = {0};
  for (int i = p->n_prepared; i < p->n_steps; i++) {
    const vtb_launch_step *s = &p->steps[i];
    vtb_estimate one = {.launches = 1};
    one.flops = s->kind == VTB_LAUNCH_KERNEL ? p->kernels[s->index].info.flops
                                             : gemm_flops(&p->gemms[s->index]);
    vtb_launch_traffic t = vtb_launch_traffic_of(p, s);
    one.bytes = (double)(t.read + t.written);
    charge(&e, speeds, speeds->flops[precision], one, 1);
  }
  return e;
}

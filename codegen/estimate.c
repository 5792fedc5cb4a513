/* See estimate.h. */
#include "codegen/estimate.h"
#include "ir/ops.h"

#include "ir/recurrence.h"
#include "runtime/launch/launch_walk.h"

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

/* The bytes that are stored: axes of broadcasts count once. */
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

/* The measured time of a kernel's scans; 0: one of them was not, or it has none. */
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

/* Without prepared steps. */
vtb_estimate vtb_estimate_steps(const vtb_steps *s, const vtb_pass_context *c) {
  vtb_estimate e = {0};
  const vtb_speeds *speeds = &c->target->speeds;
  double speed = c->threads > 1 ? (double)c->threads : 1;
  for (size_t f = 0; f < s->n_funcs; f++)
    for (size_t k = s->funcs[f].n_prepared; k < s->funcs[f].list.n; k++) {
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

/* Memory that was touched lately: a launch that touched `touched` bytes ended when `at` had been,
 * in all launches together. */
typedef struct trace {
  vtb_launch_arg arg;
  double at, touched;
} trace;

typedef struct walk {
  const vtb_launch_plan *plan;
  const vtb_gpu *gpu;
  VTB_VEC(trace) lately;
  double at;
} walk;

/* L2 keeps about so much of what went through it last: it has two halves, and is no perfect
 * memory of the last accesses. */
#define L2_KEEPS 0.6

static bool same_range(const vtb_launch_arg *a, const vtb_launch_arg *b) {
  return a->space == b->space && (a->space != VTB_LAUNCH_TENSOR || a->tensor == b->tensor) &&
         a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Between two accesses to one byte lies at most what the larger of both launches touches, and all
 * between them. */
static bool in_l2(const walk *w, const vtb_launch_arg *a, double touched) {
  for (size_t i = w->lately.n; i-- > 0;) {
    const trace *t = &w->lately.at[i];
    if (!same_range(&t->arg, a)) continue;
    double most = touched > t->touched ? touched : t->touched;
    return w->at - t->at + most <= L2_KEEPS * w->gpu->l2_size;
  }
  return false;
}

static void forget(walk *w) {
  size_t kept = 0;
  for (size_t i = 0; i < w->lately.n; i++)
    if (w->at - w->lately.at[i].at <= w->gpu->l2_size) w->lately.at[kept++] = w->lately.at[i];
  w->lately.n = kept;
}

/* Its bytes, parted into memory's and L2's. */
static void move_bytes(walk *w, const vtb_launch_step *s, vtb_launch_estimate *e) {
  const vtb_launch_arg *args = w->plan->args + s->first_arg;
  vtb_launch_traffic t = vtb_launch_traffic_of(w->plan, s);
  double touched = (double)(t.read + t.written), cached = 0;
  for (int a = 0; a < s->n_args; a++)
    if (!(args[a].access & VTB_LAUNCH_WRITE) && in_l2(w, &args[a], touched))
      cached += (double)args[a].touched;
  e->l2_bytes = cached < (double)t.read ? cached : (double)t.read; /* some reach the same */
  e->bytes = touched - e->l2_bytes;
  w->at += touched;
  forget(w);
  for (int a = 0; a < s->n_args; a++) vtb_vec_push(&w->lately, ((trace){args[a], w->at, touched}));
}

static double gemm_flops(const vtb_launch_gemm *g) {
  return 2 * (double)g->m * (double)g->n * (double)g->k * (double)g->batch;
}

static vtb_launch_estimate estimate_kernel(walk *w, const vtb_launch_step *s) {
  const vtb_launch_kernel *k = &w->plan->kernels[s->index];
  vtb_launch_estimate e = {.name = k->name,
                           .ops = k->info.ops,
                           .origin = k->info.origin,
                           .blocks = (double)s->grid,
                           .threads = k->threads};
  vtb_work work = w->plan->work[s->index];
  double as_often = e.blocks / work.blocks;
  move_bytes(w, s, &e);
  for (int u = 0; u < VTB_N_TENSOR_UNITS; u++) work.tensor[u] *= as_often;
  work.issue *= as_often;
  work.special *= as_often;
  work.wavefronts *= as_often;
  work.after *= as_often;
  work.blocks = e.blocks;
  work.bytes = e.bytes;
  work.l2_bytes = e.l2_bytes;
  e.time = vtb_gpu_time(w->gpu, &work);
  return e;
}

static vtb_launch_estimate estimate_gemm(walk *w, const vtb_launch_step *s) {
  static const vtb_tensor_unit units[] = {VTB_N_TENSOR_UNITS, VTB_TENSOR_WIDE_TF32,
                                          VTB_TENSOR_WIDE_16, VTB_TENSOR_WIDE_16};
  const vtb_launch_gemm *g = &w->plan->gemms[s->index];
  vtb_launch_estimate e = {.name = "", .ops = "einsum", .origin = ""};
  move_bytes(w, s, &e);
  e.time = vtb_gpu_gemm(w->gpu, (double)g->m, (double)g->n, (double)g->k, (double)g->batch,
                        units[g->precision], e.bytes, e.l2_bytes);
  return e;
}

vtb_estimate vtb_estimate_plan(const vtb_launch_plan *p, const vtb_gpu *gpu,
                               vtb_launch_estimates *each) {
  vtb_estimate e = {0};
  walk w = {.plan = p, .gpu = gpu};
  vtb_check(p->work != NULL, "a plan that nobody has just made");
  for (int i = p->n_prepared; i < p->n_steps; i++) {
    const vtb_launch_step *s = &p->steps[i];
    bool kernel = s->kind == VTB_LAUNCH_KERNEL;
    vtb_launch_estimate one = kernel ? estimate_kernel(&w, s) : estimate_gemm(&w, s);
    one.step = i;
    one.runs = vtb_launch_runs(p, i);
    e.launches += (int64_t)one.runs;
    e.flops +=
        one.runs * (kernel ? p->kernels[s->index].info.flops : gemm_flops(&p->gemms[s->index]));
    e.bytes += one.runs * (one.bytes + one.l2_bytes);
    e.seconds += one.runs * one.time.seconds;
    if (each) vtb_vec_push(each, one);
  }
  vtb_vec_free(&w.lately);
  return e;
}

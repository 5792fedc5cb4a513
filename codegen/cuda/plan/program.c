/* The module as a launch plan: every planned function is emitted once as steps with places relative
 * to its arguments and frame (codegen/steps.h); calls are then expanded from the entry (expand.c).
 */
#include "codegen/cuda/plan/program.h"
#include "ir/ops.h"

#include "codegen/cuda/emitters.h"
#include "ir/update.h"

typedef void (*emit_fn)(vtb_cuda *, const vtb_inst *);

/* The cpu column of ir/ops.def. */
#define vtb__cuda_scalar vtb__cuda_body
#define vtb__cuda_view vtb__cuda_body
#define vtb__cuda_by_lowering NULL
#define vtb__cuda_call NULL
#define vtb__cuda_quantize NULL /* of processors alone (passes/memory/quantize.c) */
#define vtb__cuda_product8 NULL
static const emit_fn emitters[VTB_OP_COUNT] = {
#define VTB_OP(name, klass, lo, hi, shape, interp, grad, tangent, cpu, ...)                        \
  [VTB_OP_##name] = vtb__cuda_##cpu,
#include "ir/ops.def"
#undef VTB_OP
};
#undef vtb__cuda_scalar
#undef vtb__cuda_view
#undef vtb__cuda_by_lowering
#undef vtb__cuda_call
#undef vtb__cuda_quantize
#undef vtb__cuda_product8

/* ---- steps ----------------------------------------------------------------------------------- */

static void emit_kernel(vtb_cuda *c, const vtb_step *step) {
  if (!emitters[step->inst->op]) {
    vtb_cuda_unsupported(c, step->inst, "it should have been lowered");
    return;
  }
  vtb__cuda_begin_step(c, step);
  emitters[step->inst->op](c, step->inst);
  vtb__cuda_end_unit(c);
}

void vtb__cuda_emit_copy(vtb_cuda *c, const vtb_step *step) {
  vtb_value copied = {.name = "copied", .type = *step->at[0].type};
  vtb__cuda_begin_step(c, step);
  c->unit.copies = true;
  vtb__cuda_copy(c, &copied, 0, 1);
  vtb__cuda_end_unit(c);
}

void vtb__cuda_emit_call(vtb_cuda *c, const vtb_func *callee, int64_t frame, const vtb_spot *spots,
                         int n) {
  const vtb_cuda_func *to = &c->funcs.at[vtb_steps_find(&c->steps, callee)];
  vtb_cuda_step s = {.callee = to, .frame = frame, .n_refs = n};
  s.refs = VTB_NEW_ARRAY(&c->arena, vtb_cuda_ref, n + 1);
  vtb__cuda_refs(c, spots, n, s.refs);
  vtb__cuda_take_tail(c, frame + to->total_bytes);
  vtb_vec_push(&c->func->steps, s);
}

void vtb__cuda_begin_loop(vtb_cuda *c, int64_t times, const vtb_cuda_ref *condition) {
  vtb_cuda_step s = {.times = times, .n_refs = condition != NULL};
  if (condition) s.refs = vtb_arena_memdup(&c->arena, condition, sizeof *condition);
  if (condition) s.refs->access = VTB_LAUNCH_READ;
  vtb_vec_push(&c->func->steps, s);
}

void vtb__cuda_end_loop(vtb_cuda *c) {
  vtb_vec_push(&c->func->steps, ((vtb_cuda_step){.ends_turn = true}));
}

/* No launch: whoever runs the plan is told. */
static void emit_sum(vtb_cuda *c, const vtb_step *step) {
  if (step->n_operands > 1) {
    vtb_cuda_unsupported(c, step->inst, "only gradients are summed now and then");
    return;
  }
  vtb_cuda_step s = {.sum = true, .n_refs = 1, .refs = VTB_NEW(&c->arena, vtb_cuda_ref)};
  vtb__cuda_refs(c, &step->at[0], 1, s.refs);
  s.refs->access = VTB_LAUNCH_READ | VTB_LAUNCH_WRITE;
  vtb_vec_push(&c->func->steps, s);
}

static void emit_step(vtb_cuda *c, const vtb_step *step) {
  switch (step->kind) {
  case VTB_STEP_KERNEL:
    emit_kernel(c, step);
    break;
  case VTB_STEP_COPY:
    vtb__cuda_emit_copy(c, step);
    break;
  case VTB_STEP_CALL:
    vtb__cuda_emit_call(c, step->inst->callee, 0, step->at, step->n_operands + step->n_results);
    break;
  case VTB_STEP_FOLD:
    vtb__cuda_emit_fold(c, step);
    break;
  case VTB_STEP_SUM:
    emit_sum(c, step);
    break;
  case VTB_STEP_WAIT: /* steps follow one another */
    break;
  }
}

/* ---- functions ------------------------------------------------------------------------------- */

static void emit_func(vtb_cuda *c, vtb_cuda_func *f) {
  c->func = f;
  f->n_values = f->steps_of->n_values;
  for (size_t i = 0; i < f->steps_of->list.n && !c->failed; i++) {
    emit_step(c, &f->steps_of->list.at[i]);
    if (f->steps_of->list.at[i].prepared) f->n_prepared = f->steps.n;
  }
  if (c->groups) vtb__cuda_join_jobs(c, f);
  f->total_bytes = vtb_places_round(&c->steps.places, f->steps_of->tail_base + f->tail_bytes);
  c->func = NULL;
}

static void free_program(vtb_cuda *c) {
  for (size_t i = 0; i < c->funcs.n; i++) vtb_vec_free(&c->funcs.at[i].steps);
  vtb_vec_free(&c->funcs);
  vtb_vec_free(&c->kernel_list);
  vtb_vec_free(&c->gemms);
  vtb_vec_free(&c->unit.temps);
  vtb_strbuf_free(&c->constants);
  vtb_map_free(&c->kernels);
  vtb_map_free(&c->includes);
  vtb_map_free(&c->constant_at);
  vtb_steps_free(&c->steps);
  vtb_arena_free(&c->arena);
}

vtb_status vtb_cuda_plan(vtb_module *m, vtb_func *f, const vtb_codegen_options *o,
                         vtb_launch_plan **plan, vtb_error *err) {
  static const vtb_codegen_options defaults = {0};
  vtb_error ignored = {0};
  vtb_cuda c = {.options = o ? o : &defaults, .err = err ? err : &ignored};
  VTB_TRY(vtb_steps_make(m, f, &vtb_target_find("cuda")->places, &c.steps, err));
  vtb_arena_init(&c.arena);
  for (size_t i = 0; i < c.steps.n_funcs; i++)
    vtb_vec_push(&c.funcs, ((vtb_cuda_func){.steps_of = &c.steps.funcs[i]}));
  vtb__cuda_update_layout(&c, f);
  for (size_t i = 0; i < c.funcs.n && !c.failed; i++) emit_func(&c, &c.funcs.at[i]);
  if (c.groups) vtb__cuda_drop_kernels(&c);
  if (!c.failed) *plan = vtb__cuda_expand(&c, f);
  vtb_status status = c.failed ? c.err->status : VTB_OK;
  free_program(&c);
  return status;
}

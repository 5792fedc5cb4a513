/* See outline.h. */
#include "frontend/compile/outline.h"
#include "ir/ops.h"

#include "codegen/label.h"
#include "ir/fold.h"
#include "ir/recurrence.h"
#include "runtime/launch/launch_check.h"

/* ---- recurrences ----------------------------------------------------------------------------- */

static bool is_scan(const vtb_inst *i) {
  return i->op == VTB_OP_linscan || i->op == VTB_OP_linscan_grad || i->op == VTB_OP_delta;
}

static bool is_attention(const vtb_inst *i) {
  return i->op == VTB_OP_attention || i->op == VTB_OP_attention_grad;
}

static const char *class_of(const vtb_inst *i) {
  if (i->op == VTB_OP_fold) return "";
  return i->op == VTB_OP_delta ? vtb_delta_of(i).decay->name : vtb_scan_of(i).decay->name;
}

static vtb_outline_recurrence describe_recurrence(vtb_outline *o, const vtb_pass_context *c,
                                                  const vtb_inst *i, const char *path) {
  vtb_strbuf reason = {0};
  bool fold = i->op == VTB_OP_fold;
  vtb_mode_reason(c, i, &reason);
  vtb_outline_recurrence r = {
      .name = vtb_label_of(i, path, &o->arena),
      .op = vtb_op_get(i->op)->name,
      .klass = class_of(i),
      .mode = fold ? "recurrent" : vtb_arena_strdup(&o->arena, vtb_attr_str(i, "mode", "auto")),
      .chunk = fold ? 0 : vtb_attr_int(i, "chunk", 0),
      .tokens = fold ? vtb_fold_steps(i) : i->operands[0]->type.dim[1].size,
      .reason = vtb_arena_strdup(&o->arena, vtb_strbuf_text(&reason)),
  };
  vtb_strbuf_free(&reason);
  return r;
}

static bool same_but_place(const vtb_outline_recurrence *a, const vtb_outline_recurrence *b) {
  return vtb_streq(a->op, b->op) && vtb_streq(a->reason, b->reason) && a->tokens == b->tokens;
}

static void add_inst(vtb_outline *o, const vtb_pass_context *c, const vtb_inst *i,
                     const vtb_func_steps *f) {
  vtb_outline_recurrence r = describe_recurrence(o, c, i, f->path);
  r.count = f->runs;
  for (size_t k = 0; k < o->recurrences.n; k++) {
    vtb_outline_recurrence *known = &o->recurrences.at[k];
    if (!same_but_place(known, &r)) continue;
    known->name = vtb_label_merge(known->name, r.name, &o->arena);
    known->count += r.count;
    return;
  }
  vtb_vec_push(&o->recurrences, r);
}

static void look_at(vtb_outline *o, const vtb_pass_context *c, const vtb_inst *i,
                    const vtb_func_steps *f) {
  bool recurrence = is_scan(i) || i->op == VTB_OP_fold;
  int64_t tokens = 0;
  if (i->op == VTB_OP_fold && !vtb_fold_of(i).steps) tokens = vtb_fold_steps(i);
  if (is_scan(i) || is_attention(i)) tokens = i->operands[0]->type.dim[1].size;
  if (tokens > o->tokens) o->tokens = tokens;
  if (recurrence) add_inst(o, c, i, f);
}

static void find_recurrences(vtb_outline *o, const vtb_pass_context *c, const vtb_steps *s) {
  for (size_t f = 0; f < s->n_funcs; f++)
    for (size_t k = 0; k < s->funcs[f].list.n; k++) {
      const vtb_inst *i = s->funcs[f].list.at[k].inst;
      if (!i || s->funcs[f].list.at[k].kind == VTB_STEP_COPY) continue;
      look_at(o, c, i, &s->funcs[f]);
      for (const vtb_inst *in = i->op == VTB_OP_fused ? i->callee->first : NULL; in; in = in->next)
        look_at(o, c, in, &s->funcs[f]);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t bytes_of(const vtb_value *v) { return 4 * vtb_type_count(&v->type); }

/* Tensors of an entry that is bound, as code generation takes it. */
static vtb_footprint tensors_of(const vtb_func *entry) {
  vtb_footprint out = {0};
  for (int a = 0; a < entry->n_args; a++) {
    vtb_role role = entry->arg_info[a].role;
    bool kept = role == VTB_ROLE_PARAM || role == VTB_ROLE_BUFFER, state = role == VTB_ROLE_STATE;
    *(kept ? &out.kept : state ? &out.others : &out.inputs) += bytes_of(entry->args[a]);
  }
  for (int r = 0; r < entry->n_returns; r++)
    if (!entry->return_names || !vtb_starts_with(entry->return_names[r], "updated."))
      out.others += bytes_of(entry->returns[r]);
  return out;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* A plan is made last: its module is rewritten on the way. */
static vtb_status estimate(vtb_compilation *lowered, const vtb_target *target,
                           const vtb_codegen_options *code, const vtb_steps *s, vtb_outline *out) {
  const vtb_backend *backend = vtb_backend_of(target);
  vtb_launch_plan *plan = NULL;
  if (!backend || !backend->plan) {
    out->estimate = vtb_estimate_steps(s, &lowered->context);
    return VTB_OK;
  }
  vtb_status status =
      backend->plan(lowered->module, lowered->module->entry, code, &plan, &lowered->report->error);
  if (status != VTB_OK) return status;
  out->gpu = *vtb_gpu_or_default(&code->gpu);
  out->estimate = vtb_estimate_plan(plan, &out->gpu, &out->launches);
  out->plan = plan;
  out->takes.workspace = plan->workspace_bytes + plan->constant_bytes;
  return VTB_OK;
}

vtb_status vtb_outline_make(const vtb_compilation *c, int64_t batch, const char *arch,
                            vtb_outline *out) {
  const vtb_target *target;
  vtb_codegen_options code;
  vtb_compilation lowered = {0};
  vtb_steps steps = {0};
  vtb_error *err = &c->report->error;
  *out = (vtb_outline){0};
  vtb_arena_init(&out->arena);
  vtb_status status = vtb_compile_target(c->options.target, true, &target, err);
  if (status == VTB_OK) status = vtb_compile_code(target, &c->options, &code, err);
  if (status == VTB_OK && arch && !vtb_arch_find(arch))
    status = vtb_fail(err, VTB_E_USAGE, "no architecture is named '%s'", arch);
  if (status == VTB_OK && (arch || *code.gpu.arch)) code.arch = arch ? arch : code.gpu.arch;
  if (status == VTB_OK) status = vtb_compilation_lower(c, target, &code, batch, &lowered);
  vtb_places places = target && target->places.frame_align
                          ? target->places
                          : (vtb_places){.frame_align = 64, .tensor_align = 4};
  if (status == VTB_OK)
    status = vtb_steps_make(lowered.module, lowered.module->entry, &places, &steps, err);
  if (status == VTB_OK) {
    out->workspace_bytes = steps.plan.peak_bytes + steps.plan.kept_bytes;
    out->takes = tensors_of(lowered.module->entry);
    out->takes.workspace = out->workspace_bytes;
    find_recurrences(out, &lowered.context, &steps);
    status = estimate(&lowered, target, &code, &steps, out);
  }
  vtb_steps_free(&steps);
  vtb_compilation_free(&lowered);
  return status;
}

void vtb_outline_free(vtb_outline *o) {
  vtb_vec_free(&o->recurrences);
  vtb_vec_free(&o->launches);
  vtb_launch_plan_free(o->plan);
  vtb_arena_free(&o->arena);
  *o = (vtb_outline){0};
}

/* tangents: forward mode, before reverse mode and with the same ops.
 *
 *   %y, %t_y = tangent @f(%x, %w, %dx) {wrt = [0]}
 *   =>
 *   %y, %t_y = call @f_dual(%x, %w, %dx)
 *   @f_dual(%x, %w, %t_x) -> (y, t_y)            tangents beside the values of @f
 *
 * A called function has one dual for each set of arguments that change, whoever calls it; what does
 * not change has no tangent, and nothing is computed for it. Runs behind `recurrence`: a recurrence
 * then is scans, of which tangents are scans again, in the mode that they have. What it leaves are
 * ops like others: reverse mode goes over them, and so does a tangent of a tangent.
 */
#include "passes/grad/tangent.h"

#include <string.h>

static const vtb__tangent_rule rules[] = {
#define VTB_OP(name, klass, min, max, shape, interp, grad, tangent, ...) vtb__tangent_##tangent,
#include "ir/ops.def"
#undef VTB_OP
};

static bool changes(vtb__tangents *t, const vtb_inst *inst) {
  for (int i = 0; i < inst->n_operands; i++)
    if (vtb__tangent(t, inst->operands[i])) return true;
  return false;
}

/* ---- duals ----------------------------------------------------------------------------------- */

static void copy_arguments(vtb__tangents *t, const vtb__dual *d, vtb_value **of) {
  vtb_func *f = d->func, *dual = d->dual;
  for (int i = 0; i < f->n_args; i++) {
    of[f->args[i]->id] = vtb_func_add_arg(dual, f->args[i]->name, f->args[i]->type);
    dual->arg_info[i] = f->arg_info[i];
  }
  for (int i = 0; i < f->n_args; i++) {
    if (!d->changes[i]) continue;
    const char *name = vtb__text(t->duals, "t_%s", f->args[i]->name);
    vtb__add_tangent(t, dual->args[i], vtb_func_add_arg(dual, name, f->args[i]->type));
  }
}

/* A tangent that is handed on keeps the name of the value it came from. */
static void name_tangents(vtb__tangents *t, const vtb_inst *inst) {
  for (int r = 0; r < inst->n_results; r++) {
    vtb_value *d = vtb__tangent(t, inst->results[r]);
    if (d && d->def == t->b.func->last)
      vtb_value_rename(d, vtb__text(t->duals, "t_%s", inst->results[r]->name));
  }
}

static void copy_body(vtb__tangents *t, const vtb_func *f, vtb_value **of) {
  for (const vtb_inst *inst = f->first; inst && t->duals->status == VTB_OK; inst = inst->next) {
    t->b.span = VTB_NO_SPAN; /* copies keep their own */
    vtb_inst *copy = vtb_inst_copy(&t->b, inst, of);
    t->b.span = inst->span;
    if (!changes(t, copy)) continue;
    rules[copy->op](t, copy);
    name_tangents(t, copy);
    for (int r = 0; r < inst->n_results; r++) of[inst->results[r]->id] = copy->results[r];
  }
}

static void copy_returns(vtb__tangents *t, vtb__dual *d, vtb_value **of) {
  const vtb_func *f = d->func;
  for (int r = 0; r < f->n_returns; r++)
    vtb_func_add_return(d->dual, of[f->returns[r]->id],
                        f->return_names ? f->return_names[r] : NULL);
  for (int r = 0; r < f->n_returns; r++) {
    vtb_value *tangent = vtb__tangent(t, of[f->returns[r]->id]);
    d->returned[r] = tangent != NULL;
    if (tangent) vtb_func_add_return(d->dual, tangent, NULL);
  }
}

static vtb__dual *make_dual(vtb__duals *all, vtb_func *f, const bool *changes) {
  vtb__dual *d = VTB_NEW(&all->module->scratch, vtb__dual);
  *d = (vtb__dual){f, vtb_func_made_of(f, "dual"), VTB_SCRATCH(all, bool, f->n_args),
                   VTB_SCRATCH(all, bool, f->n_returns)};
  memcpy(d->changes, changes, (size_t)f->n_args * sizeof *changes);
  vtb__put(all, &all->all, d);
  vtb__tangents t = {.duals = all, .b = {.module = all->module, .func = d->dual}};
  vtb_value **of = VTB_SCRATCH(all, vtb_value *, f->n_values);
  copy_arguments(&t, d, of);
  copy_body(&t, f, of);
  if (all->status == VTB_OK) copy_returns(&t, d, of);
  return d;
}

vtb__dual *vtb__dual_of(vtb__duals *all, vtb_func *f, const bool *changes) {
  for (size_t i = 0; i < all->all.n; i++) {
    vtb__dual *d = all->all.at[i];
    if (d->func == f && memcmp(d->changes, changes, (size_t)f->n_args * sizeof *changes) == 0)
      return d;
  }
  return make_dual(all, f, changes);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void lower(vtb__duals *all, vtb_inst *inst) {
  vtb_func *f = inst->callee;
  bool *moves = VTB_SCRATCH(all, bool, f->n_args);
  int n;
  const int64_t *wrt = vtb_attr_ints(inst, "wrt", &n);
  for (int i = 0; i < n; i++) moves[wrt[i]] = true;
  const vtb__dual *dual = vtb__dual_of(all, f, moves);
  if (all->status != VTB_OK) return;
  vtb_builder b = vtb__before(inst);
  vtb_inst *call = vtb_b_call(&b, dual->dual, inst->operands, inst->n_operands);
  int to = f->n_returns, from = f->n_returns;
  for (int r = 0; r < f->n_returns; r++) vtb__stand_in(inst->results[r], call->results[r]);
  for (int r = 0; r < f->n_returns; r++) {
    if (f->returns[r]->type.dtype != VTB_F32) continue;
    vtb_value *old = inst->results[to++];
    vtb__stand_in(old, dual->returned[r] ? call->results[from++] : vtb_b_splat(&b, 0, &old->type));
  }
  vtb_inst_unlink(inst);
}

vtb_status vtb__pass_tangents(vtb_pass_context *c, vtb_error *err) {
  vtb__duals all = {.module = c->module, .err = err};
  vtb_func **f = c->module->entry ? vtb__callees_first(c->module, c->module->entry) : NULL;
  for (; f && *f; f++)
    VTB__EACH_INST(*f, inst, next)
      if (inst->op == VTB_OP_tangent && all.status == VTB_OK) lower(&all, inst);
  return all.status;
}

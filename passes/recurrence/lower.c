/* recurrence: step equations become batched tensor ops, maxplus and linscan.
 *
 *   %h = recurrence @mlstm(%q, %k, %v, %i, %f) {states=2, ...}
 *   =>
 *   %g = log_sigmoid %f                       %m = maxplus %g, %i              %mp = shift %m
 *   %d = exp(%g + %mp - %m)                   %k2 = mul %k, exp(%i - %m)
 *   %y, %C, %z, %n = linscan %q, %k2, %v, %d {class="scalar", normalizer=1}
 *   %h = %y / max(|%z|, exp(-%m))
 *
 * A step that is not linear stays a loop where the mode allows it (fold.c). In order:
 * corrections, which an op of their own makes (delta.c), the normal form of each update
 * (form.c), how the yields read the states (read.c), which states need a
 * running scale (groups.c), then code (scale.c, lift.c,
 * scan.c). Where states read each other and turn
 * each other, they are first rewritten as one (rotate.c). Declines with diagnostics, in
 * modes parallel and chunkwise, when an update is not linear or not diagonal in its state, when
 * states read each other in another way, and when a scale that the step reads is not one number a
 * head. Mode, chunk and path are handed on to the scans.
 */
#include "passes/recurrence/recurrence.h"

/* Counts and common axes; the first per-step input has them all. */
static void open_rec(vtb__rec *r, vtb_inst *inst) {
  const vtb_func *callee = inst->callee;
  r->inst = inst;
  r->budget = 100000;
  r->n_states = (int)vtb_attr_int(inst, "states", 0);
  r->n_inits = (int)vtb_attr_int(inst, "inits", 0);
  r->n_seqs = (int)vtb_attr_int(inst, "seqs", 0);
  r->n_yields = callee->n_returns - r->n_states;
  r->path = vtb_attr_str(inst, "path", NULL);
  r->step = vtb_func_clone(inst->callee, inst->func->module, callee->name);
  vtb__cse_func(r->step);
  r->states = VTB_SCRATCH(r->step, vtb__state, r->n_states);
  for (int i = 0; i < r->n_states; i++) {
    vtb__state *s = &r->states[i];
    s->old = r->step->args[i], s->now = r->step->returns[i], s->type = &r->step->args[i]->type;
    s->leader = s->normalizer = s->scale = -1;
  }
  const vtb_type *x = &inst->operands[r->n_inits]->type;
  r->n_heads = x->rank - 2 - r->step->args[r->n_states]->type.rank;
  r->batch = x->dim[0], r->tokens = x->dim[1];
  r->heads = (vtb_dim){.size = 1, .name = "h"};
  if (r->n_heads == 1) r->heads = x->dim[2];
  for (int i = 0; i < r->n_heads && r->n_heads > 1; i++) r->heads.size *= x->dim[2 + i].size;
  r->b = vtb__before(inst);
}

/* A yield in the type of the recurrence's result: full size, all head axes. */
static vtb_value *emit_yield(vtb__rec *r, int i) {
  vtb_value *step_value = r->step->returns[r->n_states + i];
  vtb_value *result = r->inst->results[i];
  vtb__lifted x = vtb__rec_lift(r, step_value);
  x = vtb__rec_true_value(r, x);
  vtb_value *v = vtb__rec_full(r, x, step_value->type.dim, step_value->type.rank);
  return vtb_b_shaped(&r->b, v, &result->type);
}

/* The scale is built before everything that may need it; an unused result gets no code. */
static void emit(vtb__rec *r) {
  vtb_inst *inst = r->inst;
  vtb_value **with = VTB_SCRATCH(r->step, vtb_value *, inst->n_results);
  int fresh = inst->func->n_values;
  vtb__rec_emit_scale(r);
  vtb__rec_emit_corrections(r);
  for (int i = 0; i < inst->n_results; i++) {
    if (!vtb_is_read(inst->results[i])) continue;
    if (i < r->n_yields)
      with[i] = emit_yield(r, i);
    else if (i < r->n_yields + r->n_states)
      with[i] = vtb__rec_last_state(r, i - r->n_yields);
    else
      with[i] = vtb__rec_last_scale(r);
  }
  for (int i = 0; i < inst->n_results; i++)
    if (with[i] && with[i]->id >= fresh) vtb__stand_in(inst->results[i], with[i]);
  vtb_inst_unlink(inst);
}

static bool too_many_states(vtb__rec *r) {
  if (r->n_states <= VTB__MAX_STATES) return false;
  vtb_diag_error(r->diags, VTB_DIAG_STEP_TOO_COMPLEX, r->inst->span,
                 "a recurrence of %d states; at most %d are supported", r->n_states,
                 VTB__MAX_STATES);
  return true;
}

static bool lower_linear(vtb_inst *inst, vtb_diags *diags) {
  vtb__rec r = {.diags = diags};
  open_rec(&r, inst);
  bool good = !too_many_states(&r) && vtb__rec_can_lift(&r);
  if (good) vtb__rec_find_delta(&r);
  good = good && vtb__rec_normal_form(&r);
  if (good) vtb__rec_find_reads(&r);
  good = good && vtb__rec_decide_scale(&r);
  if (good) emit(&r);
  vtb_module_remove(r.step->module, r.step);
  return good;
}

bool vtb__reads_scale(const vtb_func *step) {
  for (const vtb_inst *inst = step->first; inst; inst = inst->next)
    if (inst->op == VTB_OP_state_scale) return true;
  return false;
}

/* Without a normal form there is no running scale, and one order of computing. A gain that cannot
 * be stabilised is dangerous in every order. A mode that was asked for of the whole model is that
 * of its recurrences which have it, if there are some: `hybrid`. */
static bool may_fold(const vtb_inst *inst, const vtb_diag *why, bool hybrid) {
  const char *mode = vtb_attr_str(inst, "mode", "auto");
  return why->code != VTB_DIAG_NOT_STABILISABLE &&
         (vtb_streq(mode, "auto") || vtb_streq(mode, "recurrent") ||
          (hybrid && vtb_attr_int(inst, "asked", 0))) &&
         !vtb__reads_scale(inst->callee) &&
         vtb_attr_int(inst, "inits", 0) <= vtb_attr_int(inst, "states", 0);
}

static bool lower_to_fold(vtb_inst *inst, const vtb_diags *why, bool hybrid, vtb_diags *diags) {
  vtb_diags found = {0};
  vtb__rec r = {.diags = &found};
  open_rec(&r, inst);
  bool good = may_fold(inst, &why->list.at[0], hybrid) && vtb__rec_can_lift(&r);
  if (good) {
    vtb_diag_warning(diags, VTB_DIAG_STEPWISE, inst->span,
                     "'%s' runs step after step, in mode recurrent only", inst->callee->name);
    vtb_diag_note(diags, why->list.at[0].span, "%s", why->list.at[0].text);
    vtb__rec_emit_fold(&r);
  }
  vtb_module_remove(r.step->module, r.step);
  vtb_diags_free(&found);
  return good;
}

/* The call is blamed for what was found in the step: a step of std is not the user's text. */
static void hand_over(const vtb_inst *inst, const vtb_diags *from, vtb_diags *to) {
  const vtb_diag_call call = {inst->callee->name, inst->span.scope, inst->span, to->calls};
  to->calls = &call;
  for (size_t i = 0; i < from->list.n; i++) {
    const vtb_diag *d = &from->list.at[i];
    vtb_diag_say(to, d->severity, d->code, d->span, "%s", d->text);
  }
  to->calls = call.up;
}

/* The recurrence with a pair of states that turn each other as one state; NULL: states read each
 * other in no such way, or that is not all that keeps it from being linear. */
static vtb_inst *turn(vtb_inst *inst, const vtb_diags *why) {
  vtb_diags found = {0};
  vtb__rec r = {.diags = &found};
  for (size_t i = 0; i < why->list.n; i++) {
    const vtb_diag *d = &why->list.at[i];
    if (d->severity == VTB_SEV_ERROR && d->code != VTB_DIAG_STATES_COUPLED) return NULL;
  }
  open_rec(&r, inst);
  vtb__rec_normal_form(&r); /* what depends on what */
  vtb_inst *turned = vtb__rec_rotate(&r);
  vtb_module_remove(r.step->module, r.step);
  vtb_diags_free(&found);
  return turned;
}

/* False, with the reasons, where the step has no normal form. */
static bool lower(vtb_inst **inst, vtb_diags *found) {
  if (lower_linear(*inst, found)) return true;
  vtb_inst *turned = turn(*inst, found);
  if (!turned) return false;
  *inst = turned;
  vtb_diags_free(found);
  *found = (vtb_diags){0};
  return lower(inst, found);
}

vtb_status vtb__pass_recurrence(vtb_pass_context *c, vtb_error *err) {
  vtb_diags own = {0}, *diags = c->diags ? c->diags : &own;
  int errors = diags->n_errors;
  vtb_inst **all = vtb__all_of(c->module, VTB_OP_recurrence);
  size_t n = 0, left = 0;
  while (all[n]) n++;
  vtb_diags *found = vtb_xcalloc(n + 1, sizeof *found);
  for (size_t i = 0; i < n; i++)
    if (!lower(&all[i], &found[left])) all[left++] = all[i];
  for (size_t i = 0; i < left; i++)
    if (!lower_to_fold(all[i], &found[i], left < n, diags)) hand_over(all[i], &found[i], diags);
  for (size_t i = 0; i <= left && i < n; i++) vtb_diags_free(&found[i]);
  vtb_free(found);
  vtb_status status = VTB_OK;
  if (diags->n_errors > errors) status = vtb_fail(err, VTB_E_INPUT, "%s", diags->list.at[0].text);
  vtb_diags_free(&own);
  return status;
}

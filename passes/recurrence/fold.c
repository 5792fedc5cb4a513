/* A recurrence that is not linear in its state: a fold of its step, one token after the other.
 *
 *   %h = recurrence @lstm(%x, %R) {states=2, ...}
 *   =>
 *   @lstm_step(%c: f32[B, h, K], ..., %x: f32[B, 1, h, 4, K], %R: ...)
 *   %zero = constant {value = 0} : f32[B, h, K]
 *   %h, %c_last, ... = fold @lstm_step(%zero, ..., %x, %R) {states=2, ...}
 *
 * The callee is the step function lifted to all samples and heads of one token, an ordinary
 * function: products with the state are matrix products over the batch, the rest becomes kernels,
 * and reverse mode differentiates it like any other (grad_fold.c).
 */
#include "passes/recurrence/recurrence.h"

/* The operands of the fold, and the callee's arguments for them as the lifted arguments of the
 * step. `r` builds inside the callee, where sequences have one token; `outer` beside the
 * recurrence. */
static void make_operands(vtb__rec *r, vtb_builder *outer, int64_t tokens, vtb_value **operands) {
  for (int i = 0; i < r->step->n_args; i++) {
    const vtb_value *arg = r->step->args[i];
    bool is_state = i < r->n_states, is_seq = !is_state && i < r->n_states + r->n_seqs;
    vtb_value *given = is_state && !r->n_inits
                           ? NULL
                           : r->inst->operands[is_state ? i : r->n_inits + i - r->n_states];
    int lead = is_state || is_seq ? 3 : given->type.rank == arg->type.rank ? 0 : 1;
    vtb_type one = vtb__rec_type(r, is_state ? 2 : lead, arg->type.dim, arg->type.rank), all;
    one.dtype = arg->type.dtype;
    all = one;
    if (is_seq) all.dim[1].size = tokens;
    operands[i] = given ? vtb_b_shaped(outer, given, &all) : vtb_b_splat(outer, 0, &all);
    vtb_value *inner = vtb_func_add_arg(r->b.func, arg->name, one);
    vtb_type lifted = vtb__rec_type(r, lead, arg->type.dim, arg->type.rank);
    lifted.dtype = one.dtype;
    vtb_value *v = vtb_b_shaped(&r->b, inner, &lifted);
    vtb__rec_set_lifted(r, arg, (vtb__lifted){v, lead, arg->type.rank, 0});
  }
}

static void make_returns(vtb__rec *r, int n_states) {
  const vtb_func *step = r->step;
  vtb_value **at = VTB_SCRATCH(r->step, vtb_value *, step->n_returns);
  for (int i = 0; i < step->n_returns; i++) {
    vtb_value *v = step->returns[i];
    at[i] = vtb__rec_full(r, vtb__rec_lift(r, v), v->type.dim, v->type.rank);
    vtb_type t = vtb__rec_type(r, 2, v->type.dim, v->type.rank);
    if (i < n_states) at[i] = vtb_b_shaped(&r->b, at[i], &t);
  }
  vtb_func_set_returns(r->b.func, at, NULL, step->n_returns);
}

static void replace(vtb__rec *r, vtb_builder *outer, vtb_inst *fold) {
  vtb_inst *inst = r->inst;
  for (int i = 0; i < inst->n_results; i++) {
    const vtb_type *t = &inst->results[i]->type;
    bool is_scale = i == inst->n_results - 1; /* log scale 0 */
    vtb_value *v = is_scale ? vtb_b_splat(outer, 0, t) : vtb_b_shaped(outer, fold->results[i], t);
    vtb__swap_names(v, inst->results[i]);
    vtb_replace_all(inst->results[i], v);
  }
  vtb_inst_unlink(inst);
}

void vtb__rec_emit_fold(vtb__rec *r) {
  vtb_builder outer = r->b;
  vtb_module *m = outer.module;
  int64_t tokens = r->tokens.size;
  int n_states = r->n_states;
  vtb_value **operands = VTB_SCRATCH(r->step, vtb_value *, r->step->n_args);
  const char *name = vtb__text(r->step, "%s_step", r->inst->callee->name);
  vtb_func *step = vtb_func_new(m, name, VTB_FUNC_PLAIN, r->inst->span);
  r->b = (vtb_builder){.module = m, .func = step, .span = r->b.span};
  r->tokens.size = 1;
  make_operands(r, &outer, tokens, operands);
  r->n_states = 0; /* from here on states are arguments like others */
  make_returns(r, n_states);
  vtb_attr attrs[4] = {VTB_A_INT("states", n_states), VTB_A_INT("seqs", r->n_seqs)};
  int n_attrs = 2 + vtb__rec_order(r, attrs + 2);
  vtb_inst *fold =
      vtb_build_call(&outer, VTB_OP_fold, r->b.func, operands, r->step->n_args, attrs, n_attrs);
  replace(r, &outer, fold);
}

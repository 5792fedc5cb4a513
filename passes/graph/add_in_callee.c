/* add_in_callee: what is added to the result of each call of a function is added in it.
 *
 *   func @block(%x, %dy)                               func @block(%x, %dy)
 *     ...                                                ...
 *     return %dx                                         %sum = add %dx, %dy
 *                                               =>       return %sum
 *   %dx = call @block(%x0, %d0)                        %d1 = call @block(%x0, %d0)
 *   %d1 = add %dx, %d0
 *
 * No kernel reaches over the border of a function, so that a sum behind a call is a pass over
 * memory of its own: the adjoint of a residual stream, whose branch is a block. Inside it joins the
 * kernel that makes the result. What is added is the argument that it already is at each call, or
 * becomes another one. After binding, before fuse. Declines if some call's result is read by
 * anything else, if what is added is not there before the call or has another shape, and for
 * functions that something else than calls uses.
 */
#include "passes/passes_internal.h"

typedef struct added { /* to the result at hand of one call */
  vtb_inst *call, *sum;
  int other; /* operand of the sum */
} added;

/* Whose own may be the sum of another call. */
static vtb_value *other_of(const added *a) { return a->sum->operands[a->other]; }

/* The sum that alone reads the value, of it and of what is there before the call; or NULL. */
static bool find_sum(vtb_inst *call, const vtb_value *v, added *out) {
  vtb_inst *sum = vtb_only_reader(v);
  if (!sum || sum->op != VTB_OP_add || sum->operands[0] == sum->operands[1]) return false;
  *out = (added){call, sum, sum->operands[0] == v};
  vtb_func_number(call->func);
  return vtb_type_equal(&other_of(out)->type, &v->type) && vtb_made_before(other_of(out), call);
}

/* The argument that is added at each call, or another one. */
static vtb_value *argument_of(vtb_func *f, const added *all, size_t n) {
  for (int a = 0; a < f->n_args; a++) {
    size_t same = 0;
    while (same < n && all[same].call->operands[a] == other_of(&all[same])) same++;
    if (same == n) return f->args[a];
  }
  return vtb_func_add_arg(f, other_of(all)->name, other_of(all)->type);
}

static void add_in_callee(vtb_func *f, int result, const added *all, size_t n) {
  vtb_value *old = f->returns[result];
  int n_args = f->n_args;
  vtb_value *v = argument_of(f, all, n);
  vtb_builder b = {
      .module = f->module, .func = f, .span = all[0].sum->span, .name_hint = old->name};
  f->returns[result] = vtb_b_binary(&b, VTB_OP_add, old, v);
  for (size_t k = 0; k < n; k++) {
    vtb_inst *call = all[k].call;
    vtb_value *other = other_of(&all[k]);
    if (f->n_args > n_args) call = vtb__call_with(call, f, &other, 1);
    vtb__become(all[k].sum, call->results[result]);
  }
}

/* For one result, if every call's is added to. */
static void visit(vtb_func *f, int result) {
  VTB_VEC(added) all = {0};
  for (vtb_inst **call = vtb__calls_of(f); *call; call++) {
    added it;
    if ((*call)->op != VTB_OP_call || !find_sum(*call, (*call)->results[result], &it)) return;
    vtb__put(f, &all, it);
  }
  if (all.n) add_in_callee(f, result, all.at, all.n);
}

void vtb__change_add_in_callee(vtb_pass_context *c) {
  for (vtb_func *f = c->module->first; f; f = f->next)
    for (int r = 0; r < f->n_returns && f->kind == VTB_FUNC_PLAIN && f != c->module->entry; r++)
      visit(f, r);
}

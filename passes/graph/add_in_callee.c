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

typedef struct callers {
  VTB_VEC(vtb_inst *) calls;
  VTB_VEC(vtb_inst *) sums; /* of the result at hand, by call */
  bool fixed;               /* somebody uses it otherwise */
} callers;

static void find_calls(const vtb_func *f, callers *c) {
  for (vtb_func *g = f->module->first; g; g = g->next)
    for (vtb_inst *i = g->first; i; i = i->next) {
      if (i->callee != f) continue;
      c->fixed |= i->op != VTB_OP_call;
      vtb_vec_push(&c->calls, i);
    }
}

static vtb_value *other_of(const vtb_inst *sum, const vtb_value *v) {
  return sum->operands[sum->operands[0] == v];
}

static bool is_before(const vtb_value *v, const vtb_inst *call) {
  for (const vtb_inst *i = v->def ? call->prev : NULL; i; i = i->prev)
    if (i == v->def) return true;
  return !v->def;
}

/* The sum that alone reads the value, of it and of what is there before the call; or NULL. */
static vtb_inst *sum_of(const vtb_value *v, const vtb_inst *call) {
  vtb_inst *sum = vtb_only_reader(v);
  if (!sum || sum->op != VTB_OP_add || sum->operands[0] == sum->operands[1]) return NULL;
  const vtb_value *other = other_of(sum, v);
  return vtb_type_equal(&other->type, &v->type) && is_before(other, call) ? sum : NULL;
}

static bool find_sums(callers *c, int result) {
  c->sums.n = 0;
  for (size_t k = 0; k < c->calls.n; k++) {
    vtb_inst *call = c->calls.at[k], *sum = sum_of(call->results[result], call);
    if (!sum) return false;
    vtb_vec_push(&c->sums, sum);
  }
  return c->calls.n > 0;
}

/* The argument that is added at each call, or -1. */
static int argument_of(const callers *c, const vtb_func *f, int result) {
  for (int a = 0; a < f->n_args; a++) {
    bool all = true;
    for (size_t k = 0; k < c->calls.n && all; k++) {
      const vtb_inst *call = c->calls.at[k];
      all = call->operands[a] == other_of(c->sums.at[k], call->results[result]);
    }
    if (all) return a;
  }
  return -1;
}

static vtb_value *add_in_callee(const callers *c, vtb_func *f, int result, int arg) {
  vtb_value *old = f->returns[result];
  const vtb_inst *sum = c->sums.at[0];
  const vtb_value *other = other_of(sum, c->calls.at[0]->results[result]);
  vtb_value *v = arg >= 0 ? f->args[arg] : vtb_func_add_arg(f, other->name, old->type);
  vtb_builder b = {.module = f->module, .func = f, .span = sum->span, .name_hint = old->name};
  return vtb_b_binary(&b, VTB_OP_add, old, v);
}

/* The call with what its sum adds, as one more operand or not; its result is the sum. */
static void rewrite_call(callers *c, size_t k, int result, bool more) {
  vtb_inst *call = c->calls.at[k], *sum = c->sums.at[k];
  if (more) {
    int n = call->n_operands;
    vtb_value **operands = vtb_xcalloc((size_t)n + 1, sizeof *operands);
    for (int o = 0; o < n; o++) operands[o] = call->operands[o];
    operands[n] = other_of(sum, call->results[result]);
    call = c->calls.at[k] = vtb__replace_call(call, call->callee, operands, n + 1, NULL);
    vtb_free(operands);
  }
  vtb__stand_in(sum->results[0], call->results[result]);
  vtb_inst_unlink(sum);
}

static void absorb(callers *c, vtb_func *f, int result) {
  int arg = argument_of(c, f, result);
  f->returns[result] = add_in_callee(c, f, result, arg);
  for (size_t k = 0; k < c->calls.n; k++) rewrite_call(c, k, result, arg < 0);
}

vtb_status vtb__pass_add_in_callee(vtb_pass_context *context, vtb_error *err) {
  (void)err;
  for (vtb_func *f = context->module->first; f; f = f->next) {
    callers c = {0};
    if (f->kind != VTB_FUNC_PLAIN || f == context->module->entry) continue;
    find_calls(f, &c);
    for (int r = 0; r < f->n_returns && !c.fixed; r++)
      if (find_sums(&c, r)) absorb(&c, f, r);
    vtb_vec_free(&c.calls);
    vtb_vec_free(&c.sums);
  }
  return VTB_OK;
}

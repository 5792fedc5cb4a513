/* The adjoint of a fold is a fold from the last step to the first.
 *
 *   y, s_N, s = fold @f(s_0, x, c) {keep}
 *   =>
 *   dx, ds_0, dc = fold @f_back(ds_N, 0, s, x, dy, c) {reverse}
 *   @f_back(ds, dc, s, x, dy, c) = the adjoints of @f at this step: ds for the states before it,
 *   dx for its inputs, and dc with what the step adds
 *
 * Saved are the states before each step. The adjoints of constants are states of the second fold.
 */
#include "ir/fold.h"
#include "passes/grad/autodiff.h"

static bool is_float(const vtb_value *v) { return v->type.dtype == VTB_F32; }

/* @f(args) and adjoints of its returns -> its returns, adjoints of its float arguments. */
static vtb_func *differentiate(vtb__gradient *g, vtb_func *f) {
  int *outs = VTB_SCRATCH(f, int, f->n_returns), *wrt = VTB_SCRATCH(f, int, f->n_args);
  int n_outs = 0, n_wrt = 0;
  for (int r = 0; r < f->n_returns; r++)
    if (is_float(f->returns[r])) outs[n_outs++] = r;
  for (int a = 0; a < f->n_args; a++)
    if (is_float(f->args[a])) wrt[n_wrt++] = a;
  vtb_func *grad = NULL;
  vtb_status status =
      vtb_autodiff(g->ad->module, f, outs, n_outs, wrt, n_wrt, &grad, NULL, g->ad->err);
  if (status != VTB_OK) g->ad->status = status;
  return status == VTB_OK ? grad : NULL;
}

typedef struct back {
  vtb_func *func;
  vtb_builder b;
  vtb_value **in;  /* by argument of @f */
  vtb_value **sum; /* by argument of @f, constants: what later steps added */
} back;

static vtb_value *add(back *k, const char *prefix, const vtb_value *like, const vtb_type *type) {
  return vtb_func_add_arg(
      k->func, vtb_arena_printf(&k->func->module->arena, "%s%s", prefix, like->name), *type);
}

/* Arguments in the order of the second fold's operands; the seeds for @f's returns go to
 * `seeds`. */
static void back_arguments(back *k, const vtb_func *f, const vtb_fold *p, vtb_value **seeds) {
  int seqs_end = p->states + p->seqs;
  for (int i = 0; i < p->states; i++) seeds[i] = add(k, "d_", f->args[i], &f->args[i]->type);
  for (int i = seqs_end; i < f->n_args; i++)
    if (is_float(f->args[i])) k->sum[i] = add(k, "sum_", f->args[i], &f->args[i]->type);
  for (int i = 0; i < p->states; i++) {
    vtb_type t = vtb_type_with_axis(&f->args[i]->type, 1, (vtb_dim){.size = 1});
    k->in[i] = vtb_b_reshape(&k->b, add(k, "", f->args[i], &t), &f->args[i]->type);
  }
  for (int i = p->states; i < seqs_end; i++) k->in[i] = add(k, "", f->args[i], &f->args[i]->type);
  for (int i = 0; i < p->yields; i++)
    seeds[p->states + i] =
        add(k, "dy_", f->returns[p->states + i], &f->returns[p->states + i]->type);
  for (int i = seqs_end; i < f->n_args; i++) k->in[i] = add(k, "", f->args[i], &f->args[i]->type);
}

/* Calls the gradient; returns new ds, new sums, dx. */
static void back_body(back *k, const vtb_func *f, const vtb_fold *p, vtb_func *grad,
                      vtb_value *const *seeds) {
  vtb_value **at = VTB_SCRATCH(f, vtb_value *, (grad->n_args + grad->n_returns));
  int n = 0;
  for (int i = 0; i < f->n_args; i++) at[n++] = k->in[i];
  for (int r = 0; r < f->n_returns; r++)
    if (is_float(f->returns[r])) at[n++] = seeds[r];
  vtb_inst *call = vtb_b_call(&k->b, grad, at, n);
  int from = f->n_returns, states = 0, sums = p->states, rest = 0;
  for (int i = p->states + p->seqs; i < f->n_args; i++) rest += is_float(f->args[i]);
  rest += p->states;
  for (int i = 0; i < f->n_args; i++) {
    if (!is_float(f->args[i])) continue;
    vtb_value *d = call->results[from++];
    if (i < p->states)
      at[states++] = d;
    else if (i < p->states + p->seqs)
      at[rest++] = d;
    else
      at[sums++] = vtb_b_binary(&k->b, VTB_OP_add, k->sum[i], d);
  }
  vtb_func_set_returns(k->func, at, NULL, rest);
}

static vtb_func *make_back(vtb__gradient *g, vtb_func *f, const vtb_fold *p, const char *name) {
  vtb_func *grad = differentiate(g, f);
  if (!grad) return NULL;
  back k = {.func = vtb_func_new(g->ad->module, name, VTB_FUNC_PLAIN, f->span)};
  k.b = (vtb_builder){.module = g->ad->module, .func = k.func, .span = f->span};
  k.in = VTB_SCRATCH(f, vtb_value *, f->n_args);
  k.sum = VTB_SCRATCH(f, vtb_value *, f->n_args);
  vtb_value **seeds = VTB_SCRATCH(f, vtb_value *, f->n_returns);
  back_arguments(&k, f, p, seeds);
  back_body(&k, f, p, grad, seeds);
  return k.func;
}

/* Equal folds share their adjoint. */
static vtb_func *back_of(vtb__gradient *g, vtb_func *f, const vtb_fold *p) {
  const char *name = vtb__text(g->ad, "%s_back", f->name);
  vtb_func *known = vtb_module_find(g->ad->module, name);
  return known ? known : make_back(g, f, p, name);
}

static vtb_inst *build(vtb__gradient *g, const vtb_inst *inst, const vtb_fold *p, vtb_func *f) {
  int kept = p->yields + p->states, seqs_end = p->states + p->seqs, n = 0, n_states;
  vtb_value **at = VTB_SCRATCH(f, vtb_value *, f->n_args);
  for (int i = 0; i < p->states; i++)
    at[n++] = vtb__adjoint_or_zeros(g, inst->results[p->yields + i]);
  for (int i = seqs_end; i < inst->n_operands; i++)
    if (is_float(inst->operands[i])) at[n++] = vtb_b_splat(&g->b, 0, &inst->operands[i]->type);
  n_states = n;
  for (int i = 0; i < p->states; i++) at[n++] = inst->results[kept + i];
  for (int i = p->states; i < seqs_end; i++) at[n++] = inst->operands[i];
  for (int i = 0; i < p->yields; i++) at[n++] = vtb__adjoint_or_zeros(g, inst->results[i]);
  int n_seqs = n - n_states;
  for (int i = seqs_end; i < inst->n_operands; i++) at[n++] = inst->operands[i];
  vtb_attr attrs[] = {VTB_A_INT("states", n_states), VTB_A_INT("seqs", n_seqs),
                      VTB_A_INT("reverse", !p->reverse), VTB_A_STR("path", p->path)};
  return vtb_build_call(&g->b, VTB_OP_fold, f, at, n, attrs, p->path ? 4 : 3);
}

/* `inst` keeps its states: autodiff.c copies it so. */
void vtb__grad_fold(vtb__gradient *g, vtb_inst *inst) {
  vtb_fold p = vtb_fold_of(inst);
  vtb_func *f = back_of(g, inst->callee, &p);
  if (!f) return;
  vtb_inst *made = build(g, inst, &p, f);
  int dx = 0, last = f->n_returns - (int)vtb_attr_int(made, "states", 0);
  for (int i = p.states; i < p.states + p.seqs; i++)
    if (is_float(inst->operands[i])) vtb__contribute(g, inst->operands[i], made->results[dx++]);
  for (int i = 0; i < inst->n_operands; i++)
    if ((i < p.states || i >= p.states + p.seqs) && is_float(inst->operands[i]))
      vtb__contribute(g, inst->operands[i], made->results[last++]);
}

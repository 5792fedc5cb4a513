/* The adjoint of a fold is a fold from the last step to the first.
 *
 *   y, s_N, s = fold @f(s_0, x, c) {keep}
 *   =>
 *   dx, ds_0, dc = fold @f_back(ds_N, 0, s, x, dy, c) {reverse}
 *   @f_back(ds, dc, s, x, dy, c) = the adjoints of @f at this step: ds for the states before it,
 *   dx for its inputs, and dc with what the step adds
 *
 * Saved are the states before each step. The adjoints of constants are states of the second fold.
 * States that are no floats have none, nor has the one that tells who goes on. Where a run tells
 * how many steps there are, the second fold runs as many: a state of the first has counted them.
 */
#include "ir/fold.h"
#include "passes/grad/autodiff.h"

static bool is_float(const vtb_value *v) { return v->type.dtype == VTB_F32; }

/* Argument i of a callee, and return i if it is a state, has an adjoint. */
static bool is_smooth(const vtb_fold *p, const vtb_value *v, int i) {
  return is_float(v) && !(p->is_while && i == 0);
}

/* @f(args) and adjoints of its returns -> its returns, adjoints of its float arguments. */
static vtb_func *differentiate(vtb__gradient *g, vtb_func *f, const vtb_fold *p) {
  int *outs = VTB_SCRATCH(f, int, f->n_returns), *wrt = VTB_SCRATCH(f, int, f->n_args);
  int n_outs = 0, n_wrt = 0;
  for (int r = 0; r < f->n_returns; r++)
    if (is_smooth(p, f->returns[r], r)) outs[n_outs++] = r;
  for (int a = 0; a < f->n_args; a++)
    if (is_smooth(p, f->args[a], a)) wrt[n_wrt++] = a;
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
  int states;      /* of the adjoint's fold */
} back;

static vtb_value *add(back *k, const char *prefix, const vtb_value *like, const vtb_type *type) {
  return vtb_func_add_arg(
      k->func, vtb_arena_printf(&k->func->module->arena, "%s%s", prefix, like->name), *type);
}

/* Arguments in the order of the second fold's operands; the seeds for @f's returns go to
 * `seeds`. */
static void back_arguments(back *k, const vtb_func *f, const vtb_fold *p, vtb_value **seeds) {
  int seqs_end = p->states + p->seqs;
  for (int i = 0; i < p->states; i++)
    if (is_smooth(p, f->args[i], i)) seeds[i] = add(k, "d_", f->args[i], &f->args[i]->type);
  for (int i = seqs_end; i < f->n_args; i++)
    if (is_float(f->args[i])) k->sum[i] = add(k, "sum_", f->args[i], &f->args[i]->type);
  k->states = k->func->n_args;
  for (int i = 0; i < p->states; i++) {
    vtb_type t = f->args[i]->type;
    if (t.rank == 0) t = vtb_type_with_axis(&t, 0, (vtb_dim){.size = 1});
    t = vtb_type_with_axis(&t, 1, (vtb_dim){.size = 1});
    k->in[i] = vtb_b_reshape(&k->b, add(k, "", f->args[i], &t), &f->args[i]->type);
  }
  for (int i = p->states; i < seqs_end; i++) k->in[i] = add(k, "", f->args[i], &f->args[i]->type);
  for (int i = 0; i < p->yields; i++)
    seeds[p->states + i] =
        add(k, "dy_", f->returns[p->states + i], &f->returns[p->states + i]->type);
  if (p->is_while) vtb_func_add_arg(k->func, "steps", (vtb_type){.dtype = VTB_I32});
  for (int i = seqs_end; i < f->n_args; i++) k->in[i] = add(k, "", f->args[i], &f->args[i]->type);
}

/* Calls the gradient; returns new ds, new sums, dx. */
static void back_body(back *k, const vtb_func *f, const vtb_fold *p, vtb_func *grad,
                      vtb_value *const *seeds) {
  vtb_value **at = VTB_SCRATCH(f, vtb_value *, (grad->n_args + grad->n_returns));
  int n = 0;
  for (int i = 0; i < f->n_args; i++) at[n++] = k->in[i];
  for (int r = 0; r < f->n_returns; r++)
    if (is_smooth(p, f->returns[r], r)) at[n++] = seeds[r];
  vtb_inst *call = vtb_b_call(&k->b, grad, at, n);
  int from = f->n_returns, seqs_end = p->states + p->seqs, state = 0, rest = k->states;
  for (int i = 0; i < f->n_args; i++) { /* arguments stand in the order of the states */
    if (!is_smooth(p, f->args[i], i)) continue;
    vtb_value *d = call->results[from++];
    if (i >= seqs_end) d = vtb_b_binary(&k->b, VTB_OP_add, k->sum[i], d);
    at[i < p->states || i >= seqs_end ? state++ : rest++] = d;
  }
  vtb_func_set_returns(k->func, at, NULL, rest);
}

static vtb_func *make_back(vtb__gradient *g, vtb_func *f, const vtb_fold *p) {
  vtb_func *grad = differentiate(g, f, p);
  if (!grad) return NULL;
  back k = {.func = vtb_func_made_of(f, "back")};
  k.b = (vtb_builder){.module = g->ad->module, .func = k.func, .span = f->span};
  k.in = VTB_SCRATCH(f, vtb_value *, f->n_args);
  k.sum = VTB_SCRATCH(f, vtb_value *, f->n_args);
  vtb_value **seeds = VTB_SCRATCH(f, vtb_value *, f->n_returns);
  back_arguments(&k, f, p, seeds);
  back_body(&k, f, p, grad, seeds);
  vtb_map_set(&g->ad->backs, f->name, k.func);
  return k.func;
}

/* Equal folds share their adjoint. */
static vtb_func *back_of(vtb__gradient *g, vtb_func *f, const vtb_fold *p) {
  vtb_func *known = vtb_map_get(&g->ad->backs, f->name);
  return known ? known : make_back(g, f, p);
}

static bool is_number(const vtb_inst *i, double value) {
  return i && i->op == VTB_OP_constant && vtb_attr_float(i, "value", -1) == value;
}

/* The result that says how many steps were run: of the state that begins at 0 and goes up by 1. */
static vtb_value *counted(const vtb_inst *inst, const vtb_fold *p) {
  for (int i = 0; i < p->states; i++) {
    const vtb_value *arg = inst->callee->args[i], *made = inst->callee->returns[i];
    const vtb_inst *zero = inst->operands[i]->def, *next = made->def;
    if (arg->type.dtype != VTB_I32 || arg->type.rank || !next || next->op != VTB_OP_add) continue;
    const vtb_value *step = next->operands[next->operands[0] == arg];
    bool up = (next->operands[0] == arg || next->operands[1] == arg) && is_number(step->def, 1);
    if (up && is_number(zero, 0)) return inst->results[p->yields + i];
  }
  return NULL;
}

static vtb_inst *build(vtb__gradient *g, const vtb_inst *inst, const vtb_fold *p, vtb_func *f) {
  int kept = p->yields + p->states, seqs_end = p->states + p->seqs, n = 0, n_states;
  vtb_value **at = VTB_SCRATCH(f, vtb_value *, 3 * f->n_args + f->n_returns);
  for (int i = 0; i < p->states; i++)
    if (is_smooth(p, inst->operands[i], i))
      at[n++] = vtb__adjoint_or_zeros(g, inst->results[p->yields + i]);
  for (int i = seqs_end; i < inst->n_operands; i++)
    if (is_float(inst->operands[i])) at[n++] = vtb_b_splat(&g->b, 0, &inst->operands[i]->type);
  n_states = n;
  for (int i = 0; i < p->states; i++) at[n++] = inst->results[kept + i];
  for (int i = p->states; i < seqs_end; i++) at[n++] = inst->operands[i];
  for (int i = 0; i < p->yields; i++) at[n++] = vtb__adjoint_or_zeros(g, inst->results[i]);
  int n_seqs = n - n_states, n_attrs = 3;
  if (p->is_while && !(at[n++] = counted(inst, p))) {
    g->ad->status =
        vtb_fail(g->ad->err, VTB_E_INPUT, "the gradient of a loop whose steps no state counts");
    return NULL;
  }
  for (int i = seqs_end; i < inst->n_operands; i++) at[n++] = inst->operands[i];
  vtb_attr attrs[6] = {VTB_A_INT("states", n_states), VTB_A_INT("seqs", n_seqs),
                       VTB_A_INT("reverse", !p->reverse)};
  if (p->path) attrs[n_attrs++] = VTB_A_STR("path", p->path);
  if (p->steps) attrs[n_attrs++] = VTB_A_INT("steps", p->steps);
  if (vtb_fold_varies(p)) attrs[n_attrs++] = VTB_A_INT("limit", 1);
  return vtb_build_call(&g->b, VTB_OP_fold, f, at, n, attrs, n_attrs);
}

/* `inst` keeps its states: autodiff.c copies it so. */
void vtb__grad_fold(vtb__gradient *g, vtb_inst *inst) {
  vtb_fold p = vtb_fold_of(inst);
  vtb_func *f = back_of(g, inst->callee, &p);
  if (!f) return;
  vtb_inst *made = build(g, inst, &p, f);
  if (!made) return;
  int dx = 0, last = f->n_returns - (int)vtb_attr_int(made, "states", 0),
      seqs_end = p.states + p.seqs;
  for (int i = p.states; i < seqs_end; i++)
    if (is_float(inst->operands[i])) vtb__contribute(g, inst->operands[i], made->results[dx++]);
  for (int i = 0; i < inst->n_operands; i++)
    if ((i < p.states || i >= seqs_end) && is_smooth(&p, inst->operands[i], i))
      vtb__contribute(g, inst->operands[i], made->results[last++]);
}

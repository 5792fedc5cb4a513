/* Tangents through calls and folds: by the dual of what they call. */
#include "ir/fold.h"
#include "passes/grad/tangent.h"

void vtb__tangent_call(vtb__tangents *t, vtb_inst *inst) {
  vtb_func *f = inst->callee;
  bool *moves = VTB_SCRATCH(t->duals, bool, f->n_args);
  vtb_value **operands = VTB_SCRATCH(t->duals, vtb_value *, 2 * f->n_args);
  int n = f->n_args;
  for (int i = 0; i < f->n_args; i++) {
    vtb_value *d = vtb__tangent(t, operands[i] = inst->operands[i]);
    moves[i] = d != NULL;
    if (d) operands[n++] = d;
  }
  const vtb__dual *dual = vtb__dual_of(t->duals, f, moves);
  if (t->duals->status != VTB_OK) return;
  vtb_inst *call = vtb_b_call(&t->b, dual->dual, operands, n);
  n = f->n_returns;
  vtb_inst_unlink(inst);
  for (int r = 0; r < f->n_returns; r++) {
    vtb__swap_names(call->results[r], inst->results[r]);
    inst->results[r] = call->results[r];
    if (dual->returned[r]) vtb__add_tangent(t, inst->results[r], call->results[n++]);
  }
}

/* ---- fold ------------------------------------------------------------------------------------ */

/* A fold of the dual: states s, ds, then sequences x, dx, then constants c, dc; it yields y, dy.
 * All states that are numbers change. */
typedef struct turn {
  vtb__tangents *t;
  const vtb_inst *inst;
  vtb_fold of;
  const vtb__dual *dual;
  vtb_func *step;
  vtb_builder b;
  vtb_value **operands, **taken; /* of the fold; what the dual takes, arguments of `step` */
  int n, count[3];               /* operands: states, sequences, constants */
} turn;

static int operand_kind(const turn *k, int i) {
  return i < k->of.states ? 0 : i < k->of.states + k->of.seqs ? 1 : 2;
}

/* State i is a number, and not the one that tells who goes on. */
static bool is_smooth(const turn *k, int i) {
  return k->inst->callee->args[i]->type.dtype == VTB_F32 && !(k->of.is_while && i == 0);
}

static vtb_value *new_argument(turn *k, const vtb_value *like, const char *prefix) {
  return vtb_func_add_arg(k->step, vtb__text(k->t->duals, "%s%s", prefix, like->name), like->type);
}

static void add_operands(turn *k, int kind) {
  const vtb_func *f = k->inst->callee;
  int before = k->n;
  for (int i = 0; i < f->n_args; i++) {
    if (operand_kind(k, i) != kind) continue;
    k->operands[k->n++] = k->inst->operands[i];
    k->taken[i] = new_argument(k, f->args[i], "");
  }
  for (int i = 0, at = f->n_args; i < f->n_args; at += k->dual->changes[i++]) {
    if (operand_kind(k, i) != kind || !k->dual->changes[i]) continue;
    k->operands[k->n++] = vtb__tangent_or_zeros(k->t, k->inst->operands[i]);
    k->taken[at] = new_argument(k, f->args[i], "t_");
  }
  k->count[kind] = k->n - before;
}

/* States, or yields, and their tangents behind them. */
static void add_returns(turn *k, const vtb_inst *call, bool yields) {
  const vtb_func *f = k->inst->callee;
  for (int r = 0; r < f->n_returns; r++)
    if ((r >= k->of.states) == yields) vtb_func_add_return(k->step, call->results[r], NULL);
  for (int r = 0, at = f->n_returns; r < f->n_returns; at += k->dual->returned[r++]) {
    if ((r >= k->of.states) != yields) continue;
    if (k->dual->returned[r])
      vtb_func_add_return(k->step, call->results[at], NULL);
    else if (!yields && k->dual->changes[r])
      vtb_func_add_return(k->step, vtb_b_splat(&k->b, 0, &f->returns[r]->type), NULL);
  }
}

static void take_result(vtb__tangents *t, vtb_inst *inst, int r, vtb_value *now, vtb_value *d) {
  vtb__swap_names(inst->results[r], now);
  inst->results[r] = now;
  vtb__add_tangent(t, now, d);
}

void vtb__tangent_fold(vtb__tangents *t, vtb_inst *inst) {
  vtb_func *f = inst->callee;
  turn k = {.t = t, .inst = inst, .of = vtb_fold_of(inst)};
  bool *moves = VTB_SCRATCH(t->duals, bool, f->n_args);
  for (int i = 0; i < f->n_args; i++)
    moves[i] = i < k.of.states ? is_smooth(&k, i) : vtb__tangent(t, inst->operands[i]) != NULL;
  vtb_check(!k.of.keep && !k.of.tile, "tangents come before adjoints and tiles of @%s", f->name);
  k.dual = vtb__dual_of(t->duals, f, moves);
  if (t->duals->status != VTB_OK) return;
  k.step = vtb_func_made_of(f, "turn");
  k.b = (vtb_builder){.module = t->b.module, .func = k.step, .span = f->span};
  k.operands = VTB_SCRATCH(t->duals, vtb_value *, 2 * f->n_args);
  k.taken = VTB_SCRATCH(t->duals, vtb_value *, 2 * f->n_args);
  for (int kind = 0; kind < 3; kind++) add_operands(&k, kind);
  vtb_inst *call = vtb_b_call(&k.b, k.dual->dual, k.taken, k.n);
  for (int yields = 0; yields < 2; yields++) add_returns(&k, call, yields);
  vtb__expand(call); /* who takes steps apart, or asks what counts them, looks for ops here */
  vtb_attr attrs[8] = {VTB_A_INT("states", k.count[0]), VTB_A_INT("seqs", k.count[1])};
  int n = 2 + vtb_attrs_of(inst, "path layout reverse steps while limit", attrs + 2);
  vtb_inst *made = vtb_build_call(&t->b, VTB_OP_fold, k.step, k.operands, k.n, attrs, n);
  int first_state = k.step->n_returns - k.count[0], y = k.of.yields, s = first_state + k.of.states;
  vtb_inst_unlink(inst);
  for (int r = 0; r < k.of.yields; r++)
    take_result(t, inst, r, made->results[r],
                k.dual->returned[k.of.states + r] ? made->results[y++] : NULL);
  for (int r = 0; r < k.of.states; r++)
    take_result(t, inst, k.of.yields + r, made->results[first_state + r],
                moves[r] ? made->results[s++] : NULL);
}

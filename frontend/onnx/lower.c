/* Functions of the IR as nodes: calls are expanded, each under the modules that it stands for. */
#include "frontend/onnx/internal.h"
#include "ir/ops.h"
#include "ir/diag_codes.h"
#include "ir/fold.h"

#include <string.h>

static ox_rule fold;

static const struct rule {
  ox_rule *fn;
  const char *form;
} rules[VTB_OP_COUNT] = {
#define X(op, fn, form) [VTB_OP_##op] = {fn, form},
#include "frontend/onnx/rules.def"
#undef X
};

const char *vtb_onnx_form(vtb_op op) {
  if (rules[op].fn) return rules[op].form;
  if (op == VTB_OP_call) return "the callee's nodes";
  return vtb__ox_scalar_form(op);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The scope in front of a call's values: parameters show it, whose names here end in the callee's;
 * else the result's name. */
static const char *scope_of(ox *x, const vtb_inst *call, ox_value *const *in, const char *scope) {
  for (int i = 0; i < call->n_operands; i++) {
    const char *inner = call->callee->arg_info[i].official, *outer = in[i]->name;
    if (!inner || !outer || in[i]->def || !vtb_ends_with(outer, inner)) continue;
    return vtb_arena_strndup(&x->arena, outer, strlen(outer) - strlen(inner));
  }
  return vtb_arena_printf(&x->arena, "%s%s.", scope, call->n_results ? call->results[0]->name : "");
}

static void enter(ox *x, const vtb_inst *inst, const char *scope) {
  char place[256];
  const char *name = inst->n_results ? inst->results[0]->name : vtb_op_get(inst->op)->name;
  x->path = vtb_arena_printf(&x->arena, "%s%s", scope, name);
  x->place = vtb_arena_strdup(&x->arena, vtb_span_text(inst->span, place, sizeof place));
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* Every value has the shape that the IR says it has, and what the instruction made its name. */
static void check_values(ox *x, const vtb_inst *inst, const char *scope, const char *path,
                         ox_value *const *out) {
  for (int r = 0; r < inst->n_results; r++) {
    if (!out[r]) continue;
    ox_type want = vtb__ox_type(&inst->results[r]->type), *is = &out[r]->type;
    bool same = want.rank == is->rank && want.elem == is->elem;
    for (int i = 0; same && i < want.rank; i++) same = want.dim[i] == is->dim[i];
    if (out[r]->def && !out[r]->name && out[r]->def->path == path)
      out[r]->name = vtb_arena_printf(&x->arena, "%s%s", scope, inst->results[r]->name);
    if (!same) vtb_bug("onnx: %s: result %d has another type", vtb_op_get(inst->op)->name, r);
  }
}

static void refuse_inst(ox *x, const vtb_inst *inst) {
  const char *op = vtb_op_get(inst->op)->name;
  vtb_diag_error(x->diags, VTB_DIAG_ONNX_OP, inst->span, "'%s' has no form in ONNX", op);
  if (inst->op == VTB_OP_random)
    vtb_diag_help(x->diags, "what is drawn in training only is not exported: if training { ... }");
}

/* A value of the right type where nothing else can be given. */
static void pretend(ox *x, const vtb_inst *inst, ox_value **out) {
  for (int r = 0; r < inst->n_results; r++) {
    ox_type t = vtb__ox_type(&inst->results[r]->type);
    out[r] = vtb__ox_new(x, &t);
  }
}

static void lower(ox *x, const vtb_inst *inst, const char *scope, ox_value *const *in,
                  ox_value **out) {
  const struct rule *rule = &rules[inst->op];
  enter(x, inst, scope);
  const char *path = x->path;
  if (inst->op == VTB_OP_call)
    vtb__ox_function(x, inst->callee, scope_of(x, inst, in, scope), in, out);
  else if (rule->fn)
    rule->fn(x, inst, in, out);
  else if (vtb__ox_scalar_form(inst->op))
    out[0] = vtb__ox_scalar(x, inst->op, in);
  else
    refuse_inst(x, inst), pretend(x, inst, out);
  check_values(x, inst, scope, path, out);
}

void vtb__ox_function(ox *x, const vtb_func *f, const char *scope, ox_value *const *in,
                      ox_value **out) {
  ox_value **env = VTB_NEW_ARRAY(&x->arena, ox_value *, f->n_values + 1);
  for (int a = 0; a < f->n_args; a++) env[f->args[a]->id] = in[a];
  for (const vtb_inst *inst = f->first; inst; inst = inst->next) {
    ox_value **operands = VTB_NEW_ARRAY(&x->arena, ox_value *, inst->n_operands + 1);
    ox_value **results = VTB_NEW_ARRAY(&x->arena, ox_value *, inst->n_results + 1);
    for (int i = 0; i < inst->n_operands; i++) operands[i] = env[inst->operands[i]->id];
    lower(x, inst, scope, operands, results);
    for (int r = 0; r < inst->n_results; r++) env[inst->results[r]->id] = results[r];
  }
  for (int r = 0; r < f->n_returns; r++) out[r] = env[f->returns[r]->id];
}

/* ---- fold ------------------------------------------------------------------------------------ */

/* Some element of the state that tells who goes on is not 0. */
static ox_value *goes_on(ox *x, ox_value *state) {
  const int64_t axes[OX_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  ox_value *is = vtb__ox_compare(x, "Equal", state, vtb__ox_number_of(x, state->type.elem, 0));
  ox_value *size = vtb__ox_cast(x, vtb__ox_unary(x, "Not", is), OX_F32);
  if (state->type.rank) size = vtb__ox_reduce(x, "ReduceMax", size, axes, state->type.rank, false);
  return vtb__ox_compare(x, "Greater", size, vtb__ox_number(x, 0));
}

/* Without sequences, Loop: its body takes the step's number, the condition and the states, and
 * gives the next condition and states. */
static void loop(ox *x, const vtb_inst *inst, const vtb_fold *p, ox_value *const *in,
                 ox_value **out) {
  const ox_type number = {.elem = OX_I64}, truth = {.elem = OX_BOOL};
  int states = p->states, n = inst->n_operands;
  ox_value **outer = VTB_NEW_ARRAY(&x->arena, ox_value *, states + 2);
  ox_value **args = VTB_NEW_ARRAY(&x->arena, ox_value *, n + 1);
  ox_type *types = VTB_NEW_ARRAY(&x->arena, ox_type, states + 1);
  outer[0] = vtb__ox_data(x, &number, &p->steps);
  outer[1] = p->is_while ? goes_on(x, in[0]) : vtb__ox_data(x, &truth, &(uint8_t){1});
  ox_graph *outside = x->at, *body = x->at = VTB_NEW(&x->arena, ox_graph);
  *body = (ox_graph){.name = "step", .n_in = states + 2, .n_out = states + 1};
  body->in = VTB_NEW_ARRAY(&x->arena, ox_value *, states + 2);
  body->out = VTB_NEW_ARRAY(&x->arena, ox_value *, states + 2);
  body->in[0] = vtb__ox_new(x, &number), body->in[1] = vtb__ox_new(x, &truth);
  for (int i = 0; i < n; i++) args[i] = in[i];
  for (int i = 0; i < states; i++) {
    types[i] = in[i]->type;
    outer[i + 2] = in[i];
    args[i] = body->in[i + 2] = vtb__ox_new(x, &types[i]);
  }
  vtb__ox_function(x, inst->callee, vtb_arena_printf(&x->arena, "%s.", x->path), args, out);
  for (int i = 0; i < states; i++) body->out[i + 1] = vtb__ox_unary(x, "Identity", out[i]);
  body->out[0] = p->is_while ? goes_on(x, body->out[1]) : vtb__ox_unary(x, "Identity", body->in[1]);
  x->at = outside;
  ox_node *node = vtb__ox_node(x, "Loop", outer, states + 2, NULL, 0, types, states);
  node->body = body;
  for (int i = 0; i < states; i++) out[i] = node->out[i];
}

/* The callee sees one step [B, 1, ...] of sequences, the body [B, ...]. */
static void fold(ox *x, const vtb_inst *inst, ox_value *const *in, ox_value **out) {
  vtb_fold p = vtb_fold_of(inst);
  int n = inst->n_operands, made = inst->callee->n_returns;
  ox_value **over = VTB_NEW_ARRAY(&x->arena, ox_value *, p.seqs + 1),
           **args = VTB_NEW_ARRAY(&x->arena, ox_value *, n + 1),
           **results = VTB_NEW_ARRAY(&x->arena, ox_value *, made + 1);
  const char *scope = vtb_arena_printf(&x->arena, "%s.", x->path);
  vtb_check(!p.keep && !p.reverse && !p.tile, "onnx: a fold of an adjoint");
  if (!p.seqs) {
    loop(x, inst, &p, in, out);
    return;
  }
  for (int i = 0; i < p.seqs; i++) over[i] = vtb__ox_along(x, inst, in[p.states + i], 1, false);
  ox_loop l = vtb__ox_loop_begin(x, in, p.states, over, p.seqs);
  for (int i = 0; i < n; i++) {
    bool inner = i < p.states + p.seqs;
    ox_value *v = inner ? l.body->in[i] : in[i];
    args[i] = inner && i >= p.states ? vtb__ox_unsqueeze(x, v, 1) : v;
  }
  vtb__ox_function(x, inst->callee, scope, args, results);
  for (int i = p.states; i < made; i++) results[i] = vtb__ox_squeeze(x, results[i], 1);
  vtb__ox_loop_end(x, &l, results, made, vtb_fold_steps(inst), out);
  for (int i = 0; i < p.yields; i++) out[i] = vtb__ox_along(x, inst, out[i], 1, true);
}

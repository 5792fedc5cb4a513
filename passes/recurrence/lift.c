/* Step values to batched values: a value of step shape [X...] becomes one of [B, N, h, X...], or
 * [h, X...] or [X...] if it is made of constants alone. With running scales each value has
 * degrees (degree.c).
 */
#include "ir/axes.h"
#include "ir/product.h"
#include "passes/recurrence/recurrence.h"

/* A factor on the output frame: its axes that are not of size 1 at their places, ones elsewhere. */
static vtb__lifted place_factor(vtb__rec *r, const vtb__factor *f, const int *to, int rank) {
  vtb__lifted x = vtb__rec_lift(r, f->v);
  vtb_dim dims[VTB_MAX_RANK];
  for (int a = 0; a < rank; a++) dims[a] = (vtb_dim){.size = 1};
  for (int a = 0; a < x.rank; a++)
    if (f->axis[a] >= 0) dims[to ? to[f->axis[a]] : f->axis[a]] = x.v->type.dim[x.lead + a];
  x.v = vtb__rec_reshape(r, x, dims, rank);
  x.rank = rank;
  return x;
}

vtb__lifted vtb__rec_product(vtb__rec *r, const vtb__term *t, unsigned axes, const int *to,
                             int rank) {
  vtb__lifted x = {0};
  for (int i = 0; i < t->n; i++) {
    if (vtb__factor_axes(&t->at[i]) & ~axes) continue;
    vtb__lifted f = place_factor(r, &t->at[i], to, rank);
    if (!x.v && t->at[i].sign > 0) {
      x = f;
      continue;
    }
    if (!x.v) x.v = vtb_b_constant(&r->b, 1);
    x = vtb__rec_binary(r, t->at[i].sign > 0 ? VTB_OP_mul : VTB_OP_div, x, f);
  }
  if (x.v && t->coef == 1) return x;
  vtb__lifted c = vtb__rec_number(r, t->coef);
  return vtb__rec_to_rank(r, x.v ? vtb__rec_binary(r, VTB_OP_mul, x, c) : c, rank);
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* The operand with one head axis: [B, N, h, X...], [h, X...], or [X...] if it has none. */
static vtb__lifted lift_argument(vtb__rec *r, const vtb_value *arg) {
  int operand = r->n_inits + arg->index - r->n_states;
  vtb_value *v = r->inst->operands[operand];
  bool seq = arg->index < r->n_states + r->n_seqs;
  int rank = arg->type.rank, lead = seq ? 3 : v->type.rank == rank ? 0 : 1;
  vtb_type t = vtb__rec_type(r, lead, arg->type.dim, rank);
  t.dtype = v->type.dtype;
  v = vtb_b_shaped(&r->b, v, &t);
  return (vtb__lifted){v, lead, rank, 0};
}

static vtb__lifted lift_scale(vtb__rec *r, const vtb_inst *inst) {
  bool log = vtb_attr_int(inst, "log", 0) != 0;
  vtb__lifted x = vtb__rec_number(r, log ? 0 : 1);
  if (r->n_scales && log) x = r->scales.at[0].m;
  if (r->n_scales && !log) x.degree = vtb__degree_one(r, 0);
  return vtb__rec_to_rank(r, x, inst->results[0]->type.rank);
}

/* ---- instructions ---------------------------------------------------------------------------- */

static void name_after(vtb__rec *r, const vtb_inst *inst) {
  r->b.name_hint = inst->results[0]->name;
}

static vtb__lifted lift_elementwise(vtb__rec *r, const vtb_inst *inst, vtb__lifted *x) {
  if (inst->op == VTB_OP_log) return vtb__rec_log(r, x[0]);
  const double *degree = vtb__rec_settle(r, inst, x);
  vtb_value *v[3];
  int lead = 0, rank = inst->results[0]->type.rank;
  for (int i = 0; i < inst->n_operands; i++) {
    x[i] = vtb__rec_to_rank(r, x[i], rank);
    v[i] = x[i].v;
    lead = vtb__larger(lead, x[i].lead);
  }
  name_after(r, inst);
  vtb_inst *made = vtb_build(&r->b, inst->op, v, inst->n_operands, inst->attrs, inst->n_attrs);
  return (vtb__lifted){made->results[0], lead, rank, degree};
}

static vtb__lifted with_lead(vtb__rec *r, vtb__lifted x, int lead) {
  if (x.lead == lead && (lead == 0 || x.v->type.dim[lead - 1].size == r->heads.size)) return x;
  vtb_type t = vtb__rec_type(r, lead, x.v->type.dim + x.lead, x.rank);
  t.dtype = x.v->type.dtype;
  x.v = vtb_b_broadcast(&r->b, x.v, &t);
  x.lead = lead;
  return x;
}

static vtb__lifted lift_concat(vtb__rec *r, const vtb_inst *inst, vtb__lifted *x) {
  int lead = 0, n = inst->n_operands;
  vtb_value **v = VTB_SCRATCH(r->step, vtb_value *, n);
  const double *degree = vtb__rec_same_degree(r, x, 0, n);
  for (int i = 0; i < n; i++) lead = vtb__larger(lead, x[i].lead);
  for (int i = 0; i < n; i++) v[i] = with_lead(r, x[i], lead).v;
  name_after(r, inst);
  vtb_value *joined = vtb_b_with_axes(&r->b, inst, v, 0, lead);
  return (vtb__lifted){joined, lead, inst->results[0]->type.rank, degree};
}

static vtb__lifted lift_einsum(vtb__rec *r, const vtb_inst *inst, vtb__lifted *x) {
  /* of batch, tokens and heads; the heads alone, or all of them, are in front */
  char leading[4];
  vtb_product p = vtb_product_of(inst);
  vtb_unused_letters(&p, "bnhzyxwutsrqpomljigfedcakv", 3, leading);
  int lead[VTB_LETTER_PLACES] = {x[0].lead, x[1].lead, vtb__larger(x[0].lead, x[1].lead)};
  vtb_spec batched = {0};
  for (int place = 0; place < VTB_LETTER_PLACES; place++) {
    for (int l = 3 - lead[place]; l < 3; l++) vtb_spec_put(&batched, place, leading[l]);
    for (int a = 0; a < p.rank[place]; a++)
      vtb_spec_put(&batched, place, vtb_product_at(&p, place, a)->name);
  }
  name_after(r, inst);
  vtb_value *v = vtb_b_einsum_of(&r->b, &batched, x[0].v, x[1].v);
  return (vtb__lifted){v, lead[VTB_IN_RESULT], inst->results[0]->type.rank, vtb__degree_sum(r, x)};
}

static vtb__lifted lift_broadcast(vtb__rec *r, const vtb_inst *inst, vtb__lifted x) {
  const vtb_type *want = &inst->results[0]->type;
  x = vtb__rec_to_rank(r, x, want->rank);
  vtb_type t = vtb_type_behind(&x.v->type, x.lead, want->dim, want->rank);
  x.v = vtb_b_broadcast(&r->b, x.v, &t);
  return x;
}

static vtb__lifted lift_inst(vtb__rec *r, vtb_inst *inst) {
  const vtb__read *read = vtb__rec_read_of(r, inst);
  const vtb_type *t = &inst->results[0]->type;
  if (read && !r->states[read->state].whole) return vtb__rec_emit_read(r, read);
  if (inst->op == VTB_OP_state_scale) return lift_scale(r, inst);
  if (inst->n_operands == 0)
    return (vtb__lifted){vtb_inst_clone(&r->b, inst, NULL)->results[0], 0, t->rank, 0};
  vtb__lifted *x = VTB_SCRATCH(r->step, vtb__lifted, inst->n_operands);
  bool aligned =
      vtb_op_get(inst->op)->klass == VTB_CLASS_ELEMENTWISE || inst->op == VTB_OP_broadcast;
  for (int i = 0; i < inst->n_operands; i++) {
    x[i] = vtb__rec_lift(r, inst->operands[i]);
    if (!aligned) x[i] = vtb__rec_flatten(r, x[i]);
  }
  switch (inst->op) {
  case VTB_OP_reduce_sum:
  case VTB_OP_reduce_max:
    name_after(r, inst); /* fall through */
  case VTB_OP_transpose:
  case VTB_OP_slice:
  case VTB_OP_pad:
    x[0].v = vtb_b_with_axes(&r->b, inst, &x[0].v, 0, x[0].lead);
    x[0].rank = t->rank;
    return x[0];
  case VTB_OP_reshape:
    return (vtb__lifted){vtb__rec_reshape(r, x[0], t->dim, t->rank), x[0].lead, t->rank,
                         x[0].degree};
  case VTB_OP_broadcast:
    return lift_broadcast(r, inst, x[0]);
  case VTB_OP_concat:
    return lift_concat(r, inst, x);
  case VTB_OP_einsum:
    return lift_einsum(r, inst, x);
  case VTB_OP_tap:
    return x[0];
  default:
    return lift_elementwise(r, inst, x);
  }
}

void vtb__rec_set_lifted(vtb__rec *r, const vtb_value *v, vtb__lifted x) {
  *vtb__by_id(r->step, &r->lifted, v->id) = x;
}

vtb__lifted vtb__rec_lift(vtb__rec *r, vtb_value *v) {
  vtb_span outer = r->b.span;
  int now = vtb__rec_new_state(r, v), old = vtb__rec_old_state(r, v);
  vtb__lifted x = *vtb__by_id(r->step, &r->lifted, v->id);
  if (x.v) return x;
  if (v->def && v->def->span.source) r->b.span = v->def->span;
  if (now >= 0)
    x = vtb__rec_whole(r, now, false);
  else if (old >= 0)
    x = vtb__rec_whole(r, old, true);
  else if (!v->def)
    x = lift_argument(r, v);
  else
    x = lift_inst(r, v->def);
  r->b.span = outer;
  vtb__rec_set_lifted(r, v, x);
  return x;
}

static bool can_stand_in_step(vtb_op op) {
  bool moves = op == VTB_OP_permute || op == VTB_OP_shift || op == VTB_OP_random;
  return (vtb_op_get(op)->klass < VTB_CLASS_STRUCTURED && !moves) || op == VTB_OP_einsum ||
         op == VTB_OP_state_scale || op == VTB_OP_tap;
}

bool vtb__rec_can_lift(vtb__rec *r) {
  for (vtb_inst *inst = r->step->first; inst; inst = inst->next) {
    if (can_stand_in_step(inst->op)) continue;
    vtb_diag_error(r->diags, VTB_DIAG_STEP_TOO_COMPLEX, inst->span,
                   "`%s` cannot stand in the step of a recurrence", vtb__rec_text(r, inst));
    vtb_diag_help(r->diags, "compute it before the recurrence and hand it in as a per-step input");
    return false;
  }
  return true;
}

/* Corrections: updates that read their own state by sums over its key axis.
 *
 *   S = exp(g) * S;  S = S + outer(beta * k, v - dot(k, S))
 *   =>
 *   w = beta v + S^T b,  b = -beta exp(g) k        an argument of the step, made by op delta
 *   S = exp(g) * S + outer(k, w)                   linear like any other
 *
 * The update is evaluated on forms instead of numbers: what a value is as a sum over the old state
 * (delta.h). Micro-steps, corrections of corrections and any arrangement of them come
 * out as rows of one normal form, all of which read the state before the token. Contractions of
 * states in between, which yields may read, are rewritten as reads of the old state. A state that
 * does not fit keeps its update, and the reason is kept for diagnostics.
 *
 * source  Yang et al. 2024, arXiv 2406.06484; several rows: Siems et al. 2025, arXiv 2502.10297
 */
#include "ir/axes.h"
#include "passes/recurrence/delta.h"

/* ---- operands and axes ----------------------------------------------------------------------- */

/* Where an axis of an operand is in the result; -1: nowhere. */
static int moved(const vtb_inst *inst, int operand, int axis) {
  int to = axis < 0 ? -1 : vtb_axis_after(inst, operand, axis);
  return to < 0 ? -1 : to;
}

static vtb__form *moved_form(vtb__finder *d, vtb_inst *inst, int operand) {
  const vtb__form *x = vtb__form_of(d, inst->operands[operand]);
  if (!x) return NULL;
  vtb__form *y = vtb__form_copy(d, x);
  y->key = moved(inst, operand, x->key), y->value = moved(inst, operand, x->value);
  return y;
}

static bool is_free(vtb__finder *d, const vtb_value *v) {
  return vtb__rec_given(d->r, d->state, v);
}

static vtb__term term_of(vtb__finder *d, vtb_value *v, int sign, const int *axis) {
  vtb__term t = {.coef = 1};
  vtb__rec_multiply(d->r, &t, v, sign, axis);
  return t;
}

static vtb__form *scaled(vtb__finder *d, vtb_inst *inst, int operand, int sign) {
  int axis[VTB_MAX_RANK];
  vtb_value *by = inst->operands[1 - operand];
  vtb__form *form = moved_form(d, inst, operand);
  if (!form) return NULL;
  vtb__frame_axes(by, inst->results[0]->type.rank, axis);
  vtb__term t = term_of(d, by, sign, axis);
  return vtb__form_scale(d, form, &t, inst) ? form : NULL;
}

/* ---- sums, products, selections -------------------------------------------------------------- */

/* form += by * operand. */
static bool add_operand(vtb__finder *d, vtb__form *form, vtb_inst *inst, int operand,
                        const vtb__term *by) {
  int axis[VTB_MAX_RANK];
  vtb_value *v = inst->operands[operand];
  if (is_free(d, v)) {
    vtb__frame_axes(v, inst->results[0]->type.rank, axis);
    return vtb__form_add_free(d, form, v, by, axis, inst);
  }
  vtb__form *other = moved_form(d, inst, operand);
  return other && vtb__form_scale(d, other, by, inst) && vtb__form_add(d, form, other, inst);
}

/* sum of by[i] * operands[first + i]; the first that reads the state gives the sum its axes. */
static vtb__form *sum(vtb__finder *d, vtb_inst *inst, int first, const vtb__term *by) {
  int lead = is_free(d, inst->operands[first]) ? 1 : 0;
  vtb__form *form = moved_form(d, inst, first + lead);
  bool good = form && vtb__form_scale(d, form, &by[lead], inst) &&
              add_operand(d, form, inst, first + 1 - lead, &by[1 - lead]);
  return good ? form : NULL;
}

static vtb__form *difference(vtb__finder *d, vtb_inst *inst) {
  vtb__term by[2] = {{.coef = 1}, {.coef = inst->op == VTB_OP_sub ? -1 : 1}};
  return sum(d, inst, 0, by);
}

/* select(c, x, y) is c x + (1 - c) y. */
static vtb__form *selection(vtb__finder *d, vtb_inst *inst) {
  if (!is_free(d, inst->operands[0])) return vtb__form_fail(d, inst, "decides by the state");
  vtb_value *one = vtb_b_constant(&d->b, 1), *zero = vtb_b_constant(&d->b, 0);
  vtb__term by[2];
  for (int i = 0; i < 2; i++) {
    int axis[VTB_MAX_RANK];
    vtb_value *mask = vtb_b_select(&d->b, inst->operands[0], i ? zero : one, i ? one : zero);
    vtb__frame_axes(mask, inst->results[0]->type.rank, axis);
    by[i] = term_of(d, mask, 1, axis);
  }
  return sum(d, inst, 1, by);
}

/* ---- moves ----------------------------------------------------------------------------------- */

static vtb__form *reshaped(vtb__finder *d, vtb_inst *inst) {
  vtb__form *y = moved_form(d, inst, 0);
  if (y && !vtb_type_unit_reshape(&inst->operands[0]->type, &inst->results[0]->type))
    return vtb__form_fail(d, inst, "cuts the state's elements into other rows");
  return y;
}

static vtb__form *broadcasted(vtb__finder *d, vtb_inst *inst) {
  const vtb_value *x = inst->operands[0], *y = inst->results[0];
  vtb__form *form = moved_form(d, inst, 0);
  int shift = y->type.rank - x->type.rank;
  for (int a = 0; form && a < y->type.rank; a++) {
    int64_t before = a < shift ? 1 : x->type.dim[a - shift].size;
    if (before == y->type.dim[a].size) continue;
    if (form->matrix) return vtb__form_fail(d, inst, "repeats the state");
    vtb__form_spread(form, a);
  }
  return form;
}

/* ---- contractions ---------------------------------------------------------------------------- */

const char vtb__reads_both_ways[] = "reads the state along both of its axes";

/* Sums over axes of size 1 change nothing. */
static vtb__form *summed(vtb__finder *d, vtb_inst *inst) {
  const vtb__form *x = vtb__form_of(d, inst->operands[0]);
  vtb__form *y = moved_form(d, inst, 0);
  if (!y) return NULL;
  if (x->value >= 0 && y->value < 0) return vtb__form_fail(d, inst, vtb__reads_both_ways);
  bool reads = x->matrix && x->key >= 0 && y->key < 0;
  return reads ? vtb__form_contract(d, x, NULL, y->value) : y;
}

/* An einsum that keeps all axes is a product. */
static vtb__form *outer_product(vtb__finder *d, vtb_inst *inst, int holder) {
  vtb_value *other = inst->operands[1 - holder];
  vtb__form *y = moved_form(d, inst, holder);
  int axis[VTB_MAX_RANK];
  for (int a = 0; a < other->type.rank; a++) {
    int at = moved(inst, 1 - holder, a);
    axis[a] = other->type.dim[a].size == 1 ? -1 : at;
    if (at < 0 && other->type.dim[a].size != 1)
      return vtb__form_fail(d, inst, "sums over an axis that the state does not have");
  }
  vtb__term t = term_of(d, other, 1, axis);
  return vtb__form_scale(d, y, &t, inst) ? y : NULL;
}

static vtb__form *einsum(vtb__finder *d, vtb_inst *inst) {
  int holder = is_free(d, inst->operands[0]) ? 1 : 0;
  vtb_value *other = inst->operands[1 - holder];
  if (!is_free(d, other)) return vtb__form_fail(d, inst, "multiplies the state by itself");
  const vtb__form *x = vtb__form_of(d, inst->operands[holder]);
  if (!x) return NULL;
  if (x->value >= 0 && moved(inst, holder, x->value) < 0)
    return vtb__form_fail(d, inst, vtb__reads_both_ways);
  if (!x->matrix || moved(inst, holder, x->key) >= 0) return outer_product(d, inst, holder);
  for (int a = 0; a < other->type.rank; a++)
    if (other->type.dim[a].size != 1 && vtb_axis_beside(inst, 1 - holder, a, holder) != x->key)
      return vtb__form_fail(d, inst, "reads the state by a matrix");
  bool by_ones = vtb_axis_beside(inst, holder, x->key, 1 - holder) < 0;
  vtb__form *line = vtb__form_contract(d, x, by_ones ? NULL : other, moved(inst, holder, x->value));
  int none[VTB_MAX_RANK] = {-1, -1, -1, -1, -1, -1, -1, -1};
  vtb__term number = {.coef = 1};
  if (by_ones) number = term_of(d, other, 1, none);
  return vtb__form_scale(d, line, &number, inst) ? line : NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

static vtb__form *of_product(vtb__finder *d, vtb_inst *inst) {
  bool first = !is_free(d, inst->operands[0]), second = !is_free(d, inst->operands[1]);
  if (second && inst->op == VTB_OP_div) return vtb__form_fail(d, inst, "divides by the state");
  if (first && second) return vtb__form_fail(d, inst, "multiplies the state by itself");
  return scaled(d, inst, second, inst->op == VTB_OP_div ? -1 : 1);
}

static vtb__form *of_inst(vtb__finder *d, vtb_inst *inst) {
  vtb__term minus = {.coef = -1};
  vtb__form *x;
  switch (inst->op) {
  case VTB_OP_add:
  case VTB_OP_sub:
    return difference(d, inst);
  case VTB_OP_neg:
    x = moved_form(d, inst, 0);
    return x && vtb__form_scale(d, x, &minus, inst) ? x : NULL;
  case VTB_OP_mul:
  case VTB_OP_div:
    return of_product(d, inst);
  case VTB_OP_select:
    return selection(d, inst);
  case VTB_OP_reshape:
    return reshaped(d, inst);
  case VTB_OP_broadcast:
    return broadcasted(d, inst);
  case VTB_OP_transpose:
  case VTB_OP_tap:
    return moved_form(d, inst, 0);
  case VTB_OP_reduce_sum:
    return summed(d, inst);
  case VTB_OP_einsum:
    return einsum(d, inst);
  case VTB_OP_state_scale:
    return vtb__form_fail(d, inst, "reads the running scale of the states");
  default:
    return vtb__form_fail(d, inst,
                          vtb_op_get(inst->op)->klass == VTB_CLASS_ELEMENTWISE
                              ? "is not linear in the state"
                              : "moves the state's elements");
  }
}

vtb__form *vtb__form_of(vtb__finder *d, vtb_value *v) {
  const vtb__state *s = &d->r->states[d->state];
  if (v->id >= d->n_memo) return vtb__form_fail(d, v->def, "cannot be followed");
  if (d->tried[v->id]) return d->memo[v->id];
  d->tried[v->id] = true;
  vtb__form *x = NULL;
  if (v == s->old) {
    x = vtb__form_new(d, true, d->key, d->value);
    x->a = vtb_b_constant(&d->b, 1);
  } else if (v->def) {
    x = of_inst(d, v->def);
  } else {
    vtb__form_fail(d, s->now->def, "reads another state, which reads this one");
  }
  return d->memo[v->id] = x;
}

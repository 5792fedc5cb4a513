/* The normal form of a recurrence: every state's update as s' = a * s + u.
 *
 *   C = exp(log_sigmoid(f)) * C + exp(i) * outer(k, v)
 *   a: {exp(log_sigmoid(f))}      u: {exp(i), k on axis 0, v on axis 1}
 *
 * The update is expanded as a polynomial in the states as far as sums, products with what no state
 * enters, and selections by such a condition go; everything else that reads the state is named in a
 * diagnostic. A state that reads another one, which does not read it back, takes that as an input.
 */
#include "passes/recurrence/recurrence.h"

enum { MAX_EXPANSIONS = 10000 };

/* ---- diagnostics ----------------------------------------------------------------------------- */

static void recurrent_only_help(vtb_diags *d) {
  vtb_diag_help(d, "such a recurrence runs step after step, in mode recurrent or auto; for the "
                   "other modes every update must be a factor times the state, plus terms that no "
                   "state enters, plus outer products of what is read of it along one axis");
}

static bool refuse(vtb__rec *r, int code, const vtb_inst *inst, int state, const char *what) {
  bool linear = code == VTB_DIAG_NOT_LINEAR;
  vtb_diag_error(r->diags, code, inst->span, "the update of state %s is not %s: `%s` %s",
                 r->states[state].old->name, linear ? "linear" : "diagonal", vtb__rec_text(r, inst),
                 what);
  recurrent_only_help(r->diags);
  return false;
}

static bool nonlinear(vtb__rec *r, const vtb_inst *inst, int state, const char *what) {
  return refuse(r, VTB_DIAG_NOT_LINEAR, inst, state, what);
}

static bool not_diagonal(vtb__rec *r, const vtb_inst *inst, int state, const char *what) {
  const vtb__state *s = &r->states[state];
  if (s->why && s->blame) inst = s->blame, what = s->why;
  return refuse(r, VTB_DIAG_NOT_DIAGONAL, inst, state, what);
}

static bool cross_state(vtb__rec *r, vtb_span span, int state, int other) {
  if (other < state && (r->reach[other] >> state & 1))
    return false; /* said when the other one was looked at */
  vtb_diag_error(r->diags, VTB_DIAG_STATES_COUPLED, span, "states %s and %s read each other",
                 r->states[state].old->name, r->states[other].old->name);
  recurrent_only_help(r->diags);
  return false;
}

static bool too_long(vtb__rec *r, const vtb__state *s) {
  if (r->exploded) return false; /* said before */
  r->exploded = true;
  vtb_diag_error(
      r->diags, VTB_DIAG_STEP_TOO_COMPLEX, s->now->def ? s->now->def->span : r->inst->span,
      "the update of state %s has too many terms when it is multiplied out", s->old->name);
  vtb_diag_help(r->diags, "write it as a factor times the state plus one term");
  return false;
}

/* ---- expansion ------------------------------------------------------------------------------- */

typedef vtb__terms terms;
typedef vtb__expansion expansion;

/* True if the update of `state` may take v as given: no state that depends on `state`. */
bool vtb__rec_given(vtb__rec *r, int state, const vtb_value *v) {
  uint64_t d = vtb__rec_deps(r, v);
  if (d & VTB__DEP_SCALE) return false;
  for (int j = 0; j < r->n_states; j++)
    if ((d >> j & 1) && (j == state || (r->reach[j] >> state & 1))) return false;
  return true;
}

static bool given(vtb__rec *r, const expansion *e, const vtb_value *v) {
  bool is = true;
  for (int k = 0; k < e->n; k++) is &= vtb__rec_given(r, e->states[k], v);
  return is;
}

static bool expand(vtb__rec *r, vtb_value *v, const vtb__term *by, const int *axis, expansion *e);

/* by * operand o of the instruction that makes v. */
static bool expand_operand(vtb__rec *r, const vtb_value *v, int o, const vtb__term *by,
                           const int *axis, expansion *e) {
  int inner[VTB_MAX_RANK];
  vtb__rec_operand_axes(v->def, o, axis, inner);
  return expand(r, v->def->operands[o], by, inner, e);
}

/* A product, or quotient, of what reads the state and what is given. */
static bool expand_product(vtb__rec *r, const vtb_value *v, int reads, const vtb__term *by,
                           const int *axis, expansion *e) {
  int inner[VTB_MAX_RANK];
  vtb__rec_operand_axes(v->def, 1 - reads, axis, inner);
  vtb__term t = vtb__term_copy(r, by);
  vtb__rec_multiply(r, &t, v->def->operands[1 - reads], v->def->op == VTB_OP_div ? -1 : 1, inner);
  return expand_operand(r, v, reads, &t, axis, e);
}

/* Both are given, and a gain is inside: the terms of the first times those of the second. */
static bool expand_given_product(vtb__rec *r, const vtb_value *v, const vtb__term *by,
                                 const int *axis, expansion *e) {
  expansion left = {.states = {e->states[0]}, .n = 1};
  bool good = expand_operand(r, v, 0, by, axis, &left);
  for (size_t i = 0; i < left.rest.n && good; i++) {
    if (v->def->op == VTB_OP_mul) {
      good = expand_operand(r, v, 1, &left.rest.at[i], axis, e);
    } else {
      int inner[VTB_MAX_RANK];
      vtb__rec_operand_axes(v->def, 1, axis, inner);
      vtb__rec_multiply(r, &left.rest.at[i], v->def->operands[1], -1, inner);
      vtb__put(r->step, &e->rest, left.rest.at[i]);
    }
  }
  return good;
}

/* A branch of select(cond, x, y): the other branch's zero as a factor of one and zero. */
static bool expand_branch(vtb__rec *r, vtb_value *v, int branch, const vtb__term *by,
                          const int *axis, expansion *e) {
  const vtb_inst *inst = v->def;
  vtb_builder b = {.module = r->step->module, .func = r->step, .span = inst->span};
  vtb_value *one = vtb_b_constant(&b, 1), *zero = vtb_b_constant(&b, 0);
  vtb_value *mask =
      vtb_b_select(&b, inst->operands[0], branch == 1 ? one : zero, branch == 1 ? zero : one);
  vtb__term t = vtb__term_copy(r, by);
  vtb__term_push(r, &t, vtb__factor_of(mask, v->type.rank));
  return expand_operand(r, v, branch, &t, axis, e);
}

static bool expand_inst(vtb__rec *r, vtb_value *v, const vtb__term *by, const int *axis,
                        expansion *e) {
  vtb_inst *inst = v->def;
  bool first = inst->n_operands > 0 && !given(r, e, inst->operands[0]);
  bool second = inst->n_operands > 1 && !given(r, e, inst->operands[1]);
  vtb__term minus = vtb__term_copy(r, by);
  minus.coef = -minus.coef;
  switch (inst->op) {
  case VTB_OP_add:
  case VTB_OP_sub:
    return expand_operand(r, v, 0, by, axis, e) &&
           expand_operand(r, v, 1, inst->op == VTB_OP_sub ? &minus : by, axis, e);
  case VTB_OP_neg:
    return expand_operand(r, v, 0, &minus, axis, e);
  case VTB_OP_mul:
  case VTB_OP_div:
    if (second && inst->op == VTB_OP_div)
      return nonlinear(r, inst, e->states[0], "divides by a state");
    if (first && second) return nonlinear(r, inst, e->states[0], "multiplies two states");
    if (!first && !second) return expand_given_product(r, v, by, axis, e);
    return expand_product(r, v, second, by, axis, e);
  case VTB_OP_select:
    if (first) return nonlinear(r, inst, e->states[0], "decides by a state");
    return expand_branch(r, v, 1, by, axis, e) && expand_branch(r, v, 2, by, axis, e);
  case VTB_OP_reshape:
  case VTB_OP_broadcast:
    if (!first || vtb_type_equal(&inst->operands[0]->type, &v->type))
      return expand_operand(r, v, 0, by, axis, e);
    return not_diagonal(r, inst, e->states[0], "moves the state's elements");
  case VTB_OP_square:
    return nonlinear(r, inst, e->states[0], "multiplies two states");
  case VTB_OP_state_scale:
    return nonlinear(r, inst, e->states[0], "reads the running scale of the states");
  default:
    break;
  }
  if (vtb_op_get(inst->op)->klass == VTB_CLASS_ELEMENTWISE) {
    const char *what = vtb__text(r->step, "applies %s to a state", vtb_op_get(inst->op)->name);
    return nonlinear(r, inst, e->states[0], what);
  }
  if (inst->op == VTB_OP_einsum && first && second)
    return nonlinear(r, inst, e->states[0], "multiplies two states");
  return not_diagonal(r, inst, e->states[0], "mixes the state's elements");
}

/* ---- sums that no state enters --------------------------------------------------------------- */

static bool is_sum(const vtb_inst *d) { return d->op == VTB_OP_add || d->op == VTB_OP_sub; }

/* True if a gain that a running scale may have to carry is a factor of some part of a sum in v. One
 * that is at most 1 and varies over an axis of the state never is: a feature like max(k, 0) +
 * exp(min(k, 0)) stays one factor. */
static bool hides_gain(vtb__rec *r, const vtb_value *v, bool in_sum) {
  const vtb_inst *d = v->def;
  if (!d || r->budget-- <= 0 || vtb__rec_new_state(r, v) >= 0 ||
      !(vtb__rec_deps(r, v) & VTB__DEP_SEQ))
    return false;
  if (d->op == VTB_OP_exp)
    return in_sum && (vtb_type_count(&v->type) == 1 || !vtb__rec_is_bounded(d->operands[0]));
  if (d->op == VTB_OP_neg || d->op == VTB_OP_broadcast || d->op == VTB_OP_div ||
      (d->op == VTB_OP_reshape && vtb_type_unit_reshape(&v->type, &d->operands[0]->type)))
    return hides_gain(r, d->operands[0], in_sum);
  if (d->op != VTB_OP_mul && !is_sum(d)) return false;
  in_sum = in_sum || is_sum(d);
  return hides_gain(r, d->operands[0], in_sum) || hides_gain(r, d->operands[1], in_sum);
}

/* Sums that no state enters are taken apart only where gains are inside and are to be told
 * apart. */
static bool expand(vtb__rec *r, vtb_value *v, const vtb__term *by, const int *axis, expansion *e) {
  bool pair = e->n > 1;
  vtb__state *s = &r->states[e->states[0]];
  if (pair && e->factors[0].n + e->factors[1].n + e->rest.n > VTB__MAX_PAIR_TERMS) return false;
  if (r->expansions++ >= MAX_EXPANSIONS) return too_long(r, s);
  for (int k = 0; k < e->n; k++) {
    if (v != r->states[e->states[k]].old) continue;
    vtb__put(r->step, &e->factors[k], vtb__term_copy(r, by));
    return true;
  }
  if (given(r, e, v)) {
    if (!pair && hides_gain(r, v, false)) return expand_inst(r, v, by, axis, e);
    vtb__term t = vtb__term_copy(r, by);
    vtb__rec_multiply(r, &t, v, 1, axis);
    vtb__put(r->step, &e->rest, t);
    return true;
  }
  if (!v->def)
    return cross_state(r, s->now->def ? s->now->def->span : r->inst->span, e->states[0], v->index);
  int other = vtb__rec_new_state(r, v);
  if (other >= 0 && other != e->states[0] && !pair)
    return cross_state(r, v->def->span, e->states[0], other);
  /* Along the way to the state only its own shape may occur: anything else spreads or sums its
   * elements. */
  if (!vtb_type_equal(&v->type, s->type))
    return not_diagonal(r, v->def, e->states[0], "does not have the state's shape");
  return expand_inst(r, v, by, axis, e);
}

bool vtb__rec_expand(vtb__rec *r, int state, expansion *e) {
  vtb_value *now = r->states[state].now;
  vtb__factor whole = vtb__factor_of(now, r->states[state].type->rank);
  return expand(r, now, &(vtb__term){.coef = 1}, whole.axis, e);
}

/* ---- sums of several terms ------------------------------------------------------------------- */

static bool all_same_gains(vtb__rec *r, const terms *all) {
  for (size_t i = 1; i < all->n; i++)
    if (!vtb__same_gains(r, &all->at[0], &all->at[i])) return false;
  return true;
}

/* The sum of terms as one term: gains that all of them have stay factors, the rest becomes one
 * value. */
static vtb__term join(vtb__rec *r, const terms *all, int rank) {
  if (all->n == 1) return all->at[0];
  vtb__term joined = {.coef = 1};
  if (all_same_gains(r, all)) joined = vtb__term_part(r, &all->at[0], VTB__A_GAIN, 0, true);
  vtb_builder b = {.module = r->step->module, .func = r->step, .span = r->inst->span};
  vtb_value *sum = NULL;
  for (size_t j = 0; j < all->n; j++) {
    vtb__term rest = vtb__term_copy(r, &all->at[j]);
    for (int i = 0; i < joined.n; i++) vtb__term_take(&rest, &joined.at[i]);
    vtb_value *v = vtb__term_value(&b, &rest, rank);
    sum = vtb__joined(&b, VTB_OP_add, sum, v);
  }
  vtb__term_push(r, &joined, vtb__factor_of(sum, rank));
  return joined;
}

/* One term for each set of gains, in order of first occurrence; a zero term if there is none. */
static int join_all(vtb__rec *r, const terms *all, int rank, vtb__term **out) {
  *out = VTB_SCRATCH(r->step, vtb__term, all->n);
  int n = 0;
  bool *done = VTB_SCRATCH(r->step, bool, all->n);
  for (size_t i = 0; i < all->n; i++) {
    if (done[i]) continue;
    terms group = {0};
    for (size_t j = i; j < all->n; j++) {
      if (done[j] || !vtb__same_gains(r, &all->at[i], &all->at[j])) continue;
      done[j] = true;
      vtb__put(r->step, &group, all->at[j]);
    }
    (*out)[n++] = join(r, &group, rank);
  }
  if (n == 0) (*out)[n++] = (vtb__term){.coef = 0};
  return n;
}

void vtb__rec_find_reach(vtb__rec *r) {
  r->reach = VTB_SCRATCH(r->step, uint64_t, r->n_states);
  for (int i = 0; i < r->n_states; i++)
    r->reach[i] = vtb__rec_deps(r, r->states[i].now) & VTB__DEP_STATES;
  for (int k = 0; k < r->n_states; k++)
    for (int i = 0; i < r->n_states; i++)
      if (r->reach[i] >> k & 1) r->reach[i] |= r->reach[k];
}

bool vtb__rec_normal_form(vtb__rec *r) {
  bool good = true;
  vtb__rec_find_reach(r);
  for (int i = 0; i < r->n_states; i++) {
    vtb__state *s = &r->states[i];
    expansion e = {.states = {i}, .n = 1};
    if (s->delta) continue;
    if (vtb__rec_expand(r, i, &e)) {
      s->a = e.factors[0].n ? join(r, &e.factors[0], s->type->rank) : (vtb__term){.coef = 0};
      s->n_u = join_all(r, &e.rest, s->type->rank, &s->u);
    } else {
      good = false;
    }
  }
  return good;
}

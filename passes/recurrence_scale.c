/* Stabilisation: a factor exp(i_t) on an update is an unbounded gain, so the states are kept
 * relative to a running scale e^m.
 *
 *   g = log of the decay, i = log of the gain, one number a head and step
 *   m_t = max(m_{t-1} + g_t, i_t)     decay exp(g_t + m_{t-1} - m_t)     gain exp(i_t - m_t)
 *
 * States with different g or i share one m, made from the larger of each; then no state overflows.
 * Factors exp(x) and sigmoid(x) of a decay stay logarithms, others enter m by the logarithm of
 * their magnitude and the decay as they are, so that a decay of zero gives exactly zero; a scale
 * that the program can see (state_scale, final states) is made of the exponentials alone, as
 * ir/recurrence.h defines it. Declines with a diagnostic when g or i varies over a state axis,
 * unless every such gain is at most 1.
 */
#include "ir/scalar.h"
#include "passes/recurrence.h"

#include <stdlib.h>

/* Values that stand for minus infinity, and the largest exponent that float32 takes. */
#define MINUS_INFINITY (-1e30)
#define LARGEST_EXPONENT 88.0
#define SMALLEST_DECAY 1e-30

/* ---- bounded gains --------------------------------------------------------------------------- */

enum { MAX_DEPTH = 8 }; /* every product is looked at four times */

static bool has_sign(const vtb_value *v, int sign, int depth);

/* By the value at zero and how the op moves from there. */
static bool moves_to(const vtb_inst *d, const vtb_scalar *row, int sign, int depth) {
  static const double zeros[VTB_SCALAR_OPERANDS] = {0};
  bool is = sign * vtb_scalar_eval(d->op, zeros) >= 0;
  for (int i = 0; is && i < d->n_operands; i++) {
    char way = row->monotone[i];
    is = way != '.' && has_sign(d->operands[i], way == '+' ? sign : -sign, depth);
  }
  return is;
}

static bool op_has_sign(const vtb_inst *d, const vtb_scalar *row, int sign, int depth) {
  vtb_value *const *x = d->operands;
  switch (row->sign) {
  case VTB_SIGN_nonnegative:
  case VTB_SIGN_nonpositive:
    return (row->sign == VTB_SIGN_nonnegative) == (sign > 0);
  case VTB_SIGN_product:
    return (has_sign(x[0], 1, depth) && has_sign(x[1], sign, depth)) ||
           (has_sign(x[0], -1, depth) && has_sign(x[1], -sign, depth));
  case VTB_SIGN_largest:
  case VTB_SIGN_smallest:
    if ((row->sign == VTB_SIGN_largest) == (sign > 0))
      return has_sign(x[0], sign, depth) || has_sign(x[1], sign, depth);
    break;
  case VTB_SIGN_any:
    break;
  }
  return moves_to(d, row, sign, depth);
}

/* Whether v >= 0 (sign 1) or v <= 0 (sign -1) everywhere, as far as the rows of its ops tell. */
static bool has_sign(const vtb_value *v, int sign, int depth) {
  double c;
  if (vtb__splat(v, &c)) return sign * c >= 0;
  const vtb_inst *d = v->def;
  if (!d || depth > MAX_DEPTH) return false;
  if (d->op == VTB_OP_reshape || d->op == VTB_OP_broadcast)
    return has_sign(d->operands[0], sign, depth + 1);
  const vtb_scalar *row = vtb_scalar_get(d->op);
  return row && op_has_sign(d, row, sign, depth + 1);
}

bool vtb__rec_is_bounded(const vtb_value *log_gain) { return has_sign(log_gain, -1, 0); }

bool vtb__rec_at_most_one(const vtb__factor *f) {
  const vtb_value *x = f->v->def->operands[0];
  return has_sign(x, -f->sign, 0);
}

/* ---- deciding -------------------------------------------------------------------------------- */

static const vtb__factor *varying(const vtb__term *t) {
  for (int i = 0; i < t->n; i++)
    if (vtb__factor_axes(&t->at[i])) return &t->at[i];
  return NULL;
}

static vtb_span span_of(const vtb__rec *r, const vtb_value *v) {
  return v->def ? v->def->span : r->inst->span;
}

static bool refuse(vtb__rec *r, const vtb__state *s, const vtb_value *v, const char *what) {
  vtb_diag_error(r->diags, VTB_DIAG_NOT_STABILISABLE, span_of(r, v),
                 "the running scale of state %s must be one number a head, but its %s varies over "
                 "a state axis: `%s`",
                 s->old->name, what, v->def ? vtb__rec_text(r, v->def) : v->name);
  vtb_diag_help(
      r->diags,
      "bound the gain, as in exp(log_sigmoid(i)) or exp(min(i, 0)), and no scale is needed");
  return false;
}

/* The first thing that keeps the scale from being one number a head; says so if `say`. */
static bool scale_fits(vtb__rec *r, bool say) {
  for (int j = 0; j < r->n_states; j++) {
    const vtb__state *s = &r->states[j];
    const vtb__factor *f = s->a.coef == 0 ? NULL : varying(&s->a);
    if (f) return say ? refuse(r, s, f->v, "decay") : false;
    for (int k = 0; k < s->n_u; k++)
      for (int i = 0; i < s->u[k].n; i++)
        if (vtb__is_gain(r, &s->u[k].at[i]) && vtb__factor_axes(&s->u[k].at[i]))
          return say ? refuse(r, s, s->u[k].at[i].v, "gain") : false;
  }
  return true;
}

/* With a scale, the value of another state is not a plain number of this step. */
static bool reads_states(vtb__rec *r, const vtb__state *s, const vtb__term *t) {
  for (int i = 0; i < t->n; i++) {
    if (!(vtb__rec_deps(r, t->at[i].v) & VTB__DEP_STATES)) continue;
    vtb_diag_error(
        r->diags, VTB_DIAG_STATES_COUPLED, span_of(r, t->at[i].v),
        "state %s reads another state, and the states of this recurrence carry a running scale",
        s->old->name);
    vtb_diag_help(r->diags, "write two recurrences in sequence");
    return true;
  }
  return false;
}

typedef struct gains {
  bool any, bounded;
} gains;

static gains find_gains(vtb__rec *r) {
  gains g = {.bounded = true};
  for (int j = 0; j < r->n_states; j++)
    for (int k = 0; k < r->states[j].n_u; k++) {
      const vtb__term *u = &r->states[j].u[k];
      for (int i = 0; i < u->n && u->coef != 0; i++) {
        if (!vtb__is_gain(r, &u->at[i])) continue;
        g.any = true;
        g.bounded &= vtb__rec_at_most_one(&u->at[i]);
      }
    }
  return g;
}

static bool reads_scale(const vtb__rec *r) {
  for (const vtb_inst *inst = r->step->first; inst; inst = inst->next)
    if (inst->op == VTB_OP_state_scale) return true;
  return false;
}

static bool final_results_used(const vtb__rec *r) {
  int *uses = vtb_count_uses(r->inst->func);
  bool used = false;
  for (int i = r->n_yields; i < r->inst->n_results; i++) used |= uses[r->inst->results[i]->id] > 0;
  vtb_free(uses);
  return used;
}

/* Corrections have no running scale: they would read the state on the step before's. */
static bool fits_corrections(vtb__rec *r, const gains *g) {
  for (int j = 0; j < r->n_states; j++) {
    const vtb__state *s = &r->states[j];
    if (!s->delta || (g->bounded && !reads_scale(r))) continue;
    vtb_diag_error(
        r->diags, VTB_DIAG_NOT_DIAGONAL, span_of(r, s->now),
        "state %s is corrected by what is read of it, and a gain of this recurrence needs "
        "a running scale",
        s->old->name);
    vtb_diag_help(r->diags, "bound the gain, as in exp(log_sigmoid(i)), or write two recurrences");
    return false;
  }
  return true;
}

static bool has_corrections(const vtb__rec *r) {
  for (int j = 0; j < r->n_states; j++)
    if (r->states[j].delta) return true;
  return false;
}

bool vtb__rec_decide_scale(vtb__rec *r) {
  gains g = find_gains(r);
  if (has_corrections(r)) return fits_corrections(r, &g);
  r->exact_scale = reads_scale(r) || final_results_used(r);
  r->scaled = g.any && (scale_fits(r, false) || !g.bounded || reads_scale(r));
  if (!r->scaled) return true;
  bool good = scale_fits(r, true);
  for (int j = 0; j < r->n_states && good; j++) {
    good = !reads_states(r, &r->states[j], &r->states[j].a);
    for (int k = 0; k < r->states[j].n_u && good; k++)
      good = !reads_states(r, &r->states[j], &r->states[j].u[k]);
  }
  return good;
}

/* ---- emission -------------------------------------------------------------------------------- */

static vtb_value *on_heads(vtb__rec *r, vtb__lifted x) { return vtb__rec_full(r, x, NULL, 0); }

static vtb__lifted constant(vtb__rec *r, double c) {
  return (vtb__lifted){.v = vtb_b_constant(&r->b, c)};
}

/* A factor that varies over no state axis, without the axes of size 1 it may have. */
static vtb__lifted scalar_factor(vtb__rec *r, vtb_value *v) {
  vtb__term t = {.coef = 1};
  vtb__factor f = {.v = v, .sign = 1};
  for (int a = 0; a < v->type.rank; a++) f.axis[a] = -1;
  vtb__term_push(r, &t, f);
  return vtb__rec_product(r, &t, 0, NULL, 0);
}

static vtb__lifted plus(vtb__rec *r, vtb__lifted sum, vtb__lifted x, int sign) {
  if (!sum.v && sign > 0) return x;
  if (!sum.v) sum = constant(r, 0);
  return vtb__rec_binary(r, sign > 0 ? VTB_OP_add : VTB_OP_sub, sum, x);
}

/* The logarithms among the factors of a decay; what is left over multiplies into *rest (coefficient
 * included). */
static vtb__lifted log_decay(vtb__rec *r, const vtb__state *s, vtb__lifted *rest) {
  vtb__lifted g = {0};
  vtb__term others = {.coef = s->a.coef};
  for (int i = 0; i < s->a.n; i++) {
    const vtb__factor *f = &s->a.at[i];
    const vtb_inst *d = f->v->def;
    if (d && d->op == VTB_OP_exp) {
      g = plus(r, g, scalar_factor(r, d->operands[0]), f->sign);
    } else if (d && d->op == VTB_OP_sigmoid && !r->exact_scale) {
      vtb__lifted x = scalar_factor(r, d->operands[0]);
      x.v = vtb_b_unary(&r->b, VTB_OP_log_sigmoid, x.v);
      g = plus(r, g, x, f->sign);
    } else {
      vtb__term_push(r, &others, *f);
    }
  }
  *rest = (vtb__lifted){0};
  if (others.n || others.coef != 1) *rest = vtb__rec_product(r, &others, 0, NULL, 0);
  return g.v ? g : constant(r, 0);
}

static vtb_value *log_of_decay(vtb__rec *r, const vtb__state *s) {
  vtb__lifted rest, g = log_decay(r, s, &rest);
  if (rest.v && !r->exact_scale) {
    vtb__lifted size = rest;
    size.v = vtb_b_unary(&r->b, VTB_OP_abs, size.v);
    size = vtb__rec_binary(r, VTB_OP_max, size, constant(r, SMALLEST_DECAY));
    size.v = vtb_b_unary(&r->b, VTB_OP_log, size.v);
    g = vtb__rec_binary(r, VTB_OP_add, g, size);
  }
  return on_heads(r, g);
}

static vtb_value *log_of_gain(vtb__rec *r, const vtb__term *u) {
  vtb__lifted i = {0};
  for (int k = 0; k < u->n; k++)
    if (vtb__is_gain(r, &u->at[k]))
      i = plus(r, i, scalar_factor(r, u->at[k].v->def->operands[0]), u->at[k].sign);
  return on_heads(r, i.v ? i : constant(r, 0));
}

static vtb__term gains_of(vtb__rec *r, const vtb__term *u) {
  vtb__term t = {.coef = 1};
  for (int k = 0; k < u->n; k++)
    if (vtb__is_gain(r, &u->at[k])) vtb__term_push(r, &t, u->at[k]);
  return t;
}

typedef VTB_VEC(vtb__term) term_list;

/* Adds `t` unless an equal product is there. */
static bool add_new(term_list *list, vtb__term t) {
  for (size_t i = 0; i < list->n; i++)
    if (vtb__terms_match(&list->at[i], 0, &t, 0)) return false;
  vtb_vec_push(list, t);
  return true;
}

static vtb_value *larger(vtb__rec *r, vtb_value *x, vtb_value *y) {
  return x ? vtb_b_binary(&r->b, VTB_OP_max, x, y) : y;
}

/* The largest of all terms' log gains. */
static vtb_value *largest_gain(vtb__rec *r) {
  term_list seen = {0};
  vtb_value *i = NULL;
  for (int j = 0; j < r->n_states; j++)
    for (int k = 0; k < r->states[j].n_u; k++) {
      const vtb__term *u = &r->states[j].u[k];
      if (u->coef != 0 && add_new(&seen, gains_of(r, u))) i = larger(r, i, log_of_gain(r, u));
    }
  vtb_vec_free(&seen);
  return i;
}

/* The largest of all states' log decays. */
static vtb_value *largest_decay(vtb__rec *r) {
  term_list seen = {0};
  vtb_value *g = NULL;
  for (int j = 0; j < r->n_states; j++)
    if (add_new(&seen, r->states[j].a)) g = larger(r, g, log_of_decay(r, &r->states[j]));
  vtb_vec_free(&seen);
  return g;
}

static vtb_value *initial_scale(vtb__rec *r) {
  vtb_type t = {.dtype = VTB_F32, .rank = 2, .dim = {r->batch, r->heads}};
  if (r->n_inits == r->n_states + 1)
    return vtb_b_reshape(&r->b, r->inst->operands[r->n_states], &t);
  return r->n_inits ? vtb_b_splat(&r->b, 0, &t) : NULL;
}

void vtb__rec_emit_scale(vtb__rec *r) {
  if (!r->scaled) return;
  vtb_value *i = largest_gain(r);
  r->g = largest_decay(r);
  r->m_init = initial_scale(r);
  vtb_value *operands[] = {r->g, i, r->m_init};
  vtb_attr attrs[2];
  int n_attrs = vtb__rec_order(r, attrs);
  r->b.name_hint = "m";
  r->m = vtb_build(&r->b, VTB_OP_maxplus, operands, r->m_init ? 3 : 2, attrs, n_attrs)->results[0];
  vtb__swap_names(r->m, r->inst->results[r->n_yields + r->n_states]);
  r->b.name_hint = "m_prev";
  r->m_prev = vtb__rec_shift(r, r->m, 1, MINUS_INFINITY, r->m_init);
}

vtb_value *vtb__rec_scaled_decay(vtb__rec *r, const vtb__state *s) {
  vtb__lifted rest, g = log_decay(r, s, &rest);
  vtb_value *d = vtb_b_binary(&r->b, VTB_OP_add, on_heads(r, g), r->m_prev);
  d = vtb_b_binary(&r->b, VTB_OP_sub, d, r->m);
  r->b.name_hint = "decay";
  d = vtb_b_unary(&r->b, VTB_OP_exp, d);
  return rest.v ? vtb_b_binary(&r->b, VTB_OP_mul, d, on_heads(r, rest)) : d;
}

vtb_value *vtb__rec_scaled_gain(vtb__rec *r, const vtb__term *u) {
  vtb_value *log = vtb_b_binary(&r->b, VTB_OP_sub, log_of_gain(r, u), r->m);
  r->b.name_hint = "gain";
  return vtb_b_unary(&r->b, VTB_OP_exp, log);
}

vtb__lifted vtb__rec_times_scale(vtb__rec *r, vtb__lifted x, double p) {
  if (p == 0) return x;
  vtb__lifted e = {.v = r->m, .lead = 3};
  if (p != 1)
    e.v = p == -1 ? vtb_b_unary(&r->b, VTB_OP_neg, e.v)
                  : vtb_b_binary(&r->b, VTB_OP_mul, e.v, vtb_b_constant(&r->b, p));
  if (p < 0) e.v = vtb_b_binary(&r->b, VTB_OP_min, e.v, vtb_b_constant(&r->b, LARGEST_EXPONENT));
  e.v = vtb_b_unary(&r->b, VTB_OP_exp, e.v);
  double degree = x.degree;
  x.degree = 0;
  x = vtb__rec_binary(r, VTB_OP_mul, x, e);
  x.degree = degree;
  return x;
}

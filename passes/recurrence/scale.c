/* Stabilisation: a factor exp(i_t) on an update is an unbounded gain, so states are kept relative
 * to a running scale e^m (groups.c says which).
 *
 *   g = log of the decay, i = log of the gain, one number a head and step, or an index of the state
 *   m_t = max(m_{t-1} + g_t, i_t)     decay exp(g_t + m_{t-1} - m_t)     gain exp(i_t - m_t)
 *
 * Where the states of a scale or the terms of an update have several g or i, the larger counts.
 * Factors exp(x) and sigmoid(x) of a decay stay logarithms, others enter m by the logarithm of
 * their magnitude and the decay as they are, so that a decay of zero gives exactly zero; a scale
 * that the program can see (state_scale, final states) is made of the exponentials alone, as
 * ir/recurrence.h defines it. Final states are relative to one scale, the largest of all.
 */
#include "passes/recurrence/recurrence.h"

/* Values that stand for minus infinity, and for the logarithm of nothing. */
#define MINUS_INFINITY (-1e30)
#define SMALLEST_DECAY 1e-30

static vtb__scale *scale_of(vtb__rec *r, const vtb__state *s) { return &r->scales.at[s->scale]; }

static vtb_value *full(vtb__rec *r, vtb__lifted x, const vtb__scale *k) {
  return vtb__rec_full(r, x, k->dims, k->rank);
}

/* v, which stands where the factor does, on the scale's frame; of one number a head without the
 * axes of size 1 it may have. */
static vtb__lifted on_scale(vtb__rec *r, const vtb__scale *k, const vtb__factor *like,
                            vtb_value *v) {
  vtb__term t = {.coef = 1};
  vtb__factor f = {.v = v, .sign = 1};
  for (int a = 0; a < v->type.rank; a++) f.axis[a] = k->rank ? like->axis[a] : -1;
  vtb__term_push(r, &t, f);
  return vtb__rec_product(r, &t, k->rank ? ~0u : 0, NULL, k->rank);
}

static vtb__lifted plus(vtb__rec *r, vtb__lifted sum, vtb__lifted x, int sign) {
  if (!sum.v && sign > 0) return x;
  if (!sum.v) sum = vtb__rec_number(r, 0);
  return vtb__rec_binary(r, sign > 0 ? VTB_OP_add : VTB_OP_sub, sum, x);
}

/* The logarithms among the factors of a decay; what is left over multiplies into *rest (coefficient
 * included). */
static vtb__lifted log_decay(vtb__rec *r, const vtb__state *s, vtb__lifted *rest) {
  const vtb__scale *k = scale_of(r, s);
  vtb__lifted g = {0};
  vtb__term others = {.coef = s->a.coef};
  for (int i = 0; i < s->a.n; i++) {
    const vtb__factor *f = &s->a.at[i];
    const vtb_inst *d = f->v->def;
    if (d && d->op == VTB_OP_exp) {
      g = plus(r, g, on_scale(r, k, f, d->operands[0]), f->sign);
    } else if (d && d->op == VTB_OP_sigmoid && !r->exact_scale) {
      vtb__lifted x = on_scale(r, k, f, d->operands[0]);
      x.v = vtb_b_unary(&r->b, VTB_OP_log_sigmoid, x.v);
      g = plus(r, g, x, f->sign);
    } else {
      vtb__term_push(r, &others, *f);
    }
  }
  *rest = (vtb__lifted){0};
  if (others.n || others.coef != 1)
    *rest = vtb__rec_product(r, &others, k->rank ? ~0u : 0, NULL, k->rank);
  return g.v ? g : vtb__rec_number(r, 0);
}

static vtb_value *log_of_decay(vtb__rec *r, const vtb__state *s) {
  vtb__lifted rest, g = log_decay(r, s, &rest);
  if (rest.v && !r->exact_scale) {
    vtb__lifted size = rest;
    size.v = vtb_b_unary(&r->b, VTB_OP_abs, size.v);
    size = vtb__rec_binary(r, VTB_OP_max, size, vtb__rec_number(r, SMALLEST_DECAY));
    size.v = vtb_b_unary(&r->b, VTB_OP_log, size.v);
    g = vtb__rec_binary(r, VTB_OP_add, g, size);
  }
  return full(r, g, scale_of(r, s));
}

static vtb_value *log_of_gain(vtb__rec *r, const vtb__state *s, const vtb__term *u) {
  const vtb__scale *k = scale_of(r, s);
  vtb__lifted i = {0};
  for (int n = 0; n < u->n; n++)
    if (vtb__is_gain(r, &u->at[n]))
      i = plus(r, i, on_scale(r, k, &u->at[n], u->at[n].v->def->operands[0]), u->at[n].sign);
  return full(r, i.v ? i : vtb__rec_number(r, 0), k);
}

/* Adds `t` unless an equal product is there. */
static bool add_new(vtb__rec *r, vtb__terms *list, vtb__term t) {
  for (size_t i = 0; i < list->n; i++)
    if (vtb__terms_same(&list->at[i], &t)) return false;
  vtb__put(r->step, list, t);
  return true;
}

static vtb_value *larger(vtb__rec *r, vtb_value *x, vtb_value *y) {
  return vtb__joined(&r->b, VTB_OP_max, x, y);
}

/* A normalizer has what its matrix has. */
static bool counts(const vtb__rec *r, int state, int scale) {
  const vtb__state *s = &r->states[state];
  return s->scale == scale && (s->leader < 0 || !r->scales.at[scale].rank);
}

/* The largest log gain of all terms, or log decay of all states; equal ones count once. */
static vtb_value *largest(vtb__rec *r, int scale, bool gain) {
  vtb__terms seen = {0};
  vtb_value *all = NULL;
  for (int j = 0; j < r->n_states; j++) {
    const vtb__state *s = &r->states[j];
    for (int k = 0; k < (gain ? s->n_u : 1) && counts(r, j, scale); k++) {
      const vtb__term *t = gain ? &s->u[k] : &s->a;
      if (gain && t->coef == 0) continue;
      if (add_new(r, &seen, gain ? vtb__term_part(r, t, VTB__A_GAIN, 0, true) : *t))
        all = larger(r, all, gain ? log_of_gain(r, s, t) : log_of_decay(r, s));
    }
  }
  return all;
}

static vtb_value *initial_scale(vtb__rec *r, const vtb__scale *k) {
  vtb_type t = vtb__rec_type(r, 2, k->dims, k->rank), one = vtb__ones_behind(&t, 2);
  if (r->n_inits != r->n_states + 1) return r->n_inits ? vtb_b_splat(&r->b, 0, &t) : NULL;
  vtb_value *m = vtb_b_reshape(&r->b, r->inst->operands[r->n_states], &one);
  return vtb_b_stretched(&r->b, m, &t);
}

static void emit_one(vtb__rec *r, int scale) {
  vtb_value *i = largest(r, scale, true), *g = largest(r, scale, false);
  vtb__scale *k = &r->scales.at[scale];
  k->g = g;
  k->init = initial_scale(r, k);
  vtb_value *operands[] = {g, i, k->init};
  vtb_attr attrs[2];
  int n_attrs = vtb__rec_order(r, attrs);
  r->b.name_hint = "m";
  vtb_value *m =
      vtb_build(&r->b, VTB_OP_maxplus, operands, k->init ? 3 : 2, attrs, n_attrs)->results[0];
  k->m = (vtb__lifted){.v = m, .lead = 3, .rank = k->rank};
  if (scale == 0) vtb__swap_names(m, r->inst->results[r->n_yields + r->n_states]);
  r->b.name_hint = "m_prev";
  k->prev = vtb__rec_shift(r, m, 1, MINUS_INFINITY, k->init);
}

void vtb__rec_emit_scale(vtb__rec *r) {
  for (int k = 0; k < r->n_scales; k++) emit_one(r, k);
  for (int k = 0; k < r->n_scales; k++) vtb__rec_flat_scale(r, k);
}

/* ---- decays and gains ------------------------------------------------------------------------ */

vtb_value *vtb__rec_scaled_decay(vtb__rec *r, const vtb__state *s) {
  const vtb__scale *k = scale_of(r, s);
  vtb__lifted rest, g = log_decay(r, s, &rest);
  vtb_value *d = vtb_b_binary(&r->b, VTB_OP_add, full(r, g, k), k->prev);
  d = vtb_b_binary(&r->b, VTB_OP_sub, d, k->m.v);
  r->b.name_hint = "decay";
  d = vtb_b_unary(&r->b, VTB_OP_exp, d);
  return rest.v ? vtb_b_binary(&r->b, VTB_OP_mul, d, full(r, rest, k)) : d;
}

vtb_value *vtb__rec_scaled_gain(vtb__rec *r, const vtb__state *s, const vtb__term *u) {
  vtb_value *log = vtb_b_binary(&r->b, VTB_OP_sub, log_of_gain(r, s, u), scale_of(r, s)->m.v);
  r->b.name_hint = "gain";
  return vtb_b_unary(&r->b, VTB_OP_exp, log);
}

/* ---- after the sequence ---------------------------------------------------------------------- */

vtb_value *vtb__rec_last_token(vtb__rec *r, vtb_value *x) {
  int64_t last = vtb__path_end(r->b.module, r->path, r->tokens.size, true);
  vtb_type t = vtb_type_without_axis(&x->type, 1);
  return vtb_b_reshape(&r->b, vtb_b_slice(&r->b, x, 1, last, last + 1, 1), &t);
}

/* The last value of one scale. With no initial one given it starts from m_0 = 0, so it is at least
 * the sum of all g. */
static vtb_value *last_scale(vtb__rec *r, const vtb__scale *k) {
  vtb_value *m = vtb__rec_last_token(r, k->m.v);
  if (r->n_inits) return m;
  vtb_value *sum = vtb_b_reduce(&r->b, VTB_OP_reduce_sum, k->g, (int64_t[]){1}, 1, false);
  return vtb_b_binary(&r->b, VTB_OP_max, m, sum);
}

static bool all_scaled(const vtb__rec *r) {
  for (int j = 0; j < r->n_states; j++)
    if (r->states[j].scale < 0) return false;
  return true;
}

vtb_value *vtb__rec_common_scale(vtb__rec *r) {
  vtb_value *all = NULL;
  for (int k = 0; k < r->n_scales; k++)
    all = larger(r, all, vtb__rec_largest(r, last_scale(r, &r->scales.at[k]), 2));
  return all_scaled(r) ? all : larger(r, all, vtb_b_constant(&r->b, 0));
}

vtb_value *vtb__rec_to_common(vtb__rec *r, const vtb__state *s) {
  bool alone = r->n_scales == 1 && r->scales.at[0].rank == 0 && all_scaled(r);
  if (!r->n_scales || (alone && r->n_inits)) return NULL;
  vtb_value *to = vtb__rec_common_scale(r);
  if (s->scale < 0) return vtb_b_unary(&r->b, VTB_OP_exp, vtb_b_unary(&r->b, VTB_OP_neg, to));
  const vtb__scale *k = scale_of(r, s);
  vtb_type all = vtb__rec_type(r, 2, k->dims, k->rank), one = vtb__ones_behind(&all, 2);
  if (k->rank) to = vtb_b_reshape(&r->b, to, &one);
  vtb_value *d = vtb_b_binary(&r->b, VTB_OP_sub, vtb__rec_last_token(r, k->m.v), to);
  return vtb_b_unary(&r->b, VTB_OP_exp, d);
}

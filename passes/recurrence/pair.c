/* Pairs of states that turn each other: a complex state written as two real ones.
 *
 *   re' = p re - q im + x       p = rho cos(theta)
 *   im' = q re + p im + y       q = rho sin(theta)
 *
 * Both updates are multiplied out in the two states. A pair it is when what multiplies a state in
 * its own update is the same for both and what multiplies the other differs in the sign alone, in
 * any order of factors and terms. Where p and q are one magnitude times the cosine and sine of one
 * angle, these are taken as written, so that a magnitude exp(.) stays a logarithm and may have any
 * sign. Otherwise rho = sqrt(p^2 + q^2) and theta = atan2(q, p), where p = q = 0 gives 0 and no
 * gradient.
 */
#include "passes/recurrence/recurrence.h"

#include <math.h>
#include <string.h>

/* p^2 + q^2 from here down counts as 0: the root's slope stays a number. */
#define SMALLEST_SQUARE 1e-30

typedef vtb__terms terms;

/* ---- comparing ------------------------------------------------------------------------------- */

/* The sums are x and sign times the same. */
static bool same_sums(const terms *x, const terms *y, int sign) {
  bool used[VTB__MAX_PAIR_TERMS + 1] = {false};
  if (x->n != y->n || x->n == 0 || x->n > VTB__MAX_PAIR_TERMS) return false;
  for (size_t i = 0; i < x->n; i++) {
    size_t j = 0;
    while (j < y->n && (used[j] || x->at[i].coef != sign * y->at[j].coef ||
                        !vtb__factors_same(&x->at[i], &y->at[j])))
      j++;
    if (j == y->n) return false;
    used[j] = true;
  }
  return true;
}

/* Moves the factors that all terms of both sums have into the result. */
static vtb__term take_common(vtb__rec *r, terms *x, terms *y) {
  vtb__term common = {.coef = 1};
  const vtb__term *some = x->n ? &x->at[0] : y->n ? &y->at[0] : NULL;
  vtb__term wanted = some ? vtb__term_copy(r, some) : common;
  for (int i = 0; i < wanted.n; i++) {
    bool everywhere = true;
    for (size_t j = 0; j < x->n + y->n && everywhere; j++) {
      vtb__term t = vtb__term_copy(r, j < x->n ? &x->at[j] : &y->at[j - x->n]);
      everywhere = vtb__term_take(&t, &wanted.at[i]);
    }
    if (!everywhere) continue;
    for (size_t j = 0; j < x->n + y->n; j++)
      vtb__term_take(j < x->n ? &x->at[j] : &y->at[j - x->n], &wanted.at[i]);
    vtb__term_push(r, &common, wanted.at[i]);
  }
  return common;
}

/* ---- values of the step ---------------------------------------------------------------------- */

/* NULL for an empty sum. */
static vtb_value *sum_of(vtb_builder *b, const terms *x, int rank) {
  vtb_value *sum = NULL;
  for (size_t i = 0; i < x->n; i++)
    sum = vtb__joined(b, VTB_OP_add, sum, vtb__term_value(b, &x->at[i], rank));
  return sum;
}

/* ---- magnitude and angle --------------------------------------------------------------------- */

/* The operand of op without its sign. */
static vtb_value *angle_of(const vtb__factor *f, vtb_op op, double *sign) {
  if (!f->v->def || f->v->def->op != op || f->sign < 0) return NULL;
  vtb_value *x = f->v->def->operands[0];
  while (x->def && x->def->op == VTB_OP_neg) x = x->def->operands[0], *sign = -*sign;
  return x;
}

/* p = M cos(x), q = +-M sin(x). */
static bool as_written(vtb__rec *r, vtb_builder *b, const vtb__term *p, const vtb__term *q,
                       vtb__pair *out) {
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < q->n; k++) {
      double sign = 1, even = 1;
      vtb_value *x = angle_of(&p->at[i], VTB_OP_cos, &even),
                *y = angle_of(&q->at[k], VTB_OP_sin, &sign);
      if (!x || x != y || vtb__factor_axes(&p->at[i]) != vtb__factor_axes(&q->at[k]) ||
          fabs(p->coef) != fabs(q->coef))
        continue;
      vtb__term m = vtb__term_copy(r, p), rest = vtb__term_copy(r, q);
      vtb__term_take(&m, &p->at[i]), vtb__term_take(&rest, &q->at[k]);
      if (!vtb__factors_same(&m, &rest)) continue;
      vtb__factor angle = {.v = x, .sign = 1};
      memcpy(angle.axis, p->at[i].axis, sizeof angle.axis);
      out->rho = m;
      out->angle = vtb__factor_value(b, &angle, out->rank);
      if (sign * q->coef / p->coef < 0) out->angle = vtb_b_unary(b, VTB_OP_neg, out->angle);
      return true;
    }
  return false;
}

/* rho = sqrt(p^2 + q^2), theta = atan2(q, p), times what all terms share. */
static void by_magnitude(vtb__rec *r, vtb_builder *b, terms *p, terms *q, vtb__pair *out) {
  out->rho = take_common(r, p, q);
  vtb_value *x = sum_of(b, p, out->rank), *y = sum_of(b, q, out->rank);
  vtb_value *zero = vtb_b_constant(b, 0), *one = vtb_b_constant(b, 1);
  vtb_value *square = vtb_b_binary(b, VTB_OP_add, vtb_b_unary(b, VTB_OP_square, x),
                                   vtb_b_unary(b, VTB_OP_square, y));
  vtb_value *some = vtb_b_binary(b, VTB_OP_gt, square, vtb_b_constant(b, SMALLEST_SQUARE));
  vtb_value *rho = vtb_b_unary(b, VTB_OP_sqrt, vtb_b_select(b, some, square, one));
  rho = vtb_b_select(b, some, rho, zero);
  vtb__term_push(r, &out->rho, vtb__factor_of(rho, out->rank));
  out->angle =
      vtb_b_binary(b, VTB_OP_atan2, vtb_b_select(b, some, y, zero), vtb_b_select(b, some, x, one));
}

/* ---- finding --------------------------------------------------------------------------------- */

static bool free_of_states(vtb__rec *r, const terms *x) {
  for (size_t i = 0; i < x->n; i++)
    for (int k = 0; k < x->at[i].n; k++)
      if (!vtb__rec_is_stateless(r, x->at[i].at[k].v)) return false;
  return true;
}

static bool describe(vtb__rec *r, vtb__expansion *re, vtb__expansion *im, vtb__pair *out) {
  terms *p = &re->factors[0], *q = &im->factors[0];
  if (!same_sums(p, &im->factors[1], 1) || !same_sums(q, &re->factors[1], -1) ||
      !free_of_states(r, p) || !free_of_states(r, q))
    return false;
  vtb_builder b = {.module = r->step->module, .func = r->step, .span = r->inst->span};
  *out = (vtb__pair){.re = re->states[0], .im = re->states[1]};
  out->rank = r->states[out->re].type->rank;
  if (p->n != 1 || q->n != 1 || !as_written(r, &b, &p->at[0], &q->at[0], out))
    by_magnitude(r, &b, p, q, out);
  out->common = take_common(r, &re->rest, &im->rest);
  out->x_re = sum_of(&b, &re->rest, out->rank);
  out->x_im = sum_of(&b, &im->rest, out->rank);
  return true;
}

static bool try_pair(vtb__rec *r, int i, int j, vtb__pair *out) {
  vtb__expansion re = {.states = {i, j}, .n = 2}, im = re;
  r->expansions = 0;
  return vtb_type_equal(r->states[i].type, r->states[j].type) && vtb__rec_expand(r, i, &re) &&
         vtb__rec_expand(r, j, &im) && describe(r, &re, &im, out);
}

bool vtb__rec_find_pair(vtb__rec *r, vtb__pair *out) {
  for (int i = 0; i < r->n_states; i++)
    for (int j = i + 1; j < r->n_states; j++)
      if ((r->reach[i] >> j & 1) && (r->reach[j] >> i & 1) && try_pair(r, i, j, out)) return true;
  return false;
}

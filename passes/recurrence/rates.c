/* A full decay as step sizes times rates, so that no decay is ever stored.
 *
 *   h = exp(delta * A) * h + ...     delta [E] an input, A [E, N] a constant
 *   =>                               d = delta [B, N, h, E], A [h, N, E]
 *
 * Taken where the decay is one exponential, its exponent is a product, what depends on per-step
 * inputs in it does not vary over the key axis, and the rest is constant in time. Everything else
 * stays class full.
 */
#include "passes/recurrence/recurrence.h"

bool vtb__rec_rates(vtb__rec *r, const vtb__state *s, vtb_value **steps, vtb_value **rates) {
  const vtb__factor *f = s->a.at;
  if (s->a.n != 1 || s->a.coef != 1 || !f->v->def || f->v->def->op != VTB_OP_exp) return false;
  vtb__term log = {.coef = f->sign};
  vtb__rec_multiply(r, &log, f->v->def->operands[0], 1, f->axis);
  vtb__term changing = vtb__term_part(r, &log, VTB__CHANGES, 0, true),
            constant = vtb__term_part(r, &log, VTB__CHANGES, 0, false);
  for (int i = 0; i < changing.n; i++)
    if (vtb__factor_axes(&changing.at[i]) & 1u << s->key) return false;
  *steps = vtb__rec_side(r, &changing, ~0u, &s->type->dim[1 - s->key]);
  vtb__lifted a = vtb__rec_product(r, &constant, ~0u, NULL, 2);
  vtb_type t = vtb__rec_type(r, 1, s->type->dim, 2);
  *rates = vtb_b_stretched(&r->b, a.v, &t);
  if (s->key == 1) *rates = vtb_b_transpose(&r->b, *rates, (int64_t[]){0, 2, 1});
  return true;
}

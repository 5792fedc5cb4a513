/* Which states carry a running scale, and which share one.
 *
 *   a state without gains exp(.), or all of them at most 1 and along its axes      none
 *   a state with others                                                            one of its own
 *   states with the same decay and the same gains                                  one together
 *   a state without gains that decays as one with a scale of one number a head     that one
 *
 * A scale is one number a head and step, or varies over the axes of the state that its decay and
 * gains vary over: along the keys it is carried by keys and queries, along the values by values and
 * what is read; along both the state is read whole. Where the program sees the scale (state_scale)
 * all states share one, a number a head. Declines with a diagnostic where that is not possible, and
 * where a state reads another one that carries a scale.
 */
#include "passes/recurrence/recurrence.h"

#include <string.h>

enum { MAX_OWN_SCALES = 8 }; /* others are made of them */

typedef struct gains {
  bool any, bounded;
  unsigned axes; /* of the state, that gains or the decay vary over */
} gains;

static gains gains_of(vtb__rec *r, const vtb__state *s) {
  gains g = {.bounded = true, .axes = s->a.coef == 0 ? 0 : vtb__term_axes(&s->a)};
  for (int k = 0; k < s->n_u; k++) {
    const vtb__term *u = &s->u[k];
    for (int i = 0; i < u->n && u->coef != 0; i++) {
      if (!vtb__is_gain(r, &u->at[i])) continue;
      g.any = true;
      g.bounded &= vtb__rec_term_bounds(u, &u->at[i]);
      g.axes |= vtb__factor_axes(&u->at[i]);
    }
  }
  return g;
}

/* ---- diagnostics ----------------------------------------------------------------------------- */

static vtb_span span_of(const vtb__rec *r, const vtb_value *v) {
  return v->def ? v->def->span : r->inst->span;
}

static bool refuse(vtb__rec *r, const vtb__state *s, const vtb_value *v, const char *what) {
  vtb_diag_error(r->diags, VTB_DIAG_NOT_STABILISABLE, span_of(r, v),
                 "the step reads its scale, which must be one number a head, but the %s of state "
                 "%s varies over a state axis: `%s`",
                 what, s->old->name, v->def ? vtb__rec_text(r, v->def) : v->name);
  vtb_diag_help(r->diags,
                "without scale(...) and log_scale(...) each state has a scale of its own");
  return false;
}

static const vtb__factor *varying(vtb__rec *r, const vtb__term *t, bool gain) {
  for (int i = 0; i < t->n && t->coef != 0; i++)
    if (vtb__factor_axes(&t->at[i]) && (!gain || vtb__is_gain(r, &t->at[i]))) return &t->at[i];
  return NULL;
}

/* One number a head for all. */
static bool all_fit(vtb__rec *r) {
  for (int j = 0; j < r->n_states; j++) {
    const vtb__state *s = &r->states[j];
    const vtb__factor *f = varying(r, &s->a, false);
    if (f) return refuse(r, s, f->v, "decay");
    for (int k = 0; k < s->n_u; k++)
      if ((f = varying(r, &s->u[k], true))) return refuse(r, s, f->v, "gain");
  }
  return true;
}

/* A state's value is a plain number of this step only if it carries no scale. */
static bool reads_scaled(vtb__rec *r, const vtb__state *s, const vtb__term *t) {
  for (int i = 0; i < t->n; i++) {
    uint64_t deps = vtb__rec_deps(r, t->at[i].v) & VTB__DEP_STATES;
    for (int j = 0; j < r->n_states; j++) {
      if (!(deps >> j & 1) || r->states[j].scale < 0) continue;
      vtb_diag_error(r->diags, VTB_DIAG_STATES_COUPLED, span_of(r, t->at[i].v),
                     "state %s reads state %s, which carries a running scale", s->old->name,
                     r->states[j].old->name);
      vtb_diag_help(r->diags,
                    "bound the gain of %s, as in exp(log_sigmoid(i)), or write two recurrences in "
                    "sequence",
                    r->states[j].old->name);
      return true;
    }
  }
  return false;
}

static bool no_scaled_reads(vtb__rec *r) {
  for (int j = 0; j < r->n_states; j++) {
    const vtb__state *s = &r->states[j];
    if (s->a.coef != 0 && reads_scaled(r, s, &s->a)) return false;
    for (int k = 0; k < s->n_u; k++)
      if (s->u[k].coef != 0 && reads_scaled(r, s, &s->u[k])) return false;
  }
  return true;
}

/* ---- sharing --------------------------------------------------------------------------------- */

/* Every set of gains of x is one of y's. */
static bool gains_among(vtb__rec *r, const vtb__state *x, const vtb__state *y) {
  for (int k = 0; k < x->n_u; k++) {
    bool found = x->u[k].coef == 0;
    for (int i = 0; i < y->n_u && !found; i++)
      found = y->u[i].coef != 0 && vtb__same_gains(r, &x->u[k], &y->u[i]);
    if (!found) return false;
  }
  return true;
}

static bool may_share(vtb__rec *r, const vtb__state *x, const vtb__state *y, unsigned axes) {
  if (axes && !vtb_type_equal(x->type, y->type)) return false;
  return vtb__terms_same(&x->a, &y->a) && gains_among(r, x, y) && gains_among(r, y, x);
}

static int add_scale(vtb__rec *r, int state, unsigned axes) {
  const vtb_type *t = r->states[state].type;
  vtb__scale s = {.axes = axes, .state = state, .rank = axes ? t->rank : 0, .flat = -1};
  for (int a = 0; a < s.rank; a++) s.dims[a] = axes >> a & 1 ? t->dim[a] : (vtb_dim){.size = 1};
  vtb__put(r->step, &r->scales, s);
  return (int)r->scales.n - 1;
}

static int scale_for(vtb__rec *r, int state, unsigned axes) {
  for (int k = 0; k < (int)r->scales.n; k++) {
    const vtb__scale *s = &r->scales.at[k];
    if (s->axes == axes && may_share(r, &r->states[s->state], &r->states[state], axes)) return k;
  }
  return add_scale(r, state, axes);
}

/* A normalizer rides with its matrix where the scale has no value axis; else it is by itself. */
static void settle_reads(vtb__rec *r, int state, unsigned axes) {
  vtb__state *s = &r->states[state];
  if (s->type->rank != 2 || s->whole) return;
  bool along_values = axes >> (1 - s->key) & 1;
  if (along_values && s->normalizer >= 0) {
    r->states[s->normalizer].leader = -1;
    r->states[s->normalizer].whole = true;
    s->normalizer = -1;
  }
  if (axes == 3u) s->whole = true;
}

static void give_scales(vtb__rec *r) {
  gains *g = VTB_SCRATCH(r->step, gains, r->n_states);
  for (int j = 0; j < r->n_states; j++) {
    g[j] = gains_of(r, &r->states[j]);
    g[j].any = g[j].any && !(g[j].bounded && g[j].axes);
    if (g[j].any) settle_reads(r, j, g[j].axes);
  }
  for (int j = 0; j < r->n_states; j++)
    if (g[j].any && r->states[j].leader < 0) r->states[j].scale = scale_for(r, j, g[j].axes);
  for (int j = 0; j < r->n_states; j++) {
    vtb__state *s = &r->states[j];
    if (s->leader >= 0) s->scale = r->states[s->leader].scale;
    for (int k = 0; k < (int)r->scales.n && s->scale < 0 && !g[j].any && !g[j].axes; k++)
      if (!r->scales.at[k].axes && vtb__terms_same(&s->a, &r->states[r->scales.at[k].state].a))
        s->scale = k;
  }
}

/* ---- deciding -------------------------------------------------------------------------------- */

static bool final_results_used(const vtb__rec *r) {
  bool used = false;
  for (int i = r->n_yields; i < r->inst->n_results; i++) used |= vtb_is_read(r->inst->results[i]);
  return used;
}

static bool any_gain(vtb__rec *r) {
  for (int j = 0; j < r->n_states; j++)
    if (gains_of(r, &r->states[j]).any) return true;
  return false;
}

/* Corrections have no running scale: they would read the state on the step before's. */
static bool fits_corrections(vtb__rec *r, const vtb__state *s, bool seen) {
  for (int j = 0; j < r->n_states; j++) seen |= !gains_of(r, &r->states[j]).bounded;
  if (!seen) return true;
  vtb_diag_error(r->diags, VTB_DIAG_NOT_DIAGONAL, span_of(r, s->now),
                 "state %s is corrected by what is read of it, and a gain of this recurrence "
                 "needs a running scale",
                 s->old->name);
  vtb_diag_help(r->diags, "bound the gain, as in exp(log_sigmoid(i)), or write two recurrences");
  return false;
}

bool vtb__rec_decide_scale(vtb__rec *r) {
  bool seen = vtb__reads_scale(r->step);
  for (int j = 0; j < r->n_states; j++)
    if (r->states[j].delta) return fits_corrections(r, &r->states[j], seen);
  r->exact_scale = seen || final_results_used(r);
  if (!any_gain(r)) return true;
  if (seen) {
    if (!all_fit(r)) return false;
    add_scale(r, 0, 0);
    for (int j = 0; j < r->n_states; j++) r->states[j].scale = 0;
  } else {
    give_scales(r);
  }
  r->n_scales = (int)r->scales.n;
  if (r->n_scales <= MAX_OWN_SCALES) return no_scaled_reads(r);
  vtb_diag_error(r->diags, VTB_DIAG_NOT_STABILISABLE, r->inst->span,
                 "%d states with gains of their own; at most %d running scales are carried",
                 r->n_scales, MAX_OWN_SCALES);
  vtb_diag_help(r->diags, "give states one gain, bound gains as in exp(log_sigmoid(i)), or write "
                          "several recurrences");
  return false;
}

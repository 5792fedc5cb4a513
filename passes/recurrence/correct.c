/* The step rewritten for the corrections that delta.c finds: a row that reads the state
 * becomes its key beside an argument w of the step, which op delta makes (delta_emit.c);
 * rows that read nothing stay what they are.
 */
#include "passes/recurrence/delta.h"

#include <string.h>

/* ---- looking --------------------------------------------------------------------------------- */

static bool is_sum(const vtb_inst *inst) {
  return inst->op == VTB_OP_einsum || inst->op == VTB_OP_reduce_sum;
}

/* The update sums over the state on its way: else there is nothing to correct. */
static bool sums_state(vtb__rec *r, int state) {
  bool *needed = VTB_SCRATCH(r->step, bool, r->step->n_values), sums = false;
  needed[r->states[state].now->id] = true;
  vtb_add_sources(NULL, r->step->last, needed);
  for (const vtb_inst *inst = r->step->first; inst; inst = inst->next)
    for (int i = 0; is_sum(inst) && needed[inst->results[0]->id] && i < inst->n_operands; i++)
      sums |= !vtb__rec_given(r, state, inst->operands[i]);
  return sums;
}

static void open_finder(vtb__finder *d, vtb__rec *r, int state, int key) {
  const vtb_type *t = r->states[state].type;
  *d = (vtb__finder){.r = r, .state = state, .key = key, .value = t->rank == 2 ? 1 - key : -1};
  d->n_keys = t->dim[key].size, d->n_values = d->value < 0 ? 1 : t->dim[d->value].size;
  d->b = (vtb_builder){.module = r->step->module, .func = r->step, .span = r->inst->span};
  d->n_memo = r->step->n_values;
  d->memo = VTB_SCRATCH(r->step, vtb__form *, d->n_memo);
  d->tried = VTB_SCRATCH(r->step, bool, d->n_memo);
}

static bool is_made_of(const vtb_value *v, const vtb_value *part, int depth) {
  if (v == part) return true;
  for (int i = 0; v->def && depth > 0 && i < v->def->n_operands; i++)
    if (is_made_of(v->def->operands[i], part, depth - 1)) return true;
  return false;
}

/* Gains of lines may be no others than those of the decay, or at most 1: there is no running
 * scale. */
static bool gains_are_bounded(vtb__finder *d, const vtb__form *x) {
  enum { DEPTH = 8 };
  for (size_t i = 0; i < d->gains.n; i++) {
    const vtb__factor *g = &d->gains.at[i];
    bool known = vtb__rec_at_most_one(g) || (x->a && g->sign > 0 && is_made_of(x->a, g->v, DEPTH));
    if (!known) return vtb__form_fail(d, g->v->def, "is a gain that nothing bounds") != NULL;
  }
  return true;
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* key w^T as a term on the state's axes. */
static vtb__term row_term(vtb__finder *d, const vtb__row *row, vtb_value *line) {
  vtb__term t = {.coef = row->key.coef};
  vtb__factor by = vtb__factor_of(line, line->type.rank);
  for (int i = 0; i < row->key.n; i++)
    vtb__term_push(d->r, &t, vtb__factor_on(&row->key.at[i], d->key));
  vtb__term_push(d->r, &t, vtb__factor_on(&by, d->value));
  return t;
}

/* The correction as an argument of the step; it depends on what its line does. */
static vtb_value *new_argument(vtb__finder *d, const vtb__row *row) {
  vtb__rec *r = d->r;
  vtb_type t = {.dtype = VTB_F32, .rank = d->value >= 0, .dim = {{.size = d->n_values}}};
  vtb_value *w = vtb_func_add_arg(r->step, "w", t);
  uint64_t deps = VTB__DEP_KNOWN | VTB__DEP_SEQ | vtb__rec_deps(r, row->b);
  if (row->c) deps |= vtb__rec_deps(r, row->c);
  for (int i = 0; i < row->key.n; i++) deps |= vtb__rec_deps(r, row->key.at[i].v);
  *vtb__by_id(r->step, &r->deps, w->id) = deps;
  return w;
}

/* a * S + sum of terms, as a value of the step. */
static vtb_value *new_update(vtb__finder *d, vtb_value *a, const vtb__term *u, int n) {
  vtb__state *s = &d->r->states[d->state];
  int rank = s->type->rank;
  vtb_value *now =
      vtb_b_binary(&d->b, VTB_OP_mul, s->old, vtb__among_ones(&d->b, a, &d->key, rank));
  for (int i = 0; i < n; i++) {
    vtb_value *v = vtb__term_value(&d->b, &u[i], rank);
    now = vtb_b_binary(&d->b, VTB_OP_add, now, v);
  }
  return now;
}

/* A line as a value of the type of `like`: c + sum over keys of b S. */
static vtb_value *line_value(vtb__finder *d, const vtb__form *x, const vtb_value *like) {
  vtb__state *s = &d->r->states[d->state];
  vtb_value *v = x->c;
  if (x->b) {
    vtb_type keys = VTB__F32({.size = d->n_keys});
    vtb_value *b = x->b->type.rank && x->b->type.dim[0].size == d->n_keys
                       ? x->b
                       : vtb_b_broadcast(&d->b, x->b, &keys);
    const char *spec = d->value < 0 ? "k,k->" : d->key == 0 ? "k,kv->v" : "k,vk->v";
    vtb_value *read = vtb_b_einsum(&d->b, spec, b, s->old);
    v = vtb__joined(&d->b, VTB_OP_add, v, read);
  }
  if (!v) v = vtb_b_constant(&d->b, 0);
  int axis = x->value < 0 ? 0 : x->value;
  v = vtb__among_ones(&d->b, v, &axis, like->type.rank);
  return vtb_b_stretched(&d->b, v, &like->type);
}

/* By id: what depends on the new state. */
static bool *after_update(vtb__finder *d) {
  bool *after = VTB_SCRATCH(d->r->step, bool, d->r->step->n_values);
  after[d->r->states[d->state].now->id] = true;
  vtb_add_uses(d->r->step->first, after);
  return after;
}

/* A sum over a state in between, neither the old one nor the new one, becomes a read of the old
 * one. */
static void rewrite_reads(vtb__finder *d) {
  const bool *after = after_update(d);
  vtb_inst *last = d->r->step->last;
  for (vtb_inst *inst = d->r->step->first; inst; inst = inst == last ? NULL : inst->next) {
    vtb_value *v = inst->results[0];
    if (!is_sum(inst) || after[v->id] || vtb__rec_given(d->r, d->state, v)) continue;
    bool second = vtb__rec_given(d->r, d->state, inst->operands[0]);
    const vtb__form *x = vtb__form_of(d, inst->operands[second]);
    if (!x || !x->matrix || !x->n_rows) continue;
    const vtb__form *line = vtb__form_of(d, v);
    if (line && !line->matrix) vtb_replace_all(v, line_value(d, line, v));
  }
}

/* Corrections first, then rows that read nothing. */
static vtb__delta *sort_rows(vtb__finder *d, const vtb__form *x) {
  vtb__delta *made = VTB_SCRATCH(d->r->step, vtb__delta, 0);
  *made = (vtb__delta){.key = d->key};
  made->rows = VTB_SCRATCH(d->r->step, vtb__row, x->n_rows);
  for (int free = 0; free < 2; free++)
    for (int i = 0; i < x->n_rows; i++) {
      const vtb__row *row = &x->rows[i];
      if ((!row->c && !row->b) || (row->b == NULL) != (free == 1)) continue;
      made->rows[made->n_rows++] = *row;
      made->rank += !free;
    }
  return made;
}

static void rewrite(vtb__finder *d, const vtb__form *x) {
  vtb__rec *r = d->r;
  vtb__state *s = &r->states[d->state];
  vtb__delta *made = s->delta = sort_rows(d, x);
  vtb_value *a = x->a ? x->a : vtb_b_constant(&d->b, 0), *old = s->now;
  rewrite_reads(d);
  s->n_u = made->n_rows;
  s->u = VTB_SCRATCH(r->step, vtb__term, s->n_u);
  made->w = VTB_SCRATCH(r->step, vtb_value *, s->n_u);
  for (int i = 0; i < s->n_u; i++) {
    made->w[i] = i < made->rank ? new_argument(d, &made->rows[i]) : made->rows[i].c;
    s->u[i] = row_term(d, &made->rows[i], made->w[i]);
  }
  if (!s->n_u) s->u[s->n_u++] = (vtb__term){.coef = 0};
  int axis[VTB_MAX_RANK] = {d->key};
  s->a = (vtb__term){.coef = 1};
  vtb__rec_multiply(r, &s->a, a, 1, axis);
  vtb_value *now = new_update(d, a, s->u, s->n_u);
  vtb_replace_all(old, now);
  s->now = now;
}

static bool try_axis(vtb__finder *d) {
  const vtb__state *s = &d->r->states[d->state];
  const vtb__form *x = vtb__form_of(d, s->now);
  if (!x) return false;
  if (!x->matrix || x->key != d->key || x->value != d->value)
    return vtb__form_fail(d, s->now->def, "turns the state") != NULL;
  return gains_are_bounded(d, x);
}

/* A vector is all key; of a matrix either axis can be. */
static void visit(vtb__rec *r, int state) {
  vtb__state *s = &r->states[state];
  for (int key = 0; key < s->type->rank && !s->delta; key++) {
    vtb__finder d;
    open_finder(&d, r, state, key);
    if (try_axis(&d))
      rewrite(&d, vtb__form_of(&d, s->now));
    else if (!s->why || (s->why == vtb__reads_both_ways && d.why != s->why))
      s->blame = d.blame, s->why = d.why;
  }
}

/* A state among `left` that reads none of the others; where states read each other, any. */
static int next_state(const vtb__rec *r, uint64_t left) {
  int any = -1;
  for (int i = 0; i < r->n_states; i++) {
    if (!(left >> i & 1)) continue;
    if (!(r->reach[i] & left & ~(UINT64_C(1) << i))) return i;
    if (any < 0) any = i;
  }
  return any;
}

/* States that others read come first, so that these read what was rewritten. */
void vtb__rec_find_delta(vtb__rec *r) {
  uint64_t left = (UINT64_C(1) << r->n_states) - 1;
  vtb__rec_find_reach(r);
  while (left) {
    int i = next_state(r, left), rank = r->states[i].type->rank;
    left &= ~(UINT64_C(1) << i);
    if (rank < 1 || rank > 2 || !sums_state(r, i)) continue;
    visit(r, i);
    vtb__rec_find_reach(r);
  }
}

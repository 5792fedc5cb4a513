/* How the yields of a recurrence read its states: by contractions, or whole.
 *
 *   dot(q, C)    einsum "k,kv->v", or reduce_sum over     C keeps its two axes, K is the
 *                one axis of a product with C             contracted one
 *   abs(n), C    any other use of a state                 all its elements become the V axis, K = 1
 *
 * A matrix state whose update is not an outer product is read whole as well. A vector state that
 * decays like a matrix state, is fed by the same key and is read by the same queries becomes its
 * normalizer.
 */
#include "ir/axes.h"
#include "passes/recurrence/recurrence.h"

/* ---- contractions ---------------------------------------------------------------------------- */

/* Notes that v is a state, new or old; at most one. */
static bool take_state(vtb__rec *r, vtb__read *read, const vtb_value *v) {
  int now = vtb__rec_new_state(r, v), old = vtb__rec_old_state(r, v);
  if ((now < 0 && old < 0) || read->state >= 0) return false;
  read->state = now >= 0 ? now : old;
  read->old = now < 0;
  return true;
}

/* v as a product of factors and one state that has v's shape. */
static bool collect(vtb__rec *r, vtb__read *read, vtb_value *v) {
  vtb__term all = {.coef = 1};
  vtb__factor whole = vtb__factor_of(v, v->type.rank);
  vtb__rec_multiply(r, &all, v, 1, whole.axis);
  read->factors.coef = all.coef;
  for (int i = 0; i < all.n; i++) {
    vtb__factor *f = &all.at[i];
    if (vtb__rec_is_stateless(r, f->v))
      vtb__term_push(r, &read->factors, *f);
    else if (f->sign < 0 || !vtb_type_equal(&f->v->type, &v->type) || !take_state(r, read, f->v))
      return false;
  }
  return read->state >= 0;
}

/* True if no factor joins the two axes of a matrix, and the key axis can be `key`. */
static bool separable(const vtb__term *t) {
  for (int i = 0; i < t->n; i++) {
    unsigned axes = vtb__factor_axes(&t->at[i]);
    if (axes & (axes - 1)) return false;
  }
  return true;
}

static bool match_reduce(vtb__rec *r, vtb__read *read) {
  vtb_value *x = read->inst->operands[0];
  int n;
  const int64_t *axes = vtb_attr_ints(read->inst, "axes", &n);
  if (x->type.rank > 2 || n < 1 || !collect(r, read, x)) return false;
  read->sum_value = n == 2;
  read->key = n == 2 ? -1 : (int)axes[0];
  return separable(&read->factors);
}

static bool match_einsum(vtb__rec *r, vtb__read *read) {
  int holder = vtb__rec_is_stateless(r, read->inst->operands[0]) ? 1 : 0;
  vtb_value *x = read->inst->operands[holder], *y = read->inst->operands[1 - holder];
  if (x->type.rank > 2 || y->type.rank > 1 || !vtb__rec_is_stateless(r, y) || !collect(r, read, x))
    return false;
  int axis[VTB_MAX_RANK], kept = read->inst->results[0]->type.rank;
  for (int a = 0; a < y->type.rank; a++) {
    axis[a] = vtb_axis_beside(read->inst, 1 - holder, a, holder);
    if (axis[a] < 0) return false;
    if (y->type.dim[a].size == 1) axis[a] = -1;
  }
  vtb__rec_multiply(r, &read->factors, y, 1, axis);
  if (kept == x->type.rank) return false;
  read->sum_value = x->type.rank == 2 && kept == 0;
  bool first = vtb_axis_after(read->inst, holder, 0) == VTB_AXIS_GONE;
  read->key = read->sum_value ? -1 : first ? 0 : 1;
  return separable(&read->factors);
}

bool vtb__rec_match_read(vtb__rec *r, vtb_inst *inst, vtb__read *read) {
  *read = (vtb__read){.inst = inst, .state = -1, .factors = {.coef = 1}};
  if (inst->op == VTB_OP_reduce_sum) return match_reduce(r, read);
  if (inst->op == VTB_OP_einsum) return match_einsum(r, read);
  return false;
}

const vtb__read *vtb__rec_read_of(const vtb__rec *r, const vtb_inst *inst) {
  for (size_t i = 0; i < r->reads.n; i++)
    if (r->reads.at[i].inst == inst) return &r->reads.at[i];
  return NULL;
}

/* ---- finding them ---------------------------------------------------------------------------- */

static void walk(vtb__rec *r, vtb_value *v, bool *seen) {
  if (seen[v->id]) return;
  seen[v->id] = true;
  int now = vtb__rec_new_state(r, v), old = vtb__rec_old_state(r, v);
  if (now >= 0 || old >= 0) {
    r->states[now >= 0 ? now : old].whole = true;
    return;
  }
  vtb__read read;
  if (!v->def || vtb__rec_is_stateless(r, v)) return;
  if (vtb__rec_match_read(r, v->def, &read)) {
    vtb__put(r->step, &r->reads, read);
    return;
  }
  for (int i = 0; i < v->def->n_operands; i++) walk(r, v->def->operands[i], seen);
}

static void walk_term(vtb__rec *r, const vtb__term *t, bool *seen) {
  for (int i = 0; i < t->n; i++) walk(r, t->at[i].v, seen);
}

/* Operands of op delta stand behind arguments of the step. */
static void walk_corrections(vtb__rec *r, const vtb__delta *delta, bool *seen) {
  for (int i = 0; i < delta->n_rows; i++) {
    walk_term(r, &delta->rows[i].key, seen);
    if (delta->rows[i].c) walk(r, delta->rows[i].c, seen);
    if (delta->rows[i].b) walk(r, delta->rows[i].b, seen);
  }
}

/* The key axis of a matrix state, or whole if its readouts do not agree. */
static void choose_key(vtb__rec *r, int state) {
  vtb__state *s = &r->states[state];
  int key = -1;
  for (size_t i = 0; i < r->reads.n; i++) {
    const vtb__read *read = &r->reads.at[i];
    if (read->state != state || read->key < 0) continue;
    if (key >= 0 && key != read->key) s->whole = true;
    key = read->key;
  }
  s->key = key < 0 ? 0 : key;
  if (!s->delta && (s->n_u > 1 || !separable(&s->u[0]))) s->whole = true;
}

/* Every query of the vector state n is also one of the matrix state's. */
static bool queries_match(vtb__rec *r, int matrix, int n) {
  for (size_t i = 0; i < r->reads.n; i++) {
    const vtb__read *x = &r->reads.at[i];
    if (x->state != n) continue;
    bool found = false;
    for (size_t j = 0; j < r->reads.n && !found; j++) {
      const vtb__read *y = &r->reads.at[j];
      if (y->state != matrix || y->old != x->old) continue;
      vtb__term q = vtb__term_within(r, &y->factors, 1u << r->states[matrix].key);
      found = vtb__terms_match(&q, r->states[matrix].key, &x->factors, 0);
    }
    if (!found) return false;
  }
  return true;
}

static void find_leader(vtb__rec *r, int n) {
  vtb__state *s = &r->states[n];
  for (int i = 0; i < r->n_states && s->leader < 0; i++) {
    vtb__state *c = &r->states[i];
    if (i == n || c->type->rank != 2 || c->whole || c->normalizer >= 0 || c->n_u != 1) continue;
    if (c->type->dim[c->key].size != s->type->dim[0].size) continue;
    vtb__term k = vtb__term_within(r, &c->u[0], 1u << c->key);
    if (!vtb__terms_match(&c->a, c->key, &s->a, 0) || s->n_u != 1 ||
        !vtb__terms_match(&k, c->key, &s->u[0], 0))
      continue;
    if (!queries_match(r, i, n)) continue;
    s->leader = i;
    c->normalizer = n;
  }
  if (s->leader < 0) s->whole = true;
}

void vtb__rec_find_reads(vtb__rec *r) {
  bool *seen = VTB_SCRATCH(r->step, bool, r->step->n_values);
  for (int i = 0; i < r->n_yields; i++) walk(r, r->step->returns[r->n_states + i], seen);
  for (int i = 0; i < r->n_states; i++) {
    walk_term(r, &r->states[i].a, seen);
    for (int k = 0; k < r->states[i].n_u; k++) walk_term(r, &r->states[i].u[k], seen);
    if (r->states[i].delta) walk_corrections(r, r->states[i].delta, seen);
  }
  for (int i = 0; i < r->n_states; i++) {
    r->states[i].leader = r->states[i].normalizer = -1;
    if (r->states[i].type->rank == 2) choose_key(r, i);
    if (r->states[i].type->rank == 0 || r->states[i].type->rank > 2) r->states[i].whole = true;
  }
  for (int i = 0; i < r->n_states; i++)
    if (r->states[i].type->rank == 1 && !r->states[i].whole) find_leader(r, i);
}

/* Terms of a recurrence's normal form, and what values of its step depend on: the ground under
 * form.c and the files after it.
 */
#include "ir/product.h"
#include "passes/recurrence/recurrence.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FACTORS = 32 };

void vtb__term_push(vtb__rec *r, vtb__term *t, vtb__factor f) {
  if (t->n == t->cap) {
    int cap = t->cap ? 2 * t->cap : 8;
    vtb__factor *at = VTB_NEW_ARRAY(&r->arena, vtb__factor, cap);
    if (t->n) memcpy(at, t->at, (size_t)t->n * sizeof *at);
    t->at = at, t->cap = cap;
  }
  t->at[t->n++] = f;
}

vtb__term vtb__term_copy(vtb__rec *r, const vtb__term *t) {
  vtb__term copy = {.coef = t->coef};
  for (int i = 0; i < t->n; i++) vtb__term_push(r, &copy, t->at[i]);
  return copy;
}

unsigned vtb__factor_axes(const vtb__factor *f) {
  unsigned axes = 0;
  for (int a = 0; a < f->v->type.rank; a++)
    if (f->axis[a] >= 0) axes |= 1u << f->axis[a];
  return axes;
}

uint64_t vtb__rec_deps(vtb__rec *r, const vtb_value *v) {
  size_t id = (size_t)v->id;
  while (r->deps.n <= id) vtb_vec_push(&r->deps, 0);
  if (r->deps.at[id]) return r->deps.at[id];
  uint64_t d = VTB__DEP_KNOWN;
  if (!v->def)
    d |= v->index < r->n_states               ? UINT64_C(1) << v->index
         : v->index < r->n_states + r->n_seqs ? VTB__DEP_SEQ
                                              : 0;
  else if (v->def->op == VTB_OP_state_scale)
    d |= VTB__DEP_SCALE;
  else
    for (int i = 0; i < v->def->n_operands; i++) d |= vtb__rec_deps(r, v->def->operands[i]);
  return r->deps.at[id] = d;
}

bool vtb__is_gain(vtb__rec *r, const vtb__factor *f) {
  return f->v->def && f->v->def->op == VTB_OP_exp && (vtb__rec_deps(r, f->v) & VTB__DEP_SEQ);
}

/* Axis maps of an operand that is aligned at the last axis with its user. */
void vtb__rec_align(const vtb_value *user, const int *axis, const vtb_value *operand, int *out) {
  int shift = user->type.rank - operand->type.rank;
  for (int a = 0; a < operand->type.rank; a++)
    out[a] = operand->type.dim[a].size == 1 ? -1 : axis[a + shift];
}

/* Axis maps through a reshape that only adds or drops axes of size 1. */
void vtb__rec_through_reshape(const vtb_value *user, const int *axis, const vtb_value *operand,
                              int *out) {
  int at = 0;
  for (int a = 0; a < operand->type.rank; a++) {
    out[a] = -1;
    if (operand->type.dim[a].size == 1) continue;
    while (user->type.dim[at].size == 1) at++;
    out[a] = axis[at++];
  }
}

/* Axis maps of an operand of an einsum whose letters, in order, are all in the result; false
 * otherwise. */
static bool through_letters(const vtb_product *p, int operand, const int *axis, int *to) {
  int last = -1;
  for (int a = 0; a < p->rank[operand]; a++) {
    const vtb_letter *l = vtb_product_at(p, operand, a);
    if (l->at[VTB_IN_RESULT] < last || l->at[VTB_IN_RESULT] < 0) return false;
    last = l->at[VTB_IN_RESULT];
    to[a] = l->size == 1 ? -1 : axis[last];
  }
  return true;
}

/* An einsum that sums over nothing is a product. */
static bool multiply_outer(vtb__rec *r, vtb__term *t, const vtb_inst *inst, int sign,
                           const int *axis) {
  vtb_product p = vtb_product_of(inst);
  int x[VTB_MAX_RANK], y[VTB_MAX_RANK];
  if (!through_letters(&p, 0, axis, x) || !through_letters(&p, 1, axis, y)) return false;
  vtb__rec_multiply(r, t, inst->operands[0], sign, x);
  vtb__rec_multiply(r, t, inst->operands[1], sign, y);
  return true;
}

void vtb__rec_multiply(vtb__rec *r, vtb__term *t, vtb_value *v, int sign, const int *axis) {
  const vtb_inst *d = v->def;
  int inner[VTB_MAX_RANK];
  double c;
  if (vtb__rec_new_state(r, v) >= 0 || t->n >= MAX_FACTORS || r->budget-- <= 0)
    d = NULL; /* taken as it is */
  if (vtb__splat(v, &c) && (sign > 0 || c != 0)) {
    t->coef = sign > 0 ? t->coef * c : t->coef / c;
  } else if (d && (d->op == VTB_OP_mul || d->op == VTB_OP_div)) {
    for (int i = 0; i < 2; i++) {
      vtb__rec_align(v, axis, d->operands[i], inner);
      vtb__rec_multiply(r, t, d->operands[i], d->op == VTB_OP_div && i == 1 ? -sign : sign, inner);
    }
  } else if (d && (d->op == VTB_OP_neg || d->op == VTB_OP_broadcast)) {
    if (d->op == VTB_OP_neg) t->coef = -t->coef;
    vtb__rec_align(v, axis, d->operands[0], inner);
    vtb__rec_multiply(r, t, d->operands[0], sign, inner);
  } else if (d && d->op == VTB_OP_reshape && vtb__unit_reshape(&v->type, &d->operands[0]->type)) {
    vtb__rec_through_reshape(v, axis, d->operands[0], inner);
    vtb__rec_multiply(r, t, d->operands[0], sign, inner);
  } else if (d && d->op == VTB_OP_einsum && multiply_outer(r, t, d, sign, axis)) {
    return;
  } else {
    vtb__factor f = {.v = v, .sign = sign};
    memcpy(f.axis, axis, (size_t)v->type.rank * sizeof *axis);
    vtb__term_push(r, t, f);
  }
}

const char *vtb__rec_text(vtb__rec *r, const vtb_inst *inst) {
  vtb_span s = inst->span;
  if (s.source && s.end > s.begin && s.end <= s.source->n) {
    size_t n = s.end - s.begin;
    const char *text = s.source->text + s.begin;
    if (n <= 72 && !memchr(text, '\n', n)) return vtb_arena_strndup(&r->arena, text, n);
  }
  vtb_strbuf line = {0};
  vtb_inst_print(inst, &line);
  const char *text = vtb_arena_strdup(&r->arena, line.at ? line.at : "");
  vtb_strbuf_free(&line);
  return text;
}

/* An update that no state enters is an ordinary value. */
int vtb__rec_new_state(vtb__rec *r, const vtb_value *v) {
  if (!(vtb__rec_deps(r, v) & VTB__DEP_STATES)) return -1;
  for (int i = 0; i < r->n_states; i++)
    if (r->states[i].now == v) return i;
  return -1;
}

int vtb__rec_old_state(const vtb__rec *r, const vtb_value *v) {
  return !v->def && v->index < r->n_states ? v->index : -1;
}

static bool factor_matches(const vtb__factor *x, int x_key, const vtb__factor *y, int y_key) {
  unsigned ax = vtb__factor_axes(x), ay = vtb__factor_axes(y);
  bool x_on_key = ax == 1u << x_key, y_on_key = ay == 1u << y_key;
  return x->v == y->v && x->sign == y->sign && (ax == 0 ? ay == 0 : x_on_key && y_on_key);
}

bool vtb__terms_match(const vtb__term *x, int x_key, const vtb__term *y, int y_key) {
  if (x->coef != y->coef || x->n != y->n) return false;
  bool used[256] = {false};
  if (x->n > 256) return false;
  for (int i = 0; i < x->n; i++) {
    int j = 0;
    while (j < y->n && (used[j] || !factor_matches(&x->at[i], x_key, &y->at[j], y_key))) j++;
    if (j == y->n) return false;
    used[j] = true;
  }
  return true;
}

bool vtb__terms_same(const vtb__term *x, const vtb__term *y) {
  bool used[256] = {false};
  if (x->coef != y->coef || x->n != y->n || x->n > 256) return false;
  for (int i = 0; i < x->n; i++) {
    const vtb__factor *f = &x->at[i];
    int j = 0;
    while (j < y->n && (used[j] || y->at[j].v != f->v || y->at[j].sign != f->sign ||
                        vtb__factor_axes(&y->at[j]) != vtb__factor_axes(f)))
      j++;
    if (j == y->n) return false;
    used[j] = true;
  }
  return true;
}

vtb__term vtb__rec_gains_of(vtb__rec *r, const vtb__term *u) {
  vtb__term t = {.coef = 1};
  for (int k = 0; k < u->n; k++)
    if (vtb__is_gain(r, &u->at[k])) vtb__term_push(r, &t, u->at[k]);
  return t;
}

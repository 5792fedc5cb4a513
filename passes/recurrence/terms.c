/* Terms of a recurrence's normal form, and what values of its step depend on: the ground under
 * form.c and the files after it.
 */
#include "ir/axes.h"
#include "ir/product.h"
#include "passes/recurrence/recurrence.h"

#include <string.h>

enum { MAX_FACTORS = 32 };

void vtb__term_push(vtb__rec *r, vtb__term *t, vtb__factor f) {
  if (t->n == t->cap) {
    int cap = t->cap ? 2 * t->cap : 8;
    vtb__factor *at = VTB_SCRATCH(r->step, vtb__factor, cap);
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

void vtb__frame_axes(const vtb_value *v, int rank, int *axis) {
  for (int a = 0; a < v->type.rank; a++)
    axis[a] = v->type.dim[a].size == 1 ? -1 : a + rank - v->type.rank;
}

vtb__factor vtb__factor_of(vtb_value *v, int rank) {
  vtb__factor f = {.v = v, .sign = 1};
  vtb__frame_axes(v, rank, f.axis);
  return f;
}

unsigned vtb__factor_axes(const vtb__factor *f) {
  unsigned axes = 0;
  for (int a = 0; a < f->v->type.rank; a++)
    if (f->axis[a] >= 0) axes |= 1u << f->axis[a];
  return axes;
}

uint64_t vtb__rec_deps(vtb__rec *r, const vtb_value *v) {
  uint64_t d = *vtb__by_id(r->step, &r->deps, v->id);
  if (d) return d;
  d = VTB__DEP_KNOWN;
  if (!v->def)
    d |= v->index < r->n_states               ? UINT64_C(1) << v->index
         : v->index < r->n_states + r->n_seqs ? VTB__DEP_SEQ
                                              : 0;
  else if (v->def->op == VTB_OP_state_scale)
    d |= VTB__DEP_SCALE;
  else
    for (int i = 0; i < v->def->n_operands; i++) d |= vtb__rec_deps(r, v->def->operands[i]);
  return *vtb__by_id(r->step, &r->deps, v->id) = d;
}

bool vtb__is_gain(vtb__rec *r, const vtb__factor *f) {
  return f->v->def && f->v->def->op == VTB_OP_exp && (vtb__rec_deps(r, f->v) & VTB__DEP_SEQ);
}

bool vtb__rec_is_stateless(vtb__rec *r, const vtb_value *v) {
  return !(vtb__rec_deps(r, v) & (VTB__DEP_STATES | VTB__DEP_SCALE));
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
  for (int a = 0; a < operand->type.rank; a++)
    out[a] = operand->type.dim[a].size == 1
                 ? -1
                 : axis[vtb_axis_reshaped(&operand->type, &user->type, a)];
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
    if (n <= 72 && !memchr(text, '\n', n))
      return vtb_arena_strndup(&r->step->module->scratch, text, n);
  }
  vtb_strbuf line = {0};
  vtb_inst_print(inst, &line);
  const char *text = vtb_arena_strdup(&r->step->module->scratch, line.at ? line.at : "");
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

/* Along the same axes, or both along their keys or none; no keys: -1. */
static bool factor_matches(const vtb__factor *x, int x_key, const vtb__factor *y, int y_key) {
  unsigned ax = vtb__factor_axes(x), ay = vtb__factor_axes(y);
  if (x->v != y->v || x->sign != y->sign) return false;
  if (x_key < 0 || !ax) return ax == ay;
  return ax == 1u << x_key && ay == 1u << y_key;
}

static bool factors_match(const vtb__term *x, int x_key, const vtb__term *y, int y_key) {
  bool used[256] = {false};
  if (x->n != y->n || x->n > 256) return false;
  for (int i = 0; i < x->n; i++) {
    int j = 0;
    while (j < y->n && (used[j] || !factor_matches(&x->at[i], x_key, &y->at[j], y_key))) j++;
    if (j == y->n) return false;
    used[j] = true;
  }
  return true;
}

bool vtb__factors_same(const vtb__term *x, const vtb__term *y) {
  return factors_match(x, -1, y, -1);
}

bool vtb__terms_same(const vtb__term *x, const vtb__term *y) {
  return x->coef == y->coef && vtb__factors_same(x, y);
}

bool vtb__terms_match(const vtb__term *x, int x_key, const vtb__term *y, int y_key) {
  return x->coef == y->coef && factors_match(x, x_key, y, y_key);
}

bool vtb__same_gains(vtb__rec *r, const vtb__term *x, const vtb__term *y) {
  vtb__term gx = vtb__term_part(r, x, VTB__A_GAIN, 0, true),
            gy = vtb__term_part(r, y, VTB__A_GAIN, 0, true);
  return vtb__factors_same(&gx, &gy);
}

bool vtb__term_take(vtb__term *t, const vtb__factor *f) {
  for (int i = 0; i < t->n; i++) {
    if (!factor_matches(&t->at[i], -1, f, -1)) continue;
    memmove(&t->at[i], &t->at[i + 1], (size_t)(t->n - i - 1) * sizeof *t->at);
    t->n--;
    return true;
  }
  return false;
}

vtb__term vtb__term_part(vtb__rec *r, const vtb__term *t, vtb__trait trait, unsigned axes,
                         bool is) {
  vtb__term out = {.coef = is ? 1 : t->coef};
  for (int i = 0; i < t->n; i++) {
    const vtb__factor *f = &t->at[i];
    bool has = trait == VTB__BEYOND   ? (vtb__factor_axes(f) & ~axes) != 0
               : trait == VTB__A_GAIN ? vtb__is_gain(r, f)
                                      : (vtb__rec_deps(r, f->v) & ~VTB__DEP_KNOWN) != 0;
    if (has == is) vtb__term_push(r, &out, *f);
  }
  return out;
}

vtb__term vtb__term_within(vtb__rec *r, const vtb__term *t, unsigned axes) {
  return vtb__term_part(r, t, VTB__BEYOND, axes, false);
}

vtb__term vtb__term_beyond(vtb__rec *r, const vtb__term *t, unsigned axes) {
  return vtb__term_part(r, t, VTB__BEYOND, axes, true);
}

vtb_value *vtb__factor_value(vtb_builder *b, const vtb__factor *f, int rank) {
  return vtb__among_ones(b, f->v, f->axis, rank);
}

vtb_value *vtb__term_value(vtb_builder *b, const vtb__term *t, int rank) {
  vtb_value *v = t->coef != 1 || t->n == 0 ? vtb_b_constant(b, t->coef) : NULL;
  for (int i = 0; i < t->n; i++) {
    vtb_value *f = vtb__factor_value(b, &t->at[i], rank);
    if (!v && t->at[i].sign < 0) v = vtb_b_constant(b, 1);
    v = !v ? f : vtb_b_binary(b, t->at[i].sign > 0 ? VTB_OP_mul : VTB_OP_div, v, f);
  }
  return v;
}

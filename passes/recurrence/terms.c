/* Terms of a recurrence's normal form, and what values of its step depend on: the ground under
 * form.c and the files after it.
 */
#include "ir/axes.h"
#include "ir/ranges.h"
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

unsigned vtb__term_axes(const vtb__term *t) {
  unsigned axes = 0;
  for (int i = 0; i < t->n; i++) axes |= vtb__factor_axes(&t->at[i]);
  return axes;
}

vtb__factor vtb__factor_on(const vtb__factor *f, int axis) {
  vtb__factor moved = *f;
  for (int a = 0; a < f->v->type.rank; a++)
    if (f->axis[a] >= 0) moved.axis[a] = axis;
  return moved;
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

void vtb__rec_operand_axes(const vtb_inst *user, int o, const int *axis, int *out) {
  const vtb_type *t = &user->operands[o]->type;
  for (int a = 0; a < t->rank; a++)
    out[a] = t->dim[a].size == 1 ? -1 : axis[vtb_axis_after(user, o, a)];
}

/* An einsum that sums over nothing is a product, where it has the axes of either factor in their
 * order. */
static bool is_outer(const vtb_inst *d) {
  bool outer = d->op == VTB_OP_einsum;
  for (int o = 0; o < 2 && outer; o++)
    for (int a = 0, last = 0; a < d->operands[o]->type.rank && outer; a++) {
      int to = vtb_axis_after(d, o, a);
      outer = to >= last;
      last = to;
    }
  return outer;
}

void vtb__rec_multiply(vtb__rec *r, vtb__term *t, vtb_value *v, int sign, const int *axis) {
  const vtb_inst *d = v->def;
  double c;
  if (vtb__rec_new_state(r, v) >= 0 || t->n >= MAX_FACTORS || r->budget-- <= 0)
    d = NULL; /* taken as it is */
  if (vtb__splat(v, &c) && (sign > 0 || c != 0)) {
    t->coef = sign > 0 ? t->coef * c : t->coef / c;
  } else if (d && (d->op == VTB_OP_mul || d->op == VTB_OP_div || d->op == VTB_OP_neg ||
                   d->op == VTB_OP_broadcast || is_outer(d) ||
                   (d->op == VTB_OP_reshape &&
                    vtb_type_unit_reshape(&v->type, &d->operands[0]->type)))) {
    if (d->op == VTB_OP_neg) t->coef = -t->coef;
    for (int o = 0; o < d->n_operands; o++) {
      int inner[VTB_MAX_RANK], by = d->op == VTB_OP_div && o == 1 ? -sign : sign;
      vtb__rec_operand_axes(d, o, axis, inner);
      vtb__rec_multiply(r, t, d->operands[o], by, inner);
    }
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

/* ---- gains that cannot grow ------------------------------------------------------------------ */

bool vtb__rec_is_bounded(const vtb_value *log_gain) { return vtb_range_of(log_gain).hi <= 0; }

bool vtb__rec_at_most_one(const vtb__factor *f) {
  vtb_range x = vtb_range_of(f->v->def->operands[0]);
  return f->sign > 0 ? x.hi <= 0 : x.lo >= 0;
}

bool vtb__rec_term_bounds(const vtb__term *t, const vtb__factor *gain) {
  if (vtb__rec_at_most_one(gain)) return true;
  for (int i = 0; i < t->n && gain->sign > 0; i++)
    if (t->at[i].sign < 0 && vtb_is_reduced(t->at[i].v, VTB_OP_reduce_sum, gain->v)) return true;
  return false;
}

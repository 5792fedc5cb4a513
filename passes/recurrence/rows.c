/* Sums over a state, added, scaled and read: the algebra under delta.c. */
#include "passes/recurrence/delta.h"

#include <string.h>

/* ---- step values of at most one axis; NULL is 0 ---------------------------------------------- */

static vtb_value *plus(vtb__finder *d, vtb_value *x, vtb_value *y) {
  return vtb__joined(&d->b, VTB_OP_add, x, y);
}

static vtb_value *times(vtb__finder *d, vtb_value *x, vtb_value *y) {
  if (!x || !y) return NULL;
  if (vtb__is_constant(x, 1)) return y;
  if (vtb__is_constant(y, 1)) return x;
  return vtb_b_binary(&d->b, VTB_OP_mul, x, y);
}

/* Without its axes of size 1; at most one is left. */
static vtb_value *as_line(vtb__finder *d, vtb_value *v) {
  int64_t n = vtb_type_count(&v->type);
  if (v->type.rank <= 1) return v;
  vtb_type t = {.dtype = v->type.dtype, .rank = n > 1, .dim = {{.size = n}}};
  return vtb_b_reshape(&d->b, v, &t);
}

/* The product of a term whose factors vary over one axis at most. */
static vtb_value *product(vtb__finder *d, const vtb__term *t) {
  vtb_value *v = vtb_b_constant(&d->b, t->coef);
  for (int i = 0; i < t->n; i++) {
    vtb_value *f = as_line(d, t->at[i].v);
    v = t->at[i].sign > 0 ? times(d, v, f) : vtb_b_binary(&d->b, VTB_OP_div, v, f);
  }
  return v;
}

/* sum over the key axis of x y */
static vtb_value *dot(vtb__finder *d, vtb_value *x, vtb_value *y) {
  vtb_value *v = times(d, x, y);
  vtb_type t = VTB__F32({.size = d->n_keys});
  if (v->type.rank == 0 || v->type.dim[0].size != d->n_keys) v = vtb_b_broadcast(&d->b, v, &t);
  return vtb_b_reduce(&d->b, VTB_OP_reduce_sum, v, (int64_t[]){0}, 1, false);
}

/* ---- forms ----------------------------------------------------------------------------------- */

vtb__form *vtb__form_fail(vtb__finder *d, const vtb_inst *inst, const char *why) {
  if (!d->why) d->blame = inst, d->why = why;
  return NULL;
}

static bool fail(vtb__finder *d, const vtb_inst *inst, const char *why) {
  return vtb__form_fail(d, inst, why) != NULL;
}

vtb__form *vtb__form_new(vtb__finder *d, bool matrix, int key, int value) {
  vtb__form *x = VTB_SCRATCH(d->r->step, vtb__form, 0);
  *x = (vtb__form){.matrix = matrix, .key = key, .value = value};
  x->rows = VTB_SCRATCH(d->r->step, vtb__row, VTB__MAX_ROWS);
  return x;
}

vtb__form *vtb__form_copy(vtb__finder *d, const vtb__form *x) {
  vtb__form *y = vtb__form_new(d, x->matrix, x->key, x->value);
  vtb__row *rows = y->rows;
  *y = *x, y->rows = rows;
  for (int i = 0; i < x->n_rows; i++) {
    rows[i] = x->rows[i];
    rows[i].key = vtb__term_copy(d->r, &x->rows[i].key);
  }
  return y;
}

/* Lines under equal keys are one. */
static bool add_row(vtb__finder *d, vtb__form *x, const vtb__row *row, const vtb_inst *inst) {
  for (int i = 0; i < x->n_rows; i++) {
    if (!vtb__terms_match(&x->rows[i].key, 0, &row->key, 0)) continue;
    x->rows[i].c = plus(d, x->rows[i].c, row->c);
    x->rows[i].b = plus(d, x->rows[i].b, row->b);
    return true;
  }
  if (x->n_rows == VTB__MAX_ROWS) return fail(d, inst, "adds too many terms to the state");
  x->rows[x->n_rows++] = *row;
  return true;
}

void vtb__form_spread(vtb__form *x, int axis) {
  if (x->matrix) return;
  x->rows[x->n_rows++] = (vtb__row){.key = {.coef = 1}, .c = x->c, .b = x->b};
  x->matrix = true, x->key = axis, x->c = x->b = NULL;
}

bool vtb__form_add(vtb__finder *d, vtb__form *x, const vtb__form *y, const vtb_inst *inst) {
  if (x->value != y->value || (x->matrix && y->matrix && x->key != y->key))
    return fail(d, inst, "adds the state to itself turned");
  if (!x->matrix && !y->matrix) {
    x->c = plus(d, x->c, y->c), x->b = plus(d, x->b, y->b);
    return true;
  }
  vtb__form *other = vtb__form_copy(d, y);
  vtb__form_spread(x, y->key);
  vtb__form_spread(other, x->key);
  x->a = plus(d, x->a, other->a);
  bool good = true;
  for (int i = 0; i < other->n_rows && good; i++) good = add_row(d, x, &other->rows[i], inst);
  return good;
}

/* ---- factors --------------------------------------------------------------------------------- */

/* A term by the axes of a form: numbers and the coefficient, factors along the value, the key. */
typedef struct parts {
  vtb__term number, value, key;
  int other;  /* the axis of factors that are along neither; -1: none */
  bool joint; /* a factor varies over several axes */
} parts;

/* A line has no key axis: what varies along another axis than its own is one. */
static parts part(vtb__finder *d, const vtb__form *x, const vtb__term *t) {
  parts p = {.number = {.coef = t->coef}, .value = {.coef = 1}, .key = {.coef = 1}, .other = -1};
  for (int i = 0; i < t->n; i++) {
    const vtb__factor *f = &t->at[i];
    unsigned axes = vtb__factor_axes(f);
    if (vtb__is_gain(d->r, f)) vtb__put(d->r->step, &d->gains, *f);
    if (!axes) {
      vtb__term_push(d->r, &p.number, *f);
    } else if (x->value >= 0 && axes == 1u << x->value) {
      vtb__term_push(d->r, &p.value, vtb__factor_on(f, 0));
    } else if (axes & (axes - 1)) {
      p.joint = true;
    } else {
      int axis = __builtin_ctz(axes);
      p.joint |= p.other >= 0 && p.other != axis;
      p.other = axis;
      vtb__term_push(d->r, &p.key, vtb__factor_on(f, 0));
    }
  }
  p.joint |= x->matrix && p.other >= 0 && p.other != x->key;
  return p;
}

static void scale_line(vtb__finder *d, vtb_value *by, vtb_value **c, vtb_value **b) {
  *c = times(d, *c, by), *b = times(d, *b, by);
}

bool vtb__form_scale(vtb__finder *d, vtb__form *x, const vtb__term *t, const vtb_inst *inst) {
  parts p = part(d, x, t);
  if (p.joint) return fail(d, inst, "scales every element of the state by a factor of its own");
  if (p.value.n)
    return fail(d, inst, "scales the state, or what was read of it, along the axis it is read out");
  vtb_value *number = product(d, &p.number);
  if (!x->matrix) {
    scale_line(d, number, &x->c, &x->b);
    if (p.other < 0) return true;
    vtb__form_spread(x, p.other);
    x->rows[0].key = p.key;
    return true;
  }
  x->a = times(d, times(d, x->a, number), product(d, &p.key));
  for (int i = 0; i < x->n_rows; i++) {
    scale_line(d, number, &x->rows[i].c, &x->rows[i].b);
    for (int k = 0; k < p.key.n; k++) vtb__term_push(d->r, &x->rows[i].key, p.key.at[k]);
  }
  return true;
}

/* ---- values that no state enters ------------------------------------------------------------- */

/* A factor that is a sum and varies over both axes of a matrix; -1: none. */
static int sum_within(const vtb__term *t) {
  for (int i = 0; i < t->n; i++) {
    unsigned axes = vtb__factor_axes(&t->at[i]);
    const vtb_inst *def = t->at[i].v->def;
    if ((axes & (axes - 1)) && t->at[i].sign > 0 && def &&
        (def->op == VTB_OP_add || def->op == VTB_OP_sub))
      return i;
  }
  return -1;
}

static bool add_product(vtb__finder *d, vtb__form *x, const vtb__term *t, const vtb_inst *inst) {
  int sum = sum_within(t);
  if (sum >= 0) {
    vtb__factor f = t->at[sum];
    int axis[VTB_MAX_RANK];
    for (int o = 0; o < 2; o++) {
      vtb__term rest = {.coef = o && f.v->def->op == VTB_OP_sub ? -t->coef : t->coef};
      for (int i = 0; i < t->n; i++)
        if (i != sum) vtb__term_push(d->r, &rest, t->at[i]);
      vtb__rec_operand_axes(f.v->def, o, f.axis, axis);
      if (!vtb__form_add_free(d, x, f.v->def->operands[o], &rest, axis, inst)) return false;
    }
    return true;
  }
  parts p = part(d, x, t);
  if (p.joint) return fail(d, inst, "adds a matrix to the state that is no outer product");
  vtb_value *line = times(d, product(d, &p.number), product(d, &p.value));
  if (!x->matrix && p.other < 0) {
    x->c = plus(d, x->c, line);
    return true;
  }
  vtb__form_spread(x, p.other);
  return add_row(d, x, &(vtb__row){.key = p.key, .c = line}, inst);
}

bool vtb__form_add_free(vtb__finder *d, vtb__form *x, vtb_value *f, const vtb__term *by,
                        const int *axis, const vtb_inst *inst) {
  vtb__term t = vtb__term_copy(d->r, by);
  vtb__rec_multiply(d->r, &t, f, 1, axis);
  return t.coef == 0 || add_product(d, x, &t, inst);
}

/* ---- reading --------------------------------------------------------------------------------- */

vtb__form *vtb__form_contract(vtb__finder *d, const vtb__form *m, vtb_value *x, int value) {
  vtb__form *line = vtb__form_new(d, false, -1, value);
  if (!x) x = vtb_b_constant(&d->b, 1);
  x = as_line(d, x);
  line->b = times(d, m->a, x);
  for (int i = 0; i < m->n_rows; i++) {
    const vtb__row *row = &m->rows[i];
    vtb_value *match = dot(d, product(d, &row->key), x);
    line->c = plus(d, line->c, times(d, row->c, match));
    line->b = plus(d, line->b, times(d, row->b, match));
  }
  return line;
}

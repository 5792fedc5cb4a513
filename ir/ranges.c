/* Intervals by abstract interpretation; see ir/ranges.h. */
#include "ir/ranges.h"
#include "ir/ops.h"

#include "ir/scalar.h"

#include <math.h>
#include <string.h>

enum { MAX_OPERANDS = 64, MAX_DEPTH = 64, ROUNDS = 4, NEAR = 8 };

typedef struct walk {
  vtb_range_watch watch; /* NULL while a fixed point is looked for */
  void *user;
  int depth;
} walk;

static const vtb_range anything = {-INFINITY, INFINITY, false};

static void walk_func(walk *w, vtb_func *f, const vtb_range *args, vtb_range *results);

/* ---- intervals ------------------------------------------------------------------------------- */

static vtb_range range(double lo, double hi, bool nonzero) {
  if (isnan(lo)) lo = -INFINITY;
  if (isnan(hi)) hi = INFINITY;
  return (vtb_range){lo, hi, nonzero || lo > 0 || hi < 0};
}

static bool is_positive(vtb_range r) { return r.lo >= 0 && r.nonzero; }
static bool is_negative(vtb_range r) { return r.hi <= 0 && r.nonzero; }

static vtb_range join(vtb_range a, vtb_range b) {
  bool apart = (is_positive(a) && is_positive(b)) || (is_negative(a) && is_negative(b));
  return range(fmin(a.lo, b.lo), fmax(a.hi, b.hi), apart);
}

/* 0 times infinity is 0: infinity is only a bound. */
static double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

static vtb_range product(vtb_range a, vtb_range b) {
  double p = times(a.lo, b.lo), q = times(a.lo, b.hi), r = times(a.hi, b.lo), s = times(a.hi, b.hi);
  return range(fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s)), a.nonzero && b.nonzero);
}

static vtb_range squared(vtb_range a) {
  double most = fmax(times(a.lo, a.lo), times(a.hi, a.hi));
  double least = a.lo > 0 ? a.lo * a.lo : a.hi < 0 ? a.hi * a.hi : 0;
  return range(least, most, a.nonzero);
}

static vtb_range quotient(vtb_range a, vtb_range b) {
  if (b.lo > 0 || b.hi < 0) return product(a, range(1 / b.hi, 1 / b.lo, true));
  if (is_positive(b)) return product(a, range(0, INFINITY, true));
  if (is_negative(b)) return product(a, range(-INFINITY, 0, true));
  return anything;
}

static vtb_range absolute(vtb_range a) {
  double least = a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0;
  return range(least, fmax(fabs(a.lo), fabs(a.hi)), a.nonzero);
}

/* n times one of it, the same sign or not; n unknown: from 1 to infinity. */
static vtb_range summed(vtb_range a, double n) {
  bool one_sign = is_positive(a) || is_negative(a);
  return range(a.lo < 0 ? times(a.lo, n) : a.lo, a.hi > 0 ? times(a.hi, n) : a.hi, one_sign);
}

/* ---- sums and maxima of a value -------------------------------------------------------------- */

static const vtb_value *bare(const vtb_value *v) {
  while (v->def && (v->def->op == VTB_OP_reshape || v->def->op == VTB_OP_broadcast ||
                    v->def->op == VTB_OP_stop_gradient))
    v = v->def->operands[0];
  return v;
}

bool vtb_is_reduced(const vtb_value *v, vtb_op op, const vtb_value *of) {
  v = bare(v);
  return v->def && v->def->op == op && bare(v->def->operands[0]) == bare(of);
}

/* x - max(x), x - log(sum(exp(x))): what a softmax takes the exponential of. */
static bool is_less_its_largest(const vtb_inst *d) {
  const vtb_value *x = d->operands[0], *y = bare(d->operands[1]);
  if (vtb_is_reduced(y, VTB_OP_reduce_max, x)) return true;
  if (!y->def || y->def->op != VTB_OP_log) return false;
  const vtb_value *sum = bare(y->def->operands[0]);
  if (!sum->def || sum->def->op != VTB_OP_reduce_sum) return false;
  const vtb_value *e = bare(sum->def->operands[0]);
  return e->def && e->def->op == VTB_OP_exp && bare(e->def->operands[0]) == bare(x);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

/* Results that are never 0 for any operand. */
static bool never_zero(vtb_op op) {
  return op == VTB_OP_exp || op == VTB_OP_sigmoid || op == VTB_OP_softplus || op == VTB_OP_rsqrt ||
         op == VTB_OP_log_sigmoid || op == VTB_OP_cosh;
}

static bool keeps_nonzero(vtb_op op, const vtb_range *x) {
  switch (op) {
  case VTB_OP_neg:
  case VTB_OP_sqrt:
  case VTB_OP_tanh:
  case VTB_OP_erf:
  case VTB_OP_expm1:
  case VTB_OP_log1p:
  case VTB_OP_stop_gradient:
    return x[0].nonzero;
  case VTB_OP_add:
    return (x[0].lo >= 0 && x[1].lo >= 0 && (x[0].nonzero || x[1].nonzero)) ||
           (x[0].hi <= 0 && x[1].hi <= 0 && (x[0].nonzero || x[1].nonzero));
  case VTB_OP_sub:
    return (x[0].lo >= 0 && x[1].hi <= 0 && (x[0].nonzero || x[1].nonzero)) ||
           (x[0].hi <= 0 && x[1].lo >= 0 && (x[0].nonzero || x[1].nonzero));
  case VTB_OP_max:
    return is_positive(x[0]) || is_positive(x[1]);
  case VTB_OP_min:
    return (is_positive(x[0]) && is_positive(x[1])) || is_negative(x[0]) || is_negative(x[1]);
  default:
    return never_zero(op);
  }
}

/* The ends, where every operand moves the result one way. */
static bool by_ends(vtb_op op, const vtb_scalar *row, const vtb_range *x, vtb_range *out) {
  double low[VTB_SCALAR_OPERANDS], high[VTB_SCALAR_OPERANDS];
  for (int k = 0; k < row->n_operands; k++) {
    if (row->monotone[k] == '.') return false;
    bool up = row->monotone[k] == '+';
    low[k] = up ? x[k].lo : x[k].hi;
    high[k] = up ? x[k].hi : x[k].lo;
  }
  *out = range(vtb_scalar_eval(op, low), vtb_scalar_eval(op, high), keeps_nonzero(op, x));
  return true;
}

static vtb_range elementwise(const vtb_inst *i, const vtb_range *x) {
  const vtb_scalar *row = vtb_scalar_get(i->op);
  vtb_range r = anything;
  switch (i->op) {
  case VTB_OP_mul:
    return i->operands[0] == i->operands[1] ? squared(x[0]) : product(x[0], x[1]);
  case VTB_OP_square:
    return squared(x[0]);
  case VTB_OP_div:
    return quotient(x[0], x[1]);
  case VTB_OP_abs:
    return absolute(x[0]);
  case VTB_OP_select:
    return join(x[1], x[2]);
  case VTB_OP_sin:
  case VTB_OP_cos:
    return range(-1, 1, false);
  case VTB_OP_pow:
    return range(0, INFINITY, x[0].nonzero);
  default:
    break;
  }
  if (by_ends(i->op, row, x, &r)) {
    if (row->sign == VTB_SIGN_nonnegative) r.lo = fmax(r.lo, 0);
    if (row->sign == VTB_SIGN_nonpositive) r.hi = fmin(r.hi, 0);
    if (i->op == VTB_OP_sub && is_less_its_largest(i)) r.hi = fmin(r.hi, 0);
    return r;
  }
  if (row->sign == VTB_SIGN_nonnegative) return range(0, INFINITY, never_zero(i->op));
  if (row->sign == VTB_SIGN_nonpositive) return range(-INFINITY, 0, never_zero(i->op));
  return anything;
}

/* ---- other ops ------------------------------------------------------------------------------- */

static vtb_range of_constant(const vtb_inst *i) {
  const vtb_attr *data = vtb_attr_find(i, "data");
  double value = vtb_attr_float(i, "value", 0);
  if (!data || !data->n) return range(value, value, value != 0);
  vtb_range r = range(data->floats[0], data->floats[0], false);
  for (int k = 1; k < data->n; k++) {
    double v = data->floats[k];
    r = join(r, range(v, v, false));
  }
  return r;
}

/* Elements that a reduction adds up; INFINITY: not known. */
static double reduced_count(const vtb_inst *i) {
  int n = 0;
  const int64_t *axes = vtb_attr_ints(i, "axes", &n);
  double count = 1;
  for (int k = 0; k < n; k++) {
    int64_t size = i->operands[0]->type.dim[axes[k]].size;
    count *= vtb_is_batch(size) ? INFINITY : (double)size;
  }
  return count;
}

static vtb_range of_shape_op(const vtb_inst *i, const vtb_range *x) {
  static const vtb_range zero = {0, 0, false};
  vtb_range r = x[0];
  switch (i->op) {
  case VTB_OP_reshape:
  case VTB_OP_broadcast:
  case VTB_OP_transpose:
  case VTB_OP_slice:
  case VTB_OP_permute:
  case VTB_OP_tap:
  case VTB_OP_cast:
    return r;
  case VTB_OP_pad:
  case VTB_OP_im2col:
  case VTB_OP_gather:
    return join(r, zero);
  case VTB_OP_concat:
    for (int k = 1; k < i->n_operands && k < MAX_OPERANDS; k++) r = join(r, x[k]);
    return i->n_operands <= MAX_OPERANDS ? r : anything;
  case VTB_OP_shift: {
    double fill = vtb_attr_float(i, "fill", 0);
    return join(r, i->n_operands > 1 ? x[1] : range(fill, fill, false));
  }
  case VTB_OP_reduce_max:
    return r;
  case VTB_OP_reduce_sum:
    return summed(r, reduced_count(i));
  case VTB_OP_prefix_sum:
    return vtb_attr_find(i, "wrap") ? anything : summed(join(r, zero), INFINITY);
  case VTB_OP_einsum:
    return i->n_operands == 2 ? summed(product(x[0], x[1]), INFINITY) : anything;
  case VTB_OP_attention: /* weights from 0 to 1 whose sum is 1 */
    return x[2];
  default:
    return anything;
  }
}

static vtb_range of_source(const vtb_inst *i) {
  switch (i->op) {
  case VTB_OP_constant:
    return of_constant(i);
  case VTB_OP_iota: {
    int64_t n = i->results[0]->type.dim[vtb_attr_int(i, "axis", 0)].size;
    return range(0, vtb_is_batch(n) ? INFINITY : (double)(n - 1), false);
  }
  case VTB_OP_random:
    return range(0, 1, false);
  case VTB_OP_state_scale:
    return vtb_attr_int(i, "log", 0) ? anything : range(0, INFINITY, true);
  default:
    return anything;
  }
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Bounds that still move after some rounds are given up. */
static bool grow(vtb_range *state, vtb_range next, int round) {
  vtb_range r = join(*state, next);
  if (round >= ROUNDS && r.lo < state->lo) r.lo = -INFINITY;
  if (round >= ROUNDS && r.hi > state->hi) r.hi = INFINITY;
  bool moved = r.lo != state->lo || r.hi != state->hi || r.nonzero != state->nonzero;
  *state = r;
  return moved;
}

/* Arguments of the step are its states, then what the recurrence is given behind initial states;
 * results are yields, then states, then the scale. */
static void of_recurrence(walk *w, const vtb_inst *i, const vtb_range *x, vtb_range *results) {
  int states = (int)vtb_attr_int(i, "states", 0), inits = (int)vtb_attr_int(i, "inits", 0);
  vtb_func *step = i->callee;
  vtb_range args[MAX_OPERANDS], next[MAX_OPERANDS];
  for (int k = 0; k < step->n_args; k++)
    args[k] = k >= states ? x[inits + k - states]
              : k < inits ? join(x[k], range(0, 0, false))
                          : range(0, 0, false);
  vtb_range_watch watch = w->watch;
  w->watch = NULL;
  bool moved = true;
  for (int round = 0; moved && round < 3 * ROUNDS; round++) {
    walk_func(w, step, args, next);
    moved = false;
    for (int k = 0; k < states; k++) moved |= grow(&args[k], next[k], round);
  }
  w->watch = watch;
  walk_func(w, step, args, next);
  int yields = step->n_returns - states;
  for (int r = 0; r < i->n_results; r++)
    results[r] = r < yields ? next[states + r] : r < yields + states ? args[r - yields] : anything;
}

static void of_inst(walk *w, const vtb_inst *i, const vtb_range *x, vtb_range *results) {
  bool small = i->n_operands <= MAX_OPERANDS && i->n_results <= MAX_OPERANDS;
  bool fits = i->callee && small && i->callee->n_args <= MAX_OPERANDS &&
              i->callee->n_returns <= MAX_OPERANDS && w->depth < MAX_DEPTH;
  for (int r = 0; r < i->n_results; r++) results[r] = anything;
  if (i->op == VTB_OP_call && i->callee && w->depth < MAX_DEPTH)
    walk_func(w, i->callee, x, results);
  else if (i->op == VTB_OP_recurrence && fits)
    of_recurrence(w, i, x, results);
  else if (i->n_results >= 1 && vtb_scalar_get(i->op))
    results[0] = elementwise(i, x);
  else if (i->n_results >= 1)
    results[0] = i->n_operands && i->op != VTB_OP_random ? of_shape_op(i, x) : of_source(i);
}

/* x and results have room for what the widest instruction has. */
static void walk_insts(walk *w, vtb_func *f, vtb_range *at, vtb_range *x, vtb_range *results) {
  for (const vtb_inst *i = f->first; i; i = i->next) {
    for (int k = 0; k < i->n_operands; k++) x[k] = at[i->operands[k]->id];
    if (w->watch) w->watch(w->user, i, x);
    of_inst(w, i, x, results);
    for (int r = 0; r < i->n_results; r++) at[i->results[r]->id] = results[r];
  }
}

static void walk_func(walk *w, vtb_func *f, const vtb_range *args, vtb_range *results) {
  int widest = 1;
  for (const vtb_inst *i = f->first; i; i = i->next) {
    if (i->n_operands > widest) widest = i->n_operands;
    if (i->n_results > widest) widest = i->n_results;
  }
  vtb_range *at = vtb_xcalloc((size_t)f->n_values + 1, sizeof *at);
  vtb_range *x = vtb_xcalloc((size_t)widest, sizeof *x),
            *out = vtb_xcalloc((size_t)widest, sizeof *out);
  w->depth++;
  for (int a = 0; a < f->n_args; a++) at[f->args[a]->id] = args[a];
  walk_insts(w, f, at, x, out);
  for (int r = 0; r < f->n_returns && results; r++) results[r] = at[f->returns[r]->id];
  w->depth--;
  vtb_free(at);
  vtb_free(x);
  vtb_free(out);
}

void vtb_ranges(vtb_func *entry, vtb_range_watch watch, void *user) {
  walk w = {.watch = watch, .user = user};
  vtb_range *args = vtb_xcalloc((size_t)entry->n_args + 1, sizeof *args);
  for (int a = 0; a < entry->n_args; a++) {
    const vtb_arg_info *info = &entry->arg_info[a];
    bool variance = info->role == VTB_ROLE_BUFFER && !info->frozen && info->init &&
                    strcmp(info->init, "ones") == 0;
    args[a] = variance ? range(0, INFINITY, false) : anything;
  }
  walk_func(&w, entry, args, NULL);
  vtb_free(args);
}

static vtb_range of_value(const vtb_value *v, int depth) {
  walk w = {0};
  vtb_range x[VTB_SCALAR_OPERANDS], r = anything;
  const vtb_inst *i = v->def;
  if (!i || depth > NEAR || i->n_operands > VTB_SCALAR_OPERANDS || i->n_results > 1) return r;
  for (int k = 0; k < i->n_operands; k++) x[k] = of_value(i->operands[k], depth + 1);
  of_inst(&w, i, x, &r);
  return r;
}

vtb_range vtb_range_of(const vtb_value *v) { return of_value(v, 0); }

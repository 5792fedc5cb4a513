/* Computes a part of a function: what follows the rows, with the part's rows, from what the part
 * before has handed on. A value that has none of them there is NULL. */
#include "passes/strips/strips.h"

#include <string.h>

#include "ir/axes.h"
#include "ir/fold.h"
#include "ir/product.h"
#include "ir/recurrence.h"

enum { TOKENS = 1 };

typedef struct emitter {
  vtb__strip_part *p;
  const vtb_inst *i;
  int slot; /* the next of the instruction's slots */
} emitter;

static const vtb__flow *flow(const vtb__strip_part *p, const vtb_value *v) {
  return &p->f->of[v->id];
}

static bool follows(const vtb__strip_part *p, const vtb_value *v) {
  return flow(p, v)->when == VTB__ROWS;
}

/* The elements of x from `from` on, `n` of them. */
static vtb_value *piece(vtb__strip_part *p, vtb_value *x, int axis, int64_t from, int64_t n) {
  if (!n) return NULL;
  return n == x->type.dim[axis].size ? x : vtb_b_slice(&p->b, x, axis, from, from + n, 1);
}

static vtb_value *behind(vtb__strip_part *p, vtb_value *x, vtb_value *y, int axis) {
  return !x ? y : !y ? x : vtb_b_concat(&p->b, (vtb_value *[]){x, y}, 2, axis);
}

static int64_t size_of(const vtb_value *x, int axis) { return x ? x->type.dim[axis].size : 0; }

/* x, of which the last n elements are handed on, behind those that were. The first part begins. */
static vtb_value *carried(emitter *e, vtb_value *x, int axis) {
  vtb__strip_part *p = e->p;
  int at = e->slot++;
  vtb_value *all = p->part == VTB__HEAD ? x : behind(p, p->slot[at], x, axis);
  int64_t n = p->f->slots.at[at].type.dim[axis].size, size = size_of(all, axis);
  if (p->part == VTB__REST) return all;
  vtb_check(size >= n, "strips: %lld elements cannot hand on %lld", (long long)size, (long long)n);
  p->slot[at] = piece(p, all, axis, size - n, n);
  return all;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* How the operands of an instruction follow the rows: as the first that lags most. */
static vtb__flow flow_of_operands(const vtb__strip_part *p, const vtb_inst *i) {
  vtb__flow y = {.when = VTB__WHOLE};
  for (int o = 0; o < i->n_operands; o++) {
    vtb__flow x = *flow(p, i->operands[o]);
    if (x.when != VTB__ROWS || (y.when == VTB__ROWS && x.lag <= y.lag)) continue;
    y = x;
  }
  return y;
}

/* An operand as of the rows that all of them are known for. */
static vtb_value *waiting(emitter *e, const vtb_value *v, int64_t lag) {
  const vtb__flow *x = flow(e->p, v);
  vtb_value *now = e->p->of[v->id];
  int64_t later = (lag - x->lag) * x->per_row;
  if (!later) return now;
  vtb_value *all = carried(e, now, x->axis);
  int64_t n = size_of(all, x->axis);
  bool rest = e->p->part == VTB__REST;
  return all ? piece(e->p, all, x->axis, 0, rest ? n : n - later) : NULL;
}

/* The axis of another operand than o that moves with the tokens of o. */
static int axis_beside(const vtb_inst *i, int o, int axis, int other) {
  if (i->op != VTB_OP_einsum) return -1;
  vtb_product p = vtb_product_of(i);
  return vtb_product_at(&p, o, axis)->at[other];
}

/* All operands; false if one of them has no rows in this part. `y`: how the result follows, or
 * where tokens are summed the operands. */
static bool operands_of(emitter *e, vtb_value **out, vtb__flow y) {
  const vtb_inst *i = e->i;
  vtb__strip_part *p = e->p;
  bool all = true, sums = flow(p, i->results[0])->when == VTB__LATE;
  int one = 0;
  while (one < i->n_operands && !follows(p, i->operands[one])) one++;
  int one_axis = flow(p, i->operands[one])->axis;
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_value *v = i->operands[o];
    if (follows(p, v)) {
      out[o] = waiting(e, v, y.lag);
      all &= out[o] != NULL;
    }
  }
  for (int o = 0; o < i->n_operands && all; o++) {
    const vtb_value *v = i->operands[o];
    if (follows(p, v)) continue;
    int axis = sums ? axis_beside(i, one, one_axis, o) : vtb__strips_axis(i, o, y.axis);
    bool cut = axis >= 0 && v->type.dim[axis].size == vtb__strips_total(p->s, &y) &&
               v->type.dim[axis].size > 1;
    out[o] = cut ? vtb__strips_cut(p, v, axis, &y) : vtb__strips_value(p, v);
  }
  return all;
}

/* Room for the attributes, and some more. */
static vtb_attr *room(const vtb_inst *i) { return VTB_SCRATCH(i->func, vtb_attr, i->n_attrs + 1); }

/* The attributes for other sizes: shapes have `n` at an axis; orders are those of the rows. */
static int attributes(const emitter *e, vtb_attr *out, int axis, int64_t n) {
  int count = 0;
  for (int k = 0; k < e->i->n_attrs; k++) {
    vtb_attr a = e->i->attrs[k];
    if (vtb_streq(a.key, "path") || vtb_streq(a.key, "layout") || vtb_streq(a.key, "reverse"))
      continue;
    if (vtb_streq(a.key, "shape")) {
      int64_t *shape = VTB_SCRATCH(e->i->func, int64_t, a.n);
      for (int d = 0; d < a.n; d++) shape[d] = d == axis ? n : a.ints[d];
      a.ints = shape;
    }
    out[count++] = a;
  }
  return count;
}

static vtb_inst *again(emitter *e, vtb_value **operands, int n_operands, const vtb_attr *attrs,
                       int n) {
  e->p->b.span = e->i->span;
  e->p->b.name_hint = e->i->results[0]->name;
  if (e->i->callee)
    return vtb_build_call(&e->p->b, e->i->op, e->i->callee, operands, n_operands, attrs, n);
  return vtb_build(&e->p->b, e->i->op, operands, n_operands, attrs, n);
}

static void set(const emitter *e, int result, vtb_value *v) {
  e->p->of[e->i->results[result]->id] = v;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static void emit_ordinary(emitter *e) {
  const vtb_inst *i = e->i;
  vtb__strip_part *p = e->p;
  vtb__flow y = *flow(p, i->results[0]);
  bool sums = y.when == VTB__LATE;
  if (sums) y = flow_of_operands(p, i);
  vtb_value **operands = VTB_SCRATCH(i->func, vtb_value *, i->n_operands);
  vtb_attr *attrs = room(e->i);
  if (!operands_of(e, operands, y)) return;
  int n = attributes(e, attrs, sums ? -1 : y.axis, vtb__strips_count(p, &y));
  vtb_value *v = again(e, operands, i->n_operands, attrs, n)->results[0];
  vtb_op join = i->op == VTB_OP_reduce_max ? VTB_OP_max : VTB_OP_add;
  if (sums)
    p->slot[e->slot] = vtb_b_binary(&p->b, join, p->slot[e->slot], v);
  else
    set(e, 0, v);
}

/* The one token that is taken stands in a strip that is known. */
static vtb_value *taken(emitter *e, vtb_value *x, const vtb__flow *in, int64_t token) {
  vtb__strip_part *p = e->p;
  int64_t n = vtb__strips_count(p, in), first = in->head - (in->lag + p->shift) * in->per_row;
  int64_t at = token - first - p->s->head * in->per_row, strip = at / n;
  vtb_value *old = p->slot[e->slot];
  if (at < 0 || strip >= p->s->count) return old;
  vtb_type one = {.dtype = VTB_I32};
  double row = (double)(p->s->head + strip * p->s->height - p->shift);
  vtb_value *now = vtb_b_slice(&p->b, x, in->axis, at % n, at % n + 1, 1);
  vtb_value *here = vtb_b_binary(&p->b, VTB_OP_eq, p->row, vtb_b_splat(&p->b, row, &one));
  return vtb_b_select(&p->b, here, now, old);
}

static void emit_slice(emitter *e) {
  vtb__strip_part *p = e->p;
  const vtb__flow *in = flow(p, e->i->operands[0]), *y = flow(p, e->i->results[0]);
  vtb_value *x = p->of[e->i->operands[0]->id];
  int64_t n = size_of(x, in->axis);
  if (!x) return;
  p->b.span = e->i->span;
  if (y->when == VTB__ROWS) {
    int64_t from = p->part == VTB__HEAD ? in->head - y->head : 0;
    int64_t less = p->part == VTB__REST ? in->tail - y->tail : 0;
    set(e, 0, piece(p, x, in->axis, from, n - from - less));
    return;
  }
  vtb_slice s = vtb_slice_of(e->i);
  if (p->part == VTB__STRIP) {
    if (s.limit - s.start == 1) p->slot[e->slot] = taken(e, x, in, s.start);
    return;
  }
  int64_t from = s.start - (p->part == VTB__REST ? vtb__strips_total(p->s, in) - n : 0);
  int64_t size = s.limit - s.start;
  if (from >= 0 && from + size <= n) p->slot[e->slot] = piece(p, x, in->axis, from, size);
}

/* What stands before the rows comes with the head, what stands behind them with the rest. */
static void emit_concat(emitter *e) {
  vtb__strip_part *p = e->p;
  const vtb_inst *i = e->i;
  int axis = (int)vtb_attr_int(i, "axis", 0);
  bool before = true;
  vtb_value *all = NULL;
  p->b.span = i->span;
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_value *v = i->operands[o];
    bool rows = follows(p, v), now = p->part == (before ? VTB__HEAD : VTB__REST);
    if (rows) before = false;
    vtb_value *x = rows ? p->of[v->id] : now ? vtb__strips_value(p, v) : NULL;
    all = behind(p, all, x, axis);
  }
  set(e, 0, all);
}

/* The convolution of x, whose grid has so many lines; of patches it has those of x. */
static vtb_value *convolved(emitter *e, vtb_value *x, int64_t lines) {
  vtb_depthwise d = {0};
  vtb_attr *attrs = room(e->i);
  vtb_value **operands = VTB_SCRATCH(e->i->func, vtb_value *, e->i->n_operands);
  operands[0] = x;
  for (int o = 1; o < e->i->n_operands; o++)
    operands[o] = vtb__strips_value(e->p, e->i->operands[o]);
  int n = attributes(e, attrs, -1, 0);
  if (e->i->op == VTB_OP_dwconv) {
    (void)vtb_depthwise_of(e->i, &d);
    d.grid[vtb__strips_outermost(&d)] = lines;
  }
  for (int k = 0; k < n; k++)
    if (vtb_streq(attrs[k].key, "grid")) attrs[k].ints = d.grid + VTB_GRID_AXES - d.rank;
  return again(e, operands, e->i->n_operands, attrs, n)->results[0];
}

/* Lines are computed once those below them are known: lines of zeros stand above the first one and
 * below the last one alone, and what a convolution makes at the cut edges is left out. */
static void emit_window(emitter *e, const vtb__window *w, const vtb__flow *in) {
  vtb__strip_part *p = e->p;
  int64_t line = in->per_row / w->lines;
  vtb_value *x = carried(e, p->of[e->i->operands[0]->id], in->axis);
  if (!x) return;
  int64_t n = vtb__strips_count(p, flow(p, e->i->results[0]));
  int64_t from = p->part == VTB__HEAD ? 0 : w->reach * w->width;
  vtb_value *y = convolved(e, x, size_of(x, in->axis) / line);
  set(e, 0, piece(p, y, TOKENS, from, n));
}

static void emit_convolution(emitter *e) {
  vtb__strip_part *p = e->p;
  const vtb__flow *in = flow(p, e->i->operands[0]);
  vtb_value *x = p->of[e->i->operands[0]->id];
  int64_t before = vtb__strips_causal(e->i);
  vtb__window w;
  p->b.span = e->i->span;
  if (before >= 0) {
    int64_t n = size_of(x, TOKENS);
    if (!x) return;
    if (before) x = behind(p, p->slot[e->slot], x, TOKENS);
    if (before) p->slot[e->slot] = piece(p, x, TOKENS, n, before);
    set(e, 0, piece(p, convolved(e, x, n + before), TOKENS, before, n));
  } else if (vtb__strips_window(p->s, e->i, in, &w)) {
    emit_window(e, &w, in);
  } else if (x && vtb__strips_count(p, flow(p, e->i->results[0]))) {
    set(e, 0, convolved(e, x, 0));
  }
}

/* ---- recurrences ----------------------------------------------------------------------------- */

static vtb_value *last_of(vtb__strip_part *p, vtb_value *x, int axis) {
  int64_t n = size_of(x, axis);
  vtb_type t = vtb_type_without_axis(&x->type, axis);
  return vtb_b_reshape(&p->b, vtb_b_slice(&p->b, x, axis, n - 1, n, 1), &t);
}

static int attributes_but(const emitter *e, vtb_attr *out, const char *without) {
  int n = attributes(e, out, -1, 0), kept = 0;
  for (int k = 0; k < n; k++)
    if (!strstr(without, out[k].key)) out[kept++] = out[k];
  return kept;
}

static void emit_linscan(emitter *e, vtb_value **operands) {
  vtb_scan s = vtb_scan_of(e->i);
  vtb_attr *attrs = room(e->i);
  int n = attributes_but(e, attrs, "init last starts"), at = s.n_inputs;
  attrs[n++] = VTB_A_INT("init", 1);
  operands[at++] = e->p->slot[e->slot];
  if (s.normalizer) operands[at++] = e->p->slot[e->slot + 1];
  vtb_inst *made = again(e, operands, at, attrs, n);
  for (int r = 0; r < made->n_results; r += 2) set(e, r, made->results[r]);
  for (int r = 1; r < made->n_results; r += 2) e->p->slot[e->slot++] = made->results[r];
}

/* Row r of [B, N, h, R, K]. */
static vtb_value *row_of(vtb__strip_part *p, vtb_value *x, int r) {
  vtb_type t = vtb_type_without_axis(&x->type, 3);
  return vtb_b_reshape(&p->b, vtb_b_slice(&p->b, x, 3, r, r + 1, 1), &t);
}

/* The state behind the part is that of the linear recurrences whose corrections it makes. */
static void emit_delta(emitter *e, vtb_value **operands) {
  vtb__strip_part *p = e->p;
  vtb_delta d = vtb_delta_of(e->i);
  vtb_attr *attrs = room(e->i);
  vtb_value *before = p->slot[e->slot], *state = NULL;
  int n = attributes_but(e, attrs, "init");
  attrs[n++] = VTB_A_INT("init", 1);
  operands[d.at.d + 1] = before;
  vtb_value *w = again(e, operands, d.at.d + 2, attrs, n)->results[0];
  set(e, 0, w);
  for (int r = 0; r < d.rank; r++) {
    vtb_value *k = row_of(p, operands[d.at.k], r);
    vtb_value *of[] = {k, k, row_of(p, w, r), operands[d.at.d], before};
    n = attributes_but(e, attrs, "init");
    if (!r) attrs[n++] = VTB_A_INT("init", 1);
    vtb_value *s = vtb_build(&p->b, VTB_OP_linscan, of, r ? 4 : 5, attrs, n)->results[1];
    state = vtb__joined(&p->b, VTB_OP_add, state, s);
  }
  p->slot[e->slot] = state;
}

static void emit_fold(emitter *e, vtb_value **operands) {
  vtb_fold f = vtb_fold_of(e->i);
  vtb_attr *attrs = room(e->i);
  int n = attributes(e, attrs, -1, 0);
  for (int k = 0; k < f.states; k++) operands[k] = e->p->slot[e->slot + k];
  vtb_inst *made = again(e, operands, e->i->n_operands, attrs, n);
  for (int r = 0; r < f.yields; r++) set(e, r, made->results[r]);
  for (int k = 0; k < f.states; k++) e->p->slot[e->slot + k] = made->results[f.yields + k];
}

static void emit_recurrence(emitter *e) {
  const vtb_inst *i = e->i;
  vtb__strip_part *p = e->p;
  vtb_attr *attrs = room(e->i);
  vtb_value **operands = VTB_SCRATCH(i->func, vtb_value *, i->n_operands + 2);
  if (!operands_of(e, operands, *flow(p, i->results[0]))) return;
  if (i->op == VTB_OP_linscan) emit_linscan(e, operands);
  if (i->op == VTB_OP_delta) emit_delta(e, operands);
  if (i->op == VTB_OP_fold) emit_fold(e, operands);
  if (i->op != VTB_OP_maxplus) return;
  operands[2] = p->slot[e->slot];
  vtb_value *y = again(e, operands, 3, attrs, attributes(e, attrs, -1, 0))->results[0];
  p->slot[e->slot] = last_of(p, y, TOKENS);
  set(e, 0, y);
}

static void emit_shift(emitter *e) {
  vtb__strip_part *p = e->p;
  vtb_attr *attrs = room(e->i);
  vtb_value *x = p->of[e->i->operands[0]->id];
  if (!x) return;
  vtb_value *operands[] = {x, p->slot[e->slot]};
  set(e, 0, again(e, operands, 2, attrs, attributes_but(e, attrs, "fill"))->results[0]);
  p->slot[e->slot] = last_of(p, x, flow(p, e->i->operands[0])->axis);
}

/* What was summed before comes in as one more token. */
static void emit_prefix_sum(emitter *e) {
  vtb__strip_part *p = e->p;
  vtb_attr *attrs = room(e->i);
  vtb_value *x = p->of[e->i->operands[0]->id];
  int axis = flow(p, e->i->operands[0])->axis;
  int64_t n = size_of(x, axis);
  bool exclusive = vtb_attr_int(e->i, "exclusive", 0) != 0;
  if (!x) return;
  p->b.span = e->i->span;
  x = behind(p, p->slot[e->slot], x, axis);
  vtb_value *y = again(e, &x, 1, attrs, attributes_but(e, attrs, "exclusive"))->results[0];
  set(e, 0, piece(p, y, axis, !exclusive, n));
  p->slot[e->slot] = piece(p, y, axis, n, 1);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The function's part, which takes what its arguments have of the part, what is handed on and, in a
 * strip, its first row, and gives what its returns have, and what is handed on. */
static vtb_func *function_of(vtb__strip_part *from, vtb__strip_func *f, int64_t shift) {
  static const char *const names[] = {"head", "strip", "rest"};
  for (size_t k = 0; k < f->made.n; k++)
    if (f->made.at[k].part == from->part && f->made.at[k].shift == shift) return f->made.at[k].f;
  vtb_func *made = vtb_func_made_of(f->f, names[from->part]);
  int n = (int)f->slots.n, n_returns = 0;
  vtb__strip_part p = {.s = from->s, .f = f, .part = from->part, .shift = shift};
  p.b = (vtb_builder){.module = f->f->module, .func = made};
  p.of = VTB_SCRATCH(f->f, vtb_value *, f->f->n_values);
  p.slot = VTB_SCRATCH(f->f, vtb_value *, n);
  vtb_value **returns = VTB_SCRATCH(f->f, vtb_value *, n + f->f->n_returns);
  for (int a = 0; a < f->f->n_args; a++) {
    const vtb_value *arg = f->f->args[a];
    const vtb__flow *x = &f->of[arg->id];
    vtb_type t = arg->type;
    if (x->when == VTB__ROWS) t.dim[x->axis].size = vtb__strips_count(&p, x);
    if (x->when == VTB__ROWS && !t.dim[x->axis].size) continue;
    p.of[arg->id] = vtb_func_add_arg(made, arg->name, t);
  }
  for (int k = 0; k < n; k++) p.slot[k] = vtb_func_add_arg(made, "before", f->slots.at[k].type);
  if (p.part == VTB__STRIP) p.row = vtb_func_add_arg(made, "row", (vtb_type){.dtype = VTB_I32});
  vtb__strips_emit(&p);
  for (int r = 0; r < f->f->n_returns; r++) {
    const vtb_value *v = f->f->returns[r];
    if (f->of[v->id].when == VTB__ROWS && p.of[v->id]) returns[n_returns++] = p.of[v->id];
  }
  for (int k = 0; k < n; k++) returns[n_returns++] = p.slot[k];
  vtb_func_set_returns(made, returns, NULL, n_returns);
  vtb__put(f->f, &f->made, ((vtb__strip_made){from->part, shift, made}));
  return made;
}

static void emit_call(emitter *e) {
  vtb__strip_part *p = e->p;
  const vtb_inst *i = e->i;
  vtb__strip_func *callee = p->f->callee[i->order];
  int64_t shift = vtb__strips_shift(p->f, i);
  int n = 0, r = 0, slots = (int)callee->slots.n;
  bool any = false;
  for (int o = 0; o < i->n_operands; o++)
    any |= follows(p, i->operands[o]) && p->of[i->operands[o]->id];
  for (int k = 0; k < i->n_results; k++)
    any |= follows(p, i->results[k]) && vtb__strips_count(p, flow(p, i->results[k]));
  if (!any) return;
  vtb_func *f = function_of(p, callee, p->shift + shift);
  vtb_value **operands = VTB_SCRATCH(i->func, vtb_value *, i->n_operands + slots + 1);
  for (int o = 0; o < i->n_operands; o++) {
    const vtb_value *v = i->operands[o];
    vtb_value *x = follows(p, v) ? p->of[v->id] : vtb__strips_value(p, v);
    if (x) operands[n++] = x;
  }
  for (int k = 0; k < slots; k++) operands[n++] = p->slot[e->slot + k];
  if (p->row) {
    vtb_type one = {.dtype = VTB_I32};
    operands[n++] =
        shift ? vtb_b_binary(&p->b, VTB_OP_sub, p->row, vtb_b_splat(&p->b, (double)shift, &one))
              : p->row;
  }
  p->b.span = i->span;
  p->b.name_hint = i->results[0]->name;
  vtb_inst *call = vtb_b_call(&p->b, f, operands, n);
  for (int k = 0; k < i->n_results; k++)
    if (follows(p, i->results[k]) && vtb__strips_count(p, flow(p, i->results[k])))
      set(e, k, call->results[r++]);
  for (int k = 0; k < slots; k++) p->slot[e->slot + k] = call->results[r++];
}

/* ---- a part ---------------------------------------------------------------------------------- */

static void emit_again(emitter *e) {
  const vtb_inst *i = e->i;
  vtb__strip_part *p = e->p;
  int axis = (int)vtb_attr_int(i, "axis", 0);
  switch (i->op) {
  case VTB_OP_call:
    emit_call(e);
    return;
  case VTB_OP_im2col:
  case VTB_OP_dwconv:
    emit_convolution(e);
    return;
  case VTB_OP_linscan:
  case VTB_OP_delta:
  case VTB_OP_maxplus:
  case VTB_OP_fold:
    emit_recurrence(e);
    return;
  case VTB_OP_shift:
    emit_shift(e);
    return;
  case VTB_OP_prefix_sum:
    emit_prefix_sum(e);
    return;
  case VTB_OP_slice:
    if (flow(p, i->operands[0])->axis == axis) emit_slice(e);
    if (flow(p, i->operands[0])->axis == axis) return;
    break;
  case VTB_OP_concat:
    for (int o = 0; o < i->n_operands; o++) {
      if (!follows(p, i->operands[o]) || flow(p, i->operands[o])->axis != axis) continue;
      emit_concat(e);
      return;
    }
    break;
  default:
    break;
  }
  emit_ordinary(e);
}

void vtb__strips_emit(vtb__strip_part *p) {
  for (const vtb_inst *i = p->f->f->first, *last = p->f->last; i; i = i == last ? NULL : i->next) {
    bool rows = false;
    for (int o = 0; o < i->n_operands; o++) rows |= follows(p, i->operands[o]);
    emitter e = {.p = p, .i = i, .slot = p->f->slot_of[i->order]};
    if (rows) emit_again(&e);
  }
}

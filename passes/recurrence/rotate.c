/* A pair of states that turn each other as one real state.
 *
 *   re' = rho (cos(theta) re - sin(theta) im) + x
 *   im' = rho (sin(theta) re + cos(theta) im) + y
 *   =>
 *   %phi = prefix_sum theta, wrapped              c, s = cos(phi), sin(phi), a step's inputs
 *   T' = rho T + [c x + s y, c y - s x]           both halves along one axis of the state
 *   re' = c T'[0] - s T'[1]                       im' = s T'[0] + c T'[1]
 *
 * For with S = re + i im and Phi_t = theta_1 + ... + theta_t along the path, e^{-i Phi_t} S_t
 * decays by rho alone. It is written as another recurrence, which the normal form then takes like
 * any: nothing after this file knows of angles. States before and after the sequence are not turned
 * (Phi_0 = 0), so that a sequence may be cut anywhere.
 *
 * The halves lie along an axis that all that turns varies over, so that an update which is an outer
 * product stays one: along the keys, what is turned are keys and queries (a rotary embedding),
 * along the values values and what is read. Contractions of the pair become contractions of T.
 * Declines where the angle reads a state.
 */
#include "ir/axes.h"
#include "passes/recurrence/recurrence.h"

#define TURN 6.283185307179586476925 /* 2 pi */

typedef struct doubled {
  const vtb_value *v;
  int axis;
  vtb_value *to;
} doubled;

typedef struct turner {
  vtb__rec *r;
  vtb__pair p;
  int axis;        /* the halves lie along */
  vtb_type frame;  /* of a half: the states' type, [1] for a number */
  bool separable;  /* the update is an outer product */
  vtb_builder b;   /* in the new step */
  vtb_value **map; /* by id of the old step's values */
  int n_map;
  /* after the step, before it */
  vtb_value *whole[2], *c[2], *s[2];
  VTB_VEC(doubled) doubled;
} turner;

static vtb_value *turned(turner *t, vtb_value *v);

static vtb_value *mul(turner *t, vtb_value *x, vtb_value *y) {
  return x && y ? vtb_b_binary(&t->b, VTB_OP_mul, x, y) : NULL;
}

/* x + sign y, NULL being 0. */
static vtb_value *sum(turner *t, vtb_value *x, vtb_value *y, int sign) {
  if (!y) return x;
  if (!x) return sign > 0 ? y : vtb_b_unary(&t->b, VTB_OP_neg, y);
  return vtb_b_binary(&t->b, sign > 0 ? VTB_OP_add : VTB_OP_sub, x, y);
}

static vtb_value *zero_like(turner *t, const vtb_value *v) {
  return vtb_b_splat(&t->b, 0, &v->type);
}

/* With axes of size 1 in front, where there are fewer. */
static vtb_value *to_rank(turner *t, vtb_value *v, int rank) {
  return v->type.rank >= rank ? v : vtb__among_ones(&t->b, v, NULL, rank);
}

/* ---- halves ---------------------------------------------------------------------------------- */

static vtb_value *half(turner *t, vtb_value *whole, int axis, int which) {
  int64_t n = whole->type.dim[axis].size / 2;
  return vtb_b_slice(&t->b, whole, axis, which * n, (which + 1) * n, 1);
}

static vtb_value *stretched(turner *t, vtb_value *v) {
  v = to_rank(t, v, t->frame.rank);
  vtb_type want = v->type;
  want.dim[t->axis] = t->frame.dim[t->axis];
  return vtb_b_stretched(&t->b, v, &want);
}

/* Two values of one shape, or one and zero, end to end; NULL: both are zero. */
static vtb_value *joined(turner *t, vtb_value *x, vtb_value *y) {
  if (!x && !y) return NULL;
  vtb_value *both[2] = {x ? x : zero_like(t, y), y ? y : zero_like(t, x)};
  for (int i = 0; i < 2; i++) both[i] = stretched(t, both[i]);
  return vtb_b_concat(&t->b, both, 2, t->axis);
}

/* The value twice along an axis. It is made from the operands twice, so that exponentials stay what
 * they are. */
static vtb_value *twice(turner *t, vtb_value *v, int axis) {
  if (axis < 0 || v->type.dim[axis].size == 1) return v;
  for (size_t i = 0; i < t->doubled.n; i++)
    if (t->doubled.at[i].v == v && t->doubled.at[i].axis == axis) return t->doubled.at[i].to;
  const vtb_inst *d = v->def;
  vtb_value *out = NULL, *operands[4];
  if (d && d->n_operands > 0 && vtb_op_get(d->op)->klass == VTB_CLASS_ELEMENTWISE) {
    for (int i = 0; i < d->n_operands; i++)
      operands[i] = twice(t, d->operands[i], axis - v->type.rank + d->operands[i]->type.rank);
    out = vtb_inst_clone(&t->b, d, operands)->results[0];
  } else if (d && d->op == VTB_OP_reshape &&
             vtb_type_unit_reshape(&v->type, &d->operands[0]->type)) {
    vtb_type want = v->type;
    want.dim[axis].size *= 2, want.dim[axis].name = NULL;
    out = twice(t, d->operands[0], vtb_axis_reshaped(&v->type, &d->operands[0]->type, axis));
    out = vtb_b_reshape(&t->b, out, &want);
  } else {
    out = vtb_b_concat(&t->b, (vtb_value *[]){v, v}, 2, axis);
  }
  vtb__put(t->r->step, &t->doubled, ((doubled){v, axis, out}));
  return out;
}

/* The product of a term's factors, for T's frame: twice what varies along the halves. */
static vtb_value *product_twice(turner *t, const vtb__term *x, vtb_value *v) {
  if (x->coef != 1 || (!v && x->n == 0)) {
    vtb_value *c = vtb_b_constant(&t->b, x->coef);
    v = v ? mul(t, v, c) : c;
  }
  for (int i = 0; i < x->n; i++) {
    vtb_value *f = turned(t, x->at[i].v);
    for (int a = 0; a < f->type.rank; a++)
      if (x->at[i].axis[a] >= 0 && x->at[i].axis[a] == t->axis) f = twice(t, f, a);
    f = vtb__among_ones(&t->b, f, x->at[i].axis, t->frame.rank);
    if (!v && x->at[i].sign < 0) v = vtb_b_constant(&t->b, 1);
    v = !v ? f : vtb_b_binary(&t->b, x->at[i].sign > 0 ? VTB_OP_mul : VTB_OP_div, v, f);
  }
  return v;
}

/* ---- the new step ---------------------------------------------------------------------------- */

static void make_update(turner *t) {
  vtb_value *x = t->p.x_re ? to_rank(t, turned(t, t->p.x_re), t->frame.rank) : NULL,
            *y = t->p.x_im ? to_rank(t, turned(t, t->p.x_im), t->frame.rank) : NULL;
  vtb_value *u = joined(t, sum(t, mul(t, t->c[0], x), mul(t, t->s[0], y), 1),
                        sum(t, mul(t, t->c[0], y), mul(t, t->s[0], x), -1));
  if (u) u = product_twice(t, &t->p.common, u);
  t->whole[0] = sum(t, mul(t, product_twice(t, &t->p.rho, NULL), t->whole[1]), u, 1);
  t->whole[0] = vtb_b_stretched(&t->b, t->whole[0], &t->whole[1]->type);
}

/* re (which = 0) or im from T, whose halves lie along an axis. */
static vtb_value *turn_back(turner *t, vtb_value *whole, int axis, int which, vtb_value *c,
                            vtb_value *s) {
  vtb_value *b = half(t, whole, axis, 1), *a = half(t, whole, axis, 0);
  return which == 0 ? sum(t, mul(t, c, a), mul(t, s, b), -1)
                    : sum(t, mul(t, s, a), mul(t, c, b), 1);
}

static vtb_value *whole_state(turner *t, bool old, int which) {
  vtb_value *v = turn_back(t, t->whole[old], t->axis, which, t->c[old], t->s[old]);
  const vtb_type *want = t->r->states[t->p.re].type;
  return vtb_b_shaped(&t->b, v, want);
}

/* ---- contractions ---------------------------------------------------------------------------- */

/* A value that is the sum over the axis of the halves of q[0] * re + q[1] * im. */
typedef struct contraction {
  vtb_value *q[2]; /* on the frame; NULL: zero */
  bool old;
} contraction;

static int which_of(const turner *t, int state) {
  return state == t->p.re ? 0 : state == t->p.im ? 1 : -1;
}

static bool reads_pair(turner *t, vtb_inst *inst, vtb__read *read) {
  return vtb__rec_match_read(t->r, inst, read) && which_of(t, read->state) >= 0;
}

/* The factors' product on the frame, without doubling. */
static vtb_value *product_once(turner *t, const vtb__term *x) {
  int halves = t->axis;
  t->axis = -1;
  vtb_value *v = to_rank(t, product_twice(t, x, NULL), t->frame.rank);
  t->axis = halves;
  return v;
}

static bool contract(turner *t, vtb_value *v, contraction *out);

static bool contract_sum(turner *t, vtb_inst *d, contraction *out) {
  contraction x, y;
  if (!contract(t, d->operands[0], &x) || !contract(t, d->operands[1], &y) || x.old != y.old)
    return false;
  for (int k = 0; k < 2; k++) x.q[k] = sum(t, x.q[k], y.q[k], d->op == VTB_OP_sub ? -1 : 1);
  *out = x;
  return true;
}

static bool contract_scaled(turner *t, vtb_inst *d, contraction *out) {
  int of = vtb__rec_deps(t->r, d->operands[0]) & VTB__DEP_STATES ? 0 : 1;
  vtb_value *by = d->operands[1 - of];
  if (vtb_type_count(&by->type) != 1 || (d->op == VTB_OP_div && of == 1) ||
      !vtb__rec_is_stateless(t->r, by) || !contract(t, d->operands[of], out))
    return false;
  vtb_type number = vtb_type_scalar(), one = vtb_type_among_ones(&number, NULL, t->frame.rank);
  vtb_value *c = vtb_b_reshape(&t->b, turned(t, by), &one);
  for (int k = 0; k < 2; k++)
    if (out->q[k]) out->q[k] = vtb_b_binary(&t->b, d->op, out->q[k], c);
  return true;
}

static bool contract(turner *t, vtb_value *v, contraction *out) {
  vtb_inst *d = v->def;
  vtb__read read;
  *out = (contraction){0};
  if (!d || vtb__rec_new_state(t->r, v) >= 0) return false;
  if (reads_pair(t, d, &read)) {
    vtb__term q = vtb__term_within(t->r, &read.factors, 1u << t->axis);
    if (read.key != t->axis || q.n != read.factors.n) return false;
    out->q[which_of(t, read.state)] = product_once(t, &q);
    out->old = read.old;
    return true;
  }
  if (d->op == VTB_OP_neg) {
    if (!contract(t, d->operands[0], out)) return false;
    for (int k = 0; k < 2; k++) out->q[k] = sum(t, NULL, out->q[k], -1);
    return true;
  }
  if (d->op == VTB_OP_add || d->op == VTB_OP_sub) return contract_sum(t, d, out);
  return (d->op == VTB_OP_mul || d->op == VTB_OP_div) && contract_scaled(t, d, out);
}

/* Along the contracted axis: queries turn. A sign or factor around a contraction stays there. */
static vtb_value *turn_queries(turner *t, vtb_value *v) {
  contraction x;
  const vtb_inst *d = v->def;
  if (d->op == VTB_OP_neg || d->op == VTB_OP_mul || d->op == VTB_OP_div || !contract(t, v, &x))
    return NULL;
  vtb_value *c = t->c[x.old], *s = t->s[x.old];
  vtb_value *q = joined(t, sum(t, mul(t, x.q[0], c), mul(t, x.q[1], s), 1),
                        sum(t, mul(t, x.q[1], c), mul(t, x.q[0], s), -1));
  vtb_value *y = mul(t, t->whole[x.old], q);
  y = vtb_b_reduce(&t->b, VTB_OP_reduce_sum, y, (int64_t[]){t->axis}, 1, false);
  return vtb_b_shaped(&t->b, y, &v->type);
}

/* Along the other axis: what is read turns. */
static vtb_value *turn_values(turner *t, vtb_value *v) {
  vtb__read read;
  if (!v->def || !reads_pair(t, v->def, &read)) return NULL;
  int key = 1 - t->axis;
  if (read.key >= 0 && read.key != key) return NULL;
  vtb__term q = vtb__term_within(t->r, &read.factors, 1u << key),
            post = vtb__term_beyond(t->r, &read.factors, 1u << key);
  vtb_value *y = mul(t, product_once(t, &q), t->whole[read.old]);
  y = vtb_b_reduce(&t->b, VTB_OP_reduce_sum, y, (int64_t[]){key}, 1, true);
  y = turn_back(t, y, t->axis, which_of(t, read.state), t->c[read.old], t->s[read.old]);
  if (post.n) y = mul(t, y, product_once(t, &post));
  if (read.sum_value) y = vtb_b_reduce(&t->b, VTB_OP_reduce_sum, y, (int64_t[]){t->axis}, 1, true);
  return vtb_b_shaped(&t->b, y, &v->type);
}

/* ---- values ---------------------------------------------------------------------------------- */

static vtb_value *make_turned(turner *t, vtb_value *v) {
  int now = vtb__rec_new_state(t->r, v), old = vtb__rec_old_state(t->r, v);
  if (now >= 0 && which_of(t, now) >= 0) return whole_state(t, false, which_of(t, now));
  if (old >= 0 && which_of(t, old) >= 0) return whole_state(t, true, which_of(t, old));
  vtb_check(v->def != NULL, "an argument of the step has its place");
  if (t->separable && now < 0 && (vtb__rec_deps(t->r, v) & VTB__DEP_STATES)) {
    vtb_value *read = turn_queries(t, v);
    if (!read) read = turn_values(t, v);
    if (read) return read;
  }
  vtb_value **operands = VTB_SCRATCH(t->r->step, vtb_value *, v->def->n_operands);
  for (int i = 0; i < v->def->n_operands; i++) operands[i] = turned(t, v->def->operands[i]);
  vtb_span outer = t->b.span;
  t->b.span = v->def->span;
  vtb_value *made = vtb_inst_clone(&t->b, v->def, operands)->results[0];
  t->b.span = outer;
  return made;
}

/* The value of the new step that v of the old one is. */
static vtb_value *turned(turner *t, vtb_value *v) {
  if (v->id >= t->n_map) return make_turned(t, v);
  if (!t->map[v->id]) t->map[v->id] = make_turned(t, v);
  return t->map[v->id];
}

/* ---- axes ------------------------------------------------------------------------------------ */

static unsigned axes_of(vtb_value *v, int rank) {
  vtb__factor f = v ? vtb__factor_of(v, rank) : (vtb__factor){0};
  return v ? vtb__factor_axes(&f) : 0;
}

/* Halves along the values if nothing says otherwise: then both parts are read by one query. */
static void choose_axis(turner *t) {
  const vtb_type *x = t->r->states[t->p.re].type;
  unsigned axes =
      axes_of(t->p.angle, x->rank) | axes_of(t->p.x_re, x->rank) | axes_of(t->p.x_im, x->rank);
  t->frame = *x;
  if (x->rank == 0) t->frame.rank = 1, t->frame.dim[0] = (vtb_dim){.size = 1};
  t->separable = x->rank == 2 && axes != 3u;
  t->axis = t->separable && axes != 1u ? 1 : 0;
}

/* ---- outside --------------------------------------------------------------------------------- */

/* [B, N, h..., frame] with the recurrence's head axes. */
static vtb_value *as_input(vtb__rec *r, vtb_value *v, const vtb_type *step) {
  vtb_type all = vtb__rec_type(r, 3, step->dim, step->rank);
  v = vtb_b_stretched(&r->b, v, &all);
  const vtb_type *like = &r->inst->operands[r->n_inits]->type;
  vtb_type t = vtb_type_behind(like, 2 + r->n_heads, step->dim, step->rank);
  t.dtype = VTB_F32;
  return vtb_b_shaped(&r->b, v, &t);
}

/* The angles of all steps, of one sample if none differ: [B or 1, N, h or 1, frame]. */
static vtb_value *all_angles(vtb__rec *r, vtb__lifted x, const vtb_type *step) {
  if (x.lead == 3) return vtb__rec_full(r, x, step->dim, step->rank);
  vtb_type t = VTB__F32({.size = 1}, {.size = 1}, {.size = 1});
  if (x.lead == 1) t.dim[2] = x.v->type.dim[0];
  t = vtb_type_behind(&t, 3, step->dim, step->rank);
  vtb_value *v = vtb_b_reshape(&r->b, x.v, &t);
  t.dim[1] = r->tokens;
  return vtb_b_broadcast(&r->b, v, &t);
}

static vtb_value *summed(vtb__rec *r, vtb_value *angles, bool exclusive) {
  vtb_attr attrs[5] = {VTB_A_INT("axis", 1), VTB_A_FLOAT("wrap", TURN)};
  int n = 2 + vtb__rec_order(r, attrs + 2);
  if (exclusive) attrs[n++] = VTB_A_INT("exclusive", 1);
  r->b.name_hint = "angle";
  return vtb_build(&r->b, VTB_OP_prefix_sum, &angles, 1, attrs, n)->results[0];
}

enum { N_TURNS = 4 }; /* inputs: cosine and sine after the step, before it */

/* Without axes of size 1 in front of a state that is a number. */
static vtb_type turn_type(const turner *t) {
  const vtb_type *step = &t->p.angle->type;
  return step->rank < t->frame.rank ? vtb_type_among_ones(step, NULL, t->frame.rank) : *step;
}

static void make_turns(turner *t, vtb_value *out[N_TURNS]) {
  vtb__rec *r = t->r;
  vtb_type step = turn_type(t);
  vtb__lifted x = vtb__rec_lift(r, t->p.angle);
  vtb_value *angles = all_angles(r, x, &step);
  for (int i = 0; i < N_TURNS; i++) {
    vtb_value *sum = summed(r, angles, i >= 2);
    out[i] = as_input(r, vtb_b_unary(&r->b, i % 2 ? VTB_OP_sin : VTB_OP_cos, sum), &step);
  }
}

/* The axis of a [B, h..., frame] tensor that the halves lie along. */
static int outer_axis(const turner *t) { return 1 + t->r->n_heads + t->axis; }

/* A state before or after the sequence, a number with an axis of its own. */
static vtb_value *with_frame(turner *t, vtb_value *v) {
  vtb_type type = v->type;
  if (t->r->states[t->p.re].type->rank > 0) return v;
  type.dim[type.rank++] = (vtb_dim){.size = 1};
  return vtb_b_reshape(&t->r->b, v, &type);
}

static int first_of(const turner *t) { return t->p.re < t->p.im ? t->p.re : t->p.im; }
static int second_of(const turner *t) { return t->p.re < t->p.im ? t->p.im : t->p.re; }

/* Operands of the new recurrence: initial states, inputs, turns, constants. */
static int make_operands(turner *t, vtb_value **out) {
  vtb__rec *r = t->r;
  int n = 0;
  for (int i = 0; i < r->n_inits; i++) {
    if (i == second_of(t)) continue;
    out[n++] = r->inst->operands[i];
    if (i != first_of(t)) continue;
    vtb_value *both[2] = {with_frame(t, r->inst->operands[t->p.re]),
                          with_frame(t, r->inst->operands[t->p.im])};
    out[n - 1] = vtb_b_concat(&r->b, both, 2, outer_axis(t));
  }
  for (int i = 0; i < r->n_seqs; i++) out[n++] = r->inst->operands[r->n_inits + i];
  make_turns(t, out + n);
  n += N_TURNS;
  for (int i = r->n_inits + r->n_seqs; i < r->inst->n_operands; i++)
    out[n++] = r->inst->operands[i];
  return n;
}

/* Arguments of the new step, known by those of the old one. */
static void make_args(turner *t) {
  static const char *const names[N_TURNS] = {"turn_cos", "turn_sin", "turn_cos_old",
                                             "turn_sin_old"};
  vtb__rec *r = t->r;
  vtb_func *f = t->b.func;
  vtb_type whole = t->frame;
  whole.dim[t->axis].size *= 2, whole.dim[t->axis].name = NULL;
  for (int i = 0; i < r->step->n_args; i++) {
    vtb_value *arg = r->step->args[i];
    if (i == r->n_states + r->n_seqs) break;
    if (i == second_of(t)) continue;
    bool merged = i == first_of(t);
    vtb_value *v = vtb_func_add_arg(f, arg->name, merged ? whole : arg->type);
    if (merged)
      t->whole[1] = v;
    else
      t->map[arg->id] = v;
  }
  vtb_value **turns[N_TURNS] = {&t->c[0], &t->s[0], &t->c[1], &t->s[1]};
  for (int i = 0; i < N_TURNS; i++) *turns[i] = vtb_func_add_arg(f, names[i], turn_type(t));
  for (int i = r->n_states + r->n_seqs; i < r->step->n_args; i++)
    t->map[r->step->args[i]->id] =
        vtb_func_add_arg(f, r->step->args[i]->name, r->step->args[i]->type);
}

static void make_step(turner *t) {
  vtb__rec *r = t->r;
  make_args(t);
  make_update(t);
  int n = 0;
  vtb_value **returns = VTB_SCRATCH(r->step, vtb_value *, r->step->n_returns);
  for (int i = 0; i < r->step->n_returns; i++) {
    if (i == second_of(t)) continue;
    returns[n++] = i == first_of(t) ? t->whole[0] : turned(t, r->step->returns[i]);
  }
  vtb_func_set_returns(t->b.func, returns, NULL, n);
}

/* ---- results --------------------------------------------------------------------------------- */

static vtb_value *final_state(turner *t, vtb_inst *made, int which) {
  vtb__rec *r = t->r;
  vtb_builder inner = t->b;
  t->b = r->b;
  int turns = made->n_operands - (r->inst->n_operands - r->n_inits - r->n_seqs) - N_TURNS;
  vtb_value *whole = made->results[r->n_yields + first_of(t)];
  vtb_value *c = vtb__rec_last_token(r, made->operands[turns]),
            *s = vtb__rec_last_token(r, made->operands[turns + 1]);
  vtb_value *v = turn_back(t, whole, outer_axis(t), which, c, s);
  r->b = t->b;
  t->b = inner;
  const vtb_type *want = &r->inst->results[r->n_yields + t->p.re]->type;
  return vtb_b_shaped(&r->b, v, want);
}

/* Uses of the old results read the new ones; the pair's final states are made where asked for. */
static void hand_over(turner *t, vtb_inst *made) {
  vtb__rec *r = t->r;
  vtb_inst *inst = r->inst;
  for (int i = 0; i < inst->n_results; i++) {
    if (!vtb_is_read(inst->results[i])) continue;
    int state = i - r->n_yields, which = state < 0 ? -1 : which_of(t, state);
    vtb_value *with = which >= 0 ? final_state(t, made, which)
                                 : made->results[i - (state > second_of(t) ? 1 : 0)];
    vtb__stand_in(inst->results[i], with);
  }
  vtb_inst_unlink(inst);
}

vtb_inst *vtb__rec_rotate(vtb__rec *r) {
  turner t = {.r = r};
  if (!vtb__rec_find_pair(r, &t.p)) return NULL;
  choose_axis(&t);
  t.n_map = r->step->n_values;
  t.map = VTB_SCRATCH(r->step, vtb_value *, t.n_map);
  t.b = (vtb_builder){
      .module = r->b.module,
      .func = vtb_func_new(r->b.module, r->inst->callee->name, VTB_FUNC_STEP, r->inst->span),
      .span = r->b.span};
  make_step(&t);
  vtb_value **operands = VTB_SCRATCH(r->step, vtb_value *, r->inst->n_operands + N_TURNS);
  int n = make_operands(&t, operands);
  vtb_attr_set(r->inst, VTB_A_INT("states", r->n_states - 1)); /* which goes */
  vtb_attr_set(r->inst, VTB_A_INT("seqs", r->n_seqs + N_TURNS));
  if (r->n_inits) vtb_attr_set(r->inst, VTB_A_INT("inits", r->n_inits - 1));
  vtb_inst *made = vtb_build_call(&r->b, VTB_OP_recurrence, t.b.func, operands, n, r->inst->attrs,
                                  r->inst->n_attrs);
  hand_over(&t, made);
  return made;
}

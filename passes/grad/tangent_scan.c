/* Tangents of scans: scans.
 *
 *   S_t = D_t * S_{t-1} + k_t v_t^T                 y_t = S_t^T q_t                     op linscan
 *   dS_t = D_t * dS_{t-1} + dk_t v_t^T + k_t dv_t^T + dD_t * S_{t-1}
 *   dy_t = dS_t^T q_t + S_t^T dq_t
 *
 * Where the decay stands still each term is the same scan of other operands, and no state is kept.
 * Where it moves S is made for all tokens, as a scan of its elements, and dS is another one; decays
 * of 0 are exact, and nothing is divided by them. Of op delta the tangent is a delta of what the
 * lines would read anyway, of maxplus a scan of decays 0 and 1.
 */
#include "ir/recurrence.h"
#include "passes/grad/tangent.h"

#include <string.h>

#define RULE(name) void vtb__tangent_##name(vtb__tangents *t, vtb_inst *inst)

typedef struct scan {
  vtb__tangents *t;
  vtb_builder *b;
  const vtb_inst *inst;
  const vtb_decay *decay;
  vtb_dim batch, tokens, heads, key, value; /* value: with a column for a normalizer */
  int d, rates;                             /* operands */
} scan;

/* States [B,N,h,K,V] after each token, and the last, [B,h,K,V]. */
typedef struct states {
  vtb_value *all, *last;
} states;

static vtb_value *operand(const scan *c, int i) { return i < 0 ? NULL : c->inst->operands[i]; }
static vtb_value *moved(const scan *c, int i) {
  return i < 0 ? NULL : vtb__tangent(c->t, c->inst->operands[i]);
}
static vtb_value *times(scan *c, vtb_value *x, vtb_value *y) {
  return vtb_b_binary(c->b, VTB_OP_mul, x, y);
}
static vtb_value *sum(scan *c, vtb_value *x, vtb_value *y) {
  return vtb__joined(c->b, VTB_OP_add, x, y);
}

/* ---- decays ---------------------------------------------------------------------------------- */

/* A decay, or a step size, among the axes [B,N,h,K,V] of a state. */
static vtb_value *among_states(scan *c, vtb_value *d) {
  const vtb_decay *of = c->decay;
  bool key = (of->axes & VTB_ALONG_KEY) && !of->rates, value = of->axes & VTB_ALONG_VALUE;
  vtb_type t = VTB__F32(c->batch, c->tokens, c->heads, c->key, c->value);
  if (!of->by_step) t.dim[0].size = t.dim[1].size = 1;
  if (!key) t.dim[3].size = 1;
  if (!value) t.dim[4].size = 1;
  return vtb_b_reshape(c->b, d, &t);
}

static vtb_value *rates(scan *c, vtb_value *a) {
  vtb_type t = VTB__F32({.size = 1}, {.size = 1}, c->heads, c->key, c->value);
  return vtb_b_reshape(c->b, a, &t);
}

static vtb_value *decay_of(scan *c) {
  vtb_value *d = among_states(c, operand(c, c->d));
  if (c->rates < 0) return d;
  return vtb_b_unary(c->b, VTB_OP_exp, times(c, d, rates(c, operand(c, c->rates))));
}

/* NULL: it stands still. */
static vtb_value *decay_moved(scan *c) {
  vtb_value *dd = moved(c, c->d), *da = moved(c, c->rates), *e = NULL;
  if (c->rates < 0) return dd ? among_states(c, dd) : NULL;
  if (dd) e = times(c, among_states(c, dd), rates(c, operand(c, c->rates)));
  if (da) e = sum(c, e, times(c, among_states(c, operand(c, c->d)), rates(c, da)));
  return e ? times(c, decay_of(c), e) : NULL;
}

/* ---- states ---------------------------------------------------------------------------------- */

static int scan_attrs(const scan *c, const char *klass, bool init, vtb_attr *attrs) {
  attrs[0] = VTB_A_STR("class", klass);
  int n = 1 + vtb_attrs_of(c->inst, "mode chunk path layout", attrs + 1);
  if (init) attrs[n++] = VTB_A_INT("init", 1);
  return n;
}

/* S_t = D_t * S_{t-1} + u_t from `init`, [B,h,K,V] or NULL: each element of a state is a value. */
static states states_of(scan *c, vtb_value *u, vtb_value *init) {
  vtb_type whole = VTB__F32(c->batch, c->tokens, c->heads, c->key, c->value),
           flat = VTB__F32(c->batch, c->tokens, c->heads, {.size = c->key.size * c->value.size}),
           one = flat, last = VTB__F32(c->batch, c->heads, {.size = 1}, flat.dim[3]);
  one.dim[3].size = 1;
  vtb_value *ones = vtb_b_splat(c->b, 1, &one), *d = operand(c, c->d);
  bool by_element = c->decay->axes != VTB_ALONG_NEITHER;
  if (by_element) d = vtb_b_reshape(c->b, vtb_b_stretched(c->b, decay_of(c), &whole), &flat);
  u = vtb_b_reshape(c->b, vtb_b_stretched(c->b, u, &whole), &flat);
  vtb_value *operands[] = {ones, ones, u, d, init ? vtb_b_reshape(c->b, init, &last) : NULL};
  vtb_attr attrs[7];
  int n = scan_attrs(c, by_element ? "value" : c->decay->name, init != NULL, attrs);
  vtb_inst *made = vtb_build(c->b, VTB_OP_linscan, operands, init ? 5 : 4, attrs, n);
  vtb_type end = vtb_type_without_axis(&whole, 1);
  return (states){vtb_b_reshape(c->b, made->results[0], &whole),
                  vtb_b_reshape(c->b, made->results[1], &end)};
}

/* The state before each token. */
static vtb_value *before(scan *c, vtb_value *all, vtb_value *init) {
  vtb_attr attrs[3] = {VTB_A_INT("axis", 1), VTB_A_INT("by", 1)};
  int n = 2 + vtb_attrs_of(c->inst, "path", attrs + 2);
  vtb_value *operands[] = {all, init};
  return vtb_build(c->b, VTB_OP_shift, operands, init ? 2 : 1, attrs, n)->results[0];
}

/* k v^T of each token; NULL if one of them is. */
static vtb_value *outer(scan *c, vtb_value *k, vtb_value *v) {
  if (!k || !v) return NULL;
  vtb_type down = vtb_type_with_axis(&k->type, 4, (vtb_dim){.size = 1}),
           across = vtb_type_with_axis(&v->type, 3, (vtb_dim){.size = 1});
  return times(c, vtb_b_reshape(c->b, k, &down), vtb_b_reshape(c->b, v, &across));
}

/* ---- linscan --------------------------------------------------------------------------------- */

typedef struct linscan {
  scan c;
  vtb_scan of;
  vtb_inst *inst;
  vtb_dim value; /* without the normalizer's column */
} linscan;

/* Values, or states, with the normalizer's column behind them: `column`, or the number. */
static vtb_value *with_column(linscan *l, vtb_value *v, vtb_value *column, double number) {
  if (!l->of.normalizer || (!v && !column)) return v;
  vtb_builder *b = l->c.b;
  vtb_type t;
  if (v) {
    t = v->type;
  } else {
    t = vtb_type_with_axis(&column->type, column->type.rank, l->value);
    v = vtb_b_splat(b, 0, &t);
  }
  t.dim[t.rank - 1] = (vtb_dim){.size = 1};
  vtb_value *parts[] = {v, column ? vtb_b_reshape(b, column, &t) : vtb_b_splat(b, number, &t)};
  return vtb_b_concat(b, parts, 2, t.rank - 1);
}

/* Adds [.., V + 1] to the tangents of results r and r + 2, its last column. */
static void add_columns(linscan *l, int r, vtb_value *x) {
  vtb__tangents *t = l->c.t;
  vtb_builder *b = l->c.b;
  int axis = x ? x->type.rank - 1 : 0;
  int64_t n = l->value.size;
  if (!x) return;
  if (!l->of.normalizer) {
    vtb__add_tangent(t, l->inst->results[r], x);
    return;
  }
  vtb_value *column = vtb_b_slice(b, x, axis, n, n + 1, 1);
  vtb__add_tangent(t, l->inst->results[r], vtb_b_slice(b, x, axis, 0, n, 1));
  vtb__add_tangent(t, l->inst->results[r + 2],
                   vtb_b_reshape(b, column, &l->inst->results[r + 2]->type));
}

/* The decay moves: states are kept. */
static void through_states(linscan *l, vtb_value *dd) {
  scan *c = &l->c;
  const vtb_scan_tensors *at = &l->of.at;
  vtb_value *k = operand(c, at->k), *v = with_column(l, operand(c, at->v), NULL, 1),
            *init = with_column(l, operand(c, at->s0), operand(c, at->n0), 0);
  vtb_value *dinit = with_column(l, moved(c, at->s0), moved(c, at->n0), 0);
  states s = states_of(c, outer(c, k, v), init);
  vtb_value *u = times(c, dd, before(c, s.all, init));
  u = sum(c, u, outer(c, moved(c, at->k), v));
  u = sum(c, u, outer(c, k, with_column(l, moved(c, at->v), NULL, 0)));
  states ds = states_of(c, u, dinit);
  vtb_value *y = vtb_b_einsum(c->b, "bnhk,bnhkv->bnhv", operand(c, at->q), ds.all);
  if (moved(c, at->q))
    y = sum(c, y, vtb_b_einsum(c->b, "bnhk,bnhkv->bnhv", moved(c, at->q), s.all));
  add_columns(l, 0, y);
  add_columns(l, 1, ds.last);
}

/* Adds the scan of these operands, from initial states or from 0 (NULL), to the tangents of what is
 * read, and of the last states. */
static void add_scan(linscan *l, vtb_value *q, vtb_value *k, vtb_value *v, vtb_value *s0,
                     vtb_value *n0, bool normalizer, bool last) {
  scan *c = &l->c;
  vtb_value *operands[7] = {q, k, v, operand(c, c->d)};
  int n = 4;
  if (c->rates >= 0) operands[n++] = operand(c, c->rates);
  if (s0) operands[n++] = s0;
  if (s0 && normalizer) operands[n++] = n0;
  vtb_attr attrs[8];
  int n_attrs = scan_attrs(c, c->decay->name, s0 != NULL, attrs);
  if (normalizer) attrs[n_attrs++] = VTB_A_INT("normalizer", 1);
  vtb_inst *made = vtb_build(c->b, VTB_OP_linscan, operands, n, attrs, n_attrs);
  for (int r = 0; r < made->n_results; r++)
    if (r % 2 == 0 || last) vtb__add_tangent(c->t, l->inst->results[r], made->results[r]);
}

/* The decay stands still: a scan for each operand that moves. Initial states go with the keys. */
static void without_states(linscan *l) {
  scan *c = &l->c;
  const vtb_scan_tensors *at = &l->of.at;
  vtb_value *q = operand(c, at->q), *k = operand(c, at->k), *v = operand(c, at->v);
  vtb_value *dq = moved(c, at->q), *dk = moved(c, at->k), *dv = moved(c, at->v);
  vtb_value *ds0 = moved(c, at->s0), *dn0 = moved(c, at->n0);
  bool normalizer = l->of.normalizer;
  if (dq) add_scan(l, dq, k, v, operand(c, at->s0), operand(c, at->n0), normalizer, false);
  if (dv) add_scan(l, q, k, dv, NULL, NULL, false, true);
  if (!dk && !ds0 && !dn0) return;
  if (!dk) dk = vtb_b_splat(c->b, 0, &k->type);
  if (ds0 || dn0) {
    ds0 = vtb__tangent_or_zeros(c->t, operand(c, at->s0));
    if (normalizer) dn0 = vtb__tangent_or_zeros(c->t, operand(c, at->n0));
  }
  add_scan(l, q, dk, v, ds0, dn0, normalizer, true);
}

RULE(linscan) {
  linscan l = {.inst = inst, .of = vtb_scan_of(inst)};
  const vtb_dim *q = inst->operands[l.of.at.q]->type.dim, *v = inst->operands[l.of.at.v]->type.dim;
  l.value = v[3];
  l.c = (scan){t, &t->b, inst, l.of.decay, q[0], q[1], q[2], q[3], v[3], l.of.at.d, l.of.at.rates};
  if (l.of.normalizer) l.c.value.size++;
  vtb_value *dd = decay_moved(&l.c);
  if (dd)
    through_states(&l, dd);
  else
    without_states(&l);
}

/* ---- delta ----------------------------------------------------------------------------------- */

/* w_r = v_r + S_{t-1}^T b_r and S_t = D_t * S_{t-1} + sum_r k_r w_r^T. With A what moves of the
 * state if w does not,
 *   A_t = D_t * A_{t-1} + dD_t * S_{t-1} + sum_r dk_r w_r^T
 *   dw_r = (dv_r + S_{t-1}^T db_r + A_{t-1}^T b_r) + E_{t-1}^T b_r
 *   E_t = D_t * E_{t-1} + sum_r k_r dw_r^T
 * which is a delta of the bracket. */
RULE(delta) {
  vtb_delta of = vtb_delta_of(inst);
  const vtb_delta_tensors *at = &of.at;
  const vtb_dim *k = inst->operands[at->k]->type.dim;
  scan c = {
      t,     &t->b, inst, of.decay, k[0], k[1], k[2], k[4], inst->operands[at->v]->type.dim[4],
      at->d, -1};
  vtb_value *w = inst->results[0], *dd = decay_moved(&c), *dk = moved(&c, at->k),
            *db = moved(&c, at->b), *s0 = operand(&c, at->s0), *ds0 = moved(&c, at->s0),
            *line = moved(&c, at->v), *old = NULL, *u = NULL;
  const char *joined = "bnhrk,bnhrv->bnhkv", *read = "bnhrk,bnhkv->bnhrv";
  if (dd || db)
    old = before(&c, states_of(&c, vtb_b_einsum(c.b, joined, operand(&c, at->k), w), s0).all, s0);
  if (db) line = sum(&c, line, vtb_b_einsum(c.b, read, db, old));
  if (dd) u = times(&c, dd, old);
  if (dk) u = sum(&c, u, vtb_b_einsum(c.b, joined, dk, w));
  if (!u && ds0) u = vtb_b_constant(c.b, 0);
  if (u) {
    u = before(&c, states_of(&c, u, ds0).all, ds0);
    line = sum(&c, line, vtb_b_einsum(c.b, read, operand(&c, at->b), u));
  }
  vtb_value *operands[] = {operand(&c, at->k), line, operand(&c, at->b), operand(&c, at->d)};
  vtb_attr attrs[6];
  int n = scan_attrs(&c, of.decay->name, false, attrs);
  vtb__add_tangent(t, w, vtb_build(c.b, VTB_OP_delta, operands, 4, attrs, n)->results[0]);
}

/* ---- maxplus --------------------------------------------------------------------------------- */

/* m_t = max(m_{t-1} + g_t, i_t): dm_t is dm_{t-1} + dg_t where m_t > i_t, else di_t. */
RULE(maxplus) {
  vtb_value **x = inst->operands, *m = inst->results[0];
  vtb_builder *b = &t->b;
  vtb_type step = vtb_type_without_axis(&m->type, 1);
  step = vtb_type_without_axis(&step, 0);
  scan c = {.t = t,
            .b = b,
            .inst = inst,
            .batch = m->type.dim[0],
            .tokens = m->type.dim[1],
            .heads = {.size = 1},
            .key = {.size = 1},
            .value = {.size = vtb_type_count(&step)}};
  vtb_value *goes_on = vtb_b_binary(b, VTB_OP_gt, m, x[1]);
  vtb_value *u =
      vtb_b_select(b, goes_on, vtb__tangent_or_zeros(t, x[0]), vtb__tangent_or_zeros(t, x[1]));
  vtb_type one = VTB__F32(c.batch, c.tokens, c.heads, {.size = 1}), all = one,
           first = VTB__F32(c.batch, c.heads, {.size = 1}, c.value);
  all.dim[3] = c.value;
  vtb_value *ones = vtb_b_splat(b, 1, &one), *init = moved(&c, inst->n_operands == 3 ? 2 : -1);
  vtb_value *operands[] = {ones, ones, vtb_b_reshape(b, u, &all), vtb_b_reshape(b, goes_on, &all),
                           init ? vtb_b_reshape(b, init, &first) : NULL};
  vtb_attr attrs[7];
  int n = scan_attrs(&c, "value", init != NULL, attrs);
  vtb_inst *made = vtb_build(b, VTB_OP_linscan, operands, init ? 5 : 4, attrs, n);
  vtb__add_tangent(t, m, vtb_b_reshape(b, made->results[0], &m->type));
}

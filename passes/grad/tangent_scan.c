/* Tangents of scans: scans.
 *
 *   S_t = D_t * S_{t-1} + k_t v_t^T                 y_t = S_t^T q_t                     op linscan
 *   dS_t = D_t * dS_{t-1} + dk_t v_t^T + k_t dv_t^T + dD_t * S_{t-1}
 *   dy_t = dS_t^T q_t + S_t^T dq_t
 *
 * Where the decay stands still each term is the same scan of other operands, and nothing is kept.
 * Where it moves, decays between pairs of tokens are made, or S for all tokens, whichever is less:
 * scans themselves, of which tangents are scans. Decays of 0 are exact, and nothing is divided by
 * them. Of op delta the tangent is a delta of what the lines would read anyway, of maxplus a scan
 * of decays 0 and 1.
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

/* ---- pairs of tokens ------------------------------------------------------------------------- */

/* Where the decay is one number a head, S_t = sum_j M[t,j] k_j v_j^T with the decays M[t,j] from
 * token j to t, which are a scan themselves, of rows of a unit matrix; the initial state is one
 * more column. N x N numbers a head are kept, and no state. */
typedef struct pairs {
  scan *c;
  vtb_dim batch, columns; /* batch: 1 where decays are the same in all steps */
  bool init;
  vtb_value *m, *dm; /* [batch, N, h, columns]; dm: NULL, it stands still */
  vtb_value *first;  /* M before the first token, NULL: 0 */
} pairs;

/* They are fewer numbers than the states: n, as many as a token has for each other. */
static bool are_fewer(const scan *c, int64_t n) {
  return c->decay->axes == VTB_ALONG_NEITHER && n <= c->key.size * c->value.size;
}

/* M_t = d_t M_{t-1} + u_t. */
static vtb_value *scan_pairs(pairs *p, vtb_value *u, vtb_value *init) {
  scan *c = p->c;
  vtb_type t = VTB__F32(p->batch, c->tokens, c->heads, p->columns), one = t,
           first = VTB__F32(p->batch, c->heads, {.size = 1}, p->columns);
  one.dim[3].size = 1;
  vtb_value *ones = vtb_b_splat(c->b, 1, &one);
  vtb_value *operands[] = {ones, ones, vtb_b_stretched(c->b, u, &t), operand(c, c->d),
                           init ? vtb_b_reshape(c->b, init, &first) : NULL};
  vtb_attr attrs[7];
  int n = scan_attrs(c, c->decay->name, init != NULL, attrs);
  return vtb_build(c->b, VTB_OP_linscan, operands, init ? 5 : 4, attrs, n)->results[0];
}

static pairs pairs_of(scan *c, bool init) {
  pairs p = {.c = c, .batch = c->batch, .columns = {.size = c->tokens.size + init}, .init = init};
  if (!c->decay->by_step) p.batch = (vtb_dim){.size = 1};
  vtb_type all = VTB__F32({.size = 1}, c->tokens, {.size = 1}, p.columns),
           row = VTB__F32(p.columns), before_all = VTB__F32(p.batch, c->heads, p.columns),
           each = VTB__F32(p.batch, c->tokens, c->heads, {.size = 1});
  if (init) {
    vtb_value *last = vtb_b_constant(c->b, (double)c->tokens.size);
    vtb_value *unit = vtb_b_binary(c->b, VTB_OP_eq, vtb_b_iota(c->b, 0, &row), last);
    p.first = vtb_b_stretched(c->b, unit, &before_all);
  }
  vtb_value *i = vtb_b_iota(c->b, 1, &all), *j = vtb_b_iota(c->b, 3, &all);
  p.m = scan_pairs(&p, vtb_b_binary(c->b, VTB_OP_eq, i, j), p.first);
  vtb_value *dd = moved(c, c->d);
  if (!c->decay->by_step) each.dim[1].size = 1;
  if (dd) dd = times(c, vtb_b_reshape(c->b, dd, &each), before(c, p.m, p.first));
  if (dd) p.dm = scan_pairs(&p, dd, NULL);
  return p;
}

/* Columns of pairs: those of tokens, or the initial state's. */
static vtb_value *columns_of(pairs *p, vtb_value *m, bool init) {
  int64_t n = p->c->tokens.size;
  if (!p->init || !m) return m;
  return vtb_b_slice(p->c->b, m, 3, init ? n : 0, init ? n + 1 : n, 1);
}

/* x y, and a sum where NULL is nothing. */
static vtb_value *add_product(scan *c, vtb_value *sum_, vtb_value *x, vtb_value *y) {
  return x && y ? sum(c, sum_, times(c, x, y)) : sum_;
}

static vtb_value *add_einsum(scan *c, vtb_value *sum_, const char *spec, vtb_value *x,
                             vtb_value *y) {
  return x && y ? sum(c, sum_, vtb_b_einsum(c->b, spec, x, y)) : sum_;
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

/* The row of the last token as a factor on keys, [B, N, h, 1], or on the initial state. */
static vtb_value *last_row(linscan *l, pairs *p, vtb_value *m, bool init) {
  scan *c = &l->c;
  int64_t end = vtb__path_end(c->b->module, l->of.path, c->tokens.size, true);
  vtb_value *row = vtb_b_slice(c->b, columns_of(p, m, init), 1, end, end + 1, 1);
  return vtb_b_transpose(c->b, row, init ? (int64_t[]){0, 2, 1, 3} : (int64_t[]){0, 3, 2, 1});
}

typedef struct moved_operands {
  vtb_value *q, *k, *v, *s0, *dq, *dk, *dv, *ds0; /* v and s0 with the normalizer's column */
} moved_operands;

static void add_reads(linscan *l, pairs *p, const moved_operands *o) {
  scan *c = &l->c;
  const int64_t heads_first[] = {0, 2, 1, 3};
  const char *apply = "bhnm,bmhv->bnhv", *read = "bnhk,bhkv->bnhv", *score = "bnhk,bmhk->bhnm";
  vtb_value *decay = vtb_b_transpose(c->b, columns_of(p, p->m, false), heads_first),
            *moves = vtb_b_transpose(c->b, columns_of(p, p->dm, false), heads_first);
  vtb_value *a = vtb_b_einsum(c->b, score, o->q, o->k);
  vtb_value *da = add_einsum(c, add_einsum(c, NULL, score, o->dq, o->k), score, o->q, o->dk);
  vtb_value *w = add_product(c, times(c, a, moves), da, decay);
  vtb_value *y = vtb_b_einsum(c->b, apply, w, o->v);
  if (o->dv) y = add_einsum(c, y, apply, times(c, a, decay), o->dv);
  if (p->init) {
    vtb_value *s = add_einsum(c, NULL, read, o->dq, o->s0);
    s = add_einsum(c, s, read, o->q, o->ds0);
    vtb_value *still = vtb_b_einsum(c->b, read, o->q, o->s0);
    y = add_product(c, y, columns_of(p, p->dm, true), still);
    y = add_product(c, y, columns_of(p, p->m, true), s);
  }
  add_columns(l, 0, y);
}

static void add_last(linscan *l, pairs *p, const moved_operands *o) {
  scan *c = &l->c;
  const char *joined = "bmhk,bmhv->bhkv";
  vtb_value *row = last_row(l, p, p->m, false), *drow = last_row(l, p, p->dm, false);
  vtb_value *k = add_product(c, times(c, o->k, drow), o->dk, row);
  vtb_value *s = vtb_b_einsum(c->b, joined, k, o->v);
  if (o->dv) s = add_einsum(c, s, joined, times(c, o->k, row), o->dv);
  if (p->init) s = add_product(c, s, last_row(l, p, p->dm, true), o->s0);
  if (p->init) s = add_product(c, s, last_row(l, p, p->m, true), o->ds0);
  add_columns(l, 1, s);
}

static void through_pairs(linscan *l) {
  scan *c = &l->c;
  const vtb_scan_tensors *at = &l->of.at;
  pairs p = pairs_of(c, l->of.init);
  moved_operands o = {operand(c, at->q),
                      operand(c, at->k),
                      with_column(l, operand(c, at->v), NULL, 1),
                      with_column(l, operand(c, at->s0), operand(c, at->n0), 0),
                      moved(c, at->q),
                      moved(c, at->k),
                      with_column(l, moved(c, at->v), NULL, 0),
                      with_column(l, moved(c, at->s0), moved(c, at->n0), 0)};
  add_reads(l, &p, &o);
  add_last(l, &p, &o);
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
  if (!dd)
    without_states(&l);
  else if (are_fewer(&l.c, l.c.tokens.size + l.of.init))
    through_pairs(&l);
  else
    through_states(&l, dd);
}

/* ---- delta ----------------------------------------------------------------------------------- */

/* w_r = v_r + S_{t-1}^T b_r and S_t = D_t * S_{t-1} + sum_r k_r w_r^T. With A what moves of the
 * state if w does not,
 *   A_t = D_t * A_{t-1} + dD_t * S_{t-1} + sum_r dk_r w_r^T
 *   dw_r = (dv_r + S_{t-1}^T db_r + A_{t-1}^T b_r) + E_{t-1}^T b_r
 *   E_t = D_t * E_{t-1} + sum_r k_r dw_r^T
 * which is a delta of the bracket. */
typedef struct delta {
  scan c;
  vtb_delta of;
  vtb_value *k, *b, *w, *s0, *dk, *db, *ds0;
} delta;

/* What lines read of the state before, and of what moves of it, by pairs: [B,N,h,R,V]. */
static vtb_value *lines_by_pairs(delta *d) {
  scan *c = &d->c;
  const char *score = "bnhrk,bmhsk->bhrnsm", *apply = "bhrnsm,bmhsv->bnhrv",
             *read = "bnhrk,bhkv->bnhrv";
  const int64_t heads_first[] = {0, 2, 1, 3};
  pairs p = pairs_of(c, d->of.init);
  vtb_value *old[] = {before(c, p.m, p.first), p.dm ? before(c, p.dm, NULL) : NULL},
            *of_token[2] = {0}, *of_init[2] = {0};
  vtb_type t = VTB__F32(p.batch, c->heads, {.size = 1}, c->tokens, {.size = 1}, c->tokens),
           init = VTB__F32(p.batch, c->tokens, c->heads, {.size = 1}, {.size = 1});
  for (int i = 0; i < 2 && old[i]; i++) {
    vtb_value *m = vtb_b_transpose(c->b, columns_of(&p, old[i], false), heads_first);
    of_token[i] = vtb_b_reshape(c->b, m, &t);
    if (p.init) of_init[i] = vtb_b_reshape(c->b, columns_of(&p, old[i], true), &init);
  }
  vtb_value *a = add_einsum(c, add_einsum(c, NULL, score, d->db, d->k), score, d->b, d->dk);
  vtb_value *w = add_product(c, NULL, a, of_token[0]);
  if (p.dm) w = add_product(c, w, vtb_b_einsum(c->b, score, d->b, d->k), of_token[1]);
  vtb_value *line = add_einsum(c, NULL, apply, w, d->w);
  if (!p.init) return line;
  vtb_value *s = add_einsum(c, add_einsum(c, NULL, read, d->db, d->s0), read, d->b, d->ds0);
  line = add_product(c, line, s, of_init[0]);
  return p.dm ? add_product(c, line, vtb_b_einsum(c->b, read, d->b, d->s0), of_init[1]) : line;
}

/* The same by the states of all tokens. */
static vtb_value *lines_by_states(delta *d, vtb_value *dd) {
  scan *c = &d->c;
  const char *joined = "bnhrk,bnhrv->bnhkv", *read = "bnhrk,bnhkv->bnhrv";
  vtb_value *old = NULL, *line = NULL, *u = NULL;
  if (dd || d->db) {
    states s = states_of(c, vtb_b_einsum(c->b, joined, d->k, d->w), d->s0);
    old = before(c, s.all, d->s0);
  }
  line = add_einsum(c, line, read, d->db, old);
  u = add_einsum(c, add_product(c, u, dd, old), joined, d->dk, d->w);
  if (!u && d->ds0) u = vtb_b_constant(c->b, 0);
  if (u) u = before(c, states_of(c, u, d->ds0).all, d->ds0);
  return add_einsum(c, line, read, d->b, u);
}

RULE(delta) {
  vtb_delta of = vtb_delta_of(inst);
  const vtb_delta_tensors *at = &of.at;
  const vtb_dim *k = inst->operands[at->k]->type.dim;
  delta d = {.of = of, .w = inst->results[0]};
  d.c = (scan){
      t,     &t->b, inst, of.decay, k[0], k[1], k[2], k[4], inst->operands[at->v]->type.dim[4],
      at->d, -1};
  scan *c = &d.c;
  d.k = operand(c, at->k), d.b = operand(c, at->b), d.s0 = operand(c, at->s0);
  d.dk = moved(c, at->k), d.db = moved(c, at->b), d.ds0 = moved(c, at->s0);
  vtb_value *dd = decay_moved(c), *line = moved(c, at->v);
  int64_t n = of.rank * of.rank * c->tokens.size + of.init;
  if (dd || d.dk || d.db || d.ds0)
    line = sum(c, line, are_fewer(c, n) ? lines_by_pairs(&d) : lines_by_states(&d, dd));
  vtb_value *operands[] = {d.k, line, d.b, operand(c, at->d)};
  vtb_attr attrs[6];
  int n_attrs = scan_attrs(c, of.decay->name, false, attrs);
  vtb_inst *made = vtb_build(c->b, VTB_OP_delta, operands, 4, attrs, n_attrs);
  vtb__add_tangent(t, d.w, made->results[0]);
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

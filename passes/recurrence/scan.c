/* The linscans of a recurrence, and the batched values of what reads them.
 *
 * A matrix state read by contractions: K its key axis, V the other one, one linscan for every
 * query; its normalizer rides along. A state read whole: K = 1, k = 1 (or the gain), q = 1, v = u
 * with all axes of the state as one; y is the state itself. A state read before its update: the
 * query moves one step ahead, the result one step back.
 */
#include "passes/recurrence/recurrence.h"

#include <string.h>

/* [B, N, h, n] filled with one number. */
static vtb_value *filled(vtb__rec *r, double value, int64_t n) {
  vtb_type t = vtb__rec_type(r, 3, &(vtb_dim){.size = n}, 1);
  return vtb_b_splat(&r->b, value, &t);
}

/* The factors on `axis`, or on none, without the gains if they are in the scale: [B, N, h, n]. */
vtb_value *vtb__rec_side(vtb__rec *r, const vtb__term *t, unsigned axes, const vtb_dim *dim) {
  static const int to[VTB_MAX_RANK] = {0};
  return vtb__rec_full(r, vtb__rec_product(r, t, axes, to, 1), dim, 1);
}

static vtb__term without_gains(vtb__rec *r, const vtb__state *s, const vtb__term *t) {
  return s->scale < 0 ? vtb__term_copy(r, t) : vtb__term_part(r, t, VTB__A_GAIN, 0, false);
}

/* x [B,N,h,n] times a number a head and step. */
static vtb_value *times_heads(vtb__rec *r, vtb_value *x, vtb_value *gain) {
  return vtb__rec_binary(r, VTB_OP_mul, (vtb__lifted){x, 3, 1, 0}, (vtb__lifted){gain, 3, 0, 0}).v;
}

/* ---- scales ---------------------------------------------------------------------------------- */

static bool scale_along(const vtb__rec *r, const vtb__state *s, int axis) {
  return s->scale >= 0 && (r->scales.at[s->scale].axes >> axis & 1);
}

/* x of a scale's frame as one axis: [B, N, h, n], all of the state's elements if it is read
 * whole. */
static vtb_value *as_one_axis(vtb__rec *r, const vtb__state *s, vtb_value *x, int64_t n) {
  vtb_type t = vtb__rec_type(r, 3, &(vtb_dim){.size = n}, 1);
  if (s->whole)
    x = vtb__rec_full(r, (vtb__lifted){x, 3, s->type->rank, 0}, s->type->dim, s->type->rank);
  return vtb_b_shaped(&r->b, x, &t);
}

/* e^(m - M) along the axis of a scale that varies, M its largest: [B, N, h, n]. */
static vtb_value *below_largest(vtb__rec *r, const vtb__state *s, int64_t n, bool old) {
  int flat = vtb__rec_flat_scale(r, s->scale);
  const vtb__scale *k = &r->scales.at[s->scale];
  vtb__lifted m = {old ? k->prev : k->m.v, 3, k->rank, 0}, to = r->scales.at[flat].m;
  if (old) to.v = r->scales.at[flat].prev;
  vtb__lifted d = vtb__rec_binary(r, VTB_OP_sub, m, to);
  return as_one_axis(r, s, vtb_b_unary(&r->b, VTB_OP_exp, d.v), n);
}

static vtb_value *times_rows(vtb__rec *r, vtb_value *x, vtb_value *by) {
  return by->type.rank == 3 ? times_heads(r, x, by) : vtb_b_binary(&r->b, VTB_OP_mul, x, by);
}

/* ---- decay ----------------------------------------------------------------------------------- */

static vtb_value *constant_decay(vtb__rec *r, vtb__lifted a) {
  vtb_type t = VTB__F32(r->heads);
  return vtb_b_stretched(&r->b, a.v, &t);
}

static vtb_value *scaled_decay(vtb__rec *r, const vtb__state *s, const char **klass) {
  vtb_value *d = vtb__rec_scaled_decay(r, s);
  unsigned axes = r->scales.at[s->scale].axes;
  if (!axes) return d;
  *klass = !s->whole && axes == 1u << s->key ? "key" : "value";
  int along = axes == 1u << s->key ? s->key : 1 - s->key;
  return as_one_axis(r, s, d, s->whole ? vtb_type_count(s->type) : s->type->dim[along].size);
}

/* For a whole state the axes of the state are one value axis. */
vtb_value *vtb__rec_decay(vtb__rec *r, const vtb__state *s, const char **klass, vtb_value **rates) {
  *klass = "scalar", *rates = NULL;
  if (s->scale >= 0) return scaled_decay(r, s, klass);
  unsigned axes = vtb__term_axes(&s->a);
  int rank = axes ? s->type->rank : 0;
  vtb__lifted a = vtb__rec_product(r, &s->a, ~0u, NULL, rank);
  if (!axes && a.lead < 3) {
    *klass = "constant";
    return constant_decay(r, a);
  }
  if (!axes) return vtb__rec_full(r, a, NULL, 0);
  if (s->whole) {
    *klass = "value";
    vtb_type t = vtb__rec_type(r, 3, &(vtb_dim){.size = vtb_type_count(s->type)}, 1);
    return vtb_b_reshape(&r->b, vtb__rec_full(r, a, s->type->dim, rank), &t);
  }
  unsigned key = 1u << s->key, value = 1u << (1 - s->key);
  *klass = axes == key ? "key" : axes == value ? "value" : "full";
  if (axes != 3u)
    return vtb__rec_side(r, &s->a, axes, &s->type->dim[axes == key ? s->key : 1 - s->key]);
  vtb_value *d;
  if (vtb__rec_rates(r, s, &d, rates)) {
    *klass = "rates";
    return d;
  }
  d = vtb__rec_full(r, a, s->type->dim, 2);
  return s->key == 0 ? d : vtb_b_transpose(&r->b, d, (int64_t[]){0, 1, 2, 4, 3});
}

/* ---- initial states -------------------------------------------------------------------------- */

/* Operand `state` as [B, h, X...]; relative to e^(m_0) only if the states carry a scale. */
static vtb_value *initial(vtb__rec *r, int state) {
  const vtb_type *x = r->states[state].type;
  vtb_type t = vtb__rec_type(r, 2, x->dim, x->rank), scale_type = vtb__ones_behind(&t, 2);
  vtb_value *v = vtb_b_reshape(&r->b, r->inst->operands[state], &t);
  if (r->states[state].scale >= 0 || r->n_inits <= r->n_states) return v;
  vtb_value *m = vtb_b_reshape(&r->b, r->inst->operands[r->n_states], &scale_type);
  if (r->n_scales) m = vtb_b_binary(&r->b, VTB_OP_min, m, vtb_b_constant(&r->b, 88));
  return vtb_b_binary(&r->b, VTB_OP_mul, v, vtb_b_unary(&r->b, VTB_OP_exp, m));
}

vtb_value *vtb__rec_initial_matrix(vtb__rec *r, const vtb__state *s, int state) {
  vtb_value *v = initial(r, state);
  if (!s->whole && s->type->rank == 1) return v;
  if (!s->whole) return s->key == 0 ? v : vtb_b_transpose(&r->b, v, (int64_t[]){0, 1, 3, 2});
  vtb_type t = VTB__F32(r->batch, r->heads, {.size = 1}, {.size = vtb_type_count(s->type)});
  return vtb_b_reshape(&r->b, v, &t);
}

/* ---- scans ----------------------------------------------------------------------------------- */

/* k and v of a matrix state read by contractions. */
static void outer_update(vtb__rec *r, const vtb__state *s, int term, vtb_value **k, vtb_value **v) {
  unsigned key = 1u << s->key, value = 1u << (1 - s->key);
  vtb__term u = without_gains(r, s, &s->u[term]), of_value = vtb__term_beyond(r, &u, ~value),
            of_key = vtb__term_within(r, &u, ~value);
  r->b.name_hint = "k";
  *k = vtb__rec_side(r, &of_key, key, &s->type->dim[s->key]);
  *v = vtb__rec_side(r, &of_value, value, &s->type->dim[1 - s->key]);
  if (s->scale < 0 || s->u[0].coef == 0) return;
  bool along_values = scale_along(r, s, 1 - s->key);
  vtb_value *gain = vtb__rec_scaled_gain(r, s, &s->u[0]), **to = along_values ? v : k;
  if (r->scales.at[s->scale].axes)
    gain = as_one_axis(r, s, gain, s->type->dim[along_values ? 1 - s->key : s->key].size);
  *to = times_rows(r, *to, gain);
  vtb_value_rename(*to, along_values ? "v" : "k");
}

/* One term of the update with all axes of the state as one: [B, N, h, X]. */
static vtb_value *whole_term(vtb__rec *r, const vtb__state *s, const vtb__term *t) {
  vtb__term u = without_gains(r, s, t);
  vtb_value *x = vtb__rec_full(r, vtb__rec_product(r, &u, ~0u, NULL, s->type->rank), s->type->dim,
                               s->type->rank);
  vtb_type flat = vtb__rec_type(r, 3, &(vtb_dim){.size = vtb_type_count(s->type)}, 1);
  return vtb_b_shaped(&r->b, x, &flat);
}

/* One term: its gain is the key. Several, with gains of their own: each is scaled before the
 * sum. */
static void whole_update(vtb__rec *r, const vtb__state *s, vtb_value **k, vtb_value **v) {
  *k = filled(r, 1, 1);
  *v = NULL;
  for (int i = 0; i < s->n_u; i++) {
    vtb_value *x = whole_term(r, s, &s->u[i]);
    bool gain = s->scale >= 0 && s->u[i].coef != 0, rows = gain && r->scales.at[s->scale].axes;
    vtb_value *by = gain ? vtb__rec_scaled_gain(r, s, &s->u[i]) : NULL;
    if (rows) by = as_one_axis(r, s, by, vtb_type_count(s->type));
    if (gain && (s->n_u > 1 || rows)) x = times_rows(r, x, by);
    if (gain && s->n_u == 1 && !rows) *k = times_heads(r, *k, by);
    *v = vtb__joined(&r->b, VTB_OP_add, *v, x);
  }
}

/* The query of the first visited token with the initial state: what a read of the old state gives
 * there. */
static vtb_value *first_read(vtb__rec *r, vtb_value *q, vtb_value *init, const char *spec) {
  int64_t first = vtb__path_end(r->b.module, r->path, r->tokens.size, false);
  vtb_value *at = vtb_b_slice(&r->b, q, 1, first, first + 1, 1);
  vtb_type t = vtb_type_without_axis(&q->type, 1);
  return vtb_b_einsum(&r->b, spec, vtb_b_reshape(&r->b, at, &t), init);
}

vtb_inst *vtb__rec_build_scan(vtb__rec *r, vtb_op op, vtb_value *const *operands, int n,
                              const char *klass, unsigned with) {
  vtb_attr attrs[8] = {VTB_A_STR("class", klass)};
  int n_attrs = 1 + vtb_attrs_of(r->inst, "mode chunk path layout", attrs + 1);
  if (with & VTB__SCAN_NORMALIZER) attrs[n_attrs++] = VTB_A_INT("normalizer", 1);
  if (with & VTB__SCAN_INIT) attrs[n_attrs++] = VTB_A_INT("init", 1);
  return vtb_build(&r->b, op, operands, n, attrs, n_attrs);
}

/* The scan's reads are named after the state, "C.read"; its last states take the recurrence's own
 * names. */
static void name_results(vtb__rec *r, int state, vtb_inst *scan) {
  const vtb__state *s = &r->states[state];
  vtb_value **final = r->inst->results + r->n_yields;
  for (int k = 0; k < 2 && 2 * k < scan->n_results; k++) {
    int of = k == 0 ? state : s->normalizer;
    vtb_value_rename(scan->results[2 * k], vtb__text(r->step, "%s.read", r->states[of].old->name));
    vtb__swap_names(scan->results[2 * k + 1], final[of]);
  }
}

/* One linscan a term; y and the last state are their sums, and the first begins with S_0. */
static void sum_terms(vtb__rec *r, const vtb__state *s, vtb_inst *first, vtb__scan *scan) {
  scan->y = first->results[0], scan->s_last = first->results[1];
  for (int i = 1; i < s->n_u && !s->whole; i++) {
    const char *klass = vtb_attr_str(first, "class", "");
    int n = vtb_streq(klass, "rates") ? 5 : 4;
    vtb_value *operands[5];
    memcpy(operands, first->operands, (size_t)n * sizeof *operands);
    outer_update(r, s, i, &operands[1], &operands[2]);
    r->b.name_hint = vtb__text(r->step, "%s.read", s->old->name);
    vtb_inst *more = vtb__rec_build_scan(r, VTB_OP_linscan, operands, n, klass, 0);
    scan->y = vtb_b_binary(&r->b, VTB_OP_add, scan->y, more->results[0]);
    scan->s_last = vtb_b_binary(&r->b, VTB_OP_add, scan->s_last, more->results[1]);
  }
}

static vtb__scan *emit_scan(vtb__rec *r, int state, vtb_value *q, const vtb__scan *what) {
  vtb__state *s = &r->states[state];
  bool normalizer = s->normalizer >= 0;
  vtb__scan scan = *what;
  const char *klass;
  vtb_value *operands[7], *rates, *init = r->n_inits ? vtb__rec_initial_matrix(r, s, state) : NULL;
  if (scan.old)
    operands[0] = vtb__rec_shift(r, q, -1, 0, NULL);
  else
    operands[0] = q;
  if (!s->whole && scale_along(r, s, s->key) && !scan.any_q)
    operands[0] = times_rows(r, operands[0], below_largest(r, s, s->type->dim[s->key].size, false));
  if (s->whole)
    whole_update(r, s, &operands[1], &operands[2]);
  else
    outer_update(r, s, 0, &operands[1], &operands[2]);
  operands[3] = vtb__rec_decay(r, s, &klass, &rates);
  int n = 4;
  if (rates) operands[n++] = rates;
  if (init) operands[n++] = init;
  if (init && normalizer) operands[n++] = initial(r, s->normalizer);
  unsigned with = (normalizer ? VTB__SCAN_NORMALIZER : 0) | (init ? VTB__SCAN_INIT : 0);
  vtb_inst *made = vtb__rec_build_scan(r, VTB_OP_linscan, operands, n, klass, with);
  name_results(r, state, made);
  sum_terms(r, s, made, &scan);
  if (normalizer) scan.z = made->results[2], scan.n_last = made->results[3];
  if (scan.old) {
    vtb_value *y0 = init ? first_read(r, q, init, "bhk,bhkv->bhv") : NULL;
    scan.y = vtb__rec_shift(r, scan.y, 1, 0, y0);
    vtb_value *z0 = init && normalizer ? first_read(r, q, operands[n - 1], "bhk,bhk->bh") : NULL;
    if (normalizer) scan.z = vtb__rec_shift(r, scan.z, 1, 0, z0);
  }
  vtb__put(r->step, &s->scans, scan);
  return &s->scans.at[s->scans.n - 1];
}

/* The scan of a matrix state with this query (factors on the key axis or none). */
static const vtb__scan *scan_for(vtb__rec *r, int state, const vtb__term *q, int q_key, bool old) {
  vtb__state *s = &r->states[state];
  for (size_t i = 0; i < s->scans.n; i++)
    if (s->scans.at[i].old == old && vtb__terms_match(&s->scans.at[i].q, s->key, q, q_key))
      return &s->scans.at[i];
  vtb__term named = vtb__term_copy(r, q);
  for (int i = 0; i < named.n && q_key != s->key; i++) /* on the matrix's frame */
    named.at[i] = vtb__factor_on(&named.at[i], s->key);
  r->b.name_hint = "q";
  vtb_value *v = vtb__rec_side(r, q, ~0u, &s->type->dim[s->key]);
  return emit_scan(r, state, v, &(vtb__scan){.q = named, .old = old});
}

static const vtb__scan *scan_whole(vtb__rec *r, int state) {
  vtb__state *s = &r->states[state];
  if (s->scans.n) return &s->scans.at[0];
  return emit_scan(r, state, filled(r, 1, 1), &(vtb__scan){.q = {.coef = 1}});
}

/* ---- reads ----------------------------------------------------------------------------------- */

/* Values relative to the step before's scale, relative to this step's. */
static vtb__lifted to_this_scale(vtb__rec *r, vtb__lifted x, int scale) {
  if (scale < 0) return x;
  const vtb__scale *k = &r->scales.at[scale];
  vtb__lifted d = k->m;
  d.v = vtb_b_binary(&r->b, VTB_OP_sub, k->prev, k->m.v);
  d.v = vtb_b_binary(&r->b, VTB_OP_min, d.v, vtb_b_constant(&r->b, 88));
  x = vtb__rec_times_exp(r, x, d);
  x.degree = vtb__degree_one(r, scale);
  return x;
}

vtb__lifted vtb__rec_whole(vtb__rec *r, int state, bool old) {
  vtb__state *s = &r->states[state];
  vtb_check(s->whole, "state %s is not read whole", s->old->name);
  vtb_type t = vtb__rec_type(r, 3, s->type->dim, s->type->rank);
  vtb_value *y = scan_whole(r, state)->y;
  y = vtb_b_shaped(&r->b, y, &t);
  vtb__lifted x = {y, 3, s->type->rank, vtb__degree_one(r, s->scale)};
  if (!old) return x;
  x.v = vtb__rec_shift(r, y, 1, 0, r->n_inits ? initial(r, state) : NULL);
  return to_this_scale(r, x, s->scale);
}

/* Factors of a read on the value axis times y, and the sum over that axis if asked for. */
static vtb__lifted finish_matrix_read(vtb__rec *r, const vtb__read *read, const vtb__state *s,
                                      vtb_value *y, const vtb__term *post) {
  vtb__lifted x = {y, 3, 1, 0};
  if (post->n) {
    vtb__lifted w = {vtb__rec_side(r, post, ~0u, &s->type->dim[1 - s->key]), 3, 1, 0};
    x = vtb__rec_binary(r, VTB_OP_mul, x, w);
  }
  if (read->sum_value) {
    x.v = vtb_b_reduce(&r->b, VTB_OP_reduce_sum, x.v, (int64_t[]){3}, 1, false);
    x.rank = 0;
  }
  return x;
}

vtb__lifted vtb__rec_emit_read(vtb__rec *r, const vtb__read *read) {
  const vtb__state *s = &r->states[read->state];
  const vtb_type *t = &read->inst->results[0]->type;
  int flat = s->scale < 0 ? -1 : vtb__rec_flat_scale(r, s->scale);
  vtb__lifted x;
  if (s->leader >= 0) {
    x = (vtb__lifted){scan_for(r, s->leader, &read->factors, 0, read->old)->z, 3, 0, 0};
  } else {
    unsigned value = 1u << (1 - s->key);
    vtb__term q = vtb__term_within(r, &read->factors, ~value),
              post = vtb__term_beyond(r, &read->factors, ~value);
    vtb_value *y = scan_for(r, read->state, &q, s->key, read->old)->y;
    if (scale_along(r, s, 1 - s->key))
      y = times_rows(r, y, below_largest(r, s, s->type->dim[1 - s->key].size, read->old));
    x = finish_matrix_read(r, read, s, y, &post);
  }
  x.degree = vtb__degree_one(r, flat);
  if (read->old) x = to_this_scale(r, x, flat);
  vtb_type want = vtb__rec_type(r, 3, t->dim, t->rank);
  x.v = vtb_b_shaped(&r->b, x.v, &want);
  x.rank = t->rank;
  return x;
}

/* ---- final states ---------------------------------------------------------------------------- */

static const vtb__scan *any_scan(vtb__rec *r, int state) {
  vtb__state *s = &r->states[state];
  if (s->whole) return scan_whole(r, state);
  if (s->scans.n) return &s->scans.at[0];
  return emit_scan(r, state, filled(r, 0, s->type->dim[s->key].size),
                   &(vtb__scan){.any_q = true, .q = {.coef = 0}});
}

/* A final state times numbers of its scale's frame, [B, h, dims]; a normalizer has its matrix's
 * scale, which varies over the keys alone. */
static vtb_value *times_state(vtb__rec *r, const vtb__state *s, vtb_value *v, vtb_value *d) {
  vtb_type own = vtb__rec_type(r, 2, s->type->dim, s->type->rank), by = own;
  if (d->type.rank == 2) by = vtb__ones_behind(&own, 2);
  for (int a = 2; a < by.rank && d->type.rank == own.rank; a++) by.dim[a] = d->type.dim[a];
  return vtb_b_binary(&r->b, VTB_OP_mul, vtb_b_shaped(&r->b, v, &own), vtb_b_shaped(&r->b, d, &by));
}

vtb_value *vtb__rec_last_state(vtb__rec *r, int state) {
  const vtb__state *s = &r->states[state];
  const vtb_type *want = &r->inst->results[r->n_yields + state]->type;
  const vtb__scan *scan = any_scan(r, s->leader >= 0 ? s->leader : state);
  vtb_value *v = s->leader >= 0 ? scan->n_last : scan->s_last;
  if (s->leader < 0 && !s->whole && s->key == 1)
    v = vtb_b_transpose(&r->b, v, (int64_t[]){0, 1, 3, 2});
  vtb_value *d = vtb__rec_to_common(r, s);
  return vtb_b_shaped(&r->b, d ? times_state(r, s, v, d) : v, want);
}

vtb_value *vtb__rec_last_scale(vtb__rec *r) {
  const vtb_type *want = &r->inst->results[r->n_yields + r->n_states]->type;
  if (!r->n_scales) return vtb_b_splat(&r->b, 0, want);
  return vtb_b_reshape(&r->b, vtb__rec_common_scale(r), want);
}

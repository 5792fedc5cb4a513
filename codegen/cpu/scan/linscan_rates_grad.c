/* linscan_grad of class rates: see linscan_rates.h. With D_t = exp(d_t A), W_t = D_t o S_{t-1}, S_t
 * = W_t + k_t v_t^T,
 *
 *   P_t  = q_t dy_t^T + D_{t+1} o P_{t+1}     X_t = P_t o W_t
 *   dq_t = S_t dy_t     dk_t = P_t v_t        dv_t = P_t^T k_t
 *   dd_t = sum over keys of X_t o A           dA = sum over t of X_t d_t
 *
 * X is the adjoint of log D: W carries the decay, so nothing is divided and nothing cancels.
 *
 * A task owns one batch entry, one head and a group of tiles of V. Pass 1 runs the recurrence and
 * keeps the state before every chunk. Pass 2 takes the chunks from the last to the first: for each
 * tile it runs the chunk again, keeping D and W in scratch memory, and walks it back. dq and dk sum
 * over V: each group adds its tiles to rows of its own, and a second task adds the groups; a third
 * adds the batch entries of dA. All orders are fixed by the shapes.
 */
#include "codegen/cpu/scan/linscan_rates.h"

enum { CHUNK = 8, MAX_GROUP = 8, MIN_TASKS = 8 };

typedef struct backward {
  vtb__rates g;
  int64_t chunk, n_chunks, group, n_groups; /* tokens a chunk, tiles a group */
  int64_t padded_keys;
  LLVMValueRef first_tile; /* of the group */
  LLVMValueRef bounds, adjoint,
      rates;                /* scratch rows: [group, n_chunks, K], P [group, K], dA [group, K] */
  LLVMValueRef decay, kept; /* D and W of a block of keys: [chunk, VTB__KEYS] */
  /* temporaries: dq, dk [2, groups, B, h, N, padded K]; dA [B, h, tiles, K] rows */
  int64_t sums_at, rates_at;
  LLVMValueRef sums, all_rates;
  LLVMValueRef t0, n_steps, own; /* the chunk; the tile's number in the group */
} backward;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }
static const int64_t row_bytes = VTB__LANES * (int64_t)sizeof(float);

/* block i of K rows */
static LLVMValueRef rows_of(const backward *b, LLVMValueRef rows, LLVMValueRef i) {
  return vtb__rates_row(&b->g, rows, vtb_cpu_mul(b->g.s->c, i, b->g.s->of.K));
}

static void begin(backward *b, const vtb_inst *inst) {
  vtb__cpu_scan *s = b->g.s;
  vtb_cpu *c = s->c;
  int64_t bh = s->of.n_batch * s->of.n_heads, n_tiles = b->g.n_tiles = vtb__rates_tiles(s);
  b->chunk = s->of.n_tokens < CHUNK ? s->of.n_tokens : CHUNK;
  b->n_chunks = (s->of.n_tokens + b->chunk - 1) / b->chunk;
  b->group = n_tiles < MAX_GROUP ? n_tiles : MAX_GROUP;
  while (b->group > 1 && bh * ((n_tiles + b->group - 1) / b->group) < MIN_TASKS) b->group /= 2;
  b->n_groups = (n_tiles + b->group - 1) / b->group;
  b->padded_keys = vtb__padded(c, s->of.K);
  b->sums_at = vtb_cpu_temp(c, 2 * b->n_groups * bh * s->of.n_tokens * b->padded_keys *
                                   (int64_t)sizeof(float));
  b->rates_at = vtb_cpu_temp(c, bh * n_tiles * s->of.K * row_bytes);
  s->t = vtb_cpu_task_begin(c, inst, "rates", bh * b->n_groups, 1);
  b->sums = vtb_cpu_temp_ptr(c, s->t, b->sums_at);
  b->all_rates = vtb_cpu_temp_ptr(c, s->t, b->rates_at);
  LLVMValueRef at = vtb_cpu_div(c, s->t->index, b->n_groups);
  s->batch = vtb_cpu_div(c, at, s->of.n_heads);
  s->head = vtb_cpu_rem(c, at, s->of.n_heads);
  b->first_tile = vtb_cpu_mul(c, vtb_cpu_rem(c, s->t->index, b->n_groups), b->group);
  b->bounds = vtb_cpu_scratch(c, s->t, b->group * b->n_chunks * s->of.K * row_bytes);
  b->adjoint = vtb_cpu_scratch(c, s->t, b->group * s->of.K * row_bytes);
  b->rates = vtb_cpu_scratch(c, s->t, b->group * s->of.K * row_bytes);
  b->decay = vtb_cpu_scratch(c, s->t, b->chunk * VTB__KEYS * row_bytes);
  b->kept = vtb_cpu_scratch(c, s->t, b->chunk * VTB__KEYS * row_bytes);
}

/* A loop over the tiles of the group, the last of which may have fewer. */
static vtb_cpu_for each_tile(backward *b) {
  vtb_cpu *c = b->g.s->c;
  LLVMValueRef left = LLVMBuildNSWSub(c->b, k_(c, b->g.n_tiles), b->first_tile, "");
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), vtb_cpu_min(c, left, k_(c, b->group)), k_(c, 1));
  b->own = l.i;
  vtb__rates_at_tile(&b->g, vtb_cpu_add(c, b->first_tile, l.i));
  return l;
}

/* All K rows of a tile: from a state tensor, zeros if it has no number; and back. */
static void load_rows(const backward *b, int tensor, LLVMValueRef rows) {
  vtb_cpu *c = b->g.s->c;
  vtb_cpu_for k = vtb_cpu_for_begin(c, k_(c, 0), k_(c, b->g.s->of.K), k_(c, 1));
  LLVMValueRef v = LLVMConstNull(vtb_cpu_vector(c, VTB__LANES));
  if (tensor >= 0) v = vtb__rates_load(&b->g, vtb__rates_state_row(&b->g, tensor, k.i));
  vtb_cpu_store(c, v, vtb__rates_row(&b->g, rows, k.i));
  vtb_cpu_for_end(c, &k);
}

static void store_rows(const backward *b, LLVMValueRef rows, int tensor) {
  vtb_cpu *c = b->g.s->c;
  vtb_cpu_for k = vtb_cpu_for_begin(c, k_(c, 0), k_(c, b->g.s->of.K), k_(c, 1));
  LLVMValueRef v = vtb_cpu_load(c, vtb__rates_row(&b->g, rows, k.i), VTB__LANES);
  vtb__rates_store(&b->g, v, vtb__rates_state_row(&b->g, tensor, k.i));
  vtb_cpu_for_end(c, &k);
}

/* ---- pass 1 ---------------------------------------------------------------------------------- */

static LLVMValueRef bound(const backward *b, LLVMValueRef chunk) {
  vtb_cpu *c = b->g.s->c;
  return rows_of(b, b->bounds, vtb_cpu_add(c, vtb_cpu_mul(c, b->own, b->n_chunks), chunk));
}

static void advance_block(void *user, LLVMValueRef k0, int n, LLVMValueRef first) {
  const backward *b = user;
  vtb_cpu *c = b->g.s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 1), k_(c, b->n_chunks), k_(c, 1));
  LLVMValueRef before = vtb_cpu_add(c, l.i, k_(c, -1));
  vtb__rates_run run = {.t0 = vtb_cpu_mul(c, before, b->chunk), .n_steps = k_(c, b->chunk)};
  run.from = bound(b, before), run.to = bound(b, l.i);
  vtb__rates_advance(&b->g, &run, k0, n, first);
  vtb_cpu_for_end(c, &l);
}

static void run_forward(backward *b) {
  vtb__cpu_scan *s = b->g.s;
  vtb_cpu *c = s->c;
  vtb_cpu_for tile = each_tile(b);
  load_rows(b, s->of.init ? s->of.at.s0 : -1, bound(b, k_(c, 0)));
  load_rows(b, s->of.dlast ? s->of.at.ds : -1, rows_of(b, b->adjoint, b->own));
  load_rows(b, -1, rows_of(b, b->rates, b->own));
  vtb__rates_blocks(&b->g, advance_block, b);
  vtb_cpu_for_end(c, &tile);
}

/* ---- pass 2 ---------------------------------------------------------------------------------- */

/* Row `key` of step t of D or W. */
static LLVMValueRef kept_row(const backward *b, LLVMValueRef rows, LLVMValueRef t, int key) {
  vtb_cpu *c = b->g.s->c;
  return vtb__rates_row(&b->g, rows, vtb_cpu_add(c, vtb_cpu_mul(c, t, VTB__KEYS), k_(c, key)));
}

/* The chunk once more; D and W of every step are kept. */
static void recompute(const backward *b, LLVMValueRef from, LLVMValueRef k0, int n) {
  vtb__cpu_scan *s = b->g.s;
  vtb_cpu *c = s->c;
  LLVMValueRef exponents[VTB__KEYS], decay[VTB__KEYS], state[VTB__KEYS], row[VTB__KEYS];
  vtb__rates_exponents(&b->g, k0, n, exponents);
  for (int k = 0; k < n; k++) {
    row[k] = vtb_cpu_add(c, k0, k_(c, k));
    state[k] = vtb_cpu_load(c, vtb__rates_row(&b->g, from, row[k]), VTB__LANES);
  }
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), b->n_steps, k_(c, 1));
  for (int k = 0; k < n; k++) state[k] = vtb_cpu_carry(c, &t, state[k]);
  LLVMValueRef pos = vtb__order_at(c, &s->order, vtb_cpu_add(c, b->t0, t.i)),
               keys = vtb__scan_row(s, s->of.at.k, pos);
  LLVMValueRef v = vtb__rates_load(&b->g, vtb__scan_row(s, s->of.at.v, pos));
  vtb__rates_decays(&b->g, vtb__rates_load(&b->g, vtb__scan_row(s, s->of.at.d, pos)), exponents, n,
                    decay);
  for (int k = 0; k < n; k++) {
    LLVMValueRef key =
        vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, keys, row[k]), 1), VTB__LANES);
    LLVMValueRef kept = LLVMBuildFMul(c->b, decay[k], state[k], "");
    vtb_cpu_store(c, decay[k], kept_row(b, b->decay, t.i, k));
    vtb_cpu_store(c, kept, kept_row(b, b->kept, t.i, k));
    vtb_cpu_carry_next(&t, k, vtb_cpu_fma(c, key, v, kept));
  }
  vtb_cpu_for_end(c, &t);
}

/* Row of the group's sums: 0 dq, 1 dk. */
static LLVMValueRef sum_row(const backward *b, int which, LLVMValueRef group, LLVMValueRef pos) {
  const vtb__cpu_scan *s = b->g.s;
  vtb_cpu *c = s->c;
  LLVMValueRef at = vtb_cpu_add(c, k_(c, which * b->n_groups), group);
  at = vtb_cpu_add(c, vtb_cpu_mul(c, at, s->of.n_batch), s->batch);
  at = vtb_cpu_add(c, vtb_cpu_mul(c, at, s->of.n_heads), s->head);
  at = vtb_cpu_add(c, vtb_cpu_mul(c, at, s->of.n_tokens), pos);
  return vtb_cpu_at(c, b->sums, vtb_cpu_mul(c, at, b->padded_keys));
}

/* The lanes of x as one vector of the machine. */
static LLVMValueRef fold_lanes(vtb_cpu *c, LLVMValueRef x) {
  for (int n = VTB__LANES / 2; n >= c->width; n /= 2) {
    LLVMValueRef low[VTB__LANES], high[VTB__LANES], none = LLVMGetPoison(LLVMTypeOf(x));
    for (int i = 0; i < n; i++) {
      low[i] = LLVMConstInt(c->i32, (unsigned)i, 0);
      high[i] = LLVMConstInt(c->i32, (unsigned)(i + n), 0);
    }
    LLVMValueRef a = LLVMBuildShuffleVector(c->b, x, none, LLVMConstVector(low, (unsigned)n), "");
    x = LLVMBuildFAdd(
        c->b, a, LLVMBuildShuffleVector(c->b, x, none, LLVMConstVector(high, (unsigned)n), ""), "");
  }
  return x;
}

/* Adds what lane sums the `width` vectors x have, of which n count, to a row of sums; the group's
 * first tile overwrites it. */
static void add_sums(const backward *b, LLVMValueRef *x, int n, LLVMValueRef row) {
  vtb_cpu *c = b->g.s->c;
  for (int i = n; i < c->width; i++) x[i] = LLVMConstNull(c->vf32);
  LLVMValueRef sum = vtb__sum_rows(c, x),
               more = LLVMBuildFAdd(c->b, sum, vtb_cpu_load(c, row, c->width), "");
  LLVMValueRef first = LLVMBuildICmp(c->b, LLVMIntEQ, b->own, k_(c, 0), "");
  vtb_cpu_store(c, LLVMBuildSelect(c->b, first, sum, more, ""), row);
}

typedef struct step {
  LLVMValueRef v, dy, size, keys, queries; /* v, dy, d; rows k, q */
  LLVMValueRef dv, dd;
} step;

/* One key of one step: P and dA are updated. to_q, to_k: the lanes of what dq and dk get. */
static void step_key(const backward *b, step *w, LLVMValueRef key_at, const LLVMValueRef kept[2],
                     LLVMValueRef rate, LLVMValueRef *p, LLVMValueRef *drate, LLVMValueRef *to_q,
                     LLVMValueRef *to_k) {
  vtb_cpu *c = b->g.s->c;
  LLVMValueRef key =
      vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, w->keys, key_at), 1), VTB__LANES);
  LLVMValueRef query =
      vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, w->queries, key_at), 1), VTB__LANES);
  LLVMValueRef now = vtb_cpu_fma(c, query, w->dy, *p);
  *to_q = fold_lanes(c, LLVMBuildFMul(c->b, vtb_cpu_fma(c, key, w->v, kept[1]), w->dy, ""));
  *to_k = fold_lanes(c, LLVMBuildFMul(c->b, now, w->v, ""));
  w->dv = vtb_cpu_fma(c, now, key, w->dv);
  LLVMValueRef x = LLVMBuildFMul(c->b, now, kept[1], "");
  w->dd = vtb_cpu_fma(c, x, rate, w->dd);
  *drate = vtb_cpu_fma(c, x, w->size, *drate);
  *p = LLVMBuildFMul(c->b, now, kept[0], "");
}

static LLVMValueRef rate_row(const backward *b, LLVMValueRef key) {
  vtb__cpu_scan *s = b->g.s;
  LLVMValueRef index[] = {s->head, key};
  return vtb__rates_load(&b->g, vtb_cpu_element(s->c, &s->t->t[s->of.at.rates], index, 2));
}

static void step_back(const backward *b, LLVMValueRef k0, int n, LLVMValueRef first) {
  vtb__cpu_scan *s = b->g.s;
  vtb_cpu *c = s->c;
  LLVMValueRef p[VTB__KEYS], drate[VTB__KEYS], rate[VTB__KEYS], row[VTB__KEYS], to_q[VTB__KEYS],
      to_k[VTB__KEYS];
  LLVMValueRef p_rows = rows_of(b, b->adjoint, b->own), rate_rows = rows_of(b, b->rates, b->own);
  for (int k = 0; k < n; k++) {
    row[k] = vtb_cpu_add(c, k0, k_(c, k));
    rate[k] = rate_row(b, row[k]);
    p[k] = vtb_cpu_load(c, vtb__rates_row(&b->g, p_rows, row[k]), VTB__LANES);
    drate[k] = vtb_cpu_load(c, vtb__rates_row(&b->g, rate_rows, row[k]), VTB__LANES);
  }
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), b->n_steps, k_(c, 1));
  for (int k = 0; k < n; k++) p[k] = vtb_cpu_carry(c, &l, p[k]);
  for (int k = 0; k < n; k++) drate[k] = vtb_cpu_carry(c, &l, drate[k]);
  LLVMValueRef i = LLVMBuildNSWSub(c->b, vtb_cpu_add(c, b->n_steps, k_(c, -1)), l.i, "");
  LLVMValueRef pos = vtb__order_at(c, &s->order, vtb_cpu_add(c, b->t0, i));
  step w = {.keys = vtb__scan_row(s, s->of.at.k, pos),
            .queries = vtb__scan_row(s, s->of.at.q, pos)};
  w.v = vtb__rates_load(&b->g, vtb__scan_row(s, s->of.at.v, pos));
  w.dy = vtb__rates_load(&b->g, vtb__scan_row(s, s->of.at.dy, pos));
  w.size = vtb__rates_load(&b->g, vtb__scan_row(s, s->of.at.d, pos));
  w.dv = w.dd = vtb_cpu_like(c, w.v, 0);
  LLVMValueRef group = vtb_cpu_div(c, b->first_tile, b->group);
  LLVMValueRef dq = vtb_cpu_at(c, sum_row(b, 0, group, pos), k0),
               dk = vtb_cpu_at(c, sum_row(b, 1, group, pos), k0);
  for (int k = 0; k < n; k++) {
    LLVMValueRef kept[] = {vtb_cpu_load(c, kept_row(b, b->decay, i, k), VTB__LANES),
                           vtb_cpu_load(c, kept_row(b, b->kept, i, k), VTB__LANES)};
    step_key(b, &w, row[k], kept, rate[k], &p[k], &drate[k], &to_q[k % c->width],
             &to_k[k % c->width]);
    vtb_cpu_carry_next(&l, k, p[k]);
    vtb_cpu_carry_next(&l, n + k, drate[k]);
    /* summed as soon as they are whole: no register is left to keep them */
    int in_vector = k % c->width + 1;
    if (in_vector < c->width && k + 1 < n) continue;
    LLVMValueRef from = k_(c, k + 1 - in_vector);
    add_sums(b, to_q, in_vector, vtb_cpu_at(c, dq, from));
    add_sums(b, to_k, in_vector, vtb_cpu_at(c, dk, from));
  }
  vtb__rates_accumulate(&b->g, w.dv, vtb__scan_row(s, s->of.at.dv, pos), first);
  vtb__rates_accumulate(&b->g, w.dd, vtb__scan_row(s, s->of.at.dd, pos), first);
  vtb_cpu_for_end(c, &l);
  for (int k = 0; k < n; k++) {
    vtb_cpu_store(c, vtb_cpu_carried(&l, k), vtb__rates_row(&b->g, p_rows, row[k]));
    vtb_cpu_store(c, vtb_cpu_carried(&l, n + k), vtb__rates_row(&b->g, rate_rows, row[k]));
  }
}

static void back_block(void *user, LLVMValueRef k0, int n, LLVMValueRef first) {
  const backward *b = user;
  vtb_cpu *c = b->g.s->c;
  recompute(b, bound(b, vtb_cpu_div(c, b->t0, b->chunk)), k0, n);
  step_back(b, k0, n, first);
}

static void run_backward(backward *b) {
  vtb__cpu_scan *s = b->g.s;
  vtb_cpu *c = s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, b->n_chunks), k_(c, 1));
  b->t0 = vtb_cpu_mul(c, LLVMBuildNSWSub(c->b, k_(c, b->n_chunks - 1), l.i, ""), b->chunk);
  b->n_steps =
      vtb_cpu_min(c, LLVMBuildNSWSub(c->b, k_(c, s->of.n_tokens), b->t0, ""), k_(c, b->chunk));
  vtb_cpu_for tile = each_tile(b);
  vtb__rates_blocks(&b->g, back_block, b);
  vtb_cpu_for_end(c, &tile);
  vtb_cpu_for_end(c, &l);
}

/* dA of the tile [B, h, tiles, K] in rows of scratch, whole. */
static LLVMValueRef rates_of(const backward *b, LLVMValueRef batch, LLVMValueRef tile) {
  vtb__cpu_scan *s = b->g.s;
  vtb_cpu *c = s->c;
  LLVMValueRef at = vtb_cpu_add(c, vtb_cpu_mul(c, batch, s->of.n_heads), s->head);
  return rows_of(b, b->all_rates, vtb_cpu_add(c, vtb_cpu_mul(c, at, b->g.n_tiles), tile));
}

static void finish(backward *b) {
  vtb__cpu_scan *s = b->g.s;
  vtb_cpu *c = s->c;
  vtb_cpu_for tile = each_tile(b);
  if (s->of.init) store_rows(b, rows_of(b, b->adjoint, b->own), s->of.at.ds0);
  LLVMValueRef from = rows_of(b, b->rates, b->own), to = rates_of(b, s->batch, b->g.tile);
  vtb_cpu_for k = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.K), k_(c, 1));
  vtb_cpu_store(c, vtb_cpu_load(c, vtb__rates_row(&b->g, from, k.i), VTB__LANES),
                vtb__rates_row(&b->g, to, k.i));
  vtb_cpu_for_end(c, &k);
  vtb_cpu_for_end(c, &tile);
  vtb_cpu_task_end(c, s->t);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* dq and dk of every token: the groups, added in order. */
static void add_groups(backward *b, const vtb_inst *inst) {
  vtb__cpu_scan *s = b->g.s;
  vtb_cpu *c = s->c;
  s->t = vtb_cpu_task_begin(c, inst, "groups", s->of.n_batch * s->of.n_tokens, 16);
  b->sums = vtb_cpu_temp_ptr(c, s->t, b->sums_at);
  LLVMValueRef pos = vtb_cpu_rem(c, s->t->index, s->of.n_tokens);
  s->batch = vtb_cpu_div(c, s->t->index, s->of.n_tokens);
  vtb_cpu_for h = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.n_heads), k_(c, 1));
  s->head = h.i;
  for (int which = 0; which < 2; which++) {
    LLVMValueRef out = vtb__scan_row(s, which ? s->of.at.dk : s->of.at.dq, pos);
    vtb_cpu_for k = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.K), k_(c, c->width));
    vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, b->n_groups), k_(c, 1));
    LLVMValueRef sum = vtb_cpu_carry(c, &l, LLVMConstNull(c->vf32));
    LLVMValueRef part = vtb_cpu_load(c, vtb_cpu_at(c, sum_row(b, which, l.i, pos), k.i), c->width);
    vtb_cpu_carry_next(&l, 0, LLVMBuildFAdd(c->b, sum, part, ""));
    vtb_cpu_for_end(c, &l);
    LLVMValueRef left = LLVMBuildNSWSub(c->b, k_(c, s->of.K), k.i, ""),
                 at = vtb_cpu_at(c, out, k.i);
    if (s->of.K % c->width)
      vtb_cpu_store_masked(c, vtb_cpu_carried(&l, 0), at, vtb_cpu_mask(c, left, c->width));
    else
      vtb_cpu_store(c, vtb_cpu_carried(&l, 0), at);
    vtb_cpu_for_end(c, &k);
  }
  vtb_cpu_for_end(c, &h);
  vtb_cpu_task_end(c, s->t);
}

/* dA: the batch entries, added in order. */
static void add_batch(backward *b, const vtb_inst *inst) {
  vtb__cpu_scan *s = b->g.s;
  vtb_cpu *c = s->c;
  s->t = vtb_cpu_task_begin(c, inst, "batch", s->of.n_heads * b->g.n_tiles, 1);
  b->all_rates = vtb_cpu_temp_ptr(c, s->t, b->rates_at);
  s->head = vtb_cpu_div(c, s->t->index, b->g.n_tiles);
  vtb__rates_at_tile(&b->g, vtb_cpu_rem(c, s->t->index, b->g.n_tiles));
  vtb_cpu_for k = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.K), k_(c, 1));
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.n_batch), k_(c, 1));
  LLVMValueRef sum = vtb_cpu_carry(c, &l, LLVMConstNull(vtb_cpu_vector(c, VTB__LANES)));
  LLVMValueRef part =
      vtb_cpu_load(c, vtb__rates_row(&b->g, rates_of(b, l.i, b->g.tile), k.i), VTB__LANES);
  vtb_cpu_carry_next(&l, 0, LLVMBuildFAdd(c->b, sum, part, ""));
  vtb_cpu_for_end(c, &l);
  LLVMValueRef index[] = {s->head, k.i};
  vtb__rates_store(&b->g, vtb_cpu_carried(&l, 0),
                   vtb_cpu_element(c, &s->t->t[s->of.at.drates], index, 2));
  vtb_cpu_for_end(c, &k);
  vtb_cpu_task_end(c, s->t);
}

void vtb__linscan_grad_rates(vtb__cpu_scan *s, const vtb_inst *inst) {
  backward b = {.g = {.s = s}};
  begin(&b, inst);
  run_forward(&b);
  run_backward(&b);
  finish(&b);
  add_groups(&b, inst);
  add_batch(&b, inst);
}

/* delta, classes constant and scalar, as products of matrices and a triangular solve: see delta.h.
 *
 * A task owns one batch entry, one head and a tile of V, and walks the chunks with the state S [K,
 * V] in scratch memory. In a chunk of L tokens, for each block of rows:
 *   A = B K^T                  masked token by token by P[t,s] = d_{t-1} P[t-1,s], P[t,t-1] = 1;
 *                              columns beyond the block are never computed
 *   W = V + (p o B) S          p_t: product of the decays of the chunk before t
 *   W += A W                   row by row in groups of registers (vtb__smallsolve)
 * and then
 *   S = p_end S + (s o K)^T W  s_j: product of the decays of the tokens after j
 *
 * Parallel mode is one chunk of all tokens. Decays are multiplied and never divided by: a decay of
 * 0 is exact. Class key: delta_vector.c; mode recurrent: delta_steps.c.
 */
#include "codegen/cpu/scan/delta.h"

#define BLOCK 24     /* rows a block, about: a multiple of both tile heights (6 and 8) */
#define KEY_BLOCK 48 /* rows transposed at a time, a multiple of the width */

typedef struct chunked {
  vtb__chunked of;
  const vtb__cpu_delta_rule *delta;
  int64_t block;                  /* tokens a block of rows */
  LLVMValueRef kt, w, b, a, mask; /* scratch: [K, ld_t], [L R, ld_v], rows of k or b, A, row of P */
  LLVMValueRef d, before, after;  /* by token; d[t] is the decay of the token before t */
  LLVMValueRef after_rows;        /* by row */
} chunked;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }
static LLVMValueRef sub(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildNSWSub(c->b, x, y, "");
}
static LLVMValueRef lanes_of(vtb_cpu *c, LLVMValueRef at, LLVMValueRef i) {
  return vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, at, i), 1), c->width);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Address of row r of the token at storage position pos. */
static LLVMValueRef delta_row(const vtb__cpu_delta_rule *d, int tensor, LLVMValueRef pos,
                              LLVMValueRef r) {
  const vtb__cpu_scan *s = &d->scan;
  return vtb_cpu_element(s->c, &s->t->t[tensor], (LLVMValueRef[]){s->batch, pos, s->head, r}, 4);
}

/* Rows of tokens t0 ... t0 + n of a tensor, in path order, to scratch memory with row length ld;
 * and the reverse. */
static void pack_rows(const vtb__cpu_delta_rule *d, const vtb__cols *cols, int tensor,
                      LLVMValueRef t0, LLVMValueRef n, LLVMValueRef out, int64_t ld) {
  const vtb__cpu_scan *s = &d->scan;
  vtb_cpu *c = s->c;
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef pos = vtb__order_at(c, &s->order, vtb_cpu_add(c, t0, t.i));
  LLVMValueRef rows = vtb_cpu_at(c, out, vtb_cpu_mul(c, t.i, d->step * ld));
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), k_(c, d->rows), k_(c, 1));
  vtb__row_pack(c, cols, delta_row(d, tensor, pos, r.i), NULL, NULL,
                vtb_cpu_at(c, rows, vtb_cpu_mul(c, r.i, ld)));
  vtb_cpu_for_end(c, &r);
  if (d->step > d->rows)
    vtb__fill(c, vtb_cpu_at(c, rows, k_(c, d->rows * ld)), k_(c, (d->step - d->rows) * ld), 0);
  vtb_cpu_for_end(c, &t);
}

static void unpack_rows(const vtb__cpu_delta_rule *d, const vtb__cols *cols, int tensor,
                        LLVMValueRef t0, LLVMValueRef n, LLVMValueRef rows, int64_t ld) {
  const vtb__cpu_scan *s = &d->scan;
  vtb_cpu *c = s->c;
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef pos = vtb__order_at(c, &s->order, vtb_cpu_add(c, t0, t.i));
  LLVMValueRef from = vtb_cpu_at(c, rows, vtb_cpu_mul(c, t.i, d->step * ld));
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), k_(c, d->rows), k_(c, 1));
  vtb__row_unpack(c, cols, vtb_cpu_at(c, from, vtb_cpu_mul(c, r.i, ld)), NULL,
                  delta_row(d, tensor, pos, r.i));
  vtb_cpu_for_end(c, &r);
  vtb_cpu_for_end(c, &t);
}

/* ---- a block of rows ------------------------------------------------------------------------- */

/* A[(t, r), :] *= P[t, :] for n tokens from i0 on; mask holds row i0-1 of P on entry (zeros before
 * the first token) and the last row after. */
static void mask_rows(const chunked *g, LLVMValueRef i0, LLVMValueRef n) {
  vtb_cpu *c = g->of.s->c;
  int64_t R = g->delta->rows;
  LLVMValueRef lane[16];
  for (int i = 0; i < c->width; i++) lane[i] = LLVMConstInt(c->i64, (unsigned)i, 0);
  LLVMValueRef lanes = LLVMConstVector(lane, (unsigned)c->width);
  LLVMValueRef end = vtb_cpu_mul(c, vtb_cpu_add(c, i0, n), R);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef t = vtb_cpu_add(c, i0, l.i), d = lanes_of(c, g->d, t);
  LLVMValueRef own = vtb_cpu_mul(c, t, R), before = vtb_cpu_add(c, own, k_(c, -R));
  LLVMValueRef rows = vtb_cpu_at(c, g->a, vtb_cpu_mul(c, l.i, R * g->of.ld_t));
  vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), end, k_(c, c->width));
  LLVMValueRef at = vtb_cpu_at(c, g->mask, j.i);
  LLVMValueRef p = LLVMBuildFMul(c->b, vtb_cpu_load(c, at, c->width), d, "");
  LLVMValueRef low = vtb_cpu_splat(c, sub(c, before, j.i), c->width),
               high = vtb_cpu_splat(c, sub(c, own, j.i), c->width);
  LLVMValueRef previous = LLVMBuildAnd(c->b, LLVMBuildICmp(c->b, LLVMIntSGE, lanes, low, ""),
                                       LLVMBuildICmp(c->b, LLVMIntSLT, lanes, high, ""), "");
  p = LLVMBuildSelect(c->b, previous, vtb_cpu_like(c, p, 1), p, "");
  vtb_cpu_store(c, p, at);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), k_(c, R), k_(c, 1));
  LLVMValueRef a_at = vtb_cpu_at(c, rows, vtb_cpu_add(c, vtb_cpu_mul(c, r.i, g->of.ld_t), j.i));
  vtb_cpu_store(c, LLVMBuildFMul(c->b, vtb_cpu_load(c, a_at, c->width), p, ""), a_at);
  vtb_cpu_for_end(c, &r);
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &l);
}

/* n tokens from i0 on in the chunk at t0. entering: i1, or NULL if the state before the chunk is
 * zero. */
static void block(const chunked *g, LLVMValueRef t0, LLVMValueRef i0, LLVMValueRef n,
                  LLVMValueRef entering) {
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  int64_t R = g->delta->rows;
  LLVMValueRef from = vtb_cpu_add(c, t0, i0), row = vtb_cpu_mul(c, i0, R),
               rows = vtb_cpu_mul(c, n, R), end = vtb_cpu_add(c, row, rows);
  LLVMValueRef ld_t = k_(c, g->of.ld_t), ld_k = k_(c, g->of.ld_k), ld_v = k_(c, g->of.ld_v);
  LLVMValueRef columns = vtb_cpu_div(c, vtb_cpu_add(c, end, k_(c, c->width - 1)), c->width);
  LLVMValueRef w = vtb_cpu_at(c, g->w, vtb_cpu_mul(c, row, g->of.ld_v));
  pack_rows(g->delta, &g->of.k_cols, g->delta->b, from, n, g->b, g->of.ld_k);
  vtb__smallgemm(c, g->b, ld_k, k_(c, 1), g->kt, ld_t, vtb_cpu_f32(c, 0), g->a, ld_t, rows, columns,
                 k_(c, s->of.K));
  mask_rows(g, i0, n);
  if (entering) {
    vtb_cpu_if test = vtb_cpu_if_begin(c, entering);
    int64_t rows_of_token = R * g->of.ld_k;
    vtb__keys_times(c, g->b, rows_of_token, vtb_cpu_at(c, g->before, i0), n,
                    k_(c, rows_of_token / c->width));
    vtb__smallgemm(c, g->b, ld_k, k_(c, 1), g->of.state, ld_v, vtb_cpu_f32(c, 1), w, ld_v, rows,
                   g->of.n_vectors, k_(c, s->of.K));
    vtb_cpu_if_end(c, &test);
  }
  vtb__smallsolve(c, g->a, ld_t, g->w, ld_v, row, rows, g->of.n_vectors);
  unpack_rows(g->delta, &g->of.v_cols, g->delta->w, from, n, w, g->of.ld_v);
}

/* ---- a chunk --------------------------------------------------------------------------------- */

static int64_t key_block(const chunked *g) {
  return (KEY_BLOCK + g->delta->rows - 1) / g->delta->rows;
}

/* K^T of the chunk; the rows pass through scratch memory in path order. */
static void pack_keys(const chunked *g, LLVMValueRef t0, LLVMValueRef n) {
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  int64_t R = g->delta->rows, step = key_block(g);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, step));
  LLVMValueRef tokens = vtb_cpu_min(c, sub(c, n, l.i), k_(c, step));
  pack_rows(g->delta, &g->of.k_cols, s->of.at.k, vtb_cpu_add(c, t0, l.i), tokens, g->b, g->of.ld_k);
  vtb__transpose_tile(c, g->b, k_(c, g->of.ld_k), vtb_cpu_mul(c, tokens, R), k_(c, s->of.K),
                      vtb_cpu_at(c, g->kt, vtb_cpu_mul(c, l.i, R)), k_(c, g->of.ld_t));
  vtb_cpu_for_end(c, &l);
}

/* Products of decays by token; returns that of the whole chunk. */
static LLVMValueRef load_decays(const chunked *g, LLVMValueRef t0, LLVMValueRef n) {
  vtb_cpu *c = g->of.s->c;
  LLVMValueRef one = k_(c, 1), unit = vtb_cpu_f32(c, 1);
  vtb_cpu_store(c, unit, g->d);
  vtb_cpu_store(c, unit, g->before);
  LLVMValueRef all = vtb__scan_decays(g->of.s, t0, n, 0, vtb_cpu_at(c, g->d, one),
                                      vtb_cpu_at(c, g->before, one), g->after);
  if (g->delta->rows == 1) return all;
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), n, one);
  LLVMValueRef after = vtb_cpu_load(c, vtb_cpu_at(c, g->after, t.i), 1);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->delta->rows), one);
  LLVMValueRef at = vtb_cpu_add(c, vtb_cpu_mul(c, t.i, g->delta->rows), r.i);
  vtb_cpu_store(c, after, vtb_cpu_at(c, g->after_rows, at));
  vtb_cpu_for_end(c, &r);
  vtb_cpu_for_end(c, &t);
  return all;
}

/* S = keep S + (after o K)^T W; K^T is not needed again. */
static void advance_state(const chunked *g, LLVMValueRef n, LLVMValueRef keep) {
  vtb_cpu *c = g->of.s->c;
  LLVMValueRef rows = vtb_cpu_mul(c, n, g->delta->rows), K = k_(c, g->of.s->of.K);
  LLVMValueRef n_vectors = vtb_cpu_div(c, vtb_cpu_add(c, rows, k_(c, c->width - 1)), c->width);
  vtb__rows_times(c, g->kt, g->kt, g->after_rows, g->of.ld_t, 0, K, n_vectors);
  vtb__smallgemm(c, g->kt, k_(c, g->of.ld_t), k_(c, 1), g->w, k_(c, g->of.ld_v), keep, g->of.state,
                 k_(c, g->of.ld_v), K, g->of.n_vectors, rows);
}

static void chunk(const vtb__chunked *of, LLVMValueRef t0, LLVMValueRef n, bool only) {
  const chunked *g = (const chunked *)of;
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  LLVMValueRef yes = LLVMConstInt(c->i1, 1, 0),
               first = LLVMBuildICmp(c->b, LLVMIntEQ, t0, k_(c, 0), "");
  LLVMValueRef entering = s->of.init ? yes : only ? NULL : LLVMBuildNot(c->b, first, "");
  LLVMValueRef decay = load_decays(g, t0, n);
  pack_keys(g, t0, n);
  pack_rows(g->delta, &g->of.v_cols, s->of.at.v, t0, n, g->w, g->of.ld_v);
  vtb__fill(c, g->mask, vtb_cpu_mul(c, n, g->delta->rows), 0);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, g->block));
  block(g, t0, l.i, vtb_cpu_min(c, sub(c, n, l.i), k_(c, g->block)), entering);
  vtb_cpu_for_end(c, &l);
  if (only) return;
  LLVMValueRef more =
      LLVMBuildICmp(c->b, LLVMIntSLT, vtb_cpu_add(c, t0, n), k_(c, s->of.n_tokens), "");
  vtb_cpu_if test = vtb_cpu_if_begin(c, more);
  advance_state(g, n,
                s->of.init ? decay : LLVMBuildSelect(c->b, first, vtb_cpu_f32(c, 0), decay, ""));
  vtb_cpu_if_end(c, &test);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static LLVMValueRef floats(const chunked *g, int64_t n) {
  return vtb_cpu_scratch(g->of.s->c, g->of.s->t, n * (int64_t)sizeof(float));
}

static int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

static void reserve(vtb__chunked *of) {
  chunked *g = (chunked *)of;
  vtb__cpu_scan *s = g->of.s;
  int64_t R = g->delta->rows, L = s->of.chunk, by_token = vtb__padded(s->c, L + 1);
  g->block = R < BLOCK ? BLOCK / R : 1;
  /* a transposed block is whole vectors long, from wherever it begins */
  int64_t beyond = key_block(g) * R % s->c->width ? s->c->width : 0;
  g->of.ld_t = vtb__row_length(s->c, L * R + beyond);
  int64_t block = smaller(g->block, L), keys = smaller(key_block(g), L);
  g->kt = floats(g, s->of.K * g->of.ld_t);
  g->w = floats(g, L * R * g->of.ld_v);
  g->b = floats(g, (block > keys ? block : keys) * R * g->of.ld_k);
  g->a = floats(g, block * R * g->of.ld_t);
  g->mask = floats(g, g->of.ld_t);
  g->d = floats(g, by_token);
  g->before = floats(g, by_token);
  g->after = floats(g, by_token);
  g->after_rows = R == 1 ? g->after : floats(g, g->of.ld_t);
}

static void by_products(vtb__cpu_delta_rule *d, const vtb_inst *inst) {
  chunked g = {.delta = d};
  vtb__scan_by_chunks(&g.of, &d->scan, inst, reserve, chunk);
}

static vtb__cpu_delta_rule make(vtb_cpu *c, const vtb_inst *inst) {
  vtb_delta of = vtb_delta_of(inst);
  vtb_scan scan = {.decay = of.decay,
                   .init = of.init,
                   .recurrent = of.recurrent,
                   .path = of.path,
                   .n_batch = of.n_batch,
                   .n_tokens = of.n_tokens,
                   .n_heads = of.n_heads,
                   .K = of.K,
                   .V = of.V,
                   .chunk = of.chunk};
  scan.at.k = of.at.k, scan.at.v = of.at.v, scan.at.d = of.at.d, scan.at.s0 = of.at.s0;
  vtb__cpu_delta_rule d = {.rows = of.rank, .step = of.rank, .b = of.at.b, .w = of.at.w};
  d.scan = (vtb__cpu_scan){.c = c, .of = scan, .order = vtb__order_make(c, of.path, of.n_tokens)};
  return d;
}

void vtb__cpu_delta(vtb_cpu *c, const vtb_inst *inst) {
  vtb__cpu_delta_rule d = make(c, inst);
  vtb_decay_form form = vtb_scan_form(&d.scan.of);
  if (form == VTB_FORM_PRODUCTS)
    by_products(&d, inst);
  else if (form == VTB_FORM_VECTOR && d.rows <= c->width)
    vtb__delta_vector(&d, inst);
  else
    vtb__delta_steps(&d, inst);
}

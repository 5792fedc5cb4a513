/* delta, class key, as products of matrices and a triangular solve: see delta.h.
 *
 * As in linscan_vector.c the chunk is walked in sub-blocks of VTB__SUB rows, and what came before
 * one is kept relative to its first token, decayed by a whole sub-block as it is left behind: the
 * chunk's keys K^T and the state S. With pre_t the product of the decays of the sub-block's tokens
 * before t,
 *   A = (pre o B) K^T, beside it the sub-block's own scores (vtb__direct_scores)
 *   W = V + (pre o B) S,  W += A W
 * and at a chunk's end S += K^T W. Rows of one token lie in one group: R is rounded up to a power
 * of two, so that sub-blocks hold whole tokens, and the rows added are zero. The last row of a
 * token carries its decay, the others 1.
 */
#include "codegen/cpu/scan/delta.h"

typedef struct chunked {
  vtb__chunked of;
  const vtb__cpu_delta_rule *delta;
  LLVMValueRef kt, w;               /* of the chunk: [K, ld_t], [rows, ld_v] */
  LLVMValueRef b, d, pre, a, whole; /* of the sub-block; whole: [ld_k] */
} chunked;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

/* The rows d of n tokens from t0 on: the decay in a token's last row, 1 in the others and up to a
 * whole sub-block. */
static void load_decays(const chunked *g, LLVMValueRef t0, LLVMValueRef n) {
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  int64_t step = g->delta->step;
  vtb__fill(c, g->d, k_(c, VTB__SUB * g->of.ld_k), 1);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef pos = vtb__order_at(c, &s->order, vtb_cpu_add(c, t0, l.i));
  LLVMValueRef row = vtb_cpu_add(c, vtb_cpu_mul(c, l.i, step), k_(c, step - 1));
  vtb__row_pack(c, &g->of.k_cols, vtb__scan_row(s, s->of.at.d, pos), NULL, NULL,
                vtb_cpu_at(c, g->d, vtb_cpu_mul(c, row, g->of.ld_k)));
  vtb_cpu_for_end(c, &l);
}

/* n tokens from i0 on in the chunk at t0; entering: i1, or NULL if the state before the chunk is
 * zero. */
static void sub_block(const chunked *g, LLVMValueRef t0, LLVMValueRef i0, LLVMValueRef n,
                      LLVMValueRef entering) {
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  int64_t step = g->delta->step;
  LLVMValueRef from = vtb_cpu_add(c, t0, i0), row = vtb_cpu_mul(c, i0, step),
               rows = vtb_cpu_mul(c, n, step), K = k_(c, s->of.K), one = k_(c, 1);
  LLVMValueRef ld_t = k_(c, g->of.ld_t), ld_k = k_(c, g->of.ld_k), ld_v = k_(c, g->of.ld_v);
  LLVMValueRef w = vtb_cpu_at(c, g->w, vtb_cpu_mul(c, row, g->of.ld_v)),
               own_keys = vtb_cpu_at(c, g->kt, row);
  vtb__delta_pack(g->delta, &g->of.k_cols, s->of.at.k, from, n, g->b, g->of.ld_k);
  vtb__transpose_tile(c, g->b, ld_k, rows, K, own_keys, ld_t);
  vtb__delta_pack(g->delta, &g->of.k_cols, g->delta->b, from, n, g->b, g->of.ld_k);
  vtb__delta_pack(g->delta, &g->of.v_cols, s->of.at.v, from, n, w, g->of.ld_v);
  load_decays(g, from, n);
  vtb__decays d = {.d = g->d,
                   .pre = g->pre,
                   .whole = g->whole,
                   .ld = g->of.ld_k,
                   .n = rows,
                   .n_vectors = k_(c, vtb__padded(c, s->of.K) / c->width),
                   .before = step};
  vtb__direct_factors(c, &d, 0);
  vtb__direct_scores(c, &d, s->of.K, g->b, own_keys, g->of.ld_t, vtb_cpu_at(c, g->a, row),
                     g->of.ld_t);
  vtb__rows_times(c, g->b, g->b, g->pre, g->of.ld_k, g->of.ld_k, rows, d.n_vectors);
  vtb__smallgemm(c, g->b, ld_k, one, g->kt, ld_t, vtb_cpu_f32(c, 0), g->a, ld_t, rows,
                 vtb_cpu_div(c, row, c->width), K);
  if (entering) {
    vtb_cpu_if test = vtb_cpu_if_begin(c, entering);
    vtb__smallgemm(c, g->b, ld_k, one, g->of.state, ld_v, vtb_cpu_f32(c, 1), w, ld_v, rows,
                   g->of.n_vectors, K);
    vtb__keys_times(c, g->of.state, g->of.ld_v, g->whole, K, g->of.n_vectors);
    vtb_cpu_if_end(c, &test);
  }
  vtb__smallsolve(c, g->a, ld_t, g->w, ld_v, row, rows, g->of.n_vectors);
  vtb__delta_unpack(g->delta, &g->of.v_cols, g->delta->w, from, n, w, g->of.ld_v);
  vtb__keys_times(c, g->kt, g->of.ld_t, g->whole, K, vtb_cpu_div(c, row, c->width));
}

static void chunk(const vtb__chunked *of, LLVMValueRef t0, LLVMValueRef n, bool only) {
  const chunked *g = (const chunked *)of;
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  int64_t tokens = VTB__SUB / g->delta->step;
  LLVMValueRef yes = LLVMConstInt(c->i1, 1, 0),
               first = LLVMBuildICmp(c->b, LLVMIntEQ, t0, k_(c, 0), "");
  LLVMValueRef entering = s->of.init ? yes : only ? NULL : LLVMBuildNot(c->b, first, "");
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, tokens));
  sub_block(g, t0, l.i, vtb_cpu_min(c, LLVMBuildNSWSub(c->b, n, l.i, ""), k_(c, tokens)), entering);
  vtb_cpu_for_end(c, &l);
  if (only) return;
  LLVMValueRef more =
      LLVMBuildICmp(c->b, LLVMIntSLT, vtb_cpu_add(c, t0, n), k_(c, s->of.n_tokens), "");
  vtb_cpu_if test = vtb_cpu_if_begin(c, more);
  LLVMValueRef one = vtb_cpu_f32(c, 1),
               keep = s->of.init ? one : LLVMBuildSelect(c->b, first, vtb_cpu_f32(c, 0), one, "");
  vtb__smallgemm(c, g->kt, k_(c, g->of.ld_t), k_(c, 1), g->w, k_(c, g->of.ld_v), keep, g->of.state,
                 k_(c, g->of.ld_v), k_(c, s->of.K), g->of.n_vectors,
                 vtb_cpu_mul(c, n, g->delta->step));
  vtb_cpu_if_end(c, &test);
}

static LLVMValueRef floats(const chunked *g, int64_t n) {
  return vtb_cpu_scratch(g->of.s->c, g->of.s->t, n * (int64_t)sizeof(float));
}

static void reserve(vtb__chunked *of) {
  chunked *g = (chunked *)of;
  vtb__cpu_scan *s = g->of.s;
  int64_t rows = (s->of.chunk * g->delta->step + VTB__SUB - 1) / VTB__SUB * VTB__SUB;
  g->of.ld_t = vtb__row_length(s->c, rows);
  g->kt = floats(g, s->of.K * g->of.ld_t);
  g->w = floats(g, rows * g->of.ld_v);
  g->b = floats(g, VTB__SUB * g->of.ld_k);
  g->d = floats(g, VTB__SUB * g->of.ld_k);
  g->pre = floats(g, VTB__SUB * g->of.ld_k);
  g->a = floats(g, VTB__SUB * g->of.ld_t);
  g->whole = floats(g, g->of.ld_k);
}

void vtb__delta_vector(vtb__cpu_delta_rule *d, const vtb_inst *inst) {
  chunked g = {.delta = d};
  d->step = 1;
  while (d->step < d->rows) d->step *= 2;
  vtb__scan_by_chunks(&g.of, &d->scan, inst, reserve, chunk);
}

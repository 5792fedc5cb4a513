/* linscan, classes key and value, as products of matrices: S_t = d_t o S_{t-1} + k_t v_t^T, y_t =
 * S_t^T q_t with d_t a vector along K or along V.
 *
 * A task owns one batch entry, one head and a tile of V, and walks sub-blocks of VTB__SUB tokens in
 * chunks of L. What came before a sub-block is kept relative to its first token: the state S before
 * the chunk, and the rows of the chunk so far (K^T for class key, V for class value), all decayed
 * by a whole sub-block as it is left behind. So
 *   class key     P = (pre o Q) Kd^T, beside it the sub-block's own scores
 *                 Y = P V + (pre o Q) S
 *   class value   N = Q K^T
 *                 Y = pre o (N Vd + Q S) + the sub-block's own sums
 * and at a chunk's end S += Kd^T V or K^T Vd. Parallel mode is one chunk of all tokens. Sub-blocks:
 * linscan_direct.h.
 */
#include "codegen/cpu/scan/linscan_direct.h"

typedef struct chunked {
  vtb__chunked of;
  bool by_key;
  LLVMValueRef kt, v;               /* of the chunk: [K, ld_t], [L, ld_v] */
  LLVMValueRef q, qd, d, pre, p, y; /* of the sub-block */
  LLVMValueRef whole;               /* [ld] */
} chunked;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

static vtb__decays decays_of(const chunked *g, LLVMValueRef n) {
  vtb_cpu *c = g->of.s->c;
  LLVMValueRef k_vectors = k_(c, vtb__padded(c, g->of.s->of.K) / c->width);
  return (vtb__decays){.d = g->d,
                       .pre = g->pre,
                       .whole = g->whole,
                       .ld = g->by_key ? g->of.ld_k : g->of.ld_v,
                       .n = n,
                       .n_vectors = g->by_key ? k_vectors : g->of.n_vectors};
}

/* The chunk's rows before i0, and the state before the chunk, seen from the next sub-block. */
static void leave_behind(const chunked *g, LLVMValueRef i0, LLVMValueRef entering) {
  vtb_cpu *c = g->of.s->c;
  LLVMValueRef K = k_(c, g->of.s->of.K);
  if (g->by_key)
    vtb__keys_times(c, g->kt, g->of.ld_t, g->whole, K, vtb_cpu_div(c, i0, c->width));
  else
    vtb__rows_times(c, g->v, g->v, g->whole, g->of.ld_v, 0, i0, g->of.n_vectors);
  if (!entering) return;
  vtb_cpu_if test = vtb_cpu_if_begin(c, entering);
  if (g->by_key)
    vtb__keys_times(c, g->of.state, g->of.ld_v, g->whole, K, g->of.n_vectors);
  else
    vtb__rows_times(c, g->of.state, g->of.state, g->whole, g->of.ld_v, 0, K, g->of.n_vectors);
  vtb_cpu_if_end(c, &test);
}

/* y += q S. */
static void read_state(const chunked *g, LLVMValueRef q, LLVMValueRef n, LLVMValueRef entering) {
  vtb_cpu *c = g->of.s->c;
  if (!entering) return;
  vtb_cpu_if test = vtb_cpu_if_begin(c, entering);
  vtb__smallgemm(c, q, k_(c, g->of.ld_k), k_(c, 1), g->of.state, k_(c, g->of.ld_v),
                 vtb_cpu_f32(c, 1), g->y, k_(c, g->of.ld_v), n, g->of.n_vectors,
                 k_(c, g->of.s->of.K));
  vtb_cpu_if_end(c, &test);
}

static void read_by_key(const chunked *g, const vtb__decays *d, LLVMValueRef i0,
                        LLVMValueRef entering) {
  vtb_cpu *c = g->of.s->c;
  LLVMValueRef zero = vtb_cpu_f32(c, 0), one = k_(c, 1), before = vtb_cpu_div(c, i0, c->width);
  vtb__rows_times(c, g->qd, g->q, g->pre, g->of.ld_k, g->of.ld_k, d->n, d->n_vectors);
  vtb__smallgemm(c, g->qd, k_(c, g->of.ld_k), one, g->kt, k_(c, g->of.ld_t), zero, g->p,
                 k_(c, g->of.ld_t), d->n, before, k_(c, g->of.s->of.K));
  vtb__direct_scores(c, d, g->of.s->of.K, g->q, vtb_cpu_at(c, g->kt, i0), g->of.ld_t,
                     vtb_cpu_at(c, g->p, i0), g->of.ld_t);
  vtb__smallgemm(c, g->p, k_(c, g->of.ld_t), one, g->v, k_(c, g->of.ld_v), zero, g->y,
                 k_(c, g->of.ld_v), d->n, g->of.n_vectors, vtb_cpu_add(c, i0, d->n));
  read_state(g, g->qd, d->n, entering);
}

static void read_by_value(const chunked *g, const vtb__decays *d, LLVMValueRef i0,
                          LLVMValueRef entering) {
  vtb_cpu *c = g->of.s->c;
  LLVMValueRef zero = vtb_cpu_f32(c, 0), one = k_(c, 1);
  LLVMValueRef columns =
      vtb_cpu_div(c, vtb_cpu_add(c, vtb_cpu_add(c, i0, d->n), k_(c, c->width - 1)), c->width);
  vtb__smallgemm(c, g->q, k_(c, g->of.ld_k), one, g->kt, k_(c, g->of.ld_t), zero, g->p,
                 k_(c, g->of.ld_t), d->n, columns, k_(c, g->of.s->of.K));
  vtb__smallgemm(c, g->p, k_(c, g->of.ld_t), one, g->v, k_(c, g->of.ld_v), zero, g->y,
                 k_(c, g->of.ld_v), d->n, g->of.n_vectors, i0);
  read_state(g, g->q, d->n, entering);
  vtb__rows_times(c, g->y, g->y, g->pre, g->of.ld_v, g->of.ld_v, d->n, d->n_vectors);
  vtb__direct_sums(c, d, vtb_cpu_at(c, g->p, i0), g->of.ld_t,
                   vtb_cpu_at(c, g->v, vtb_cpu_mul(c, i0, g->of.ld_v)), g->y);
}

/* n tokens from t0 + i0 on; entering: i1, or NULL if the state before the chunk is zero. */
static void sub_block(const chunked *g, LLVMValueRef t0, LLVMValueRef i0, LLVMValueRef n,
                      LLVMValueRef entering) {
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  LLVMValueRef from = vtb_cpu_add(c, t0, i0),
               v = vtb_cpu_at(c, g->v, vtb_cpu_mul(c, i0, g->of.ld_v));
  vtb__scan_pack(s, &g->of.k_cols, (vtb__pack){.tensor = s->of.at.k}, from, n, g->q, g->of.ld_k);
  vtb__transpose_tile(c, g->q, k_(c, g->of.ld_k), n, k_(c, s->of.K), vtb_cpu_at(c, g->kt, i0),
                      k_(c, g->of.ld_t));
  vtb__scan_pack(s, &g->of.k_cols, (vtb__pack){.tensor = s->of.at.q}, from, n, g->q, g->of.ld_k);
  vtb__scan_pack(s, &g->of.v_cols, (vtb__pack){.tensor = s->of.at.v, .ones = true}, from, n, v,
                 g->of.ld_v);
  vtb__decays d = decays_of(g, n);
  vtb__scan_pack(s, g->by_key ? &g->of.k_cols : &g->of.v_cols, (vtb__pack){.tensor = s->of.at.d},
                 from, n, g->d, d.ld);
  vtb__direct_factors(c, &d, 0);
  if (g->by_key)
    read_by_key(g, &d, i0, entering);
  else
    read_by_value(g, &d, i0, entering);
  vtb__scan_unpack(s, &g->of.v_cols, s->of.at.y, s->of.at.z, from, n, g->y, g->of.ld_v);
  leave_behind(g, i0, entering);
}

static void chunk(const vtb__chunked *of, LLVMValueRef t0, LLVMValueRef n, bool only) {
  const chunked *g = (const chunked *)of;
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  LLVMValueRef yes = LLVMConstInt(c->i1, 1, 0),
               first = LLVMBuildICmp(c->b, LLVMIntEQ, t0, k_(c, 0), "");
  LLVMValueRef entering = s->of.init ? yes : only ? NULL : LLVMBuildNot(c->b, first, "");
  if (s->of.chunk <= VTB__SUB) {
    sub_block(g, t0, k_(c, 0), n, entering);
  } else {
    vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, VTB__SUB));
    sub_block(g, t0, l.i, vtb_cpu_min(c, LLVMBuildNSWSub(c->b, n, l.i, ""), k_(c, VTB__SUB)),
              entering);
    vtb_cpu_for_end(c, &l);
  }
  if (only && !s->of.last) return;
  LLVMValueRef more =
      LLVMBuildICmp(c->b, LLVMIntSLT, vtb_cpu_add(c, t0, n), k_(c, s->of.n_tokens), "");
  vtb_cpu_if test = vtb_cpu_if_begin(c, s->of.last ? yes : more);
  LLVMValueRef one = vtb_cpu_f32(c, 1),
               keep = s->of.init ? one : LLVMBuildSelect(c->b, first, vtb_cpu_f32(c, 0), one, "");
  vtb__smallgemm(c, g->kt, k_(c, g->of.ld_t), k_(c, 1), g->v, k_(c, g->of.ld_v), keep, g->of.state,
                 k_(c, g->of.ld_v), k_(c, s->of.K), g->of.n_vectors, n);
  vtb_cpu_if_end(c, &test);
}

static LLVMValueRef floats(const chunked *g, int64_t n) {
  return vtb_cpu_scratch(g->of.s->c, g->of.s->t, n * (int64_t)sizeof(float));
}

static void reserve(vtb__chunked *of) {
  chunked *g = (chunked *)of;
  vtb__cpu_scan *s = g->of.s;
  int64_t L = (s->of.chunk + VTB__SUB - 1) / VTB__SUB * VTB__SUB,
          ld_d = g->by_key ? g->of.ld_k : g->of.ld_v;
  g->kt = floats(g, s->of.K * g->of.ld_t);
  g->v = floats(
      g,
      L * g->of
              .ld_v); /* whole groups: the rows after the last token are read and multiplied by 1 */
  g->q = floats(g, VTB__SUB * g->of.ld_k);
  g->qd = floats(g, VTB__SUB * g->of.ld_k);
  g->d = floats(g, VTB__SUB * ld_d);
  g->pre = floats(g, VTB__SUB * ld_d);
  g->p = floats(g, VTB__SUB * g->of.ld_t);
  g->y = floats(g, VTB__SUB * g->of.ld_v);
  g->whole = floats(g, ld_d);
}

void vtb__linscan_vector(vtb__cpu_scan *s, const vtb_inst *inst) {
  chunked g = {.by_key = s->of.decay->axes == VTB_ALONG_KEY};
  vtb__scan_by_chunks(&g.of, s, inst, reserve, chunk);
}

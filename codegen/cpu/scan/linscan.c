/* linscan, classes constant and scalar, as products of matrices: S_t = d_t S_{t-1} + k_t v_t^T,
 * y_t = S_t^T q_t.
 *
 * A task owns one batch entry, one head and a tile of V, and walks the chunks with the state S [K,
 * V] in scratch memory. In a chunk of L tokens, for each block of rows (queries):
 *   P = Q K^T                   masked row by row by M[t,j] = d_t M[t-1,j], M[t,t] = 1; columns
 *                               beyond the block are never computed
 *   y = P V + (b o Q) S         b_t: product of the decays of the chunk up to t
 * and then
 *   S = b_L S + (s o K)^T V     s_j: product of the decays after j
 *
 * Parallel mode is one chunk of all tokens. Mode recurrent and class full: linscan_steps.c; classes
 * key and value: linscan_vector.c. Q, K, V are packed in path order, so that the products see plain
 * rows.
 */
#include "codegen/cpu/scan/linscan.h"

/* rows a block: a multiple of both tile heights (6 and 8); more would waste more of the triangle */
#define BLOCK 24
#define KEY_BLOCK 48 /* rows transposed at a time: a multiple of the width */
#define MIN_TASKS 4

typedef struct chunked {
  vtb__chunked of;
  LLVMValueRef kt, v, ks, q, p, y, w, d, b, suffix; /* scratch */
} chunked;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }

/* P[r, :] *= M[t, :] for the rows t = i0 ... i0+n of the chunk; w holds row i0-1 of M on entry and
 * row i0+n-1 after. */
static void mask_rows(const chunked *g, LLVMValueRef i0, LLVMValueRef n) {
  vtb_cpu *c = g->of.s->c;
  LLVMValueRef lane[16];
  for (int i = 0; i < c->width; i++) lane[i] = LLVMConstInt(c->i64, (unsigned)i, 0);
  LLVMValueRef lanes = LLVMConstVector(lane, (unsigned)c->width), end = vtb_cpu_add(c, i0, n);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef t = vtb_cpu_add(c, i0, r.i),
               row = vtb_cpu_at(c, g->p, vtb_cpu_mul(c, r.i, g->of.ld_t));
  LLVMValueRef dt = vtb_cpu_splat(c, vtb_cpu_load(c, vtb_cpu_at(c, g->d, t), 1), c->width);
  vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), end, k_(c, c->width));
  LLVMValueRef w_at = vtb_cpu_at(c, g->w, j.i), p_at = vtb_cpu_at(c, row, j.i);
  LLVMValueRef w = LLVMBuildFMul(c->b, vtb_cpu_load(c, w_at, c->width), dt, "");
  LLVMValueRef diagonal = vtb_cpu_splat(c, LLVMBuildNSWSub(c->b, t, j.i, ""), c->width);
  w = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntEQ, lanes, diagonal, ""),
                      vtb_cpu_like(c, w, 1), w, "");
  vtb_cpu_store(c, w, w_at);
  vtb_cpu_store(c, LLVMBuildFMul(c->b, vtb_cpu_load(c, p_at, c->width), w, ""), p_at);
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &r);
}

/* One block of rows, i0 relative to the chunk at t0. entering: i1 or NULL if the state before the
 * chunk is zero. */
static void block(const chunked *g, LLVMValueRef t0, LLVMValueRef i0, LLVMValueRef n,
                  LLVMValueRef entering) {
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  LLVMValueRef end = vtb_cpu_add(c, i0, n), zero = vtb_cpu_f32(c, 0), one = k_(c, 1);
  LLVMValueRef columns = vtb_cpu_div(c, vtb_cpu_add(c, end, k_(c, c->width - 1)), c->width);
  vtb__scan_pack(s, &g->of.k_cols, (vtb__pack){.tensor = s->of.at.q}, vtb_cpu_add(c, t0, i0), n,
                 g->q, g->of.ld_k);
  vtb__smallgemm(c, g->q, k_(c, g->of.ld_k), one, g->kt, k_(c, g->of.ld_t), zero, g->p,
                 k_(c, g->of.ld_t), n, columns, k_(c, s->of.K));
  mask_rows(g, i0, n);
  vtb__smallgemm(c, g->p, k_(c, g->of.ld_t), one, g->v, k_(c, g->of.ld_v), zero, g->y,
                 k_(c, g->of.ld_v), n, g->of.n_vectors, end);
  if (entering) {
    vtb_cpu_if test = vtb_cpu_if_begin(c, entering);
    vtb__keys_times(c, g->q, g->of.ld_k, vtb_cpu_at(c, g->b, i0), n,
                    k_(c, vtb__padded(c, s->of.K) / c->width));
    vtb__smallgemm(c, g->q, k_(c, g->of.ld_k), one, g->of.state, k_(c, g->of.ld_v),
                   vtb_cpu_f32(c, 1), g->y, k_(c, g->of.ld_v), n, g->of.n_vectors, k_(c, s->of.K));
    vtb_cpu_if_end(c, &test);
  }
  vtb__scan_unpack(s, &g->of.v_cols, s->of.at.y, s->of.at.z, vtb_cpu_add(c, t0, i0), n, g->y,
                   g->of.ld_v);
}

/* K^T of the chunk; the rows pass through a block's worth of scratch in path order. */
static void pack_keys(const chunked *g, LLVMValueRef t0, LLVMValueRef n) {
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, KEY_BLOCK));
  LLVMValueRef rows = vtb_cpu_min(c, LLVMBuildNSWSub(c->b, n, l.i, ""), k_(c, KEY_BLOCK));
  vtb__scan_pack(s, &g->of.k_cols, (vtb__pack){.tensor = s->of.at.k}, vtb_cpu_add(c, t0, l.i), rows,
                 g->q, g->of.ld_k);
  vtb__transpose_tile(c, g->q, k_(c, g->of.ld_k), rows, k_(c, s->of.K), vtb_cpu_at(c, g->kt, l.i),
                      k_(c, g->of.ld_t));
  vtb_cpu_for_end(c, &l);
}

static void chunk(const vtb__chunked *of, LLVMValueRef t0, LLVMValueRef n, bool only) {
  const chunked *g = (const chunked *)of;
  vtb__cpu_scan *s = g->of.s;
  vtb_cpu *c = s->c;
  LLVMValueRef yes = LLVMConstInt(c->i1, 1, 0),
               first = LLVMBuildICmp(c->b, LLVMIntEQ, t0, k_(c, 0), "");
  LLVMValueRef entering = s->of.init ? yes : only ? NULL : LLVMBuildNot(c->b, first, "");
  LLVMValueRef decay = vtb__scan_decays(s, t0, n, 0, g->d, g->b, g->suffix);
  pack_keys(g, t0, n);
  vtb__scan_pack(s, &g->of.v_cols, (vtb__pack){.tensor = s->of.at.v, .ones = true}, t0, n, g->v,
                 g->of.ld_v);
  vtb__fill(c, g->w, n, 0);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, BLOCK));
  block(g, t0, l.i, vtb_cpu_min(c, LLVMBuildNSWSub(c->b, n, l.i, ""), k_(c, BLOCK)), entering);
  vtb_cpu_for_end(c, &l);
  if (only && !s->of.last) return;
  LLVMValueRef more =
      LLVMBuildICmp(c->b, LLVMIntSLT, vtb_cpu_add(c, t0, n), k_(c, s->of.n_tokens), "");
  vtb_cpu_if test = vtb_cpu_if_begin(c, s->of.last ? yes : more);
  vtb__scan_pack(s, &g->of.k_cols, (vtb__pack){.tensor = s->of.at.k, .scales = g->suffix}, t0, n,
                 g->ks, g->of.ld_k);
  LLVMValueRef keep =
      s->of.init ? decay : LLVMBuildSelect(c->b, first, vtb_cpu_f32(c, 0), decay, "");
  vtb__smallgemm(c, g->ks, k_(c, 1), k_(c, g->of.ld_k), g->v, k_(c, g->of.ld_v), keep, g->of.state,
                 k_(c, g->of.ld_v), k_(c, s->of.K), g->of.n_vectors, n);
  vtb_cpu_if_end(c, &test);
}

static LLVMValueRef floats(const chunked *g, int64_t n) {
  return vtb_cpu_scratch(g->of.s->c, g->of.s->t, n * (int64_t)sizeof(float));
}

static void reserve(vtb__chunked *of) {
  chunked *g = (chunked *)of;
  vtb__cpu_scan *s = g->of.s;
  int64_t L = s->of.chunk, R = L < BLOCK ? L : BLOCK, keys = L < KEY_BLOCK ? L : KEY_BLOCK,
          lp = vtb__padded(s->c, L);
  g->kt = floats(g, s->of.K * g->of.ld_t);
  g->v = floats(g, L * g->of.ld_v);
  g->q = floats(g, keys * g->of.ld_k);
  g->p = floats(g, R * g->of.ld_t);
  g->y = floats(g, R * g->of.ld_v);
  g->w = floats(g, lp);
  g->d = floats(g, lp);
  g->b = floats(g, lp);
  g->suffix = floats(g, lp);
  g->ks = floats(g, L * g->of.ld_k);
}

int64_t vtb__chunk_width(const vtb__cpu_scan *s) {
  int64_t stored = vtb__cols_stored(s->c, s->of.V, s->of.normalizer), least = 2 * s->c->width;
  int64_t want =
      s->of.n_batch * s->of.n_heads >= MIN_TASKS ? 1 : MIN_TASKS / (s->of.n_batch * s->of.n_heads);
  int64_t width = vtb__padded(s->c, (stored + want - 1) / want);
  return width < least ? least : width;
}

void vtb__scan_by_chunks(vtb__chunked *g, vtb__cpu_scan *s, const vtb_inst *inst,
                         vtb__reserve_fn *reserve_for, vtb__chunk_fn *emit) {
  vtb_cpu *c = s->c;
  int64_t width = vtb__chunk_width(s), stored = vtb__cols_stored(c, s->of.V, s->of.normalizer);
  int64_t n_tiles = (stored + width - 1) / width;
  s->t = vtb_cpu_task_begin(c, inst, "scan", s->of.n_batch * s->of.n_heads * n_tiles, 1);
  LLVMValueRef tile = vtb_cpu_rem(c, s->t->index, n_tiles),
               bh = vtb_cpu_div(c, s->t->index, n_tiles);
  s->batch = vtb_cpu_div(c, bh, s->of.n_heads);
  s->head = vtb_cpu_rem(c, bh, s->of.n_heads);
  *g = (vtb__chunked){.s = s, .k_cols = vtb__cols_all(c, s->of.K, false)};
  g->v_cols = vtb__cols_tile(c, s->of.V, s->of.normalizer, width, tile);
  g->n_vectors = vtb__cols_vectors(c, &g->v_cols);
  g->ld_t = vtb__row_length(c, s->of.chunk);
  g->ld_k = vtb__row_length(c, s->of.K);
  g->ld_v = vtb__row_length(c, n_tiles > 1 ? width : stored);
  g->state = vtb_cpu_scratch(c, s->t, s->of.K * g->ld_v * (int64_t)sizeof(float));
  reserve_for(g);
  if (s->of.init) vtb__scan_pack_state(s, &g->v_cols, s->of.at.s0, s->of.at.n0, g->state, g->ld_v);
  if (s->of.chunk == s->of.n_tokens) {
    emit(g, k_(c, 0), k_(c, s->of.n_tokens), true);
  } else {
    vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.n_tokens), k_(c, s->of.chunk));
    emit(g, l.i,
         vtb_cpu_min(c, LLVMBuildNSWSub(c->b, k_(c, s->of.n_tokens), l.i, ""), k_(c, s->of.chunk)),
         false);
    vtb_cpu_for_end(c, &l);
  }
  if (s->of.last) vtb__scan_unpack_state(s, &g->v_cols, s->of.at.s, s->of.at.n, g->state, g->ld_v);
  vtb_cpu_task_end(c, s->t);
}

static void by_products(vtb__cpu_scan *s, const vtb_inst *inst) {
  chunked g = {0};
  vtb__scan_by_chunks(&g.of, s, inst, reserve, chunk);
}

void vtb__cpu_linscan(vtb_cpu *c, const vtb_inst *inst) {
  static void (*const emit[VTB_N_FORMS])(vtb__cpu_scan *, const vtb_inst *) = {
      [VTB_FORM_PRODUCTS] = by_products,
      [VTB_FORM_VECTOR] = vtb__linscan_vector,
      [VTB_FORM_STEPS] = vtb__linscan_steps,
      [VTB_FORM_EXPONENTS] = vtb__linscan_rates};
  vtb__cpu_scan s = vtb__scan_make(c, inst);
  emit[vtb_scan_form(&s.of)](&s, inst);
}

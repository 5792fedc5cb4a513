/* linscan_grad, classes constant and scalar, as products of matrices.
 *
 * A task owns one batch entry and one head. Pass 1 keeps the state before every chunk, transposed;
 * pass 2 walks the chunks backwards with the adjoint G [K, V] of the state after the chunk. In a
 * chunk with entering state S, decays b_t up to t and s_j after j (M[t,j] = product of d over j+1
 * ... t; A = (dY V^T) o M, P = (Q K^T) o M, lower triangles):
 *   dQ = A K + b o (dY S^T)
 *   dK = A^T Q + s o (V G^T)
 *   dV = P^T dY + s o (K G)
 *   G <- b_L G + (b o Q)^T dY
 * The triangle goes by blocks of rows, last block first. Parallel mode is one chunk of all tokens.
 *
 * Decays. A term of the loss that carries the factor d_r contributes itself over d_r, so dd_r is
 * the sum over these terms, all over d_r:
 *     sum over t >= r > j of P[t,j] (dY V^T)[t,j]
 *   + sum over t >= r of b_t q_t . (S dy_t)
 *   + sum over j < r of s_j k_j . (G v_j)
 *   + b_L <S, G>
 * Running sums add terms and never take any away, so nothing cancels, and the factor divides out
 * exactly: decays below FLOOR are replaced by it throughout, which changes the other gradients by
 * 1e-18 of the state and makes dd right at 0.
 *
 * Mode recurrent takes chunks of RECURRENT_CHUNK tokens; other classes: linscan_vector.c,
 * linscan_steps.c.
 */
#include "codegen/cpu/scan/linscan.h"

#define BLOCK 24 /* rows a block: a multiple of both tile heights (6 and 8) */
#define FLOOR 1e-18
#define RECURRENT_CHUNK 32

typedef struct chunked {
  vtb__cpu_scan *s;
  vtb__cols k_cols, v_cols;
  int64_t ld_t, ld_k, ld_v, n_k, n_v; /* row lengths; floats of a padded row */
  int64_t n_chunks;
  LLVMValueRef q, k, v, dy, kt, vt; /* the chunk, packed */
  LLVMValueRef dq, dk, dv;          /* [L, ld] */
  LLVMValueRef p, a, terms, w;      /* block of rows: [BLOCK, ld_t]; a row of M */
  /* [L]; below: sums over t >= r of the terms in each column */
  LLVMValueRef d, b, suffix, inner, x, below;
  LLVMValueRef states, adjoint,
      adjoint_t;   /* S^T before each chunk [n_chunks, V, ld_k]; G [K, ld_v]; G^T */
  LLVMValueRef dd; /* constant class: alloca, the running sum */
} chunked;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }
static LLVMValueRef sub(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildNSWSub(c->b, x, y, "");
}
static LLVMValueRef load(vtb_cpu *c, LLVMValueRef at, LLVMValueRef i) {
  return vtb_cpu_load(c, vtb_cpu_at(c, at, i), 1);
}

static void reserve(chunked *g) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  int64_t L = s->of.chunk, R = L < BLOCK ? L : BLOCK, Vn = s->of.V + s->of.normalizer,
          lp = vtb__padded(c, L);
  LLVMValueRef *const where[] = {
      &g->q,     &g->k, &g->v,     &g->dy,     &g->kt,      &g->vt,       &g->dq, &g->dk,
      &g->dv,    &g->p, &g->a,     &g->terms,  &g->w,       &g->d,        &g->b,  &g->suffix,
      &g->inner, &g->x, &g->below, &g->states, &g->adjoint, &g->adjoint_t};
  const int64_t floats[] = {L * g->ld_k,
                            L * g->ld_k,
                            L * g->ld_v,
                            L * g->ld_v,
                            s->of.K * g->ld_t,
                            Vn * g->ld_t,
                            L * g->ld_k,
                            L * g->ld_k,
                            L * g->ld_v,
                            R * g->ld_t,
                            R * g->ld_t,
                            R * g->ld_t,
                            lp,
                            lp,
                            lp,
                            lp,
                            lp,
                            lp,
                            lp,
                            g->n_chunks * Vn * g->ld_k,
                            s->of.K * g->ld_v,
                            Vn * g->ld_k};
  for (size_t i = 0; i < sizeof where / sizeof *where; i++)
    *where[i] = vtb_cpu_scratch(c, s->t, floats[i] * (int64_t)sizeof(float));
}

/* C = beta C + A B with row lengths known when compiling. */
typedef struct matrix {
  LLVMValueRef at;
  int64_t row, col;
} matrix;
static void product(vtb_cpu *c, matrix a, matrix b, LLVMValueRef beta, matrix out, LLVMValueRef m,
                    int64_t n, LLVMValueRef k) {
  vtb__smallgemm(c, a.at, k_(c, a.row), k_(c, a.col), b.at, k_(c, b.row), beta, out.at,
                 k_(c, out.row), m, k_(c, n / c->width), k);
}

/* rows[r, :] *= scales[r]; to[r] = rows[r, :] . other[r, :], unless NULL. */
static void scale_and_dot(vtb_cpu *c, LLVMValueRef rows, int64_t ld, int64_t n_cols, LLVMValueRef n,
                          LLVMValueRef scales, LLVMValueRef other, LLVMValueRef to) {
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef f = vtb_cpu_splat(c, load(c, scales, r.i), c->width), at = vtb_cpu_mul(c, r.i, ld);
  vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), k_(c, n_cols), k_(c, c->width));
  LLVMValueRef sum = vtb_cpu_carry(c, &j, LLVMConstNull(c->vf32)), here = vtb_cpu_add(c, at, j.i);
  LLVMValueRef x = LLVMBuildFMul(c->b, vtb_cpu_load(c, vtb_cpu_at(c, rows, here), c->width), f, "");
  vtb_cpu_store(c, x, vtb_cpu_at(c, rows, here));
  if (to)
    vtb_cpu_carry_next(
        &j, 0, vtb_cpu_fma(c, x, vtb_cpu_load(c, vtb_cpu_at(c, other, here), c->width), sum));
  vtb_cpu_for_end(c, &j);
  if (to) vtb_cpu_store(c, vtb_cpu_hsum(c, vtb_cpu_carried(&j, 0)), vtb_cpu_at(c, to, r.i));
  vtb_cpu_for_end(c, &r);
}

/* ---- pass 1: states before the chunks -------------------------------------------------------- */

static LLVMValueRef state_of(const chunked *g, LLVMValueRef chunk) {
  int64_t n = (g->s->of.V + g->s->of.normalizer) * g->ld_k;
  return vtb_cpu_at(g->s->c, g->states, vtb_cpu_mul(g->s->c, chunk, n));
}

static void first_state(const chunked *g) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  int64_t Vn = s->of.V + s->of.normalizer;
  if (!s->of.init) {
    if (g->n_chunks > 1) vtb__fill(c, g->states, k_(c, Vn * g->ld_k), 0);
    return;
  }
  vtb__scan_pack_state(s, &g->v_cols, s->of.at.s0, s->of.at.n0, g->adjoint, g->ld_v);
  vtb__transpose_tile(c, g->adjoint, k_(c, g->ld_v), k_(c, s->of.K), k_(c, Vn), g->states,
                      k_(c, g->ld_k));
}

static void run_forward(const chunked *g) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  int64_t Vn = s->of.V + s->of.normalizer;
  first_state(g);
  if (g->n_chunks == 1) return;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->n_chunks - 1), k_(c, 1));
  LLVMValueRef t0 = vtb_cpu_mul(c, l.i, s->of.chunk), n = k_(c, s->of.chunk),
               from = state_of(g, l.i);
  LLVMValueRef to = state_of(g, vtb_cpu_add(c, l.i, k_(c, 1)));
  LLVMValueRef decay = vtb__scan_decays(s, t0, n, FLOOR, g->d, g->b, g->suffix);
  vtb__scan_pack(s, &g->k_cols, (vtb__pack){.tensor = s->of.at.k, .scales = g->suffix}, t0, n, g->k,
                 g->ld_k);
  vtb__scan_pack(s, &g->v_cols, (vtb__pack){.tensor = s->of.at.v, .ones = true}, t0, n, g->v,
                 g->ld_v);
  vtb_cpu_for i = vtb_cpu_for_begin(c, k_(c, 0), k_(c, Vn * g->ld_k), k_(c, c->width));
  vtb_cpu_store(c, vtb_cpu_load(c, vtb_cpu_at(c, from, i.i), c->width), vtb_cpu_at(c, to, i.i));
  vtb_cpu_for_end(c, &i);
  product(c, (matrix){g->v, 1, g->ld_v}, (matrix){g->k, g->ld_k, 1}, decay,
          (matrix){to, g->ld_k, 1}, k_(c, Vn), g->n_k, n);
  vtb_cpu_for_end(c, &l);
}

/* ---- pass 2 ---------------------------------------------------------------------------------- */

/* w = row i0 - 1 of M, so that multiplying by d from row i0 on gives the block's rows. */
static void first_mask_row(const chunked *g, LLVMValueRef i0, LLVMValueRef end) {
  vtb_cpu *c = g->s->c;
  vtb__fill(c, g->w, end, 0);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), i0, k_(c, 1));
  LLVMValueRef product_ = vtb_cpu_carry(c, &l, vtb_cpu_f32(c, 1));
  LLVMValueRef j = sub(c, vtb_cpu_add(c, i0, k_(c, -1)), l.i);
  vtb_cpu_store(c, product_, vtb_cpu_at(c, g->w, j));
  vtb_cpu_carry_next(&l, 0, LLVMBuildFMul(c->b, product_, load(c, g->d, j), ""));
  vtb_cpu_for_end(c, &l);
}

/* P = S o M, A = dP o M, terms = P o dP for the rows of a block, S and dP in p and a on entry. */
static void mask_rows(const chunked *g, LLVMValueRef i0, LLVMValueRef n) {
  vtb_cpu *c = g->s->c;
  LLVMValueRef lane[16];
  for (int i = 0; i < c->width; i++) lane[i] = LLVMConstInt(c->i64, (unsigned)i, 0);
  LLVMValueRef lanes = LLVMConstVector(lane, (unsigned)c->width), end = vtb_cpu_add(c, i0, n);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef t = vtb_cpu_add(c, i0, r.i), row = vtb_cpu_mul(c, r.i, g->ld_t);
  LLVMValueRef dt = vtb_cpu_splat(c, load(c, g->d, t), c->width);
  vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), end, k_(c, c->width));
  LLVMValueRef w_at = vtb_cpu_at(c, g->w, j.i), at = vtb_cpu_add(c, row, j.i);
  LLVMValueRef w = LLVMBuildFMul(c->b, vtb_cpu_load(c, w_at, c->width), dt, "");
  LLVMValueRef diagonal = vtb_cpu_splat(c, sub(c, t, j.i), c->width);
  w = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntEQ, lanes, diagonal, ""),
                      vtb_cpu_like(c, w, 1), w, "");
  vtb_cpu_store(c, w, w_at);
  LLVMValueRef a = vtb_cpu_load(c, vtb_cpu_at(c, g->a, at), c->width);
  LLVMValueRef p = LLVMBuildFMul(c->b, vtb_cpu_load(c, vtb_cpu_at(c, g->p, at), c->width), w, "");
  vtb_cpu_store(c, p, vtb_cpu_at(c, g->p, at));
  vtb_cpu_store(c, LLVMBuildFMul(c->b, a, w, ""), vtb_cpu_at(c, g->a, at));
  vtb_cpu_store(c, LLVMBuildFMul(c->b, p, a, ""), vtb_cpu_at(c, g->terms, at));
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &r);
}

/* inner[r] = sum over t >= r > j of terms[t, j], for the rows of a block from the last to the
 * first. */
static void sum_terms(const chunked *g, LLVMValueRef i0, LLVMValueRef n) {
  vtb_cpu *c = g->s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef r = sub(c, vtb_cpu_add(c, n, k_(c, -1)), l.i), t = vtb_cpu_add(c, i0, r);
  LLVMValueRef row = vtb_cpu_mul(c, r, g->ld_t);
  vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), t, k_(c, c->width));
  LLVMValueRef sum = vtb_cpu_carry(c, &j, LLVMConstNull(c->vf32));
  LLVMValueRef u_at = vtb_cpu_at(c, g->below, j.i);
  LLVMValueRef term = vtb_cpu_load(c, vtb_cpu_at(c, g->terms, vtb_cpu_add(c, row, j.i)), c->width);
  LLVMValueRef u = LLVMBuildFAdd(c->b, vtb_cpu_load(c, u_at, c->width), term, "");
  vtb_cpu_store(c, u, u_at);
  LLVMValueRef mask = vtb_cpu_mask(c, sub(c, t, j.i), c->width);
  vtb_cpu_carry_next(
      &j, 0,
      LLVMBuildFAdd(c->b, sum, LLVMBuildSelect(c->b, mask, u, LLVMConstNull(c->vf32), ""), ""));
  vtb_cpu_for_end(c, &j);
  vtb_cpu_store(c, vtb_cpu_hsum(c, vtb_cpu_carried(&j, 0)), vtb_cpu_at(c, g->inner, t));
  vtb_cpu_for_end(c, &l);
}

static void block(const chunked *g, LLVMValueRef i0, LLVMValueRef n) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  LLVMValueRef end = vtb_cpu_add(c, i0, n), zero = vtb_cpu_f32(c, 0), one = vtb_cpu_f32(c, 1);
  LLVMValueRef q = vtb_cpu_at(c, g->q, vtb_cpu_mul(c, i0, g->ld_k)),
               dy = vtb_cpu_at(c, g->dy, vtb_cpu_mul(c, i0, g->ld_v));
  LLVMValueRef columns = vtb_cpu_div(c, vtb_cpu_add(c, end, k_(c, c->width - 1)), c->width);
  LLVMValueRef ld_t = k_(c, g->ld_t), unit = k_(c, 1);
  vtb__smallgemm(c, q, k_(c, g->ld_k), unit, g->kt, ld_t, zero, g->p, ld_t, n, columns,
                 k_(c, s->of.K));
  vtb__smallgemm(c, dy, k_(c, g->ld_v), unit, g->vt, ld_t, zero, g->a, ld_t, n, columns,
                 k_(c, s->of.V + s->of.normalizer));
  first_mask_row(g, i0, end);
  mask_rows(g, i0, n);
  sum_terms(g, i0, n);
  matrix dq = {vtb_cpu_at(c, g->dq, vtb_cpu_mul(c, i0, g->ld_k)), g->ld_k, 1};
  product(c, (matrix){g->a, g->ld_t, 1}, (matrix){g->k, g->ld_k, 1}, one, dq, n, g->n_k, end);
  product(c, (matrix){g->a, 1, g->ld_t}, (matrix){q, g->ld_k, 1}, one, (matrix){g->dk, g->ld_k, 1},
          end, g->n_k, n);
  product(c, (matrix){g->p, 1, g->ld_t}, (matrix){dy, g->ld_v, 1}, one, (matrix){g->dv, g->ld_v, 1},
          end, g->n_v, n);
}

/* dk, dv (and their sums x of column terms) from the state after the chunk, unless nothing follows
 * it. */
static void from_later(const chunked *g, LLVMValueRef n, LLVMValueRef follows) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  int64_t Vn = s->of.V + s->of.normalizer;
  LLVMValueRef zero = vtb_cpu_f32(c, 0);
  vtb_cpu_if test = vtb_cpu_if_begin(c, follows);
  vtb__transpose_tile(c, g->adjoint, k_(c, g->ld_v), k_(c, s->of.K), k_(c, Vn), g->adjoint_t,
                      k_(c, g->ld_k));
  product(c, (matrix){g->v, g->ld_v, 1}, (matrix){g->adjoint_t, g->ld_k, 1}, zero,
          (matrix){g->dk, g->ld_k, 1}, n, g->n_k, k_(c, Vn));
  product(c, (matrix){g->k, g->ld_k, 1}, (matrix){g->adjoint, g->ld_v, 1}, zero,
          (matrix){g->dv, g->ld_v, 1}, n, g->n_v, k_(c, s->of.K));
  scale_and_dot(c, g->dk, g->ld_k, g->n_k, n, g->suffix, g->k, g->x);
  scale_and_dot(c, g->dv, g->ld_v, g->n_v, n, g->suffix, NULL, NULL);
  vtb_cpu_else(c, &test);
  vtb__fill(c, g->dk, vtb_cpu_mul(c, n, g->ld_k), 0);
  vtb__fill(c, g->dv, vtb_cpu_mul(c, n, g->ld_v), 0);
  vtb__fill(c, g->x, n, 0);
  vtb_cpu_if_end(c, &test);
}

/* <S, G>, S^T and G^T at hand. */
static LLVMValueRef dot_states(const chunked *g, LLVMValueRef state) {
  vtb_cpu *c = g->s->c;
  int64_t Vn = g->s->of.V + g->s->of.normalizer;
  vtb_cpu_for v = vtb_cpu_for_begin(c, k_(c, 0), k_(c, Vn), k_(c, 1));
  LLVMValueRef outer = vtb_cpu_carry(c, &v, LLVMConstNull(c->vf32));
  vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->n_k), k_(c, c->width));
  LLVMValueRef sum = vtb_cpu_carry(c, &j, outer),
               at = vtb_cpu_add(c, vtb_cpu_mul(c, v.i, g->ld_k), j.i);
  LLVMValueRef x = vtb_cpu_load(c, vtb_cpu_at(c, state, at), c->width);
  if (g->s->of.K % c->width) /* lanes past K repeat its last row */
    x = LLVMBuildSelect(c->b, vtb_cpu_mask(c, sub(c, k_(c, g->s->of.K), j.i), c->width), x,
                        LLVMConstNull(c->vf32), "");
  vtb_cpu_carry_next(
      &j, 0, vtb_cpu_fma(c, x, vtb_cpu_load(c, vtb_cpu_at(c, g->adjoint_t, at), c->width), sum));
  vtb_cpu_for_end(c, &j);
  vtb_cpu_carry_next(&v, 0, vtb_cpu_carried(&j, 0));
  vtb_cpu_for_end(c, &v);
  return vtb_cpu_hsum(c, vtb_cpu_carried(&v, 0));
}

/* Adds to inner[r] the sum over j < r of the column terms x, and `through`, what passes the whole
 * chunk. */
static void add_column_terms(const chunked *g, LLVMValueRef n, LLVMValueRef through) {
  vtb_cpu *c = g->s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef sum = vtb_cpu_carry(c, &l, through), at = vtb_cpu_at(c, g->inner, l.i);
  vtb_cpu_store(c, LLVMBuildFAdd(c->b, vtb_cpu_load(c, at, 1), sum, ""), at);
  vtb_cpu_carry_next(&l, 0, LLVMBuildFAdd(c->b, sum, load(c, g->x, l.i), ""));
  vtb_cpu_for_end(c, &l);
}

/* Adds to inner[r] the sum over t >= r of the row terms x. */
static void add_row_terms(const chunked *g, LLVMValueRef n) {
  vtb_cpu *c = g->s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef sum = vtb_cpu_carry(c, &l, vtb_cpu_f32(c, 0));
  LLVMValueRef r = sub(c, vtb_cpu_add(c, n, k_(c, -1)), l.i), at = vtb_cpu_at(c, g->inner, r);
  sum = LLVMBuildFAdd(c->b, sum, load(c, g->x, r), "");
  vtb_cpu_store(c, LLVMBuildFAdd(c->b, vtb_cpu_load(c, at, 1), sum, ""), at);
  vtb_cpu_carry_next(&l, 0, sum);
  vtb_cpu_for_end(c, &l);
}

/* dd_r = inner[r] / d_r, stored by token or added up over the sequence. */
static void store_decay_gradient(const chunked *g, LLVMValueRef t0, LLVMValueRef n) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef v = LLVMBuildFDiv(c->b, load(c, g->inner, l.i), load(c, g->d, l.i), "");
  if (!s->of.decay->by_step)
    LLVMBuildStore(c->b, LLVMBuildFAdd(c->b, LLVMBuildLoad2(c->b, c->f32, g->dd, ""), v, ""),
                   g->dd);
  else
    vtb_cpu_store(
        c, v, vtb__scan_row(s, s->of.at.dd, vtb__order_at(c, &s->order, vtb_cpu_add(c, t0, l.i))));
  vtb_cpu_for_end(c, &l);
}

static void load_chunk(const chunked *g, LLVMValueRef t0, LLVMValueRef n) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  vtb__scan_pack(s, &g->k_cols, (vtb__pack){.tensor = s->of.at.q}, t0, n, g->q, g->ld_k);
  vtb__scan_pack(s, &g->k_cols, (vtb__pack){.tensor = s->of.at.k}, t0, n, g->k, g->ld_k);
  vtb__scan_pack(s, &g->v_cols, (vtb__pack){.tensor = s->of.at.v, .ones = true}, t0, n, g->v,
                 g->ld_v);
  vtb__scan_pack(s, &g->v_cols, (vtb__pack){.tensor = s->of.at.dy, .extra = s->of.at.dz}, t0, n,
                 g->dy, g->ld_v);
  vtb__transpose_tile(c, g->k, k_(c, g->ld_k), n, k_(c, s->of.K), g->kt, k_(c, g->ld_t));
  vtb__transpose_tile(c, g->v, k_(c, g->ld_v), n, k_(c, s->of.V + s->of.normalizer), g->vt,
                      k_(c, g->ld_t));
}

static void run_blocks(const chunked *g, LLVMValueRef n) {
  vtb_cpu *c = g->s->c;
  vtb__fill(c, g->dq, vtb_cpu_mul(c, n, g->ld_k), 0);
  vtb__fill(c, g->below, n, 0);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, BLOCK)); /* last block first */
  LLVMValueRef blocks = vtb_cpu_div(c, vtb_cpu_add(c, n, k_(c, BLOCK - 1)), BLOCK);
  LLVMValueRef i0 = sub(c, vtb_cpu_mul(c, vtb_cpu_add(c, blocks, k_(c, -1)), BLOCK), l.i);
  block(g, i0, vtb_cpu_min(c, sub(c, n, i0), k_(c, BLOCK)));
  vtb_cpu_for_end(c, &l);
}

/* b_L <S, G>: what passes the whole chunk, 0 at either end of the sequence. */
static LLVMValueRef passing_term(const chunked *g, LLVMValueRef state, LLVMValueRef decay,
                                 LLVMValueRef passes) {
  vtb_cpu *c = g->s->c;
  LLVMValueRef none = vtb_cpu_f32(c, 0);
  vtb_cpu_if through = vtb_cpu_if_begin(c, passes);
  LLVMValueRef term = LLVMBuildFMul(c->b, decay, dot_states(g, state), "");
  LLVMBasicBlockRef then = LLVMGetInsertBlock(c->b), otherwise = through.otherwise;
  vtb_cpu_else(c, &through);
  vtb_cpu_if_end(c, &through);
  LLVMValueRef phi = LLVMBuildPhi(c->b, c->f32, "passing");
  LLVMAddIncoming(phi, &term, &then, 1);
  LLVMAddIncoming(phi, &none, &otherwise, 1);
  return phi;
}

/* dq from the state before the chunk, with its row terms, and the adjoint of that state. The buffer
 * of dk, which has been stored, takes b o (dY S^T). */
static void to_earlier(const chunked *g, LLVMValueRef n, LLVMValueRef state, LLVMValueRef keep) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  product(c, (matrix){g->dy, g->ld_v, 1}, (matrix){state, g->ld_k, 1}, vtb_cpu_f32(c, 0),
          (matrix){g->dk, g->ld_k, 1}, n, g->n_k, k_(c, s->of.V + s->of.normalizer));
  scale_and_dot(c, g->dk, g->ld_k, g->n_k, n, g->b, g->q, g->x);
  add_row_terms(g, n);
  vtb_cpu_for i = vtb_cpu_for_begin(c, k_(c, 0), vtb_cpu_mul(c, n, g->ld_k), k_(c, c->width));
  LLVMValueRef at = vtb_cpu_at(c, g->dq, i.i),
               more = vtb_cpu_load(c, vtb_cpu_at(c, g->dk, i.i), c->width);
  vtb_cpu_store(c, LLVMBuildFAdd(c->b, vtb_cpu_load(c, at, c->width), more, ""), at);
  vtb_cpu_for_end(c, &i);
  scale_and_dot(c, g->q, g->ld_k, g->n_k, n, g->b, NULL, NULL);
  product(c, (matrix){g->q, 1, g->ld_k}, (matrix){g->dy, g->ld_v, 1}, keep,
          (matrix){g->adjoint, g->ld_v, 1}, k_(c, s->of.K), g->n_v, n);
}

static void chunk(const chunked *g, LLVMValueRef number) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  LLVMValueRef yes = LLVMConstInt(c->i1, 1, 0), no = LLVMConstInt(c->i1, 0, 0);
  LLVMValueRef t0 = vtb_cpu_mul(c, number, s->of.chunk), state = state_of(g, number);
  LLVMValueRef n = vtb_cpu_min(c, sub(c, k_(c, s->of.n_tokens), t0), k_(c, s->of.chunk));
  LLVMValueRef first = LLVMBuildICmp(c->b, LLVMIntEQ, number, k_(c, 0), "");
  LLVMValueRef last = LLVMBuildICmp(c->b, LLVMIntEQ, number, k_(c, g->n_chunks - 1), "");
  LLVMValueRef precedes = s->of.init ? yes : g->n_chunks == 1 ? no : LLVMBuildNot(c->b, first, "");
  LLVMValueRef follows = s->of.dlast ? yes : g->n_chunks == 1 ? no : LLVMBuildNot(c->b, last, "");
  LLVMValueRef decay = vtb__scan_decays(s, t0, n, FLOOR, g->d, g->b, g->suffix);
  load_chunk(g, t0, n);
  from_later(g, n, follows);
  run_blocks(g, n);
  add_column_terms(g, n, passing_term(g, state, decay, LLVMBuildAnd(c->b, precedes, follows, "")));
  vtb__scan_unpack(s, &g->v_cols, s->of.at.dv, -1, t0, n, g->dv, g->ld_v);
  vtb__scan_unpack(s, &g->k_cols, s->of.at.dk, -1, t0, n, g->dk, g->ld_k);
  vtb_cpu_if enter = vtb_cpu_if_begin(c, precedes);
  to_earlier(g, n, state, LLVMBuildSelect(c->b, follows, decay, vtb_cpu_f32(c, 0), ""));
  vtb_cpu_if_end(c, &enter);
  vtb__scan_unpack(s, &g->k_cols, s->of.at.dq, -1, t0, n, g->dq, g->ld_k);
  store_decay_gradient(g, t0, n);
}

/* Constant class: dd[h] is the sum over the batch of what each task found. */
static void add_batch(vtb__cpu_scan *s, const vtb_inst *inst, int64_t temp) {
  vtb_cpu *c = s->c;
  s->t = vtb_cpu_task_begin(c, inst, "sum", s->of.n_heads, 64);
  LLVMValueRef parts = vtb_cpu_temp_ptr(c, s->t, temp);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, s->of.n_batch), k_(c, 1));
  LLVMValueRef sum = vtb_cpu_carry(c, &l, vtb_cpu_f32(c, 0));
  LLVMValueRef part =
      load(c, parts, vtb_cpu_add(c, vtb_cpu_mul(c, l.i, s->of.n_heads), s->t->index));
  vtb_cpu_carry_next(&l, 0, LLVMBuildFAdd(c->b, sum, part, ""));
  vtb_cpu_for_end(c, &l);
  vtb_cpu_store(c, vtb_cpu_carried(&l, 0),
                vtb_cpu_element(c, &s->t->t[s->of.at.dd], &s->t->index, 1));
  vtb_cpu_task_end(c, s->t);
}

static void by_products(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu *c = s->c;
  bool constant = !s->of.decay->by_step;
  int64_t temp =
      constant ? vtb_cpu_temp(c, s->of.n_batch * s->of.n_heads * (int64_t)sizeof(float)) : 0;
  s->t = vtb_cpu_task_begin(c, inst, "grad", s->of.n_batch * s->of.n_heads, 1);
  s->batch = vtb_cpu_div(c, s->t->index, s->of.n_heads);
  s->head = vtb_cpu_rem(c, s->t->index, s->of.n_heads);
  chunked g = {.s = s,
               .k_cols = vtb__cols_all(c, s->of.K, false),
               .v_cols = vtb__cols_all(c, s->of.V, s->of.normalizer)};
  g.ld_t = vtb__row_length(c, s->of.chunk);
  g.ld_k = vtb__row_length(c, s->of.K);
  g.n_k = vtb__padded(c, s->of.K);
  g.n_v = vtb__cols_stored(c, s->of.V, s->of.normalizer);
  g.ld_v = vtb__row_length(c, g.n_v);
  g.n_chunks = (s->of.n_tokens + s->of.chunk - 1) / s->of.chunk;
  reserve(&g);
  if (constant) {
    g.dd = vtb_cpu_var(c, s->t, c->f32);
    LLVMBuildStore(c->b, vtb_cpu_f32(c, 0), g.dd);
  }
  run_forward(&g);
  if (s->of.dlast) vtb__scan_pack_state(s, &g.v_cols, s->of.at.ds, s->of.at.dn, g.adjoint, g.ld_v);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g.n_chunks), k_(c, 1));
  chunk(&g, sub(c, k_(c, g.n_chunks - 1), l.i));
  vtb_cpu_for_end(c, &l);
  if (s->of.init)
    vtb__scan_unpack_state(s, &g.v_cols, s->of.at.ds0, s->of.at.dn0, g.adjoint, g.ld_v);
  if (constant)
    vtb_cpu_store(c, LLVMBuildLoad2(c->b, c->f32, g.dd, ""),
                  vtb_cpu_at(c, vtb_cpu_temp_ptr(c, s->t, temp), s->t->index));
  vtb_cpu_task_end(c, s->t);
  if (constant) add_batch(s, inst, temp);
}

/* Adjoints of products are products in mode recurrent too, in short chunks. */
void vtb__cpu_linscan_grad(vtb_cpu *c, const vtb_inst *inst) {
  static void (*const emit[VTB_N_FORMS])(vtb__cpu_scan *, const vtb_inst *) = {
      [VTB_FORM_PRODUCTS] = by_products,
      [VTB_FORM_VECTOR] = vtb__linscan_grad_vector,
      [VTB_FORM_STEPS] = vtb__linscan_grad_steps,
      [VTB_FORM_EXPONENTS] = vtb__linscan_grad_rates};
  vtb__cpu_scan s = vtb__scan_make(c, inst);
  bool products = s.of.decay->form == VTB_FORM_PRODUCTS;
  if (products && s.of.recurrent && s.of.chunk > RECURRENT_CHUNK) s.of.chunk = RECURRENT_CHUNK;
  emit[products ? VTB_FORM_PRODUCTS : vtb_scan_form(&s.of)](&s, inst);
}

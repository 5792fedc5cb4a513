/* linscan_grad, classes key and value, as products of matrices. Names x, z, a, b, c, e:
 * linscan_direct.h.
 *
 * A task owns one batch entry and one head. Pass 1 keeps the state before every chunk, [Z, x] so
 * that decays run along rows; pass 2 walks the chunks backwards, keeps the state before every
 * sub-block of one chunk, and takes the sub-blocks from the last with the adjoint G [Z, x] of the
 * state after it. Inside one, with a' = pre o a, b' = suf o b, S before:
 *   da   = sums of N W b + pre o (c S)        db   = sums of N W a + suf o (e G)
 *   de^T = G b'^T + c^T M                     dc^T = S a'^T + e^T M^T
 *   G <- whole o G + c^T a'
 * of which class key wants da, db, de, and class value db, de, dc (the other one is y). Between
 * sub-blocks everything passes through states: fewer multiplications than pairs of tokens, and the
 * same sums for the decays.
 *
 * Decays. A term of the loss that carries the factor d_r[x] contributes itself over d_r[x], so dd_r
 * is over d_r the sum of
 *   inner_r
 *   + sum over t >= r of a'_t o (c_t S)
 *   + sum over j < r of b'_j o (e_j G)
 *   + whole o (sum over z of S o G)
 * Sums add terms and never take any away; decays below FLOOR are replaced by it throughout: see
 * linscan_grad.c.
 */
#include "codegen/cpu/scan/linscan_direct.h"

#define FLOOR 1e-18

typedef struct backward {
  vtb__cpu_scan *s;
  bool by_key;
  vtb__cols x, z;
  int a_at, b_at, c_at, e_at, da_at, db_at, dc_at, de_at; /* tensors; -1: none */
  /* Z counts the normalizer; n_x: floats of a padded row */
  int64_t X, Z, ld_x, ld_z, n_x, n_chunks, n_subs;
  LLVMValueRef a, b, ax, bx, d, pre, suf, sc, ge, da, db, inner; /* [SUB, ld_x] */
  LLVMValueRef cz, e, out_z;                                     /* [SUB, ld_z] */
  LLVMValueRef bt, at, et, out_zt;                               /* transposed: [X or Z, SUB] */
  LLVMValueRef m, n, mt;                                         /* [SUB, SUB] */
  LLVMValueRef whole, passing;                                   /* [ld_x] */
  /* [..., Z, ld_x]; square: K rows of the state as stored */
  LLVMValueRef states, subs, adjoint, square;
} backward;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }
static LLVMValueRef sub(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildNSWSub(c->b, x, y, "");
}
static LLVMValueRef get(vtb_cpu *c, LLVMValueRef at, LLVMValueRef i) {
  return vtb_cpu_load(c, vtb_cpu_at(c, at, i), c->width);
}
static void put(vtb_cpu *c, LLVMValueRef v, LLVMValueRef at, LLVMValueRef i) {
  vtb_cpu_store(c, v, vtb_cpu_at(c, at, i));
}
static LLVMValueRef state_at(const backward *g, LLVMValueRef states, LLVMValueRef i) {
  return vtb_cpu_at(g->s->c, states, vtb_cpu_mul(g->s->c, i, g->Z * g->ld_x));
}

static vtb__decays decays_of(const backward *g, LLVMValueRef n) {
  return (vtb__decays){.d = g->d,
                       .pre = g->pre,
                       .suf = g->suf,
                       .whole = g->whole,
                       .ld = g->ld_x,
                       .n = n,
                       .n_vectors = k_(g->s->c, g->n_x / g->s->c->width)};
}

static void reserve(backward *g) {
  vtb__cpu_scan *s = g->s;
  LLVMValueRef *const along_x[] = {&g->a,   &g->b,  &g->ax, &g->bx, &g->d,  &g->pre,
                                   &g->suf, &g->sc, &g->ge, &g->da, &g->db, &g->inner};
  LLVMValueRef *const along_z[] = {&g->cz, &g->e, &g->out_z};
  LLVMValueRef *const by_x[] = {&g->bt, &g->at}, *const by_z[] = {&g->et, &g->out_zt};
  LLVMValueRef *const pairs[] = {&g->m, &g->n, &g->mt}, *const rows[] = {&g->whole, &g->passing};
  int64_t state = g->Z * g->ld_x, stored = s->of.K * (g->by_key ? g->ld_z : g->ld_x);
  LLVMValueRef *const states[] = {&g->states, &g->subs, &g->adjoint, &g->square};
  const int64_t state_floats[] = {g->n_chunks * state, g->n_subs * state, state, stored};
#define RESERVE(list, n)                                                                           \
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)                                          \
  *list[i] = vtb_cpu_scratch(s->c, s->t, (n) * (int64_t)sizeof(float))
  RESERVE(along_x, VTB__SUB * g->ld_x);
  RESERVE(along_z, VTB__SUB * g->ld_z);
  RESERVE(by_x, g->X * VTB__SUB);
  RESERVE(by_z, g->Z * VTB__SUB);
  RESERVE(pairs, VTB__SUB * VTB__SUB);
  RESERVE(rows, g->ld_x);
  RESERVE(states, state_floats[i]);
#undef RESERVE
}

/* out = beta out + A B, B and out rows along x. */
static void product(const backward *g, LLVMValueRef a, int64_t row, int64_t col, LLVMValueRef b,
                    double beta, LLVMValueRef out, LLVMValueRef m, LLVMValueRef k) {
  vtb_cpu *c = g->s->c;
  LLVMValueRef ld = k_(c, g->ld_x);
  vtb__smallgemm(c, a, k_(c, row), k_(c, col), b, ld, vtb_cpu_f32(c, beta), out, ld, m,
                 k_(c, g->n_x / c->width), k);
}

/* out = beta out + A B, B and out [..., SUB], columns up to n. */
static void product_sub(const backward *g, LLVMValueRef a, int64_t row, int64_t col, LLVMValueRef b,
                        double beta, LLVMValueRef out, LLVMValueRef m, LLVMValueRef n,
                        LLVMValueRef k) {
  vtb_cpu *c = g->s->c;
  LLVMValueRef ld = k_(c, VTB__SUB),
               vectors = vtb_cpu_div(c, vtb_cpu_add(c, n, k_(c, c->width - 1)), c->width);
  vtb__smallgemm(c, a, k_(c, row), k_(c, col), b, ld, vtb_cpu_f32(c, beta), out, ld, m, vectors, k);
}

static void pack(const backward *g, const vtb__cols *cols, int tensor, LLVMValueRef t0,
                 LLVMValueRef n, LLVMValueRef out) {
  const vtb__cpu_scan *s = g->s;
  vtb__pack p = {.tensor = tensor, .ones = tensor == s->of.at.v, .extra = s->of.at.dz};
  vtb__scan_pack(s, cols, p, t0, n, out, cols == &g->x ? g->ld_x : g->ld_z);
}

/* The factors that move the state over n tokens from t0 on: b, e, decays and their products, b'. */
static void load_keys(const backward *g, LLVMValueRef t0, LLVMValueRef n) {
  vtb_cpu *c = g->s->c;
  vtb__decays d = decays_of(g, n);
  pack(g, &g->x, g->b_at, t0, n, g->b);
  pack(g, &g->z, g->e_at, t0, n, g->e);
  pack(g, &g->x, g->s->of.at.d, t0, n, g->d);
  vtb__direct_factors(c, &d, FLOOR);
  vtb__rows_times(c, g->bx, g->b, g->suf, g->ld_x, g->ld_x, n, d.n_vectors);
}

/* to = the state n tokens after `from`, which may be the same. */
static void advance(const backward *g, LLVMValueRef from, LLVMValueRef to, LLVMValueRef t0,
                    LLVMValueRef n) {
  vtb_cpu *c = g->s->c;
  load_keys(g, t0, n);
  vtb__rows_times(c, to, from, g->whole, g->ld_x, 0, k_(c, g->Z), k_(c, g->n_x / c->width));
  product(g, g->e, 1, g->ld_z, g->bx, 1, to, k_(c, g->Z), n);
}

static void copy_state(const backward *g, LLVMValueRef from, LLVMValueRef to) {
  vtb_cpu *c = g->s->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->Z * g->ld_x), k_(c, c->width));
  put(c, get(c, from, l.i), to, l.i);
  vtb_cpu_for_end(c, &l);
}

/* A state tensor with its normalizer's vector, [K, V], from and to [Z, x]. */
static void load_state(const backward *g, int tensor, int vector, LLVMValueRef out) {
  vtb_cpu *c = g->s->c;
  if (tensor < 0) {
    vtb__fill(c, out, k_(c, g->Z * g->ld_x), 0);
  } else if (g->by_key) {
    vtb__scan_pack_state(g->s, &g->z, tensor, vector, g->square, g->ld_z);
    vtb__transpose_tile(c, g->square, k_(c, g->ld_z), k_(c, g->X), k_(c, g->Z), out,
                        k_(c, g->ld_x));
  } else {
    vtb__scan_pack_state(g->s, &g->x, tensor, vector, out, g->ld_x);
  }
}

static void store_state(const backward *g, LLVMValueRef state, int tensor, int vector) {
  vtb_cpu *c = g->s->c;
  if (g->by_key) {
    vtb__transpose_tile(c, state, k_(c, g->ld_x), k_(c, g->Z), k_(c, g->X), g->square,
                        k_(c, g->ld_z));
    vtb__scan_unpack_state(g->s, &g->z, tensor, vector, g->square, g->ld_z);
  } else {
    vtb__scan_unpack_state(g->s, &g->x, tensor, vector, state, g->ld_x);
  }
}

/* Tokens of sub-block i of the n tokens of a chunk. */
static LLVMValueRef sub_length(const backward *g, LLVMValueRef i, LLVMValueRef n) {
  vtb_cpu *c = g->s->c;
  return vtb_cpu_min(c, sub(c, n, vtb_cpu_mul(c, i, VTB__SUB)), k_(c, VTB__SUB));
}

/* ---- pass 1: states before the chunks -------------------------------------------------------- */

static void run_forward(const backward *g) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  load_state(g, s->of.at.s0, s->of.at.n0, g->states);
  if (g->n_chunks == 1) return;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 1), k_(c, g->n_chunks), k_(c, 1));
  LLVMValueRef before = vtb_cpu_add(c, l.i, k_(c, -1)), state = state_at(g, g->states, l.i);
  copy_state(g, state_at(g, g->states, before), state);
  vtb_cpu_for i = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->n_subs), k_(c, 1));
  LLVMValueRef t0 =
      vtb_cpu_add(c, vtb_cpu_mul(c, before, s->of.chunk), vtb_cpu_mul(c, i.i, VTB__SUB));
  advance(g, state, state, t0, sub_length(g, i.i, k_(c, s->of.chunk)));
  vtb_cpu_for_end(c, &i);
  vtb_cpu_for_end(c, &l);
}

/* ---- pass 2 ---------------------------------------------------------------------------------- */

/* passing = whole o (sum over z of S o G); G *= whole. */
static void pass_through(const backward *g, LLVMValueRef state) {
  vtb_cpu *c = g->s->c;
  vtb_cpu_for x = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->n_x), k_(c, c->width));
  LLVMValueRef whole = get(c, g->whole, x.i);
  vtb_cpu_for z = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->Z), k_(c, 1));
  LLVMValueRef sum = vtb_cpu_carry(c, &z, LLVMConstNull(c->vf32));
  LLVMValueRef at = vtb_cpu_add(c, vtb_cpu_mul(c, z.i, g->ld_x), x.i),
               kept = get(c, g->adjoint, at);
  kept = LLVMBuildFMul(c->b, kept, whole, "");
  put(c, kept, g->adjoint, at);
  vtb_cpu_carry_next(&z, 0, vtb_cpu_fma(c, get(c, state, at), kept, sum));
  vtb_cpu_for_end(c, &z);
  put(c, vtb_cpu_carried(&z, 0), g->passing, x.i);
  vtb_cpu_for_end(c, &x);
}

/* Adds what comes through the states to da and db; inner becomes dd. */
static void finish_rows(const backward *g, LLVMValueRef n) {
  vtb_cpu *c = g->s->c;
  vtb_cpu_for x = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->n_x), k_(c, c->width));
  LLVMValueRef passing = get(c, g->passing, x.i);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef before = vtb_cpu_carry(c, &l, passing);
  LLVMValueRef at = vtb_cpu_add(c, vtb_cpu_mul(c, l.i, g->ld_x), x.i), ge = get(c, g->ge, at);
  put(c, LLVMBuildFAdd(c->b, get(c, g->inner, at), before, ""), g->inner, at);
  put(c, vtb_cpu_fma(c, get(c, g->suf, at), ge, get(c, g->db, at)), g->db, at);
  vtb_cpu_carry_next(&l, 0, vtb_cpu_fma(c, get(c, g->bx, at), ge, before));
  vtb_cpu_for_end(c, &l);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef after = vtb_cpu_carry(c, &r, LLVMConstNull(c->vf32));
  at = vtb_cpu_add(c, vtb_cpu_mul(c, sub(c, vtb_cpu_add(c, n, k_(c, -1)), r.i), g->ld_x), x.i);
  LLVMValueRef sc = get(c, g->sc, at);
  after = vtb_cpu_fma(c, get(c, g->ax, at), sc, after);
  put(c, vtb_cpu_fma(c, get(c, g->pre, at), sc, get(c, g->da, at)), g->da, at);
  LLVMValueRef terms = LLVMBuildFAdd(c->b, get(c, g->inner, at), after, "");
  put(c, LLVMBuildFDiv(c->b, terms, get(c, g->d, at), ""), g->inner, at);
  vtb_cpu_carry_next(&r, 0, after);
  vtb_cpu_for_end(c, &r);
  vtb_cpu_for_end(c, &x);
}

/* Rows of x [SUB, ld] as columns [n_cols, SUB]. */
static void transposed(const backward *g, LLVMValueRef x, int64_t ld, LLVMValueRef n,
                       int64_t n_cols, LLVMValueRef out) {
  vtb_cpu *c = g->s->c;
  vtb__transpose_tile(c, x, k_(c, ld), n, k_(c, n_cols), out, k_(c, VTB__SUB));
}

/* out_zt = S A^T + (c or e)^T (M or M^T), [Z, SUB], to a tensor with rows along z. */
static void store_along_z(const backward *g, LLVMValueRef state, LLVMValueRef at, LLVMValueRef rows,
                          LLVMValueRef m, LLVMValueRef t0, LLVMValueRef n, int tensor) {
  vtb_cpu *c = g->s->c;
  product_sub(g, state, g->ld_x, 1, at, 0, g->out_zt, k_(c, g->Z), n, k_(c, g->X));
  product_sub(g, rows, 1, g->ld_z, m, 1, g->out_zt, k_(c, g->Z), n, n);
  vtb__transpose_tile(c, g->out_zt, k_(c, VTB__SUB), k_(c, g->Z), n, g->out_z, k_(c, g->ld_z));
  vtb__scan_unpack(g->s, &g->z, tensor, -1, t0, n, g->out_z, g->ld_z);
}

static void sub_block(const backward *g, LLVMValueRef t0, LLVMValueRef n, LLVMValueRef state) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  vtb__decays d = decays_of(g, n);
  load_keys(g, t0, n);
  pack(g, &g->x, g->a_at, t0, n, g->a);
  pack(g, &g->z, g->c_at, t0, n, g->cz);
  vtb__rows_times(c, g->ax, g->a, g->pre, g->ld_x, g->ld_x, n, d.n_vectors);
  transposed(g, g->e, g->ld_z, n, g->Z, g->et);
  product_sub(g, g->cz, g->ld_z, 1, g->et, 0, g->n, n, n, k_(c, g->Z));
  transposed(g, g->b, g->ld_x, n, g->X, g->bt);
  vtb__direct_scores(c, &d, g->X, g->a, g->bt, VTB__SUB, g->m, VTB__SUB);
  vtb__direct_grads(c, &d, g->n, VTB__SUB, g->a, g->b, g->da, g->db, g->inner);
  product(g, g->cz, g->ld_z, 1, state, 0, g->sc, n, k_(c, g->Z));
  product(g, g->e, g->ld_z, 1, g->adjoint, 0, g->ge, n, k_(c, g->Z));
  store_along_z(g, g->adjoint, g->bt, g->cz, g->m, t0, n, g->de_at);
  if (g->dc_at >= 0) {
    transposed(g, g->ax, g->ld_x, n, g->X, g->at);
    transposed(g, g->m, VTB__SUB, n, VTB__SUB, g->mt);
    store_along_z(g, state, g->at, g->e, g->mt, t0, n, g->dc_at);
  }
  pass_through(g, state);
  finish_rows(g, n);
  product(g, g->cz, 1, g->ld_z, g->ax, 1, g->adjoint, k_(c, g->Z), n);
  if (g->da_at >= 0) vtb__scan_unpack(s, &g->x, g->da_at, -1, t0, n, g->da, g->ld_x);
  vtb__scan_unpack(s, &g->x, g->db_at, -1, t0, n, g->db, g->ld_x);
  vtb__scan_unpack(s, &g->x, s->of.at.dd, -1, t0, n, g->inner, g->ld_x);
}

static void chunk(const backward *g, LLVMValueRef number) {
  vtb__cpu_scan *s = g->s;
  vtb_cpu *c = s->c;
  LLVMValueRef t0 = vtb_cpu_mul(c, number, s->of.chunk),
               n = vtb_cpu_min(c, sub(c, k_(c, s->of.n_tokens), t0), k_(c, s->of.chunk));
  LLVMValueRef n_subs = vtb_cpu_div(c, vtb_cpu_add(c, n, k_(c, VTB__SUB - 1)), VTB__SUB);
  copy_state(g, state_at(g, g->states, number), g->subs);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 1), n_subs, k_(c, 1));
  LLVMValueRef before = vtb_cpu_add(c, l.i, k_(c, -1));
  advance(g, state_at(g, g->subs, before), state_at(g, g->subs, l.i),
          vtb_cpu_add(c, t0, vtb_cpu_mul(c, before, VTB__SUB)), k_(c, VTB__SUB));
  vtb_cpu_for_end(c, &l);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), n_subs, k_(c, 1));
  LLVMValueRef i = sub(c, vtb_cpu_add(c, n_subs, k_(c, -1)), r.i);
  sub_block(g, vtb_cpu_add(c, t0, vtb_cpu_mul(c, i, VTB__SUB)), sub_length(g, i, n),
            state_at(g, g->subs, i));
  vtb_cpu_for_end(c, &r);
}

static void take_sides(backward *g) {
  vtb__cpu_scan *s = g->s;
  const vtb_scan_tensors *t = &s->of.at;
  vtb__cols k = vtb__cols_all(s->c, s->of.K, false),
            v = vtb__cols_all(s->c, s->of.V, s->of.normalizer);
  g->by_key = s->of.decay->axes == VTB_ALONG_KEY;
  g->x = g->by_key ? k : v, g->z = g->by_key ? v : k;
  g->a_at = g->by_key ? t->q : t->dy, g->b_at = g->by_key ? t->k : t->v;
  g->c_at = g->by_key ? t->dy : t->q, g->e_at = g->by_key ? t->v : t->k;
  g->da_at = g->by_key ? t->dq : -1, g->db_at = g->by_key ? t->dk : t->dv;
  g->dc_at = g->by_key ? -1 : t->dq, g->de_at = g->by_key ? t->dv : t->dk;
  g->X = g->x.n, g->Z = g->z.n + g->z.extra;
}

/* Beyond this length a chunk keeps more states inside than it saves before the others. */
static int64_t longest_chunk(int64_t n_tokens) {
  int64_t n_subs = 1;
  while (n_subs * n_subs * VTB__SUB < n_tokens) n_subs++;
  return n_subs * VTB__SUB;
}

void vtb__linscan_grad_vector(vtb__cpu_scan *s, const vtb_inst *inst) {
  vtb_cpu *c = s->c;
  if (s->of.chunk > longest_chunk(s->of.n_tokens)) s->of.chunk = longest_chunk(s->of.n_tokens);
  s->t = vtb_cpu_task_begin(c, inst, "grad", s->of.n_batch * s->of.n_heads, 1);
  s->batch = vtb_cpu_div(c, s->t->index, s->of.n_heads);
  s->head = vtb_cpu_rem(c, s->t->index, s->of.n_heads);
  backward g = {.s = s};
  take_sides(&g);
  g.n_x = vtb__padded(c, g.X);
  g.ld_x = vtb__row_length(c, g.X);
  g.ld_z = vtb__row_length(c, g.Z);
  g.n_chunks = (s->of.n_tokens + s->of.chunk - 1) / s->of.chunk;
  g.n_subs = (s->of.chunk + VTB__SUB - 1) / VTB__SUB;
  reserve(&g);
  run_forward(&g);
  load_state(&g, s->of.at.ds, s->of.at.dn, g.adjoint);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g.n_chunks), k_(c, 1));
  chunk(&g, sub(c, k_(c, g.n_chunks - 1), l.i));
  vtb_cpu_for_end(c, &l);
  if (s->of.init) store_state(&g, g.adjoint, s->of.at.ds0, s->of.at.dn0);
  vtb_cpu_task_end(c, s->t);
}

/* attention_grad: dq, dk, dv and, if asked for, the adjoint of the bias.
 *
 * An index of the first task is one batch entry and one head of keys, with the query heads that
 * read it one after the other. Blocks of queries meet tiles of keys; of the tile of scores come the
 * probabilities P = exp(s - lse) and dS = P o (dY V^T - delta), delta = dy . y - dlse, and of these
 *   dV += P^T dY        dK += scale dS^T Q        dQ += scale dS K
 * with dK and dV of the whole head in scratch memory. The bias is shared by many heads and batch
 * entries: a second task makes its adjoint, an index being a block of rows of the bias, by the same
 * two products once more.
 */
#include "codegen/cpu/attention/attention.h"

typedef struct backward {
  vtb__attention g;
  LLVMValueRef k, kt, vt, dk, dv;       /* of a head */
  LLVMValueRef q, dy, dq, s, ds;        /* of a block */
  LLVMValueRef lse, delta, row, values; /* of a block; one row; a tile's rows of values */
} backward;

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }
static LLVMValueRef load(vtb_cpu *c, LLVMValueRef at, LLVMValueRef i) {
  return vtb_cpu_load(c, vtb_cpu_at(c, at, i), 1);
}
static LLVMValueRef row_of(vtb_cpu *c, LLVMValueRef at, LLVMValueRef i, int64_t ld) {
  return vtb_cpu_at(c, at, vtb_cpu_mul(c, i, ld));
}

static void reserve(backward *w, bool whole) {
  vtb__attention *g = &w->g;
  vtb_cpu *c = g->c;
  const vtb_attention *a = &g->a;
  int64_t transposed = g->n_tiles * g->ld_s;
  w->kt = vtb__attention_scratch(g, transposed * a->width);
  w->vt = vtb__attention_scratch(g, transposed * a->value_width);
  w->q = vtb__attention_scratch(g, g->block * g->ld_k);
  w->dy = vtb__attention_scratch(g, g->block * g->ld_v);
  w->s = vtb__attention_scratch(g, g->block * g->ld_s);
  w->ds = vtb__attention_scratch(g, g->block * g->ld_s);
  w->lse = vtb__attention_scratch(g, vtb__padded(c, g->block));
  w->delta = vtb__attention_scratch(g, vtb__padded(c, g->block));
  w->row = vtb__attention_scratch(g, g->ld_v);
  w->values = vtb__attention_scratch(g, g->tile * (g->ld_v > g->ld_k ? g->ld_v : g->ld_k));
  if (!whole) return;
  w->k = vtb__attention_scratch(g, a->n_keys * g->ld_k);
  w->dk = vtb__attention_scratch(g, a->n_keys * g->ld_k);
  w->dv = vtb__attention_scratch(g, a->n_keys * g->ld_v);
  w->dq = vtb__attention_scratch(g, g->block * g->ld_k);
}

/* ---- blocks and tiles ------------------------------------------------------------------------ */

/* In the order of the products, so that a query that sees one key (P = 1, y = v) has dS = 0
 * exactly. */
static LLVMValueRef dot(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y, int64_t n) {
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, n), k_(c, 1));
  LLVMValueRef sum = vtb_cpu_carry(c, &l, vtb_cpu_f32(c, 0));
  vtb_cpu_carry_next(&l, 0, vtb_cpu_fma(c, load(c, x, l.i), load(c, y, l.i), sum));
  vtb_cpu_for_end(c, &l);
  return vtb_cpu_carried(&l, 0);
}

/* Queries, their adjoints, lse and delta of the block. */
static void pack_block(backward *w) {
  vtb__attention *g = &w->g;
  vtb_cpu *c = g->c;
  const vtb_attention *a = &g->a;
  vtb__attention_pack(g, g->a.q, g->head, a->width, g->i0, g->rows, w->q, g->ld_k);
  vtb__attention_turn(g, &g->a.turn[0], g->head, g->i0, g->rows, w->q, g->ld_k);
  vtb__attention_pack(g, a->dy, g->head, a->value_width, g->i0, g->rows, w->dy, g->ld_v);
  vtb__cols cols = vtb__cols_all(c, a->value_width, false);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), g->rows, k_(c, 1));
  LLVMValueRef i = vtb_cpu_add(c, g->i0, r.i);
  vtb__row_pack(c, &cols, vtb__attention_row(g, a->y, i, g->head), NULL, NULL, w->row);
  LLVMValueRef delta = dot(c, row_of(c, w->dy, r.i, g->ld_v), w->row, a->value_width);
  if (a->dlse >= 0)
    delta = LLVMBuildFSub(c->b, delta,
                          vtb_cpu_load(c, vtb__attention_row(g, a->dlse, i, g->head), 1), "");
  vtb_cpu_store(c, delta, vtb_cpu_at(c, w->delta, r.i));
  vtb_cpu_store(c, vtb_cpu_load(c, vtb__attention_row(g, a->lse, i, g->head), 1),
                vtb_cpu_at(c, w->lse, r.i));
  vtb_cpu_for_end(c, &r);
}

/* s = P and ds = dS for the tile; or ds added to rows of the bias's adjoint, tensor `dbias`. */
static void probabilities(backward *w, LLVMValueRef tile, int dbias) {
  vtb__attention *g = &w->g;
  vtb_cpu *c = g->c;
  const vtb_attention *a = &g->a;
  LLVMValueRef ld_s = k_(c, g->ld_s), zero = vtb_cpu_f32(c, 0), unit = k_(c, 1);
  vtb__smallgemm(c, w->q, k_(c, g->ld_k), unit, vtb__attention_tile_at(g, w->kt, tile, a->width),
                 ld_s, zero, w->s, ld_s, g->rows, g->vectors, k_(c, a->width));
  vtb__smallgemm(c, w->dy, k_(c, g->ld_v), unit,
                 vtb__attention_tile_at(g, w->vt, tile, a->value_width), ld_s, zero, w->ds, ld_s,
                 g->rows, g->vectors, k_(c, a->value_width));
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), g->rows, unit);
  LLVMValueRef i = vtb_cpu_add(c, g->i0, r.i);
  LLVMValueRef bias = a->bias >= 0 ? vtb__attention_bias_row(g, a->bias, i) : NULL;
  LLVMValueRef to = dbias >= 0 ? vtb__attention_bias_row(g, dbias, i) : NULL;
  LLVMValueRef s_row = row_of(c, w->s, r.i, g->ld_s), ds_row = row_of(c, w->ds, r.i, g->ld_s);
  LLVMValueRef lse = vtb_cpu_splat(c, load(c, w->lse, r.i), c->width);
  LLVMValueRef delta = vtb_cpu_splat(c, load(c, w->delta, r.i), c->width);
  vtb_cpu_for j =
      vtb_cpu_for_begin(c, k_(c, 0), vtb_cpu_mul(c, g->vectors, c->width), k_(c, c->width));
  LLVMValueRef s_at = vtb_cpu_at(c, s_row, j.i), ds_at = vtb_cpu_at(c, ds_row, j.i);
  LLVMValueRef p = vtb__attention_score(g, vtb_cpu_load(c, s_at, c->width), bias, i, j.i);
  p = vtb_cpu_exp(c, LLVMBuildFSub(c->b, p, lse, ""));
  LLVMValueRef ds =
      LLVMBuildFMul(c->b, p, LLVMBuildFSub(c->b, vtb_cpu_load(c, ds_at, c->width), delta, ""), "");
  if (to) {
    LLVMValueRef real = vtb_cpu_mask(c, LLVMBuildNSWSub(c->b, g->cols, j.i, ""), c->width),
                 at = vtb_cpu_at(c, to, j.i);
    ds = LLVMBuildFAdd(c->b, vtb_cpu_load_masked(c, at, real, c->width), ds, "");
    vtb_cpu_store_masked(c, ds, at, real);
  } else {
    vtb_cpu_store(c, p, s_at);
    vtb_cpu_store(c, ds, ds_at);
  }
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &r);
}

/* out[m, n] += a[k, m]^T b[k, n], a with rows of scores. */
static void add_transposed(const backward *w, LLVMValueRef a, LLVMValueRef b, LLVMValueRef out,
                           int64_t ld) {
  const vtb__attention *g = &w->g;
  vtb_cpu *c = g->c;
  vtb__smallgemm(c, a, k_(c, 1), k_(c, g->ld_s), b, k_(c, ld), vtb_cpu_f32(c, 1),
                 row_of(c, out, g->j0, ld), k_(c, ld), g->cols, k_(c, ld / c->width), g->rows);
}

static void unpack(const vtb__attention *g, LLVMValueRef rows, int64_t ld, int64_t width,
                   double factor, int tensor, LLVMValueRef head, LLVMValueRef from,
                   LLVMValueRef n) {
  vtb_cpu *c = g->c;
  vtb__cols cols = vtb__cols_all(c, width, false);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef row = row_of(c, rows, r.i, ld);
  if (factor != 1) {
    vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), k_(c, ld), k_(c, c->width));
    LLVMValueRef at = vtb_cpu_at(c, row, j.i), x = vtb_cpu_load(c, at, c->width);
    vtb_cpu_store(c, LLVMBuildFMul(c->b, x, vtb_cpu_like(c, x, factor), ""), at);
    vtb_cpu_for_end(c, &j);
  }
  vtb__row_unpack(c, &cols, row, NULL,
                  vtb__attention_row(g, tensor, vtb_cpu_add(c, from, r.i), head));
  vtb_cpu_for_end(c, &r);
}

static void one_block(backward *w, LLVMValueRef block) {
  vtb__attention *g = &w->g;
  vtb_cpu *c = g->c;
  vtb__attention_block(g, block);
  pack_block(w);
  vtb__fill(c, w->dq, k_(c, g->block * g->ld_k), 0);
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), vtb__attention_tiles(g), k_(c, 1));
  vtb__attention_tile(g, t.i);
  probabilities(w, t.i, -1);
  add_transposed(w, w->s, w->dy, w->dv, g->ld_v);
  add_transposed(w, w->ds, w->q, w->dk, g->ld_k);
  vtb__smallgemm(c, w->ds, k_(c, g->ld_s), k_(c, 1), row_of(c, w->k, g->j0, g->ld_k),
                 k_(c, g->ld_k), vtb_cpu_f32(c, 1), w->dq, k_(c, g->ld_k), g->rows,
                 k_(c, g->ld_k / c->width), g->cols);
  vtb_cpu_for_end(c, &t);
  vtb__attention_turn_back(g, &g->a.turn[0], g->head, g->i0, g->rows, w->dq, g->ld_k);
  unpack(g, w->dq, g->ld_k, g->a.width, g->a.scale, g->a.result[0], g->head, g->i0, g->rows);
}

static void transpose_head(backward *w, LLVMValueRef kv) {
  vtb__attention *g = &w->g;
  const vtb_attention *a = &g->a;
  int64_t width = g->c->width;
  bool packed = a->width % width || g->a.turn[1].width;
  vtb__attention_transpose(g, g->a.k, kv, a->width, &g->a.turn[1], packed ? w->values : NULL,
                           g->ld_k, w->kt);
  vtb__attention_transpose(g, g->a.v, kv, a->value_width, NULL,
                           a->value_width % width ? w->values : NULL, g->ld_v, w->vt);
}

static void inputs(vtb_cpu *c, const vtb_inst *inst, const vtb__attention *of) {
  backward w = {.g = *of};
  vtb__attention *g = &w.g;
  const vtb_attention *a = &g->a;
  g->t = vtb_cpu_task_begin(c, inst, "attention_grad", a->n_batch * a->kv_heads, 1);
  reserve(&w, true);
  LLVMValueRef keys = k_(c, a->n_keys), zero = k_(c, 0);
  LLVMValueRef kv = vtb_cpu_rem(c, g->t->index, a->kv_heads);
  g->batch = vtb_cpu_div(c, g->t->index, a->kv_heads);
  transpose_head(&w, kv);
  vtb__attention_pack(g, g->a.k, kv, a->width, zero, keys, w.k, g->ld_k);
  vtb__attention_turn(g, &g->a.turn[1], kv, zero, keys, w.k, g->ld_k);
  vtb__fill(c, w.dk, k_(c, a->n_keys * g->ld_k), 0);
  vtb__fill(c, w.dv, k_(c, a->n_keys * g->ld_v), 0);
  int64_t shared = a->n_heads / a->kv_heads;
  vtb_cpu_for heads = vtb_cpu_for_begin(c, zero, k_(c, shared), k_(c, 1));
  g->head = vtb_cpu_add(c, vtb_cpu_mul(c, kv, shared), heads.i);
  vtb_cpu_for blocks = vtb_cpu_for_begin(c, zero, k_(c, g->n_blocks), k_(c, 1));
  one_block(&w, blocks.i);
  vtb_cpu_for_end(c, &blocks);
  vtb_cpu_for_end(c, &heads);
  vtb__attention_turn_back(g, &g->a.turn[1], kv, zero, keys, w.dk, g->ld_k);
  unpack(g, w.dk, g->ld_k, a->width, a->scale, a->result[1], kv, zero, keys);
  unpack(g, w.dv, g->ld_v, a->value_width, 1, a->result[2], kv, zero, keys);
  vtb_cpu_task_end(c, g->t);
}

/* ---- the bias -------------------------------------------------------------------------------- */

/* Zeros in the block's rows of the bias's adjoint. */
static void clear_rows(backward *w) {
  vtb__attention *g = &w->g;
  vtb_cpu *c = g->c;
  g->j0 = k_(c, 0);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), g->rows, k_(c, 1));
  LLVMValueRef row = vtb__attention_bias_row(g, g->a.result[3], vtb_cpu_add(c, g->i0, r.i));
  vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->a.n_keys), k_(c, 1));
  vtb_cpu_store(c, vtb_cpu_f32(c, 0), vtb_cpu_at(c, row, j.i));
  vtb_cpu_for_end(c, &j);
  vtb_cpu_for_end(c, &r);
}

static void bias(vtb_cpu *c, const vtb_inst *inst, const vtb__attention *of) {
  backward w = {.g = *of};
  vtb__attention *g = &w.g;
  const vtb_attention *a = &g->a;
  bool by_batch = a->bias_batch > 1;
  g->t = vtb_cpu_task_begin(c, inst, "attention_bias_grad",
                            a->bias_batch * a->bias_heads * g->n_blocks, 1);
  reserve(&w, false);
  LLVMValueRef outer = vtb_cpu_div(c, g->t->index, g->n_blocks), zero = k_(c, 0), one = k_(c, 1);
  LLVMValueRef batch = vtb_cpu_div(c, outer, a->bias_heads),
               head = vtb_cpu_rem(c, outer, a->bias_heads);
  vtb__attention_block(g, vtb_cpu_rem(c, g->t->index, g->n_blocks));
  g->batch = batch, g->head = head;
  clear_rows(&w);
  vtb_cpu_for b = vtb_cpu_for_begin(c, by_batch ? batch : zero,
                                    by_batch ? vtb_cpu_add(c, batch, one) : k_(c, a->n_batch), one);
  vtb_cpu_for h = vtb_cpu_for_begin(c, head, k_(c, a->n_heads), k_(c, a->bias_heads));
  g->batch = b.i, g->head = h.i;
  transpose_head(&w, vtb__attention_kv_head(g));
  pack_block(&w);
  vtb_cpu_for t = vtb_cpu_for_begin(c, zero, vtb__attention_tiles(g), one);
  vtb__attention_tile(g, t.i);
  probabilities(&w, t.i, a->result[3]);
  vtb_cpu_for_end(c, &t);
  vtb_cpu_for_end(c, &h);
  vtb_cpu_for_end(c, &b);
  vtb_cpu_task_end(c, g->t);
}

void vtb__cpu_attention_grad(vtb_cpu *c, const vtb_inst *inst) {
  vtb__attention g = vtb__attention_make(c, inst);
  inputs(c, inst, &g);
  if (g.a.wants_dbias) bias(c, inst, &g);
}

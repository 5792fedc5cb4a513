/* attention: softmax(scale q k^T + bias) v without a matrix of scores in memory.
 *
 * An index of the task is one batch entry, one head and some blocks of queries; at batch 1 with few
 * heads the blocks of a head are shared out too. Keys (transposed) and values of the head are
 * packed into scratch memory once; then each block of queries meets one tile of keys after the
 * other, with the maximum m, the sum l and the output row carried and rescaled from tile to tile
 * (online softmax; one tile, the usual case at vision sizes, rescales nothing).
 */
#include "codegen/cpu/attention/attention.h"
#include "ir/ops.h"

#include <float.h>
#include <math.h>

#define QUERIES 48   /* a block at most: a multiple of both tile heights (6 and 8) of the product */
#define KEYS 256     /* a tile at most: its keys, values and scores stay in L2 */
#define MIN_TASKS 16 /* indices of the task, so that few heads keep several threads busy */
#define TASK_FLOPS 4e5 /* below which a piece for a thread of its own does not pay */

static LLVMValueRef k_(vtb_cpu *c, int64_t v) { return vtb_cpu_i64(c, v); }
static LLVMValueRef sub(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildNSWSub(c->b, x, y, "");
}
static int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

/* ---- shared with the adjoint ----------------------------------------------------------------- */

vtb__attention vtb__attention_make(vtb_cpu *c, const vtb_inst *inst) {
  vtb__attention g = {.c = c, .a = vtb_attention_of(inst)};
  int64_t rows = c->width >= 16 ? 8 : 6;
  g.n_blocks = ceil_div(g.a.n_queries, QUERIES);
  g.block = ceil_div(ceil_div(g.a.n_queries, g.n_blocks), rows) * rows;
  g.n_blocks = ceil_div(g.a.n_queries, g.block);
  g.n_tiles = ceil_div(g.a.n_keys, KEYS);
  g.tile = vtb__padded(c, ceil_div(g.a.n_keys, g.n_tiles));
  g.n_tiles = ceil_div(g.a.n_keys, g.tile);
  g.ld_s = vtb__row_length(c, g.tile);
  g.ld_k = vtb__padded(c, g.a.width);
  g.ld_v = vtb__padded(c, g.a.value_width);
  return g;
}

LLVMValueRef vtb__attention_scratch(vtb__attention *g, int64_t floats) {
  return vtb_cpu_scratch(g->c, g->t, floats * (int64_t)sizeof(float));
}

LLVMValueRef vtb__attention_kv_head(const vtb__attention *g) {
  return vtb_cpu_div(g->c, g->head, g->a.n_heads / g->a.kv_heads);
}

LLVMValueRef vtb__attention_row(const vtb__attention *g, int tensor, LLVMValueRef i,
                                LLVMValueRef head) {
  return vtb_cpu_element(g->c, &g->t->t[tensor], (LLVMValueRef[]){g->batch, i, head}, 3);
}

void vtb__attention_pack(const vtb__attention *g, int tensor, LLVMValueRef head, int64_t width,
                         LLVMValueRef from, LLVMValueRef n, LLVMValueRef out, int64_t ld) {
  vtb_cpu *c = g->c;
  vtb__cols cols = vtb__cols_all(c, width, false);
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef row = vtb__attention_row(g, tensor, vtb_cpu_add(c, from, l.i), head);
  vtb__row_pack(c, &cols, row, NULL, NULL, vtb_cpu_at(c, out, vtb_cpu_mul(c, l.i, ld)));
  vtb_cpu_for_end(c, &l);
}

/* Lanes 2p and 2p+1 of the result: lane p of half. */
static LLVMValueRef twice(vtb_cpu *c, LLVMValueRef half) {
  LLVMValueRef lane[16];
  for (int l = 0; l < c->width; l++) lane[l] = LLVMConstInt(c->i32, (unsigned)l / 2, 0);
  return LLVMBuildShuffleVector(c->b, half, half, LLVMConstVector(lane, (unsigned)c->width), "");
}

/* x c + swap(x) s, swap exchanging neighbours, s negative in even lanes. */
static LLVMValueRef turn_vector(vtb_cpu *c, LLVMValueRef x, LLVMValueRef cosines,
                                LLVMValueRef sines) {
  LLVMValueRef lane[16], sign[16];
  for (int l = 0; l < c->width; l++) {
    lane[l] = LLVMConstInt(c->i32, (unsigned)l ^ 1u, 0);
    sign[l] = LLVMConstReal(c->f32, l % 2 ? 1 : -1);
  }
  LLVMValueRef swapped =
      LLVMBuildShuffleVector(c->b, x, x, LLVMConstVector(lane, (unsigned)c->width), "");
  LLVMValueRef s =
      LLVMBuildFMul(c->b, twice(c, sines), LLVMConstVector(sign, (unsigned)c->width), "");
  return vtb_cpu_fma(c, swapped, s, LLVMBuildFMul(c->b, x, twice(c, cosines), ""));
}

static void turn_pair(vtb_cpu *c, LLVMValueRef row, LLVMValueRef cosine, LLVMValueRef sine,
                      int64_t p) {
  LLVMValueRef first = vtb_cpu_at(c, row, k_(c, 2 * p)),
               second = vtb_cpu_at(c, row, k_(c, 2 * p + 1));
  LLVMValueRef x = vtb_cpu_load(c, first, 1), y = vtb_cpu_load(c, second, 1);
  vtb_cpu_store(
      c, vtb_cpu_fma(c, LLVMBuildFNeg(c->b, y, ""), sine, LLVMBuildFMul(c->b, x, cosine, "")),
      first);
  vtb_cpu_store(c, vtb_cpu_fma(c, x, sine, LLVMBuildFMul(c->b, y, cosine, "")), second);
}

static void turn_rows(const vtb__attention *g, const vtb_turn *t, LLVMValueRef head,
                      LLVMValueRef from, LLVMValueRef n, LLVMValueRef rows, int64_t ld, bool back) {
  vtb_cpu *c = g->c;
  if (!t || !t->width) return;
  int64_t whole = t->width / c->width * c->width;
  const vtb_cpu_tensor *cosine = &g->t->t[t->cosines], *sine = &g->t->t[t->sines];
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), n, k_(c, 1));
  LLVMValueRef index[] = {vtb_cpu_add(c, from, l.i),
                          cosine->type->dim[1].size > 1 ? head : k_(c, 0)};
  LLVMValueRef cosines = vtb_cpu_element(c, cosine, index, 2),
               sines = vtb_cpu_element(c, sine, index, 2);
  LLVMValueRef row = vtb_cpu_at(c, rows, vtb_cpu_mul(c, l.i, ld));
  vtb_cpu_for j = vtb_cpu_for_begin(c, k_(c, 0), k_(c, whole), k_(c, c->width));
  LLVMValueRef at = vtb_cpu_at(c, row, j.i), half = vtb_cpu_div(c, j.i, 2);
  LLVMValueRef cs = vtb_cpu_load(c, vtb_cpu_at(c, cosines, half), c->width / 2);
  LLVMValueRef ss = vtb_cpu_load(c, vtb_cpu_at(c, sines, half), c->width / 2);
  if (back) ss = LLVMBuildFNeg(c->b, ss, "");
  vtb_cpu_store(c, turn_vector(c, vtb_cpu_load(c, at, c->width), cs, ss), at);
  vtb_cpu_for_end(c, &j);
  for (int64_t p = whole / 2; p < t->width / 2; p++) {
    LLVMValueRef s = vtb_cpu_load(c, vtb_cpu_at(c, sines, k_(c, p)), 1);
    turn_pair(c, row, vtb_cpu_load(c, vtb_cpu_at(c, cosines, k_(c, p)), 1),
              back ? LLVMBuildFNeg(c->b, s, "") : s, p);
  }
  vtb_cpu_for_end(c, &l);
}

void vtb__attention_turn(const vtb__attention *g, const vtb_turn *t, LLVMValueRef head,
                         LLVMValueRef from, LLVMValueRef n, LLVMValueRef rows, int64_t ld) {
  turn_rows(g, t, head, from, n, rows, ld, false);
}

void vtb__attention_turn_back(const vtb__attention *g, const vtb_turn *t, LLVMValueRef head,
                              LLVMValueRef from, LLVMValueRef n, LLVMValueRef rows, int64_t ld) {
  turn_rows(g, t, head, from, n, rows, ld, true);
}

void vtb__attention_transpose(vtb__attention *g, int tensor, LLVMValueRef head, int64_t width,
                              const vtb_turn *turn, LLVMValueRef rows, int64_t ld,
                              LLVMValueRef out) {
  vtb_cpu *c = g->c;
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, g->n_tiles), k_(c, 1));
  vtb__attention_tile(g, l.i);
  LLVMValueRef from, to = vtb__attention_tile_at(g, out, l.i, width);
  if (rows) {
    vtb__attention_pack(g, tensor, head, width, g->j0, g->cols, rows, ld);
    vtb__attention_turn(g, turn, head, g->j0, g->cols, rows, ld);
    from = rows;
  } else {
    from = vtb__attention_row(g, tensor, g->j0, head);
    ld = g->t->t[tensor].stride[1];
  }
  vtb__transpose_tile(c, from, k_(c, ld), g->cols, k_(c, width), to, k_(c, g->ld_s));
  vtb_cpu_for_end(c, &l);
}

void vtb__attention_block(vtb__attention *g, LLVMValueRef block) {
  vtb_cpu *c = g->c;
  g->i0 = vtb_cpu_mul(c, block, g->block);
  g->rows = vtb_cpu_min(c, sub(c, k_(c, g->a.n_queries), g->i0), k_(c, g->block));
}

LLVMValueRef vtb__attention_tiles(const vtb__attention *g) {
  vtb_cpu *c = g->c;
  LLVMValueRef all = k_(c, g->n_tiles);
  if (!g->a.causal || g->n_tiles == 1) return all;
  LLVMValueRef seen =
      vtb_cpu_add(c, vtb_cpu_add(c, g->i0, g->rows), k_(c, g->a.n_keys - g->a.n_queries));
  LLVMValueRef positive = LLVMBuildICmp(c->b, LLVMIntSGT, seen, k_(c, 0), "");
  seen = LLVMBuildSelect(c->b, positive, seen, k_(c, 1), "");
  return vtb_cpu_min(c, all, vtb_cpu_div(c, vtb_cpu_add(c, seen, k_(c, g->tile - 1)), g->tile));
}

void vtb__attention_tile(vtb__attention *g, LLVMValueRef tile) {
  vtb_cpu *c = g->c;
  g->j0 = vtb_cpu_mul(c, tile, g->tile);
  g->cols = vtb_cpu_min(c, sub(c, k_(c, g->a.n_keys), g->j0), k_(c, g->tile));
  g->vectors = vtb_cpu_div(c, vtb_cpu_add(c, g->cols, k_(c, c->width - 1)), c->width);
}

LLVMValueRef vtb__attention_tile_at(const vtb__attention *g, LLVMValueRef all, LLVMValueRef tile,
                                    int64_t width) {
  return vtb_cpu_at(g->c, all, vtb_cpu_mul(g->c, tile, width * g->ld_s));
}

LLVMValueRef vtb__attention_bias_row(const vtb__attention *g, int tensor, LLVMValueRef i) {
  vtb_cpu *c = g->c;
  const vtb_cpu_tensor *t = &g->t->t[tensor];
  LLVMValueRef index[4] = {NULL, NULL, NULL, NULL};
  int r = t->type->rank;
  index[r - 1] = g->j0;
  index[r - 2] = i;
  if (r >= 3) index[r - 3] = vtb_cpu_rem(c, g->head, g->a.bias_heads);
  if (r == 4) index[0] = g->a.bias_batch > 1 ? g->batch : NULL;
  return vtb_cpu_element(c, t, index, r);
}

/* Lanes that stand at keys: j + lane < n, j and n scalars. */
static LLVMValueRef lanes_below(vtb_cpu *c, LLVMValueRef j, LLVMValueRef n) {
  return vtb_cpu_mask(c, sub(c, n, j), c->width);
}

LLVMValueRef vtb__attention_score(const vtb__attention *g, LLVMValueRef s, LLVMValueRef bias_row,
                                  LLVMValueRef i, LLVMValueRef j) {
  vtb_cpu *c = g->c;
  s = LLVMBuildFMul(c->b, s, vtb_cpu_like(c, s, g->a.scale), "");
  if (!bias_row && !g->a.causal) return s;
  LLVMValueRef low = vtb_cpu_like(c, s, -INFINITY), real = lanes_below(c, j, g->cols);
  if (bias_row)
    s = LLVMBuildFAdd(c->b, s, vtb_cpu_load_masked(c, vtb_cpu_at(c, bias_row, j), real, c->width),
                      "");
  if (g->a.causal) {
    LLVMValueRef seen = vtb_cpu_add(c, sub(c, i, g->j0), k_(c, 1 + g->a.n_keys - g->a.n_queries));
    real = lanes_below(c, j, seen);
  }
  return LLVMBuildSelect(c->b, real, s, low, "");
}

/* ---- forward --------------------------------------------------------------------------------- */

typedef struct forward {
  vtb__attention g;
  LLVMValueRef kt, v, s, o, m, l; /* keys, values; of a block: scores, outputs, maxima, sums */
  LLVMValueRef q;                 /* queries of the block, if they are turned */
} forward;

static LLVMValueRef load(vtb_cpu *c, LLVMValueRef at, LLVMValueRef i) {
  return vtb_cpu_load(c, vtb_cpu_at(c, at, i), 1);
}

static void scale_row(vtb_cpu *c, LLVMValueRef row, int64_t n, LLVMValueRef factor) {
  vtb_cpu_for l = vtb_cpu_for_begin(c, k_(c, 0), k_(c, n), k_(c, c->width));
  LLVMValueRef at = vtb_cpu_at(c, row, l.i), f = vtb_cpu_splat(c, factor, c->width);
  vtb_cpu_store(c, LLVMBuildFMul(c->b, vtb_cpu_load(c, at, c->width), f, ""), at);
  vtb_cpu_for_end(c, &l);
}

/* The scores of one query become exp(score - m), m and l go on, the outputs so far are rescaled. */
static void softmax_row(forward *f, LLVMValueRef r, LLVMValueRef tile) {
  vtb__attention *g = &f->g;
  vtb_cpu *c = g->c;
  LLVMValueRef row = vtb_cpu_at(c, f->s, vtb_cpu_mul(c, r, g->ld_s)), i = vtb_cpu_add(c, g->i0, r);
  LLVMValueRef bias = g->a.bias >= 0 ? vtb__attention_bias_row(g, g->a.bias, i) : NULL;
  LLVMValueRef end = vtb_cpu_mul(c, g->vectors, c->width), before = load(c, f->m, r);
  LLVMValueRef so_far = vtb_cpu_splat(c, before, c->width);
  bool stored = bias || g->a.causal;

  vtb_cpu_for a = vtb_cpu_for_begin(c, k_(c, 0), end, k_(c, c->width));
  LLVMValueRef max = vtb_cpu_carry(c, &a, so_far), at = vtb_cpu_at(c, row, a.i);
  LLVMValueRef x = vtb__attention_score(g, vtb_cpu_load(c, at, c->width), bias, i, a.i);
  if (stored) vtb_cpu_store(c, x, at);
  vtb_cpu_carry_next(&a, 0, vtb_cpu_fmax(c, x, max));
  vtb_cpu_for_end(c, &a);
  LLVMValueRef m = vtb_cpu_hmax(c, vtb_cpu_carried(&a, 0)), low = vtb_cpu_splat(c, m, c->width);

  vtb_cpu_for b = vtb_cpu_for_begin(c, k_(c, 0), end, k_(c, c->width));
  LLVMValueRef sum = vtb_cpu_carry(c, &b, LLVMConstNull(c->vf32));
  at = vtb_cpu_at(c, row, b.i);
  x = vtb_cpu_load(c, at, c->width);
  if (!stored) x = LLVMBuildFMul(c->b, x, vtb_cpu_like(c, x, g->a.scale), "");
  x = vtb_cpu_exp(c, LLVMBuildFSub(c->b, x, low, ""));
  vtb_cpu_store(c, x, at);
  if (!stored && g->a.n_keys % c->width)
    x = LLVMBuildSelect(c->b, lanes_below(c, b.i, g->cols), x, LLVMConstNull(c->vf32), "");
  vtb_cpu_carry_next(&b, 0, LLVMBuildFAdd(c->b, sum, x, ""));
  vtb_cpu_for_end(c, &b);
  LLVMValueRef total = vtb_cpu_hsum(c, vtb_cpu_carried(&b, 0));
  vtb_cpu_store(c, m, vtb_cpu_at(c, f->m, r));
  if (g->n_tiles > 1) {
    LLVMValueRef shrink = vtb_cpu_exp(c, LLVMBuildFSub(c->b, before, m, ""));
    total = vtb_cpu_fma(c, load(c, f->l, r), shrink, total);
    vtb_cpu_if again = vtb_cpu_if_begin(c, LLVMBuildICmp(c->b, LLVMIntSGT, tile, k_(c, 0), ""));
    scale_row(c, vtb_cpu_at(c, f->o, vtb_cpu_mul(c, r, g->ld_v)), g->ld_v, shrink);
    vtb_cpu_if_end(c, &again);
  }
  vtb_cpu_store(c, total, vtb_cpu_at(c, f->l, r));
}

static void one_tile(forward *f, LLVMValueRef tile) {
  vtb__attention *g = &f->g;
  vtb_cpu *c = g->c;
  vtb__attention_tile(g, tile);
  LLVMValueRef q = f->q ? f->q : vtb__attention_row(g, g->a.q, g->i0, g->head);
  LLVMValueRef ld_s = k_(c, g->ld_s), ld_v = k_(c, g->ld_v),
               ld_q = k_(c, f->q ? g->ld_k : g->t->t[g->a.q].stride[1]);
  vtb__smallgemm(c, q, ld_q, k_(c, 1), vtb__attention_tile_at(g, f->kt, tile, g->a.width), ld_s,
                 vtb_cpu_f32(c, 0), f->s, ld_s, g->rows, g->vectors, k_(c, g->a.width));
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), g->rows, k_(c, 1));
  softmax_row(f, r.i, tile);
  vtb_cpu_for_end(c, &r);
  LLVMValueRef first = LLVMBuildICmp(c->b, LLVMIntEQ, tile, k_(c, 0), "");
  LLVMValueRef beta = LLVMBuildSelect(c->b, first, vtb_cpu_f32(c, 0), vtb_cpu_f32(c, 1), "");
  vtb__smallgemm(c, f->s, ld_s, k_(c, 1), vtb_cpu_at(c, f->v, vtb_cpu_mul(c, g->j0, g->ld_v)), ld_v,
                 beta, f->o, ld_v, g->rows, k_(c, g->ld_v / c->width), g->cols);
}

/* y = o / l, lse = m + log l; without any key y = 0, lse = inf. */
static void finish_rows(forward *f, int y, int lse) {
  vtb__attention *g = &f->g;
  vtb_cpu *c = g->c;
  vtb__cols cols = vtb__cols_all(c, g->a.value_width, false);
  vtb_cpu_for r = vtb_cpu_for_begin(c, k_(c, 0), g->rows, k_(c, 1));
  LLVMValueRef l = load(c, f->l, r.i),
               none = LLVMBuildFCmp(c->b, LLVMRealOEQ, l, vtb_cpu_f32(c, 0), "");
  LLVMValueRef inverse = LLVMBuildFDiv(c->b, vtb_cpu_f32(c, 1), l, "");
  LLVMValueRef sum = LLVMBuildFAdd(c->b, load(c, f->m, r.i), vtb_cpu_log(c, l), "");
  inverse = LLVMBuildSelect(c->b, none, vtb_cpu_f32(c, 0), inverse, "");
  sum = LLVMBuildSelect(c->b, none, vtb_cpu_f32(c, INFINITY), sum, "");
  LLVMValueRef row = vtb_cpu_at(c, f->o, vtb_cpu_mul(c, r.i, g->ld_v)),
               i = vtb_cpu_add(c, g->i0, r.i);
  scale_row(c, row, g->ld_v, inverse);
  vtb__row_unpack(c, &cols, row, NULL, vtb__attention_row(g, y, i, g->head));
  vtb_cpu_store(c, sum, vtb__attention_row(g, lse, i, g->head));
  vtb_cpu_for_end(c, &r);
}

static void one_block(forward *f, LLVMValueRef block) {
  vtb__attention *g = &f->g;
  vtb_cpu *c = g->c;
  vtb__attention_block(g, block);
  if (f->q) {
    vtb__attention_pack(g, g->a.q, g->head, g->a.width, g->i0, g->rows, f->q, g->ld_k);
    vtb__attention_turn(g, &g->a.turn[0], g->head, g->i0, g->rows, f->q, g->ld_k);
  }
  vtb__fill(c, f->m, k_(c, g->block), -FLT_MAX);
  vtb__fill(c, f->l, k_(c, g->block), 0);
  vtb_cpu_for t = vtb_cpu_for_begin(c, k_(c, 0), vtb__attention_tiles(g), k_(c, 1));
  one_tile(f, t.i);
  vtb_cpu_for_end(c, &t);
  finish_rows(f, g->a.result[0], g->a.result[1]);
}

static void emit(vtb_cpu *c, const vtb_inst *inst, const vtb__attention *of) {
  forward f = {.g = *of};
  vtb__attention *g = &f.g;
  const vtb_attention *a = &g->a;
  int64_t pairs = a->n_batch * a->n_heads, parts = ceil_div(MIN_TASKS, pairs);
  int64_t per_part = ceil_div(g->n_blocks, parts < g->n_blocks ? parts : g->n_blocks);
  parts = ceil_div(g->n_blocks, per_part);
  double flops =
      2.0 * (double)(per_part * g->block) * (double)a->n_keys * (double)(a->width + a->value_width);
  int64_t grain = (int64_t)(TASK_FLOPS / flops);
  g->t = vtb_cpu_task_begin(c, inst, "attention", pairs * parts, grain);
  f.kt = vtb__attention_scratch(g, g->n_tiles * a->width * g->ld_s);
  f.v = vtb__attention_scratch(g, a->n_keys * g->ld_v);
  f.s = vtb__attention_scratch(g, g->block * g->ld_s);
  f.o = vtb__attention_scratch(g, g->block * g->ld_v);
  f.m = vtb__attention_scratch(g, vtb__padded(c, g->block));
  f.l = vtb__attention_scratch(g, vtb__padded(c, g->block));
  bool packed = a->width % c->width || g->a.turn[1].width;
  LLVMValueRef rows = packed ? vtb__attention_scratch(g, g->tile * g->ld_k) : NULL;
  if (g->a.turn[0].width) f.q = vtb__attention_scratch(g, g->block * g->ld_k);

  LLVMValueRef pair = vtb_cpu_div(c, g->t->index, parts), part = vtb_cpu_rem(c, g->t->index, parts);
  g->batch = vtb_cpu_div(c, pair, a->n_heads);
  g->head = vtb_cpu_rem(c, pair, a->n_heads);
  LLVMValueRef kv = vtb__attention_kv_head(g);
  vtb__attention_transpose(g, g->a.k, kv, a->width, &g->a.turn[1], rows, g->ld_k, f.kt);
  vtb__attention_pack(g, g->a.v, kv, a->value_width, k_(c, 0), k_(c, a->n_keys), f.v, g->ld_v);
  LLVMValueRef from = vtb_cpu_mul(c, part, per_part);
  LLVMValueRef to = vtb_cpu_min(c, vtb_cpu_add(c, from, k_(c, per_part)), k_(c, g->n_blocks));
  vtb_cpu_for blocks = vtb_cpu_for_begin(c, from, to, k_(c, 1));
  one_block(&f, blocks.i);
  vtb_cpu_for_end(c, &blocks);
  vtb_cpu_task_end(c, g->t);
}

void vtb__cpu_attention(vtb_cpu *c, const vtb_inst *inst) {
  vtb__attention g = vtb__attention_make(c, inst);
  emit(c, inst, &g);
}

void vtb__cpu_turned_attention(vtb_cpu *c, const vtb_inst *fused) {
  if (vtb_turned_attention(fused)->op == VTB_OP_attention)
    vtb__cpu_attention(c, fused);
  else
    vtb__cpu_attention_grad(c, fused);
}
